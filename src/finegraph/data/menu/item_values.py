"""What an item weighs, costs, and how hot it is: numbers and an order to learn beside the labels.

All three follow from what is drawn. The weight is that of the pieces on the plate, so one can see it; a cook's hand
differs from day to day, so it has a spread. Heat comes from the chillies that lie in the dish and from chilli oil. The
price depends on what is in the dish, how much of it, and the restaurant; it can be guessed, not seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from finegraph.data.menu.chance import chance
from finegraph.data.menu.dishes import AMOUNT_NOISE, SIZE_NOISE, MenuItem
from finegraph.data.menu.ingredients import BY_NAME
from finegraph.data.menu.plating import PIECES_PER_COUNT, Portion
from finegraph.data.menu.scene import Serving

HEATS = ("mild", "medium", "hot")
"""How hot a dish can be, in rising order."""
_GRAMS = 0.012
"""What a piece weighs is this times its size in pixels to the power of 1.5; a usual plate then has some 300 grams."""
_COSTS: Mapping[str, float] = {
    "main": 2.2,
    "staple": 0.5,
    "vegetable": 0.8,
    "accent": 1.0,
    "beef": 3.2,
    "lamb": 3.4,
    "duck": 3.0,
    "ribs": 2.6,
    "shrimp": 3.8,
    "crab": 5.0,
    "scallop": 4.6,
    "fish": 3.4,
    "squid": 3.0,
    "egg": 0.9,
    "tofu": 0.9,
    "tofu puff": 1.0,
}
"""What 100 grams cost, by ingredient, else by its role."""


@dataclass(frozen=True)
class Weight:
    """The food on a plate, in grams: the median over days, and how much it differs from day to day.

    As on every log scale, the spread is that of the logarithm times the value; the mean is a little above the median.
    """

    grams: float
    spread: float


def weight_of(item: MenuItem) -> Weight:
    """What an item weighs on a usual day."""
    usual = np.array([_grams(item.serving, portion) for portion in item.serving.portions])
    # Amounts are multiplied by log-normal noise for each ingredient, sizes by even noise for the whole plate.
    grams = float(usual.sum()) * math.exp(AMOUNT_NOISE**2 / 2)
    shares = usual / usual.sum()
    amount_variance = math.expm1(AMOUNT_NOISE**2) * float((shares**2).sum())
    size_variance = SIZE_NOISE**2 / 3
    # The log-normal distribution with this mean and variance.
    ratio = (1 + amount_variance) * (1 + size_variance)
    median = grams / math.sqrt(ratio)
    return Weight(median, median * math.sqrt(math.log(ratio)))


def served_grams(serving: Serving, eaten: float = 0.0) -> float:
    """What one serving weighs, less the part that is eaten already."""
    return (1 - eaten) * sum(_grams(serving, portion) for portion in serving.portions)


def heat_of(item: MenuItem) -> str:
    """How hot an item is: by the chillies in it and by its usual sauce."""
    chilli = "chilli" in item.ingredients
    oil = item.serving.sauce == "chilli oil"
    return HEATS[int(chilli) + int(oil)]


def price_of(item: MenuItem, seed: int) -> float:
    """What an item costs, in steps of ten cents."""
    material = sum(_grams(item.serving, portion) / 100 * _cost(portion.ingredient) for portion in item.serving.portions)
    restaurant = item.serving.restaurant
    noise = chance("price", seed, item.label).normal(0, 0.04)
    return round(restaurant.price_level * (3.5 + material) * math.exp(noise), 1)


def _grams(serving: Serving, portion: Portion) -> float:
    """What the pieces of one ingredient weigh."""
    one = BY_NAME[portion.ingredient]
    pieces = one.count * portion.amount * serving.restaurant.portion * serving.size * PIECES_PER_COUNT
    return _GRAMS * pieces * float(one.size**1.5)


def _cost(ingredient: str) -> float:
    return _COSTS.get(ingredient, _COSTS[BY_NAME[ingredient].role])
