"""The loss as a function that torch can differentiate, eagerly and inside compiled programs.

Forward finds the gradients too, and backward only scales them. They are handed over rather than copied, so a second
backward through the same graph computes them once more.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from finegraph.inference.derivatives import first_derivatives_only
from finegraph.inference.loss.formulas import Grads, Job, loss_and_grad
from finegraph.inference.loss.in_parts import find_loss
from finegraph.inference.loss.targets import Targets
from finegraph.inference.sums.graph_tensors import GraphTensors
from finegraph.inference.sums.joint_scores import Summands, full_precision, joint_sum


def marginal_loss(tensors: GraphTensors, parts: Summands, targets: Targets, divisor: float | Tensor | None) -> Tensor:
    """The loss from the summands of the joint scores: of each sample, or summed and divided by a number.

    Args:
        tensors: the graph.
        parts: the scores.
        targets: what was observed.
        divisor: what to divide the sum by; None for the loss of each sample.
    """
    mixing = None if parts.mixing is None else parts.mixing.expand(len(parts.fine), -1)
    if torch.compiler.is_compiling():
        loss = _compiled(tensors, joint_sum(parts), mixing, targets)
        return loss if divisor is None else loss.sum() / divisor
    rest = parts._replace(groups=None, mixing=None, weighted=None)
    scores = parts.fine, parts.groups, mixing, parts.weighted
    result: Tensor = _MarginalLoss.apply(*scores, rest, targets, divisor)  # type: ignore[no-untyped-call]
    return result


class _MarginalLoss(torch.autograd.Function):
    """`loss_and_grad` from the summands of the joint scores."""

    @staticmethod
    def forward(
        ctx: Any,
        fine: Tensor,
        groups: Tensor | None,
        mixing: Tensor | None,
        weighted: Tensor | None,
        rest: Summands,
        targets: Targets,
        divisor: float | Tensor | None,
    ) -> Tensor:
        ctx.job = Job(
            plan=rest.way.plan,
            mixing=None if mixing is None else mixing.detach(),
            targets=targets,
            coarse_scores=groups is not None,
            summed=divisor is not None,
            scale=1.0 if divisor is None else 1.0 / divisor,
            grads=any(ctx.needs_input_grad),
            group_grads=ctx.needs_input_grad[1],
        )
        ctx.rest = rest._replace(fine=fine.detach()[:0])
        ctx.save_for_backward(fine, groups, weighted)
        loss, ctx.found = find_loss(ctx.job, rest._replace(fine=fine, groups=groups, weighted=weighted))
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        first_derivatives_only()
        fine, groups, weighted = ctx.saved_tensors
        found: Grads = ctx.found
        if found is None:
            found = find_loss(ctx.job, ctx.rest._replace(fine=fine, groups=groups, weighted=weighted))[1]
        ctx.found = None
        factor = grads[0].unsqueeze(1) if grads[0].ndim else grads[0]
        as_found = factor.ndim == 0 and factor.device.type == "cpu" and factor.item() == 1.0
        out: list[Tensor | None] = []
        for grad, source in zip(found, (fine, groups, None, weighted), strict=True):
            if grad is None:
                out.append(None)
            else:
                scaled = grad if as_found else grad.mul_(factor)
                out.append(scaled if source is None else scaled.to(source.dtype))
        return (*out, None, None, None)


def _compiled(tensors: GraphTensors, scores: Tensor, mixing: Tensor | None, targets: Targets) -> Tensor:
    """The loss of each sample from joint scores, inside a compiled program."""
    mixed = scores.new_zeros(len(scores), 0) if mixing is None else mixing.contiguous()
    ones = scores.new_ones(len(scores), 1 + targets.column.shape[1])
    weight = ones if targets.weight is None else targets.weight * ones
    loss: Tensor = _compiled_loss(scores, mixed, targets.fine, targets.column, weight, tensors.key)[0]
    return loss


@torch.library.custom_op(
    "finegraph::marginal_loss",
    mutates_args=(),
    schema="(Tensor scores, Tensor mixing, Tensor fine, Tensor column, Tensor weight, int key) "
    "-> (Tensor, Tensor, Tensor)",
)
def _compiled_loss(
    scores: Tensor, mixing: Tensor, fine: Tensor, column: Tensor, weight: Tensor, key: int
) -> tuple[Tensor, Tensor, Tensor]:
    """`loss_and_grad` as one opaque operator, since it branches on values; `key` names the graph's tensors."""
    tensors = GraphTensors.by_key(key)
    targets = Targets(fine, column, weight, tensors.exact.slots.all_kinds(), [])
    job = Job(tensors.exact.plan, mixing if mixing.shape[1] else None, targets)
    with full_precision(scores.device):
        loss, found = loss_and_grad(job, lambda: scores, lambda sample: scores[sample])
    assert found.scores is not None
    mixing_grad = torch.zeros_like(mixing) if found.mixing is None else found.mixing.contiguous()
    return loss, found.scores, mixing_grad


@_compiled_loss.register_fake
def _(
    scores: Tensor, mixing: Tensor, fine: Tensor, column: Tensor, weight: Tensor, key: int
) -> tuple[Tensor, Tensor, Tensor]:
    return scores.new_empty(scores.shape[0]), scores.new_empty(scores.shape), mixing.new_empty(mixing.shape)


def _keep_grad(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1], output[2])


def _scale_grad(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    grad, mixing_grad = ctx.saved_tensors
    factor = grads[0].unsqueeze(1)
    return grad * factor, mixing_grad * factor, None, None, None, None


_compiled_loss.register_autograd(_scale_grad, setup_context=_keep_grad)
