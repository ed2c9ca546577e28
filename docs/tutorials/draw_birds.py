"""Drawn birds for the tutorial: twelve invented species, with a table of their traits. No photo of it is real.

    from draw_birds import SPECIES, draw, write_photos, write_table

A bird is a few ellipses and polygons whose colours and sizes follow from its row of the table. Pose, light,
background and blur differ from photo to photo. Drawing one takes some hundredths of a second.
"""

from __future__ import annotations

import csv
import random
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

COLOURS = {
    "red": (186, 44, 38),
    "yellow": (226, 186, 50),
    "blue": (52, 92, 168),
    "green": (84, 128, 62),
    "brown": (122, 84, 52),
    "black": (38, 38, 42),
    "white": (236, 234, 226),
    "grey": (142, 146, 152),
}
KINDS = ("family", "crown", "wing", "belly", "bill")
SPECIES = {
    # name: family, colour of the crown, of the wings, of the belly, form of the bill, length in centimetres
    "amber finch": ("finches", "yellow", "brown", "yellow", "short", 13),
    "ember finch": ("finches", "red", "brown", "white", "short", 14),
    "moss finch": ("finches", "green", "green", "yellow", "short", 12),
    "ink finch": ("finches", "black", "grey", "white", "short", 15),
    "reed heron": ("herons", "brown", "brown", "white", "long", 70),
    "slate heron": ("herons", "black", "grey", "white", "long", 90),
    "snow heron": ("herons", "white", "white", "white", "long", 60),
    "night heron": ("herons", "black", "blue", "grey", "long", 62),
    "rust hawk": ("hawks", "red", "brown", "brown", "hooked", 50),
    "steel hawk": ("hawks", "grey", "blue", "white", "hooked", 45),
    "coal hawk": ("hawks", "black", "black", "grey", "hooked", 55),
    "gold hawk": ("hawks", "yellow", "brown", "white", "hooked", 58),
}
"""The species and their traits."""


def write_table(path: str | Path, species: list[str] | None = None) -> None:
    """Write the table of traits as a graph file: a row per species, a column per trait."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["fine", *KINDS, "length [log number, cm]"])
        for name in species or SPECIES:
            table.writerow([name, *SPECIES[name]])


def write_photos(folder: str | Path, photos: int, species: list[str] | None = None, first: int = 0) -> None:
    """Write a folder per species with some photos of each."""
    for name in species or SPECIES:
        (Path(folder) / name).mkdir(parents=True, exist_ok=True)
        for number in range(first, first + photos):
            draw(name, number).save(Path(folder) / name / f"{number}.jpg", quality=90)


def draw(name: str, number: int, size: int = 256) -> Image.Image:
    """One photo of a species; the same number gives the same photo."""
    chance = random.Random(f"{name} {number}")
    family, crown, wing, belly, bill, _ = SPECIES[name]
    scale, legs, neck = {"finches": (0.95, 18, 0), "herons": (0.8, 62, 52), "hawks": (1.05, 20, 4)}[family]
    image = _background(chance, size)
    bird = Image.new("RGBA", (size, size))
    pen = ImageDraw.Draw(bird)
    x, y = 128, 132 + (10 if neck else 0)

    def paint(colour: str) -> tuple[int, int, int]:
        return tuple(max(0, min(255, part + chance.randint(-14, 14))) for part in COLOURS[colour])  # type: ignore[return-value]

    for foot in (-12, 10):
        pen.line([(x + foot, y + 30), (x + foot + 2, y + 34 + legs)], fill=(96, 76, 44), width=4)
    tail = 34 + chance.randint(-6, 10)
    pen.polygon([(x - 44, y - 10), (x - 48 - tail, y + 4), (x - 44 - tail, y + 20), (x - 36, y + 18)], fill=paint(wing))
    pen.ellipse([x - 52, y - 32, x + 44, y + 38], fill=paint(belly))
    lift = chance.randint(-8, 8)
    pen.ellipse([x - 58, y - 30 + lift, x + 18, y + 14 + lift], fill=paint(wing))
    for feather in range(3):
        pen.arc(
            [x - 56, y - 20 + 9 * feather + lift, x + 12, y + 8 + 9 * feather + lift],
            20,
            150,
            fill=(0, 0, 0, 70),
            width=2,
        )
    head = (x + 46, y - 34 - neck)
    if neck:
        pen.line([(x + 30, y - 8), (x + 44, y - 30 - neck)], fill=paint(belly), width=16)
    pen.ellipse([head[0] - 22, head[1] - 20, head[0] + 22, head[1] + 20], fill=paint(belly))
    pen.pieslice([head[0] - 23, head[1] - 21, head[0] + 23, head[1] + 21], 175, 365, fill=paint(crown))
    _bill(pen, bill, head)
    pen.ellipse([head[0] + 5, head[1] - 5, head[0] + 12, head[1] + 2], fill=(16, 16, 16))
    bird = bird.rotate(chance.uniform(-14, 14), Image.Resampling.BICUBIC, center=(x, y))
    wide = round(size * scale * chance.uniform(0.8, 1.05))
    bird = bird.resize((wide, wide), Image.Resampling.LANCZOS)
    if chance.random() < 0.5:
        bird = bird.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    place = ((size - wide) // 2 + chance.randint(-18, 18), (size - wide) // 2 + chance.randint(-12, 18))
    image.paste(bird, place, bird)
    light = chance.uniform(0.75, 1.15)
    image = image.point([min(255, round(level * light)) for level in range(256)] * 3)
    return image.filter(ImageFilter.GaussianBlur(chance.uniform(0.2, 1.3)))


def _bill(pen: ImageDraw.ImageDraw, form: str, head: tuple[int, int]) -> None:
    """The bill in one of its three forms."""
    x, y = head[0] + 18, head[1]
    if form == "short":
        pen.polygon([(x, y - 8), (x + 20, y + 2), (x, y + 9)], fill=(196, 132, 48))
    elif form == "long":
        pen.polygon([(x, y - 5), (x + 52, y + 7), (x, y + 7)], fill=(206, 158, 40))
    else:
        pen.polygon([(x, y - 8), (x + 16, y - 4), (x + 20, y + 14), (x + 10, y + 6), (x, y + 8)], fill=(70, 66, 60))


def _background(chance: random.Random, size: int) -> Image.Image:
    """Sky, leaves or reeds, out of focus."""
    low, high = chance.choice(
        [((150, 188, 220), (206, 222, 230)), ((96, 132, 72), (150, 172, 104)), ((168, 150, 110), (196, 190, 160))]
    )
    image = Image.new("RGB", (size, size))
    pen = ImageDraw.Draw(image)
    for row in range(size):
        share = row / size
        pen.line(
            [(0, row), (size, row)], fill=tuple(round(a + (b - a) * share) for a, b in zip(high, low, strict=True))
        )
    for _ in range(30):
        x, y, radius = chance.randint(0, size), chance.randint(0, size), chance.randint(8, 34)
        tone = tuple(max(0, min(255, part + chance.randint(-34, 34))) for part in low)
        pen.ellipse([x - radius, y - radius, x + radius, y + radius], fill=tone)
    pen.line(
        [(0, 214 + chance.randint(-14, 14)), (size, 206 + chance.randint(-14, 14))],
        fill=(92, 70, 46),
        width=chance.randint(6, 12),
    )
    return image.filter(ImageFilter.GaussianBlur(4))
