"""Splitting joint scores between the fine labels and their kinds, in the one way that is not arbitrary.

Coarse scores are not identifiable: a vector moved from a coarse label to all its children changes no answer. Of all the
splits s = mu + a_i + sum_j b^j[parent_j(i)] that give the same joint scores, take the one with the smallest squares:

    alpha = (I + G G')^-1 (s - mu),    a = alpha,    b^j = G_j' alpha

with mu, a constant that changes no posterior, chosen so that alpha is smallest too. It depends on the posterior alone.
The system is solved for the coarse labels, (I + G' G) beta = G' (s - mu) and alpha = s - mu - G beta, by conjugate
gradients scaled by the number of children. G is only ever multiplied, one gather and one scatter for as many kinds as
fit into a little memory: a few dozen steps, each linear in the graph. Where there are few labels, `factor_of` has
(I + G' G) factorised once for all later calls; then each is two triangular solutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

_PRECISION = 1e-12
_MAX_STEPS = 2000
MAX_TOGETHER = 1 << 20
"""How many numbers are gathered at once; small kinds one by one would take more time in Python than in sums."""
_MAX_LABELS = 1024
_MAX_CELLS = 1 << 22
"""How many coarse labels, and how many of these times fine labels, there may be for a factor."""


@dataclass(frozen=True)
class Links:
    """The edges of one kind as tensors: fine label, coarse label and weight of each, and how many labels there are."""

    fine: Tensor
    coarse: Tensor
    weight: Tensor
    count: int

    def down(self, values: Float[Tensor, "column coarse"], fine_count: int) -> Float[Tensor, "column fine"]:
        """G values: what the parents of each fine label have, summed."""
        out = values.new_zeros(len(values), fine_count)
        parts = values.gather(1, self.coarse.expand(len(values), -1)).mul_(self.weight)
        return out.scatter_add_(1, self.fine.expand(len(values), -1), parts)

    def up(self, values: Float[Tensor, "column fine"]) -> Float[Tensor, "column coarse"]:
        """G' values: what the children of each coarse label have, summed."""
        out = values.new_zeros(len(values), self.count)
        parts = values.gather(1, self.fine.expand(len(values), -1)).mul_(self.weight)
        return out.scatter_add_(1, self.coarse.expand(len(values), -1), parts)


@dataclass(frozen=True)
class Split:
    """A minimum-norm split: the constant, the parts of the fine labels, and those of each kind's labels."""

    constant: Float[Tensor, "column 1"]
    fine: Float[Tensor, "column fine"]
    coarse: list[Float[Tensor, "column _"]]


def minimum_norm_split(
    kinds: Sequence[Links], scores: Float[Tensor, "column fine"], factor: Float[Tensor, "coarse coarse"] | None = None
) -> Split:
    """Split each row of `scores` (float64) between fine labels and kinds.

    Args:
        kinds: the edges of each kind.
        scores: the joint scores.
        factor: what `factor_of` has for these kinds; it makes this quicker and changes nothing.
    """
    solved = _solve(kinds, torch.cat([scores, torch.ones_like(scores[:1])]), factor)
    solved, ones = solved[:-1], solved[-1:]
    constant = solved.sum(dim=1, keepdim=True) / ones.sum()
    alpha = solved - ones * constant
    return Split(constant, alpha, [kind.up(alpha) for kind in kinds])


def factor_of(kinds: Sequence[Links], fine_count: int) -> Float[Tensor, "coarse coarse"] | None:
    """The Cholesky factor of I + G' G, worth keeping; None where there are no labels or it would be large."""
    count = sum(kind.count for kind in kinds)
    if not count or count > _MAX_LABELS or count * fine_count > _MAX_CELLS:
        return None
    edges = side_by_side(kinds)
    matrix = torch.zeros(fine_count, count, dtype=torch.float64)
    matrix.index_put_((edges.fine, edges.coarse), edges.weight, accumulate=True)
    factor: Tensor = torch.linalg.cholesky(torch.eye(count, dtype=torch.float64) + matrix.T @ matrix)
    return factor


def _solve(
    kinds: Sequence[Links], right: Float[Tensor, "column fine"], factor: Float[Tensor, "coarse coarse"] | None
) -> Float[Tensor, "column fine"]:
    """(I + G G')^-1 of each row of `right`."""
    if not kinds:
        return right.clone()
    bundles = _bundles(kinds, MAX_TOGETHER // max(1, len(right)))
    sizes = [bundle.count for bundle in bundles]
    fine_count = right.shape[1]

    def up(values: Float[Tensor, "column fine"]) -> Float[Tensor, "column coarse"]:
        return torch.cat([bundle.up(values) for bundle in bundles], dim=1)

    def down(values: Float[Tensor, "column coarse"]) -> Float[Tensor, "column fine"]:
        total = values.new_zeros(len(values), fine_count)
        for bundle, part in zip(bundles, torch.split(values, sizes, dim=1), strict=True):
            total += bundle.down(part, fine_count)
        return total

    if factor is not None:
        return right - down(torch.cholesky_solve(up(right).T, factor).T)
    scale = torch.cat([torch.bincount(bundle.coarse, bundle.weight**2, bundle.count) for bundle in bundles]).add(1.0)
    residual = up(right)
    solution = torch.zeros_like(residual)
    direction = residual / scale
    size = (residual * direction).sum(dim=1, keepdim=True)
    goal = size * _PRECISION**2
    tiny = torch.finfo(right.dtype).tiny
    for _ in range(_MAX_STEPS):
        if bool((size <= goal).all()):
            break
        image = direction + up(down(direction))
        step = size / (direction * image).sum(dim=1, keepdim=True).clamp_min(tiny)
        solution += step * direction
        residual -= step * image
        scaled = residual / scale
        new_size = (residual * scaled).sum(dim=1, keepdim=True)
        direction = scaled + new_size / size.clamp_min(tiny) * direction
        size = new_size
    return right - down(solution)


def _bundles(kinds: Sequence[Links], max_edges: int) -> list[Links]:
    """Kinds side by side as if they were one, in order; a bundle of several has at most `max_edges` edges."""
    groups: list[list[Links]] = []
    edges = 0
    for kind in kinds:
        if not groups or edges + len(kind.fine) > max_edges:
            groups.append([])
            edges = 0
        groups[-1].append(kind)
        edges += len(kind.fine)
    return [side_by_side(group) for group in groups]


def side_by_side(kinds: Sequence[Links]) -> Links:
    """Kinds as if they were one, the labels of each after those of the one before."""
    if len(kinds) == 1:
        return kinds[0]
    starts = torch.tensor([0, *(kind.count for kind in kinds)]).cumsum(0).tolist()
    return Links(
        torch.cat([kind.fine for kind in kinds]),
        torch.cat([kind.coarse + start for kind, start in zip(kinds, starts[:-1], strict=True)]),
        torch.cat([kind.weight for kind in kinds]),
        starts[-1],
    )
