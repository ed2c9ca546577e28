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
evidence, all numbers are computed together in the dtype of the probabilities. Cost per number: about a dozen passes
over batch x fine; two for exact values, which read the table.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finegraph.errors import InputError, TargetError
from finegraph.inference.numbers.known_values import both_known
from finegraph.inference.numbers.number_tensors import NumberTable, NumberTensors
from finegraph.inference.numbers.potential import (
    Components,
    Moments,
    NumberEvidence,
    NumberScores,
    components_of,
    moments_of,
)
from finegraph.inference.numerics import CPU, cached_parts, likelihoods_of

_MAX_DISTANCE = 1e15
"""The largest measured value on the inner scale, and the largest score of a number in float32. Squares stay finite."""
_MAX_SCORE = 1e150
"""The largest score of a number in float64."""


with warnings.catch_warnings():
    # torch says once per process, at the first such tensor, that their interface may change.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 0], [], [], (1, 1), device=CPU, check_invariants=False)


class Readings(NamedTuple):
    """The values that the loss reads, and the scores and the evidence that it reads them from.

    Attributes:
        table: the numbers of the graph.
        fine: the fine label of each sample, whose values are read; arbitrary where the weight is 0.
        value: the value measured on the photo, on the inner scale; NaN for the value of the fine label.
        weight: the weight of each term, 0 if there is no reading; one row if all samples have the same weights, None if
            all are 1.
        scores: the scores of the numbers; None if all are 0.
        evidence: the evidence on the numbers; None if there is none.
    """

    table: NumberTable
    fine: Int[Tensor, " batch"]
    value: Float[Tensor, "batch number"] | None
    weight: Float[Tensor, "_ number"] | None
    scores: NumberScores | None
    evidence: NumberEvidence | None

    def part(self, samples: slice | Int[Tensor, " sample"]) -> Readings:
        """The readings of some of the samples."""
        value, scores, evidence = (
            None if each is None else each[samples] for each in (self.value, self.scores, self.evidence)
        )
        weight = self.weight if self.weight is None or len(self.weight) == 1 else self.weight[samples]
        return Readings(self.table, self.fine[samples], value, weight, scores, evidence)

    @property
    def total_weight(self) -> float | Float[Tensor, "_ 1"]:
        """The summed weight of the terms of each sample."""
        return float(len(self.table)) if self.weight is None else self.weight.sum(dim=1, keepdim=True)

    def of_all(self, dtype: torch.dtype) -> tuple[Float[Tensor, "batch number"], Float[Tensor, "batch number"]]:
        """The readings of all numbers and the variances of their errors, in a dtype."""
        value, variance = self.table.own_readings(dtype, self.fine)
        if self.value is None:
            return value, variance
        measured = ~self.value.isnan()
        errors = value.new_tensor([number.measured_variance for number in self.table.numbers])
        return torch.where(measured, self.value.to(dtype), value), torch.where(measured, errors, variance)

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


def scaled_values(
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
    known: Bool[Tensor, " batch"] | None,
    measured: Float[Tensor, "batch number"] | None,
    weights: list[float] | None,
) -> Readings | None:
    """The readings that the loss needs, without the scores of numbers; None if no number has a term.

    Args:
        table: the numbers of the graph.
        fine: the fine label of each sample; arbitrary if it was not observed.
        known: which fine labels were observed; None if all were.
        measured: the values measured on photos.
        weights: one weight per number; None if all are 1.
    """
    if not len(table) or (weights is not None and not any(weights)):
        return None
    weight: Tensor | None = None
    if known is not None or not table.all_known:
        # A sample has a term if its label is known and has a value, or if a value was measured.
        weight = table.known.index_select(0, fine)
        weight = weight if known is None else weight * known.unsqueeze(1)
        weight = weight if measured is None else torch.where(measured.isnan(), weight, 1.0)
    if weights is not None:
        row: Float[Tensor, "1 number"] = table.known.new_tensor([weights])
        weight = row if weight is None else weight * row
    return Readings(table, fine, measured, weight, None, None)


class TableRows(NamedTuple):
    """Likelihoods that are rows of a table. On a CPU they are read where they lie: a copy would not fit in the caches.

    Attributes:
        table: the likelihoods given all fine labels.
        row: the rows of the numbers of each sample, one sample after the other.
        start: where those of each sample start, and their count.
    """

    table: Float[Tensor, "row fine"]
    row: Int[Tensor, " _"]
    start: Int[Tensor, " _"]

    @staticmethod
    def of_labels(table: NumberTable, fine: Int[Tensor, " batch"], dtype: torch.dtype) -> TableRows:
        """The likelihoods of reading the values of fine labels."""
        row = table.reading_rows(fine)
        start = torch.arange(0, len(row) + 1, len(table), device=row.device)
        return TableRows(table.reading_table(dtype), row, start)

    @property
    def number_count(self) -> int:
        """How many numbers there are."""
        return len(self.table) // self.table.shape[1]

    def copied(self) -> Float[Tensor, "batch number fine"]:
        """A copy of these rows."""
        return self.table.index_select(0, self.row).view(-1, self.number_count, self.table.shape[1])

    def summed(self, probs: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch number"]:
        """The sum over the fine labels of probability times likelihood: a product with few entries to compute."""
        zeros, shape = probs.new_zeros(len(self.row)), (len(probs), len(self.table))
        pattern = torch.sparse_csr_tensor(self.start, self.row, zeros, shape, check_invariants=False)
        products: Tensor = torch.sparse.sampled_addmm(pattern, probs, self.table.t())
        return products.values().view(-1, self.number_count)

    def combined(self, weight: Float[Tensor, "batch number"]) -> Float[Tensor, "batch fine"]:
        """The sum over the numbers of weight times likelihood."""
        own = weight.view(-1)
        return torch.embedding_bag(
            self.table, self.row, self.start, mode=0, per_sample_weights=own, include_last_offset=True
        )[0]


class ReadingTerms(NamedTuple):
    """The terms of numbers for a batch.

    Attributes:
        probs: sum_i p_i h_i of each sample and number.
        likelihood: h_i, up to a factor for each sample and number.
        factor: this factor; None if it is 1.
        changes: sum_i p_i h_i (E[v | i, r] - E[v | i]) and the same for v^2; None if it is 0 or not requested.
    """

    probs: Float[Tensor, "batch number"]
    likelihood: Float[Tensor, "batch number fine"] | TableRows
    factor: Float[Tensor, "batch number"] | None
    changes: Float[Tensor, "batch number 2"] | None

    def factors(self, prob_grads: Float[Tensor, "batch number"]) -> Float[Tensor, "batch fine"]:
        """What the terms add to the factors of the fine probabilities in (n5), but for the sum of their weights.

        Args:
            prob_grads: the gradient for `probs`, - weight scale / probability.
        """
        own = prob_grads if self.factor is None else prob_grads * self.factor
        if isinstance(self.likelihood, TableRows):
            return self.likelihood.combined(own)
        return torch.bmm(own.unsqueeze(1), self.likelihood).squeeze(1)

    def score_gradient(self, prob_grads: Float[Tensor, "batch number"]) -> Float[Tensor, "batch number 2"] | None:
        """(n6), the part of the gradient for the scores of numbers that does not pass through the joint scores."""
        if self.changes is None:
            return None
        return self.changes * torch.stack([prob_grads, -0.5 * prob_grads], dim=2)


class ReadNumber(NamedTuple):
    """The components of a number before and after a reading, in float64.

    Attributes:
        number: the number.
        before: the components before the reading.
        after: the components after it.
        log_likelihood: log h of each component.
    """

    number: NumberTensors
    before: Components
    after: Components
    log_likelihood: Float[Tensor, "batch component"]

    def fine_log_likelihood(self) -> Float[Tensor, "batch fine"]:
        """Log h of each fine label."""
        return self.number.to_fine(self.log_likelihood)

    def changes(self, shares: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch 2"]:
        """How the reading changes E[v] and E[v^2], summed over the fine labels with these shares."""
        (mean, variance), (old_mean, old_variance) = self.after.moments(), self.before.moments()
        shares = self.number.to_components(shares)
        used = shares > 0
        first = torch.where(used, mean - old_mean, 0.0)
        square = torch.where(used, mean * mean + variance - old_mean * old_mean - old_variance, 0.0)
        return torch.stack([(shares * first).sum(dim=1), (shares * square).sum(dim=1)], dim=1)


def reading_terms(
    readings: Readings, probs: Float[Tensor, "batch fine"], moments: Moments | None, gradient: bool
) -> ReadingTerms:
    """The terms of a batch.

    Args:
        readings: the readings.
        probs: the fine probabilities, which are not changed.
        moments: the moments of numbers with spreads, as `added_terms` leaves them; None if they are to be computed.
        gradient: whether gradients will be asked for.
    """
    if readings.evidence is not None:
        return _terms_with_evidence(readings, probs, gradient)
    table, dtype = readings.table, probs.dtype
    if readings.value is None and table.has_reading_table:
        rows = TableRows.of_labels(table, readings.fine, dtype)
        if probs.device == CPU:
            return ReadingTerms(rows.summed(probs), rows, None, None)
        likelihood = rows.copied()
        return ReadingTerms(_summed(probs, likelihood), likelihood, None, None)
    value, error = (part.unsqueeze(2) for part in readings.of_all(dtype))
    exact = _point_terms(readings, probs, value, error) if table.points else None
    if exact is not None and table.linear:
        return exact
    gradient = gradient and readings.scores is not None
    spread = _spread_terms(readings, probs, value, error, moments, gradient)
    if spread.changes is not None and not math.isfinite(spread.changes.sum().item()):
        spread = _spread_terms(readings, probs, value, error, moments, gradient, finite=True)
    return spread if exact is None else _side_by_side(table, exact, spread)


def _summed(
    probs: Float[Tensor, "batch fine"], likelihood: Float[Tensor, "batch number fine"]
) -> Float[Tensor, "batch number"]:
    """The sum over the fine labels of probability times likelihood."""
    return torch.bmm(probs.unsqueeze(1), likelihood.transpose(1, 2)).squeeze(1)


def _point_terms(
    readings: Readings,
    probs: Float[Tensor, "batch fine"],
    value: Float[Tensor, "batch number 1"],
    error: Float[Tensor, "batch number 1"],
) -> ReadingTerms:
    """The terms of numbers with exact values, without evidence.

    Args:
        readings: the readings.
        probs: the fine probabilities.
        value: the readings of all numbers.
        error: the variances of their errors.
    """
    places = readings.table.points
    own, _ = readings.table.values_of(probs.dtype, places)
    value, error = readings.table.of_places(value, places), readings.table.of_places(error, places)
    factor = (0.5 / error).sqrt_()
    likelihood = probs.new_empty(len(probs), *own.shape)
    for part in cached_parts(len(probs), own.numel()):
        likelihoods_of(torch.sub(own, value[part], out=likelihood[part]).mul_(factor[part]).square_().neg_())
    return ReadingTerms(_summed(probs, likelihood), likelihood, None, None)


def _spread_terms(
    readings: Readings,
    probs: Float[Tensor, "batch fine"],
    value: Float[Tensor, "batch number 1"],
    error: Float[Tensor, "batch number 1"],
    moments: Moments | None,
    gradient: bool,
    finite: bool = False,
) -> ReadingTerms:
    """The terms of numbers with spreads, without evidence.

    Args:
        readings: the readings.
        probs: the fine probabilities.
        value: the readings of all numbers.
        error: the variances of their errors.
        moments: the moments of these numbers; None if they are to be computed.
        gradient: whether to compute the changes of the moments.
        finite: whether to leave out labels without a share, whose moments may overflow.
    """
    table, places, zero = readings.table, readings.table.spread, probs.new_zeros(())
    values = table.values_of(probs.dtype, places)
    value, error = table.of_places(value, places), table.of_places(error, places)
    scores = None if readings.scores is None else table.of_places(readings.scores, places).to(probs.dtype)
    free = None if moments is None else moments.free
    likelihood = probs.new_empty(len(probs), *values[0].shape) if free is None else free
    sums = probs.new_empty(likelihood.shape[:2])
    changes = probs.new_empty(*sums.shape, 2) if gradient else None
    for part in cached_parts(len(probs), values[0].numel()):
        if moments is not None:
            mean, variance, _ = moments.part(part)
        elif scores is not None:
            mean, variance, _ = moments_of(scores[part], *values)
        else:
            mean, variance = values
        total_variance, difference = variance + error[part], value[part] - mean
        ratio = difference / total_variance
        like = likelihoods_of(torch.addcmul(zero, difference, ratio, value=-0.5, out=likelihood[part]))
        shares = like.mul_(total_variance.rsqrt()) * probs[part].unsqueeze(1)
        torch.sum(shares, dim=2, out=sums[part])
        if changes is None:
            continue
        # With the gain K = t^2 / (t^2 + q) and d = K (r - m), the mean changes by d and the mean square by
        # d (2 m + d) - K t^2.
        step = ratio.mul_(variance)
        first = torch.mul(step, shares, out=difference)
        square = step.add_(mean, alpha=2.0).mul_(first)
        square.addcmul_(torch.mul(variance, variance).div_(total_variance), shares, value=-1.0)
        for place, each in enumerate((first, square)):
            changes[part, :, place] = (each.nan_to_num_(0.0, 0.0, 0.0) if finite else each).sum(dim=2)
    factor = error.sqrt().squeeze(2)
    if changes is not None:
        changes.mul_(factor.unsqueeze(2))
    return ReadingTerms(sums.mul_(factor), likelihood, factor, changes)


def _side_by_side(table: NumberTable, exact: ReadingTerms, spread: ReadingTerms) -> ReadingTerms:
    """The terms of all numbers in their order, from those with exact values and those with spreads."""
    assert spread.factor is not None
    assert not isinstance(exact.likelihood, TableRows)
    assert not isinstance(spread.likelihood, TableRows)
    order = torch.tensor([*table.points, *table.spread], device=exact.probs.device).argsort()
    pairs = [(exact.probs, spread.probs), (exact.likelihood, spread.likelihood)]
    pairs.append((torch.ones_like(exact.probs), spread.factor))
    if spread.changes is not None:
        pairs.append((exact.probs.new_zeros(*exact.probs.shape, 2), spread.changes))
    parts = [torch.cat(pair, dim=1).index_select(1, order) for pair in pairs]
    return ReadingTerms(*parts, *[None] * (4 - len(parts)))


def _terms_with_evidence(readings: Readings, probs: Float[Tensor, "batch fine"], gradient: bool) -> ReadingTerms:
    """The terms of all numbers after evidence."""
    read = [read_number(readings, number) for number in readings.table.numbers]
    likelihood = torch.stack([each.fine_log_likelihood().exp_().to(probs.dtype) for each in read], dim=1)
    changes = None
    if gradient and readings.scores is not None:
        shares = (likelihood * probs.unsqueeze(1)).double()
        changes = torch.stack([each.changes(shares[:, each.number.place]) for each in read], dim=1).to(probs.dtype)
    return ReadingTerms(_summed(probs, likelihood), likelihood, None, changes)


def read_number(readings: Readings, number: NumberTensors) -> ReadNumber:
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
    return ReadNumber(number, before, after, log_likelihood)
