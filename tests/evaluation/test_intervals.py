"""Intervals against slow obvious versions: integration of the density, and drawing photos again one by one."""

import math
import random

import numpy as np
import pytest

from finegraph.errors import InputError, ShapeError
from finegraph.evaluation.intervals import (
    MeanInterval,
    bootstrap_interval,
    mean_interval,
    paired_bootstrap_interval,
    paired_interval,
    share_interval,
    t_quantile,
    verdict,
)


def slow_t_share(t, freedom, steps=4000):
    """The probability that Student's t lies between 0 and t, by adding up its density."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    places = (np.arange(steps) + 0.5) * t / steps
    return float((scale * (1 + places**2 / freedom) ** (-(freedom + 1) / 2)).sum() * t / steps)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 10, 29, 100])
@pytest.mark.parametrize("probability", [0.6, 0.9, 0.975, 0.995])
def test_t_quantiles_leave_the_right_share_below(freedom, probability):
    assert slow_t_share(t_quantile(probability, freedom), freedom) == pytest.approx(probability - 0.5, abs=1e-5)
    assert t_quantile(1 - probability, freedom) == pytest.approx(-t_quantile(probability, freedom))


def test_t_quantiles_of_the_tables():
    known = {1: 12.706, 2: 4.303, 4: 2.776, 9: 2.262, 29: 2.045}
    assert {freedom: round(t_quantile(0.975, freedom), 3) for freedom in known} == known


def test_the_interval_of_a_mean():
    draws = [0.61, 0.64, 0.66, 0.60, 0.63]
    mean = sum(draws) / 5
    sd = math.sqrt(sum((one - mean) ** 2 for one in draws) / 4)
    found = mean_interval(draws)
    assert found.mean == pytest.approx(mean)
    assert found.high - found.mean == pytest.approx(2.7764451 * sd / math.sqrt(5))
    assert found.mean - found.low == pytest.approx(found.high - found.mean)
    assert found.method == "t over draws"


def test_what_both_share_cancels_in_pairs():
    luck = np.random.default_rng(0).normal(0, 0.1, 6)
    one, two = 0.6 + luck + [0.011, 0.009, 0.012, 0.008, 0.011, 0.009], 0.6 + luck
    paired = paired_interval(one, two)
    assert paired.low > 0
    assert verdict(paired) == "better"
    apart = [mean_interval(one), mean_interval(two)]
    assert apart[0].low < apart[1].high  # which would have said nothing
    slow = mean_interval([a - b for a, b in zip(one, two, strict=True)])
    assert (paired.low, paired.high) == pytest.approx((slow.low, slow.high))


def slow_bootstrap(values, resamples=4000):
    """Means of photos that are drawn again one by one."""
    chance = random.Random(1)
    means = sorted(sum(chance.choice(values) for _ in values) / len(values) for _ in range(resamples))
    return means[round(0.025 * resamples)], means[round(0.975 * resamples)]


@pytest.mark.parametrize(
    "values",
    [
        [1.0] * 30 + [0.0] * 10,
        [1.0] * 8 + [0.0] * 40 + [-1.0] * 4,
        list(np.random.default_rng(2).exponential(2.0, 50)),
    ],
    ids=["right and wrong", "differences", "numbers"],
)
def test_the_bootstrap_is_that_of_drawing_photos_again(values):
    found = bootstrap_interval(values, resamples=4000)
    low, high = slow_bootstrap(values)
    width = high - low
    assert found.low == pytest.approx(low, abs=max(0.08 * width, 1.01 / len(values)))
    assert found.high == pytest.approx(high, abs=max(0.08 * width, 1.01 / len(values)))
    assert found.mean == pytest.approx(sum(values) / len(values))
    assert found.method == "bootstrap over photos"
    assert bootstrap_interval(values) == bootstrap_interval(values)


def test_the_same_answers_differ_in_nothing():
    right = [1.0, 0.0, 1.0, 1.0]
    assert paired_bootstrap_interval(right, right) == MeanInterval(0.0, 0.0, 0.0, "bootstrap over photos")


@pytest.mark.parametrize(
    ("low", "high", "more", "less"),
    [(0.1, 0.3, "better", "worse"), (-0.3, -0.1, "worse", "better"), (-0.1, 0.1, "cannot tell", "cannot tell"),
     (0.0, 0.2, "cannot tell", "cannot tell")],
)  # fmt: skip
def test_a_difference_counts_where_its_interval_leaves_0_out(low, high, more, less):
    found = MeanInterval((low + high) / 2, low, high, "t over draws")
    assert verdict(found) == more
    assert verdict(found, more_is_better=False) == less


def test_what_is_refused():
    with pytest.raises(InputError, match=r"expected at least 2 draws, got 1"):
        mean_interval([0.5])
    with pytest.raises(ShapeError, match=r"expected pairs, got 2 values and 3"):
        paired_interval([1, 2], [1, 2, 3])
    with pytest.raises(InputError, match="finite numbers, got NaN"):
        bootstrap_interval([0.0, math.nan])
    with pytest.raises(InputError, match="at least one photo, got none"):
        bootstrap_interval([])
    with pytest.raises(InputError, match="a probability inside 0 to 1"):
        t_quantile(1.0, 3)


@pytest.mark.parametrize(("right", "of"), [(0, 7), (1, 2), (12, 12), (30, 100)])
def test_the_interval_of_a_share_is_where_its_own_chance_reaches(right, of):
    """Each end is a share from which the found one is just 1.96 standard deviations away."""
    found = share_interval(right, of)
    for end in (found.low, found.high):
        if 0.0 < end < 1.0:
            deviations = abs(right / of - end) / math.sqrt(end * (1 - end) / of)
            assert deviations == pytest.approx(1.959964, abs=1e-6)
    assert found.low <= right / of <= found.high


@pytest.mark.parametrize(("right", "of"), [(0, 0), (3, 2), (-1, 2)])
def test_no_share(right, of):
    with pytest.raises(InputError, match="expected from 0 to all of at least one photo"):
        share_interval(right, of)
