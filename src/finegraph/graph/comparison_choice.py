r"""Which two things to compare next: the pair whose comparison is expected to say most about all values.

Given the comparisons so far, the difference d of two values is about N(m, s^2). The answer "more" or "less" carries as
much information about all values as it does about d:

    gain = H(E[p]) - E[H(p)],        p = 1 / (1 + exp(-d)),        H = the binary entropy, in bits

The gain is large where the order is open and the values are uncertain. Pairs whose order is known, and pairs that are
practically equal, gain little. A quick approximation (a normal instead of the logistic function) finds the best pairs,
and quadrature the best of these. Ties are broken at random, so that nothing is favoured before the first comparison.
Cost: quadratic in the things, of which at most `MAX_ITEMS` are considered: the least known ones and a random sample of
the others.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from finegraph.graph.comparison_fit import ComparisonFit
from finegraph.graph.kind import FloatArray, IntArray

MAX_ITEMS = 500
"""How many things are considered for the next pair."""
_MAX_EXACT_PAIRS = 100
"""For how many pairs the gain is computed by quadrature."""
_LOGISTIC_PRECISION = math.pi / 8
"""The logistic function is nearly the distribution function of a normal with variance 1 / this."""
_ENTROPY_VARIANCE = math.pi * math.log(2) / 2
"""The binary entropy of the normal distribution function at x is nearly exp(-x^2 / (2 * this)) bits."""
_QUADRATURE_POINTS = 40
_MIN_PROBABILITY = 1e-30
"""A probability with no entropy to speak of, whose logarithm is finite in float32."""
_TIE_BITS = 1e-4
"""Gains that differ by fewer bits are ties."""
Pair = tuple[int, int]
_Array = NDArray[np.floating[Any]]


def expected_gain(mean: Float[FloatArray, " pair"], variance: Float[FloatArray, " pair"]) -> Float[FloatArray, " pair"]:
    """The expected gain of a comparison in bits, if the difference of the values has this mean and variance.

    Example:
        >>> import numpy as np
        >>> expected_gain(np.array([0.0, 0.0, 9.0]), np.array([3.0, 0.0, 0.1])).round(3).tolist()
        [0.285, 0.0, 0.0]
    """
    places, weights = np.polynomial.hermite_e.hermegauss(_QUADRATURE_POINTS)
    sure = 1 / (1 + np.exp(np.clip(-(mean[:, None] + np.sqrt(variance)[:, None] * places), -700, 700)))
    weights = weights / weights.sum()
    return np.asarray(np.maximum(_entropy(sure @ weights) - _entropy(sure) @ weights, 0.0))


def _entropy(probability: _Array) -> _Array:
    """The binary entropy in bits."""
    yes, no = np.maximum(probability, _MIN_PROBABILITY), np.maximum(1 - probability, _MIN_PROBABILITY)
    return np.asarray(-(yes * np.log2(yes) + no * np.log2(no)))


def _quick_gain(mean: _Array, variance: _Array) -> _Array:
    """An approximation of `expected_gain` for very many pairs."""
    half = np.exp(-np.abs(mean) / np.sqrt(1 + _LOGISTIC_PRECISION * variance))
    spread = _LOGISTIC_PRECISION * variance + _ENTROPY_VARIANCE
    expected = np.sqrt(_ENTROPY_VARIANCE / spread) * np.exp(-_LOGISTIC_PRECISION * mean**2 / (2 * spread))
    return np.asarray(_entropy(half / (1 + half)) - expected)


def telling_pair(
    fit: ComparisonFit | None,
    prior_mean: Float[FloatArray, " fine"],
    prior_spread: Float[FloatArray, " fine"],
    rng: np.random.Generator,
    *,
    barred: Collection[Pair] = (),
    among: Collection[Pair] | None = None,
    chosen: Collection[int] | None = None,
) -> Pair | None:
    """The pair with the largest expected gain, in random order.

    Args:
        fit: the values fitted to the comparisons so far; None before the first one.
        prior_mean: the mean of each value before any comparison.
        prior_spread: its standard deviation.
        rng: the source of random numbers.
        barred: pairs to leave out, as (smaller index, larger index).
        among: pairs to choose from; by default all.
        chosen: things to choose from; by default all.

    Returns:
        Two indices, or None if no pair is left.
    """
    known = _Known(fit, prior_mean, prior_spread)
    if among is None:
        things = known.least(rng, chosen)
        one, two = np.triu_indices(len(things), 1)
        mean, variance = known.all_pairs(things)
        gains = _quick_gain(mean[one, two], variance[one, two])
        one, two = things[one], things[two]
        if barred:
            gains[np.isin(one * len(prior_mean) + two, _codes(barred, len(prior_mean)))] = -np.inf
    else:
        pairs = np.array([pair for pair in among if pair not in barred], dtype=np.int64).reshape(-1, 2)
        one, two = pairs[:, 0], pairs[:, 1]
        gains = _quick_gain(*known.pairs(one, two))
    best = _top(gains, rng)
    best = best[np.isfinite(gains[best])]
    if not len(best):
        return None
    exact = expected_gain(*known.pairs(one[best], two[best]))
    place = best[rng.choice(np.flatnonzero(exact >= exact.max() - _TIE_BITS))]
    found = int(one[place]), int(two[place])
    return found if rng.random() < 0.5 else found[::-1]


def _codes(pairs: Collection[Pair], count: int) -> IntArray:
    """One integer for each pair."""
    listed = np.array(list(pairs), dtype=np.int64)
    return listed[:, 0] * count + listed[:, 1]


def _top(gains: _Array, rng: np.random.Generator) -> IntArray:
    """The indices of the largest gains, ties in random order."""
    if len(gains) <= _MAX_EXACT_PAIRS:
        return np.arange(len(gains))
    drawn = gains + rng.random(len(gains), dtype=np.float32) * _TIE_BITS
    return np.argpartition(-drawn, _MAX_EXACT_PAIRS)[:_MAX_EXACT_PAIRS]


class _Known:
    """Means and variances of differences of values. In float32: precise enough for a choice, and twice as fast."""

    def __init__(self, fit: ComparisonFit | None, mean: FloatArray, spread: FloatArray) -> None:
        self._mean, self._variance = mean.astype(np.float32), (spread**2).astype(np.float32)
        self._fit = fit
        self._place = np.full(len(mean), -1)
        if fit is not None:
            self._place[fit.items] = np.arange(len(fit.items))
            self._mean[fit.items] = fit.values
            self._variance[fit.items] = np.diag(fit.covariance)

    def least(self, rng: np.random.Generator, chosen: Collection[int] | None) -> IntArray:
        """The chosen things, or all; of too many, the least known and a random sample of the others."""
        things = np.arange(len(self._mean)) if chosen is None else np.array(sorted(chosen), dtype=np.int64)
        if len(things) <= MAX_ITEMS:
            return things
        lot = rng.permutation(things)
        lot = lot[np.argsort(-self._variance[lot], kind="stable")]
        others = rng.choice(lot[MAX_ITEMS // 2 :], MAX_ITEMS - MAX_ITEMS // 2, replace=False)
        return np.sort(np.concatenate([lot[: MAX_ITEMS // 2], others]))

    def all_pairs(self, chosen: IntArray) -> tuple[_Array, _Array]:
        """The mean and the variance of the difference of all pairs of some things."""
        mean, own = self._mean[chosen], self._variance[chosen]
        variance = own[:, None] + own
        inside = np.flatnonzero(self._place[chosen] >= 0)
        if self._fit is not None:
            places = self._place[chosen[inside]]
            variance[np.ix_(inside, inside)] -= 2 * self._fit.covariance[np.ix_(places, places)].astype(np.float32)
        return mean[:, None] - mean, np.maximum(variance, 0.0)

    def pairs(self, one: IntArray, two: IntArray) -> tuple[FloatArray, FloatArray]:
        """The mean and the variance of the difference of some pairs."""
        variance = (self._variance[one] + self._variance[two]).astype(np.float64)
        if self._fit is not None:
            here, there = self._place[one], self._place[two]
            both = (here >= 0) & (there >= 0)
            variance[both] -= 2 * self._fit.covariance[here[both], there[both]]
        return (self._mean[one] - self._mean[two]).astype(np.float64), np.maximum(variance, 0.0)
