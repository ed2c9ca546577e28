"""The joint loss computed from features and weights, with one matrix for the scores of all labels, over processes too.

`joint_loss` starts from scores: the linear layer holds them, the loss holds their probabilities, and the gradient is a
third matrix of that size. Here the layer of the fine labels is part of the loss (see `sums/label_rows.py`): one matrix
(fine, batch) becomes scores, exponentials and gradient in turn. The time is about that of a linear layer of fine and
coarse labels with cross-entropy.

If processes share the fine labels, each computes the sums over its own. In each step they exchange one reference per
sample, batch x (targets + 2) sums, and the gradients for the features and for the coarse scores that all of them hold.
None of this grows with the number of fine labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.inference.loss.formulas import add_terms_in_log_space, is_one
from finegraph.inference.numbers.number_rows import NumberRows, NumberSums
from finegraph.inference.numbers.potential import NumberScores
from finegraph.inference.numbers.readings import Readings, check_number_scores, readings_of, scaled_values
from finegraph.inference.numerics import (
    at_least_float32,
    largest_size,
    refuse_second_derivatives,
    shared_constants,
    without_autocast,
)
from finegraph.inference.processes import ONE_PROCESS, Processes
from finegraph.inference.sums.graph_tensors import GraphTensors, graph_tensors
from finegraph.inference.sums.interface import MANY_KINDS, float32_suffices, min_probability
from finegraph.inference.sums.label_rows import LabelRows, LabelSums, joint_score_chunks
from finegraph.inference.sums.targets import (
    KindWeights,
    Reduction,
    Targets,
    batch_targets,
    check_types,
    divisor_of,
    weights_of_kinds,
)


@dataclass(frozen=True)
class RowsTask:
    """The targets and options of the loss of one batch.

    Attributes:
        rows: the fine labels of this process.
        targets: the observed labels; -1 for a fine label or a column of another process.
        weight: the weight of the fine label and of each target.
        factor: a factor for a total loss and for all gradients.
        total: whether to sum the losses of all samples.
        shared: the coarse columns that all processes hold.
        exchange: the communication between the processes.
        numbers: the values of the fine labels of this process; None if the graph has no numbers.
        readings: the values of numbers that the loss reads; None if it reads none.
    """

    rows: LabelRows
    targets: Targets
    weight: Float[Tensor, "_ term"]
    factor: float | Float[Tensor, ""]
    total: bool
    shared: tuple[slice, ...] = ()
    exchange: Processes = ONE_PROCESS
    numbers: NumberRows | None = None
    readings: Readings | None = None


def all_label_rows(graph: LabelGraph) -> LabelRows:
    """The rows of all fine labels of a graph."""
    return LabelRows(graph_tensors(graph).by_groups.layout)


def all_number_rows(graph: LabelGraph) -> NumberRows:
    """The values of all fine labels of a graph that has numbers."""
    return NumberRows(graph_tensors(graph).numbers, np.arange(len(graph)))


def rows_task(
    tensors: GraphTensors,
    batch: int,
    target: Int[Tensor, " batch"] | None,
    kind_targets: Mapping[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]] | None = None,
    kind_weights: KindWeights = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
    rows: LabelRows | None = None,
    numbers: NumberRows | None = None,
) -> RowsTask:
    """Prepare the loss of a batch. Arguments are as for `joint_loss`; targets are indices into the whole graph.

    Args:
        tensors: the tensors of the graph.
        batch: the number of samples.
        target: the fine label of each sample, or `ignore_index` if it was not observed; None if none was.
        kind_targets: for some kinds, the photo label of each sample.
        kind_weights: the weight of the term of each kind.
        reduction: "mean", "sum" or "none".
        ignore_index: marks labels that were not observed.
        rows: the fine labels of this process; all by default.
        numbers: their values; None if the graph has no numbers.
    """
    kind_targets = kind_targets or {}
    weights = weights_of_kinds(tensors.graph, kind_weights)
    check_types(tensors.graph, target, kind_targets)
    measured = scaled_values(tensors.numbers, kind_targets, batch)
    kind_targets = {name: labels for name, labels in kind_targets.items() if name not in tensors.graph.numbers}
    if target is None:
        target = torch.full((batch,), ignore_index, device=tensors.device)
    targets, observed = batch_targets(
        tensors.graph,
        tensors.kinds,
        tensors.by_groups.targets,
        target,
        kind_targets,
        weights,
        ignore_index,
        batch,
        torch.float64,
    )
    number_weights = None if weights is None else weights[len(tensors.graph.kinds) :]
    readings = readings_of(tensors.numbers, targets.fine, target != ignore_index, measured, number_weights)
    if observed is not None and measured is not None:
        observed = observed | ~measured.isnan().all(dim=1)
    divisor = divisor_of(reduction, batch, observed, torch.float64)
    ones = torch.ones(1, 1 + targets.column.shape[1], dtype=torch.float64, device=tensors.device)
    return RowsTask(
        shared_constants(all_label_rows, tensors.graph, tensors.device) if rows is None else rows,
        targets,
        ones if targets.weight is None else targets.weight,
        1.0 if divisor is None else 1.0 / divisor,
        divisor is not None,
        numbers=numbers,
        readings=readings,
    )


class _Layer(NamedTuple):
    """The layer of the fine labels and its input features."""

    features: Float[Tensor, "batch feature"]
    weight: Float[Tensor, "fine feature"]
    bias: Float[Tensor, " fine"] | None


def rows_loss(
    task: RowsTask,
    features: Float[Tensor, "batch feature"],
    weight: Float[Tensor, "fine feature"],
    bias: Float[Tensor, " fine"] | None,
    coarse: Float[Tensor, "batch coarse"] | None,
    numbers: NumberScores | None = None,
) -> Float[Tensor, "*batch"]:
    """The loss, differentiable in the features, the weights, the biases, the coarse scores and those of numbers.

    Args:
        task: the targets and options.
        features: the features of the batch, the same in all processes.
        weight: the weights of the fine labels of this process.
        bias: the biases of the fine labels; None if there are none.
        coarse: the coarse scores; None if all are 0, as in softmax.
        numbers: the scores of numbers; None if the graph has none.
    """
    if numbers is not None and task.numbers is not None:
        check_number_scores(task.numbers.table, numbers)
    result: Tensor = _RowsLoss.apply(features, weight, bias, coarse, numbers, task)  # type: ignore[no-untyped-call]
    return result


class _RowsLoss(torch.autograd.Function):
    """The loss. The gradient for the joint scores is computed in the forward pass and kept."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Float[Tensor, "batch feature"],
        weight: Float[Tensor, "fine feature"],
        bias: Float[Tensor, " fine"] | None,
        coarse: Float[Tensor, "batch coarse"] | None,
        numbers: NumberScores | None,
        task: RowsTask,
    ) -> Float[Tensor, "*batch"]:
        needs_gradient = any(ctx.needs_input_grad)
        with without_autocast(features.device):
            dtype = torch.float64 if torch.float64 in (features.dtype, weight.dtype) else torch.float32
            layer = _Layer(features.to(dtype), weight, bias)
            number_sums = None
            if numbers is not None and task.numbers is not None:
                number_sums = NumberSums(task.numbers, numbers, task.readings)
            scores = None if coarse is None else at_least_float32(coarse)
            loss, sums = _loss_and_sums(task, layer, scores, number_sums, needs_gradient)
            ctx.coarse_grad = ctx.number_grad = None
            if ctx.needs_input_grad[4]:
                ctx.number_grad = sums.number_gradient()
                task.exchange.sum([ctx.number_grad])
            if ctx.needs_input_grad[3]:
                ctx.coarse_grad = sums.coarse_gradient()
                task.exchange.sum([ctx.coarse_grad[:, columns] for columns in task.shared])
        ctx.task, ctx.dtype, ctx.bias_dtype = task, dtype, None if bias is None else bias.dtype
        ctx.coarse_dtype, ctx.number_dtype = (None if one is None else one.dtype for one in (coarse, numbers))
        ctx.save_for_backward(features, weight, sums.values if needs_gradient else None)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        features, weight, values = ctx.saved_tensors
        # The features are scaled instead of the gradient: they are far smaller, and the gradient can be used again.
        factor = (grads[0].unsqueeze(1) if grads[0].ndim else grads[0]).to(ctx.dtype)
        score_grad = values.to(ctx.dtype)
        feature_grad = weight_grad = bias_grad = coarse_grad = number_grad = None
        unscaled = is_one(factor)
        with without_autocast(features.device):
            if ctx.needs_input_grad[0]:
                feature_grad = score_grad.t() @ weight.to(ctx.dtype)
                ctx.task.exchange.sum([feature_grad])
                feature_grad = feature_grad.mul_(factor).to(features.dtype)
            if ctx.needs_input_grad[1]:
                scaled = features.to(ctx.dtype) if unscaled else features.to(ctx.dtype) * factor
                weight_grad = (score_grad @ scaled).to(weight.dtype)
            if ctx.needs_input_grad[2]:
                summed = score_grad @ factor.squeeze(1) if factor.ndim else score_grad.sum(dim=1).mul_(factor)
                bias_grad = summed.to(ctx.bias_dtype)
            if ctx.coarse_grad is not None:
                coarse_grad = (ctx.coarse_grad if unscaled else ctx.coarse_grad * factor).to(ctx.coarse_dtype)
            if ctx.number_grad is not None:
                number_grad = (ctx.number_grad * factor.unsqueeze(-1)).to(ctx.number_dtype)
        return feature_grad, weight_grad, bias_grad, coarse_grad, number_grad, None


def _loss_and_sums(
    task: RowsTask,
    layer: _Layer,
    coarse: Float[Tensor, "batch coarse"] | None,
    numbers: NumberSums | None,
    needs_gradient: bool,
) -> tuple[Float[Tensor, "*batch"], LabelSums]:
    """The loss, and the sums with the gradient for the joint scores if it is needed.

    Args:
        task: the targets and options.
        layer: the layer of the fine labels.
        coarse: the coarse scores; None if all are 0.
        numbers: the terms of numbers; None if the graph has none.
        needs_gradient: whether there will be a backward pass.
    """
    sums = _exponentials(task, layer, coarse, numbers)
    reference = sums.reference.clone()
    task.exchange.largest(reference)
    # Exponentials are relative to the reference of this process. Scaling their sums is cheaper than scaling them.
    shift = (sums.reference - reference).exp().double().unsqueeze(1)
    all_sums = sums.sums() * shift
    task.exchange.sum([all_sums])
    total, target_sums = all_sums[:, :1], all_sums[:, 1:]
    weight = task.weight.double().expand(len(target_sums), -1)
    if task.readings is not None and sums.has_readings:
        assert task.readings.weight is not None  # a mask of observed labels was given
        weight = torch.cat([weight, task.readings.weight.double()], dim=1)
    probs = torch.where(weight > 0, target_sums / total, 1.0)
    underflow = probs < min_probability(sums.dtype)
    loss = -(probs.masked_fill(underflow, 1.0).log() * weight).sum(dim=1)
    if needs_gradient:
        prob_grads = (-weight * task.factor / target_sums * shift).masked_fill(underflow | (weight == 0), 0.0)
        scale = (task.factor / total * shift).squeeze(1)
        sums.find_gradient(prob_grads.to(sums.dtype), weight.to(sums.dtype), scale.to(sums.dtype), task.factor)
    if bool(underflow.any()):
        log_total = reference.double().unsqueeze(1) + total.log()
        grad = sums.values.t() if needs_gradient else None
        # One sample after the other, however many labels a process has: all processes must exchange the same sums.
        for sample in torch.split(underflow.any(dim=1).nonzero().squeeze(1), 1):
            log_probs = _joint_scores(task, layer, sums, sample) - log_total[sample]
            add_terms_in_log_space(sums, sample, log_probs, task.targets, weight, underflow, task.factor, loss, grad)
    loss = loss.sum() * task.factor if task.total else loss
    return loss.to(sums.dtype), sums


def _exponentials(
    task: RowsTask, layer: _Layer, coarse: Float[Tensor, "batch coarse"] | None, numbers: NumberSums | None
) -> LabelSums:
    """The sums with the exponentials, in float32 unless the scores are too large or the kinds too many for it."""
    layout, batch = task.rows.layout, len(layer.features)
    groups = mixing = None
    if coarse is not None and layout.kinds:
        groups, mixing = layout.group_scores(coarse)
    elif coarse is None and len(layout.edge_row):
        mixing = layout.edge_log_weight.expand(batch, -1)
    kinds = len(layout.kinds) + (0 if numbers is None else len(numbers.rows.table))
    double = layer.features.dtype == torch.float64 or (coarse is not None and coarse.dtype == torch.float64)
    if not double and kinds <= MANY_KINDS:
        single = None if numbers is None else numbers.to(torch.float32)
        sums = LabelSums(task.rows, groups, mixing, task.targets, torch.float32, single, task.exchange)
        sums.find_exponentials(*layer)
        largest_sum = sums.largest if numbers is None else max(sums.largest, numbers.largest())
        sizes = [largest_sum, 0.0 if groups is None else largest_size(groups.t())]
        largest = torch.tensor(sizes, device=layer.features.device)
        task.exchange.largest(largest)
        if (groups is None and numbers is None) or float32_suffices(kinds, *largest.tolist()):
            return sums
        del sums
    sums = LabelSums(task.rows, groups, mixing, task.targets, torch.float64, numbers, task.exchange)
    sums.find_exponentials(*layer)
    return sums


def _joint_scores(
    task: RowsTask, layer: _Layer, sums: LabelSums, sample: Int[Tensor, " sample"]
) -> Float[Tensor, "sample fine"]:
    """The joint scores of some samples, in float64."""
    groups = None if sums.groups is None else sums.groups[sample]
    numbers = None if sums.numbers is None else sums.numbers.of_samples(sample)
    chunks = joint_score_chunks(task.rows, groups, layer.features[sample], layer.weight, layer.bias, numbers)
    return torch.cat([scores for _, scores in chunks]).t()
