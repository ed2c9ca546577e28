"""The interface of a graph, for modules that `LabelGraph` itself imports, and its parts as a reader finds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from finegraph.graph.kind import Kind
from finegraph.graph.number import Number


@runtime_checkable
class GraphLike(Protocol):
    """The part of `LabelGraph` that the modules it imports rely on."""

    @property
    def fine(self) -> tuple[str, ...]:
        """The fine labels, in order."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the kinds, in order."""

    def kind(self, name: str) -> Kind:
        """One kind with its labels and edges."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the kinds of numbers, in order."""

    def number(self, name: str) -> Number:
        """One kind of numbers with its values."""

    def labels(self, kind: str) -> tuple[str, ...]:
        """The coarse labels of a kind, in order."""

    def fine_index(self, label: str) -> int:
        """The index of a fine label."""

    def label_index(self, kind: str, label: str | bool) -> int:
        """The index of a coarse label of a kind."""

    def __len__(self) -> int:
        """How many fine labels there are."""


class FileContent(NamedTuple):
    """The parts of a graph, as a reader found them."""

    fine: Sequence[str]
    kinds: Sequence[Kind]
    numbers: Sequence[Number] = ()
