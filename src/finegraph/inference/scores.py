"""The joint score of each fine label: its own score plus the group scores of its rows, one per kind.

    s_i = f_i + sum_j e^j[group_j(i)]        O(fine x kinds), by one matrix product and a gather per listed kind

With many kinds or large scores the sum loses digits in float32, though the posterior depends on small differences of
it. So it is summed in float64 whenever an error estimate says so, and each row is then centred at its largest score,
which changes no posterior, before it is narrowed again.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.inference.plan import ListedKind, Plan
from finegraph.inference.tensors import GraphTensors

_MANY_KINDS = 64
"""With more kinds than this the gradient of the loss is a difference of sums too large for float32: all is float64."""
_ALLOWED_ERROR = 4e-6
"""The estimated rounding error of a float32 sum above which it is summed in float64; estimates err on the high side."""


class JointScores(NamedTuple):
    """The joint scores of a batch.

    Attributes:
        scores: (batch, fine) s in float32, or in float64 with very many kinds; up to a constant per sample.
        mixing: (batch or 1, edge) log r: the log probability of each parent given its fine label, for the edges of all
            mixed rows; None where there are none.
    """

    scores: Float[Tensor, "batch fine"]
    mixing: Float[Tensor, "_ edge"] | None


def joint_scores(
    tensors: GraphTensors, fine_scores: Float[Tensor, "batch fine"], coarse_scores: Float[Tensor, "batch coarse"] | None
) -> JointScores:
    """The joint scores, from fine scores and from coarse scores side by side (None: all 0, as in softmax)."""
    plan = tensors.plan
    fine_scores = fine_scores.double() if plan.kind_count > _MANY_KINDS else wide(fine_scores)
    if coarse_scores is None:
        mixing = plan.edge_log_weight.to(fine_scores.dtype).unsqueeze(0) if len(plan.edge_row) else None
        return JointScores(fine_scores, mixing)
    if not plan.kind_count:
        return JointScores(fine_scores, None)
    groups, mixing = _mix(plan, wide(coarse_scores).to(fine_scores.dtype))
    if torch.compiler.is_compiling():
        return JointScores(_exact_sum(plan, fine_scores, groups), mixing)
    result: Tensor = _JointScores.apply(fine_scores, groups, plan)  # type: ignore[no-untyped-call]
    return JointScores(result, mixing)


def _mix(plan: Plan, coarse_scores: Tensor) -> tuple[Float[Tensor, "batch group"], Tensor | None]:
    """The score of every group, that is the coarse scores and then those of the mixed rows; and log r."""
    if not len(plan.edge_row):
        return coarse_scores, None
    edges = coarse_scores.index_select(1, plan.edge_column) + plan.edge_log_weight.to(coarse_scores.dtype)
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
