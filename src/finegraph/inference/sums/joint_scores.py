"""The joint score of each fine label: its own score plus the group scores of its rows, one per kind.

    s_i = f_i + sum_j e^j[group_j(i)]        O(fine x kinds), in the way that `plan.py` chooses

With many kinds or large scores a plain float32 sum loses digits, though the posterior depends on small differences of
it. So unless its estimated error is small, it is summed in two float32 parts of which the coarser one is exact, or in
float64. Each row is then centred at its largest score, which changes no posterior, and narrowed again.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.inference.derivatives import first_derivatives_only
from finegraph.inference.sums.by_rows import Bags
from finegraph.inference.sums.by_weights import weighted_sum
from finegraph.inference.sums.graph_tensors import GraphTensors, Way
from finegraph.inference.sums.layout import Plan
from finegraph.inference.sums.turned import turned

_MANY_KINDS = 64
"""With more kinds than this the gradient of the loss is a difference of sums too large for float32: all is float64."""
_ALLOWED_ERROR, _FEW_KINDS = 1e-5, 16
"""The estimated error up to which a plain float32 sum is used; less with more kinds, since gradients add errors up."""
_ROUNDING = torch.finfo(torch.float32).eps / 2
"""The relative error of one float32 operation."""
_SPLITTER = 1.5 * 2**13
"""Adding and subtracting this rounds a float32 number to a multiple of 2**-10; sums of such below 2**13 are exact."""


class JointScores(NamedTuple):
    """The joint scores of a batch.

    Attributes:
        scores: (batch, fine) s in float32, or in float64 with very many kinds; up to a constant per sample.
        mixing: as in `Summands`.
    """

    scores: Float[Tensor, "batch fine"]
    mixing: Float[Tensor, "_ edge"] | None


class Summands(NamedTuple):
    """What joint scores are the sum of.

    Attributes:
        fine: (batch, fine) the fine scores, in float32 or wider.
        groups: (batch, group) the scores of all groups; None where all are 0.
        mixing: (batch or 1, edge) log r: the log probability of each parent given its fine label, for the edges of all
            mixed rows of kinds in groups; None where there are none.
        weighted: (batch, coarse) the scores that the weighted kinds need; None where all are 0 or there are none.
        dtype: the number format of the sum.
        way: how to carry out sums.
    """

    fine: Float[Tensor, "batch fine"]
    groups: Float[Tensor, "batch group"] | None
    mixing: Float[Tensor, "_ edge"] | None
    weighted: Float[Tensor, "batch coarse"] | None
    dtype: torch.dtype
    way: Way

    def part(self, samples: slice) -> Summands:
        """The same for some of the samples; without log r, which the job has."""
        groups = None if self.groups is None else self.groups[samples]
        weighted = None if self.weighted is None else self.weighted[samples]
        return self._replace(fine=self.fine[samples], groups=groups, mixing=None, weighted=weighted)


def joint_scores(
    tensors: GraphTensors, fine_scores: Float[Tensor, "batch fine"], coarse_scores: Float[Tensor, "batch coarse"] | None
) -> JointScores:
    """The joint scores, from fine scores and from coarse scores side by side (None: all 0, as in softmax)."""
    parts = summands(tensors, fine_scores, coarse_scores, tensors.way(coarse_scores))
    return JointScores(joint_sum(parts), parts.mixing)


def joint_sum(parts: Summands) -> Float[Tensor, "batch fine"]:
    """The sum, differentiable; it shares its memory with the fine scores where there is nothing to add."""
    fine, plan = parts.fine, parts.way.plan
    if parts.weighted is not None and parts.way.weighted is not None:
        fine = fine.double() + weighted_sum(parts.way.weighted, parts.weighted)
    if parts.groups is None:
        return fine.to(parts.dtype)
    if torch.compiler.is_compiling() or fine.is_meta:
        return _exact_sum(plan, fine, parts.groups).to(parts.dtype)
    scores: Tensor = _JointScores.apply(fine, parts.groups, plan, parts.dtype)  # type: ignore[no-untyped-call]
    return scores


def summands(tensors: GraphTensors, fine_scores: Tensor, coarse_scores: Tensor | None, way: Way) -> Summands:
    """The scores of fine labels and of groups, differentiable."""
    plan = way.plan
    fine = fine_scores.double() if len(tensors.kinds) > _MANY_KINDS else wide(fine_scores)
    if coarse_scores is None:
        mixing = plan.edge_log_weight.to(fine.dtype, copy=True).unsqueeze(0) if len(plan.edge_row) else None
        return Summands(fine, None, mixing, None, fine.dtype, way)
    coarse = wide(coarse_scores)
    weighted = None if way.weighted is None else coarse
    dtype = fine.dtype if fine.dtype == coarse.dtype else torch.float64
    if not plan.kind_count:
        return Summands(fine, None, None, weighted, dtype, way)
    if not len(plan.edge_row):
        return Summands(fine, coarse, None, weighted, dtype, way)
    groups, mixing = _mix(plan, coarse)
    return Summands(fine, groups, mixing.to(dtype), weighted, dtype, way)


def _mix(plan: Plan, coarse_scores: Tensor) -> tuple[Float[Tensor, "batch group"], Tensor]:
    """The score of every group, that is the coarse scores and then those of the mixed rows; and log r.

    Both in float64: small differences of large scores decide between parents.
    """
    coarse_scores = coarse_scores.double()
    edges = coarse_scores.index_select(1, plan.edge_column) + plan.edge_log_weight
    rows = plan.mixed_rows.logsumexp(edges)
    # A row that evidence has ruled out wholly has no parent at all: its total is minus infinity, and stays so.
    total = rows.masked_fill(rows.isneginf(), 0.0).index_select(1, plan.edge_row - plan.coarse_count)
    return torch.cat([coarse_scores, rows], dim=1), edges - total


def wide(scores: Tensor) -> Tensor:
    """The scores in float32, or float64 where they are."""
    return scores if scores.dtype in (torch.float32, torch.float64) else scores.float()


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context in which matrix products keep their precision, also inside autocast."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


class _JointScores(torch.autograd.Function):
    """The sum and its closed-form backward, dL/de_g = the sum of dL/ds_i over the children i of group g."""

    @staticmethod
    def forward(ctx: Any, fine_scores: Tensor, groups: Tensor, plan: Plan, dtype: torch.dtype) -> Tensor:
        ctx.plan, ctx.dtypes = plan, (fine_scores.dtype, groups.dtype)
        with full_precision(fine_scores.device):
            return sum_scores(plan, fine_scores, groups, dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        first_derivatives_only()
        grad = grads[0]
        fine_type, groups_type = ctx.dtypes
        if not ctx.needs_input_grad[1]:
            return grad.to(fine_type), None, None, None
        with full_precision(grad.device):
            return grad.to(fine_type), sum_to_groups(ctx.plan, grad).to(groups_type), None, None


def sum_to_groups(plan: Plan, grad: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch group"]:
    """For every group the sum over its children."""
    if plan.goes_by_bags(grad.dtype):
        return turned(plan.bags.up(turned(grad)))
    return plan.columns.sum_to_groups(grad)


def sum_scores(
    plan: Plan,
    fine_scores: Float[Tensor, "batch fine"],
    groups: Float[Tensor, "batch group"],
    dtype: torch.dtype,
    out: Tensor | None = None,
) -> Float[Tensor, "batch fine"]:
    """The sum in the cheapest way that is exact enough for these scores.

    Args:
        plan: how to sum over the graph.
        fine_scores: the fine scores.
        groups: the scores of groups.
        dtype: the number format of the result.
        out: memory for the result; it has memory of its own otherwise.
    """
    coarse = _largest(groups)
    if coarse < math.inf and fine_scores.dtype == groups.dtype == torch.float32 and fine_scores.numel():
        total = _narrow_sum(plan, fine_scores, groups, coarse, out)
        if total is not None:
            return total
    total = (_exact_sum if coarse == math.inf else _wide_sum)(plan, fine_scores, groups)
    return total.to(dtype) if out is None else out.copy_(total)


def _wide_sum(plan: Plan, fine_scores: Tensor, groups: Tensor) -> Tensor:
    """The sum in float64, of group scores that are finite."""
    if plan.goes_by_bags(torch.float64):
        total = turned(plan.bags.down(turned(groups.double()))).add_(fine_scores)
    else:
        total = plan.columns.scores(fine_scores.double(), groups.double())
    top = total.amax(dim=1, keepdim=True)
    return total.sub_(top.masked_fill_(~top.isfinite(), 0.0))


def _exact_sum(plan: Plan, fine_scores: Tensor, groups: Tensor) -> Tensor:
    """The sum in float64 by gathers alone: no branch on values, and minus infinity stays what it is.

    Differences and products with 0 would make it NaN.
    """
    total = fine_scores.double()
    groups = groups.double()
    for group in plan.fine_groups:
        total = total + groups.index_select(1, group)
    # A row of nothing but minus infinity, or with NaN, stays as it is.
    top = total.detach().amax(dim=1, keepdim=True)
    return total - top.masked_fill(~top.isfinite(), 0.0)


def _narrow_sum(plan: Plan, fine: Tensor, groups: Tensor, coarse: float, out: Tensor | None) -> Tensor | None:
    """The sum in float32, of group scores that are at most `coarse`; None where that is not exact enough."""
    by_bags = plan.goes_by_bags(torch.float32)
    allowed = _ALLOWED_ERROR / max(1.0, (1 + plan.kind_count) / _FEW_KINDS)
    if _error_estimate(plan, 0.0, coarse) <= allowed:
        total = _bag_sum(plan.bags, fine, groups) if by_bags else plan.columns.scores(fine, groups, out)
        if _error_estimate(plan, _largest(total), coarse) <= allowed:
            return total
    largest = _largest(fine)
    if by_bags and largest + plan.kind_count * coarse < 2**12:
        return _split_sum(plan.bags, fine, groups, split_fine=2 * largest * _ROUNDING > allowed)
    return None


def _bag_sum(bags: Bags, fine: Tensor, groups: Tensor) -> Tensor:
    """The sum by bags."""
    return turned(bags.down(turned(groups))).add_(fine)


def _split_sum(bags: Bags, fine: Tensor, groups: Tensor, split_fine: bool) -> Tensor:
    """The sum in two float32 parts: multiples of 2**-10, whose sum is exact, and the small rests.

    Args:
        bags: the sums by bags.
        fine: (batch, fine) fine scores.
        groups: (batch, group) group scores.
        split_fine: whether the fine scores are so large that they must be split too.
    """
    low_groups = turned(groups)
    high_groups = (low_groups + _SPLITTER).sub_(_SPLITTER)
    low_groups -= high_groups
    high = turned(bags.down(high_groups))
    del high_groups
    if split_fine:
        high_fine = (fine + _SPLITTER).sub_(_SPLITTER)
        high += high_fine
        fine = fine - high_fine
    high -= high.amax(dim=1, keepdim=True)
    return high.add_(turned(bags.down(low_groups))).add_(fine)


def _error_estimate(plan: Plan, largest: float, coarse: float) -> float:
    """About how far a float32 sum is off: a rounding per kind, of numbers as large as the sums on the way."""
    terms = math.sqrt(plan.kind_count)
    return terms * max(largest, terms * coarse) * _ROUNDING


def _largest(values: Tensor) -> float:
    """The largest absolute value; infinite where there is no such number."""
    if not values.numel():
        return 0.0
    low, high = torch.aminmax(values)
    largest = max(-low.item(), high.item())
    return largest if largest == largest else math.inf
