r"""Normal distributions cut to an interval, as ONNX operations that lose no digits far out in their tails.

The formulas are those of `cut_normal.py`. erfcx(x) = exp(x^2) erfc(x) is t exp(p(t)) with t = 2 / (2 + x) and a
polynomial p of degree 24: to 5e-15, from additions and products alone, since not all runtimes have the error function
in float64. Components are rows and samples are columns.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from finegraph.model.export.cut_normal import NARROW
from finegraph.model.export.node_writer import NodeWriter

_DEGREE = 24
_WIDE = np.float64


class EndNodes(NamedTuple):
    """The ends of the interval of each sample, (1, batch or 1), on the inner scale; infinite where there is none."""

    low: str
    high: str


class Normals(NamedTuple):
    """Normal distributions: means and variances (component, batch or 1), and which variances are 0 (component, 1)."""

    mean: str
    variance: str
    exact: str


class CutNormalNodes(NamedTuple):
    """Normal distributions cut to an interval.

    Attributes:
        mean, deviation: before the cut; of exact values the deviation is 1.
        exact: which values are exact.
        ends: the interval.
        top: the point of the interval that is nearest to the mean.
        c: its distance from the mean, in deviations.
        central: 1 where the mean is inside of the interval, else 0.
        low, mass: H(low), and H(high) - H(low).
        middle, width: of the interval, in deviations from the mean.
        narrow: whether the interval is narrow.
        rest: log P(low <= v <= high) + c^2 / 2.
    """

    mean: str
    deviation: str
    exact: str
    ends: EndNodes
    top: str
    c: str
    central: str
    low: str
    mass: str
    middle: str
    width: str
    narrow: str
    rest: str


def cut(to: NodeWriter, normals: Normals, ends: EndNodes) -> CutNormalNodes:
    """Normal distributions cut to the interval of each sample."""
    one, half = to.number(1.0, _WIDE), to.number(0.5, _WIDE)
    mean, exact = normals.mean, normals.exact
    deviation = to.node("Sqrt", to.node("Where", exact, one, normals.variance))
    top = to.node("Min", to.node("Max", mean, ends.low), ends.high)
    c = to.node("Div", to.node("Sub", top, mean), deviation)
    zero = to.number(0.0, _WIDE)
    central = to.cast(to.node("Equal", c, zero), _WIDE)
    low, high = (_level(to, end, top, c, central, deviation) for end in ends)
    mass = to.node("Sub", high, low)
    width = to.node("Div", to.node("Sub", ends.high, ends.low), deviation)
    sides = [to.node("Div", to.node("Sub", end, mean), deviation) for end in ends]
    middle = to.node("Mul", half, to.node("Add", *sides))
    size = to.node("Mul", width, to.node("Max", to.node("Abs", middle), one))
    narrow = to.node("Less", size, to.number(NARROW, _WIDE))
    strip = _strip(to, middle, width, c, to.node("Div", to.node("Sub", _middle(to, ends), top), deviation))
    rest = to.node("Where", narrow, strip, to.node("Log", mass))
    rest = to.node("Where", to.node("LessOrEqual", width, zero), to.number(-math.inf, _WIDE), rest)
    return CutNormalNodes(mean, deviation, exact, ends, top, c, central, low, mass, middle, width, narrow, rest)


def log_probability(to: NodeWriter, normals: CutNormalNodes, inside: str) -> str:
    """(component, batch) the log of the probability of the interval, 0 or minus infinity for exact values.

    Args:
        to: what is written to.
        normals: the cut variables.
        inside: (component, batch) 0 where an exact value is inside of the interval, else minus infinity.
    """
    square = to.node("Mul", to.number(0.5, _WIDE), to.node("Mul", normals.c, normals.c))
    return to.node("Where", normals.exact, inside, to.node("Sub", normals.rest, square))


def probability_below(to: NodeWriter, normals: CutNormalNodes, value: str) -> str:
    """(component, batch) the probability that a cut variable is at most a value (1, batch) inside of the interval."""
    level = _level(to, value, normals.top, normals.c, normals.central, normals.deviation)
    below = to.node("Div", to.node("Sub", level, normals.low), normals.mass)
    share = to.node("Div", to.node("Sub", value, normals.ends.low), to.node("Sub", *reversed(normals.ends)))
    half, one = to.number(0.5, _WIDE), to.number(1.0, _WIDE)
    bend = to.node("Mul", half, to.node("Mul", normals.width, normals.middle))
    bend = to.node("Add", one, to.node("Mul", bend, to.node("Sub", one, share)))
    below = to.node("Where", normals.narrow, to.node("Mul", share, bend), below)
    reached = to.cast(to.node("GreaterOrEqual", value, normals.mean), _WIDE)
    return to.node("Where", normals.exact, reached, below)


def mean_of(to: NodeWriter, normals: CutNormalNodes) -> str:
    """(component, batch) the mean of each cut variable."""
    narrow_mean = _middle(to, normals.ends)
    twelfth = to.number(1.0 / 12.0, _WIDE)
    bend = to.node("Mul", to.node("Mul", normals.middle, normals.width), to.node("Mul", normals.width, twelfth))
    narrow_mean = to.node("Sub", narrow_mean, to.node("Mul", normals.deviation, bend))
    # E[z] = (density at low - density at high) / probability, both relative to the density at the top.
    low, high = (_density(to, _distance(to, end, normals.top, normals.deviation), normals.c) for end in normals.ends)
    factor = to.node("Mul", to.number(math.sqrt(2.0 * math.pi), _WIDE), normals.mass)
    moved = to.node("Mul", normals.deviation, to.node("Div", to.node("Sub", low, high), factor))
    mean = to.node("Where", normals.narrow, narrow_mean, to.node("Add", normals.mean, moved))
    mean = to.node("Min", to.node("Max", mean, normals.ends.low), normals.ends.high)
    return to.node("Where", normals.exact, normals.mean, mean)


def log_mean_of_exp(to: NodeWriter, normals: CutNormalNodes, variance: str, factor: float) -> str:
    """(component, batch) log E[exp(factor v)] of each cut variable v.

    exp(factor v) times a normal density is that of another mean, times a constant. The squares of both c are taken
    together, as one alone may be larger than all digits.

    Args:
        to: what is written to.
        normals: the cut variables.
        variance: their variances before the cut.
        factor: what they are multiplied by.
    """
    moved = to.node("Add", normals.mean, to.node("Mul", to.number(factor, _WIDE), variance))
    other = cut(to, Normals(moved, variance, normals.exact), normals.ends)
    step = to.node("Div", to.node("Sub", normals.top, other.top), normals.deviation)
    step = to.node("Add", step, to.node("Mul", to.number(factor, _WIDE), normals.deviation))
    halves = to.node("Mul", to.number(0.5, _WIDE), to.node("Add", normals.c, other.c))
    found = to.node("Add", to.node("Sub", other.rest, normals.rest), to.node("Mul", step, halves))
    whole = to.node("Mul", to.number(0.5 * factor * factor, _WIDE), variance)
    plain = to.node("Mul", to.number(factor, _WIDE), normals.mean)
    found = to.node("Add", plain, to.node("Add", whole, found))
    return to.node("Where", normals.exact, plain, found)


def _middle(to: NodeWriter, ends: EndNodes) -> str:
    """The middle of the interval."""
    return to.node("Mul", to.number(0.5, _WIDE), to.node("Add", *ends))


def _strip(to: NodeWriter, middle: str, width: str, c: str, step: str) -> str:
    """What log P + c^2 / 2 is for a narrow interval; the step is its middle less c, all in deviations."""
    square = to.node("Mul", width, width)
    across = to.node("Mul", width, middle)
    bend = to.node("Mul", to.number(1.0 / 24.0, _WIDE), to.node("Sub", to.node("Mul", across, across), square))
    log = to.node("Add", to.node("Log", width), to.node("Log", to.node("Add", to.number(1.0, _WIDE), bend)))
    squares = to.node("Mul", step, to.node("Mul", to.number(0.5, _WIDE), to.node("Add", middle, c)))
    return to.node("Sub", to.node("Sub", log, squares), to.number(0.5 * math.log(2.0 * math.pi), _WIDE))


def _distance(to: NodeWriter, value: str, top: str, deviation: str) -> str:
    return to.node("Div", to.node("Sub", value, top), deviation)


def _density(to: NodeWriter, distance: str, c: str) -> str:
    """exp(-o (o / 2 + c)): the density relative to that at the top."""
    slope = to.node("Add", to.node("Mul", to.number(0.5, _WIDE), distance), c)
    return to.node("Exp", to.node("Neg", to.node("Mul", distance, slope)))


def _level(to: NodeWriter, value: str, top: str, c: str, central: str, deviation: str) -> str:
    """H of a value."""
    distance = _distance(to, value, top, deviation)
    z = to.node("Add", c, distance)
    tail = _scaled_erfc(to, to.node("Mul", to.node("Abs", z), to.number(math.sqrt(0.5), _WIDE)))
    tail = to.node("Mul", to.number(0.5, _WIDE), to.node("Mul", _density(to, distance, c), tail))
    below = to.node("Less", z, to.number(0.0, _WIDE))
    return to.node("Where", below, tail, to.node("Sub", central, tail))


def _scaled_erfc(to: NodeWriter, value: str) -> str:
    """The scaled function erfcx of values of at least 0, by Clenshaw's recurrence."""
    two = to.number(2.0, _WIDE)
    t = to.node("Div", two, to.node("Add", value, two))
    y = to.node("Sub", to.node("Mul", two, t), to.number(1.0, _WIDE))
    double = to.node("Mul", two, y)
    first, *middle, last = (to.number(float(one), _WIDE) for one in scaled_erfc_coefficients())
    newer, older = last, to.number(0.0, _WIDE)
    for coefficient in reversed(middle):
        step = to.node("Sub", to.node("Mul", double, newer), older)
        newer, older = to.node("Add", step, coefficient), newer
    exponent = to.node("Add", to.node("Sub", to.node("Mul", y, newer), older), first)
    return to.node("Mul", t, to.node("Exp", exponent))


@lru_cache(maxsize=1)
def scaled_erfc_coefficients() -> Float[NDArray[np.float64], " _"]:
    """The Chebyshev coefficients of log(erfcx(x) / t), t = 2 / (2 + x), in 2 t - 1."""

    def wanted(y: NDArray[np.float64]) -> NDArray[np.float64]:
        t = 0.5 * (y + 1.0)
        found: NDArray[np.float64] = np.log(torch.special.erfcx(torch.from_numpy(2.0 / t - 2.0)).numpy() / t)
        return found

    interpolate: Any = np.polynomial.chebyshev.chebinterpolate  # its stubs know functions of one number only
    coefficients: NDArray[np.float64] = interpolate(wanted, _DEGREE)
    return coefficients
