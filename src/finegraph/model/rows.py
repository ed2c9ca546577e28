"""All weight rows of a head on top of each other, V: those of the fine labels, then of the coarse labels of every kind.

Three sparse matrices say all that fitting needs to know of the label graph:

    scores      J   score rows = J V.  A kind in which every fine label has one known parent is added into the fine rows
                    here (folding), so that it costs nothing per sample; rows of the other kinds pass through
    prior       P   -log prior = 1/2 trace(V' P V): plain L2 on fine and on coarse rows, and the Laplacian of the graph
    curvature   H   about the second derivative of the loss for V, times the number of fine labels, where V = 0

H and P together give coordinates in which the loss is about equally curved in every direction, so that descent does not
crawl although each score is a sum over many kinds. Cost: linear in the edges; the coordinates need an eigendecomposition
of size fine + coarse labels, and up to `MOST_ROWS` of them take one. Larger graphs scale each row on its own instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from finegraph.graph import Kind, LabelGraph

MOST_ROWS = 1500
"""Above this many rows they are scaled one by one rather than by an eigendecomposition."""
_NOTHING = 1e-10
"""Directions whose curvature and prior are below this share of the largest change nothing: there is only rounding."""


class Strengths(NamedTuple):
    """How strong the priors are: plain L2 on the fine and on the coarse rows, and the Laplacian."""

    fine: float
    coarse: float
    laplacian: float


@dataclass(frozen=True)
class Rows:
    """The rows of a head and the matrices of the top of this file.

    Attributes:
        fine_count: how many rows belong to fine labels.
        unfolded: per kind that cannot be folded, its slice of the score rows.
        scores: (score row, row) J.
        prior: (row, row) P.
        curvature: (row, row) H.
    """

    fine_count: int
    unfolded: Mapping[str, slice]
    scores: Tensor
    prior: Tensor
    curvature: Tensor

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.prior.shape[0])


class Coordinates(NamedTuple):
    """Coordinates for V: V = basis @ coordinates, in which H and P are both about diagonal.

    Attributes:
        basis: (row, coordinate); sparse where rows are only scaled.
        curvature: (coordinate) H.
        prior: (coordinate) P.
    """

    basis: Tensor
    curvature: Tensor
    prior: Tensor


def softmax_rows(graph: LabelGraph, strength: float, like: Tensor) -> Rows:
    """The rows of a head with fine scores only."""
    identity = _diagonal(np.ones(len(graph)), like)
    return Rows(len(graph), {}, identity, _diagonal(np.full(len(graph), strength), like), identity)


def bipartite_rows(graph: LabelGraph, strengths: Strengths, like: Tensor) -> Rows:
    """The rows of a head with fine and coarse scores, in the number format and on the device of `like`."""
    fine = len(graph)
    kinds = [graph.kind(name) for name in graph.kinds]
    starts = fine + np.concatenate([[0], np.cumsum([len(kind.labels) for kind in kinds])]).astype(np.int64)
    score_row, row = [np.arange(fine)], [np.arange(fine)]
    unfolded: dict[str, slice] = {}
    score_rows = fine
    for kind, start in zip(kinds, starts, strict=False):
        if bool((kind.row_sizes == 1).all()):
            score_row.append(np.arange(fine))
            row.append(start + kind.coarse)
        else:
            unfolded[kind.name] = slice(score_rows, score_rows + len(kind.labels))
            score_row.append(np.arange(score_rows, score_rows + len(kind.labels)))
            row.append(np.arange(start, start + len(kind.labels)))
            score_rows += len(kind.labels)
    place = (np.concatenate(score_row), np.concatenate(row))
    scores = _sparse(*place, np.ones(len(place[0])), (score_rows, int(starts[-1])), like)
    return Rows(
        fine, unfolded, scores, _prior(kinds, starts, fine, strengths, like), _curvature(kinds, starts, fine, like)
    )


def coordinates(rows: Rows, scale: float) -> Coordinates:
    """Coordinates in which `scale * H + P` is about the identity."""
    if rows.count > MOST_ROWS:
        curvature, prior = (_diagonal_of(matrix) for matrix in (rows.curvature, rows.prior))
        length = (scale * curvature + prior).rsqrt()
        return Coordinates(_diagonal(length.cpu().numpy(), length), curvature * length**2, prior * length**2)
    curvature, prior = (matrix.to_dense().double() for matrix in (rows.curvature, rows.prior))
    # Both matrices become diagonal together: first their sum is made the identity, then H is turned onto its own axes.
    size, axes = torch.linalg.eigh(scale * curvature + prior)
    kept = size > _NOTHING * size[-1]
    white = axes[:, kept] * size[kept].rsqrt()
    share, turn = torch.linalg.eigh(white.t() @ curvature @ white)
    share = torch.where(share > _NOTHING * share[-1], share, 0.0)
    like = rows.prior.dtype
    return Coordinates((white @ turn).to(like), share.to(like), (1.0 - scale * share).clamp_min(0.0).to(like))


def _prior(kinds: list[Kind], starts: NDArray[np.int64], fine: int, strengths: Strengths, like: Tensor) -> Tensor:
    """P: the strengths of plain L2 on the diagonal, plus the Laplacian, in which an unknown parent is no edge."""
    total = int(starts[-1])
    diagonal = np.concatenate([np.full(fine, strengths.fine), np.full(total - fine, strengths.coarse)])
    row, column, value = [np.arange(total)], [np.arange(total)], [diagonal]
    if strengths.laplacian > 0:
        for kind, start in zip(kinds, starts, strict=False):
            child, label, weight = kind.edges
            parent, force = start + label, strengths.laplacian * weight
            row += [child, parent, child, parent]
            column += [child, parent, parent, child]
            value += [force, force, -force, -force]
    return _sparse(np.concatenate(row), np.concatenate(column), np.concatenate(value), (total, total), like)


def _curvature(kinds: list[Kind], starts: NDArray[np.int64], fine: int, like: Tensor) -> Tensor:
    """H: the product of the derivative of the joint scores with itself; rows that mix parents count on their own too."""
    total = int(starts[-1])
    row, column, value = [np.arange(fine)], [np.arange(fine)], [np.ones(fine)]
    own = np.zeros(total)
    for kind, start in zip(kinds, starts, strict=False):
        child, label, weight = kind.edges
        row.append(child)
        column.append(start + label)
        value.append(weight)
        unknown = np.flatnonzero(kind.unknown)
        if len(unknown) or bool((kind.row_sizes > 1).any()):
            own[start : start + len(kind.labels)] = 1.0
    joint = _sparse(np.concatenate(row), np.concatenate(column), np.concatenate(value), (fine, total), like)
    if total > MOST_ROWS:
        squares = np.bincount(np.concatenate(column), weights=np.concatenate(value) ** 2, minlength=total)
        return _diagonal(squares + own, like)
    dense = joint.to_dense()
    return (dense.t() @ dense + torch.diag(torch.from_numpy(own).to(dense))).to_sparse()


def _sparse(
    row: NDArray[np.int64], column: NDArray[np.int64], value: NDArray[np.float64], shape: tuple[int, int], like: Tensor
) -> Tensor:
    """A sparse matrix; entries at the same place are summed."""
    place = torch.from_numpy(np.stack([row, column]))
    matrix = torch.sparse_coo_tensor(place, torch.from_numpy(value).to(like.dtype), shape, check_invariants=True)
    return matrix.coalesce().to(like.device)


def _diagonal(value: NDArray[np.float64], like: Tensor) -> Tensor:
    place = np.arange(len(value))
    return _sparse(place, place, value, (len(value), len(value)), like)


def _diagonal_of(matrix: Tensor) -> Float[Tensor, " row"]:
    """The diagonal of a sparse square matrix."""
    row, column = matrix.indices()
    on = row == column
    return matrix.values().new_zeros(matrix.shape[0]).index_add_(0, row[on], matrix.values()[on])
