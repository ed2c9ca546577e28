"""What greens, roots, fruits and mushrooms look like."""

from __future__ import annotations

import numpy as np

from finegraph.data.menu.shapes import Heap, arc, blob, grains, ring, slab, stack, tube, vary, wave
from finegraph.data.menu.surface import Canvas, Colour, Field, Surface, mix


def _disc(canvas: Canvas, round_by: float = 0.95) -> tuple[Field, Field, Field]:
    """A slice of something round: height, cover, and how far out each point is."""
    squeeze = canvas.random.uniform(0.72, round_by)
    radius = np.sqrt((canvas.u / 0.84) ** 2 + (canvas.v / (0.84 * squeeze)) ** 2) * (1 + 0.02 * canvas.noise(3))
    height = 0.08 * np.sqrt(np.clip(1 - radius**8, 0, 1))
    return height.astype(np.float32), canvas.soft((radius - 1) * 0.7), radius.astype(np.float32)


def carrot(canvas: Canvas) -> Surface:
    """Orange slices with a paler core."""
    height, cover, radius = _disc(canvas)
    spokes = np.sin(np.arctan2(canvas.v, canvas.u) * 14) * 0.5 + 0.5
    colour = mix(canvas.paint((244, 126, 24)), (250, 170, 70), np.clip((0.45 - radius) * 9, 0, 1) * 0.8)
    return Surface(
        height, cover, mix(colour, (222, 98, 14), spokes * np.clip(radius - 0.45, 0, 1)), 0.5, 0.16, (222, 98, 14)
    )


def pea(canvas: Canvas) -> Surface:
    """Green balls."""
    height, cover = blob(canvas, 0.82, 0.86, 0.03)
    return Surface(height, cover, canvas.paint(vary(canvas.random, (96, 166, 44), 0.1)), 0.7)


def green_bean(canvas: Canvas) -> Surface:
    """Long thin pods."""
    path = wave(canvas.random, 1.75, 0.28)
    pod = 0.105 + 0.01 * np.sin(np.linspace(0, 9, len(path)))
    height, cover, along = tube(canvas, path, pod.astype(np.float32))
    return Surface(
        height, cover, mix(canvas.paint((70, 132, 42)), (118, 168, 70), np.clip(np.sin(along * 22), 0, 1) * 0.5), 0.6
    )


def _floret(canvas: Canvas, bud: Colour, dark: Colour, stem: Colour, fine: float) -> Surface:
    """A head of buds on a stem."""
    stem_h, stem_c, _ = tube(
        canvas, np.array([[0, 0.15], [0, 0.45], [0, 0.78]], dtype=np.float32), np.array([0.3, 0.22, 0.2])
    )
    base = (stem_h, stem_c, mix(canvas.paint(stem), dark, np.clip(canvas.noise(4), 0, 1) * 0.3))
    height = np.zeros_like(canvas.u)
    for _ in range(11):
        at, far = canvas.random.uniform(0, 2 * np.pi), np.sqrt(canvas.random.uniform(0, 1)) * 0.46
        x, y, size = far * np.cos(at), far * np.sin(at) * 0.8 - 0.2, canvas.random.uniform(0.24, 0.34)
        bump = np.sqrt(np.clip(size**2 - (canvas.u - x) ** 2 - (canvas.v - y) ** 2, 0, None)) + 0.3 * (0.55 - far)
        height = np.maximum(height, np.where((canvas.u - x) ** 2 + (canvas.v - y) ** 2 < size**2, bump, 0))
    buds = canvas.noise(26)
    cover = canvas.soft(0.06 - height * 0.8)
    colour = mix(canvas.paint(dark), bud, np.clip(height * 1.7 + 0.35 * buds, 0, 1))
    head = ((height + fine * buds).astype(np.float32), cover, colour)
    return Surface(*stack(base, head), 0.15)


def broccoli(canvas: Canvas) -> Surface:
    """Dark green florets."""
    return _floret(canvas, (92, 150, 52), (26, 70, 22), (158, 186, 96), 0.035)


def cauliflower(canvas: Canvas) -> Surface:
    """Cream florets."""
    return _floret(canvas, (252, 244, 222), (206, 184, 140), (230, 226, 190), 0.03)


def _leaf(
    canvas: Canvas, widths: tuple[float, ...], stem: Colour, blade: Colour, dark: Colour, ruffle: float
) -> Surface:
    """A leaf along u: from its stem on the left to its tip on the right."""
    bend = canvas.v - canvas.random.uniform(-0.25, 0.25) * canvas.u**2
    along = np.clip((canvas.u + 0.94) / 1.88, 0, 1)
    wide = np.interp(along, np.linspace(0, 1, len(widths)), widths).astype(np.float32)
    wide = wide * (1 + ruffle * 0.5 * canvas.noise(7) * along)
    distance = np.maximum(np.abs(bend) - wide, np.abs(canvas.u) - 0.94)
    spine = np.exp(-((bend / (0.05 + 0.16 * (1 - along) ** 2)) ** 2))
    veins = np.clip(np.sin(along * 15 - np.abs(bend) * 9) * 3 - 2, 0, 1) * np.clip(np.abs(bend) * 8, 0, 1)
    colour = mix(mix(canvas.paint(blade), dark, np.clip(canvas.noise(5) * 0.9, 0, 1)), stem, np.clip(veins * 0.4, 0, 1))
    colour = mix(colour, stem, np.clip(spine + np.clip(1 - along * 2.6, 0, 1), 0, 1))
    height = (
        0.16 * np.sqrt(np.clip(1 - (bend / (wide + 1e-3)) ** 2, 0, 1)) + ruffle * 0.16 * canvas.noise(7) + 0.06 * spine
    )
    return Surface(height.astype(np.float32), canvas.soft(distance), colour, 0.45)


def bok_choy(canvas: Canvas) -> Surface:
    """Halved heads: thick white stems, dark green leaves."""
    return _leaf(
        canvas, (0.16, 0.3, 0.26, 0.24, 0.44, 0.52, 0.34, 0.0), (232, 238, 204), (66, 128, 44), (32, 86, 2), 0.35
    )


def spinach(canvas: Canvas) -> Surface:
    """Soft dark leaves."""
    return _leaf(canvas, (0.04, 0.05, 0.2, 0.5, 0.62, 0.5, 0.28, 0.0), (126, 166, 82), (46, 104, 36), (22, 66, 24), 0.6)


def cabbage(canvas: Canvas) -> Surface:
    """Pale crumpled squares of leaf."""
    height, cover = slab(canvas, 0.66, 0.74, 0.2, 0.16, 0.1)
    rib = np.exp(-((canvas.v / 0.12) ** 2))
    colour = mix(
        mix(canvas.paint((206, 222, 140)), (160, 196, 96), np.clip(canvas.noise(4), 0, 1)), (244, 246, 222), rib
    )
    return Surface(height + 0.13 * canvas.noise(5) + 0.05 * rib, cover, colour, 0.5)


def eggplant(canvas: Canvas) -> Surface:
    """Batons with purple skin on one side and soft pale flesh."""
    height, cover = slab(canvas, 0.34, 0.86, 0.2, 0.05, 0.26)
    skin = np.clip(0.5 - (canvas.v + 0.02 + 0.05 * canvas.noise(3)) * 12, 0, 1)
    flesh = mix(canvas.paint((214, 184, 128)), (176, 132, 76), np.clip(canvas.noise(8), 0, 1))
    return Surface(height, cover, mix(flesh, (66, 28, 74), skin), 0.7, 0.12, (70, 36, 70))


def tomato(canvas: Canvas) -> Surface:
    """Red wedges with a seedy middle."""
    bend = canvas.v - 0.35 * canvas.u**2 + 0.1
    radius = np.sqrt((canvas.u / 0.86) ** 2 + (bend / 0.46) ** 2)
    pulp = np.clip(1.5 - np.sqrt((np.abs(canvas.u) - 0.3) ** 2 / 0.06 + bend**2 / 0.04), 0, 1)
    colour = mix(canvas.paint((222, 46, 28)), (244, 120, 60), pulp)
    colour = mix(colour, (250, 214, 130), np.clip(canvas.noise(18) * 3 - 1.4, 0, 1) * pulp)
    height = 0.4 * np.sqrt(np.clip(1 - radius**2, 0, 1)) - 0.06 * pulp
    return Surface(height.astype(np.float32), canvas.soft((radius - 1) * 0.46), colour, 0.85)


def cucumber(canvas: Canvas) -> Surface:
    """Pale slices with a dark rim and seeds."""
    height, cover, radius = _disc(canvas)
    seeds = np.clip(np.cos(np.arctan2(canvas.v, canvas.u) * 9) * 3 - 1.6, 0, 1) * np.exp(
        -(((radius - 0.36) / 0.13) ** 2)
    )
    colour = mix(
        mix(canvas.paint((214, 232, 164)), (240, 244, 206), seeds), (48, 104, 40), np.clip((radius - 0.88) * 14, 0, 1)
    )
    return Surface(height, cover, colour, 0.6, 0.1, (48, 104, 40))


def _pepper(canvas: Canvas, colour: Colour, dark: Colour) -> Surface:
    """Curved squares of a thick shining skin."""
    height, cover = slab(canvas, 0.6, 0.68, 0.16, 0.08, 0.14)
    height = height - 0.5 * (canvas.v**2) + 0.04 * canvas.noise(3)
    return Surface(height, cover, mix(canvas.paint(colour), dark, np.clip(canvas.noise(3), 0, 1) * 0.6), 1.0, 0.1, dark)


def red_pepper(canvas: Canvas) -> Surface:
    """Squares of red pepper."""
    return _pepper(canvas, (216, 36, 26), (160, 18, 16))


def green_pepper(canvas: Canvas) -> Surface:
    """Squares of green pepper."""
    return _pepper(canvas, (70, 140, 40), (36, 92, 26))


def chilli(canvas: Canvas) -> Surface:
    """Whole dried chillies, dark red and pointed."""
    path = arc(canvas.random.uniform(-1.4, 1.4), 1.6)
    height, cover, along = tube(canvas, path, 0.02 + 0.17 * np.sin(np.linspace(0.5, 3.1, 10)))
    colour = mix(canvas.paint((176, 22, 16)), (104, 8, 10), np.clip(canvas.noise(5), 0, 1))
    return Surface(
        height + 0.03 * canvas.noise(7), cover, mix(colour, (96, 110, 40), np.clip(0.09 - along, 0, 1) * 20), 0.9
    )


def onion(canvas: Canvas) -> Surface:
    """Clear arcs with a hint of purple."""
    path = arc(canvas.random.uniform(1.4, 2.4), 1.8)
    height, cover, along = tube(canvas, path, 0.05 + 0.12 * np.sin(np.linspace(0.2, 2.9, 10)))
    lines = np.sin(along * 9 + height * 60) * 0.5 + 0.5
    return Surface(height, cover * 0.9, mix(canvas.paint((244, 236, 222)), (214, 186, 200), lines * 0.45), 0.8, 0.06)


def scallion(canvas: Canvas) -> Surface:
    """Small green rings."""
    shades: tuple[Colour, ...] = ((74, 148, 48), (110, 178, 70), (186, 214, 140))
    colour = shades[int(canvas.random.integers(3))]
    height, cover = ring(canvas, 0.84, 0.4, canvas.random.uniform(0.5, 1.0))
    return Surface(height, cover, canvas.paint(vary(canvas.random, colour)), 0.5, 0.2)


def garlic(canvas: Canvas) -> Surface:
    """Bits of cream garlic."""
    return grains(canvas, 5, 0.3, 0.2, ((246, 232, 194), (236, 212, 156), (224, 186, 120)), gloss=0.4, spread=0.6)


def ginger(canvas: Canvas) -> Surface:
    """Thin yellow shreds."""
    heap = Heap(canvas)
    for index in range(8):
        angle, shift = canvas.random.uniform(0, np.pi), canvas.random.uniform(-0.3, 0.3, 2)
        path = wave(canvas.random, 1.2, 0.2, 8) @ np.array(
            [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
        )
        heap.strand((path + shift).astype(np.float32), 0.05, vary(canvas.random, (240, 214, 120)), index / 8)
    return heap.surface(0.6, 0.16, 0.4)


def lotus_root(canvas: Canvas) -> Surface:
    """Slices with a ring of holes."""
    height, cover, radius = _disc(canvas, 1.0)
    angle = np.arctan2(canvas.v, canvas.u)
    hole = np.cos(angle * 8) * 0.5 - np.abs(radius - 0.55) * 4.2 + 0.12
    open_ = np.clip(hole * 9, 0, 1) * (radius > 0.2)
    middle = np.clip((0.12 - radius) * 14, 0, 1)
    gap = np.clip(open_ + middle, 0, 1)
    colour = mix(canvas.paint((246, 228, 200)), (222, 186, 146), np.clip(radius - 0.7, 0, 1) * 2.4)
    return Surface(height - 0.04 * gap, cover, mix(colour, (96, 66, 44), gap * 0.9), 0.5, 0.12, (210, 176, 136))


def bamboo_shoot(canvas: Canvas) -> Surface:
    """Cream slices with a comb pattern."""
    height, cover = slab(canvas, 0.36, 0.84, 0.1, 0.03, 0.08)
    comb = np.clip(np.sin(canvas.u * 22) * 3, -1, 1) * (np.abs(canvas.v) < 0.22)
    colour = mix(canvas.paint((244, 226, 166)), (206, 174, 100), np.clip(-comb, 0, 1) * 0.6)
    return Surface(height + 0.03 * comb, cover, colour, 0.45, 0.1)


def mushroom(canvas: Canvas) -> Surface:
    """Brown caps with a cut star, and here and there the pale underside."""
    height, cover = blob(canvas, 0.78, 0.84, 0.06)
    radius, angle = np.hypot(canvas.u, canvas.v), np.arctan2(canvas.v, canvas.u)
    if canvas.random.random() < 0.3:
        gills = np.sin(angle * 40) * 0.5 + 0.5
        colour = mix(canvas.paint((226, 200, 160)), (170, 130, 90), gills * 0.7)
        colour = mix(colour, (104, 66, 38), np.clip((radius - 0.66) * 9, 0, 1))
        return Surface(
            height * 0.25 + 0.02 * gills,
            cover,
            mix(colour, (206, 170, 126), np.clip((0.24 - radius) * 12, 0, 1)),
            0.3,
            0.1,
        )
    cut = np.clip((0.06 - np.abs(np.sin(angle * 2)) * radius) * 26, 0, 1) * (radius < 0.62)
    colour = mix(mix(canvas.paint((112, 70, 40)), (70, 40, 24), np.clip(canvas.noise(6), 0, 1)), (236, 214, 176), cut)
    return Surface(height * 0.8 - 0.04 * cut, cover, colour, 0.65)


def wood_ear(canvas: Canvas) -> Surface:
    """Black ruffled lobes."""
    height, cover = blob(canvas, 0.7, 0.8, 0.4, 0.5)
    ruffle = canvas.noise(5)
    return Surface(
        height * 0.3 + 0.16 * ruffle, cover, mix(canvas.paint((44, 32, 28)), (92, 66, 50), np.clip(ruffle, 0, 1)), 0.95
    )


def bean_sprout(canvas: Canvas) -> Surface:
    """White threads with a yellow head."""
    heap = Heap(canvas)
    for index in range(5):
        angle, shift = canvas.random.uniform(0, 2 * np.pi), canvas.random.uniform(-0.25, 0.25, 2)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        path = (wave(canvas.random, 1.35, 0.5, 14) @ turn + shift).astype(np.float32)
        heap.strand(path, 0.06, vary(canvas.random, (246, 242, 228), 0.03), index / 5)
        heap.grain(float(path[-1, 0]), float(path[-1, 1]), 0.16, 0.1, angle, (226, 206, 96), index / 5)
    return heap.surface(0.8, 0.2, 0.7)


def pineapple(canvas: Canvas) -> Surface:
    """Yellow wedges with a grain that runs to the point."""
    angle = np.arctan2(canvas.v, canvas.u + 0.9)
    radius = np.hypot(canvas.u + 0.9, canvas.v)
    distance = np.maximum(np.abs(angle) - 0.52, np.maximum(radius - 1.72, 0.42 - radius))
    fibre = np.sin(angle * 44 + canvas.noise(4)) * 0.5 + 0.5
    colour = mix(canvas.paint((250, 206, 52)), (232, 166, 24), fibre * 0.7)
    inside = np.clip(-distance / 0.1, 0, 1)
    return Surface(
        (0.1 * np.sqrt(inside) + 0.02 * fibre).astype(np.float32),
        canvas.soft(distance),
        colour,
        0.7,
        0.2,
        (222, 158, 2),
    )
