"""The 51 ingredients: how each looks, how large its pieces are, how many there are, and how it lies in a dish.

Pictures of pieces are made once and kept. Each ingredient has a sheet of pieces for each size of cut, all shaped and
turned by chance, and from it one for each sauce. The chance depends on the names alone, so a sheet is the same whenever
it is made. Sheets that were not used for long are dropped. Cost: about 40 ms for a sheet, 2 ms for the same in another
sauce.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from PIL import Image

from finegraph.data.menu import looks_meat as meat
from finegraph.data.menu import looks_staple as staple
from finegraph.data.menu import looks_vegetable as vegetable
from finegraph.data.menu.chance import chance
from finegraph.data.menu.sauces import SAUCES
from finegraph.data.menu.surface import Canvas, Colour, Surface, shade

Role = Literal["main", "staple", "vegetable", "accent"]
PIECES = 10
"""Different pieces on a sheet."""
CUTS = {"small": 0.84, "usual": 1.0, "large": 1.18}
"""How large pieces are cut."""


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
    Ingredient("shrimp", "main", meat.shrimp, 60, 15, 0.25),
    Ingredient("crab", "main", meat.crab, 96, 9, 0.15),
    Ingredient("squid", "main", meat.squid, 46, 22, 0.3),
    Ingredient("fish", "main", meat.fish, 86, 9, 0.35),
    Ingredient("scallop", "main", meat.scallop, 48, 13, 0.25),
    Ingredient("clam", "main", meat.clam, 56, 16, 0.12),
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


@lru_cache(maxsize=160)
def _plain(ingredient: str, cut: str) -> tuple[Image.Image, ...]:
    """The pieces of an ingredient without sauce."""
    one = BY_NAME[ingredient]
    size = max(8, round(one.size * CUTS[cut]))
    made = []
    for number in range(PIECES):
        random = chance("piece", ingredient, cut, number)
        angle = (number + random.uniform(0, 1)) * 2 * np.pi / PIECES
        made.append(shade(one.look(Canvas(size, angle, random))))
    return tuple(made)


@lru_cache(maxsize=400)
def sheet(ingredient: str, sauce: str, cut: str) -> tuple[Image.Image, ...]:
    """The pieces of an ingredient in a sauce."""
    share = min(SAUCES[sauce].coat * BY_NAME[ingredient].coat * 1.5, 0.85)
    return tuple(_coated(piece, SAUCES[sauce].colour, share) for piece in _plain(ingredient, cut))


def _coated(piece: Image.Image, sauce: Colour, share: float) -> Image.Image:
    """A piece with sauce on it: light and shade stay, its colour moves to that of the sauce."""
    pixels = np.asarray(piece, dtype=np.float32)
    colour, cover = pixels[..., :3], pixels[..., 3:]
    bright = colour.mean(axis=2, keepdims=True)
    usual = float((bright * cover).sum() / max(float(cover.sum()), 1.0))
    tint = np.asarray(sauce, dtype=np.float32)
    stained = colour * (0.35 + 0.65 * tint / 255) * 0.55 + tint * np.clip(bright / max(usual, 1.0), 0, 1.8) * 0.5
    mixed = np.concatenate([colour + (stained - colour) * share, cover], axis=2)
    return Image.fromarray(np.clip(mixed, 0, 255).astype(np.uint8))
