"""What meat, sausage, egg, tofu, fish and shellfish look like."""

from __future__ import annotations

import numpy as np

from finegraph.data.menu.shapes import arc, blob, moved, ring, slab, stack, tube
from finegraph.data.menu.surface import Canvas, Colour, Field, Surface, mix


def _seared(canvas: Canvas, colour: Colour, dark: Colour, amount: float) -> Field:
    """A colour with browner spots."""
    spots = np.clip(canvas.noise(4) * 0.7 + canvas.noise(9) * 0.5 + amount, 0, 1)
    return mix(canvas.paint(colour), dark, spots)


def chicken(canvas: Canvas) -> Surface:
    """Golden lumps with a rough crust."""
    height, cover = blob(canvas, 0.62, 0.8, 0.28, 0.25)
    height = height + 0.05 * canvas.noise(10)
    return Surface(height, cover, _seared(canvas, (226, 168, 92), (150, 84, 34), 0.15), 0.3)


def beef(canvas: Canvas) -> Surface:
    """Thin dark brown slices with a grain along them."""
    height, cover = slab(canvas, 0.5, 0.86, 0.3, 0.12, 0.2)
    fibre = np.sin(canvas.v * 26 + canvas.noise(4) * 7) * 0.5 + 0.5
    height = height + 0.1 * np.sin(canvas.u * 4 + canvas.random.uniform(0, 6)) + 0.006 * fibre
    return Surface(
        height, cover, mix(_seared(canvas, (120, 66, 42), (64, 32, 22), 0.1), (156, 98, 66), 0.4 * fibre), 0.4, 0.08
    )


def pork(canvas: Canvas) -> Surface:
    """Pale pinkish strips."""
    path = arc(canvas.random.uniform(-0.9, 0.9), 1.5)
    height, cover, along = tube(canvas, path, 0.24 + 0.05 * np.sin(np.linspace(0, 5, len(path))))
    colour = mix(
        _seared(canvas, (214, 158, 122), (158, 98, 66), -0.05), (240, 208, 180), np.clip(canvas.noise(5), 0, 1)
    )
    return Surface(height + 0.02 * canvas.noise(9), cover, colour + 6 * np.sin(along * 20)[..., None], 0.35)


def pork_belly(canvas: Canvas) -> Surface:
    """Thick slices in layers: dark skin, white fat, red meat."""
    height, cover = slab(canvas, 0.56, 0.8, 0.14, 0.06, 0.16)
    level = (canvas.v + 0.56) / 1.12 + 0.05 * canvas.noise(3)
    colour = canvas.paint((150, 72, 46))
    for low, high, shade in ((0.0, 0.14, (110, 44, 10)), (0.14, 0.38, (240, 214, 180)), (0.56, 0.72, (236, 206, 172))):
        inside = np.clip((level - low) * 20 + 0.5, 0, 1) * np.clip((high - level) * 20 + 0.5, 0, 1)
        colour = mix(colour, shade, inside)
    return Surface(height + 0.03 * np.sin(level * 18), cover, colour, 0.75, 0.2, (128, 64, 40))


def ribs(canvas: Canvas) -> Surface:
    """Glazed meat on a bone that sticks out."""
    bone_h, bone_c, along = tube(canvas, arc(0.25, 1.62), 0.1 + 0.05 * np.abs(np.linspace(-1, 1, 10)) ** 3)
    bone = (bone_h, bone_c, mix(canvas.paint((236, 222, 196)), (186, 140, 100), np.clip(1 - along * 6, 0, 1)))
    height, cover = slab(canvas, 0.38, 0.6, 0.24, 0.16, 0.34)
    height = height + 0.05 * canvas.noise(6)
    meat = (height, cover, _seared(canvas, (140, 58, 24), (70, 24, 12), 0.15))
    return Surface(*stack(bone, meat), 0.85)


def lamb(canvas: Canvas) -> Surface:
    """Dark charred cubes with specks of spice."""
    height, cover = slab(canvas, 0.6, 0.66, 0.24, 0.12, 0.4)
    specks = (canvas.random.random((canvas.n, canvas.n)) > 0.985).astype(np.float32)
    colour = _seared(canvas, (126, 70, 48), (44, 24, 18), 0.3)
    return Surface(height + 0.04 * canvas.noise(8), cover, mix(colour, (206, 150, 70), specks), 0.3, 0.14)


def duck(canvas: Canvas) -> Surface:
    """Slices with a shining mahogany skin on one edge and pale meat."""
    height, cover = slab(canvas, 0.4, 0.88, 0.3, 0.05, 0.2)
    skin = np.clip(0.5 - (canvas.v + 0.1 + 0.08 * canvas.noise(3)) * 9, 0, 1)
    fat = np.exp(-(((canvas.v + 0.06) / 0.06) ** 2))
    meat = mix(canvas.paint((198, 140, 112)), (150, 92, 70), np.clip(canvas.noise(6), 0, 1))
    colour = mix(mix(meat, (140, 56, 18), skin), (240, 212, 170), 0.7 * fat)
    return Surface(height + 0.08 * skin, cover, colour, 0.8, 0.1)


def meatball(canvas: Canvas) -> Surface:
    """Brown balls with a coarse skin."""
    height, cover = blob(canvas, 0.84, 0.84, 0.07)
    height = height + 0.03 * canvas.noise(12)
    return Surface(height, cover, _seared(canvas, (146, 88, 52), (84, 44, 24), 0.2), 0.5)


def sausage(canvas: Canvas) -> Surface:
    """Slanted slices of red sausage with white specks of fat and a darker skin."""
    height, cover = slab(canvas, 0.56, 0.76, 0.54, 0.02, 0.1)
    radius = np.sqrt((canvas.u / 0.76) ** 2 + (canvas.v / 0.56) ** 2)
    fat = np.clip(canvas.noise(11) * 3 - 1.1, 0, 1)
    colour = mix(
        mix(canvas.paint((184, 62, 50)), (238, 196, 176), fat), (116, 24, 22), np.clip((radius - 0.84) * 8, 0, 1)
    )
    return Surface(height, cover, colour, 0.6, 0.12, (130, 30, 26))


def egg(canvas: Canvas) -> Surface:
    """Halves of a boiled egg."""
    stretch = 1 + 0.16 * canvas.u
    radius = np.sqrt((canvas.u / 0.86) ** 2 + (canvas.v / (0.66 * stretch)) ** 2)
    height = 0.22 * np.sqrt(np.clip(1 - radius**6, 0, 1))
    yolk = np.sqrt((canvas.u + 0.1) ** 2 + (canvas.v - 0.02) ** 2) / 0.4
    share = np.clip((1 - yolk) * 14, 0, 1)
    middle = mix(canvas.paint((250, 186, 40)), (240, 130, 10), np.clip(1.2 - yolk * 1.6, 0, 1))
    height = height + 0.12 * np.sqrt(np.clip(1 - yolk**2, 0, 1))
    return Surface(
        height, canvas.soft((radius - 1) * 0.66), mix(canvas.paint((252, 248, 238)), middle, share), 0.5, 0.1
    )


def tofu(canvas: Canvas) -> Surface:
    """White cubes with soft edges."""
    height, cover = slab(canvas, 0.6, 0.62, 0.1, 0.02, 0.1)
    colour = mix(canvas.paint((250, 242, 222)), (232, 214, 180), np.clip(canvas.noise(6), 0, 1) * 0.6)
    return Surface(height, cover, colour, 0.35, 0.36, (236, 220, 190))


def tofu_puff(canvas: Canvas) -> Surface:
    """Fried cubes, golden and full of pores."""
    height, cover = slab(canvas, 0.64, 0.66, 0.2, 0.08, 0.3)
    pores = np.clip(canvas.noise(14) * 2 - 0.7, 0, 1)
    colour = mix(_seared(canvas, (222, 162, 72), (170, 100, 32), 0.0), (140, 80, 24), pores * 0.6)
    return Surface(height - 0.06 * pores, cover, colour, 0.2, 0.3, (206, 146, 66))


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
