"""The terms that numbers and the evidence on them add to the joint scores.

A network gives a number two scores per photo, the pull a and the precision b, of a potential exp(a v - b v^2 / 2) over
its inner values v. The graph gives fine label i the distribution v ~ N(v_i, t_i^2). Multiplying both and integrating
over v gives

    s_i  +=  - 1/2 log(1 + b t_i^2) + (a v_i + a^2 t_i^2 / 2 - b v_i^2 / 2) / (1 + b t_i^2)
    v | i  ~  N((v_i + a t_i^2) / (1 + b t_i^2),  t_i^2 / (1 + b t_i^2))

Evidence multiplies this normal by another one ("20 +- 3") or cuts it to an interval ("10 to 15"). The log of the
remaining mass is added to s_i too. The gradient has one form in all cases, in the mean and the mean square of v:

    d s_i / d a  =  E[v | i],         d s_i / d b  =  - 1/2 E[v^2 | i]

Cost: linear in the components. A number with exact values takes two columns of a matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.inference.numbers.known_values import both_known
from finegraph.inference.numbers.normal import cut_moments, interval_log_prob
from finegraph.inference.numbers.number_tensors import NumberTable, NumberTensors
from finegraph.inference.numerics import (
    TILE,
    at_least_float32,
    cached_parts,
    largest_size,
    refuse_second_derivatives,
    whole_tiles,
)

_MAX_ERROR = 1e-5
"""The estimated error up to which a plain float32 sum is used."""
_ROUNDING = torch.finfo(torch.float32).eps
_MAX_LOG_GAIN = 60.0
"""The largest logarithm of a product of gains in float32."""

NumberScores = Float[Tensor, "batch number 2"]
"""The pull and the precision of each number."""
NumberEvidence = Float[Tensor, "batch number 4"]
"""The evidence on each number, on its inner scale: a likely value with its precision, and the ends of an interval."""


class Components(NamedTuple):
    """The components of a number for a batch; the first axis has size 1 if all samples share them.

    Attributes:
        term: the term of each component in the joint scores, including the cut to the interval.
        mean: the mean of v given the component, before the cut.
        variance: the variance of v given the component, before the cut; 0 for a point.
        low: the lower end of the interval; None if nothing is cut.
        high: the upper end of the interval.
    """

    term: Float[Tensor, "_ component"]
    mean: Float[Tensor, "_ component"]
    variance: Float[Tensor, "_ component"]
    low: Float[Tensor, "batch 1"] | None = None
    high: Float[Tensor, "batch 1"] | None = None

    def moments(self) -> tuple[Float[Tensor, "_ component"], Float[Tensor, "_ component"]]:
        """The mean and variance of v given the component, after the cut."""
        if self.low is None or self.high is None:
            return self.mean, self.variance
        shape = max(len(self.mean), len(self.low)), self.mean.shape[1]
        return cut_moments(self.mean.expand(shape), self.variance.expand(shape), self.low, self.high)

    def interval_probabilities(
        self, low: Float[Tensor, "batch 1"], high: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch component"]:
        """The probability of an interval, ends included, given each component; 0 if the component is impossible."""
        if self.low is None or self.high is None:
            return interval_log_prob(self.mean, self.variance, low, high).exp()
        low, high = torch.maximum(low, self.low), torch.minimum(high, self.high)
        whole = interval_log_prob(self.mean, self.variance, self.low, self.high)
        inside = interval_log_prob(self.mean, self.variance, low, high)
        return torch.where(whole.isneginf(), 0.0, (inside - whole).exp())


def components_of(
    number: NumberTensors,
    scores: NumberScores | None,
    evidence: NumberEvidence | None,
    among: Int[Tensor, "batch component"] | None = None,
) -> Components:
    """The components of one number, in float64.

    Args:
        number: the tensors of the number.
        scores: the scores of all numbers; None if all are 0, as in softmax.
        evidence: the evidence on all numbers; None if there is none.
        among: some components for each sample; None for all.
    """
    if among is None:
        value, variance = number.value.unsqueeze(0), number.variance.unsqueeze(0)
    else:
        value, variance = number.value[among], number.variance[among]
    mean, term = value, torch.zeros_like(value)
    if scores is not None:
        pull, precision = scores[:, number.place].double().unsqueeze(2).unbind(dim=1)
        gain = 1.0 + precision * variance
        term = (pull * (value + 0.5 * pull * variance) - 0.5 * precision * value * value) / gain
        term = term - 0.5 * torch.log1p(precision * variance)
        mean, variance = (value + pull * variance) / gain, variance / gain
    if evidence is None:
        return Components(term, mean, variance)
    likely, weight, low, high = evidence[:, number.place].double().unsqueeze(2).unbind(dim=1)
    gain = 1.0 + weight * variance
    term = term - 0.5 * torch.log1p(weight * variance) - 0.5 * weight * (likely - mean).square() / gain
    mean, variance = (mean + weight * variance * likely) / gain, variance / gain
    if not torch.compiler.is_compiling() and bool((low.isneginf() & high.isposinf()).all()):
        return Components(term, mean, variance)
    term = term + interval_log_prob(mean, variance, low, high)
    return Components(term, mean, variance, low, high)


def add_number_terms(
    table: NumberTable,
    fine: Float[Tensor, "batch fine"],
    scores: NumberScores | None,
    evidence: NumberEvidence | None,
    components: Sequence[Components] | None = None,
) -> Float[Tensor, "batch fine"]:
    """Add the terms of all numbers to the fine scores, up to a constant per sample; differentiable.

    Args:
        table: the numbers of the graph.
        fine: the fine scores.
        scores: the scores of the numbers; None if all are 0.
        evidence: the evidence on the numbers; None if there is none.
        components: the components of each number, if already computed; their scores then get no gradient.
    """
    fine = at_least_float32(fine)
    if scores is None:
        scores = fine.new_zeros(fine.shape[0], len(table), 2)
    result: Tensor = _NumberTerms.apply(fine, scores, table, evidence, components)  # type: ignore[no-untyped-call]
    return result


def number_terms(
    table: NumberTable,
    scores: NumberScores,
    evidence: NumberEvidence | None,
    components: Sequence[Components] | None = None,
) -> Float[Tensor, "batch fine"]:
    """The terms of all numbers in the joint scores, in float64.

    Args:
        table: the numbers of the graph.
        scores: their scores.
        evidence: the evidence on them; None if there is none.
        components: the components of each number given the evidence, if already computed.
    """
    points = table.points if evidence is None else []
    total = scores.new_zeros(scores.shape[0], table.fine_count, dtype=torch.float64)
    if points:
        side_by_side = scores.double()[:, points].flatten(start_dim=1)
        total = (whole_tiles(side_by_side) @ table.design)[: scores.shape[0]]
    for number in table.numbers:
        if number.place not in points:
            own = components_of(number, scores, evidence) if components is None else components[number.place]
            total = total + number.to_fine(own.term)
    return total


def evidence_log_likelihood(
    table: NumberTable, scores: NumberScores | None, before: NumberEvidence | None, new: NumberEvidence
) -> Float[Tensor, "batch fine"]:
    """The log likelihood of new evidence on numbers given each fine label, relative to the largest possible one.

    Args:
        table: the numbers of the graph.
        scores: the scores of the numbers; None if all are 0.
        before: the earlier evidence; None if there was none.
        new: the new evidence.
    """
    combined = new if before is None else both_known(before, new)
    total = new.new_zeros(len(new), table.fine_count)
    for number in table.numbers:
        old = components_of(number, scores, before).term
        log_likelihood = components_of(number, scores, combined).term - torch.where(old.isneginf(), 0.0, old)
        if before is not None:
            # The product of two normals is a normal times a constant, which says how well the two agree.
            (likely, weight, *_), (new_likely, new_weight, *_) = (
                part[:, number.place].unbind(dim=1) for part in (before, new)
            )
            common = weight * new_weight / (weight + new_weight).clamp_min(torch.finfo(weight.dtype).tiny)
            log_likelihood = log_likelihood - 0.5 * (common * (likely - new_likely).square()).unsqueeze(1)
        total = total + number.to_fine(log_likelihood)
    return total


class Moments(NamedTuple):
    """The mean and variance of v given each fine label, for numbers with spreads, in float32 and without evidence.

    Attributes:
        mean: the means.
        variance: the variances.
        free: memory of the same size, for likelihoods; None if there is none.
    """

    mean: Float[Tensor, "batch number fine"]
    variance: Float[Tensor, "batch number fine"]
    free: Float[Tensor, "batch number fine"] | None = None

    def part(self, samples: slice) -> Moments:
        """The moments of some of the samples, in the same memory."""
        return Moments(self.mean[samples], self.variance[samples])


class AddedTerms(NamedTuple):
    """Scores with the terms of numbers, and what their gradient needs.

    Attributes:
        total: the scores with the terms, up to a constant per sample.
        quick: whether plain float32 sums are precise enough.
        moments: the moments of numbers with spreads; None if they were not asked for, or not computed in float32.
    """

    total: Float[Tensor, "batch fine"]
    quick: bool
    moments: Moments | None


def added_terms(
    table: NumberTable,
    scores: NumberScores,
    evidence: NumberEvidence | None,
    fine: Float[Tensor, "batch fine"],
    out: Float[Tensor, "batch fine"] | None = None,
    with_moments: bool = False,
    components: Sequence[Components] | None = None,
) -> AddedTerms:
    """The terms of all numbers added to scores of the fine labels.

    Args:
        table: the numbers of the graph.
        scores: the scores of the numbers.
        evidence: the evidence on the numbers; None if there is none.
        fine: the scores to add to, in float32 or wider.
        out: memory for the result, which may be that of `fine`.
        with_moments: whether the moments are needed.
        components: the components of each number given the evidence, if already computed.
    """
    # Scores that were summed over the graph were checked by the sum.
    small = fine.dtype == torch.float32 and (out is not None or _are_small(fine))
    if small and evidence is None and _float32_suffices(table, scores):
        total, moments = _quick_terms(table, scores, fine, out, with_moments)
        return AddedTerms(total, True, moments)
    terms = number_terms(table, scores, evidence, components)
    if fine.dtype != torch.float64:
        # Terms are rounded relative to the largest one, so that those of likely labels keep their digits.
        top = terms.amax(dim=1, keepdim=True)
        terms = (terms - top.masked_fill(~top.isfinite(), 0.0)).to(fine.dtype)
    return AddedTerms(torch.add(fine, terms, out=out), False, None)


def score_gradient(
    table: NumberTable,
    scores: NumberScores,
    evidence: NumberEvidence | None,
    grad: Float[Tensor, "batch fine"],
    quick: bool,
    moments: Moments | None = None,
) -> NumberScores:
    """The gradient for the scores of numbers: the sum over fine labels of the moments of v.

    Args:
        table: the numbers of the graph.
        scores: the scores of the numbers.
        evidence: the evidence on the numbers; None if there is none.
        grad: the gradient for the joint scores.
        quick: whether plain float32 sums are precise enough.
        moments: the moments of numbers with spreads, whose memory is used; None if they are to be computed.
    """
    linear = evidence is None and table.linear
    if (quick or linear) and grad.dtype == scores.dtype == torch.float32:
        return _quick_score_gradient(table, scores, grad, moments)
    grad, score_grad = grad.double(), torch.zeros_like(scores, dtype=torch.float64)
    points = table.points if evidence is None else []
    if points:
        score_grad[:, points] = (grad @ table.design.t()).reshape(-1, len(points), 2)
    for number in table.numbers:
        if number.place in points:
            continue
        mean, variance = components_of(number, scores, evidence).moments()
        by_component = number.to_components(grad)
        # Components that evidence has ruled out have no moments and no gradient.
        possible = mean.isfinite() & variance.isfinite()
        first = torch.where(possible, mean, 0.0)
        square = torch.where(possible, mean * mean + variance, 0.0)
        score_grad[:, number.place, 0] = (by_component * first).sum(dim=1)
        score_grad[:, number.place, 1] = -0.5 * (by_component * square).sum(dim=1)
    return score_grad.to(scores.dtype)


def _are_small(fine: Float[Tensor, "batch fine"]) -> bool:
    """Whether scores are small enough for plain float32 sums."""
    return torch.compiler.is_compiling() or largest_size(fine) * _ROUNDING <= _MAX_ERROR


def _float32_suffices(table: NumberTable, scores: NumberScores) -> bool:
    """Whether a plain float32 sum of the terms is precise enough, and no row depends on the batch size."""
    if torch.compiler.is_compiling() or scores.dtype != torch.float32 or (table.points and len(scores) % TILE):
        return False
    size = largest_size(scores)
    largest = size * table.largest if table.points else 0.0
    if table.spread:
        pull, precision = table.of_places(scores, table.spread).abs().unbind(dim=2)
        value, variance = table.largest_value, table.largest_variance
        squares = (0.5 * pull * pull).mul_(variance / (1.0 + precision * variance))
        terms = squares.add_(pull, alpha=value).add_(precision, alpha=0.5 * value * value)
        largest += float(terms.sum(dim=1).amax()) if len(terms) else 0.0
        if math.log1p(size * variance) * len(table.spread) > _MAX_LOG_GAIN:
            return False
    return largest * _ROUNDING <= _MAX_ERROR


def _quick_terms(
    table: NumberTable,
    scores: NumberScores,
    fine: Float[Tensor, "batch fine"],
    out: Float[Tensor, "batch fine"] | None,
    with_moments: bool,
) -> tuple[Float[Tensor, "batch fine"], Moments | None]:
    """`added_terms` in float32 and without evidence."""
    total = fine
    if table.points:
        own = table.of_places(scores, table.points)
        total = out = torch.addmm(fine, own.reshape(len(own), -1), table.design_of(torch.float32), out=out)
    if not table.spread:
        return total, None
    value, variance = table.values_of(torch.float32, table.spread)
    own, half = table.of_places(scores, table.spread), 0.5 * value * value
    total, source = torch.empty_like(fine) if out is None else out, total
    moments = None
    if with_moments:
        shape = len(fine), *value.shape
        # One block: glibc keeps up to twice the largest block that was freed, and returns what is above to the system,
        # which would have to clear it again for the next batch.
        moments = Moments(*scores.new_empty(3, *shape))
    for part in cached_parts(len(fine), value.numel()):
        pull, precision = (column.unsqueeze(2) for column in own[part].unbind(dim=2))
        gain = (precision * variance).add_(1.0)
        # One logarithm of a product instead of one for each number.
        log_gain = torch.prod(gain, dim=1).log_()
        shrinkage = gain.reciprocal_()
        terms = torch.addcmul(value, 0.5 * pull, variance).mul_(pull)
        terms.addcmul_(precision, half, value=-1.0).mul_(shrinkage)
        torch.add(source[part], terms.sum(dim=1).sub_(log_gain, alpha=0.5), out=total[part])
        if moments is not None:
            _moments(value, variance, pull, shrinkage, moments.part(part))
    return total, moments


def _moments(
    value: Float[Tensor, "number fine"],
    variance: Float[Tensor, "number fine"],
    pull: Float[Tensor, "batch number 1"],
    shrinkage: Float[Tensor, "batch number fine"],
    out: Moments | None = None,
) -> Moments:
    """The moments of numbers with spreads; the shrinkage 1 / (1 + b t^2) may be overwritten.

    Args:
        value: the inner values.
        variance: their variances.
        pull: the pulls.
        shrinkage: 1 / (1 + b t^2).
        out: memory for the result.
    """
    mean = torch.addcmul(value, pull, variance, out=None if out is None else out.mean).mul_(shrinkage)
    return Moments(mean, torch.mul(shrinkage, variance, out=shrinkage if out is None else out.variance))


def moments_of(
    scores: NumberScores, value: Float[Tensor, "number fine"], variance: Float[Tensor, "number fine"]
) -> Moments:
    """The moments of numbers with spreads, without evidence and in the dtype of the scores.

    Args:
        scores: the scores of these numbers.
        value: their inner values.
        variance: the variances of these.
    """
    pull, precision = (column.unsqueeze(2) for column in scores.unbind(dim=2))
    return _moments(value, variance, pull, (precision * variance).add_(1.0).reciprocal_())


def _quick_score_gradient(
    table: NumberTable, scores: NumberScores, grad: Float[Tensor, "batch fine"], moments: Moments | None
) -> NumberScores:
    """`score_gradient` in float32 and without evidence."""
    by_points = None
    if table.points:
        # In this order, not `grad @ design.t()`: a product with few columns takes twice as long.
        by_points = (table.design_of(torch.float32) @ grad.t()).t().contiguous().view(len(grad), -1, 2)
        if table.linear:
            return by_points
    value, variance = table.values_of(torch.float32, table.spread)
    own, parts = table.of_places(scores, table.spread), []
    for part in cached_parts(len(grad), value.numel()):
        mean, square, _ = moments_of(own[part], value, variance) if moments is None else moments.part(part)
        square.addcmul_(mean, mean)
        row = grad[part].unsqueeze(1)
        first, second = (torch.bmm(row, each.transpose(1, 2)).squeeze(1) for each in (mean, square))
        parts.append(torch.stack([first, second.mul_(-0.5)], dim=2))
    by_spread = torch.cat(parts)
    if by_points is None:
        return by_spread
    score_grad = torch.empty_like(scores)
    score_grad[:, table.points], score_grad[:, table.spread] = by_points, by_spread
    return score_grad


class _NumberTerms(torch.autograd.Function):
    """Adds the terms of numbers."""

    @staticmethod
    def forward(
        ctx: Any,
        fine: Float[Tensor, "batch fine"],
        scores: NumberScores,
        table: NumberTable,
        evidence: NumberEvidence | None,
        components: Sequence[Components] | None,
    ) -> Float[Tensor, "batch fine"]:
        ctx.table = table
        ctx.save_for_backward(scores, evidence)
        added = added_terms(table, scores, evidence, fine, components=components)
        ctx.quick = added.quick
        return added.total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None, None]:
        refuse_second_derivatives()
        (scores, evidence), table = ctx.saved_tensors, ctx.table
        if not ctx.needs_input_grad[1]:
            return grads[0], None, None, None, None
        return grads[0], score_gradient(table, scores, evidence, grads[0], ctx.quick), None, None, None
