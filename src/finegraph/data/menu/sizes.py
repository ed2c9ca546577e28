"""How large a menu is, and how many photos each fine label has: a few have many, most have few.

The full menu has the numbers of the paper's Food-975. Photos to validate on are cut from the training photos and
counted among them: 32,135 are `train` and `val` together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from finegraph.data.menu.chance import chance
from finegraph.data.menu.ingredients import INGREDIENTS

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Size:
    """The size of a menu.

    Attributes:
        dishes: how many dishes there are.
        shared: how many of them are served by 2, 3, ... restaurants.
        pantry: the ingredients.
        train: photos to train and to validate on, together.
        val: those of them to validate on.
        test: photos of other days.
        wild: photos of other cameras.
        offset: the larger, the more even are the counts.
    """

    dishes: int
    shared: Mapping[int, int]
    pantry: tuple[str, ...]
    train: int
    val: int
    test: int
    wild: int
    offset: float

    @property
    def fine(self) -> int:
        """How many fine labels there are."""
        return self.dishes + sum((restaurants - 1) * number for restaurants, number in self.shared.items())


_SMALL_PANTRY = (
    "chicken",
    "beef",
    "shrimp",
    "egg",
    "tofu",
    "rice",
    "noodles",
    "broccoli",
    "bok choy",
    "tomato",
    "carrot",
    "mushroom",
    "pea",
    "red pepper",
    "chilli",
    "scallion",
)
SIZES: dict[str, Size] = {
    "small": Size(35, {2: 15, 3: 5}, _SMALL_PANTRY, 1020, 120, 240, 90, 30),
    "full": Size(781, {2: 120, 3: 25, 4: 8}, tuple(one.name for one in INGREDIENTS), 32135, 3135, 4951, 351, 60),
}
"""The sizes that there are."""


def photo_counts(size: Size, seed: int) -> dict[str, Int[Counts, " fine"]]:
    """How many photos of each split each fine label has; every label has a training and a test photo at least."""
    random = chance("counts", seed)
    rank = random.permutation(size.fine)
    share = (rank + size.offset) ** -1.5 * np.exp(random.normal(0, 0.45, size.fine))
    both = apportion(size.train, share, 1)
    val = apportion(size.val, np.where(both > 3, both, 0), 0)
    test = apportion(size.test, np.sqrt(both), 1)
    wild = np.bincount(random.choice(size.fine, size.wild, p=both / both.sum()), minlength=size.fine)
    return {"train": both - val, "val": val, "test": test, "wild": wild}


def apportion(
    total: int, weights: Float[NDArray[np.floating[Any]], " item"] | Int[Counts, " item"], least: int
) -> Int[Counts, " item"]:
    """Whole numbers that sum to a total, in proportion to weights, each at least `least`."""
    rest = total - least * len(weights)
    exact = rest * weights / weights.sum()
    whole = np.floor(exact).astype(np.int64)
    short = rest - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:short]] += 1
    counts: Counts = whole + least
    return counts
