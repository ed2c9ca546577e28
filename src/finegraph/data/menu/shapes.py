"""The shapes that pieces of food are made of: lumps, slabs and tubes, tangles of thin things, heaps of small ones.

Each function takes a canvas and gives a height and a cover (see `surface`); looks add colour and marks. Distances are
in half sides of the picture, so that one look works at every size.

Distances to the dozens of curves of noodles, sprouts and shreds would take long. So they are drawn as lines and
ellipses of falling width and rising height, one over the other, and the steps are blurred away before shading.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw, ImageFilter

from finegraph.data.menu.surface import Canvas, Colour, Field, Surface

_STEPS = ((1.0, 0.0), (0.74, 0.45), (0.45, 0.8), (0.2, 1.0))
"""Widths of a strand, and how high it is there."""


def blob(
    canvas: Canvas, wide: float, long: float, rough: float = 0.1, flat: float = 0.0
) -> tuple[Float[Field, "height width"], Float[Field, "height width"]]:
    """A rounded lump; `rough` makes its outline and its skin uneven, `flat` its top."""
    outline = 1 + rough * canvas.noise(3)
    radius = np.sqrt((canvas.u / long) ** 2 + (canvas.v / wide) ** 2) / outline
    height = np.sqrt(np.clip(1 - radius**2, 0, 1))
    if flat:
        height = np.minimum(height, 1 - flat) / (1 - flat)
    height = height * min(wide, long) + rough * 0.25 * canvas.noise(6) * (radius < 1) * min(wide, long)
    return height.astype(np.float32), canvas.soft((radius - 1) * min(wide, long))


def slab(
    canvas: Canvas, wide: float, long: float, corner: float = 0.1, rough: float = 0.04, bevel: float = 0.12
) -> tuple[Float[Field, "height width"], Float[Field, "height width"]]:
    """A flat piece with corners: a slice, a cube from above."""
    bend = rough * canvas.noise(3)
    x = np.abs(canvas.u) - long + corner + bend
    y = np.abs(canvas.v) - wide + corner + rough * canvas.noise(3)
    distance = np.hypot(np.maximum(x, 0), np.maximum(y, 0)) + np.minimum(np.maximum(x, y), 0) - corner
    inside = np.clip(-distance / bevel, 0, 1)
    height = bevel * np.sqrt(1 - (1 - inside) ** 2) + rough * 0.5 * canvas.noise(5) * inside
    return height.astype(np.float32), canvas.soft(distance)


def ring(
    canvas: Canvas, outer: float, inner: float, squeeze: float = 1.0
) -> tuple[Float[Field, "height width"], Float[Field, "height width"]]:
    """A ring, as of squid or scallion."""
    radius = np.sqrt(canvas.u**2 + (canvas.v / squeeze) ** 2) * (1 + 0.06 * canvas.noise(2))
    half = (outer - inner) / 2
    distance = np.abs(radius - (outer + inner) / 2) - half
    height = np.sqrt(np.clip(half**2 - (distance + half) ** 2, 0, None))
    return height.astype(np.float32), canvas.soft(distance)


def arc(bend: float, length: float, points: int = 10) -> Float[Field, "point 2"]:
    """Points along an arc of some length, through the middle: (points, 2). `bend` is the angle it turns by."""
    along = np.linspace(-0.5, 0.5, points, dtype=np.float32)
    if abs(bend) < 1e-3:
        return np.stack([along * length, np.zeros_like(along)], axis=1)
    radius = length / bend
    angle = along * bend
    path = np.stack([np.sin(angle) * radius, (1 - np.cos(angle)) * radius], axis=1)
    centred: Field = (path - path.mean(axis=0)).astype(np.float32)
    return centred


def moved(path: Float[Field, "point 2"], right: float, down: float) -> Float[Field, "point 2"]:
    """A path somewhere else."""
    return path + np.array([right, down], dtype=np.float32)


def wave(random: np.random.Generator, length: float, bend: float, points: int = 12) -> Float[Field, "point 2"]:
    """Points along a line that winds by chance: (points, 2)."""
    turn = np.cumsum(np.interp(np.linspace(0, 5, points), np.arange(6), random.normal(0, bend, 6))) / points * 6
    step = length / points
    path = np.cumsum(np.stack([np.cos(turn), np.sin(turn)], axis=1) * step, axis=0)
    centred: Field = (path - path.mean(axis=0)).astype(np.float32)
    return centred


def tube(
    canvas: Canvas, path: Float[Field, "point 2"], radius: Float[Field, " point"] | float
) -> tuple[Float[Field, "height width"], ...]:
    """A round body along a path.

    Returns:
        Its height, its cover, and how far along the path each point is, 0 to 1.
    """
    thick = np.broadcast_to(np.asarray(radius, dtype=np.float32), (len(path),))
    best = np.full(canvas.u.shape, 9.0, dtype=np.float32)
    along = np.zeros_like(best)
    wide = np.full_like(best, thick[0])
    parts = len(path) - 1
    for index in range(parts):
        (x, y), (dx, dy) = path[index], path[index + 1] - path[index]
        u, v = canvas.u - x, canvas.v - y
        share = np.clip((u * dx + v * dy) / max(float(dx * dx + dy * dy), 1e-9), 0, 1)
        here = thick[index] + (thick[index + 1] - thick[index]) * share
        distance = np.sqrt((u - share * dx) ** 2 + (v - share * dy) ** 2) - here
        nearer = distance < best
        np.copyto(best, distance, where=nearer)
        np.copyto(along, (index + share) / parts, where=nearer)
        np.copyto(wide, here, where=nearer)
    height = np.sqrt(np.clip(wide**2 - (best + wide) ** 2, 0, None))
    return height, canvas.soft(best), along


def stack(
    under: tuple[Float[Field, "height width"], Float[Field, "height width"], Float[Field, "height width channel"]],
    over: tuple[Float[Field, "height width"], Float[Field, "height width"], Float[Field, "height width channel"]],
) -> tuple[Float[Field, "height width"], Float[Field, "height width"], Float[Field, "height width channel"]]:
    """One piece on another, each as height, cover and colour."""
    share = over[1][..., None]
    height = np.where(over[1] > 0.5, over[0] + 0.05, under[0]).astype(np.float32)
    return height, np.maximum(under[1], over[1]), under[2] * (1 - share) + over[2] * share


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
        """The drawing, as a piece of food."""
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
    if count > 50:  # this many leave no gaps
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
