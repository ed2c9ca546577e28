"""The joint score of each fine label: its own score plus the group scores of its rows, one per kind.

    s_i = f_i + sum_j e^j[group_j(i)]        O(fine x kinds), by one matrix product and a gather per listed kind

With many kinds or large scores the sum loses digits in float32, though the posterior depends on small differences of
it. So it is summed in float64 whenever an error estimate says so, and each row is then centred at its largest score,
which changes no posterior, before it is narrowed again.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.inference.plan import ListedKind, Plan
from finegraph.inference.tensors import GraphTensors

_MANY_KINDS = 64
"""With more kinds than this the gradient of the loss is a difference of sums too large for float32: all is float64."""
_ALLOWED_ERROR = 4e-6
"""The estimated rounding error of a float32 sum above which it is summed in float64; estimates err on the high side."""


def group_scores(tensors: GraphTensors, coarse_scores: Float[Tensor, "batch coarse"]) -> Float[Tensor, "batch group"]:
    """The score of every group: the coarse scores, then those of the mixed rows."""
    mixed = [
        kind.group_scores(coarse_scores[:, kind.columns])[:, kind.label_count :]
        for kind in tensors.each()
        if not kind.plain
    ]
    return torch.cat([coarse_scores, *mixed], dim=1) if mixed else coarse_scores


def joint_scores(
    tensors: GraphTensors, fine_scores: Float[Tensor, "batch fine"], coarse_scores: Float[Tensor, "batch coarse"] | None
) -> Float[Tensor, "batch fine"]:
    """The joint scores s in float32, or in float64 with very many kinds; up to a constant per sample."""
    fine_scores = fine_scores.double() if len(tensors.columns) > _MANY_KINDS else wide(fine_scores)
    if coarse_scores is None or not tensors.columns:
        return fine_scores
    groups = group_scores(tensors, wide(coarse_scores).to(fine_scores.dtype))
    if torch.compiler.is_compiling():
        return _exact_sum(tensors.plan, fine_scores, groups)
    result: Tensor = _JointScores.apply(fine_scores, groups, tensors.plan)  # type: ignore[no-untyped-call]
    return result


def wide(scores: Tensor) -> Tensor:
    """The scores in float32, or float64 where they are."""
    return scores if scores.dtype in (torch.float32, torch.float64) else scores.float()


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context in which matrix products keep their precision, also inside autocast."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


def _exact_sum(plan: Plan, fine_scores: Tensor, groups: Tensor) -> Tensor:
    """The sum in float64 by gathers alone: no branch on values, and minus infinity is allowed."""
    total = fine_scores.double()
    wide_groups = groups.double()
    for group in plan.fine_groups():
        total = total + wide_groups.index_select(1, group)
    return _centred(total).to(fine_scores.dtype)


def _centred(total: Tensor) -> Tensor:
    """Each row minus its largest entry; a row of nothing but minus infinity stays so."""
    top = total.detach().amax(dim=1, keepdim=True)
    return total - top.masked_fill(top.isinf(), 0.0)


class _JointScores(torch.autograd.Function):
    """The sum and its closed-form backward, dL/de_g = the sum of dL/ds_i over the children i of group g."""

    @staticmethod
    def forward(ctx: Any, fine_scores: Tensor, groups: Tensor, plan: Plan) -> Tensor:
        ctx.plan, ctx.groups = plan, groups.shape[1]
        with full_precision(fine_scores.device):
            error = _error_estimate(plan, fine_scores, groups)
            if error <= _ALLOWED_ERROR or (fine_scores.dtype == torch.float64 and error < math.inf):
                return _fast_sum(plan, fine_scores, groups)
            if error < math.inf:
                total = _fast_sum(plan, fine_scores.double(), groups.double())
                return _centred(total).to(fine_scores.dtype)
            return _exact_sum(plan, fine_scores, groups)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None]:
        grad = grads[0]
        if not ctx.needs_input_grad[1]:
            return grad, None, None
        with full_precision(grad.device):
            return grad, _sum_to_groups(ctx.plan, grad), None


def _error_estimate(plan: Plan, fine_scores: Tensor, groups: Tensor) -> float:
    """About how far a float32 sum may be off; infinite where a score is."""
    if fine_scores.numel() == 0 or groups.numel() == 0:
        return 0.0
    terms = math.sqrt(plan.kind_count)
    size = _largest(fine_scores) + terms * _largest(groups)
    return size * terms * torch.finfo(torch.float32).eps / 2 if size == size else 0.0


def _largest(values: Tensor) -> float:
    """The largest absolute value."""
    low, high = torch.aminmax(values)
    return max(-low.item(), high.item())


def _fast_sum(plan: Plan, fine_scores: Tensor, groups: Tensor) -> Tensor:
    """The sum by one matrix product for the dense kinds and a gather for each listed kind."""
    total = fine_scores
    if len(plan.score_columns):
        chosen = groups if plan.all_dense else groups.index_select(1, plan.score_columns)
        binary = len(plan.reference_columns)
        if binary:
            reference = groups.index_select(1, plan.reference_columns)
            chosen[:, -binary:] -= reference
            total = total + reference.sum(dim=1, keepdim=True)
        total = torch.addmm(total, chosen, plan.score_matrix.to(groups.dtype))
    for listed in plan.listed:
        # gather runs on all threads, index_select on one
        gathered = groups.gather(1, cast(ListedKind, listed).group.expand(len(groups), -1))
        total = gathered.add_(total)
    return total if total is not fine_scores else fine_scores.clone()


def _sum_to_groups(plan: Plan, grad: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch group"]:
    """For every group the sum over its children."""
    batch = grad.shape[0]
    binary = len(plan.reference_columns)
    if len(plan.score_columns):
        chosen = grad @ plan.score_matrix.to(grad.dtype).t()
        if plan.all_dense:
            return chosen
    out = grad.new_zeros(batch, plan.group_count)
    if len(plan.score_columns):
        out.index_copy_(1, plan.score_columns, chosen)
        if binary:
            out.index_copy_(1, plan.reference_columns, grad.sum(dim=1, keepdim=True) - chosen[:, -binary:])
    for listed in plan.listed:
        out.scatter_add_(1, cast(ListedKind, listed).group.expand(batch, -1), grad)
    return out
