"""One kind of coarse label: a bipartite graph between the fine labels and the labels of the kind.

The edges are stored row by row (compressed sparse rows), each row sorted and normalised to sum 1:

    row i = the parents of fine label i in this kind:   coarse[starts[i]:starts[i+1]],  weight[starts[i]:starts[i+1]]

One parent is the paper's case. Several parents mean *one of* them. An empty row means that the parent is unknown; it is
then a latent variable, distributed like the `prior` of the kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike, NDArray

from finegraph.errors import GraphError, SeveralParentsError, ShapeError
from finegraph.graph.names import kind_name_fault, name_fault, unicode_twins

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
UnknownPrior = Literal["frequency", "uniform"]

BINARY_LABELS = ("no", "yes")
_NORMALISED = 1e-12
"""A row whose weights sum to 1 within this is left as it is, so that writing and reading again changes no bit."""


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of coarse label and its edges to the fine labels.

    Attributes:
        name: what the kind is called.
        labels: its coarse labels, in order; `("no", "yes")` for a binary kind.
        starts: where the row of each fine label starts in `coarse` and `weight`; one longer than the fine labels.
        coarse: the coarse label of each edge.
        weight: the weight of each edge; positive, each row sums to 1.
        unknown_prior: how an unknown parent is distributed: like the known rows, or uniformly.
        ordered: whether the labels are in rising order: mild, medium, hot.
    """

    name: str
    labels: tuple[str, ...]
    starts: Int[IntArray, " row"]
    coarse: Int[IntArray, " edge"]
    weight: Float[FloatArray, " edge"]
    unknown_prior: UnknownPrior = "frequency"
    ordered: bool = False

    def __post_init__(self) -> None:
        _check_names(self.name, self.labels)
        if self.unknown_prior not in ("frequency", "uniform"):
            raise GraphError(
                f"kind {self.name!r}: unknown_prior is 'frequency' or 'uniform', got {self.unknown_prior!r}"
            )
        if self.ordered and len(self.labels) < 2:
            raise GraphError(f"kind {self.name!r}: an order has at least two labels, got {len(self.labels)}")
        starts = np.array(self.starts, dtype=np.int64)  # a copy: the caller's own array stays as it is
        coarse, weight = _canonical_rows(self.name, len(self.labels), starts, self.coarse, self.weight)
        for array in (starts, coarse, weight):
            array.flags.writeable = False
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "ordered", bool(self.ordered))
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "coarse", coarse)
        object.__setattr__(self, "weight", weight)

    @classmethod
    def from_parents(
        cls, name: str, labels: Sequence[str], parents: ArrayLike, unknown_prior: UnknownPrior = "frequency"
    ) -> Kind:
        """The kind in which fine label `i` has the one parent `parents[i]`, or an unknown one where that is -1."""
        given = np.asarray(parents)
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise ShapeError(
                f"kind {name!r}: parents must be one list of whole numbers, got {given.dtype} {given.shape}"
            )
        index = given.astype(np.int64)
        if index.size and (index.min() < -1 or index.max() >= len(labels)):
            bad = int(np.flatnonzero((index < -1) | (index >= len(labels)))[0])
            raise GraphError(
                f"kind {name!r}: the parent of fine label number {bad} is {index[bad]}; "
                f"expected 0 to {len(labels) - 1}, or -1 for unknown"
            )
        known = index >= 0
        starts = np.concatenate([[0], np.cumsum(known)])
        return cls(name, tuple(labels), starts, index[known], np.ones(int(known.sum())), unknown_prior)

    @classmethod
    def from_matrix(
        cls, name: str, labels: Sequence[str], matrix: ArrayLike, unknown_prior: UnknownPrior = "frequency"
    ) -> Kind:
        """The kind whose weights are the rows of a matrix (fine x coarse), the paper's G_j; a zero row is unknown."""
        dense = np.asarray(matrix, dtype=np.float64)
        if dense.ndim != 2 or dense.shape[1] != len(labels):
            raise ShapeError(f"kind {name!r}: expected a matrix with {len(labels)} columns, got shape {dense.shape}")
        if not np.isfinite(dense).all() or (dense < 0).any():
            raise GraphError(f"kind {name!r}: the weights of a matrix must be finite and not negative")
        fine, coarse = np.nonzero(dense)
        starts = np.concatenate([[0], np.cumsum(np.bincount(fine, minlength=dense.shape[0]))])
        return cls(name, tuple(labels), starts, coarse, dense[fine, coarse], unknown_prior)

    @property
    def fine_count(self) -> int:
        """How many fine labels the kind has rows for."""
        return len(self.starts) - 1

    @property
    def binary(self) -> bool:
        """Whether the labels are `no` and `yes`."""
        return self.labels == BINARY_LABELS

    @cached_property
    def row_sizes(self) -> Int[IntArray, " fine"]:
        """The number of parents of each fine label; 0 where the parent is unknown."""
        return np.diff(self.starts)

    @property
    def unknown(self) -> Bool[NDArray[np.bool_], " fine"]:
        """Which fine labels have an unknown parent."""
        return np.asarray(self.row_sizes == 0)

    @property
    def one_parent(self) -> bool:
        """Whether no fine label has several parents (unknown ones are allowed)."""
        return bool((self.row_sizes <= 1).all())

    @cached_property
    def parents(self) -> Int[IntArray, " fine"]:
        """The index of each fine label's parent, -1 where it is unknown."""
        if not self.one_parent:
            row = int(np.flatnonzero(self.row_sizes > 1)[0])
            raise SeveralParentsError(
                f"kind {self.name!r} has fine labels with several parents (the first is number {row}), so there is no "
                f"single parent per fine label; use edges({self.name!r}) instead"
            )
        parents = np.full(self.fine_count, -1, dtype=np.int64)
        parents[self.row_sizes == 1] = self.coarse
        parents.flags.writeable = False
        return parents

    @cached_property
    def edges(self) -> tuple[Int[IntArray, " edge"], Int[IntArray, " edge"], Float[FloatArray, " edge"]]:
        """The edges as (fine index, coarse index, weight), sorted by fine, then coarse index."""
        fine = np.repeat(np.arange(self.fine_count, dtype=np.int64), self.row_sizes)
        fine.flags.writeable = False
        return fine, self.coarse, self.weight

    @cached_property
    def prior(self) -> Float[FloatArray, " label"]:
        """How the parent of a fine label is distributed when it is unknown; sums to 1."""
        mass: FloatArray = np.ones(len(self.labels))
        if self.unknown_prior == "frequency" and len(self.coarse):
            mass = np.bincount(self.coarse, weights=self.weight, minlength=len(self.labels)).astype(np.float64)
        prior: FloatArray = mass / mass.sum()
        prior.flags.writeable = False
        return prior

    def matrix(self) -> Float[FloatArray, "fine label"]:
        """The weights as a matrix (fine x coarse), the paper's G_j; rows of zeros if the parent is unknown."""
        dense = np.zeros((self.fine_count, len(self.labels)))
        fine, coarse, weight = self.edges
        dense[fine, coarse] = weight
        return dense

    def with_matrix(self, matrix: ArrayLike) -> Kind:
        """The same kind with other weights (fine x coarse); a row of zeros is unknown."""
        made = Kind.from_matrix(self.name, self.labels, matrix, self.unknown_prior)
        return replace(made, ordered=self.ordered)

    def rows(self, fine: Int[IntArray, " sample"]) -> Kind:
        """The same kind over some of the fine labels, in the given order."""
        sizes = self.row_sizes[fine]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        offsets = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
        edge = np.repeat(self.starts[:-1][fine], sizes) + offsets
        return replace(self, starts=starts, coarse=self.coarse[edge], weight=self.weight[edge])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Kind):
            return NotImplemented
        return (
            (self.name, self.labels, self.unknown_prior) == (other.name, other.labels, other.unknown_prior)
            and self.ordered == other.ordered
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.coarse, other.coarse)
            and np.array_equal(self.weight, other.weight)
        )

    def __hash__(self) -> int:
        return hash((self.name, self.labels, self.unknown_prior, self.coarse.tobytes()))

    def __repr__(self) -> str:
        return f"Kind({self.name!r}, {len(self.labels)} labels, {len(self.coarse)} edges)"


def _check_names(name: str, labels: Sequence[str]) -> None:
    """Raise if the name of a kind or of one of its labels cannot be used."""
    if fault := kind_name_fault(name):
        raise GraphError(f"kind {name!r}: {fault}")
    if not labels:
        raise GraphError(f"kind {name!r} has no labels; give it at least one, or leave the kind out")
    for label in labels:
        if fault := name_fault(label):
            raise GraphError(f"kind {name!r}, label {label!r}: {fault}")
    if len(set(labels)) != len(labels):
        double = next(label for label, count in Counter(labels).items() if count > 1)
        raise GraphError(f"kind {name!r}: the label {double!r} is listed twice; labels must be distinct")
    for one, two in unicode_twins(labels):
        raise GraphError(
            f"kind {name!r}: the labels {one!r} and {two!r} read the same but are spelt in two Unicode forms"
        )


def _canonical_rows(
    name: str, label_count: int, starts: IntArray, coarse: ArrayLike, weight: ArrayLike
) -> tuple[IntArray, FloatArray]:
    """The edges checked, sorted within each row, and with rows that sum to 1."""
    columns = np.array(coarse, dtype=np.int64)
    weights = np.array(weight, dtype=np.float64)
    if (
        starts.ndim != 1
        or len(starts) == 0
        or starts[0] != 0
        or (np.diff(starts) < 0).any()
        or starts[-1] != len(columns)
    ):
        raise ShapeError(f"kind {name!r}: starts must rise from 0 to the number of edges, {len(columns)}")
    if columns.shape != weights.shape or columns.ndim != 1:
        raise ShapeError(f"kind {name!r}: {columns.shape} edges but {weights.shape} weights")
    if len(columns) == 0:
        return columns, weights
    if columns.min() < 0 or columns.max() >= label_count:
        raise GraphError(f"kind {name!r}: an edge leads to a label outside 0 to {label_count - 1}")
    if not np.isfinite(weights).all() or (weights <= 0).any():
        raise GraphError(f"kind {name!r}: the weights of edges must be finite and greater than 0")
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.lexsort((columns, row))
    columns, weights = columns[order], weights[order]
    if ((np.diff(row) == 0) & (np.diff(columns) == 0)).any():
        twice = int(np.flatnonzero((np.diff(row) == 0) & (np.diff(columns) == 0))[0])
        raise GraphError(f"kind {name!r}: fine label number {row[twice]} is linked to the same label twice")
    sizes = np.diff(starts)
    with np.errstate(over="ignore"):
        sums = np.add.reduceat(weights, starts[:-1][sizes > 0])
    scale = np.ones(len(starts) - 1)
    scale[sizes > 0] = np.where((np.abs(sums - 1) <= _NORMALISED) & (sizes[sizes > 0] > 1), 1.0, sums)
    weights = weights / scale[row]
    if (weights == 0).any():
        bad = int(row[np.flatnonzero(weights == 0)[0]])
        raise GraphError(f"kind {name!r}: the weights of fine label number {bad} are too large or too far apart")
    return columns, weights
