"""The loss of a whole batch as a function that torch can differentiate, eagerly and inside compiled programs.

The gradients are found together with the loss, and a backward pass only scales them. If a batch is far larger than the
caches, all steps are carried out for some samples before the next ones.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.inference.loss.formulas import Gradients, LossAndGradients, Wanted, loss_and_gradients
from finegraph.inference.numerics import at_least_float32, refuse_second_derivatives, without_autocast
from finegraph.inference.sums.graph_tensors import GraphTensors, SumTables
from finegraph.inference.sums.targets import Targets


def batch_loss(
    tables: SumTables,
    fine: Float[Tensor, "batch fine"],
    coarse: Float[Tensor, "batch coarse"] | None,
    targets: Targets,
    wanted: Wanted,
) -> LossAndGradients:
    """The loss and its gradients, in chunks of samples if the batch is large.

    Args:
        tables: how to sum over the graph.
        fine: the fine scores.
        coarse: the coarse scores; None if all are 0, as in softmax.
        targets: what was observed.
        wanted: what to compute.
    """
    fine, coarse = at_least_float32(fine), None if coarse is None else at_least_float32(coarse)
    batch, dtype = len(fine), tables.dtype_of(fine, coarse)
    max_samples = tables.max_samples(coarse is not None, dtype)
    with without_autocast(fine.device):
        if max_samples is None or batch <= max_samples:
            return loss_and_gradients(tables.sums_of(coarse, batch, dtype), fine, targets, wanted)
        memory = Gradients(
            fine.new_empty(fine.shape, dtype=dtype) if wanted.gradient else None,
            fine.new_empty(coarse.shape, dtype=dtype) if coarse is not None and wanted.coarse_gradient else None,
        )
        losses: list[Tensor] = []
        rows = -(-batch // -(-batch // max_samples))
        for start in range(0, batch, rows):
            chunk = slice(start, start + rows)
            own = Gradients(*(None if value is None else value[chunk] for value in memory))
            sums = tables.sums_of(None if coarse is None else coarse[chunk], len(fine[chunk]), dtype)
            loss, found = loss_and_gradients(sums, fine[chunk], targets.part(chunk), wanted, own)
            losses.append(loss)
            for into, value in zip(own, found, strict=True):
                if into is not None and value is not None and into is not value:
                    into.copy_(value)
        return LossAndGradients(torch.stack(losses).sum() if wanted.total else torch.cat(losses), memory)


def with_gradients(
    found: LossAndGradients,
    tables: SumTables,
    fine: Float[Tensor, "batch fine"],
    coarse: Float[Tensor, "batch coarse"] | None,
    targets: Targets,
    wanted: Wanted,
) -> Float[Tensor, "*batch"]:
    """The loss as a function of the scores that torch can differentiate; `found` is what `batch_loss` found of them."""
    result: Tensor = _Loss.apply(fine, coarse, found, tables, targets, wanted)  # type: ignore[no-untyped-call]
    return result


class _Loss(torch.autograd.Function):
    """Hands over the gradients that were found with the loss."""

    @staticmethod
    def forward(
        ctx: Any,
        fine: Float[Tensor, "batch fine"],
        coarse: Float[Tensor, "batch coarse"] | None,
        found: LossAndGradients,
        tables: SumTables,
        targets: Targets,
        wanted: Wanted,
    ) -> Float[Tensor, "*batch"]:
        ctx.tables, ctx.targets, ctx.wanted, ctx.gradients = tables, targets, wanted, found.gradients
        ctx.save_for_backward(fine, coarse)
        return found.loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        fine, coarse = ctx.saved_tensors
        gradients: Gradients | None = ctx.gradients
        if gradients is None:
            gradients = batch_loss(ctx.tables, fine, coarse, ctx.targets, ctx.wanted).gradients
        # They are scaled in place and given away, so a second backward pass finds them again.
        ctx.gradients = None
        factor = grads[0].unsqueeze(1) if grads[0].ndim else grads[0]
        is_one = factor.ndim == 0 and factor.device.type == "cpu" and factor.item() == 1.0
        out: list[Tensor | None] = []
        for grad, source in zip(gradients, (fine, coarse), strict=True):
            scaled = grad if grad is None or is_one else grad.mul_(factor)
            out.append(None if scaled is None else scaled.to(source.dtype))
        return *out, None, None, None, None


def compiled_loss(
    tensors: GraphTensors,
    fine: Float[Tensor, "batch fine"],
    coarse: Float[Tensor, "batch coarse"] | None,
    targets: Targets,
    divisor: float | Float[Tensor, ""] | None,
) -> Float[Tensor, "*batch"]:
    """The loss inside a compiled program: of each sample, or their sum divided by a number."""
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
    loss, found = batch_loss(tables, fine, coarse, targets, wanted)
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
