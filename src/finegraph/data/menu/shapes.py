"""The few shapes that pieces of food are made of.

Each function takes a canvas and gives a height and a cover (see `surface`); looks add colour and marks. Distances are
in half sides of the picture, so that one look works at every size.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from finegraph.data.menu.surface import Canvas, Field


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
