"""All weight rows of a head on top of each other, V: those of the fine labels, then of the coarse labels of every kind.

Two sparse matrices hold what fitting needs of the label graph, and a vector of scales speeds it up:

    scores   J   score rows = J V.  A kind in which every fine label has one known parent is added into the fine rows
                 here (folding), so that it costs nothing per sample; the rows of other kinds pass through
    prior    P   -log prior = 1/2 trace(V' P V): plain L2 on fine and on coarse rows, and the Laplacian of the graph
    scale    r   V = r U.  In U the prior of each row is about 1/2 |u|^2. The prior, rather than the curvature of the
                 loss, which nearly vanishes when the samples are fitted well, shapes the minimum

Each score is a sum over many kinds, so equal steps in V would change it far too much; in U they do not.

Numbers have rows after those of the coarse labels: one for the pull and, with spreads or unknown values, one for the
precision before softplus, which is the same for all samples. The pull of a number with exact values folds too: a fine
label of value v gets v times its row. The effect of its precision is absorbed by the biases of the fine labels.

If coarse labels have features of their own, fine and coarse rows do not stack: they form two blocks with a piece of
each matrix, and a score is the sum of both. Cost: linear in the edges of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from finegraph.graph import Kind, LabelGraph

_CURVATURE_SHARE = 1e-3
"""The share of the loss's curvature at V = 0 that is added to the prior; it matters if the prior is weak."""

Blocks = tuple[Float[Tensor, "_ _"], ...]
"""The rows V: all of them in one matrix, or those of fine and of coarse labels in two."""


class Strengths(NamedTuple):
    """The strengths of the priors: plain L2 on the fine and on the coarse rows, and the Laplacian."""

    fine: float
    coarse: float
    laplacian: float


@dataclass(frozen=True)
class RowBlock:
    """Rows on one feature.

    Attributes:
        scores: (score row, row) the columns of J of these rows, sparse; the first of two blocks has fine scores only.
        prior: per block that the prior ties these rows to, by number, the piece (row, row of that block) of P, sparse.
        scale: (row) r.
    """

    scores: Float[Tensor, "_ row"]
    prior: Mapping[int, Float[Tensor, "_ _"]]
    scale: Float[Tensor, " row"]


@dataclass(frozen=True)
class Rows:
    """The rows of a head; see the top of this file.

    Attributes:
        fine_count: how many rows belong to fine labels.
        score_count: how many score rows there are.
        unfolded: per kind that cannot be folded, and per number with spreads or unknown values, its slice of the score
            rows.
        constant: the rows of the last block whose weights are held at 0, so that only their biases are fitted.
        blocks: all rows in one, or those of fine and of coarse labels in two.
    """

    fine_count: int
    score_count: int
    unfolded: Mapping[str, slice]
    constant: tuple[int, ...]
    blocks: tuple[RowBlock, ...]


class _Entries(NamedTuple):
    """Entries of a sparse matrix."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    value: NDArray[np.float64]

    def piece(self, rows: slice, columns: slice) -> _Entries:
        """The entries in some rows and columns, with indices relative to these."""
        inside = (rows.start <= self.row) & (self.row < rows.stop)
        inside &= (columns.start <= self.column) & (self.column < columns.stop)
        return _Entries(self.row[inside] - rows.start, self.column[inside] - columns.start, self.value[inside])


def rows_of(
    graph: LabelGraph,
    kinds: Sequence[str],
    strengths: Strengths,
    variances: Sequence[float],
    like: Float[Tensor, " ..."],
    numbers: Mapping[str, bool] | None = None,
) -> Rows:
    """The rows of a head.

    Args:
        graph: the label graph.
        kinds: the kinds with scores of their own: all for a bipartite head, none for softmax.
        strengths: the strengths of the priors.
        variances: the mean variance of a column of the features; a second number if coarse labels have their own.
        like: a tensor with the dtype and device to use.
        numbers: the numbers with scores of their own, all for a bipartite head and none for softmax, and whether all
            their values are known and exact; see `exact_numbers`.
    """
    fine = len(graph)
    chosen = [graph.kind(name) for name in kinds]
    starts = (fine + np.concatenate([[0], np.cumsum([len(kind.labels) for kind in chosen])])).astype(np.int64)
    numbers = numbers or {}
    scores, unfolded, score_count = _scores(graph, chosen, numbers, starts, fine)
    total = int(starts[-1]) + sum(len(places) for places in number_rows(numbers).values())
    prior = _prior(chosen, starts, fine, total, strengths)
    ends = [total] if len(variances) == 1 else [fine, total]
    parts = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    curvature = _curvature(chosen, total, starts, fine)
    for part, variance in zip(parts, variances, strict=True):
        curvature[part] *= _CURVATURE_SHARE * variance / fine
    size = _diagonal(prior, total) + curvature
    # A row that affects neither prior nor loss, such as that of a label without children, stays at 0.
    scale = torch.from_numpy(np.where(size > 0, 1 / np.sqrt(np.where(size > 0, size, 1.0)), 0.0)).to(like)
    blocks = []
    for part in parts:
        own_scores = slice(0, score_count if part is parts[-1] else fine)
        pieces = {number: prior.piece(part, other) for number, other in enumerate(parts)}
        tied = {
            number: _sparse(piece, part, parts[number], like) for number, piece in pieces.items() if len(piece.value)
        }
        blocks.append(RowBlock(_sparse(scores.piece(own_scores, part), own_scores, part, like), tied, scale[part]))
    precisions = [own.start + 1 for name, own in unfolded.items() if name in numbers]
    constant = tuple(parts[-1].stop - parts[-1].start - (score_count - row) for row in precisions)
    return Rows(fine, score_count, unfolded, constant, tuple(blocks))


def exact_numbers(graph: LabelGraph) -> dict[str, bool]:
    """For each number whether all its values are known and exact."""
    numbers = [graph.number(name) for name in graph.numbers]
    return {one.name: bool(one.known.all()) and not bool(one.spreads.any()) for one in numbers}


def number_rows(numbers: Mapping[str, bool]) -> dict[str, range]:
    """The rows of numbers, counted from the first: the pull and, unless all values are exact, the precision.

    Numbers with exact values come first, so that the other rows have the order of their score rows.
    """
    found: dict[str, range] = {}
    start = 0
    for name, exact in sorted(numbers.items(), key=lambda one: not one[1]):
        found[name] = range(start, start + (1 if exact else 2))
        start = found[name].stop
    return found


def _scores(
    graph: LabelGraph, kinds: list[Kind], numbers: Mapping[str, bool], starts: NDArray[np.int64], fine: int
) -> tuple[_Entries, dict[str, slice], int]:
    """The entries of J, the score rows that do not fold, and the number of score rows."""
    row, column, value = [np.arange(fine)], [np.arange(fine)], [np.ones(fine)]
    unfolded: dict[str, slice] = {}
    count = fine
    for kind, start in zip(kinds, starts, strict=False):
        if bool((kind.row_sizes == 1).all()):
            row.append(np.arange(fine))
            column.append(start + kind.coarse)
        else:
            unfolded[kind.name] = slice(count, count + len(kind.labels))
            row.append(np.arange(count, count + len(kind.labels)))
            column.append(np.arange(start, start + len(kind.labels)))
            count += len(kind.labels)
        value.append(np.ones(len(row[-1])))
    for name, places in number_rows(numbers).items():
        own = int(starts[-1]) + np.array(places)
        if numbers[name]:
            row.append(np.arange(fine))
            column.append(np.full(fine, own[0]))
            value.append(graph.number(name).standardised[0])
        else:
            unfolded[name] = slice(count, count + 2)
            row.append(np.arange(count, count + 2))
            column.append(own)
            value.append(np.ones(2))
            count += 2
    return _Entries(np.concatenate(row), np.concatenate(column), np.concatenate(value)), unfolded, count


def _prior(kinds: list[Kind], starts: NDArray[np.int64], fine: int, total: int, strengths: Strengths) -> _Entries:
    """The entries of P: the strengths of plain L2, and the Laplacian, in which an unknown parent is no edge."""
    plain = np.concatenate([np.full(fine, strengths.fine), np.full(total - fine, strengths.coarse)])
    row, column, value = [np.arange(total)], [np.arange(total)], [plain]
    if strengths.laplacian > 0:
        for kind, start in zip(kinds, starts, strict=False):
            child, label, weight = kind.edges
            parent, force = start + label, strengths.laplacian * weight
            row += [child, parent, child, parent]
            column += [child, parent, parent, child]
            value += [force, force, -force, -force]
            if kind.ordered:
                lower = start + np.arange(len(kind.labels) - 1)
                one = np.full(len(lower), strengths.laplacian)
                row += [lower, lower + 1, lower, lower + 1]
                column += [lower, lower + 1, lower + 1, lower]
                value += [one, one, -one, -one]
    return _Entries(np.concatenate(row), np.concatenate(column), np.concatenate(value))


def _curvature(kinds: list[Kind], total: int, starts: NDArray[np.int64], fine: int) -> NDArray[np.float64]:
    """For each row, how strongly it moves all joint scores: the sum of its squared weights in them."""
    # Inner values have a mean square of 1, which is about what a precision multiplies, too.
    curvature = np.full(total, float(fine))
    curvature[:fine] = 1.0
    for kind, start in zip(kinds, starts, strict=False):
        own = np.bincount(kind.coarse, weights=kind.weight**2, minlength=len(kind.labels))
        unknown = kind.prior**2 * kind.unknown.sum()
        curvature[start : start + len(kind.labels)] = own + unknown
    return curvature


def _diagonal(entries: _Entries, size: int) -> NDArray[np.float64]:
    on = entries.row == entries.column
    return np.bincount(entries.row[on], weights=entries.value[on], minlength=size).astype(np.float64)


def _sparse(entries: _Entries, rows: slice, columns: slice, like: Tensor) -> Tensor:
    """The sparse matrix of some rows and columns; entries at the same place are summed."""
    shape = (rows.stop - rows.start, columns.stop - columns.start)
    place = torch.from_numpy(np.stack([entries.row, entries.column]))
    value = torch.from_numpy(entries.value)
    return torch.sparse_coo_tensor(place, value, shape, check_invariants=True).coalesce().to(like)
