"""The loss of one batch and its gradients: the formulas of docs/idea.md, in their order and with their numbers.

    (2)  s_i         =  f_i + sum_j log sum_c g^j[i, c] exp(f^j[c])
    (3)  p_i         =  softmax(s)_i
    (4)  p^j_c       =  sum_i p_i r^j[i, c]
    (5)  L           =  - w_0 log p_y - sum_j w_j log p^j[t_j]
    (6)  dL/ds_i     =  (w_0 + sum_j w_j) p_i - w_0 [i = y] - sum_j w_j p_i r^j[i, t_j] / p^j[t_j]
    (7)  dL/df^j_c   =  sum_i r^j[i, c] dL/ds_i + w_j (sum_i p_i r^j[i, t_j] r^j[i, c] / p^j[t_j] - [c = t_j])

Numbers add a term to (2), by (n1) of `numbers/potential.py`, and one to (4) to (6), by (n3) to (n6) of
`numbers/readings.py`. A batch costs a few times as much as plain cross-entropy and needs two matrices of its size. If a
probability underflows, its terms in (4) to (7) are computed in log space; nothing is clamped.

For torch this is a differentiable function, in eager mode and inside compiled programs. The gradients are computed
together with the loss; the backward pass only scales them. A batch far larger than the processor's caches is processed
in chunks of samples.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finegraph.inference.numbers.potential import added_terms, score_gradient
from finegraph.inference.numbers.readings import Readings, read_number, reading_terms
from finegraph.inference.numerics import MAX_TOGETHER, at_least_float32, refuse_second_derivatives, without_autocast
from finegraph.inference.sums.graph_tensors import GraphTensors, SumTables
from finegraph.inference.sums.interface import GraphSums, LogSpaceSums, OtherFactors
from finegraph.inference.sums.targets import Targets


class LossOptions(NamedTuple):
    """What to compute.

    Attributes:
        total: whether to sum the losses of all samples.
        scale: a factor for a total loss and for all gradients; 1 over the number of samples for a mean.
        gradient: whether to compute the gradient for the fine scores.
        coarse_gradient: whether to compute the gradient for the coarse scores too.
        number_gradient: whether to compute the gradient for the scores of numbers too.
    """

    total: bool = False
    scale: float | Float[Tensor, ""] = 1.0
    gradient: bool = True
    coarse_gradient: bool = True
    number_gradient: bool = True


class Gradients(NamedTuple):
    """The gradients of the summed loss.

    Attributes:
        fine: for the fine scores; None if not requested.
        coarse: for the coarse scores; None if not requested.
        numbers: for the scores of numbers; None if not requested.
    """

    fine: Float[Tensor, "batch fine"] | None = None
    coarse: Float[Tensor, "batch coarse"] | None = None
    numbers: Float[Tensor, "batch number 2"] | None = None


class LossAndGradients(NamedTuple):
    """A loss, per sample or in total, and its gradients."""

    loss: Float[Tensor, "*batch"]
    gradients: Gradients


NO_MEMORY = Gradients()


def loss_and_gradients(
    sums: GraphSums,
    fine: Float[Tensor, "batch fine"],
    targets: Targets,
    options: LossOptions,
    readings: Readings | None = None,
    memory: Gradients = NO_MEMORY,
) -> LossAndGradients:
    """The loss and its gradients.

    Args:
        sums: the sums over the graph, for the coarse scores of the batch.
        fine: the fine scores, in float32 or wider.
        targets: the observed labels.
        options: what to compute.
        readings: the observed values and the scores of numbers; None if there are no terms of numbers.
        memory: tensors that the gradients may be written to; each may be None.
    """
    scale, dtype = options.scale, sums.dtype
    joint, added = sums.joint_scores(fine, memory.fine), None  # (2)
    if readings is not None and readings.scores is not None:
        out = None if joint is fine else joint
        added = added_terms(
            readings.table, readings.scores, readings.evidence, joint, out, options.number_gradient
        )  # (n1)
        joint = added.total
    # The probabilities overwrite the joint scores, unless these are the caller's tensor.
    fine_probs = torch.softmax(joint, dim=1, out=memory.fine if joint is fine else joint)  # (3)
    read = None
    if readings is not None:
        moments = None if added is None else added.moments
        read = reading_terms(readings, fine_probs, moments, options.number_gradient)  # (n3)
    sums.set_probs(fine_probs, targets)
    del joint, fine_probs  # as large as what the sums hold
    probs = sums.target_probs(None if read is None else read.probs)  # (4)
    count, weight, underflow = 1 + targets.column.shape[1], targets.weight, None
    if readings is not None:
        weight = _with_weights_of_numbers(weight, readings, probs)
    if weight is not None and not bool((weight > 0).all()):
        # Labels that were not observed have weight 0. They must not count as underflow, nor give 0 * log 0.
        probs = torch.where(weight > 0, probs, 1.0)
    kept = weight
    # The only fallback: terms that underflowed are left out here and added in log space below.
    if probs.numel() and probs.amin().item() < sums.smallest:
        underflow = probs < sums.smallest
        probs = probs.masked_fill(underflow, 1.0)
        weight = torch.ones_like(probs) if weight is None else weight.expand_as(probs)
        kept = weight.masked_fill(underflow, 0.0)
    logs = probs.log() if kept is None else probs.log().mul_(kept)
    loss = logs.sum().mul_(-scale) if options.total and underflow is None else logs.sum(dim=1).neg_()  # (5)
    del logs
    gradients = Gradients()
    if options.gradient:
        prob_grads = probs.reciprocal_().mul_(-scale)
        prob_grads = prob_grads if kept is None else prob_grads.mul_(kept)
        others = numbers = None
        if readings is not None and read is not None:
            own = prob_grads[:, count:].to(read.probs.dtype).contiguous()
            others = OtherFactors(readings.total_weight, read.factors(own)).to(probs.dtype)  # (n5)
            numbers = read.score_gradient(own)  # (n6)
        fine_grad = sums.gradient(prob_grads[:, :count], targets.weight, scale, others)  # (6)
        gradients = Gradients(fine_grad, numbers=numbers)
    if underflow is not None and weight is not None:
        _add_in_log_space(sums, fine, targets, readings, weight, underflow, scale, loss, gradients)
        loss = loss.sum() * scale if options.total else loss
    grad, numbers = gradients.fine, gradients.numbers
    if grad is not None and options.coarse_gradient:
        coarse_grad = sums.coarse_gradient(grad, underflow is None, memory.coarse)  # (7)
        gradients = gradients._replace(coarse=coarse_grad)
    if grad is not None and readings is not None and added is not None and options.number_gradient:
        assert readings.scores is not None
        through_scores = score_gradient(
            readings.table, readings.scores, readings.evidence, grad, added.quick, added.moments
        )
        gradients = gradients._replace(numbers=through_scores if numbers is None else through_scores.add_(numbers))
    return LossAndGradients(loss.to(dtype), gradients)


def _with_weights_of_numbers(
    weight: Float[Tensor, "_ term"] | None, readings: Readings, probs: Float[Tensor, "batch _"]
) -> Float[Tensor, "_ _"] | None:
    """The weights of the targets and then of numbers; None if all are 1."""
    own, count = readings.weight, len(readings.table)
    if weight is None and own is None:
        return None
    weight = probs.new_ones(1, probs.shape[1] - count) if weight is None else weight
    own = probs.new_ones(1, count) if own is None else own.to(weight.dtype)
    rows = max(len(weight), len(own))
    return torch.cat([weight.expand(rows, -1), own.expand(rows, -1)], dim=1)


def _add_in_log_space(
    sums: GraphSums,
    fine: Float[Tensor, "batch fine"],
    targets: Targets,
    readings: Readings | None,
    weight: Float[Tensor, "batch _"],
    underflow: Bool[Tensor, "batch _"],
    scale: float | Float[Tensor, ""],
    loss: Float[Tensor, " batch"],
    gradients: Gradients,
) -> None:
    """Add the terms of targets and numbers whose probabilities underflowed, for some samples after the other."""
    for sample in torch.split(underflow.any(dim=1).nonzero().squeeze(1), max(1, MAX_TOGETHER // fine.shape[1])):
        joint, own = sums.of_samples(sample).joint_scores(fine[sample]), None
        if readings is not None:
            own = readings.part(sample)
            if own.scores is not None:
                joint = added_terms(own.table, own.scores, own.evidence, joint).total
        log_probs = torch.log_softmax(joint.double(), dim=1)
        add_terms_in_log_space(
            sums,
            sample,
            log_probs,
            targets,
            weight,
            underflow,
            scale,
            loss,
            gradients.fine,
            readings,
            gradients.numbers,
        )


def add_terms_in_log_space(
    sums: LogSpaceSums,
    sample: Int[Tensor, " sample"],
    log_probs: Float[Tensor, "sample fine"],
    targets: Targets,
    weight: Float[Tensor, "batch _"],
    underflow: Bool[Tensor, "batch _"],
    scale: float | Float[Tensor, ""],
    loss: Float[Tensor, " batch"],
    grad: Float[Tensor, "batch fine"] | None,
    readings: Readings | None = None,
    number_grad: Float[Tensor, "batch number 2"] | None = None,
) -> None:
    """Add the terms of targets and numbers whose probabilities underflowed to the loss and to the gradients.

    Args:
        sums: the sums over the graph.
        sample: some of the samples in which a probability underflowed.
        log_probs: their log probabilities, in float64.
        targets: the observed labels.
        weight: the weights of the fine label, of each target and of each number.
        underflow: which of these underflowed.
        scale: the factor of all gradients.
        loss: the loss of each sample, changed in place.
        grad: the gradient for the joint scores, changed in place; None if not requested.
        readings: the observed values and the scores of numbers; None if there are no terms of numbers, or if `sums`
            knows them.
        number_grad: the gradient for the scores of numbers, changed in place; None if it is 0 or not requested.
    """
    first_number = 1 + targets.column.shape[1]
    for term in underflow[sample].any(dim=0).nonzero().squeeze(1).tolist():
        own = underflow[sample, term].nonzero().squeeze(1)
        rows, factor = sample[own], weight[sample[own], term].double()
        read = None
        if readings is not None and term >= first_number:
            read = read_number(readings.part(rows), readings.table.numbers[term - first_number])
            log_r = read.fine_log_likelihood()
        else:
            log_r = _log_one_hot(targets.fine[rows], log_probs) if term == 0 else sums.log_shares(rows, term - 1)
        log_terms = log_probs[own] + log_r
        log_prob = sums.log_sum(log_terms)
        loss.index_add_(0, rows, -(factor * log_prob.squeeze(1)).to(loss.dtype))
        if grad is None:
            continue
        # A truly impossible label has no fine labels: the loss is infinite, and its part of the gradient is 0.
        share = log_r.exp_() if term == 0 else (log_terms - log_prob).exp_().nan_to_num_(nan=0.0)
        share.mul_((factor * scale).unsqueeze(1))
        grad.index_add_(0, rows, -share.to(grad.dtype))
        if read is None:
            if term > 0:
                sums.add_shares(rows, term - 1, share)
        elif number_grad is not None:
            changes = read.changes(share) * share.new_tensor([-1.0, 0.5])
            number_grad[:, read.number.place].index_add_(0, rows, changes.to(number_grad.dtype))


def _log_one_hot(label: Int[Tensor, " sample"], like: Float[Tensor, "_ fine"]) -> Float[Tensor, "sample fine"]:
    """0 for one fine label of each sample, minus infinity for the others."""
    is_label = torch.arange(like.shape[1], device=like.device) == label.unsqueeze(1)
    return torch.where(is_label, 0.0, like.new_full((), -torch.inf))


# ---- as a function of torch ------------------------------------------------------------------------------------------


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
        fine: the fine scores.
        coarse: the coarse scores; None if all are 0, as in softmax.
        targets: the observed labels.
        options: what to compute.
        readings: the observed values and the scores of numbers; None if there are no terms of numbers.
    """
    fine, coarse = at_least_float32(fine), None if coarse is None else at_least_float32(coarse)
    if readings is not None and readings.scores is not None:
        readings = readings._replace(scores=at_least_float32(readings.scores))
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
        unscaled = is_one(factor)
        results: list[Tensor | None] = []
        for grad, source in zip(gradients, (fine, coarse, numbers), strict=True):
            broadcast = factor if grad is None or grad.ndim == 2 or not factor.ndim else factor.unsqueeze(2)
            scaled = grad if grad is None or unscaled else grad.mul_(broadcast)
            results.append(None if scaled is None else scaled.to(source.dtype))
        return *results, None, None, None, None, None


def is_one(factor: Float[Tensor, "*batch"]) -> bool:
    """Whether a gradient is 1, as that of a loss itself; it is only read on the CPU, where that costs nothing."""
    return factor.ndim == 0 and factor.device.type == "cpu" and factor.item() == 1.0


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
    read: tuple[Tensor | None, ...] = (None,) * 4
    if readings is not None:
        read_weight = fine.new_ones(1, len(readings.table)) if readings.weight is None else readings.weight
        read = readings.value, read_weight, readings.scores, readings.evidence
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
    options = LossOptions(coarse_gradient=coarse is not None, number_gradient=numbers is not None)
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
