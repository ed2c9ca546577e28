r"""Which two things to compare next: those whose comparison tells most about all values.

Given the comparisons so far, the difference d of two values is about N(m, s^2). The answer "more" or "less" to their
comparison tells of all values as many bits as it tells of d:

    gain = H(E[p]) - E[H(p)],        p = 1 / (1 + exp(-d)),        H = the entropy of a yes or no

The gain is large where the order is open and the values are little known; pairs that one already knows, and pairs that
are as good as equal however often one asks, tell little. A quick approximation (the logistic function as a normal one)
finds the best pairs, and quadrature the best of these. Equal gains are drawn by lot, so that a start without knowledge
favours nobody. Cost: the square of how many things there are, at most `MAX_ITEMS` of them: of more, the least known and
others by lot.
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
"""Among how many things the pair is looked for."""
_FEW = 100
"""For how many pairs the gain is found exactly."""
_NORMAL = math.pi / 8
"""The logistic function is nearly a normal distribution function of 1 / sqrt(this) of its width."""
_ENTROPY = math.pi * math.log(2) / 2
"""The entropy of a normal distribution function at x is nearly exp(-x^2 / (2 * this)) bits."""
_PLACES = 40
"""Of the quadrature."""
_NEVER = 1e-30
"""A probability whose entropy is nothing, and whose logarithm float32 has."""
_LOT = 1e-4
"""Bits: gains that differ by less are equal."""
Pair = tuple[int, int]
_Array = NDArray[np.floating[Any]]


def expected_gain(mean: Float[FloatArray, " pair"], variance: Float[FloatArray, " pair"]) -> Float[FloatArray, " pair"]:
    """The bits that a comparison tells, if the difference of the two values has this mean and variance.

    Example:
        >>> import numpy as np
        >>> expected_gain(np.array([0.0, 0.0, 9.0]), np.array([3.0, 0.0, 0.1])).round(3).tolist()
        [0.285, 0.0, 0.0]
    """
    places, weights = np.polynomial.hermite_e.hermegauss(_PLACES)
    sure = 1 / (1 + np.exp(np.clip(-(mean[:, None] + np.sqrt(variance)[:, None] * places), -700, 700)))
    weights = weights / weights.sum()
    return np.asarray(np.maximum(_entropy(sure @ weights) - _entropy(sure) @ weights, 0.0))


def _entropy(probability: _Array) -> _Array:
    """The bits of a yes or no."""
    yes, no = np.maximum(probability, _NEVER), np.maximum(1 - probability, _NEVER)
    return np.asarray(-(yes * np.log2(yes) + no * np.log2(no)))


def _quick_gain(mean: _Array, variance: _Array) -> _Array:
    """About the same as `expected_gain`, for very many pairs."""
    half = np.exp(-np.abs(mean) / np.sqrt(1 + _NORMAL * variance))
    spread = _NORMAL * variance + _ENTROPY
    expected = np.sqrt(_ENTROPY / spread) * np.exp(-_NORMAL * mean**2 / (2 * spread))
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
    """The pair whose comparison tells most; which of the two comes first is drawn by lot.

    Args:
        fit: what comparisons have told; None before the first one.
        prior_mean: what each thing is expected to have before any comparison.
        prior_spread: how far it may be off.
        rng: where lots come from.
        barred: pairs that are not wanted, the smaller number first.
        among: pairs to choose from; by default all.
        chosen: things to choose from; by default all.

    Returns:
        Two numbers, or None if no pair is left.
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
    place = best[rng.choice(np.flatnonzero(exact >= exact.max() - _LOT))]
    found = int(one[place]), int(two[place])
    return found if rng.random() < 0.5 else found[::-1]


def _codes(pairs: Collection[Pair], count: int) -> IntArray:
    """A number for each pair."""
    listed = np.array(list(pairs), dtype=np.int64)
    return listed[:, 0] * count + listed[:, 1]


def _top(gains: _Array, rng: np.random.Generator) -> IntArray:
    """Where the largest gains are, those that are about equal by lot."""
    if len(gains) <= _FEW:
        return np.arange(len(gains))
    drawn = gains + rng.random(len(gains), dtype=np.float32) * _LOT
    return np.argpartition(-drawn, _FEW)[:_FEW]


class _Known:
    """What is known of the differences of values. In float32: the choice needs no more, and it is twice as quick."""

    def __init__(self, fit: ComparisonFit | None, mean: FloatArray, spread: FloatArray) -> None:
        self._mean, self._variance = mean.astype(np.float32), (spread**2).astype(np.float32)
        self._fit = fit
        self._place = np.full(len(mean), -1)
        if fit is not None:
            self._place[fit.items] = np.arange(len(fit.items))
            self._mean[fit.items] = fit.values
            self._variance[fit.items] = np.diag(fit.covariance)

    def least(self, rng: np.random.Generator, chosen: Collection[int] | None) -> IntArray:
        """All things, or some of them; of too many, the least known and others by lot."""
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
