"""What to ask about a number: whether its value is above a round number, such as "is the price above 12?".

People more often know whether something costs more than 12 than what it costs, and can answer without measuring. With
w_u the probability of component u of the number, p_u that of its best fine label, and F_u(c) = P(v <= c | u):

    below    =  sum_u w_u F_u(c)
    gain     =  h(below) - sum_u w_u h(F_u(c))                in bits; h(q) = - q log q - (1 - q) log(1 - q)
    after    =  max_u p_u F_u(c) + max_u p_u (1 - F_u(c))
    settles  =  below [max_u p_u F_u(c) >= (1 - risk) below] + the same above

Thresholds c are the roundest numbers between neighbouring values of fine labels. The one with the largest gain is
asked. With exact values all are compared, in linear time. With spreads at most 64 are, at evenly spaced quantiles; if
there are very many components, by merged ones (`large_mixture.py`). The effects of the chosen one are exact, in
float64.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.graph import LabelGraph, Number
from finegraph.graph.kind import FloatArray
from finegraph.inference.numbers.large_mixture import MANY_COMPONENTS, merged_components
from finegraph.inference.numbers.number_tensors import NumberTensors
from finegraph.inference.numbers.potential import Components
from finegraph.inference.numerics import Constants

MAX_THRESHOLDS = 64
"""The largest number of thresholds to compare for a number with spreads."""
MAX_TOGETHER = 1 << 22
"""The largest number of values held at a time."""
_EQUAL = 1e-9
"""Gains that differ by less, in bits, count as equal; the lowest threshold is then chosen."""


class ThresholdEffects(NamedTuple):
    """The expected effect of knowing whether a value is above a threshold; see `Effects`.

    Attributes:
        above: the threshold with the largest gain, in the user's unit; NaN if all values are the same.
        gain: the average fall in the entropy of the fine label, in bits.
        after: the probability of the best fine label after the answer, on average.
        settles: the probability that it is then at least 1 - risk.
    """

    above: Float[Tensor, " batch"]
    gain: Float[Tensor, " batch"]
    after: Float[Tensor, " batch"]
    settles: Float[Tensor, " batch"]


class Thresholds(Constants):
    """The thresholds of all numbers of a graph.

    Attributes:
        outer: per number, the thresholds in the user's unit, in rising order.
        inner: per number, the thresholds on the inner scale.
        last: per number, for each threshold the last component whose value is not above it.
    """

    def __init__(self, graph: LabelGraph) -> None:
        self.outer: list[Tensor] = []
        self.inner: list[Tensor] = []
        self.last: list[Tensor] = []
        for place, name in enumerate(graph.numbers):
            number = graph.number(name)
            outer = thresholds_of(number)
            inner = number.to_inner(outer)
            values = NumberTensors(number, place).value.numpy()
            self.outer.append(torch.from_numpy(outer))
            self.inner.append(torch.from_numpy(np.ascontiguousarray(inner)))
            self.last.append(torch.from_numpy(np.searchsorted(values, inner, side="right") - 1))


def thresholds_of(number: Number) -> Float[FloatArray, " place"]:
    """The number with the fewest digits between each two neighbouring values; it may equal the lower one."""
    values = number.distinct
    low, high = values[:-1], values[1:]
    thresholds = low.copy()
    pending = np.ones(len(low), dtype=bool)
    with np.errstate(over="ignore", invalid="ignore"):
        top = math.ceil(math.log10(np.abs(values).max(initial=1e-300) + 1e-300)) + 1
        for exponent in range(top, top - 18, -1):
            if not pending.any():
                break
            nearest = _multiple(0.5 * low + 0.5 * high, exponent, np.rint)
            above = _multiple(low, exponent, np.ceil)
            for candidate in (nearest, above):
                fits = pending & (low <= candidate) & (candidate < high)
                thresholds[fits] = candidate[fits]
                pending &= ~fits
    return thresholds


def _multiple(values: FloatArray, exponent: int, rounding: np.ufunc) -> FloatArray:
    """Round to multiples of a power of ten, as exactly as floating point allows."""
    # Dividing by a whole power of ten is exact where multiplying by its reciprocal is not.
    rounded: FloatArray = (
        rounding(values * 10.0**-exponent) / 10.0**-exponent
        if exponent < 0
        else rounding(values / 10.0**exponent) * 10.0**exponent
    )
    return rounded + 0.0  # turns -0.0 into 0.0


def threshold_effects(
    thresholds: Thresholds,
    number: NumberTensors,
    weights: Float[Tensor, "batch component"],
    best: Float[Tensor, "batch component"],
    components: Components,
    risk: float,
) -> ThresholdEffects:
    """The best threshold of a number for each sample, and the expected effect of asking about it.

    Args:
        thresholds: the thresholds of the graph.
        number: the tensors of the number.
        weights: the probability of each component, in float64.
        best: the probability of the best fine label of each component.
        components: the components, with scores and evidence.
        risk: how often a settled answer may be wrong, plus an allowance for rounding.
    """
    inner, outer = thresholds.inner[number.place], thresholds.outer[number.place]
    if not len(inner):
        zeros = weights.new_zeros(len(weights))
        return ThresholdEffects(zeros + torch.nan, zeros, weights.amax(dim=1) * 0.0 + best.amax(dim=1), zeros)
    if number.points:
        last = thresholds.last[number.place]
        below = weights.cumsum(dim=1).index_select(1, last).clamp(0.0, 1.0)
        chosen = _first_best(_entropy(below))
    else:
        chosen = _best_with_spreads(inner, thresholds.last[number.place], weights, components)
    place = inner[chosen].unsqueeze(1)
    under = components.interval_probabilities(torch.full_like(place, -torch.inf), place)
    gain = _gain(weights, under)
    parts = [_settled(weights * share, best * share, risk) for share in (under, 1.0 - under)]
    after, settles = (yes + no for no, yes in zip(*parts, strict=True))
    return ThresholdEffects(outer[chosen], gain, after, settles)


def _settled(
    weights: Float[Tensor, "batch component"], best: Float[Tensor, "batch component"], risk: float
) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
    """The joint probability of an answer and its best fine label, and that of the answer if it settles the label."""
    answer, with_best = weights.sum(dim=1), best.amax(dim=1)
    return with_best, torch.where((with_best >= (1.0 - risk) * answer) & (answer > 0), answer, 0.0)


def _best_with_spreads(
    inner: Float[Tensor, " place"],
    last: Tensor,
    weights: Float[Tensor, "batch component"],
    components: Components,
) -> Tensor:
    """The index of the best threshold of a number with spreads or unknown values."""
    if len(inner) <= MAX_THRESHOLDS:
        places = torch.arange(len(inner), device=inner.device).expand(len(weights), -1)
    else:
        below = weights.cumsum(dim=1).index_select(1, last).contiguous()
        shares = torch.arange(1, MAX_THRESHOLDS + 1, dtype=below.dtype, device=below.device) / (MAX_THRESHOLDS + 1)
        places = torch.searchsorted(below, shares.repeat(len(below), 1)).clamp_max(len(inner) - 1)
    if weights.shape[1] > MANY_COMPONENTS:
        gains = [_gains_of_merged(row, inner[places[row]], weights, components) for row in range(len(weights))]
        return places.gather(1, _first_best(torch.cat(gains)).unsqueeze(1)).squeeze(1)
    count = places.shape[1]
    step = max(1, MAX_TOGETHER // (count * weights.shape[1]))
    gains = []
    for start in range(0, len(weights), step):
        samples = slice(start, start + step)
        rows = torch.arange(len(weights), device=weights.device)[samples].repeat_interleave(count)
        ends = inner[places[samples]].reshape(-1, 1)
        under = _rows_of(components, rows).interval_probabilities(torch.full_like(ends, -torch.inf), ends)
        gains.append(_gain(weights[rows], under).view(-1, count))
    return places.gather(1, _first_best(torch.cat(gains)).unsqueeze(1)).squeeze(1)


def _gains_of_merged(
    row: int, ends: Float[Tensor, " place"], weights: Float[Tensor, "batch component"], components: Components
) -> Float[Tensor, "1 place"]:
    """The gains of thresholds for one sample, by its merged components."""
    rows = torch.full((1,), row, device=weights.device)
    _, mean, variance, low, high = _rows_of(components, rows)
    own = weights[row] > 0
    if not bool(own.any()):
        return torch.zeros_like(ends)[None]
    parts = (values[own] for values in (weights[row], mean[0], variance[0].sqrt()))
    total, mean, deviation = (values[None] for values in merged_components(*parts))
    merged = Components(torch.zeros_like(total), mean, deviation.square(), low, high)
    under = merged.interval_probabilities(torch.full_like(ends, -torch.inf)[:, None], ends[:, None])
    return _gain(total.expand_as(under), under)[None]


def _rows_of(components: Components, rows: Tensor) -> Components:
    """The components of some samples; parts that all samples share stay one row."""
    parts: list[Any] = [part if part is None or len(part) == 1 else part.index_select(0, rows) for part in components]
    return Components(*parts)


def _gain(
    weights: Float[Tensor, "batch component"], under: Float[Tensor, "batch component"]
) -> Float[Tensor, " batch"]:
    below = (weights * under).sum(dim=1).clamp(0.0, 1.0)
    return (_entropy(below) - (weights * _entropy(under.clamp(0.0, 1.0))).sum(dim=1)).clamp_min(0.0)


def _entropy(share: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The entropy of a yes-or-no question, in bits."""
    return -(torch.xlogy(share, share) + torch.xlogy(1.0 - share, 1.0 - share)) / math.log(2.0)


def _first_best(gains: Float[Tensor, "batch place"]) -> Tensor:
    """The first index with the largest gain, up to rounding."""
    return (gains >= gains.amax(dim=1, keepdim=True) - _EQUAL).int().argmax(dim=1)
