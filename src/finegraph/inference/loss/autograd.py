"""The loss as a function that torch can differentiate, eagerly and inside compiled programs.

Forward finds the gradients too, and backward only scales them. They are handed over rather than copied, so a second
backward through the same graph computes them once more. If a batch is far larger than the caches, all steps are carried
out for some samples before the next ones.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.inference.loss.formulas import Gradients, Wanted, loss_and_gradients
from finegraph.inference.numerics import at_least_float32, refuse_second_derivatives, without_autocast
from finegraph.inference.sums.graph_tensors import GraphTensors, SumTables
from finegraph.inference.sums.targets import Targets


def differentiable_loss(
    tables: SumTables,
    fine: Float[Tensor, "batch fine"],
    coarse: Float[Tensor, "batch coarse"] | None,
    targets: Targets,
    divisor: float | Float[Tensor, ""] | Int[Tensor, ""] | None,
) -> Float[Tensor, "*batch"]:
    """The loss of each sample, or their sum divided by a number.

    Args:
        tables: how to sum over the graph.
        fine: the fine scores.
        coarse: the coarse scores; None if all are 0, as in softmax.
        targets: what was observed.
        divisor: what to divide the sum by; None for the loss of each sample.
    """
    result: Tensor = _Loss.apply(fine, coarse, tables, targets, divisor)  # type: ignore[no-untyped-call]
    return result


class _Loss(torch.autograd.Function):
    """`loss_and_gradients` of a whole batch."""

    @staticmethod
    def forward(
        ctx: Any,
        fine: Float[Tensor, "batch fine"],
        coarse: Float[Tensor, "batch coarse"] | None,
        tables: SumTables,
        targets: Targets,
        divisor: float | Float[Tensor, ""] | Int[Tensor, ""] | None,
    ) -> Float[Tensor, "*batch"]:
        ctx.tables, ctx.targets = tables, targets
        ctx.wanted = Wanted(
            total=divisor is not None,
            scale=_scale(divisor, tables.dtype_of(fine, coarse)),
            gradient=any(ctx.needs_input_grad),
            coarse_gradient=ctx.needs_input_grad[1],
        )
        ctx.save_for_backward(fine, coarse)
        loss, ctx.found = _whole_batch(tables, fine, coarse, targets, ctx.wanted)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        fine, coarse = ctx.saved_tensors
        found: Gradients | None = ctx.found
        if found is None:
            _, found = _whole_batch(ctx.tables, fine, coarse, ctx.targets, ctx.wanted)
        ctx.found = None
        factor = grads[0].unsqueeze(1) if grads[0].ndim else grads[0]
        as_found = factor.ndim == 0 and factor.device.type == "cpu" and factor.item() == 1.0
        out: list[Tensor | None] = []
        for grad, source in zip(found, (fine, coarse), strict=True):
            scaled = grad if grad is None or as_found else grad.mul_(factor)
            out.append(None if scaled is None else scaled.to(source.dtype))
        return *out, None, None, None


def _scale(
    divisor: float | Float[Tensor, ""] | Int[Tensor, ""] | None, dtype: torch.dtype
) -> float | Float[Tensor, ""]:
    """The factor of the loss: a plain number if it is known without looking at the targets."""
    if isinstance(divisor, Tensor):
        return 1.0 / divisor.to(dtype)
    return 1.0 if divisor is None else 1.0 / divisor


def _whole_batch(
    tables: SumTables,
    fine: Float[Tensor, "batch fine"],
    coarse: Float[Tensor, "batch coarse"] | None,
    targets: Targets,
    wanted: Wanted,
) -> tuple[Float[Tensor, "*batch"], Gradients]:
    """The loss and its gradients, in chunks of samples if the batch is large."""
    fine, coarse = at_least_float32(fine), None if coarse is None else at_least_float32(coarse)
    batch, dtype = len(fine), tables.dtype_of(fine, coarse)
    max_samples = tables.max_samples(coarse is not None, dtype)
    with without_autocast(fine.device):
        if max_samples is None or batch <= max_samples:
            return loss_and_gradients(tables.start(coarse, batch, dtype), fine, targets, wanted)
        memory = Gradients(
            fine.new_empty(fine.shape, dtype=dtype) if wanted.gradient else None,
            fine.new_empty(coarse.shape, dtype=dtype) if coarse is not None and wanted.coarse_gradient else None,
        )
        losses: list[Tensor] = []
        rows = -(-batch // -(-batch // max_samples))
        for start in range(0, batch, rows):
            chunk = slice(start, start + rows)
            own = Gradients(*(None if value is None else value[chunk] for value in memory))
            sums = tables.start(None if coarse is None else coarse[chunk], len(fine[chunk]), dtype)
            loss, found = loss_and_gradients(sums, fine[chunk], targets.part(chunk), wanted, own)
            losses.append(loss)
            for into, value in zip(own, found, strict=True):
                if into is not None and value is not None and into is not value:
                    into.copy_(value)
        return torch.stack(losses).sum() if wanted.total else torch.cat(losses), memory


def compiled_loss(
    tensors: GraphTensors,
    fine: Float[Tensor, "batch fine"],
    coarse: Float[Tensor, "batch coarse"] | None,
    targets: Targets,
    divisor: float | Float[Tensor, ""] | Int[Tensor, ""] | None,
) -> Float[Tensor, "*batch"]:
    """`differentiable_loss` inside a compiled program."""
    ones = fine.new_ones(len(fine), 1 + targets.column.shape[1], dtype=tensors.by_groups.dtype_of(fine, coarse))
    weight = ones if targets.weight is None else targets.weight * ones
    loss: Tensor = _loss_operator(fine, coarse, targets.fine, targets.column, weight, tensors.key)[0]
    return loss if divisor is None else loss.sum() / divisor


@torch.library.custom_op(
    "finegraph::joint_loss",
    mutates_args=(),
    schema="(Tensor fine, Tensor? coarse, Tensor target, Tensor column, Tensor weight, int key) "
    "-> (Tensor, Tensor, Tensor)",
)
def _loss_operator(
    fine: Tensor, coarse: Tensor | None, target: Tensor, column: Tensor, weight: Tensor, key: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of each sample as one opaque operator, since it branches on values; `key` names the graph's tensors."""
    tables = GraphTensors.by_key(key).by_groups
    targets = Targets(target, column, weight, tables.targets.max_kinds())
    wanted = Wanted(coarse_gradient=coarse is not None)
    loss, found = _whole_batch(tables, fine, coarse, targets, wanted)
    assert found.fine is not None
    coarse_grad = fine.new_zeros(0) if coarse is None or found.coarse is None else found.coarse.to(coarse.dtype)
    return loss, found.fine.to(fine.dtype), coarse_grad


@_loss_operator.register_fake
def _(
    fine: Tensor, coarse: Tensor | None, target: Tensor, column: Tensor, weight: Tensor, key: int
) -> tuple[Tensor, Tensor, Tensor]:
    dtype = GraphTensors.by_key(key).by_groups.dtype_of(fine, coarse)
    coarse_grad = fine.new_empty(0) if coarse is None else coarse.new_empty(coarse.shape)
    return fine.new_empty(fine.shape[0], dtype=dtype), fine.new_empty(fine.shape), coarse_grad


def _keep_gradients(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.has_coarse = inputs[1] is not None
    ctx.save_for_backward(output[1], output[2])


def _scale_gradients(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    fine, coarse = ctx.saved_tensors
    factor = grads[0].unsqueeze(1)
    coarse_grad = (coarse * factor).to(coarse.dtype) if ctx.has_coarse else None
    return (fine * factor).to(fine.dtype), coarse_grad, None, None, None, None


_loss_operator.register_autograd(_scale_gradients, setup_context=_keep_gradients)
