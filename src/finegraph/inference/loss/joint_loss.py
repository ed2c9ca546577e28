"""The losses: of labels and values of numbers, and of comparisons.

The joint loss of the paper is for complete, partial and set-valued labels, photo labels, and values of numbers.

    L = -log p_y - sum_j weight_j log p^j[t_j]        t_j = the parent of y in kind j, or the photo label

A number adds minus the log probability of reading the value of y, or the value measured on the photo
(`numbers/readings.py`). What was not observed is left out: an unknown parent, or a fine label or kind marked with
`ignore_index`. A sample with nothing observed contributes 0. Time and memory are a few times those of plain
cross-entropy (`formulas.py`).

The ranking loss is for comparisons, such as "photo A is hotter than photo B", on the values that a model predicts:

    L = log(1 + exp(-(more - less) / scale))           "the same": the mean of both directions

This is the Bradley-Terry model on predicted values; `fit_comparisons` uses it on the values of fine labels. Adding a
constant to all values changes nothing. The cost is linear in the pairs. The loss is finite for differences of any size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import softplus

from finegraph.errors import InputError, ShapeError
from finegraph.inference.loss.formulas import LossOptions, batch_loss, compiled_loss, with_gradients
from finegraph.inference.numbers.number_tensors import NumberTensors
from finegraph.inference.numbers.potential import components_of
from finegraph.inference.numbers.readings import Readings, check_number_scores, readings_of, scaled_values
from finegraph.inference.posterior import Posterior
from finegraph.inference.sums.targets import (
    KindWeights,
    Reduction,
    batch_targets,
    check_types,
    divisor_of,
    photo_labels,
    weights_of_kinds,
)


def joint_loss(
    posterior: Posterior,
    target: Int[Tensor, " batch"] | Bool[Tensor, "batch fine"] | None,
    kind_targets: Mapping[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]] | None = None,
    kind_weights: KindWeights = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
    """The joint negative log-likelihood of the fine label and of its coarse labels.

    Args:
        posterior: the output of a head.
        target: the fine label of each sample, or `ignore_index` if it was not observed. For samples known only to be
            one of several fine labels, a mask (batch, fine). None if no fine label was observed.
        kind_targets: for some kinds, the photo label of each sample: `ignore_index` if it was not observed, `FROM_FINE`
            (-2) for the parent of the fine label. Other kinds use the parent of the fine label. For numbers, the value
            measured on each photo, in the user's unit; NaN for the value of the fine label, if that is known.
        kind_weights: the weight of the term of each kind and number: one for all, or a mapping. By default 1, as in the
            paper.
        reduction: "mean" over the samples with anything observed, "sum", or "none" for one loss per sample.
        ignore_index: marks labels that were not observed.

    Example:
        >>> from finegraph import LabelGraph
        >>> graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
        >>> posterior = Posterior(graph, torch.zeros(2, 3), {"dish": torch.zeros(2, 2)})
        >>> joint_loss(posterior, torch.tensor([0, 2])).item()   # (log 3 + log 3/2 + log 3 + log 3) / 2
        1.8506...
    """
    graph, tensors, kind_targets = posterior.graph, posterior.tensors, kind_targets or {}
    weights = weights_of_kinds(graph, kind_weights)
    check_types(graph, target, kind_targets)
    measured = scaled_values(tensors.numbers, kind_targets, len(posterior))
    check_number_scores(tensors.numbers, posterior.number_scores)
    kind_targets = {name: labels for name, labels in kind_targets.items() if name not in graph.numbers}
    if target is not None and target.dtype == torch.bool:
        log_probs = torch.log_softmax(tensors.joint_scores(*posterior.scores_with_evidence()), dim=1)
        return _set_loss(posterior, log_probs, target, kind_targets, measured, weights, reduction, ignore_index)
    reads = bool(graph.numbers) and (weights is None or any(weights[len(graph.kinds) :]))
    fine, coarse = posterior.scores_with_evidence(numbers=not reads)
    tables = tensors.tables_for(coarse)
    batch, dtype = len(posterior), tables.dtype_of(fine, coarse)
    if target is None:
        target = torch.full((batch,), ignore_index, device=fine.device)
    targets, observed = batch_targets(
        graph, tensors.kinds, tables.targets, target, kind_targets, weights, ignore_index, batch, dtype
    )
    readings = None
    if reads:
        known = None if observed is None else target != ignore_index
        readings = _posterior_readings(posterior, targets.fine, known, measured, weights)
    if observed is not None and measured is not None:
        observed = observed | ~measured.isnan().all(dim=1)
    divisor = divisor_of(reduction, batch, observed, dtype)
    if torch.compiler.is_compiling():
        return compiled_loss(tensors, fine, coarse, targets, divisor, readings)
    needs_coarse = torch.is_grad_enabled() and coarse is not None and coarse.requires_grad
    scores = None if readings is None else readings.scores
    needs_numbers = torch.is_grad_enabled() and scores is not None and scores.requires_grad
    needs_any = needs_coarse or needs_numbers or (torch.is_grad_enabled() and fine.requires_grad)
    scale = 1.0 if divisor is None else 1.0 / divisor
    options = LossOptions(divisor is not None, scale, needs_any, needs_coarse, needs_numbers)
    with torch.no_grad():
        computed = batch_loss(tables, fine, coarse, targets, options, readings)
    return with_gradients(computed, tables, fine, coarse, targets, options, readings) if needs_any else computed.loss


def _posterior_readings(
    posterior: Posterior,
    fine: Int[Tensor, " batch"],
    known: Bool[Tensor, " batch"] | None,
    measured: Float[Tensor, "batch number"] | None,
    weights: list[float] | None,
) -> Readings | None:
    """The values that the loss reads, with the scores and the evidence of numbers; None if it reads none.

    Args:
        posterior: the output of a head.
        fine: the fine labels.
        known: where the fine label was observed; None if it was everywhere.
        measured: the values measured on photos, NaN if missing; None if nothing was measured.
        weights: the weights of all kinds and numbers; None if all are 1.
    """
    table = posterior.tensors.numbers
    number_weights = None if weights is None else weights[len(posterior.graph.kinds) :]
    readings = readings_of(table, fine, known, measured, number_weights)
    if readings is None:
        return None
    scores, evidence = posterior.number_scores, posterior.number_evidence
    if scores is None and evidence is not None:
        scores = posterior.fine_scores.new_zeros(len(posterior), len(table), 2)
    return readings._replace(scores=scores, evidence=evidence)


def _set_loss(
    posterior: Posterior,
    log_probs: Float[Tensor, "batch fine"],
    target: Bool[Tensor, "batch fine"],
    kind_targets: Mapping[str, Int[Tensor, " batch"]],
    measured: Float[Tensor, "batch number"] | None,
    weights: list[float] | None,
    reduction: Reduction,
    ignore_index: int,
) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
    """The loss for samples whose fine label is only known to be in a set.

    The term of a kind uses the union of the parents of the set. The term of a number reads the range from the smallest
    to the largest value of the set.

    Args:
        posterior: the output of a head.
        log_probs: the log probabilities of the fine labels.
        target: the set of each sample.
        kind_targets: for some kinds, the photo label of each sample.
        measured: the values measured on photos.
        weights: one weight per kind and number; None if all are 1.
        reduction: "mean", "sum" or "none".
        ignore_index: marks labels that were not observed.
    """
    tensors = posterior.tensors
    if target.shape != log_probs.shape:
        raise ShapeError(f"target: expected a mask of shape {tuple(log_probs.shape)}, got {tuple(target.shape)}")
    observed = target.any(dim=1)
    loss = -_log_sum(log_probs, target)
    for kind in tensors.kinds:
        union = kind.union_of_parents(target)
        if kind.name in kind_targets:
            labels = photo_labels(posterior.graph, kind, kind_targets[kind.name], len(loss), ignore_index)
            one_hot = torch.nn.functional.one_hot(labels.label, kind.label_count).bool()
            union = (one_hot & labels.seen.unsqueeze(1)) | (union & labels.from_fine.unsqueeze(1))
            observed = observed | labels.seen
        weight = 1.0 if weights is None else weights[kind.number]
        loss = loss - weight * _log_sum(posterior.kind_log_probs(kind.name, log_probs), union)
    for number in tensors.numbers.numbers:
        weight = 1.0 if weights is None else weights[len(tensors.kinds) + number.place]
        column = None if measured is None else measured[:, number.place]
        if column is not None:
            observed = observed | ~column.isnan()
        if weight > 0:
            loss = loss - weight * _log_prob_of_range(posterior, number, log_probs, target, column)
    divisor = divisor_of(reduction, len(loss), observed, loss.dtype)
    return loss if divisor is None else loss.sum() / divisor


def _log_prob_of_range(
    posterior: Posterior,
    number: NumberTensors,
    log_probs: Float[Tensor, "batch fine"],
    target: Bool[Tensor, "batch fine"],
    measured: Float[Tensor, " batch"] | None,
) -> Float[Tensor, " batch"]:
    """The log probability of reading a value in the range of a set of fine labels; 0 if one of their values is unknown.

    The likelihood of a value is 1 inside the range and falls with the distance outside. A value measured on the photo
    takes the place of the range.
    """
    if posterior.number_evidence is not None:
        raise InputError("joint_loss: evidence on numbers together with sets of fine labels has no closed form")
    values, variances = number.value[number.component], number.reading_variance[number.component]
    low = values.expand_as(target).masked_fill(~target, torch.inf).amin(dim=1)
    high = values.expand_as(target).masked_fill(~target, -torch.inf).amax(dim=1)
    error = variances.expand_as(target).masked_fill(~target, 0.0).amax(dim=1)
    known = target.any(dim=1) & ~(target & number.fine_value.isnan()).any(dim=1)
    if measured is not None:
        seen = ~measured.isnan()
        low, high = torch.where(seen, measured, low), torch.where(seen, measured, high)
        error, known = torch.where(seen, number.measured_variance, error), known | seen
    # Samples without a range are replaced before the logarithm, so that no NaN enters the gradient.
    low, high = (torch.where(known, end, 0.0).unsqueeze(1) for end in (low, high))
    error = torch.where(known, error, 1.0).unsqueeze(1)
    parts = components_of(number, posterior.number_scores, None)
    distance = (low - parts.mean).clamp_min(0.0) + (parts.mean - high).clamp_min(0.0)
    log_likelihood = -0.5 * (distance.square() / (parts.variance + error) + torch.log1p(parts.variance / error))
    total = torch.logsumexp(log_probs.double() + number.to_fine(log_likelihood), dim=1)
    return torch.where(known, total, 0.0).to(log_probs.dtype)


def _log_sum(log_probs: Float[Tensor, "batch label"], mask: Bool[Tensor, "batch label"]) -> Float[Tensor, " batch"]:
    """The log of the summed probability of each sample's set; 0 for an empty set, which says nothing."""
    nonempty = mask.any(dim=1)
    terms = log_probs.masked_fill(~mask, -torch.inf)
    possible = ~terms.isneginf().all(dim=1)
    # Empty and impossible sets are replaced before the logarithm, so that no NaN enters the gradient.
    total = torch.logsumexp(torch.where(possible.unsqueeze(1), terms, 0.0), dim=1)
    return torch.where(possible, total, torch.where(nonempty, -torch.inf, 0.0))


def ranking_loss(
    values_more: Float[Tensor, " pair"],
    values_less: Float[Tensor, " pair"],
    same: Bool[Tensor, " pair"] | None = None,
    scale: float = 1.0,
    reduction: Literal["mean", "sum", "none"] = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " pair"]:
    """The negative log-likelihood of comparisons, given the two values of each pair.

    Args:
        values_more: the prediction for the item with more, such as `posterior.value("heat").mean[more]`.
        values_less: the prediction for the item with less.
        same: pairs without a difference; none by default.
        scale: the difference that people recognise in 73 of 100 cases, in the unit of the values; a good start is
            `graph.number("heat").width`, or 1 for values that come from comparisons.
        reduction: "mean" over the observed pairs, "sum", or "none" for one loss per pair. A pair with a missing value
            (NaN) is not observed: it contributes 0 and no gradient. Without any observed pair the mean is 0.

    Two equal infinities are a difference of 0, without a gradient. The loss is computed in float32 at least.

    Example:
        >>> values = torch.tensor([2.0, 0.5, float("nan")], requires_grad=True)
        >>> more, less = torch.tensor([0, 0]), torch.tensor([1, 2])
        >>> loss = ranking_loss(values[more], values[less])
        >>> loss.backward()
        >>> round(loss.item(), 4), [round(slope, 4) for slope in values.grad.tolist()]
        (0.2014, [-0.1824, 0.1824, 0.0])
    """
    for given in (values_more, values_less):
        if not isinstance(given, Tensor):
            raise ShapeError(f"expected two tensors of values, one per pair, got {type(given).__name__}")
    if values_more.ndim != 1 or values_more.shape != values_less.shape:
        raise ShapeError(
            f"expected two lists of values, one per pair, got shapes {tuple(values_more.shape)} and "
            f"{tuple(values_less.shape)}"
        )
    if same is not None and not isinstance(same, Tensor):
        raise ShapeError(f"same: expected a tensor, a mask of {len(values_more)} pairs, got {type(same).__name__}")
    if same is not None and (same.shape != values_more.shape or same.dtype != torch.bool):
        raise ShapeError(f"same: expected a mask of {len(values_more)} pairs, got {same.dtype} of {tuple(same.shape)}")
    if not isinstance(scale, Real) or isinstance(scale, bool) or not 0 < float(scale) < math.inf:
        raise InputError(f"scale: expected a finite number above 0, got {scale!r}")
    if reduction not in ("mean", "sum", "none"):
        raise InputError(f"reduction: expected 'mean', 'sum' or 'none', got {reduction!r}")
    # Differences of half-precision values may be too large for half precision.
    dtype = torch.promote_types(torch.promote_types(values_more.dtype, values_less.dtype), torch.float32)
    values_more, values_less = values_more.to(dtype), values_less.to(dtype)
    observed = ~(values_more.isnan() | values_less.isnan())
    # Replaced before the difference, so that a missing value gets no gradient instead of NaN, nor two equal infinities.
    apart = observed & ~(values_more.isinf() & (values_more == values_less))
    difference = (torch.where(apart, values_more, 0.0) - torch.where(apart, values_less, 0.0)) / scale
    losses = softplus(-difference)
    if same is not None:
        losses = torch.where(same, (losses + softplus(difference)) / 2, losses)
    losses = torch.where(observed, losses, 0.0)
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / observed.sum().clamp(min=1)
