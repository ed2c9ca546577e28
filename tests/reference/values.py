"""Numbers by quadrature: the value of a number is one more axis of the joint distribution, cut into many small steps.

This file shares no code with the package and knows plain arrays only. It looks at one sample and one number:

    values, spreads   (fine,)     v_i and t_i on the inner scale; t_i = 0 is a point
    pull, precision               a and b
    log_weights       (fine,)     the log of everything else that fine label i has, up to a constant

    P(i, v)  is proportional to  exp(log_weights_i + a v - b v^2 / 2) N(v; v_i, t_i^2)

times the likelihood of evidence: a normal one around a value, and 0 outside of an interval. Integrals over v are sums
over nodes of Gauss's rule in each of many pieces between the ends, never a closed form.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_REACH = 45.0
"""What is below exp(-45) of the largest density is left out."""


@dataclass(frozen=True)
class Potential:
    """What a sample says of a value: the scores of the network, and what is known."""

    pull: float = 0.0
    precision: float = 0.0
    likely: float = 0.0
    likely_precision: float = 0.0
    low: float = -math.inf
    high: float = math.inf

    def log(self, value: Array) -> Array:
        """The log of the potential, minus infinity outside of the interval."""
        inside = (value >= self.low) & (value <= self.high)
        known = -0.5 * self.likely_precision * (value - self.likely) ** 2
        return np.where(inside, self.pull * value - 0.5 * self.precision * value**2 + known, -math.inf)


@dataclass(frozen=True)
class FineValue:
    """The value of one fine label after the potential: nodes with log masses, which need not sum to 1."""

    nodes: Array
    log_mass: Array

    @property
    def log_total(self) -> float:
        """What the fine label is multiplied by."""
        top = float(self.log_mass.max(initial=-math.inf))
        return top + math.log(np.exp(self.log_mass - top).sum()) if top > -math.inf else -math.inf


@functools.lru_cache(maxsize=4096)  # tests ask for the same one for its total, its mean and its intervals
def fine_value(value: float, spread: float, potential: Potential, pieces: int = 24) -> FineValue:
    """The value of one fine label by quadrature."""
    if spread == 0:
        return FineValue(np.array([value]), potential.log(np.array([value])))
    low, high = _stretch(value, spread, potential)
    ends = np.linspace(low, high, pieces + 1)
    half = 0.5 * np.diff(ends)
    nodes = (0.5 * (ends[1:] + ends[:-1])[:, None] + half[:, None] * _NODES).ravel()
    width = (half[:, None] * _WEIGHTS).ravel()
    density = -0.5 * ((nodes - value) / spread) ** 2 - math.log(spread * math.sqrt(2 * math.pi))
    with np.errstate(divide="ignore"):
        return FineValue(nodes, density + potential.log(nodes) + np.log(width))


def _stretch(value: float, spread: float, potential: Potential) -> tuple[float, float]:
    """Where the product is not negligible: around its highest place, which a concave function has one of."""
    precision = spread**-2 + potential.precision + potential.likely_precision
    centre = value / spread**2 + potential.pull + potential.likely * potential.likely_precision
    top = min(max(centre / precision, potential.low), potential.high)
    slope = abs(centre - precision * top)
    reach = 2 * _REACH / (slope + math.sqrt(slope**2 + 2 * _REACH * precision))
    return max(top - reach, potential.low), min(top + reach, potential.high)


@dataclass(frozen=True)
class Mixture:
    """The value given the sample: masses at nodes, sorted; and the log probabilities of the fine labels."""

    nodes: Array
    mass: Array
    fine_log_probs: Array

    def mean(self, of: Callable[[Array], Array] = lambda value: value) -> float:
        """The expected value of a function of the value."""
        return math.fsum(self.mass * of(self.nodes))

    def spread(self, of: Callable[[Array], Array] = lambda value: value) -> float:
        """Its standard deviation."""
        mean = self.mean(of)
        return math.sqrt(self.mean(lambda value: (of(value) - mean) ** 2))


def mixture(log_weights: Array, values: Array, spreads: Array, potential: Potential) -> Mixture:
    """The value given the sample, and the fine labels, by quadrature."""
    parts = [fine_value(*pair, potential) for pair in zip(values, spreads, strict=True)]
    log_fine = np.array([weight + part.log_total for weight, part in zip(log_weights, parts, strict=True)])
    log_z = np.logaddexp.reduce(log_fine)
    nodes = np.concatenate([part.nodes for part in parts])
    mass = np.exp(np.concatenate([w + part.log_mass for w, part in zip(log_weights, parts, strict=True)]) - log_z)
    order = np.argsort(nodes, kind="stable")
    return Mixture(nodes[order], mass[order], log_fine - log_z)


def interval_probability(
    log_weights: Array, values: Array, spreads: Array, potential: Potential, low: float, high: float
) -> float:
    """The probability that the value is in an interval, ends included: the mass that is left after cutting."""
    cut = Potential(
        potential.pull,
        potential.precision,
        potential.likely,
        potential.likely_precision,
        max(low, potential.low),
        min(high, potential.high),
    )
    return math.exp(_log_total(log_weights, values, spreads, cut) - _log_total(log_weights, values, spreads, potential))


def _log_total(log_weights: Array, values: Array, spreads: Array, potential: Potential) -> float:
    if potential.low > potential.high:
        return -math.inf
    parts = [
        weight + fine_value(value, spread, potential).log_total
        for weight, value, spread in zip(log_weights, values, spreads, strict=True)
    ]
    return float(np.logaddexp.reduce(parts))


def reading_log_density(
    log_weights: Array, values: Array, spreads: Array, potential: Potential, reading: float, resolution: float
) -> float:
    """The log density of a value that is read with a normal error: the value summed out at nodes."""
    total, found = [], []
    for weight, value, spread in zip(log_weights, values, spreads, strict=True):
        part = fine_value(value, spread, potential, pieces=200)
        error = -0.5 * ((reading - part.nodes) / resolution) ** 2 - math.log(resolution * math.sqrt(2 * math.pi))
        total.append(weight + part.log_total)
        found.append(weight + np.logaddexp.reduce(part.log_mass + error))
    return float(np.logaddexp.reduce(found) - np.logaddexp.reduce(total))
