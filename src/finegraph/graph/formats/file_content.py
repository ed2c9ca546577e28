"""What a graph file holds, before it is checked as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from finegraph.graph.kind import Kind
from finegraph.graph.number import Number


class FileContent(NamedTuple):
    """The parts of a graph, as a reader found them."""

    fine: Sequence[str]
    kinds: Sequence[Kind]
    numbers: Sequence[Number] = ()
