"""Table tops: wood, cloth, marble, bamboo, slate and lacquer, as large pictures that photos take a part of."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image

from finegraph.data.menu.chance import chance
from finegraph.data.menu.surface import Colour, Field, noise

SIDE = 640
"""Pixels of a table top; photos show a part of 384."""


def _stretched(random: np.random.Generator, across: int, along: int) -> Field:
    """Smooth chance with other numbers of hills across and along."""
    coarse = random.integers(0, 256, (across, along), dtype=np.uint8)
    picture = Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return np.asarray(picture, dtype=np.float32) / 127.5 - 1


def _between(light: Colour, dark: Colour, share: Field) -> Field:
    low, high = np.asarray(dark, dtype=np.float32), np.asarray(light, dtype=np.float32)
    return low + (high - low) * np.clip(share, 0, 1)[..., None]


def _wood(random: np.random.Generator, light: Colour, dark: Colour) -> Field:
    """Planks with a grain."""
    y = np.arange(SIDE)
    plank = y // 118
    tone = random.uniform(-0.16, 0.16, 8)[plank][:, None]
    warp = _stretched(random, 14, 4) * 0.5
    grain = 0.5 + 0.24 * np.sin((y[:, None] * 0.22 + warp * 22) + plank[:, None] * 3)
    grain = grain + 0.2 * _stretched(random, 300, 5) + 0.1 * _stretched(random, 120, 9) + tone
    colour = _between(light, dark, grain.astype(np.float32))
    colour[(y % 118) < 2] *= 0.5
    return colour


def _cloth(random: np.random.Generator, light: Colour, dark: Colour) -> Field:
    """A woven cloth with checks and soft folds."""
    x = np.arange(SIDE)
    band = ((x // 52) % 2).astype(np.float32)
    check = 1 - (band[None, :] + band[:, None]) * 0.5
    weave = (np.sin(x[None, :] * 2.1) * np.sin(x[:, None] * 2.1)).astype(np.float32)
    fold = noise(random, SIDE, 5) * 0.06
    cloth: Field = _between(light, dark, check) * (0.96 + 0.05 * weave + fold)[..., None]
    return cloth


def _linen(random: np.random.Generator, light: Colour, dark: Colour) -> Field:
    """A plain cloth with threads and folds."""
    threads = _stretched(random, 320, 12) * 0.5 + _stretched(random, 12, 320) * 0.5
    return _between(light, dark, 0.72 + 0.2 * threads) * (1 + 0.09 * noise(random, SIDE, 4))[..., None]


def _marble(random: np.random.Generator, light: Colour, dark: Colour) -> Field:
    """Stone with veins."""
    warp = noise(random, SIDE, 5) * 2.2 + noise(random, SIDE, 12) * 0.8 + noise(random, SIDE, 30) * 0.3
    line = np.linspace(0, 9, SIDE, dtype=np.float32)
    veins = np.abs(np.sin(line[None, :] * 0.8 + line[:, None] * 0.5 + warp))
    return _between(light, dark, 0.4 + 0.6 * np.clip(veins * 3.2, 0, 1) + 0.1 * noise(random, SIDE, 20))


def _bamboo(random: np.random.Generator, light: Colour, dark: Colour) -> Field:
    """A mat of thin sticks held by threads."""
    y = np.arange(SIDE)
    stick = np.sin((y % 11) / 11 * np.pi) ** 0.6
    tone = random.uniform(-0.16, 0.16, SIDE // 11 + 1)[y // 11]
    share = (0.2 + 0.7 * stick + tone)[:, None] + 0.12 * _stretched(random, 60, 8)
    colour = _between(light, dark, share.astype(np.float32))
    colour[:, (y % 150) < 4] *= 0.7
    return colour


def _slate(random: np.random.Generator, light: Colour, dark: Colour) -> Field:
    """Dark stone with a fine grain."""
    grain = 0.45 + 0.22 * noise(random, SIDE, 9) + 0.2 * noise(random, SIDE, 50)
    return _between(light, dark, grain) + random.normal(0, 5, (SIDE, SIDE, 1)).astype(np.float32)


TABLES: dict[str, tuple[Callable[[np.random.Generator, Colour, Colour], Field], Colour, Colour]] = {
    "oak": (_wood, (206, 158, 104), (132, 86, 46)),
    "walnut": (_wood, (140, 92, 60), (78, 48, 32)),
    "checked cloth": (_cloth, (240, 234, 224), (176, 40, 40)),
    "linen": (_linen, (232, 224, 206), (190, 178, 156)),
    "marble": (_marble, (240, 238, 234), (150, 148, 152)),
    "bamboo mat": (_bamboo, (214, 186, 124), (120, 92, 48)),
    "slate": (_slate, (128, 130, 136), (74, 76, 84)),
    "red lacquer": (_wood, (150, 62, 46), (96, 32, 28)),
    "green cloth": (_linen, (112, 146, 122), (66, 96, 80)),
    "blue tiles": (_cloth, (214, 224, 230), (110, 140, 166)),
}
"""Each table top: what draws it, its light and its dark colour."""


@cache
def table(name: str) -> Image.Image:
    """A table top."""
    draw, light, dark = TABLES[name]
    return Image.fromarray(np.clip(draw(chance("table", name), light, dark), 0, 255).astype(np.uint8))
