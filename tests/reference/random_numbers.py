"""Random numbers on top of random graphs: unknown values, spreads, equal values, linear and log scales.

The inner scale is worked out here without the package: after a logarithm if there is one, the known values with their
spreads have mean 0 and variance 1 together, and an unknown value is 0 +- 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from finegraph import LabelGraph, Number

from .random_graphs import Case
from .values import Potential

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NumberCase:
    """One random number: the package's value, and the inner values and spreads of all fine labels.

    Attributes:
        number: the package's value.
        values: on the inner scale.
        spreads: on the inner scale; 0 is exact.
        centre: what 0 is, after the logarithm if there is one.
        width: what a step of 1 is.
    """

    number: Number
    values: Array
    spreads: Array
    centre: float
    width: float

    def outer(self, inner: Array) -> Array:
        """Inner values in the user's unit."""
        value = self.centre + self.width * np.asarray(inner)
        return np.exp(value) if self.number.scale == "log" else value


def random_number(rng: np.random.Generator, name: str, fine: int) -> NumberCase:
    """A random number of so many fine labels."""
    scale = "log" if rng.random() < 0.4 else "linear"
    values = rng.choice([1.0, 2.0, 2.5, 4.0, 7.0, 9.5], size=fine) * rng.choice([1.0, 1.0, 3.0])
    spreads = np.zeros(fine) if rng.random() < 0.4 else np.round(rng.uniform(0.0, 1.5, fine), 1)
    unknown = rng.random(fine) < rng.choice([0.0, 0.0, 0.4])
    values = np.where(unknown, np.nan, values)
    inner, inner_spreads, centre, width = standardised(values, spreads, scale)
    return NumberCase(Number(name, values, spreads, scale), inner, inner_spreads, centre, width)


def standardised(values: Array, spreads: Array, scale: str) -> tuple[Array, Array, float, float]:
    """The inner values and spreads, the centre and the width."""
    known = ~np.isnan(values)
    value, spread = values[known], spreads[known]
    if scale == "log":
        value, spread = np.log(value), spread / value
    centre = float(np.mean(value)) if known.any() else 0.0
    variance = float(np.mean((value - centre) ** 2) + np.mean(spread**2)) if known.any() else 1.0
    width = np.sqrt(variance) if variance > 1e-20 else 1.0
    inner, inner_spreads = np.zeros(len(values)), np.ones(len(values))
    inner[known], inner_spreads[known] = (value - centre) / width, spread / width
    return inner, inner_spreads, centre, float(width)


def with_numbers(rng: np.random.Generator, case: Case, count: int) -> tuple[LabelGraph, list[NumberCase]]:
    """The graph of a case with numbers added."""
    numbers = [random_number(rng, f"number {n}", len(case.graph)) for n in range(count)]
    kinds = [case.graph.kind(name) for name in case.graph.kinds]
    return LabelGraph(case.graph.fine, kinds, [one.number for one in numbers]), numbers


def random_potential(rng: np.random.Generator, scale: float = 1.0) -> Potential:
    """The scores of one sample for one number."""
    return Potential(scale * rng.standard_normal(), scale * abs(rng.standard_normal()) * float(rng.random() < 0.8))
