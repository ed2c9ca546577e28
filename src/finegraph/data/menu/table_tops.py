"""Table tops and what else lies on a table.

Wood, cloth, marble, bamboo, slate and lacquer are large pictures that photos take a part of. On them lie chopsticks, a
cup of tea, a napkin, a spoon, a small dish; and garnish is strewn on food.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
from PIL import Image

from finegraph.data.menu.chance import chance
from finegraph.data.menu.shapes import Heap, arc, slab, stack, tube
from finegraph.data.menu.surface import Canvas, Colour, Field, Surface, mix, noise, shade

SIDE = 640
"""Pixels of a table top; photos show a part of 384."""
THINGS = ("chopsticks", "cup", "napkin", "spoon", "dish")
_TURNS = 6
"""In how many ways a thing may be turned."""


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


def _chopsticks(canvas: Canvas) -> Surface:
    colours: tuple[Colour, ...] = ((120, 60, 34), (44, 36, 34), (206, 168, 110), (168, 36, 2))
    colour = colours[int(canvas.random.integers(4))]
    made = None
    for side in (-1, 1):
        path = arc(0.0, 1.84, 2) + np.array([0, side * canvas.random.uniform(0.04, 0.1)], dtype=np.float32)
        height, cover, along = tube(canvas, path.astype(np.float32), np.linspace(0.032, 0.02, 2))
        one = (height, cover, mix(canvas.paint(colour), (222, 190, 120), np.clip((0.12 - along) * 40, 0, 1)))
        made = one if made is None else stack(made, one)
    assert made is not None
    return Surface(*made, 0.6)


def _cup(canvas: Canvas) -> Surface:
    radius = np.hypot(canvas.u, canvas.v)
    tea = np.clip((0.62 - radius) * 40, 0, 1)
    colours: tuple[Colour, ...] = ((244, 242, 236), (90, 110, 120), (196, 214, 196), (60, 52, 50))
    glaze = canvas.paint(colours[int(canvas.random.integers(4))])
    drinks: tuple[Colour, ...] = ((176, 120, 40), (120, 140, 50), (96, 48, 10))
    drink = mix(
        canvas.paint(drinks[int(canvas.random.integers(3))]), (255, 240, 200), np.clip(canvas.noise(3) - 0.5, 0, 1)
    )
    height = np.where(radius < 0.62, 0.0, 0.2 - np.abs(radius - 0.74) * 1.3)
    return Surface(height.astype(np.float32), canvas.soft(radius - 0.86), mix(glaze, drink, tea), 0.6, 0.1)


def _napkin(canvas: Canvas) -> Surface:
    height, cover = slab(canvas, 0.5, 0.86, 0.03, 0.02, 0.03)
    fold = np.exp(-(((canvas.v - 0.1) / 0.03) ** 2))
    colours: tuple[Colour, ...] = ((246, 244, 240), (170, 40, 44), (210, 196, 168), (64, 88, 110))
    colour = canvas.paint(colours[int(canvas.random.integers(4))]) * (1 + 0.04 * canvas.noise(5))[..., None]
    return Surface(height + 0.02 * canvas.noise(4) - 0.02 * fold, cover, colour, 0.05, 0.03)


def _spoon(canvas: Canvas) -> Surface:
    stem_h, stem_c, _ = tube(canvas, arc(0.3, 1.2) + np.array([0.3, 0], dtype=np.float32), np.linspace(0.06, 0.08, 10))
    radius = np.sqrt(((canvas.u + 0.5) / 0.4) ** 2 + (canvas.v / 0.24) ** 2)
    bowl = (0.25 * np.minimum(radius, 1) ** 2, canvas.soft((radius - 1) * 0.24), canvas.paint((240, 240, 240)))
    return Surface(*stack((stem_h, stem_c, canvas.paint((240, 240, 240))), bowl), 0.9)


def _dish(canvas: Canvas) -> Surface:
    radius = np.hypot(canvas.u, canvas.v)
    sauce = np.clip((0.6 - radius) * 40, 0, 1)
    fillings: tuple[Colour, ...] = ((52, 26, 14), (160, 36, 16), (206, 170, 90))
    filling = fillings[int(canvas.random.integers(3))]
    height = np.where(radius < 0.6, 0.0, (radius - 0.6) * 0.6)
    return Surface(
        height.astype(np.float32),
        canvas.soft(radius - 0.85),
        mix(canvas.paint((246, 246, 244)), filling, sauce),
        0.7,
        0.08,
    )


_LOOKS = {
    "chopsticks": (_chopsticks, 250),
    "cup": (_cup, 104),
    "napkin": (_napkin, 170),
    "spoon": (_spoon, 130),
    "dish": (_dish, 84),
}


@lru_cache(maxsize=64)
def thing(name: str, variant: int) -> Image.Image:
    """Something on the table, turned in one of a few ways."""
    look, size = _LOOKS[name]
    random = chance("clutter", name, variant)
    return shade(look(Canvas(size, random.uniform(0, 2 * np.pi), random)))


def draw_variant(random: np.random.Generator) -> int:
    """Which of the ways something is turned."""
    return int(random.integers(_TURNS))


def _coriander(canvas: Canvas) -> Surface:
    heap = Heap(canvas)
    stem = arc(canvas.random.uniform(-0.8, 0.8), 1.3, 8)
    heap.strand(stem, 0.035, (110, 160, 70), 0.1)
    for index in (3, 5, 6, 7):
        x, y = stem[index] + canvas.random.uniform(-0.22, 0.22, 2)
        heap.grain(float(x), float(y), 0.24, 0.15, canvas.random.uniform(0, np.pi), (52, 118, 40), 0.3 + index / 12)
    return heap.surface(1.0, 0.3, 0.2)


def _sesame(canvas: Canvas) -> Surface:
    heap = Heap(canvas)
    for _ in range(6):
        x, y = canvas.random.uniform(-0.75, 0.75, 2)
        heap.grain(float(x), float(y), 0.1, 0.06, canvas.random.uniform(0, np.pi), (248, 234, 196), 0.4)
    return heap.surface(0.6, 0.2, 0.3)


_GARNISHES = {"coriander": (_coriander, 34, 7), "sesame": (_sesame, 40, 14)}


@lru_cache(maxsize=8)
def garnish(name: str) -> tuple[tuple[Image.Image, ...], int]:
    """Pieces of something strewn on top, and how many a dish gets."""
    look, size, count = _GARNISHES[name]
    randoms = [chance("garnish", name, number) for number in range(6)]
    return tuple(shade(look(Canvas(size, random.uniform(0, 6.28), random))) for random in randoms), count
