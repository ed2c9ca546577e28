"""Pictures of pieces, made once and kept.

Each ingredient has a sheet of pieces for each size of cut, all shaped and turned by chance, and from it one for each
sauce. The chance depends on the names alone, so a sheet is the same whenever it is made. Sheets that were not used for
long are dropped. Cost: about 40 ms for a sheet, 2 ms for the same in another sauce.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from PIL import Image

from finegraph.data.menu.chance import chance
from finegraph.data.menu.ingredients import BY_NAME
from finegraph.data.menu.sauces import SAUCES
from finegraph.data.menu.surface import Canvas, Colour, shade

PIECES = 10
"""Different pieces on a sheet."""
CUTS = {"small": 0.84, "usual": 1.0, "large": 1.18}
"""How large pieces are cut."""


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
