"""The terms of numbers in joint scores and loss, for fine labels as rows, some of them at a time.

`potential.py` and `readings.py` compute the same for all fine labels of a graph as columns. Here rows are those of one
process, and each term of the loss is a sum over them, which the caller adds up over processes: per sample one number
for the probability of a reading, and two for the gradient of the scores. There is no evidence, as in training. With
t^2 the variance of a label, m and T its mean and variance given the scores a and b of a photo, and q the variance of
the error of a reading r,

    m = (v + a t^2) / (1 + b t^2)     T = t^2 / (1 + b t^2)     h = (1 + T / q)^-1/2 exp(-(r - m)^2 / (2 (T + q)))

Nothing of the size (number, fine, batch) is held.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.inference.numbers.number_tensors import NumberTable
from finegraph.inference.numbers.potential import NumberScores
from finegraph.inference.numbers.readings import Readings
from finegraph.inference.numerics import Constants, likelihoods_of


class NumberRows(Constants):
    """The values of some fine labels.

    Attributes:
        table: the numbers of the graph.
        value: the mean of each number and fine label on the inner scale, in float64.
        variance: its variance; 0 for an exact value.
        component: the component of each number and fine label.
    """

    value: Tensor
    variance: Tensor
    component: Tensor

    def __init__(self, table: NumberTable, fine: Int[NDArray[np.int64], " fine"]) -> None:
        self.table = table
        component = [each.component.numpy()[fine] for each in table.numbers]
        value = [each.value.numpy()[own] for each, own in zip(table.numbers, component, strict=True)]
        variance = [each.variance.numpy()[own] for each, own in zip(table.numbers, component, strict=True)]
        self.store_arrays({"component": np.stack(component), "value": np.stack(value), "variance": np.stack(variance)})


class NumberSums:
    """The terms of numbers of one batch.

    Attributes:
        rows: the values of the fine labels.
        score_grad: the gradient for the pulls and precisions that does not pass through joint scores.
    """

    def __init__(
        self, rows: NumberRows, scores: NumberScores, readings: Readings | None = None, dtype: torch.dtype | None = None
    ) -> None:
        """Set the scores of a batch.

        Args:
            rows: the values of the fine labels.
            scores: the pull and the precision of each number.
            readings: the values that the loss reads; None if it reads none.
            dtype: what to compute in; by default float64.
        """
        self.rows, self.readings, self.dtype = rows, readings, dtype or torch.float64
        self.pull, self.precision = scores.detach().to(self.dtype).permute(2, 1, 0)
        self.score_grad = torch.zeros_like(scores, dtype=torch.float64)
        if readings is not None:
            pairs = [readings.of_number(number) for number in rows.table.numbers]
            read = [torch.cat(one, dim=1).t().to(self.dtype) for one in zip(*pairs, strict=True)]
            self.reading, self.error = read

    def to(self, dtype: torch.dtype) -> NumberSums:
        """The same in another dtype."""
        scores = torch.stack([self.pull, self.precision]).permute(2, 1, 0)
        return NumberSums(self.rows, scores, self.readings, dtype)

    def largest(self) -> float:
        """A bound of the terms of all numbers and of what they are computed from, over the whole graph."""
        table, size = self.rows.table, torch.stack([self.pull, self.precision]).abs()
        if not size.numel():
            return 0.0
        bound = float(size.amax()) * table.largest if table.points else 0.0
        if table.spread:
            pull, precision = size[:, table.spread]
            value, variance = table.largest_value, table.largest_variance
            squares = 0.5 * variance * pull * pull / (1.0 + precision * variance)
            bound += float((squares + value * pull + 0.5 * value * value * precision).sum(dim=0).amax())
        return bound

    def of_samples(self, sample: Int[Tensor, " sample"]) -> NumberSums:
        """The same for some samples, in float64."""
        scores = torch.stack([self.pull, self.precision]).permute(2, 1, 0)[sample]
        return NumberSums(self.rows, scores, None if self.readings is None else self.readings.part(sample))

    def add_terms(self, part: slice, scores: Float[Tensor, "_ batch"]) -> None:
        """Add the terms of all numbers to the joint scores of some rows, in place."""
        table = self.rows.table
        if table.points:
            value = self.rows.value[table.points, part].to(self.dtype).t()
            own = torch.cat([value, -0.5 * value * value], dim=1)
            scores.addmm_(own, torch.cat([self.pull[table.points], self.precision[table.points]]))
        for place in table.spread:
            value, variance = self._values(part, place)
            pull, precision = self.pull[place], self.precision[place]
            gain = 1.0 + variance * precision
            terms = (value + 0.5 * variance * pull) * pull - 0.5 * value * value * precision
            scores.add_(terms.div_(gain)).sub_(gain.log_(), alpha=0.5)

    def moments(self, part: slice, place: int) -> tuple[Float[Tensor, "_ batch"], Float[Tensor, "_ batch"]]:
        """The mean and the variance of a number for some rows; of size 1 where they do not depend on the sample."""
        value, variance = self._values(part, place)
        if place in self.rows.table.points:
            return value, variance
        shrinkage = (1.0 + variance * self.precision[place]).reciprocal_()
        return (value + variance * self.pull[place]).mul_(shrinkage), shrinkage.mul_(variance)

    def _values(self, part: slice, place: int) -> tuple[Float[Tensor, "_ 1"], Float[Tensor, "_ 1"]]:
        value, variance = self.rows.value[place, part], self.rows.variance[place, part]
        return value.to(self.dtype).unsqueeze(1), variance.to(self.dtype).unsqueeze(1)

    # ---- readings ---------------------------------------------------------------------------------------------------

    def likelihoods(self, part: slice, place: int) -> Float[Tensor, "_ batch"]:
        """The likelihoods (n3) of the readings of a number for some rows."""
        return likelihoods_of(self.log_likelihoods(part, place))

    def log_likelihoods(self, part: slice, place: int) -> Float[Tensor, "_ batch"]:
        """Their logs."""
        mean, variance = self.moments(part, place)
        error = self.error[place]
        result = (self.reading[place] - mean).square_()
        if place in self.rows.table.points:
            return result.mul_(-0.5 / error)
        return result.div_(variance + error).mul_(-0.5).sub_(torch.log1p(variance / error), alpha=0.5)

    def reading_sums(self, exponentials: Float[Tensor, "fine batch"], step: int) -> Float[Tensor, "batch number"]:
        """The sum of exponentials times likelihoods for each number, in float64.

        Args:
            exponentials: of the joint scores.
            step: how many rows are computed at a time.
        """
        found = self.score_grad.new_zeros(self.score_grad.shape[:2])
        for part in _parts(len(exponentials), step):
            for place in range(len(self.rows.table)):
                found[:, place] += self.likelihoods(part, place).mul_(exponentials[part]).sum(dim=0)
        return found

    def reading_factors(
        self, part: slice, exponentials: Float[Tensor, "_ batch"], grads: Float[Tensor, "batch number"]
    ) -> Float[Tensor, "_ batch"]:
        """What readings add to the factors of the exponentials of some rows; adds (n6) to the gradient of the scores.

        Args:
            part: the rows.
            exponentials: of their joint scores.
            grads: - weight factor / sum of exponentials times likelihoods, of each reading.
        """
        factors: Tensor | None = None
        for place in range(len(self.rows.table)):
            own = self.likelihoods(part, place).mul_(grads[:, place])
            if place in self.rows.table.spread:
                self._add_changes(slice(None), place, self._changes(part, place), own * exponentials)
            factors = own if factors is None else factors.add_(own)
        return torch.zeros_like(exponentials) if factors is None else factors

    def subtract_shares(self, sample: Int[Tensor, " sample"], place: int, share: Float[Tensor, "sample fine"]) -> None:
        """Subtract the shares of a reading that were found in log space from the gradient for the scores.

        Args:
            sample: the samples.
            place: the number.
            share: weight factor p_i h_i / sum p h of each fine label.
        """
        if place in self.rows.table.spread:
            changes = self.of_samples(sample)._changes(slice(None), place)
            self._add_changes(sample, place, changes, -share.t())

    def _changes(self, part: slice, place: int) -> tuple[Float[Tensor, "_ batch"], ...]:
        """What readings change the first two moments of a number by."""
        mean, variance = self.moments(part, place)
        gain = variance / (variance + self.error[place])
        first = gain * (self.reading[place] - mean)
        return first, first * (2.0 * mean + first) - gain * variance

    def _add_changes(
        self,
        samples: slice | Int[Tensor, " sample"],
        place: int,
        changes: tuple[Tensor, ...],
        share: Float[Tensor, "_ batch"],
    ) -> None:
        first, square = (torch.where(share == 0, 0.0, share * one).sum(dim=0).double() for one in changes)
        self.score_grad[samples, place, 0] += first
        self.score_grad[samples, place, 1] -= 0.5 * square

    def gradient(self, score_grads: Float[Tensor, "fine batch"], step: int) -> Float[Tensor, "batch number 2"]:
        """The whole gradient for the pulls and precisions, in float64; once.

        Args:
            score_grads: the gradient for the joint scores.
            step: how many rows are computed at a time.
        """
        for part in _parts(len(score_grads), step):
            own = score_grads[part]
            if self.rows.table.points:
                # The moments of exact values do not depend on the sample, so their sums are a product of matrices.
                value = self.rows.value[self.rows.table.points, part].to(own.dtype)
                sums = torch.cat([value, -0.5 * value * value]) @ own
                self.score_grad[:, self.rows.table.points] += sums.view(2, -1, len(self.score_grad)).permute(2, 1, 0)
            for place in self.rows.table.spread:
                mean, variance = self.moments(part, place)
                self._add_changes(slice(None), place, (mean, mean * mean + variance), own)
        return self.score_grad


def summed_terms(rows: NumberRows, scores: NumberScores, step: int) -> Float[Tensor, " batch"]:
    """The terms of all numbers in the joint scores, summed over fine labels; differentiable.

    Args:
        rows: the values of the fine labels.
        scores: the pull and the precision of each number.
        step: how many rows are computed at a time.
    """
    result: Tensor = _SummedTerms.apply(scores, rows, step)  # type: ignore[no-untyped-call]
    return result


class _SummedTerms(torch.autograd.Function):
    """The sum, with its gradient computed in the forward pass."""

    @staticmethod
    def forward(ctx: Any, scores: NumberScores, rows: NumberRows, step: int) -> Float[Tensor, " batch"]:
        sums = NumberSums(rows, scores)
        count, batch = rows.value.shape[1], len(scores)
        total, score_grad = scores.new_zeros(batch, dtype=torch.float64), None
        for part in _parts(count, step):
            terms = scores.new_zeros(len(rows.value[0, part]), batch, dtype=torch.float64)
            sums.add_terms(part, terms)
            total += terms.sum(dim=0)
        if ctx.needs_input_grad[0]:
            score_grad = sums.gradient(scores.new_ones(count, 1, dtype=torch.float64).expand(-1, batch), step)
        ctx.save_for_backward(score_grad)
        return total.to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (score_grad,) = ctx.saved_tensors
        return (grads[0].double()[:, None, None] * score_grad).to(grads[0].dtype), None, None


def _parts(count: int, step: int) -> list[slice]:
    """All rows, some at a time."""
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]
