"""Numbers as ONNX operations: what they add to the joint scores, their means and quantiles.

The same sums as in `finegraph.inference.numbers`. A component is a value with its spread; v and t^2 are its mean and
variance on the inner scale, a and b the pull and the precision of the number:

    gain  =  1 + b t^2         mean  =  (v + a t^2) / gain         variance  =  t^2 / gain
    s_i  +=  (a v + a^2 t^2 / 2 - b v^2 / 2) / gain - 1/2 log(gain)

Quantiles of exact values are searched in sums of probabilities. With spreads, an interval that holds all of them is
halved 32 times, in float32, since not all runtimes have the error function in float64. Components are rows and samples
are columns, as in `posterior_nodes.py`. Cost: linear in the components, times the halvings.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from finegraph.inference.numbers.number_tensors import NumberTable, NumberTensors
from finegraph.model.export.export_names import NUMBER_MEANS, NUMBER_QUANTILES, QUANTILES
from finegraph.model.export.node_writer import Writer, list_log_sum_exp, list_tables
from finegraph.model.export.tracing import REACH, ROUNDING

HALVINGS = 32
"""How often an interval is halved to find a quantile."""
_WIDE, _NARROW = np.float64, np.float32


class NumberScores(NamedTuple):
    """The scores of all numbers: (batch, number) their pulls and their precisions."""

    pulls: str
    precisions: str


class Scored(NamedTuple):
    """A number with its scores: (component, batch or 1) what is added to the joint scores, mean and variance."""

    term: str | None
    mean: str
    variance: str | None


def scored_numbers(to: Writer, table: NumberTable, scores: NumberScores | None) -> list[Scored]:
    """The components of all numbers.

    Args:
        to: what is written to.
        table: the numbers of the graph.
        scores: those of the numbers; None if there are none, as in softmax.
    """
    rows = None if scores is None else NumberScores(*(to.cast(to.turn(part), _WIDE) for part in scores))
    return [_scored(to, number, rows) for number in table.numbers]


def _scored(to: Writer, number: NumberTensors, scores: NumberScores | None) -> Scored:
    value = to.constant(number.value.numpy()[:, None], _WIDE)
    variance = None if number.points else to.constant(number.variance.numpy()[:, None], _WIDE)
    if scores is None:
        return Scored(None, value, variance)
    pull, precision = (to.gather(part, np.array([number.place])) for part in scores)
    half = to.number(0.5, _WIDE)
    square = to.node("Mul", half, to.node("Mul", value, value))
    term = to.node("Sub", to.node("Mul", pull, value), to.node("Mul", precision, square))
    if variance is None:
        return Scored(term, value, None)
    gain = to.node("Add", to.number(1.0, _WIDE), to.node("Mul", precision, variance))
    moved = to.node("Mul", pull, variance)
    term = to.node("Add", term, to.node("Mul", half, to.node("Mul", pull, moved)))
    term = to.node("Sub", to.node("Div", term, gain), to.node("Mul", half, to.node("Log", gain)))
    return Scored(term, to.node("Div", to.node("Add", value, moved), gain), to.node("Div", variance, gain))


def add_terms(to: Writer, table: NumberTable, numbers: list[Scored], joint: str) -> str:
    """Joint scores (fine, batch) with what all numbers add to them."""
    for number, scored in zip(table.numbers, numbers, strict=True):
        if scored.term is not None:
            joint = to.node("Add", joint, to.gather(scored.term, number.component.numpy()))
    return joint


def add_values(to: Writer, table: NumberTable, numbers: list[Scored], log_probs: str) -> None:
    """Write the means and quantiles of all numbers from the log probabilities (fine, batch) of the fine labels."""
    means, quantiles = [], []
    for number, scored in zip(table.numbers, numbers, strict=True):
        fine = np.arange(len(number.component))
        lists = list_tables(fine, number.component.numpy(), number.count, len(fine))
        weights = to.node("Exp", to.cast(list_log_sum_exp(to, log_probs, lists, _NARROW), _WIDE))
        # Where nothing is possible all weights are 0, and so must be what is divided by them.
        total = to.node("Max", to.reduce("ReduceSum", weights, 0), to.number(float(np.finfo(_NARROW).tiny), _WIDE))
        weights = to.node("Div", weights, total)
        means.append(_mean(to, number, scored, weights))
        quantiles.append(
            _point_quantiles(to, number, weights) if number.points else _quantiles(to, number, scored, weights)
        )
    together = means[0] if len(means) == 1 else to.node("Concat", *means, axis=0)
    to.turn(to.cast(together, _NARROW), output=NUMBER_MEANS)
    places = [to.node("Unsqueeze", one, to.constant([1], np.int64)) for one in quantiles]
    to.node("Concat", *places, axis=1, output=NUMBER_QUANTILES)


def _mean(to: Writer, number: NumberTensors, scored: Scored, weights: str) -> str:
    """(1, batch) the expected value in the user's unit."""
    if number.number.scale == "linear":
        return _outer(to, number, to.reduce("ReduceSum", to.node("Mul", weights, scored.mean), 0))
    width = number.number.width
    inner = to.node("Mul", to.number(width, _WIDE), scored.mean)
    if scored.variance is not None:
        inner = to.node("Add", inner, to.node("Mul", to.number(0.5 * width * width, _WIDE), scored.variance))
    value = to.node("Exp", to.node("Add", to.number(number.number.centre, _WIDE), inner))
    return to.reduce("ReduceSum", to.node("Mul", weights, value), 0)


def _outer(to: Writer, number: NumberTensors, inner: str) -> str:
    """Inner values in the user's unit."""
    scaled = to.node("Mul", to.number(number.number.width, _WIDE), inner)
    value = to.node("Add", to.number(number.number.centre, _WIDE), scaled)
    return to.node("Exp", value) if number.number.scale == "log" else value


def _last_axis(to: Writer, value: str) -> str:
    """(component, batch) to (component, batch, 1)."""
    return to.node("Unsqueeze", value, to.constant([2], np.int64))


def _point_quantiles(to: Writer, number: NumberTensors, weights: str) -> str:
    """(batch, quantile): the first value at which the sum of probabilities is enough."""
    sums = _last_axis(to, to.node("CumSum", weights, to.constant(np.array(0), np.int64)))
    goal = to.constant(np.array(QUANTILES) * (1.0 - ROUNDING), _WIDE)
    before = to.reduce("ReduceSum", to.cast(to.node("Less", sums, goal), np.int64), 0)
    last = to.constant(np.array(number.count - 1), np.int64)
    place = to.node("Squeeze", to.node("Min", before, last), to.constant([0], np.int64))
    values = number.number.to_outer(number.value.numpy())
    return to.node("Gather", to.constant(values, _NARROW), place, axis=0)


def _quantiles(to: Writer, number: NumberTensors, scored: Scored, weights: str) -> str:
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
