"""Sauces: their colour on the pieces, and the pool they make on the plate.

Sauce on a plate, broth in a bowl, shade under a heap and steam above it are soft layers, made once and kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image

from finegraph.data.menu.chance import chance
from finegraph.data.menu.surface import Colour, Field, noise

VARIANTS = 4
"""Different outlines of pools."""
_UNIT = 160
"""Pixels of a layer before it is brought to its size."""


@dataclass(frozen=True)
class Sauce:
    """One sauce.

    Attributes:
        name: what it is called here; dishes are named after how they are cooked.
        colour: of the pool.
        coat: how strongly it colours the pieces, 0 to 1.
        depth: how dense the pool is, 0 for none, 1 for one that cannot be seen through.
        gloss: how much light the pool throws back.
    """

    name: str
    colour: Colour
    coat: float
    depth: float
    gloss: float


SAUCES: dict[str, Sauce] = {
    sauce.name: sauce
    for sauce in (
        Sauce("dry", (196, 140, 70), 0.25, 0.0, 0.0),
        Sauce("clear", (222, 206, 160), 0.1, 0.35, 0.5),
        Sauce("soy", (96, 50, 20), 0.6, 0.75, 0.8),
        Sauce("oyster", (122, 72, 30), 0.45, 0.6, 0.7),
        Sauce("black bean", (50, 32, 24), 0.5, 0.7, 0.6),
        Sauce("sweet and sour", (206, 62, 20), 0.75, 0.8, 0.9),
        Sauce("curry", (222, 160, 40), 0.85, 0.95, 0.5),
        Sauce("chilli oil", (182, 30, 10), 0.75, 0.85, 0.9),
        Sauce("garlic", (202, 160, 96), 0.35, 0.5, 0.5),
        Sauce("pepper", (70, 44, 30), 0.55, 0.5, 0.7),
        Sauce("broth", (214, 178, 110), 0.2, 0.85, 0.6),
        Sauce("red broth", (196, 66, 24), 0.5, 0.9, 0.8),
        Sauce("herb", (110, 130, 50), 0.5, 0.6, 0.5),
    )
}


def _radius(variant: int, rough: float) -> Field:
    """How far each point of a square is from the middle, with a wavy outline; 1 near the edge."""
    line = ((np.arange(_UNIT) + 0.5) / _UNIT * 2 - 1).astype(np.float32)
    wavy = 1 + rough * noise(chance("pool", variant), _UNIT, 4)
    radius: Field = np.hypot(line[None, :], line[:, None]) / wavy * 1.04
    return radius


def _picture(colour: Field, alpha: Field) -> Image.Image:
    made = np.empty((_UNIT, _UNIT, 4), dtype=np.uint8)
    made[..., :3] = np.clip(colour, 0, 255)
    made[..., 3] = np.clip(alpha * 255, 0, 255)
    return Image.fromarray(made)


@lru_cache(maxsize=300)
def pool(sauce: str, wide: int, high: int, variant: int, full: bool, thin: float = 1.0) -> Image.Image:
    """A pool of sauce; `full` fills a bowl up to its wall, `thin` lets more of what is beneath show."""
    whole = _pool(sauce, variant, full).resize((wide, high), Image.Resampling.BILINEAR)
    if thin < 1:
        whole.putalpha(whole.getchannel("A").point([round(level * thin) for level in range(256)]))
    return whole


@lru_cache(maxsize=120)
def _pool(sauce: str, variant: int, full: bool) -> Image.Image:
    """A pool of sauce as a square."""
    one = SAUCES[sauce]
    random = chance("pool colour", sauce, variant)
    radius = _radius(variant, 0.0 if full else 0.2)
    body = np.clip((1 - radius) * (40 if full else 14), 0, 1)
    tone = 0.94 + 0.12 * noise(random, _UNIT, 6) - 0.12 * np.clip(radius, 0, 1) ** 4
    colour: Field = np.asarray(one.colour, dtype=np.float32) * tone[..., None]
    ripple = noise(random, _UNIT, 7) + 0.5 * noise(random, _UNIT, 14)
    shine = np.clip(ripple * 2.2 - 1.9, 0, 1) * one.gloss
    colour = colour + (150 * shine)[..., None]
    edge = np.exp(-(((radius - 0.95) / 0.04) ** 2)) * one.gloss
    colour = colour + (35 * edge)[..., None]
    if "chilli" in sauce or sauce == "red broth":
        drops = np.clip(noise(random, _UNIT, 24) * 4 - 2.2, 0, 1)
        colour = colour + drops[..., None] * np.array([50, 30, 5], dtype=np.float32)
    return _picture(colour, body * one.depth)


@lru_cache(maxsize=200)
def shade_mask(wide: int, high: int, strength: int) -> Image.Image:
    """A soft dark spot, as a mask."""
    line = ((np.arange(_UNIT) + 0.5) / _UNIT * 2 - 1).astype(np.float32)
    radius = np.hypot(line[None, :], line[:, None])
    mask = np.clip((1 - radius) * 2.2, 0, 1) * strength
    return Image.fromarray(mask.astype(np.uint8)).resize((wide, high), Image.Resampling.BILINEAR)


@lru_cache(maxsize=8)
def steam(variant: int) -> Image.Image:
    """Wisps of steam, as a mask of 320 pixels."""
    random = chance("steam", variant)
    side = 320
    wisps = noise(random, side, 3) * 0.7 + noise(random, side, 6) * 0.4
    line = ((np.arange(side) + 0.5) / side * 2 - 1).astype(np.float32)
    fade = np.clip(1.15 - np.hypot(line[None, :] * 1.2, line[:, None]), 0, 1)
    return Image.fromarray((np.clip(wisps + 0.15, 0, 1) * fade * 150).astype(np.uint8))
