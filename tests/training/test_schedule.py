"""Learning rates as functions of the step."""

from dataclasses import replace

import pytest

from finegraph.training.recipes import RECIPES
from finegraph.training.schedule import rate_factor

SHORT, PAPER = RECIPES["short"], RECIPES["paper"]


def factors(recipe, per_epoch):
    return [rate_factor(recipe, step, per_epoch) for step in range(recipe.epochs * per_epoch)]


def test_one_cycle_rises_then_falls():
    rates = factors(replace(SHORT, epochs=10, warmup=0.2), 10)
    assert rates[0] == pytest.approx(1 / 25)
    assert rates[20] == 1.0
    assert rates[10] == pytest.approx((1 + 1 / 25) / 2)
    assert rates[60] == pytest.approx((1 + 1e-4) / 2)
    assert rates[:21] == sorted(rates[:21])
    assert rates[20:] == sorted(rates[20:], reverse=True)
    assert 1e-4 < rates[-1] < 1e-3


def test_one_cycle_without_warmup_starts_at_the_full_rate():
    rates = factors(replace(SHORT, epochs=3, warmup=0.0), 4)
    assert rates[0] == 1.0
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("warmup", [0.0, 0.2, 0.999])
def test_one_cycle_of_a_single_step(warmup):
    (rate,) = factors(replace(SHORT, epochs=1, warmup=warmup), 1)
    assert 0 < rate <= 1


def test_steps_fall_to_a_tenth():
    rates = factors(replace(PAPER, epochs=5, drop_every=2), 3)
    assert rates == pytest.approx([1.0] * 6 + [0.1] * 6 + [0.01] * 3)
