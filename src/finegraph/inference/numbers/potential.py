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

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.inference.numbers.known_values import both_known
from finegraph.inference.numbers.normal import cut_moments, interval_log_prob
from finegraph.inference.numbers.number_tensors import NumberTable, NumberTensors
from finegraph.inference.numerics import (
    TILE,
    at_least_float32,
    cached_parts,
    refuse_second_derivatives,
    whole_tiles,
)

_MAX_ERROR = 1e-5
"""The estimated error up to which a plain float32 sum is used."""

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


def components_of(number: NumberTensors, scores: NumberScores | None, evidence: NumberEvidence | None) -> Components:
    """The components of one number, in float64.

    Args:
        number: the tensors of the number.
        scores: the scores of all numbers; None if all are 0, as in softmax.
        evidence: the evidence on all numbers; None if there is none.
    """
    value, variance = number.value.unsqueeze(0), number.variance.unsqueeze(0)
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
) -> Float[Tensor, "batch fine"]:
    """Add the terms of all numbers to the fine scores, up to a constant per sample; differentiable.

    Args:
        table: the numbers of the graph.
        fine: the fine scores.
        scores: the scores of the numbers; None if all are 0.
        evidence: the evidence on the numbers; None if there is none.
    """
    fine = at_least_float32(fine)
    if scores is None:
        scores = fine.new_zeros(fine.shape[0], len(table), 2)
    result: Tensor = _NumberTerms.apply(fine, scores, table, evidence)  # type: ignore[no-untyped-call]
    return result


def number_terms(
    table: NumberTable, scores: NumberScores, evidence: NumberEvidence | None
) -> Float[Tensor, "batch fine"]:
    """The terms of all numbers in the joint scores, in float64."""
    points = table.points if evidence is None else []
    total = scores.new_zeros(scores.shape[0], table.fine_count, dtype=torch.float64)
    if points:
        side_by_side = scores.double()[:, points].flatten(start_dim=1)
        total = (whole_tiles(side_by_side) @ table.design)[: scores.shape[0]]
    for number in table.numbers:
        if number.place not in points:
            total = total + number.to_fine(components_of(number, scores, evidence).term)
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


def _float32_suffices(fine: Tensor, scores: Tensor, table: NumberTable) -> bool:
    """Whether a plain float32 sum is precise enough, and no row depends on the batch size."""
    if torch.compiler.is_compiling() or not fine.dtype == scores.dtype == torch.float32:
        return False
    if table.points and len(fine) % TILE:
        return False
    if not fine.numel():
        return True
    low, high = torch.aminmax(fine)
    size = scores.abs()
    largest = float(size.amax()) * table.largest if table.points else 0.0
    if table.spread:
        pull, precision = size[:, table.spread].unbind(dim=2)
        value, variance = table.largest_value, table.largest_variance
        squares = (0.5 * pull * pull).mul_(variance / (1.0 + precision * variance))
        terms = squares.add_(pull, alpha=value).add_(precision, alpha=0.5 * value * value)
        largest += float(terms.sum(dim=1).amax())
    return max(largest, -low.item(), high.item()) * torch.finfo(torch.float32).eps <= _MAX_ERROR


def _quick_terms(
    table: NumberTable, fine: Float[Tensor, "batch fine"], scores: NumberScores
) -> Float[Tensor, "batch fine"]:
    """The fine scores with the terms of all numbers, in float32 and without evidence."""
    if table.points:
        own = scores if table.linear else scores[:, table.points]
        fine = torch.addmm(fine, own.flatten(start_dim=1), table.design_of(torch.float32))
    if table.spread:
        value, variance = table.values_of(torch.float32, table.spread)
        half = 0.5 * value * value
        own, result = scores[:, table.spread], torch.empty_like(fine)
        for part in cached_parts(len(fine), value.numel()):
            pull, precision = (column.unsqueeze(2) for column in own[part].unbind(dim=2))
            gain = (precision * variance).add_(1.0)
            terms = torch.addcmul(value, 0.5 * pull, variance).mul_(pull)
            terms.addcmul_(precision, half, value=-1.0).div_(gain)
            terms.sub_(gain.log_(), alpha=0.5)
            torch.add(terms.sum(dim=1), fine[part], out=result[part])
        fine = result
    return fine


def _quick_score_gradient(
    table: NumberTable, scores: NumberScores, grad: Float[Tensor, "batch fine"]
) -> Float[Tensor, "batch number 2"]:
    """The gradient for the scores of numbers, in float32, without evidence."""
    # In this order, not `grad @ design.t()`: a product with few columns takes twice as long.
    by_points = (table.design_of(torch.float32) @ grad.t()).t().reshape(len(grad), -1, 2)
    if table.linear:
        return by_points
    score_grad = torch.empty_like(scores)
    if table.points:
        score_grad[:, table.points] = by_points
    value, variance = table.values_of(torch.float32, table.spread)
    spread, parts = scores[:, table.spread], []
    for part in cached_parts(len(grad), value.numel()):
        pull, precision = (column.unsqueeze(2) for column in spread[part].unbind(dim=2))
        shrinkage = (precision * variance).add_(1.0).reciprocal_()
        mean = torch.addcmul(value, pull, variance).mul_(shrinkage)
        row = grad[part].unsqueeze(1)
        first = (mean * row).sum(dim=2)
        square = mean.square_().addcmul_(shrinkage, variance).mul_(row).sum(dim=2)
        parts.append(torch.stack([first, square.mul_(-0.5)], dim=2))
    score_grad[:, table.spread] = torch.cat(parts)
    return score_grad


class _NumberTerms(torch.autograd.Function):
    """Adds the terms of numbers; the gradient is the sum over fine labels of the moments of v."""

    @staticmethod
    def forward(
        ctx: Any,
        fine: Float[Tensor, "batch fine"],
        scores: NumberScores,
        table: NumberTable,
        evidence: NumberEvidence | None,
    ) -> Float[Tensor, "batch fine"]:
        ctx.table = table
        ctx.save_for_backward(scores, evidence)
        ctx.quick = evidence is None and _float32_suffices(fine, scores, table)
        if ctx.quick:
            return _quick_terms(table, fine, scores)
        terms = number_terms(table, scores, evidence)
        if fine.dtype == torch.float64:
            return fine + terms
        # Terms are rounded relative to the largest one, so that those of likely labels keep their digits.
        top = terms.amax(dim=1, keepdim=True)
        return fine + (terms - top.masked_fill(~top.isfinite(), 0.0)).to(fine.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        refuse_second_derivatives()
        (scores, evidence), table = ctx.saved_tensors, ctx.table
        if not ctx.needs_input_grad[1]:
            return grads[0], None, None, None
        linear = evidence is None and table.linear
        if (ctx.quick or linear) and grads[0].dtype == scores.dtype == torch.float32:
            return grads[0], _quick_score_gradient(table, scores, grads[0]), None, None
        grad, score_grad = grads[0].double(), torch.zeros_like(scores, dtype=torch.float64)
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
        return grads[0], score_grad.to(scores.dtype), None, None
