"""What fish, shellfish and the like look like."""

from __future__ import annotations

import numpy as np

from finegraph.data.menu.shapes import arc, blob, moved, ring, slab, stack, tube
from finegraph.data.menu.surface import Canvas, Surface, mix


def shrimp(canvas: Canvas) -> Surface:
    """Pink curls with bands and a fanned tail."""
    points = 16
    along_path = np.linspace(0, 1, points)
    body = 0.1 + 0.19 * np.sin(np.pi * np.clip(along_path * 0.86 + 0.14, 0, 1)) ** 0.8
    path = arc(3.9, 2.2, points)
    height, cover, along = tube(canvas, path, body.astype(np.float32))
    bands = np.clip(np.sin(along * 44) * 2.2 - 0.6, 0, 1)
    colour = mix(
        mix(canvas.paint((252, 200, 172)), (238, 104, 62), bands * 0.75),
        (255, 232, 216),
        np.clip(canvas.noise(4), 0, 1) * 0.4,
    )
    colour = mix(colour, (226, 70, 40), np.clip((0.14 - along) * 9, 0, 1))
    tail_h, tail_c, _ = tube(canvas, path[:2] + (path[0] - path[3]) * 0.9, 0.16)
    tail = (tail_h * 0.4, tail_c, mix(canvas.paint((232, 84, 46)), (250, 150, 110), 0.3))
    return Surface(*stack(tail, (height + 0.02 * bands, cover, colour)), 0.75)


def crab(canvas: Canvas) -> Surface:
    """Orange-red claws with a pale joint."""
    arm_h, arm_c, _ = tube(canvas, moved(arc(1.0, 1.1, 10), -0.34, 0.24), 0.15)
    height, cover = blob(canvas, 0.36, 0.5, 0.05)
    height, cover = np.roll(height, canvas.n // 12, 1), np.roll(cover, canvas.n // 12, 1)
    spots = np.clip(canvas.noise(9), 0, 1)
    shell = mix(canvas.paint((226, 84, 34)), (250, 150, 80), spots)
    arm = (arm_h, arm_c, mix(canvas.paint((240, 128, 70)), (252, 214, 180), np.clip(canvas.noise(4), 0, 1)))
    first = stack(arm, (height, cover, shell))
    for side in (-1, 1):
        tip = moved(arc(side * 1.3, 0.75, 12), 0.5, side * 0.2)
        tip_h, tip_c, along = tube(canvas, tip, np.linspace(0.15, 0.03, 12))
        first = stack(
            first, (tip_h, tip_c, mix(canvas.paint((222, 76, 2)), (70, 24, 18), np.clip(along * 2.4 - 1.3, 0, 1)))
        )
    return Surface(*first, 0.8)


def squid(canvas: Canvas) -> Surface:
    """White rings."""
    squeeze = canvas.random.uniform(0.6, 1.0)
    height, cover = ring(canvas, 0.8, 0.46, squeeze)
    colour = mix(canvas.paint((250, 240, 230)), (226, 190, 196), np.clip(canvas.noise(5), 0, 1) * 0.7)
    return Surface(height * 1.2, cover, colour, 0.7, 0.12, (236, 220, 214))


def fish(canvas: Canvas) -> Surface:
    """A fillet in flakes, with a line of silver skin."""
    height, cover = slab(canvas, 0.46, 0.9, 0.34, 0.05, 0.3)
    flakes = np.sin(canvas.u * 15 + np.abs(canvas.v) * 7 + canvas.noise(3)) * 0.5 + 0.5
    colour = mix(canvas.paint((250, 234, 206)), (222, 180, 128), flakes**3 * 0.95)
    skin = np.clip(0.5 - (canvas.v + 0.32 + 0.06 * canvas.noise(4)) * 12, 0, 1)
    colour = mix(colour, (104, 104, 110), skin * (0.7 + 0.3 * canvas.noise(12)))
    return Surface(height * 0.6 + 0.05 * flakes, cover, colour, 0.3, 0.12, (226, 206, 178))


def scallop(canvas: Canvas) -> Surface:
    """Thick cream discs, seared on top."""
    height, cover = slab(canvas, 0.72, 0.74, 0.7, 0.03, 0.22)
    radius = np.hypot(canvas.u, canvas.v)
    sear = np.clip(0.9 - radius * 1.35 + 0.35 * canvas.noise(5), 0, 1)
    colour = mix(canvas.paint((250, 232, 198)), (190, 116, 48), sear * 0.9)
    return Surface(height, cover, colour, 0.5, 0.26, (244, 226, 196))


def clam(canvas: Canvas) -> Surface:
    """Open shells with orange meat inside."""
    radius = np.sqrt((canvas.u / 0.86) ** 2 + (canvas.v / 0.66) ** 2)
    angle = np.arctan2(canvas.v - 0.6, canvas.u)
    ribs = np.sin(angle * 26) * 0.5 + 0.5
    bands = np.clip(np.sin(radius * 15 + canvas.noise(3)), 0, 1)
    shell = mix(
        mix(canvas.paint((222, 206, 182)), (140, 110, 86), bands * 0.8), (90, 70, 60), np.clip((radius - 0.9) * 6, 0, 1)
    )
    height = 0.4 * np.sqrt(np.clip(1 - radius**2, 0, 1)) + 0.02 * ribs
    under = (height.astype(np.float32), canvas.soft((radius - 1) * 0.66), shell)
    inner = np.sqrt((canvas.u / 0.7) ** 2 + ((canvas.v + 0.08) / 0.46) ** 2)
    hollow = (0.3 * inner**2 * (inner < 1), canvas.soft((inner - 1) * 0.46), canvas.paint((238, 228, 214)))
    meat_h, meat_c = blob(canvas, 0.25, 0.46, 0.2)
    meat = (meat_h, meat_c, mix(canvas.paint((240, 176, 100)), (214, 120, 56), np.clip(canvas.noise(5), 0, 1)))
    return Surface(*stack(stack(under, hollow), meat), 0.6)
