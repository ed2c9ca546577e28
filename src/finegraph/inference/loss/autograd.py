"""The loss of a batch as a differentiable function, in eager mode and inside compiled programs.

The gradients are computed together with the loss; the backward pass only scales them. A batch far larger than the
processor's caches is processed in chunks of samples.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.inference.loss.formulas import Gradients, LossAndGradients, LossOptions, loss_and_gradients
from finegraph.inference.numbers.readings import Readings
from finegraph.inference.numerics import at_least_float32, refuse_second_derivatives, without_autocast
from finegraph.inference.sums.graph_tensors import GraphTensors, SumTables
from finegraph.inference.sums.targets import Targets


def batch_loss(
    tables: SumTables,
    fine: Float[Tensor, "batch fine"],
    coarse: Float[Tensor, "batch coarse"] | None,
    targets: Targets,
    options: LossOptions,
    readings: Readings | None = None,
) -> LossAndGradients:
    """The loss and its gradients, in chunks of samples if the batch is large.

    Args:
        tables: the tables of the sums over the graph.
        fine: the fine scores with the terms of numbers.
        coarse: the coarse scores; None if all are 0, as in softmax.
        targets: the observed labels.
        options: what to compute.
        readings: the observed values; None if there are no terms of numbers.
    """
    fine, coarse = at_least_float32(fine), None if coarse is None else at_least_float32(coarse)
    batch, dtype = len(fine), tables.dtype_of(fine, coarse)
    max_samples = tables.max_samples(coarse is not None, dtype)
    with without_autocast(fine.device):
        if max_samples is None or batch <= max_samples:
            return loss_and_gradients(tables.sums_of(coarse, batch, dtype), fine, targets, options, readings)
        memory = Gradients(
            fine.new_empty(fine.shape, dtype=dtype) if options.gradient else None,
            fine.new_empty(coarse.shape, dtype=dtype) if coarse is not None and options.coarse_gradient else None,
        )
        losses: list[Tensor] = []
        numbers: list[Tensor] = []
        rows = -(-batch // -(-batch // max_samples))  # chunks of equal size, so that none is much smaller
        for start in range(0, batch, rows):
            chunk = slice(start, start + rows)
            chunk_memory = Gradients(*(None if value is None else value[chunk] for value in memory))
            read = None if readings is None else readings.part(chunk)
            sums = tables.sums_of(None if coarse is None else coarse[chunk], len(fine[chunk]), dtype)
            loss, gradients = loss_and_gradients(sums, fine[chunk], targets.part(chunk), options, read, chunk_memory)
            losses.append(loss)
            if gradients.numbers is not None:
                numbers.append(gradients.numbers)
            # The sums may use the memory or not; what they put elsewhere is copied.
            for destination, value in zip(chunk_memory, gradients, strict=True):
                if destination is not None and value is not None and destination is not value:
                    destination.copy_(value)
        memory = memory._replace(numbers=torch.cat(numbers) if numbers else None)
        return LossAndGradients(torch.stack(losses).sum() if options.total else torch.cat(losses), memory)


def with_gradients(
    computed: LossAndGradients,
    tables: SumTables,
    fine: Float[Tensor, "batch fine"],
    coarse: Float[Tensor, "batch coarse"] | None,
    targets: Targets,
    options: LossOptions,
    readings: Readings | None = None,
) -> Float[Tensor, "*batch"]:
    """The loss as a differentiable function of the scores; `computed` is the result of `batch_loss` for them."""
    # The scores are an argument of their own, so that torch tracks their gradient and saves them for the backward pass.
    scores = None if readings is None else readings.scores
    detached = None if readings is None else readings._replace(scores=None)
    result: Tensor = _Loss.apply(fine, coarse, scores, computed, tables, targets, options, detached)  # type: ignore[no-untyped-call]
    return result


class _Loss(torch.autograd.Function):
    """Returns the gradients that were computed together with the loss."""

    @staticmethod
    def forward(
        ctx: Any,
        fine: Float[Tensor, "batch fine"],
        coarse: Float[Tensor, "batch coarse"] | None,
        numbers: Float[Tensor, "batch number 2"] | None,
        computed: LossAndGradients,
        tables: SumTables,
        targets: Targets,
        options: LossOptions,
        readings: Readings | None,
    ) -> Float[Tensor, "*batch"]:
        ctx.tables, ctx.targets, ctx.options, ctx.gradients = tables, targets, options, computed.gradients
        ctx.readings = readings
        ctx.save_for_backward(fine, coarse, numbers)
        return computed.loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        fine, coarse, numbers = ctx.saved_tensors
        gradients: Gradients | None = ctx.gradients
        if gradients is None:
            readings = None if ctx.readings is None else ctx.readings._replace(scores=numbers)
            gradients = batch_loss(ctx.tables, fine, coarse, ctx.targets, ctx.options, readings).gradients
        # The gradients are scaled in place and handed to torch, so a second backward pass must recompute them.
        ctx.gradients = None
        factor = grads[0].unsqueeze(1) if grads[0].ndim else grads[0]
        is_one = factor.ndim == 0 and factor.device.type == "cpu" and factor.item() == 1.0
        results: list[Tensor | None] = []
        for grad, source in zip(gradients, (fine, coarse, numbers), strict=True):
            broadcast = factor if grad is None or grad.ndim == 2 or not factor.ndim else factor.unsqueeze(2)
            scaled = grad if grad is None or is_one else grad.mul_(broadcast)
            results.append(None if scaled is None else scaled.to(source.dtype))
        return *results, None, None, None, None, None


def compiled_loss(
    tensors: GraphTensors,
    fine: Float[Tensor, "batch fine"],
    coarse: Float[Tensor, "batch coarse"] | None,
    targets: Targets,
    divisor: float | Float[Tensor, ""] | None,
    readings: Readings | None = None,
) -> Float[Tensor, "*batch"]:
    """The loss inside a compiled program: per sample, or summed and divided by `divisor`."""
    ones = fine.new_ones(len(fine), 1 + targets.column.shape[1], dtype=tensors.by_groups.dtype_of(fine, coarse))
    weight = ones if targets.weight is None else targets.weight * ones
    read = (None,) * 4 if readings is None else (readings.value, readings.weight, readings.scores, readings.evidence)
    loss: Tensor = _loss_operator(fine, coarse, targets.fine, targets.column, weight, *read, tensors.key)[0]
    return loss if divisor is None else loss.sum() / divisor


@torch.library.custom_op(
    "finegraph::joint_loss",
    mutates_args=(),
    schema="(Tensor fine, Tensor? coarse, Tensor target, Tensor column, Tensor weight, Tensor? read, "
    "Tensor? read_weight, Tensor? numbers, Tensor? evidence, int key) -> (Tensor, Tensor, Tensor, Tensor)",
)
def _loss_operator(
    fine: Tensor,
    coarse: Tensor | None,
    target: Tensor,
    column: Tensor,
    weight: Tensor,
    read: Tensor | None,
    read_weight: Tensor | None,
    numbers: Tensor | None,
    evidence: Tensor | None,
    key: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss of each sample as one opaque operator, since it branches on values; `key` finds the graph's tensors."""
    tensors = GraphTensors.by_key(key)
    tables = tensors.by_groups
    targets = Targets(target, column, weight, tables.targets.max_kinds())
    readings = None
    if read_weight is not None:
        readings = Readings(tensors.numbers, target, read, read_weight, numbers, evidence)
    options = LossOptions(coarse_gradient=coarse is not None)
    loss, gradients = batch_loss(tables, fine, coarse, targets, options, readings)
    assert gradients.fine is not None
    # An operator must return tensors, so an empty one stands for a gradient that does not exist.
    coarse_grad = fine.new_zeros(0) if coarse is None or gradients.coarse is None else gradients.coarse.to(coarse.dtype)
    number_grad = fine.new_zeros(0)
    if numbers is not None:
        number_grad = torch.zeros_like(numbers) if gradients.numbers is None else gradients.numbers.to(numbers.dtype)
    return loss, gradients.fine.to(fine.dtype), coarse_grad, number_grad


@_loss_operator.register_fake
def _(
    fine: Tensor,
    coarse: Tensor | None,
    target: Tensor,
    column: Tensor,
    weight: Tensor,
    read: Tensor | None,
    read_weight: Tensor | None,
    numbers: Tensor | None,
    evidence: Tensor | None,
    key: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dtype = GraphTensors.by_key(key).by_groups.dtype_of(fine, coarse)
    coarse_grad = fine.new_empty(0) if coarse is None else coarse.new_empty(coarse.shape)
    number_grad = fine.new_empty(0) if numbers is None else numbers.new_empty(numbers.shape)
    return fine.new_empty(fine.shape[0], dtype=dtype), fine.new_empty(fine.shape), coarse_grad, number_grad


def _save_gradients(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.has_coarse, ctx.has_numbers = inputs[1] is not None, inputs[7] is not None
    ctx.save_for_backward(*output[1:])


def _scale_gradients(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    fine, coarse, numbers = ctx.saved_tensors
    factor = grads[0].unsqueeze(1)
    coarse_grad = (coarse * factor).to(coarse.dtype) if ctx.has_coarse else None
    number_grad = (numbers * factor.unsqueeze(2)).to(numbers.dtype) if ctx.has_numbers else None
    return (fine * factor).to(fine.dtype), coarse_grad, None, None, None, None, None, number_grad, None, None


_loss_operator.register_autograd(_scale_gradients, setup_context=_save_gradients)
