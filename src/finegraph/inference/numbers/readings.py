"""The terms of numbers in the loss: how probable it is to read the value that a photo has.

A reading r has a normal error of variance q around the value v of the photo: its likelihood is exp(-(r - v)^2 / (2 q)),
1 where both agree. With v | i ~ N(m_i, t_i^2) as in `potential.py`, value and error summed out leave, by the numbers of
docs/idea.md,

    (n3)  h_i       =  (1 + t_i^2 / q)^-1/2 exp(-(r - m_i)^2 / (2 (t_i^2 + q)))
    (n4)  L        +=  - weight log sum_i p_i h_i
    (n5)  dL/ds_i  +=  weight (p_i - w_i)                               w_i = p_i h_i / sum_i p_i h_i
    (n6)  dL/da    +=  - weight sum_i w_i (E[v | i, r] - E[v | i])      beside what passes through s
          dL/db    +=  weight / 2 sum_i w_i (E[v^2 | i, r] - E[v^2 | i])

An exact value has h_i that depend on the label of the sample alone: they are kept as a table, and (n6) is 0. Without
evidence all numbers go together, in the number format of the probabilities: with m = (v + a t^2) / (1 + b t^2), the
gain K = t^2 / (t^2 + q) of the reading and d = K (r - m), (n6) has E[v | i, r] - E[v | i] = d and, for v^2, d (2 m + d)
- K t^2. Cost: some two dozen passes over batch x fine per number, three for exact values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finegraph.inference.numbers.known_values import both_known
from finegraph.inference.numbers.number_tensors import NumberTable, NumberTensors
from finegraph.inference.numbers.potential import Components, NumberEvidence, NumberScores, components_of
from finegraph.inference.numerics import cached_parts


class Readings(NamedTuple):
    """What the loss asks of numbers.

    Attributes:
        table: the numbers of the graph.
        fine: the fine label of each sample, whose values are read; any one where it has weight 0.
        value: what was read, on the inner scale; NaN if it is the value of the fine label.
        weight: of each term; 0 where nothing was read.
        scores: those of the numbers; None if all are 0.
        evidence: what was known of the values; None if nothing was.
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
            None if one is None else one[samples] for one in (self.value, self.scores, self.evidence)
        )
        return Readings(self.table, self.fine[samples], value, self.weight[samples], scores, evidence)

    def of_number(self, number: NumberTensors) -> tuple[Float[Tensor, "batch 1"], Float[Tensor, "batch 1"]]:
        """What was read of a number and the variance of its error, in float64."""
        component = number.component.index_select(0, self.fine)
        value, variance = number.value[component], number.reading_variance[component]
        if self.value is not None:
            own = self.value[:, number.place].double()
            measured = ~own.isnan()
            value = torch.where(measured, own, value)
            variance = torch.where(measured, number.measured_variance, variance)
        return value.unsqueeze(1), variance.unsqueeze(1)


class ReadingTerms(NamedTuple):
    """The terms of numbers for a batch.

    Attributes:
        probs: sum_i p_i h_i of each sample and number; 1 where nothing was read.
        grad: dL/ds, to be added to that of the other terms; None if it is not wanted.
        score_grad: dL/d(a, b) beside what passes through s; None if there is none.
    """

    probs: Float[Tensor, "batch number"]
    grad: Float[Tensor, "batch fine"] | None
    score_grad: Float[Tensor, "batch number 2"] | None


class _Read(NamedTuple):
    """A number before and after the reading."""

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


class _Moves(NamedTuple):
    """What readings do to the values of numbers with spreads, without evidence.

    Attributes:
        places: which numbers.
        first: E[v | i, r] - E[v | i].
        square: the same of v^2.
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
    """The terms of a batch; those whose probabilities are below `smallest` are left out, and have weight 0.

    Args:
        readings: what was read.
        probs: the fine probabilities; they are not changed.
        smallest: of a probability below this, terms may have underflowed.
        scale: the factor of all gradients.
        gradient: whether gradients are wanted.
    """
    if readings.evidence is not None:
        (like, read), moves = _likelihoods_with_evidence(readings, probs.dtype), None
    else:
        read = []
        like, moves = _likelihoods(readings, probs.dtype, gradient and readings.scores is not None)
    shares = like.mul_(probs.unsqueeze(1))
    found = shares.sum(dim=2)
    if not gradient:
        return ReadingTerms(found, None, None)
    weight = readings.weight.to(found.dtype).mul(scale).masked_fill_(found < smallest, 0.0)
    factor = weight / found.clamp_min(smallest)
    grad = torch.baddbmm(
        (weight.sum(dim=1, keepdim=True) * probs).unsqueeze(1), factor.unsqueeze(1), shares, alpha=-1.0
    ).squeeze(1)
    score_grad = None
    if readings.scores is not None and moves is not None:
        score_grad = torch.zeros_like(readings.scores, dtype=torch.float64)
        score_grad[:, list(moves.places)] = _moved_score_grad(moves, shares, factor)
    elif readings.scores is not None and read:
        score_grad = torch.zeros_like(readings.scores, dtype=torch.float64)
        shares.mul_(factor.unsqueeze(2))
        for one in read:
            own = one.number.to_components(shares[:, one.number.place].double())
            score_grad[:, one.number.place] = one.score_grad(own)
    return ReadingTerms(found, grad, score_grad)


def _moved_score_grad(
    moves: _Moves, shares: Float[Tensor, "batch number fine"], factor: Float[Tensor, "batch number"]
) -> Float[Tensor, "batch _ 2"]:
    """(n6) of numbers with spreads.

    Args:
        moves: what readings do to values.
        shares: p h of all numbers.
        factor: the weight of each term over its probability.
    """
    own = shares if len(moves.places) == shares.shape[1] else shares[:, list(moves.places)]
    factor = factor[:, list(moves.places)]
    first = -factor * moves.first.mul_(own).sum(dim=2)
    square = 0.5 * factor * moves.square.mul_(own).sum(dim=2)
    if not bool((first.isfinite() & square.isfinite()).all()):
        # Moments too large for the number format, of labels without a share.
        first = -factor * moves.first.nan_to_num(0.0, 0.0, 0.0).sum(dim=2)
        square = 0.5 * factor * moves.square.nan_to_num(0.0, 0.0, 0.0).sum(dim=2)
    return torch.stack([first, square], dim=2).double()


def reading_terms_in_log_space(
    readings: Readings,
    log_probs: Float[Tensor, "sample fine"],
    wanted: Bool[Tensor, "sample number"],
    scale: float | Float[Tensor, ""],
) -> tuple[Float[Tensor, " sample"], Float[Tensor, "sample fine"], Float[Tensor, "sample number 2"]]:
    """The loss and the gradients of some terms, in float64: for the joint scores, and beside what passes through them.

    Args:
        readings: what was read, of these samples.
        log_probs: the log probabilities of the fine labels, in float64.
        wanted: which terms.
        scale: the factor of all gradients.
    """
    loss, grad = log_probs.new_zeros(len(log_probs)), torch.zeros_like(log_probs)
    score_grad = log_probs.new_zeros(len(log_probs), len(readings.table), 2)
    probs = log_probs.exp()
    for number in readings.table.numbers:
        weight = torch.where(wanted[:, number.place], readings.weight[:, number.place].double(), 0.0).unsqueeze(1)
        one = _read(readings, number)
        log_terms = log_probs + number.to_fine(one.log_likelihood)
        log_prob = torch.logsumexp(log_terms, dim=1, keepdim=True)
        share = (log_terms - log_prob).exp_().nan_to_num_(nan=0.0)
        loss -= torch.where(weight > 0, weight * log_prob, 0.0).squeeze(1)
        grad += scale * weight * (probs - share)
        score_grad[:, number.place] = one.score_grad(scale * weight * number.to_components(share))
    return loss, grad, score_grad


def _likelihoods(
    readings: Readings, dtype: torch.dtype, moving: bool
) -> tuple[Float[Tensor, "batch number fine"], _Moves | None]:
    """The likelihoods (n3) of all numbers without evidence, and what readings do to numbers with spreads.

    Args:
        readings: what was read.
        dtype: the number format.
        moving: whether the latter is wanted.
    """
    table = readings.table
    if readings.value is None and table.has_reading_table:
        return table.reading_table(dtype).index_select(0, readings.fine), None
    found = [readings.of_number(number) for number in table.numbers]
    value, error = (torch.stack(part, dim=1).to(dtype) for part in zip(*found, strict=True))
    if table.linear:
        own, _ = table.values_of(dtype, range(len(table)))
        return (own - value).mul_((0.5 / error).sqrt()).square_().neg_().exp_(), None
    like, moves = _spread_likelihoods(readings, table.spread, value[:, table.spread], error[:, table.spread], moving)
    if not table.points:
        return like, moves
    whole = like.new_empty(len(like), len(table), table.fine_count)
    whole[:, table.spread] = like
    own, _ = table.values_of(dtype, table.points)
    away = (own - value[:, table.points]).mul_((0.5 / error[:, table.points]).sqrt())
    whole[:, table.points] = away.square_().neg_().exp_()
    return whole, moves


def _spread_likelihoods(
    readings: Readings,
    places: Sequence[int],
    value: Float[Tensor, "batch number 1"],
    error: Float[Tensor, "batch number 1"],
    moving: bool,
) -> tuple[Float[Tensor, "batch number fine"], _Moves | None]:
    """The same for numbers with spreads.

    Args:
        readings: what was read.
        places: which numbers these are.
        value: what was read of them.
        error: the variance of its error.
        moving: whether it is wanted what readings do to them.
    """
    values = [part.unsqueeze(0) for part in readings.table.values_of(value.dtype, places)]
    scores = None if readings.scores is None else readings.scores[:, places].to(value.dtype)
    shape = (len(value), *values[0].shape[1:])
    like = value.new_empty(shape)
    moves = _Moves(places, torch.empty_like(like), torch.empty_like(like)) if moving else None
    for part in cached_parts(len(value), values[0].numel()):
        mean, variance = values
        if scores is not None:
            pull, precision = (column.unsqueeze(2) for column in scores[part].unbind(dim=2))
            less = (precision * variance).add_(1.0).reciprocal_()
            mean = torch.addcmul(mean, pull, variance).mul_(less)
            variance = less.mul_(variance)
        whole = variance + error[part]
        away = value[part] - mean
        own = torch.mul(away, away, out=like[part]).div_(whole).mul_(-0.5).exp_()
        own.mul_((error[part] / whole).sqrt_())
        if moves is None:
            continue
        gain = torch.div(variance, whole, out=whole)
        first = torch.mul(away, gain, out=moves.first[part])
        square = torch.add(first, mean, alpha=2.0, out=moves.square[part]).mul_(first)
        square.addcmul_(gain, variance, value=-1.0)
    return like, moves


def _likelihoods_with_evidence(
    readings: Readings, dtype: torch.dtype
) -> tuple[Float[Tensor, "batch number fine"], list[_Read]]:
    """The likelihoods (n3) of all numbers after evidence, and the numbers."""
    read = [_read(readings, number) for number in readings.table.numbers]
    parts = [one.number.to_fine(one.log_likelihood.exp().to(dtype)) for one in read]
    return torch.stack(parts, dim=1), read


def _read(readings: Readings, number: NumberTensors) -> _Read:
    """A number before and after the reading: evidence with a normal error."""
    value, variance = readings.of_number(number)
    told = value.new_zeros(len(value), len(readings.table), 4)
    told[..., 2], told[..., 3] = -torch.inf, torch.inf
    told[:, number.place, 0], told[:, number.place, 1] = value[:, 0], 1.0 / variance[:, 0]
    before, known = components_of(number, readings.scores, readings.evidence), readings.evidence
    after = components_of(number, readings.scores, told if known is None else both_known(known.double(), told))
    found = after.term - torch.where(before.term.isneginf(), 0.0, before.term)
    if known is not None:
        likely, weight = known[:, number.place, :2].double().unsqueeze(1).unbind(dim=2)
        common = weight / (1.0 + weight * variance)
        found = found - 0.5 * common * (value - likely).square()
    return _Read(number, before, after, found)
