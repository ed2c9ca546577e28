"""Tangles of thin things, and heaps of small ones: noodles, sprouts, shreds, grains.

Distances to dozens of curves would take long. So they are drawn as lines and ellipses of falling width and rising
height, one over the other, and the steps are blurred away before shading.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw, ImageFilter

from finegraph.data.menu.surface import Canvas, Colour, Field, Surface

_STEPS = ((1.0, 0.0), (0.74, 0.45), (0.45, 0.8), (0.2, 1.0))
"""Widths of a strand, and how high it is there."""


class Heap:
    """A picture of heights and one of colours that strands and grains are drawn into, the upper ones last."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._high = Image.new("L", (canvas.n, canvas.n))
        self._colour = Image.new("RGB", (canvas.n, canvas.n))
        self._cover = Image.new("L", (canvas.n, canvas.n))
        self._draw = [ImageDraw.Draw(image) for image in (self._high, self._colour, self._cover)]

    def strand(self, path: Float[Field, "point 2"], width: float, colour: Colour, lift: float) -> None:
        """A round strand along a path (in half sides); `lift` from 0 to 1 says how high it lies."""
        half = self._canvas.n / 2
        line = [(float(x), float(y)) for x, y in (path + 1) * half]
        high, tint, cover = self._draw
        thick = width * self._canvas.n
        tint.line(line, fill=colour, width=max(1, round(thick)))
        cover.line(line, fill=255, width=max(1, round(thick)))
        for share, step in _STEPS:
            value = round(90 * lift + 40 + 120 * step)
            high.line(line, fill=value, width=max(1, round(thick * share)))

    def grain(self, x: float, y: float, long: float, wide: float, angle: float, colour: Colour, lift: float) -> None:
        """A grain: a short strand with round ends."""
        turn = np.array([np.cos(angle), np.sin(angle)], dtype=np.float32)
        ends = np.array([[x, y]], dtype=np.float32) + np.outer(np.linspace(-1, 1, 4) * (long - wide), turn)
        self.strand(ends.astype(np.float32), wide, colour, lift)
        half = self._canvas.n / 2
        _, tint, cover = self._draw
        radius = wide * half
        for end in (ends[0], ends[-1]):
            cx, cy = (end + 1) * half
            tint.ellipse((cx - radius, cy - radius, cx + radius, cy + radius), fill=colour)
            cover.ellipse((cx - radius, cy - radius, cx + radius, cy + radius), fill=255)

    def surface(self, round_off: float, relief: float, gloss: float, shadow: float = 0.5) -> Surface:
        """What was drawn, as a piece of food."""
        soft = self._high.filter(ImageFilter.BoxBlur(round_off))
        height = np.asarray(soft, dtype=np.float32) / 255 * relief
        cover = np.asarray(self._cover, dtype=np.float32) / 255
        return Surface(height, cover, np.asarray(self._colour, dtype=np.float32), gloss=gloss, shadow=shadow)


def vary(random: np.random.Generator, colour: Colour, by: float = 0.06) -> Colour:
    """A colour a little lighter or darker by chance."""
    factor = 1 + random.normal(0, by)
    red, green, blue = (int(min(255, max(0, value * factor))) for value in colour)
    return red, green, blue


def tangle(canvas: Canvas, count: int, width: float, colour: Colour, *, length: float, gloss: float) -> Surface:
    """Strands that lie across each other in loops, as noodles do; `length` is how far they wind, in radians."""
    heap = Heap(canvas)
    random = canvas.random
    for index in range(count):
        along = np.linspace(0, random.uniform(0.6, 1.0) * length, 22)
        pace, start = random.uniform(0.6, 1.5, 2), random.uniform(0, 2 * np.pi, 2)
        path = np.sin(along[:, None] * pace + start) * random.uniform(0.4, 0.9, 2)  # loops, as strands fall
        heap.strand(path.astype(np.float32), width, vary(random, colour), index / count)
    return heap.surface(width * canvas.n * 0.14, width * 2.0, gloss)


def grains(
    canvas: Canvas, count: int, long: float, wide: float, colours: tuple[Colour, ...], *, gloss: float, spread: float
) -> Surface:
    """Small grains in a heap, as rice or maize."""
    heap = Heap(canvas)
    random = canvas.random
    if count > 50:  # so many leave no gaps
        for angle in random.uniform(0, 2 * np.pi, 5):
            x, y = 0.3 * spread * np.cos(angle), 0.3 * spread * np.sin(angle)
            heap.grain(x, y, spread * 0.6, spread * 0.5, angle, vary(random, colours[0], 0.02), 0.5)
    radius = np.sqrt(np.linspace(1, 0, count)) * spread
    for index in range(count):
        at = random.uniform(0, 2 * np.pi)
        x, y = radius[index] * np.cos(at), radius[index] * np.sin(at)
        colour = vary(random, colours[int(random.integers(len(colours)))], 0.05)
        heap.grain(x, y, long, wide, random.uniform(0, np.pi), colour, 0.4 + 0.6 * index / count)
    many = count > 50
    return heap.surface(wide * canvas.n * 0.16, wide * (0.45 if many else 1.2), gloss, 0.2 if many else 0.5)
