"""Intervals of means, and of paired differences.

    several draws    Student's t over the draws: low, high = mean -+ t sd / sqrt(draws). Differences are paired, draw by
                     draw, so that what both share cancels. It covers the chance of the draw, not that of the photos
                     that are judged, which all draws share.
    one draw         a bootstrap over the photos that are judged: means of as many photos, drawn with replacement, and
                     the middle 95 % of them. It covers the chance of these photos, not that of the draw.

    a share          Wilson's interval: if all photos are right, or all wrong, a bootstrap draws the same share again
                     and again and would be sure of it with three photos as with three thousand.

Which of them it was is part of the interval. Cost: linear in the draws; resamples x photos for the bootstrap, or
resamples alone if the photos have few different values, such as right and wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from finegraph.errors import InputError, ShapeError

LEVEL = 0.95
RESAMPLES = 2000
_FEW = 16
"""The number of different values up to which a resample draws only their counts."""
_MAX_NUMBERS = 1 << 22
"""The largest number of bootstrap values in memory at a time."""

Method = Literal["t over draws", "bootstrap over photos", "Wilson over photos"]
Verdict = Literal["better", "worse", "cannot tell"]


@dataclass(frozen=True)
class MeanInterval:
    """A mean and what it lies between.

    Attributes:
        mean: the mean.
        low: the lower end.
        high: the upper end.
        method: how the ends were found.
    """

    mean: float
    low: float
    high: float
    method: Method


def mean_interval(draws: ArrayLike, level: float = LEVEL) -> MeanInterval:
    """The interval of the mean of several draws.

    Example:
        >>> found = mean_interval([1.0, 2.0, 3.0])
        >>> f"{found.mean:.1f} {found.low:.3f} {found.high:.3f}"
        '2.0 -0.484 4.484'
    """
    values = _numbers(draws)
    if len(values) < 2:
        raise InputError(f"expected at least 2 draws, got {len(values)}; one draw says nothing of its own chance")
    half = t_quantile(0.5 + level / 2, len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    mean = float(values.mean())
    return MeanInterval(mean, mean - half, mean + half, "t over draws")


def paired_interval(draws: ArrayLike, others: ArrayLike, level: float = LEVEL) -> MeanInterval:
    """The interval of the mean difference `draws - others`, where draws at one place belong together."""
    return mean_interval(_difference(draws, others), level)


def bootstrap_interval(
    photos: ArrayLike, level: float = LEVEL, *, resamples: int = RESAMPLES, seed: int = 0
) -> MeanInterval:
    """The interval of the mean of one value per photo, such as 1 for right and 0 for wrong.

    Args:
        photos: the values.
        level: how sure.
        resamples: how many times the photos are drawn again.
        seed: the seed of random choices; the same photos give the same interval.
    """
    values = _numbers(photos)
    if not len(values):
        raise InputError("expected the values of at least one photo, got none")
    means = _resampled_means(values, resamples, np.random.default_rng(seed))
    low, high = np.quantile(means, [0.5 - level / 2, 0.5 + level / 2])
    return MeanInterval(float(values.mean()), float(low), float(high), "bootstrap over photos")


def share_interval(right: int, of: int, level: float = LEVEL) -> MeanInterval:
    """Wilson's interval of a share, which holds also if there are few photos, or all of them are right.

    Example:
        >>> found = share_interval(12, 12)
        >>> f"{found.mean:.0%} {found.low:.0%} {found.high:.0%}"
        '100% 76% 100%'
    """
    if not 0 <= right <= of or not of:
        raise InputError(f"expected from 0 to all of at least one photo, got {right} of {of}")
    reach = NormalDist().inv_cdf(0.5 + level / 2)
    share, extra = right / of, reach**2 / of
    middle = (share + extra / 2) / (1 + extra)
    half = reach * math.sqrt(share * (1 - share) / of + extra / (4 * of)) / (1 + extra)
    low, high = (0.0 if not right else middle - half), (1.0 if right == of else middle + half)
    return MeanInterval(share, low, high, "Wilson over photos")


def paired_bootstrap_interval(photos: ArrayLike, others: ArrayLike, level: float = LEVEL) -> MeanInterval:
    """The bootstrap interval of the mean difference `photos - others` of the same photos."""
    return bootstrap_interval(_difference(photos, others), level)


def verdict(difference: MeanInterval, *, more_is_better: bool = True) -> Verdict:
    """The verdict on a difference; if its interval contains 0 there is none, which does not prove equality."""
    if difference.low <= 0.0 <= difference.high:
        return "cannot tell"
    return "better" if (difference.low > 0.0) == more_is_better else "worse"


def t_quantile(probability: float, freedom: int) -> float:
    """The number below which Student's t lies with a probability, for whole degrees of freedom.

    Example:
        >>> f"{t_quantile(0.975, 4):.3f}"
        '2.776'
    """
    if not 0.0 < probability < 1.0 or freedom < 1:
        raise InputError(
            f"expected a probability inside 0 to 1 and freedom of at least 1, got {probability}, {freedom}"
        )
    if probability < 0.5:
        return -t_quantile(1.0 - probability, freedom)
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t / sqrt(freedom)
    wanted = 2.0 * probability - 1.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _share_within(middle, freedom) < wanted else (low, middle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _share_within(angle: float, freedom: int) -> float:
    """The share of Student's t between -t and t, t = sqrt(freedom) tan(angle): a finite sum of powers of the cosine."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0 if freedom == 1 else term
    for number in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (number - 1) / number
        total += term
    return 2.0 / math.pi * (angle + sine * total) if odd else sine * total


def _resampled_means(values: NDArray[np.float64], resamples: int, random: np.random.Generator) -> NDArray[np.float64]:
    """The means of the photos drawn again and again."""
    count = len(values)
    distinct, often = np.unique(values, return_counts=True)
    if len(distinct) <= _FEW:
        drawn = random.multinomial(count, often / count, size=resamples)
        few: NDArray[np.float64] = drawn @ distinct / count
        return few
    means = np.empty(resamples)
    step = max(1, _MAX_NUMBERS // count)
    for start in range(0, resamples, step):
        part = means[start : start + step]
        part[:] = values[random.integers(0, count, (len(part), count))].mean(axis=1)
    return means


def _difference(one: ArrayLike, two: ArrayLike) -> NDArray[np.float64]:
    """One minus the other, of the same length."""
    first, second = _numbers(one), _numbers(two)
    if first.shape != second.shape:
        raise ShapeError(f"expected pairs, got {len(first)} values and {len(second)}; both must be of the same draws")
    return first - second


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    """Values as a vector of finite numbers."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise ShapeError(f"expected a list of numbers, got shape {numbers.shape}")
    if not np.isfinite(numbers).all():
        raise InputError("expected finite numbers, got NaN or infinity; leave those out of both sides")
    return numbers
