"""The joint loss from features and weights on, with scores of all labels held once, and over several processes.

`joint_loss` starts from scores, so that a linear layer has them, the loss has their probabilities, and the gradient is
a third matrix of that size. Here the layer of the fine labels is part of the loss, as `sums/label_rows.py` says: one
matrix (fine, batch) becomes scores, exponentials and gradient in turn. Time is about that of a linear layer of fine and
coarse labels with cross-entropy.

If processes share the fine labels out, each finds the sums over its own. What they tell each other in a step is one
reference per sample, batch x (targets + 2) sums, and the gradients for the features and for the coarse scores that all
of them hold: nothing of it grows with the number of fine labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.inference.loss.joint_loss import (
    KindWeights,
    Reduction,
    batch_targets,
    check_types,
    divisor_of,
    weights_of_kinds,
)
from finegraph.inference.numerics import (
    at_least_float32,
    refuse_second_derivatives,
    shared_constants,
    without_autocast,
)
from finegraph.inference.sums.graph_tensors import GraphTensors, graph_tensors
from finegraph.inference.sums.interface import ROUNDING, largest_size
from finegraph.inference.sums.label_rows import LabelRows, LabelSums
from finegraph.inference.sums.targets import Targets

_SMALLEST = {torch.float32: 1e-30, torch.float64: 1e-290}
"""Of a probability below this, terms may have underflowed."""
_MAX_ERROR, _FEW_KINDS, _MANY_KINDS = 1e-5, 16, 32
"""The estimated error up to which float32 sums are used, less with more kinds; with many kinds float64 is used."""


class Exchange:
    """What processes that hold parts of the labels tell each other; here there is one, which has nobody to tell."""

    def sum(self, tensors: Sequence[Shaped[Tensor, " ..."]]) -> None:
        """Replace each tensor by its sum over all processes."""

    def largest(self, values: Shaped[Tensor, " ..."]) -> None:
        """Replace each number by the largest one of all processes."""


ALONE = Exchange()


@dataclass(frozen=True)
class RowsTask:
    """What the loss is of.

    Attributes:
        rows: the fine labels that this process holds.
        targets: what was observed; a fine label, or a column, that another process holds is -1.
        weight: the weight of the fine label and of each target.
        factor: a factor of the loss, if it is a total, and of all gradients.
        total: whether the loss is that of all samples together.
        shared: the coarse columns that all processes hold.
        exchange: how processes tell each other what they found.
    """

    rows: LabelRows
    targets: Targets
    weight: Float[Tensor, "_ term"]
    factor: float | Float[Tensor, ""]
    total: bool
    shared: tuple[slice, ...] = ()
    exchange: Exchange = ALONE


def all_label_rows(graph: LabelGraph) -> LabelRows:
    """What to add up for all fine labels of a graph."""
    return LabelRows(graph_tensors(graph).by_groups.layout)


def rows_task(
    tensors: GraphTensors,
    batch: int,
    target: Int[Tensor, " batch"] | None,
    kind_targets: Mapping[str, Int[Tensor, " batch"]] | None = None,
    kind_weights: KindWeights = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
    rows: LabelRows | None = None,
) -> RowsTask:
    """What the loss of a batch is of; arguments as those of `joint_loss`, targets as the whole graph counts labels.

    Args:
        tensors: the graph; it has no numbers.
        batch: how many samples there are.
        target: the fine label of each sample, `ignore_index` where it was not observed; None if none was.
        kind_targets: for some kinds the label seen on each photo.
        kind_weights: the weight of the term of each kind.
        reduction: "mean", "sum" or "none".
        ignore_index: marks what was not observed.
        rows: the fine labels that this process holds; all by default.
    """
    kind_targets = kind_targets or {}
    weights = weights_of_kinds(tensors.graph, kind_weights)
    check_types(tensors.graph, target, kind_targets)
    if target is None:
        target = torch.full((batch,), ignore_index, device=tensors.device)
    targets, observed = batch_targets(
        tensors, tensors.by_groups, target, kind_targets, weights, ignore_index, batch, torch.float64
    )
    divisor = divisor_of(reduction, batch, observed, torch.float64)
    ones = torch.ones(1, 1 + targets.column.shape[1], dtype=torch.float64, device=tensors.device)
    return RowsTask(
        shared_constants(all_label_rows, tensors.graph, tensors.device) if rows is None else rows,
        targets,
        ones if targets.weight is None else targets.weight,
        1.0 if divisor is None else 1.0 / divisor,
        divisor is not None,
    )


class _Layer(NamedTuple):
    """The layer of the fine labels, and the features that it gets."""

    features: Float[Tensor, "batch feature"]
    weight: Float[Tensor, "fine feature"]
    bias: Float[Tensor, " fine"] | None


def rows_loss(
    task: RowsTask,
    features: Float[Tensor, "batch feature"],
    weight: Float[Tensor, "fine feature"],
    bias: Float[Tensor, " fine"] | None,
    coarse: Float[Tensor, "batch coarse"] | None,
) -> Float[Tensor, "*batch"]:
    """The loss, differentiable for the features, the weights, the biases and the coarse scores.

    Args:
        task: what the loss is of.
        features: those of the batch; the same in all processes.
        weight: the weights of the fine labels of this process.
        bias: their biases, if they have any.
        coarse: the coarse scores; None if all are 0, as in softmax.
    """
    result: Tensor = _RowsLoss.apply(features, weight, bias, coarse, task)  # type: ignore[no-untyped-call]
    return result


class _RowsLoss(torch.autograd.Function):
    """The loss; the gradient for the joint scores is found on the way and kept."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Float[Tensor, "batch feature"],
        weight: Float[Tensor, "fine feature"],
        bias: Float[Tensor, " fine"] | None,
        coarse: Float[Tensor, "batch coarse"] | None,
        task: RowsTask,
    ) -> Float[Tensor, "*batch"]:
        wanted = any(ctx.needs_input_grad)
        with without_autocast(features.device):
            wide = torch.float64 if torch.float64 in (features.dtype, weight.dtype) else torch.float32
            layer = _Layer(features.to(wide), weight, bias)
            loss, sums = _found(task, layer, None if coarse is None else at_least_float32(coarse), wanted)
            ctx.coarse_grad = None
            if ctx.needs_input_grad[3]:
                ctx.coarse_grad = sums.coarse_gradient()
                task.exchange.sum([ctx.coarse_grad[:, columns] for columns in task.shared])
        ctx.task, ctx.wide, ctx.bias_type = task, wide, None if bias is None else bias.dtype
        ctx.coarse_type = None if coarse is None else coarse.dtype
        ctx.save_for_backward(features, weight, sums.values if wanted else None)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        features, weight, values = ctx.saved_tensors
        # The gradient is scaled by way of the features, which are far fewer numbers; so it can be used again.
        factor = (grads[0].unsqueeze(1) if grads[0].ndim else grads[0]).to(ctx.wide)
        own = values.to(ctx.wide)
        feature_grad = weight_grad = bias_grad = coarse_grad = None
        with without_autocast(features.device):
            if ctx.needs_input_grad[0]:
                feature_grad = own.t() @ weight.to(ctx.wide)
                ctx.task.exchange.sum([feature_grad])
                feature_grad = feature_grad.mul_(factor).to(features.dtype)
            if ctx.needs_input_grad[1]:
                weight_grad = (own @ (features.to(ctx.wide) * factor)).to(weight.dtype)
            if ctx.needs_input_grad[2]:
                scaled = own.new_ones(len(features)) * factor.reshape(-1)
                bias_grad = (own @ scaled).to(ctx.bias_type)
            if ctx.coarse_grad is not None:
                coarse_grad = (ctx.coarse_grad * factor).to(ctx.coarse_type)
        return feature_grad, weight_grad, bias_grad, coarse_grad, None


def _found(
    task: RowsTask, layer: _Layer, coarse: Float[Tensor, "batch coarse"] | None, wanted: bool
) -> tuple[Float[Tensor, "*batch"], LabelSums]:
    """The loss, and the sums with the gradient for the joint scores if that is wanted."""
    sums = _exponentials(task, layer, coarse)
    reference = sums.reference.clone()
    task.exchange.largest(reference)
    # Relative to the reference of all processes; the exponentials stay as they are, the sums are scaled.
    shift = (sums.reference - reference).exp().double().unsqueeze(1)
    found = torch.cat([sums.total.unsqueeze(1), sums.target_sums().double()], dim=1) * shift
    task.exchange.sum([found])
    total, at_targets = found[:, :1], found[:, 1:]
    weight = task.weight.double().expand_as(at_targets)
    probs = torch.where(weight > 0, at_targets / total, 1.0)
    underflow = probs < _SMALLEST[sums.dtype]
    loss = -(probs.masked_fill(underflow, 1.0).log() * weight).sum(dim=1)
    if wanted:
        prob_grads = (-weight * task.factor / at_targets * shift).masked_fill(underflow | (weight == 0), 0.0)
        scale = (task.factor / total * shift).squeeze(1)
        sums.find_gradient(prob_grads.to(sums.dtype), weight.to(sums.dtype), scale.to(sums.dtype), task.factor)
    if bool(underflow.any()):
        _add_in_log_space(
            task, layer, sums, weight, underflow, reference.double() + total.squeeze(1).log(), loss, wanted
        )
    loss = loss.sum() * task.factor if task.total else loss
    return loss.to(sums.dtype), sums


def _exponentials(task: RowsTask, layer: _Layer, coarse: Float[Tensor, "batch coarse"] | None) -> LabelSums:
    """The sums with the exponentials: in float32 unless scores are too large, or kinds too many, for that."""
    layout, batch = task.rows.layout, len(layer.features)
    groups = mixing = None
    if coarse is not None and layout.kinds:
        groups, mixing = layout.group_scores(coarse)
    elif coarse is None and len(layout.edge_row):
        mixing = layout.edge_log_weight.expand(batch, -1)
    kinds = len(layout.kinds)
    double = layer.features.dtype == torch.float64 or (coarse is not None and coarse.dtype == torch.float64)
    if not double and kinds <= _MANY_KINDS:
        sums = LabelSums(task.rows, groups, mixing, task.targets, torch.float32)
        sums.find_exponentials(*layer)
        largest = torch.tensor([sums.largest, 0.0 if groups is None else kinds**0.5 * largest_size(groups)])
        task.exchange.largest(largest)
        error = kinds**0.5 * float(largest.amax()) * ROUNDING if groups is not None else 0.0
        if error <= _MAX_ERROR / max(1.0, (1 + kinds) / _FEW_KINDS):
            return sums
        del sums
    sums = LabelSums(task.rows, groups, mixing, task.targets, torch.float64)
    sums.find_exponentials(*layer)
    return sums


def _add_in_log_space(
    task: RowsTask,
    layer: _Layer,
    sums: LabelSums,
    weight: Float[Tensor, "batch term"],
    underflow: Tensor,
    log_total: Float[Tensor, " batch"],
    loss: Float[Tensor, " batch"],
    wanted: bool,
) -> None:
    """Add the terms of targets whose probabilities underflowed to the loss, and take them off the gradient.

    All processes see the same terms here, since they follow from sums of all of them.

    Args:
        task: what the loss is of.
        layer: the layer of the fine labels.
        sums: the sums, with the gradient if that is wanted.
        weight: the weights of the fine label and of each target.
        underflow: which of these underflowed.
        log_total: the log of the sum of the exponentials of all joint scores.
        loss: the loss of each sample, to add to.
        wanted: whether there is a gradient to add to.
    """
    for sample in underflow.any(dim=1).nonzero().squeeze(1).tolist():
        scores = sums.log_terms(sample, layer.features[sample], layer.weight, layer.bias)
        for term in underflow[sample].nonzero().squeeze(1).tolist():
            log_terms = scores + sums.log_shares(sample, term - 1)
            top = log_terms.amax().reshape(1)
            task.exchange.largest(top)
            top = top.masked_fill(~top.isfinite(), 0.0)
            summed = (log_terms - top).exp().sum().reshape(1)
            task.exchange.sum([summed])
            log_sum = top + summed.log()
            loss[sample] -= weight[sample, term] * (log_sum - log_total[sample])[0]
            if wanted:
                # A label that is truly impossible has no share in its fine labels: the loss is infinite, this 0.
                share = (log_terms - log_sum).exp().nan_to_num_(nan=0.0)
                sums.take(sample, term - 1, share * (weight[sample, term] * task.factor))
