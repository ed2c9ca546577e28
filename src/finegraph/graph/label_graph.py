r"""The label graph: fine labels, and for each kind how they are linked to its coarse labels.

A `LabelGraph` is a value: immutable, validated when it is made, comparable and hashable. It knows nothing of networks
or tensors. Memory and time are linear in the number of edges.

    fine labels      "mapo tofu @ A"   "mapo tofu @ B"   "kung pao @ B"
                            |   \         |      |  \           |
    coarse labels     dish: mapo tofu ---+      |   restaurant: B      one bipartite graph per kind, together a star
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from finegraph.errors import EmptyGraphError, GraphError, ShapeError, UnknownNameError, unknown_name
from finegraph.graph.faults import one_fault
from finegraph.graph.formats.by_ending import read_graph_file, write_graph_file
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.graph.graph_like import FileContent
from finegraph.graph.kind import BINARY_LABELS, FloatArray, IntArray, Kind, UnknownPrior
from finegraph.graph.names import name_fault, unicode_twins
from finegraph.graph.new_labels import with_rows
from finegraph.graph.number import Number
from finegraph.graph.photo_labels import Contradiction, blended_kinds, contradictions
from finegraph.graph.tables import TypeLike, parts_of_table


class LabelGraph:
    """Fine labels and their coarse labels of several kinds.

    Make one with `read`, `from_table`, `from_parents` or `from_matrix`.

    Example:
        >>> graph = LabelGraph.from_table({
        ...     "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "tofu": True},
        ...     "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "tofu": True},
        ...     "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "tofu": False},
        ... })
        >>> graph.kinds
        ('dish', 'restaurant', 'tofu')
        >>> graph.labels("tofu"), graph.parents("dish").tolist()
        (('no', 'yes'), [0, 0, 1])
    """

    def __init__(self, fine: Iterable[str], kinds: Iterable[Kind] = (), numbers: Iterable[Number] = ()) -> None:
        self._fine = tuple(fine)
        kinds, numbers = tuple(kinds), tuple(numbers)
        self._kinds = {kind.name: kind for kind in kinds}
        self._numbers = {number.name: number for number in numbers}
        self.derived: dict[object, object] = {}
        """Cached results that upper layers derive from this graph; not part of its value."""
        _check_fine(self._fine)
        _check_parts(len(self._fine), kinds, numbers)

    # ---- construction ------------------------------------------------------------------------------------------------

    @classmethod
    def from_table(
        cls, table: Mapping[str, Mapping[str, object]], types: Mapping[str, TypeLike] | None = None
    ) -> LabelGraph:
        """The graph of a table: fine label -> kind -> label.

        A label is text; True and False make a binary kind; None or a missing entry is unknown; a set is one of several
        parents; a mapping gives them weights; a list means that all of them hold and becomes a group of binary kinds.

        Args:
            table: the labels and values of each fine label.
            types: the types of columns that are not plain kinds: `"number"` or `"log number"`, with a unit as in
                `"number, EUR"`, or labels in rising order, `("mild", "hot")`. A number is a float, a pair with
                its spread, or text as in a graph file, such as `"12.5 +- 1.5"`.
        """
        return cls(*parts_of_table(table, types or {}))

    @classmethod
    def from_parents(
        cls,
        fine: Sequence[str],
        parents: Mapping[str, ArrayLike],
        labels: Mapping[str, Sequence[str]] | None = None,
    ) -> LabelGraph:
        """The graph in which each fine label has one parent per kind.

        Args:
            fine: the fine labels.
            parents: per kind, the index of each fine label's parent, -1 for unknown.
            labels: per kind, the names of the coarse labels; by default `"0"`, `"1"`, and so on.
        """
        names = labels or {}
        for name in names:
            if name not in parents:
                raise unknown_name("kind", name, tuple(parents), "in labels")
        kinds = []
        for name, index in parents.items():
            count = int(np.max(index, initial=-1)) + 1
            kinds.append(Kind.from_parents(name, names.get(name) or [str(c) for c in range(count)], index))
        return cls(fine, kinds)

    @classmethod
    def from_matrix(
        cls,
        fine: Sequence[str],
        matrices: Mapping[str, ArrayLike],
        labels: Mapping[str, Sequence[str]] | None = None,
    ) -> LabelGraph:
        """The graph of association matrices (fine x coarse), the paper's G_j; a row of zeros is unknown."""
        names = labels or {}
        for name in names:
            if name not in matrices:
                raise unknown_name("kind", name, tuple(matrices), "in labels")
        kinds = []
        for name, matrix in matrices.items():
            dense = np.asarray(matrix, dtype=np.float64)
            if dense.ndim != 2:
                raise ShapeError(f"kind {name!r}: expected a matrix (fine x coarse), got shape {dense.shape}")
            kinds.append(Kind.from_matrix(name, names.get(name) or [str(c) for c in range(dense.shape[1])], dense))
        return cls(fine, kinds)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> LabelGraph:
        """Read a graph file, CSV or JSON by the ending of its name. All faults of the file come in one error."""
        name = os.fspath(path)
        content, _ = read_graph_file(name)
        return graph_of_file(name, content)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the graph as CSV or JSON by the ending of the name; reading it again gives an equal graph."""
        write_graph_file(self, os.fspath(path))

    # ---- access ------------------------------------------------------------------------------------------------------

    @property
    def fine(self) -> tuple[str, ...]:
        """The fine labels, in order."""
        return self._fine

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the kinds, in order."""
        return tuple(self._kinds)

    def kind(self, name: str) -> Kind:
        """One kind with its labels and edges."""
        try:
            return self._kinds[name]
        except (KeyError, TypeError):
            if name in self.numbers:
                raise UnknownNameError(f"{name!r} is a number of the graph, not a kind with labels") from None
            raise unknown_name("kind", name, self.kinds) from None

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the kinds of numbers, in order."""
        return tuple(self._numbers)

    def number(self, name: str) -> Number:
        """One kind of numbers with its values, spreads, scale and unit."""
        try:
            return self._numbers[name]
        except (KeyError, TypeError):
            if name in self.kinds:
                raise UnknownNameError(f"{name!r} is a kind with labels, not a number of the graph") from None
            raise unknown_name("number", name, self.numbers) from None

    def values(self, number: str) -> Float[FloatArray, " fine"]:
        """The value of each fine label, NaN where unknown."""
        return self.number(number).values.copy()

    def labels(self, kind: str) -> tuple[str, ...]:
        """The coarse labels of a kind, in order; `("no", "yes")` for a binary kind."""
        return self.kind(kind).labels

    def parents(self, kind: str) -> Int[IntArray, " fine"]:
        """The index of each fine label's parent, -1 where unknown; for kinds with at most one parent per fine label."""
        return self.kind(kind).parents.copy()

    def edges(self, kind: str) -> tuple[Int[IntArray, " edge"], Int[IntArray, " edge"], Float[FloatArray, " edge"]]:
        """The edges of a kind as (fine index, coarse index, weight)."""
        fine, coarse, weight = self.kind(kind).edges
        return fine.copy(), coarse.copy(), weight.copy()

    def matrix(self, kind: str) -> Float[FloatArray, "fine label"]:
        """The weights of a kind as a matrix (fine x coarse), the paper's G_j; zeros if the parent is unknown."""
        return self.kind(kind).matrix()

    @cached_property
    def _fine_index(self) -> Mapping[str, int]:
        return MappingProxyType({name: index for index, name in enumerate(self._fine)})

    @cached_property
    def _label_index(self) -> Mapping[str, Mapping[str, int]]:
        return MappingProxyType({name: {c: i for i, c in enumerate(kind.labels)} for name, kind in self._kinds.items()})

    def fine_index(self, label: str) -> int:
        """The index of a fine label."""
        try:
            return self._fine_index[label]
        except (KeyError, TypeError):
            raise unknown_name("fine label", label, self._fine) from None

    def label_index(self, kind: str, label: str | bool) -> int:
        """The index of a coarse label of a kind; True and False mean yes and no of a binary kind."""
        labels = self.labels(kind)
        name = BINARY_LABELS[int(label)] if isinstance(label, bool) and labels == BINARY_LABELS else label
        try:
            return self._label_index[kind][name]  # type: ignore[index]  # a bool that is no name is reported below
        except (KeyError, TypeError):
            raise unknown_name("label", label, labels, f"of kind {kind!r}") from None

    # ---- modified copies ---------------------------------------------------------------------------------------------

    def only(self, kinds: Iterable[str]) -> LabelGraph:
        """The graph with some of its kinds and numbers, in the given order."""
        names = list(kinds)
        numbers = [name for name in names if name in self.numbers]
        chosen = [self.kind(name) for name in names if name not in self.numbers]
        return LabelGraph(self._fine, chosen, [self.number(name) for name in numbers])

    def with_kind(self, kind: Kind) -> LabelGraph:
        """The graph with this kind added, or in place of the kind with the same name."""
        return LabelGraph(self._fine, {**self._kinds, kind.name: kind}.values(), self._numbers.values())

    def with_number(self, number: Number) -> LabelGraph:
        """The graph with this kind of numbers added, or in place of the one with the same name."""
        return LabelGraph(self._fine, self._kinds.values(), {**self._numbers, number.name: number}.values())

    def with_fine(self, rows: Mapping[str, Mapping[str, object]]) -> LabelGraph:
        """The graph with more fine labels after its own.

        Args:
            rows: fine label -> kind -> label, as in `from_table`. A missing kind is unknown; a label that the kind
                does not have yet is added, unless the kind is ordered. A group of binary kinds may be given as
                a list of what holds; a number as a float, a pair with its spread, or text such as "12.5 +- 1.5".

        Example:
            >>> graph = LabelGraph.from_table({"ramen @ A": {"dish": "ramen", "restaurant": "A"}})
            >>> graph.with_fine({"ramen @ B": {"dish": "ramen", "restaurant": "B"}}).labels("restaurant")
            ('A', 'B')
        """
        return LabelGraph(*with_rows(self, rows))

    def with_unknown_prior(self, prior: UnknownPrior, kinds: Iterable[str] | None = None) -> LabelGraph:
        """The graph with unknown parents distributed like the known ones ("frequency") or evenly ("uniform")."""
        chosen = set(self.kinds if kinds is None else [self.kind(name).name for name in kinds])
        return LabelGraph(
            self._fine,
            [replace(kind, unknown_prior=prior) if kind.name in chosen else kind for kind in self._kinds.values()],
            self._numbers.values(),
        )

    def with_photo_labels(self, counts: Mapping[str, ArrayLike], smoothing: float = 1.0) -> LabelGraph:
        """The graph with links weighted by what photos show.

        Args:
            counts: per kind, how many photos of each fine label showed each coarse label (fine x coarse).
            smoothing: how many photos the original link counts as.
        """
        return LabelGraph(self._fine, blended_kinds(self, counts, smoothing), self._numbers.values())

    def with_image_labels(self, counts: Mapping[str, ArrayLike], smoothing: float = 1.0) -> LabelGraph:
        """The former name of `with_photo_labels`."""
        warnings.warn("with_image_labels is called with_photo_labels now", DeprecationWarning, stacklevel=2)
        return self.with_photo_labels(counts, smoothing)

    def contradictions(self, counts: Mapping[str, ArrayLike]) -> list[Contradiction]:
        """What photos show although the graph gives it weight 0 for their fine label, the most frequent first.

        Args:
            counts: per kind, how many photos of each fine label showed each coarse label (fine x coarse).
        """
        return contradictions(self, counts)

    # ---- value semantics ---------------------------------------------------------------------------------------------

    @cached_property
    def digest(self) -> str:
        """A fingerprint of all names, their order and all edges; saved with weights trained for this graph."""
        return hashlib.sha256(canonical_json(self).encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._fine)

    @property
    def _parts(self) -> tuple[tuple[str, ...], tuple[Kind, ...], tuple[Number, ...]]:
        """Everything that equality compares."""
        return self._fine, tuple(self._kinds.values()), tuple(self._numbers.values())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelGraph):
            return NotImplemented
        return self is other or self._parts == other._parts

    @cached_property
    def _hash(self) -> int:
        return hash(self._parts)

    def __hash__(self) -> int:
        return self._hash

    def __copy__(self) -> LabelGraph:
        return self

    def __deepcopy__(self, memo: object) -> LabelGraph:
        return self

    def __reduce__(self) -> tuple[type[LabelGraph], tuple[object, ...]]:
        return LabelGraph, self._parts

    def __repr__(self) -> str:
        kinds = ", ".join(f"{name!r}: {len(kind.labels)}" for name, kind in list(self._kinds.items())[:6])
        more = f", and {len(self._kinds) - 6} more" if len(self._kinds) > 6 else ""
        numbers = f", numbers {', '.join(map(repr, self._numbers))}" if self._numbers else ""
        return f"LabelGraph({len(self._fine)} fine labels, kinds {{{kinds}{more}}}{numbers})"


def graph_of_file(path: str, content: FileContent) -> LabelGraph:
    """The graph of the parts read from a file.

    Raises:
        GraphFileError: each part could be read, but together they are not a valid graph.
    """
    try:
        return LabelGraph(*content)
    except GraphError as error:
        raise one_fault(path, "bad-graph", str(error)) from error


def _check_fine(fine: Sequence[str]) -> None:
    """Raise if there is no fine label, or one cannot be used."""
    if not fine:
        raise EmptyGraphError("a label graph needs at least one fine label, got none")
    for number, name in enumerate(fine):
        if fault := name_fault(name):
            raise GraphError(f"fine label number {number}, {name!r}: {fault}")
    if len(set(fine)) != len(fine):
        seen: set[str] = set()
        for name in fine:
            if name in seen:
                raise GraphError(f"the fine label {name!r} is given twice; fine labels must be distinct")
            seen.add(name)
    for one, two in unicode_twins(fine):
        raise GraphError(f"the fine labels {one!r} and {two!r} read the same but are spelt in two Unicode forms")


def _check_parts(fine_count: int, kinds: Sequence[Kind], numbers: Sequence[Number]) -> None:
    """Raise if two kinds or numbers share a name, or one has the wrong number of rows."""
    parts: list[Kind | Number] = [*kinds, *numbers]
    names = [part.name for part in parts]
    if len(set(names)) != len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise GraphError(f"the kind {double!r} is given twice; kinds must have distinct names")
    for one, two in unicode_twins(names):
        raise GraphError(f"the kinds {one!r} and {two!r} read the same but are spelt in two Unicode forms")
    for part in parts:
        if part.fine_count != fine_count:
            what = "kind" if isinstance(part, Kind) else "number"
            raise ShapeError(f"{what} {part.name!r} has {part.fine_count} rows for {fine_count} fine labels")
