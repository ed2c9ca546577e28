"""Numbers as ONNX operations: what they add to the joint scores, their means and quantiles.

The same sums as in `finegraph.inference.numbers`. A component is a value with its spread; v and t^2 are its mean and
variance on the inner scale, a and b the pull and the precision of the number:

    gain  =  1 + b t^2         mean  =  (v + a t^2) / gain         variance  =  t^2 / gain
    s_i  +=  (a v + a^2 t^2 / 2 - b v^2 / 2) / gain - 1/2 log(gain)

Evidence multiplies these normal distributions by another one and cuts them to an interval (`cut_normal_nodes.py`); what
a cut costs is computed only where an interval is given. Exact values are compared with its ends in the user's unit.

Quantiles of exact values are searched in sums of probabilities. With spreads, an interval that holds all of them is
halved 32 times; without a cut in float32, since not all runtimes have the error function in float64. Components are
rows and samples are columns, as in `posterior_nodes.py`. Cost: linear in the components, times the halvings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from finegraph.graph.number import MAX_VALUE
from finegraph.inference.numbers.number_tensors import NumberTable, NumberTensors
from finegraph.model.export.cut_normal_nodes import (
    CutNormalNodes,
    EndNodes,
    Normals,
    cut,
    log_mean_of_exp,
    log_probability,
    mean_of,
    probability_below,
)
from finegraph.model.export.export_names import NUMBER_MEANS, NUMBER_QUANTILES, QUANTILES
from finegraph.model.export.node_writer import NodeWriter, list_log_sum_exp, list_tables
from finegraph.model.export.tracing import REACH, ROUNDING

HALVINGS = 32
"""How often an interval is halved to find a quantile."""
_WIDE, _NARROW = np.float64, np.float32


class NumberScores(NamedTuple):
    """The scores of all numbers: (batch, number) their pulls and their precisions."""

    pulls: str
    precisions: str


class NumberInputs(NamedTuple):
    """The evidence on all numbers: (batch or 1, number, 2) ranges and estimates, as `export_names.py` says."""

    ranges: str
    estimates: str


class Cut(NamedTuple):
    """The interval of each sample: whether there is any, its ends, and those in the user's unit (1, batch or 1)."""

    given: str
    ends: EndNodes
    outer: EndNodes


class ScoredNumber(NamedTuple):
    """A number with its scores and evidence.

    Attributes:
        term: (component, batch or 1) what is added to the joint scores; None for nothing.
        mean, variance: (component, batch or 1) before the cut; the variance is None if all values are exact.
        cut: the cut; None without evidence.
        penalty: (1, batch or 1) minus infinity for samples with unusable evidence, else 0; None without evidence.
    """

    term: str | None
    mean: str
    variance: str | None
    cut: Cut | None = None
    penalty: str | None = None


def scored_numbers(
    to: NodeWriter, table: NumberTable, scores: NumberScores | None, given: NumberInputs | None = None
) -> list[ScoredNumber]:
    """The components of all numbers.

    Args:
        to: what is written to.
        table: the numbers of the graph.
        scores: those of the numbers; None if there are none, as in softmax.
        given: the evidence on the numbers; None if there is none.
    """
    rows = None if scores is None else NumberScores(*(to.cast(to.turn(part), _WIDE) for part in scores))
    found = [_scored(to, number, rows) for number in table.numbers]
    if given is None:
        return found
    columns = NumberInputs(*(to.node("Transpose", part, perm=[1, 2, 0]) for part in given))
    return [_given(to, number, scored, columns) for number, scored in zip(table.numbers, found, strict=True)]


def _scored(to: NodeWriter, number: NumberTensors, scores: NumberScores | None) -> ScoredNumber:
    value = to.constant(number.value.numpy()[:, None], _WIDE)
    variance = None if number.points else to.constant(number.variance.numpy()[:, None], _WIDE)
    if scores is None:
        return ScoredNumber(None, value, variance)
    pull, precision = (to.gather(part, np.array([number.place])) for part in scores)
    half = to.number(0.5, _WIDE)
    square = to.node("Mul", half, to.node("Mul", value, value))
    term = to.node("Sub", to.node("Mul", pull, value), to.node("Mul", precision, square))
    if variance is None:
        return ScoredNumber(term, value, None)
    gain = to.node("Add", to.number(1.0, _WIDE), to.node("Mul", precision, variance))
    moved = to.node("Mul", pull, variance)
    term = to.node("Add", term, to.node("Mul", half, to.node("Mul", pull, moved)))
    term = to.node("Sub", to.node("Div", term, gain), to.node("Mul", half, to.node("Log", gain)))
    return ScoredNumber(term, to.node("Div", to.node("Add", value, moved), gain), to.node("Div", variance, gain))


def _given(to: NodeWriter, number: NumberTensors, scored: ScoredNumber, given: NumberInputs) -> ScoredNumber:
    """A number with its evidence."""
    low, high = _pair(to, number, given.ranges)
    value, spread = _pair(to, number, given.estimates)
    infinite = to.number(math.inf, _WIDE)
    zero, one = to.number(0.0, _WIDE), to.number(1.0, _WIDE)
    nothing = to.node("Equal", spread, infinite)
    conditions = [
        to.node("LessOrEqual", low, high),
        _in_range(to, low, -math.inf),
        _in_range(to, high, math.inf),
        to.node("Or", nothing, _in_range(to, value)),
        to.node("Greater", spread, zero),
    ]
    if number.number.scale == "log":
        conditions += [to.node("Greater", high, zero), to.node("Or", nothing, to.node("Greater", value, zero))]
    usable = _all(to, conditions)
    value = to.node("Where", to.node("And", usable, to.node("Not", nothing)), value, one)
    deviation = to.node("Div", spread, to.number(number.number.width, _WIDE))
    if number.number.scale == "log":
        deviation = to.node("Div", deviation, value)
    usable = to.node("And", usable, to.node("GreaterOrEqual", deviation, to.number(1.0 / MAX_VALUE, _WIDE)))
    deviation = to.node("Where", usable, deviation, infinite)
    precision = to.node("Reciprocal", to.node("Mul", deviation, deviation))
    term, mean, variance = _estimated(to, scored, _inner(to, number, value), precision)
    outer = EndNodes(
        to.node("Where", usable, low, to.number(-math.inf, _WIDE)), to.node("Where", usable, high, infinite)
    )
    ends = EndNodes(*(_inner(to, number, end) for end in outer))
    limited = [to.node("Less", to.node("Abs", end), infinite) for end in outer]
    whether = to.node("ReduceMax", to.cast(to.node("Or", *limited), _NARROW), keepdims=0)
    limits = Cut(to.node("Greater", whether, to.number(0.5, _NARROW)), ends, outer)
    given_scored = ScoredNumber(
        term, mean, variance, limits, to.node("Where", usable, zero, to.number(-math.inf, _WIDE))
    )
    return given_scored._replace(term=to.node("Add", term, _cut_term(to, number, given_scored, limits)))


def _pair(to: NodeWriter, number: NumberTensors, given: str) -> tuple[str, str]:
    """(1, batch or 1) both numbers that are given on a number."""
    own = to.node("Squeeze", to.gather(given, np.array([number.place])), to.constant([0], np.int64))
    first, second = (to.gather(own, np.array([part])) for part in (0, 1))
    return first, second


def _in_range(to: NodeWriter, value: str, unbounded: float | None = None) -> str:
    """Whether a value can be computed with, or is the infinity that is no limit."""
    good = to.node("LessOrEqual", to.node("Abs", value), to.number(MAX_VALUE, _WIDE))
    return good if unbounded is None else to.node("Or", good, to.node("Equal", value, to.number(unbounded, _WIDE)))


def _all(to: NodeWriter, conditions: Sequence[str]) -> str:
    first, *others = conditions
    for other in others:
        first = to.node("And", first, other)
    return first


def _inner(to: NodeWriter, number: NumberTensors, value: str) -> str:
    """Values on the inner scale; on a log scale, what is not above 0 is minus infinity."""
    if number.number.scale == "log":
        value = to.node("Log", to.node("Max", value, to.number(0.0, _WIDE)))
    centred = to.node("Sub", value, to.number(number.number.centre, _WIDE))
    return to.node("Div", centred, to.number(number.number.width, _WIDE))


def _estimated(to: NodeWriter, scored: ScoredNumber, likely: str, precision: str) -> tuple[str, str, str | None]:
    """The term, mean and variance of a number times the normal likelihood of a value."""
    half = to.number(0.5, _WIDE)
    away = to.node("Sub", likely, scored.mean)
    term = to.node("Mul", half, to.node("Mul", precision, to.node("Mul", away, away)))
    mean, variance = scored.mean, scored.variance
    if scored.variance is not None:
        weight = to.node("Mul", precision, scored.variance)
        gain = to.node("Add", to.number(1.0, _WIDE), weight)
        term = to.node("Add", to.node("Div", term, gain), to.node("Mul", half, to.node("Log", gain)))
        mean = to.node("Div", to.node("Add", scored.mean, to.node("Mul", weight, likely)), gain)
        variance = to.node("Div", scored.variance, gain)
    term = to.node("Neg", term) if scored.term is None else to.node("Sub", scored.term, term)
    return term, mean, variance


def _cut_term(to: NodeWriter, number: NumberTensors, scored: ScoredNumber, limits: Cut) -> str:
    """(component, batch) the log probability of the interval of each sample."""
    values = np.full(number.count, np.nan)
    values[number.component.numpy()] = number.number.values
    outer = to.constant(values[:, None], _WIDE)
    inside = to.node(
        "And", to.node("GreaterOrEqual", outer, limits.outer.low), to.node("LessOrEqual", outer, limits.outer.high)
    )
    inside = to.node("Where", inside, to.number(0.0, _WIDE), to.number(-math.inf, _WIDE))
    if number.points:
        return inside

    def of_cut() -> list[str]:
        return [log_probability(to, _cut_normals(to, number, scored, limits), inside)]

    def of_none() -> list[str]:
        return [to.constant(np.zeros((1, 1)), _WIDE)]

    return to.choose(limits.given, of_cut, of_none, _WIDE)[0]


def _cut_normals(to: NodeWriter, number: NumberTensors, scored: ScoredNumber, limits: Cut) -> CutNormalNodes:
    """The components of a number with spreads, cut."""
    assert scored.variance is not None
    exact = to.constant((number.variance.numpy() == 0)[:, None], np.bool_)
    return cut(to, Normals(scored.mean, scored.variance, exact), limits.ends)


def add_terms(to: NodeWriter, table: NumberTable, numbers: list[ScoredNumber], joint: str) -> str:
    """Joint scores (fine, batch) with what all numbers add to them."""
    for number, scored in zip(table.numbers, numbers, strict=True):
        if scored.term is not None:
            joint = to.node("Add", joint, to.gather(scored.term, number.component.numpy()))
        if scored.penalty is not None:
            joint = to.node("Add", joint, scored.penalty)
    return joint


def add_values(to: NodeWriter, table: NumberTable, numbers: list[ScoredNumber], log_probs: str) -> None:
    """Write the means and quantiles of all numbers from the log probabilities (fine, batch) of the fine labels."""
    means, quantiles = [], []
    for number, scored in zip(table.numbers, numbers, strict=True):
        fine = np.arange(len(number.component))
        lists = list_tables(fine, number.component.numpy(), number.count, len(fine))
        weights = to.node("Exp", to.cast(list_log_sum_exp(to, log_probs, lists, _NARROW), _WIDE))
        # Where nothing is possible all weights are 0, and so must be what is divided by them.
        total = to.node("Max", to.reduce("ReduceSum", weights, 0), to.number(float(np.finfo(_NARROW).tiny), _WIDE))
        weights = to.node("Div", weights, total)
        mean, own_quantiles = _values(to, number, scored, weights)
        means.append(mean)
        quantiles.append(own_quantiles)
    together = means[0] if len(means) == 1 else to.node("Concat", *means, axis=0)
    to.turn(to.cast(together, _NARROW), output=NUMBER_MEANS)
    places = [to.node("Unsqueeze", one, to.constant([1], np.int64)) for one in quantiles]
    to.node("Concat", *places, axis=1, output=NUMBER_QUANTILES)


def _values(to: NodeWriter, number: NumberTensors, scored: ScoredNumber, weights: str) -> Sequence[str]:
    """(1, batch) the mean and (batch, quantile) the quantiles, in the user's unit."""

    def plain() -> list[str]:
        mean = _mean(to, number, scored, weights)
        if number.points:
            return [mean, _point_quantiles(to, number, weights)]
        return [mean, _quantiles(to, number, scored, weights)]

    limits = scored.cut
    if number.points or limits is None:
        return plain()

    def wide() -> list[str]:
        return [to.cast(name, _WIDE) for name in plain()]

    def of_cut() -> list[str]:
        normals = _cut_normals(to, number, scored, limits)
        return [_cut_mean(to, number, scored, normals, weights), _cut_quantiles(to, number, normals, weights)]

    mean, quantiles = to.choose(limits.given, of_cut, wide, _WIDE)
    return mean, to.cast(quantiles, _NARROW)


def _cut_mean(
    to: NodeWriter, number: NumberTensors, scored: ScoredNumber, normals: CutNormalNodes, weights: str
) -> str:
    """(1, batch) the expected value in the user's unit, of components that are cut."""
    if number.number.scale == "linear":
        return _outer(to, number, _weighted(to, weights, mean_of(to, normals)))
    assert scored.variance is not None
    assert scored.cut is not None
    inner = log_mean_of_exp(to, normals, scored.variance, number.number.width)
    values = to.node("Exp", to.node("Add", to.number(number.number.centre, _WIDE), inner))
    low, high = scored.cut.outer
    return _weighted(to, weights, to.node("Min", to.node("Max", values, low), high))


def _weighted(to: NodeWriter, weights: str, values: str) -> str:
    """(1, batch) the mean over components; those that are impossible have no value."""
    zero = to.number(0.0, _WIDE)
    values = to.node("Where", to.node("Greater", weights, zero), values, zero)
    return to.reduce("ReduceSum", to.node("Mul", weights, values), 0)


def _cut_quantiles(to: NodeWriter, number: NumberTensors, normals: CutNormalNodes, weights: str) -> str:
    """(batch, quantile) of components that are cut, by halving."""
    reach = to.node(
        "Mul", to.number(REACH, _WIDE), to.node("Where", normals.exact, to.number(0.0, _WIDE), normals.deviation)
    )
    possible = to.node("Greater", weights, to.number(0.0, _WIDE))
    zeros = to.node("Mul", to.reduce("ReduceMax", weights, 0), to.number(0.0, _WIDE))
    # Exact values that the interval rules out are no part of it: only what is possible is searched.
    sides = []
    for operation, step, unbounded in (("ReduceMin", "Sub", math.inf), ("ReduceMax", "Add", -math.inf)):
        side = to.node("Where", possible, to.node(step, normals.top, reach), to.number(unbounded, _WIDE))
        side = to.node("Min", to.node("Max", to.reduce(operation, side, 0), normals.ends.low), normals.ends.high)
        finite = to.node("Less", to.node("Abs", side), to.number(math.inf, _WIDE))
        sides.append(to.node("Add", to.node("Where", finite, side, to.number(0.0, _WIDE)), zeros))
    low, high = sides
    found = []
    for quantile in QUANTILES:

        def halve(state: Sequence[str], goal: float = quantile * (1.0 - ROUNDING)) -> list[str]:
            middle = to.node("Mul", to.number(0.5, _WIDE), to.node("Add", *state))
            below = _weighted(to, weights, probability_below(to, normals, middle))
            enough = to.node("GreaterOrEqual", below, to.number(goal, _WIDE))
            return [to.node("Where", enough, state[0], middle), to.node("Where", enough, middle, state[1])]

        found.append(to.repeat(HALVINGS, [low, high], halve, _WIDE)[1])
    return to.turn(_outer(to, number, to.node("Concat", *found, axis=0)))


def _mean(to: NodeWriter, number: NumberTensors, scored: ScoredNumber, weights: str) -> str:
    """(1, batch) the expected value in the user's unit."""
    if number.number.scale == "linear":
        return _outer(to, number, to.reduce("ReduceSum", to.node("Mul", weights, scored.mean), 0))
    width = number.number.width
    inner = to.node("Mul", to.number(width, _WIDE), scored.mean)
    if scored.variance is not None:
        inner = to.node("Add", inner, to.node("Mul", to.number(0.5 * width * width, _WIDE), scored.variance))
    value = to.node("Exp", to.node("Add", to.number(number.number.centre, _WIDE), inner))
    return to.reduce("ReduceSum", to.node("Mul", weights, value), 0)


def _outer(to: NodeWriter, number: NumberTensors, inner: str) -> str:
    """Inner values in the user's unit."""
    scaled = to.node("Mul", to.number(number.number.width, _WIDE), inner)
    value = to.node("Add", to.number(number.number.centre, _WIDE), scaled)
    return to.node("Exp", value) if number.number.scale == "log" else value


def _last_axis(to: NodeWriter, value: str) -> str:
    """(component, batch) to (component, batch, 1)."""
    return to.node("Unsqueeze", value, to.constant([2], np.int64))


def _point_quantiles(to: NodeWriter, number: NumberTensors, weights: str) -> str:
    """(batch, quantile): the first value at which the sum of probabilities is enough."""
    sums = _last_axis(to, to.node("CumSum", weights, to.constant(np.array(0), np.int64)))
    goal = to.constant(np.array(QUANTILES) * (1.0 - ROUNDING), _WIDE)
    before = to.reduce("ReduceSum", to.cast(to.node("Less", sums, goal), np.int64), 0)
    last = to.constant(np.array(number.count - 1), np.int64)
    place = to.node("Squeeze", to.node("Min", before, last), to.constant([0], np.int64))
    values = number.number.to_outer(number.value.numpy())
    return to.node("Gather", to.constant(values, _NARROW), place, axis=0)


def _quantiles(to: NodeWriter, number: NumberTensors, scored: ScoredNumber, weights: str) -> str:
    """(batch, quantile) of components with spreads, by halving."""
    assert scored.variance is not None
    mean = _last_axis(to, to.cast(scored.mean, _NARROW))
    deviation = _last_axis(to, to.cast(to.node("Sqrt", scored.variance), _NARROW))
    weight = _last_axis(to, to.cast(weights, _NARROW))
    exact = to.constant((number.variance.numpy() == 0)[:, None, None], np.bool_)
    scale = to.node("Mul", to.number(2**0.5, _NARROW), to.node("Where", exact, to.number(1.0, _NARROW), deviation))
    reach = to.node("Mul", to.number(REACH, _NARROW), deviation)
    goal = to.constant(np.array(QUANTILES) * (1.0 - ROUNDING), _NARROW)
    nothing = to.constant(np.zeros((1, 1, len(QUANTILES))), _NARROW)
    batch = to.node("Mul", to.reduce("ReduceMax", weight, 0), nothing)  # as many columns as there are samples
    low = to.node("Add", to.reduce("ReduceMin", to.node("Sub", mean, reach), 0), batch)
    high = to.node("Add", to.reduce("ReduceMax", to.node("Add", mean, reach), 0), batch)
    half, one = to.number(0.5, _NARROW), to.number(1.0, _NARROW)
    for _ in range(HALVINGS):
        middle = to.node("Mul", half, to.node("Add", low, high))
        away = to.node("Sub", middle, mean)
        under = to.node("Mul", half, to.node("Add", one, to.node("Erf", to.node("Div", away, scale))))
        step = to.cast(to.node("GreaterOrEqual", away, to.number(0.0, _NARROW)), _NARROW)
        under = to.node("Where", exact, step, under)
        enough = to.node("GreaterOrEqual", to.reduce("ReduceSum", to.node("Mul", weight, under), 0), goal)
        low, high = to.node("Where", enough, low, middle), to.node("Where", enough, middle, high)
    value = to.cast(_outer(to, number, to.cast(high, _WIDE)), _NARROW)
    return to.node("Squeeze", value, to.constant([0], np.int64))
