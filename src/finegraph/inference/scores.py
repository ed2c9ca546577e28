"""The joint score of each fine label: its own score plus the group scores of its rows, one per kind.

    s_i = f_i + sum_j e^j[group_j(i)]        O(fine x kinds), by one matrix product and a gather per listed kind

With many kinds or large scores a plain float32 sum loses digits, though the posterior depends on small differences of
it. So unless its estimated error is small, it is summed in two float32 parts of which the coarser one is exact, or in
float64. Each row is then centred at its largest score, which changes no posterior, and narrowed again.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import embedding_bag

from finegraph.inference.derivatives import first_derivatives_only
from finegraph.inference.plan import ListedKind, Plan
from finegraph.inference.tensors import GraphTensors

_MANY_KINDS = 64
"""With more kinds than this the gradient of the loss is a difference of sums too large for float32: all is float64."""
_ALLOWED_ERROR = 1e-5
"""The estimated error up to which a plain float32 sum is used; less above 30 kinds, since gradients add errors up."""
_SPLITTER = 1.5 * 2**13
"""Adding and subtracting this rounds a float32 number to a multiple of 2**-10; sums of such below 2**13 are exact."""


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
        mixing = plan.edge_log_weight.to(fine_scores.dtype, copy=True).unsqueeze(0) if len(plan.edge_row) else None
        return JointScores(fine_scores, mixing)
    if not plan.kind_count:
        return JointScores(fine_scores, None)
    coarse_scores = wide(coarse_scores)
    dtype = torch.promote_types(fine_scores.dtype, coarse_scores.dtype)
    groups, mixing = _mix(plan, coarse_scores)
    if torch.compiler.is_compiling():
        scores = _exact_sum(plan, fine_scores, groups).to(dtype)
    else:
        scores = _JointScores.apply(fine_scores, groups, plan, dtype)  # type: ignore[no-untyped-call]
    return JointScores(scores, None if mixing is None else mixing.to(dtype))


def _mix(plan: Plan, coarse_scores: Tensor) -> tuple[Float[Tensor, "batch group"], Tensor | None]:
    """The score of every group, that is the coarse scores and then those of the mixed rows; and log r.

    Both in float64 where there are mixed rows: small differences of large scores decide between parents.
    """
    if not len(plan.edge_row):
        return coarse_scores, None
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


def _exact_sum(plan: Plan, fine_scores: Tensor, groups: Tensor) -> Tensor:
    """The sum in float64 by gathers alone: no branch on values, and minus infinity is allowed."""
    total = fine_scores.double()
    groups = groups.double()
    for group in plan.fine_groups():
        total = total + groups.index_select(1, group)
    # A row of nothing but minus infinity, or with NaN, stays as it is.
    top = total.detach().amax(dim=1, keepdim=True)
    return total - top.masked_fill(~top.isfinite(), 0.0)


class _JointScores(torch.autograd.Function):
    """The sum and its closed-form backward, dL/de_g = the sum of dL/ds_i over the children i of group g."""

    @staticmethod
    def forward(ctx: Any, fine_scores: Tensor, groups: Tensor, plan: Plan, dtype: torch.dtype) -> Tensor:
        ctx.plan, ctx.dtypes = plan, (fine_scores.dtype, groups.dtype)
        with full_precision(fine_scores.device):
            return _sum(plan, fine_scores, groups).to(dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        first_derivatives_only()
        grad = grads[0]
        fine_type, groups_type = ctx.dtypes
        if not ctx.needs_input_grad[1]:
            return grad.to(fine_type), None, None, None
        with full_precision(grad.device):
            return grad.to(fine_type), _sum_to_groups(ctx.plan, grad).to(groups_type), None, None


def _sum(plan: Plan, fine_scores: Tensor, groups: Tensor) -> Tensor:
    """The sum, in the cheapest way that is exact enough for these scores."""
    if fine_scores.dtype == groups.dtype == torch.float32 and fine_scores.numel():
        coarse = _largest(groups)
        if coarse == math.inf:
            return _exact_sum(plan, fine_scores, groups)
        allowed = _ALLOWED_ERROR / max(1.0, (1 + plan.kind_count) / 30)
        if _error_estimate(plan, 0.0, coarse) <= allowed:
            total = _fast_sum(plan, fine_scores.clone(), groups)
            if _error_estimate(plan, _largest(total), coarse) <= allowed:
                return total
        if plan.bags and _largest(fine_scores) + plan.kind_count * coarse < 2**12:
            return _split_sum(plan, fine_scores, groups)
    total = _fast_sum(plan, fine_scores.to(torch.float64, copy=True), groups.double())
    top = total.amax(dim=1, keepdim=True) if total.shape[1] else total
    # Zero times minus infinity is not a number, so scores that are not finite must not meet a matrix product.
    return total.sub_(top) if bool(top.isfinite().all()) else _exact_sum(plan, fine_scores, groups)


def _error_estimate(plan: Plan, largest: float, coarse: float) -> float:
    """About how far a float32 sum is off: a rounding per kind, of numbers as large as the sums on the way."""
    terms = math.sqrt(plan.kind_count)
    return terms * max(largest, terms * coarse) * torch.finfo(torch.float32).eps / 2


def _largest(values: Tensor) -> float:
    """The largest absolute value; infinite where there is no such number."""
    if not values.numel():
        return 0.0
    low, high = torch.aminmax(values)
    largest = max(-low.item(), high.item())
    return largest if largest == largest else math.inf


def _fast_sum(plan: Plan, total: Tensor, groups: Tensor) -> Tensor:
    """Add to the fine scores, in place: one matrix product for the dense kinds and a gather for each listed kind."""
    if len(plan.score_columns):
        chosen = groups if plan.all_dense else groups.index_select(1, plan.score_columns)
        binary = len(plan.reference_columns)
        if binary:
            reference = groups.index_select(1, plan.reference_columns)
            chosen[:, -binary:] -= reference
            total += reference.sum(dim=1, keepdim=True)
        matrix = plan.score_matrix if groups.dtype == torch.float32 else plan.wide_score_matrix
        total.addmm_(chosen, matrix)
    for listed in plan.listed:
        # gather runs on all threads, index_select on one
        total += groups.gather(1, cast(ListedKind, listed).group.expand(len(groups), -1))
    return total


def _split_sum(plan: Plan, fine_scores: Tensor, groups: Tensor) -> Tensor:
    """The sum in two float32 parts: multiples of 2**-10, whose sum is exact, and the small rests."""
    coarse_high = (groups + _SPLITTER).sub_(_SPLITTER)
    fine_high = (fine_scores + _SPLITTER).sub_(_SPLITTER)
    rest = _fast_sum(plan, fine_scores - fine_high, groups - coarse_high)
    high = _fast_sum(plan, fine_high, coarse_high)
    high -= high.amax(dim=1, keepdim=True)
    return high.add_(rest)


def _sum_to_groups(plan: Plan, grad: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch group"]:
    """For every group the sum over its children."""
    batch = grad.shape[0]
    binary = len(plan.reference_columns)
    if len(plan.score_columns):
        if plan.bags:
            rows = grad.t().contiguous()
            chosen = embedding_bag(plan.score_children, rows, plan.score_starts, mode="sum").t()
        else:
            matrix = plan.score_matrix if grad.dtype == torch.float32 else plan.wide_score_matrix
            chosen = grad @ matrix.t()
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
