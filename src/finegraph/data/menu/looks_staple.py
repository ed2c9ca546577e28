"""What rice, noodles, dumplings and the like look like."""

from __future__ import annotations

import numpy as np

from finegraph.data.menu.shapes import blob, grains, slab, tangle
from finegraph.data.menu.surface import Canvas, Surface, mix


def rice(canvas: Canvas) -> Surface:
    """A clump of white grains."""
    return grains(
        canvas, 130, 0.085, 0.042, ((255, 252, 244), (250, 246, 234), (255, 254, 250)), gloss=0.2, spread=0.86
    )


def noodles(canvas: Canvas) -> Surface:
    """Thick yellow strands."""
    return tangle(canvas, 12, 0.062, (244, 206, 128), length=3.6, gloss=0.5)


def glass_noodles(canvas: Canvas) -> Surface:
    """Thin clear strands."""
    return tangle(canvas, 20, 0.032, (236, 230, 214), length=4.4, gloss=0.9)


def rice_cake(canvas: Canvas) -> Surface:
    """White oval slices, smooth and shining."""
    height, cover = slab(canvas, 0.46, 0.84, 0.44, 0.02, 0.16)
    return Surface(
        height, cover, mix(canvas.paint((248, 244, 236)), (228, 218, 204), np.clip(canvas.noise(3), 0, 1)), 0.8, 0.14
    )


def dumpling(canvas: Canvas) -> Surface:
    """Crescents with a pleated edge and a browned belly."""
    bend = canvas.v - 0.32 * canvas.u**2 + 0.14
    radius = np.sqrt((canvas.u / 0.9) ** 2 + (bend / 0.48) ** 2)
    dome = 0.46 * np.sqrt(np.clip(1 - radius**2, 0, 1))
    edge = np.exp(-(((bend + 0.3) / 0.13) ** 2))
    pleats = np.sin(canvas.u * 26 + bend * 7)
    height = dome + edge * (0.05 + 0.045 * pleats) * (radius < 1.02)
    colour = mix(canvas.paint((246, 228, 188)), (252, 242, 220), np.clip(canvas.noise(4), 0, 1))
    brown = np.clip((bend - 0.12) * 3 + 0.5 * canvas.noise(4), 0, 1)
    colour = mix(colour, (190, 116, 48), brown * 0.75)
    colour = mix(colour, (222, 194, 140), edge * np.clip(-pleats, 0, 1) * 0.6)
    return Surface(height.astype(np.float32), canvas.soft((radius - 1) * 0.48), colour, 0.5, 0.1)


def bun(canvas: Canvas) -> Surface:
    """A white steamed bun with folds that meet in the middle."""
    height, cover = blob(canvas, 0.9, 0.9, 0.03)
    radius, angle = np.hypot(canvas.u, canvas.v), np.arctan2(canvas.v, canvas.u)
    folds = np.sin(angle * 13 + radius * 5) * np.exp(-((radius / 0.55) ** 2)) * np.clip(radius * 6, 0, 1)
    height = height * 0.75 + 0.09 * folds - 0.22 * np.exp(-((radius / 0.13) ** 2))
    colour = mix(canvas.paint((252, 246, 234)), (226, 204, 170), np.clip(-folds, 0, 1) * 0.5)
    return Surface(
        height.astype(np.float32), cover, mix(colour, (180, 130, 90), 0.7 * np.exp(-((radius / 0.12) ** 2))), 0.25
    )


def potato(canvas: Canvas) -> Surface:
    """Yellow wedges with browned edges."""
    height, cover = slab(canvas, 0.46, 0.8, 0.2, 0.1, 0.3)
    ridge = 0.3 * np.clip(1 - np.abs(canvas.v) / 0.46, 0, 1)
    edge = np.clip(0.9 - height * 3.4 + 0.5 * canvas.noise(5), 0, 1)
    return Surface(
        (height + ridge).astype(np.float32),
        cover,
        mix(canvas.paint((242, 206, 106)), (176, 110, 40), edge * 0.8),
        0.25,
        0.14,
    )


def corn(canvas: Canvas) -> Surface:
    """A few yellow kernels."""
    return grains(canvas, 9, 0.28, 0.22, ((252, 206, 50), (246, 186, 34), (254, 220, 90)), gloss=0.8, spread=0.55)


def peanut(canvas: Canvas) -> Surface:
    """Roasted kernels, some with their red skin."""
    return grains(canvas, 3, 0.42, 0.26, ((226, 180, 116), (206, 150, 86), (160, 70, 40)), gloss=0.4, spread=0.5)
