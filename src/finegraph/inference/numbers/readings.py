"""The terms of numbers in the loss: how probable it is to read the value that a photo has.

A reading r has a normal error of variance q around the value v of the photo: its likelihood is exp(-(r - v)^2 / (2 q)),
1 where both agree. With v | i ~ N(m_i, t_i^2) as in `potential.py`, value and error summed out leave, by the numbers of
docs/idea.md,

    (n3)  h_i       =  (1 + t_i^2 / q)^-1/2 exp(-(r - m_i)^2 / (2 (t_i^2 + q)))
    (n4)  L        +=  - weight log sum_i p_i h_i
    (n5)  dL/ds_i  +=  weight (p_i - w_i)                               w_i = p_i h_i / sum_i p_i h_i
    (n6)  dL/da    +=  - weight sum_i w_i (E[v | i, r] - E[v | i])      beside what passes through s
          dL/db    +=  weight / 2 sum_i w_i (E[v^2 | i, r] - E[v^2 | i])

An exact value has h_i that depend on the label of the sample alone: they are kept as a table, and (n6) is 0. Cost: a
few passes over batch x fine per number; numbers with spreads take some in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finegraph.inference.numbers.known_values import both_known
from finegraph.inference.numbers.number_tensors import NumberTable, NumberTensors
from finegraph.inference.numbers.potential import Components, NumberEvidence, NumberScores, components_of

_MAX_TABLE = 1 << 23
"""How many likelihoods are kept as a table at the most."""


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
    """A number with spreads, before and after the reading."""

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
    like, spread = _likelihoods(readings, probs.dtype)
    shares = like.mul_(probs.unsqueeze(1))
    found = shares.sum(dim=2)
    if not gradient:
        return ReadingTerms(found, None, None)
    weight = torch.where(found < smallest, 0.0, readings.weight.to(found.dtype)) * scale
    shares.mul_((weight / found.clamp_min(smallest)).unsqueeze(2))
    grad = torch.addcmul(shares.sum(dim=1).neg_(), weight.sum(dim=1, keepdim=True), probs)
    score_grad = None
    if spread and readings.scores is not None:
        score_grad = torch.zeros_like(readings.scores, dtype=torch.float64)
        for one in spread:
            own = one.number.to_components(shares[:, one.number.place].double())
            score_grad[:, one.number.place] = one.score_grad(own)
    return ReadingTerms(found, grad, score_grad)


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


def _likelihoods(readings: Readings, dtype: torch.dtype) -> tuple[Float[Tensor, "batch number fine"], list[_Read]]:
    """The likelihoods (n3) of all numbers, and the numbers with spreads."""
    table = readings.table
    plain = readings.evidence is None
    if plain and table.linear and readings.value is None and len(table) * table.fine_count**2 <= _MAX_TABLE:
        kept = table.reading_table(dtype).index_select(0, readings.fine)
        return kept.view(len(readings.fine), len(table), table.fine_count), []
    parts, spread = [], []
    for number in table.numbers:
        if plain and number.points:
            value, variance = readings.of_number(number)
            away = ((number.value - value) * (0.5 / variance).sqrt()).to(dtype)
            found = away.square_().neg_().exp_()
        else:
            spread.append(_read(readings, number))
            found = spread[-1].log_likelihood.exp().to(dtype)
        parts.append(number.to_fine(found))
    return torch.stack(parts, dim=1), spread


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
