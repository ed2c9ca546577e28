"""The 51 ingredients: how each looks, how large its pieces are, how many there are, and how it lies in a dish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from finegraph.data.menu import looks_meat as meat
from finegraph.data.menu import looks_seafood as seafood
from finegraph.data.menu import looks_staple as staple
from finegraph.data.menu import looks_vegetable as vegetable
from finegraph.data.menu.surface import Canvas, Surface

Role = Literal["main", "staple", "vegetable", "accent"]


@dataclass(frozen=True)
class Ingredient:
    """One ingredient.

    Attributes:
        name: as it stands in the graph.
        role: what part it plays in a dish.
        look: what draws a piece of it.
        size: the side of the picture of a piece, in pixels on a plate of radius 120.
        count: how many pieces a usual portion has, where it is the main thing on the plate.
        coat: how much of the colour of the sauce it takes, 0 to 1.
    """

    name: str
    role: Role
    look: Callable[[Canvas], Surface]
    size: int
    count: int
    coat: float

    @property
    def spreads(self) -> bool:
        """Whether it covers the plate, so that other things lie on it."""
        return self.name in ("rice", "noodles", "glass noodles")


INGREDIENTS: tuple[Ingredient, ...] = (
    Ingredient("chicken", "main", meat.chicken, 46, 26, 0.45),
    Ingredient("beef", "main", meat.beef, 54, 24, 0.3),
    Ingredient("pork", "main", meat.pork, 54, 26, 0.45),
    Ingredient("pork belly", "main", meat.pork_belly, 58, 16, 0.3),
    Ingredient("ribs", "main", meat.ribs, 84, 12, 0.3),
    Ingredient("lamb", "main", meat.lamb, 44, 24, 0.25),
    Ingredient("duck", "main", meat.duck, 66, 16, 0.2),
    Ingredient("meatball", "main", meat.meatball, 54, 13, 0.4),
    Ingredient("sausage", "main", meat.sausage, 40, 22, 0.15),
    Ingredient("shrimp", "main", seafood.shrimp, 60, 15, 0.25),
    Ingredient("crab", "main", seafood.crab, 96, 9, 0.15),
    Ingredient("squid", "main", seafood.squid, 46, 22, 0.3),
    Ingredient("fish", "main", seafood.fish, 86, 9, 0.35),
    Ingredient("scallop", "main", seafood.scallop, 48, 13, 0.25),
    Ingredient("clam", "main", seafood.clam, 56, 16, 0.12),
    Ingredient("egg", "main", meat.egg, 56, 7, 0.12),
    Ingredient("tofu", "main", meat.tofu, 42, 22, 0.5),
    Ingredient("tofu puff", "main", meat.tofu_puff, 44, 20, 0.3),
    Ingredient("rice", "staple", staple.rice, 58, 40, 0.22),
    Ingredient("noodles", "staple", staple.noodles, 104, 24, 0.5),
    Ingredient("glass noodles", "staple", staple.glass_noodles, 104, 22, 0.5),
    Ingredient("rice cake", "staple", staple.rice_cake, 44, 26, 0.4),
    Ingredient("dumpling", "staple", staple.dumpling, 66, 10, 0.12),
    Ingredient("bun", "staple", staple.bun, 84, 6, 0.06),
    Ingredient("potato", "vegetable", staple.potato, 44, 24, 0.3),
    Ingredient("carrot", "vegetable", vegetable.carrot, 32, 20, 0.15),
    Ingredient("pea", "accent", vegetable.pea, 14, 44, 0.12),
    Ingredient("corn", "accent", staple.corn, 28, 30, 0.12),
    Ingredient("green bean", "vegetable", vegetable.green_bean, 74, 24, 0.18),
    Ingredient("broccoli", "vegetable", vegetable.broccoli, 54, 15, 0.12),
    Ingredient("cauliflower", "vegetable", vegetable.cauliflower, 54, 15, 0.3),
    Ingredient("bok choy", "vegetable", vegetable.bok_choy, 94, 12, 0.12),
    Ingredient("spinach", "vegetable", vegetable.spinach, 62, 26, 0.12),
    Ingredient("cabbage", "vegetable", vegetable.cabbage, 50, 24, 0.25),
    Ingredient("eggplant", "vegetable", vegetable.eggplant, 62, 20, 0.25),
    Ingredient("tomato", "vegetable", vegetable.tomato, 48, 15, 0.1),
    Ingredient("cucumber", "vegetable", vegetable.cucumber, 36, 22, 0.12),
    Ingredient("red pepper", "accent", vegetable.red_pepper, 34, 18, 0.1),
    Ingredient("green pepper", "accent", vegetable.green_pepper, 34, 20, 0.12),
    Ingredient("chilli", "accent", vegetable.chilli, 42, 24, 0.05),
    Ingredient("onion", "accent", vegetable.onion, 46, 24, 0.3),
    Ingredient("scallion", "accent", vegetable.scallion, 15, 46, 0.05),
    Ingredient("garlic", "accent", vegetable.garlic, 18, 36, 0.25),
    Ingredient("ginger", "accent", vegetable.ginger, 40, 16, 0.2),
    Ingredient("lotus root", "vegetable", vegetable.lotus_root, 50, 15, 0.2),
    Ingredient("bamboo shoot", "vegetable", vegetable.bamboo_shoot, 48, 20, 0.35),
    Ingredient("mushroom", "vegetable", vegetable.mushroom, 44, 18, 0.2),
    Ingredient("wood ear", "vegetable", vegetable.wood_ear, 46, 22, 0.05),
    Ingredient("bean sprout", "vegetable", vegetable.bean_sprout, 72, 26, 0.2),
    Ingredient("peanut", "accent", staple.peanut, 22, 28, 0.2),
    Ingredient("pineapple", "accent", vegetable.pineapple, 40, 16, 0.15),
)
"""All of them; their order is the order of the kinds of the graph."""

BY_NAME: dict[str, Ingredient] = {one.name: one for one in INGREDIENTS}
