"""Splitting joint scores between the fine labels and their kinds, in the one way that is not arbitrary.

Coarse scores are not identifiable: a vector moved from a coarse label to all its children changes no answer. Of all the
splits s = mu + a_i + sum_j b^j[parent_j(i)] that give the same joint scores, take the one with the smallest squares:

    alpha = (I + G G')^-1 (s - mu),    a = alpha,    b^j = G_j' alpha

with mu, a constant that changes no posterior, chosen so that alpha is smallest too. It depends on the posterior alone.
G is only ever multiplied, one gather and one segment sum per kind, inside conjugate gradients: linear in the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

_PRECISION = 1e-13
_MOST_STEPS = 2000


@dataclass(frozen=True)
class Links:
    """The edges of one kind as tensors: fine label, coarse label and weight of each, and the number of coarse labels."""

    fine: Tensor
    coarse: Tensor
    weight: Tensor
    count: int

    def down(self, values: Float[Tensor, "coarse column"], fine_count: int) -> Float[Tensor, "fine column"]:
        """G values: what the parents of each fine label have, summed."""
        out = values.new_zeros(fine_count, values.shape[1])
        return out.index_add_(0, self.fine, values.index_select(0, self.coarse) * self.weight.unsqueeze(1))

    def up(self, values: Float[Tensor, "fine column"]) -> Float[Tensor, "coarse column"]:
        """G' values: what the children of each coarse label have, summed."""
        out = values.new_zeros(self.count, values.shape[1])
        return out.index_add_(0, self.coarse, values.index_select(0, self.fine) * self.weight.unsqueeze(1))


@dataclass(frozen=True)
class Split:
    """A minimum-norm split: the constant, the parts of the fine labels, and those of each kind's labels."""

    constant: Float[Tensor, "1 column"]
    fine: Float[Tensor, "fine column"]
    coarse: list[Float[Tensor, "_ column"]]


def minimum_norm_split(kinds: Sequence[Links], scores: Float[Tensor, "fine column"]) -> Split:
    """Split each column of `scores` (float64) between fine labels and kinds."""
    ones = torch.ones(len(scores), 1, dtype=scores.dtype, device=scores.device)
    solved = _solve(kinds, torch.cat([scores, ones], dim=1))
    solved, solved_ones = solved[:, :-1], solved[:, -1:]
    constant = solved.sum(dim=0, keepdim=True) / solved_ones.sum()
    alpha = solved - solved_ones * constant
    return Split(constant, alpha, [kind.up(alpha) for kind in kinds])


def _solve(kinds: Sequence[Links], right: Float[Tensor, "fine column"]) -> Float[Tensor, "fine column"]:
    """(I + G G')^-1 right, by conjugate gradients on all columns at once."""
    solution = torch.zeros_like(right)
    residual = right.clone()
    direction = residual.clone()
    size = (residual * residual).sum(dim=0)
    goal = size * _PRECISION**2
    for _ in range(_MOST_STEPS):
        if bool((size <= goal).all()):
            break
        image = direction.clone()
        for kind in kinds:
            image += kind.down(kind.up(direction), len(right))
        step = size / (direction * image).sum(dim=0).clamp_min(torch.finfo(right.dtype).tiny)
        solution += step * direction
        residual -= step * image
        new_size = (residual * residual).sum(dim=0)
        direction = residual + new_size / size.clamp_min(torch.finfo(right.dtype).tiny) * direction
        size = new_size
    return solution
