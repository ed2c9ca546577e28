"""The terms of numbers in the loss: the probability of reading the value of a photo.

A reading r has a normal error of variance q around the value v of the photo: its likelihood is exp(-(r - v)^2 / (2 q)),
which is 1 if both agree. With v | i ~ N(m_i, t_i^2) as in `potential.py`, integrating over the value gives (formulas
are numbered as in docs/idea.md)

    (n3)  h_i       =  (1 + t_i^2 / q)^-1/2 exp(-(r - m_i)^2 / (2 (t_i^2 + q)))
    (n4)  L        +=  - weight log sum_i p_i h_i
    (n5)  dL/ds_i  +=  weight (p_i - w_i)                               w_i = p_i h_i / sum_i p_i h_i
    (n6)  dL/da    +=  - weight sum_i w_i (E[v | i, r] - E[v | i])      beside what passes through s
          dL/db    +=  weight / 2 sum_i w_i (E[v^2 | i, r] - E[v^2 | i])

If values are exact, h_i depends on the label of the sample alone: all h_i are kept in a table, and (n6) is 0. Without
evidence, all numbers are computed together in the dtype of the probabilities. With m = (v + a t^2) / (1 + b t^2), the
gain K = t^2 / (t^2 + q) of the reading and d = K (r - m), the differences in (n6) are d for v, and d (2 m + d) - K t^2
for v^2. Cost per number: about two dozen passes over batch x fine, three for exact values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finegraph.errors import InputError, TargetError
from finegraph.inference.numbers.known_values import both_known
from finegraph.inference.numbers.number_tensors import NumberTable, NumberTensors
from finegraph.inference.numbers.potential import Components, NumberEvidence, NumberScores, components_of
from finegraph.inference.numerics import cached_parts

_MAX_DISTANCE = 1e15
"""The largest measured value on the inner scale, and the largest score of a number in float32. Squares stay finite."""
_MAX_SCORE = 1e150
"""The largest score of a number in float64."""


class Readings(NamedTuple):
    """The values that the loss reads.

    Attributes:
        table: the numbers of the graph.
        fine: the fine label of each sample, whose values are read; arbitrary where the weight is 0.
        value: the value measured on the photo, on the inner scale; NaN for the value of the fine label.
        weight: the weight of each term; 0 if there is no reading.
        scores: the scores of the numbers; None if all are 0.
        evidence: the evidence on the numbers; None if there is none.
    """

    table: NumberTable
    fine: Int[Tensor, " batch"]
    value: Float[Tensor, "batch number"] | None
    weight: Float[Tensor, "batch number"]
    scores: NumberScores | None
    evidence: NumberEvidence | None

    def part(self, samples: slice | Int[Tensor, " sample"]) -> Readings:
        """The readings of some of the samples."""
        value, scores, evidence = (
            None if each is None else each[samples] for each in (self.value, self.scores, self.evidence)
        )
        return Readings(self.table, self.fine[samples], value, self.weight[samples], scores, evidence)

    def of_number(self, number: NumberTensors) -> tuple[Float[Tensor, "batch 1"], Float[Tensor, "batch 1"]]:
        """The reading of a number and the variance of its error, in float64."""
        component = number.component.index_select(0, self.fine)
        value, variance = number.value[component], number.reading_variance[component]
        if self.value is not None:
            own = self.value[:, number.place].double()
            measured = ~own.isnan()
            value = torch.where(measured, own, value)
            variance = torch.where(measured, number.measured_variance, variance)
        return value.unsqueeze(1), variance.unsqueeze(1)


def measured_values(
    table: NumberTable, kind_targets: Mapping[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]], batch: int
) -> Float[Tensor, "batch number"] | None:
    """The values measured on photos, on the inner scales, NaN if missing; None if nothing was measured.

    Args:
        table: the numbers of the graph.
        kind_targets: for some kinds and numbers, what was seen or measured on each photo.
        batch: the number of samples.
    """
    if not any(tensors.name in kind_targets for tensors in table.numbers):
        return None
    columns = []
    for tensors in table.numbers:
        number, values = tensors.number, kind_targets.get(tensors.name)
        if values is None:
            columns.append(torch.full((batch,), torch.nan, dtype=torch.float64, device=table.known.device))
            continue
        if values.shape != (batch,) or not values.dtype.is_floating_point:
            raise TargetError(
                f"kind_targets[{tensors.name!r}]: expected one value per sample as floating-point numbers, NaN where "
                f"none was measured, shape ({batch},), got {values.dtype} of shape {tuple(values.shape)}"
            )
        inner = values.to(table.known.device).double()
        inner = ((inner.log() if number.scale == "log" else inner) - number.centre) / number.width
        if not torch.compiler.is_compiling() and bool((~(inner.abs() <= _MAX_DISTANCE) & ~values.isnan()).any()):
            above = " above 0" if number.scale == "log" else ""
            raise TargetError(
                f"kind_targets[{tensors.name!r}]: expected finite values{above} that are not more than "
                f"{_MAX_DISTANCE:g} times as far from those of the graph as these are from each other, or NaN where "
                "none was measured"
            )
        columns.append(inner)
    return torch.stack(columns, dim=1)


def check_number_scores(table: NumberTable, scores: NumberScores | None) -> None:
    """Raise if scores of numbers with spreads, which the loss takes to the square, are too large for their dtype."""
    if scores is None or not table.spread or torch.compiler.is_compiling() or not scores.numel():
        return
    limit = _MAX_SCORE if scores.dtype == torch.float64 else _MAX_DISTANCE
    if (largest := float(scores.detach().abs().amax())) > limit:
        raise InputError(
            f"number_scores: expected pulls and precisions of size at most {limit:g} in {scores.dtype}, got "
            f"{largest:g}; lower the learning rate if a training came to this"
        )


def readings_of(
    table: NumberTable,
    fine: Int[Tensor, " batch"],
    known: Bool[Tensor, " batch"],
    measured: Float[Tensor, "batch number"] | None,
    weights: list[float] | None,
) -> Readings | None:
    """The readings that the loss needs, without the scores of numbers; None if no number has a term.

    Args:
        table: the numbers of the graph.
        fine: the fine label of each sample; arbitrary if it was not observed.
        known: which fine labels were observed.
        measured: the values measured on photos.
        weights: one weight per number; None if all are 1.
    """
    if not len(table) or (weights is not None and not any(weights)):
        return None
    # A sample has a term if its label is known and has a value, or if a value was measured.
    weight = table.known.index_select(0, fine) * known.unsqueeze(1)
    if measured is not None:
        weight = torch.where(measured.isnan(), weight, 1.0)
    if weights is not None:
        weight = weight * weight.new_tensor(weights)
    return Readings(table, fine, measured, weight, None, None)


class ReadingTerms(NamedTuple):
    """The terms of numbers for a batch.

    Attributes:
        probs: sum_i p_i h_i of each sample and number.
        grad: dL/ds of these terms; None if not requested.
        score_grad: the part of dL/d(a, b) that does not pass through s; None if it is zero or not requested.
    """

    probs: Float[Tensor, "batch number"]
    grad: Float[Tensor, "batch fine"] | None
    score_grad: Float[Tensor, "batch number 2"] | None


class _ReadNumber(NamedTuple):
    """The components of a number before and after a reading."""

    number: NumberTensors
    before: Components
    after: Components
    log_likelihood: Float[Tensor, "batch component"]

    def score_grad(self, shares: Float[Tensor, "batch component"]) -> Float[Tensor, "batch 2"]:
        """(n6) without the weight, for shares w of the components."""
        (mean, variance), (old_mean, old_variance) = self.after.moments(), self.before.moments()
        used = shares > 0
        first = torch.where(used, mean - old_mean, 0.0)
        square = torch.where(used, mean * mean + variance - old_mean * old_mean - old_variance, 0.0)
        return torch.stack([-(shares * first).sum(dim=1), 0.5 * (shares * square).sum(dim=1)], dim=1)


class _MomentChanges(NamedTuple):
    """How readings change the moments of numbers with spreads, without evidence.

    Attributes:
        places: the positions of these numbers.
        first: E[v | i, r] - E[v | i].
        square: E[v^2 | i, r] - E[v^2 | i].
    """

    places: Sequence[int]
    first: Float[Tensor, "batch number fine"]
    square: Float[Tensor, "batch number fine"]


def reading_terms(
    readings: Readings,
    probs: Float[Tensor, "batch fine"],
    smallest: float,
    scale: float | Float[Tensor, ""],
    gradient: bool,
) -> ReadingTerms:
    """The terms of a batch; the gradients leave out terms with a probability below `smallest`.

    Args:
        readings: the readings.
        probs: the fine probabilities, which are not changed.
        smallest: terms of a probability below this may have underflowed.
        scale: the factor of all gradients.
        gradient: whether to compute gradients.
    """
    if readings.evidence is not None:
        (like, read), changes = _likelihoods_with_evidence(readings, probs.dtype), None
    else:
        read = []
        like, changes = _likelihoods(readings, probs.dtype, gradient and readings.scores is not None)
    shares = like.mul_(probs.unsqueeze(1))
    reading_probs = shares.sum(dim=2)
    if not gradient:
        return ReadingTerms(reading_probs, None, None)
    weight = readings.weight.to(reading_probs.dtype).mul(scale).masked_fill_(reading_probs < smallest, 0.0)
    factor = weight / reading_probs.clamp_min(smallest)
    grad = torch.baddbmm(
        (weight.sum(dim=1, keepdim=True) * probs).unsqueeze(1), factor.unsqueeze(1), shares, alpha=-1.0
    ).squeeze(1)
    score_grad = None
    if readings.scores is not None and changes is not None:
        score_grad = torch.zeros_like(readings.scores, dtype=torch.float64)
        score_grad[:, list(changes.places)] = _spread_score_grad(changes, shares, factor)
    elif readings.scores is not None and read:
        score_grad = torch.zeros_like(readings.scores, dtype=torch.float64)
        shares.mul_(factor.unsqueeze(2))
        for each in read:
            own = each.number.to_components(shares[:, each.number.place].double())
            score_grad[:, each.number.place] = each.score_grad(own)
    return ReadingTerms(reading_probs, grad, score_grad)


def _spread_score_grad(
    changes: _MomentChanges, shares: Float[Tensor, "batch number fine"], factor: Float[Tensor, "batch number"]
) -> Float[Tensor, "batch _ 2"]:
    """(n6) of numbers with spreads.

    Args:
        changes: how readings change the moments.
        shares: p h of all numbers.
        factor: the weight of each term divided by its probability.
    """
    own = shares if len(changes.places) == shares.shape[1] else shares[:, list(changes.places)]
    factor = factor[:, list(changes.places)]
    first = -factor * changes.first.mul_(own).sum(dim=2)
    square = 0.5 * factor * changes.square.mul_(own).sum(dim=2)
    if not bool((first.isfinite() & square.isfinite()).all()):
        # Labels without a share may have moments that overflow; they must not count.
        first = -factor * changes.first.nan_to_num(0.0, 0.0, 0.0).sum(dim=2)
        square = 0.5 * factor * changes.square.nan_to_num(0.0, 0.0, 0.0).sum(dim=2)
    return torch.stack([first, square], dim=2).double()


def reading_terms_in_log_space(
    readings: Readings,
    log_probs: Float[Tensor, "sample fine"],
    terms: Bool[Tensor, "sample number"],
    scale: float | Float[Tensor, ""],
) -> tuple[Float[Tensor, " sample"], Float[Tensor, "sample fine"], Float[Tensor, "sample number 2"]]:
    """The loss and the gradients of some terms, in float64.

    Args:
        readings: the readings of these samples.
        log_probs: the log probabilities of the fine labels, in float64.
        terms: which terms to compute.
        scale: the factor of all gradients.

    Returns:
        The loss, the gradient for the joint scores, and the part of the gradient for the scores of numbers that does
        not pass through the joint scores.
    """
    loss, grad = log_probs.new_zeros(len(log_probs)), torch.zeros_like(log_probs)
    score_grad = log_probs.new_zeros(len(log_probs), len(readings.table), 2)
    probs = log_probs.exp()
    for number in readings.table.numbers:
        weight = torch.where(terms[:, number.place], readings.weight[:, number.place].double(), 0.0).unsqueeze(1)
        read = _read(readings, number)
        log_terms = log_probs + number.to_fine(read.log_likelihood)
        log_prob = torch.logsumexp(log_terms, dim=1, keepdim=True)
        share = (log_terms - log_prob).exp_().nan_to_num_(nan=0.0)
        loss -= torch.where(weight > 0, weight * log_prob, 0.0).squeeze(1)
        grad += scale * weight * (probs - share)
        score_grad[:, number.place] = read.score_grad(scale * weight * number.to_components(share))
    return loss, grad, score_grad


def _likelihoods(
    readings: Readings, dtype: torch.dtype, with_changes: bool
) -> tuple[Float[Tensor, "batch number fine"], _MomentChanges | None]:
    """The likelihoods (n3) of all numbers without evidence, and the moment changes of numbers with spreads.

    Args:
        readings: the readings.
        dtype: the dtype to compute in.
        with_changes: whether to compute the moment changes.
    """
    table = readings.table
    if readings.value is None and table.has_reading_table:
        return table.reading_table(dtype).index_select(0, readings.fine), None
    pairs = [readings.of_number(number) for number in table.numbers]
    value, error = (torch.stack(part, dim=1).to(dtype) for part in zip(*pairs, strict=True))
    if table.linear:
        own, _ = table.values_of(dtype, range(len(table)))
        return (own - value).mul_((0.5 / error).sqrt()).square_().neg_().exp_(), None
    like, changes = _spread_likelihoods(
        readings, table.spread, value[:, table.spread], error[:, table.spread], with_changes
    )
    if not table.points:
        return like, changes
    whole = like.new_empty(len(like), len(table), table.fine_count)
    whole[:, table.spread] = like
    own, _ = table.values_of(dtype, table.points)
    distance = (own - value[:, table.points]).mul_((0.5 / error[:, table.points]).sqrt())
    whole[:, table.points] = distance.square_().neg_().exp_()
    return whole, changes


def _spread_likelihoods(
    readings: Readings,
    places: Sequence[int],
    value: Float[Tensor, "batch number 1"],
    error: Float[Tensor, "batch number 1"],
    with_changes: bool,
) -> tuple[Float[Tensor, "batch number fine"], _MomentChanges | None]:
    """The same for numbers with spreads.

    Args:
        readings: the readings.
        places: the positions of these numbers.
        value: the readings of these numbers.
        error: the variance of the error of each reading.
        with_changes: whether to compute the moment changes.
    """
    values = [part.unsqueeze(0) for part in readings.table.values_of(value.dtype, places)]
    scores = None if readings.scores is None else readings.scores[:, places].to(value.dtype)
    shape = (len(value), *values[0].shape[1:])
    like = value.new_empty(shape)
    changes = _MomentChanges(places, torch.empty_like(like), torch.empty_like(like)) if with_changes else None
    for part in cached_parts(len(value), values[0].numel()):
        mean, variance = values
        if scores is not None:
            pull, precision = (column.unsqueeze(2) for column in scores[part].unbind(dim=2))
            shrinkage = (precision * variance).add_(1.0).reciprocal_()
            mean = torch.addcmul(mean, pull, variance).mul_(shrinkage)
            variance = shrinkage.mul_(variance)
        total_variance = variance + error[part]
        difference = value[part] - mean
        own = torch.mul(difference, difference, out=like[part]).div_(total_variance).mul_(-0.5).exp_()
        own.mul_((error[part] / total_variance).sqrt_())
        if changes is None:
            continue
        gain = torch.div(variance, total_variance, out=total_variance)
        first = torch.mul(difference, gain, out=changes.first[part])
        square = torch.add(first, mean, alpha=2.0, out=changes.square[part]).mul_(first)
        square.addcmul_(gain, variance, value=-1.0)
    return like, changes


def _likelihoods_with_evidence(
    readings: Readings, dtype: torch.dtype
) -> tuple[Float[Tensor, "batch number fine"], list[_ReadNumber]]:
    """The likelihoods (n3) of all numbers after evidence, and the numbers before and after the readings."""
    read = [_read(readings, number) for number in readings.table.numbers]
    parts = [each.number.to_fine(each.log_likelihood.exp().to(dtype)) for each in read]
    return torch.stack(parts, dim=1), read


def _read(readings: Readings, number: NumberTensors) -> _ReadNumber:
    """A number before and after a reading. A reading is evidence with a normal error."""
    value, variance = readings.of_number(number)
    reading = value.new_zeros(len(value), len(readings.table), 4)
    reading[..., 2], reading[..., 3] = -torch.inf, torch.inf
    reading[:, number.place, 0], reading[:, number.place, 1] = value[:, 0], 1.0 / variance[:, 0]
    before, known = components_of(number, readings.scores, readings.evidence), readings.evidence
    after = components_of(number, readings.scores, reading if known is None else both_known(known.double(), reading))
    log_likelihood = after.term - torch.where(before.term.isneginf(), 0.0, before.term)
    if known is not None:
        likely, weight = known[:, number.place, :2].double().unsqueeze(1).unbind(dim=2)
        common = weight / (1.0 + weight * variance)
        log_likelihood = log_likelihood - 0.5 * common * (value - likely).square()
    return _ReadNumber(number, before, after, log_likelihood)
