"""What food is served in: plates, bowls, pots, steamers and pans, seen from several heights.

A vessel is a stack of rings from its foot to its rim, each an ellipse in the picture, then the rim, then the inside.
Where it hides food is known, so that food lies *in* a bowl. Units are the radius of the rim.

Cost: some 20 milliseconds for each vessel of each restaurant and height of view; they are made once and kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageFilter

from finegraph.data.menu.chance import chance
from finegraph.data.menu.surface import Colour, Field, noise

RADIUS = 122
"""Pixels from the middle of a vessel to its rim, in the scene."""
SIDE = 352
"""Pixels of the picture of a vessel."""
VIEWS = (0.97, 0.88, 0.78, 0.68)
"""How much a circle on the table is squeezed, for each height of view: 1 is from straight above."""


@dataclass(frozen=True)
class Shape:
    """The form of a vessel.

    Attributes:
        height: of the rim above the table.
        foot: the radius at the table.
        rim: how wide the rim is.
        floor: how deep below the rim the food lies.
        square: 2 for round, more for corners.
        deep: how much shorter it is from back to front than from side to side.
        handle: None, "ears" or "long".
    """

    height: float
    foot: float
    rim: float
    floor: float
    square: float = 2.0
    deep: float = 1.0
    handle: str | None = None


SHAPES: dict[str, Shape] = {
    "plate": Shape(0.12, 0.6, 0.26, 0.09),
    "oval plate": Shape(0.1, 0.6, 0.2, 0.08, 2.0, 0.76),
    "square plate": Shape(0.1, 0.7, 0.16, 0.07, 7.0),
    "bowl": Shape(0.55, 0.45, 0.06, 0.14),
    "clay pot": Shape(0.5, 0.78, 0.1, 0.12, handle="ears"),
    "steamer": Shape(0.34, 1.0, 0.1, 0.18),
    "skillet": Shape(0.16, 0.86, 0.07, 0.12, handle="long"),
}
_OWN_COLOURS: dict[str, tuple[Colour, Colour]] = {
    "clay pot": ((106, 66, 42), (150, 104, 66)),
    "steamer": ((206, 164, 98), (226, 192, 128)),
    "skillet": ((46, 44, 46), (58, 56, 58)),
}
"""Outside and inside of vessels that look the same in every restaurant."""


class Ware(NamedTuple):
    """The crockery of a restaurant: the colour of the glaze, the colour of the decoration, and its pattern."""

    glaze: Colour
    trim: Colour
    pattern: str


_NO_WARE = Ware((0, 0, 0), (0, 0, 0), "plain")


class Vessel(NamedTuple):
    """A picture of a vessel.

    Attributes:
        back: all of it, with its shadow.
        mask: where food may be seen: within the rim, and above it behind; None for flat ones.
        inside: half the width and half the height of the part where food lies, in pixels.
        lift: how far above the middle of the picture that part has its middle, in pixels.
    """

    back: Image.Image
    mask: Image.Image | None
    inside: tuple[float, float]
    lift: float


@lru_cache(maxsize=160)
def vessel(kind: str, ware: Ware, view: int) -> Vessel:
    """The picture of a vessel, from one of the heights of `VIEWS`."""
    if kind in _OWN_COLOURS and ware != _NO_WARE:
        return vessel(kind, _NO_WARE, view)
    shape, squeeze = SHAPES[kind], VIEWS[view]
    draw = _Drawing(kind, ware, shape, squeeze)
    draw.shadow()
    draw.handles()
    draw.body()
    seen = draw.rim_and_inside()
    back = draw.picture()
    mask = Image.fromarray((seen * 255).astype(np.uint8)) if shape.floor > 0.1 else None
    inner = (1 - shape.rim) * RADIUS
    lift = (shape.height - shape.floor) * draw.rise * RADIUS
    return Vessel(back, mask, (inner, inner * shape.deep * squeeze), lift)


class _Drawing:
    """A vessel that is being drawn, as colour and cover."""

    def __init__(self, kind: str, ware: Ware, shape: Shape, squeeze: float) -> None:
        self.kind, self.ware, self.shape, self.squeeze = kind, ware, shape, squeeze
        self.rise = float(np.sqrt(1 - squeeze**2))
        line = ((np.arange(SIDE) + 0.5 - SIDE / 2) / RADIUS).astype(np.float32)
        self.x, self.y = np.meshgrid(line, line)
        self.colour = np.zeros((SIDE, SIDE, 3), dtype=np.float32)
        self.cover = np.zeros((SIDE, SIDE), dtype=np.float32)
        outside, inside = _OWN_COLOURS.get(kind, (ware.glaze, ware.glaze))
        self.outside, self.inside = np.asarray(outside, dtype=np.float32), np.asarray(inside, dtype=np.float32)
        self.random = chance("vessel", kind, *ware)

    def radius(self, lift: float) -> Field:
        """How far each point is from the axis, if it lies at some height; 1 at the rim."""
        power = np.float32(self.shape.square)
        y = (self.y + lift * self.rise) / (self.squeeze * self.shape.deep)
        if power == 2:
            return np.sqrt(self.x**2 + y**2)
        far: Field = (np.abs(self.x) ** power + np.abs(y) ** power) ** (1 / power)
        return far

    def put(self, colour: Field, share: Field) -> None:
        """Paint over what is there."""
        rows = np.flatnonzero(share.any(axis=1))
        if not len(rows):
            return
        part = slice(int(rows[0]), int(rows[-1]) + 1)  # the others stay as they are
        self.colour[part] += (colour[part] - self.colour[part]) * share[part, :, None]
        np.maximum(self.cover[part], share[part], out=self.cover[part])

    def edge(self, distance: Field) -> Field:
        """A soft edge where a distance (in radii) becomes positive."""
        share: Field = np.clip(0.5 - distance * RADIUS, 0, 1)
        return share

    def shadow(self) -> None:
        """A soft shadow on the table, to the lower right."""
        reach = 0.05 + 0.22 * self.shape.height
        power = np.float32(self.shape.square)
        x, y = self.x - reach, (self.y - reach * 0.9) / (self.squeeze * self.shape.deep)
        radius = (np.abs(x) ** power + np.abs(y) ** power) ** (1 / power)
        self.cast = np.clip((1.1 - radius) / 0.22, 0, 1) * 0.55

    def handles(self) -> None:
        """Ears on a pot, or the handle of a pan."""
        y = self.y + self.shape.height * self.rise * 0.9
        if self.shape.handle == "ears":
            out = np.maximum(np.abs(np.abs(self.x) - 1.06) - 0.12, np.abs(y) - 0.17)
        elif self.shape.handle == "long":
            out = np.maximum(np.abs(self.x - 1.2) - 0.35, np.abs(y - 0.02) - 0.085)
        else:
            return
        tone = (0.8 - 1.6 * y)[..., None]
        self.put(self.outside * np.clip(tone, 0.5, 1.2), self.edge(out))

    def body(self) -> None:
        """The wall from the foot to the rim."""
        shape = self.shape
        for part in np.linspace(0, 1, max(3, round(shape.height * self.rise * RADIUS / 4))).tolist():
            wide = shape.foot + (1 - shape.foot) * part**0.55
            inside = self.edge(self.radius(shape.height * part) - wide)
            side = 0.82 - 0.34 * self.x / wide - 0.2 * (1 - part)
            tone = self.outside * np.clip(side, 0.3, 1.1)[..., None]
            if self.kind == "steamer":
                tone = tone * (0.86 + 0.14 * np.sin(np.arcsin(np.clip(self.x / wide, -1, 1)) * 46))[..., None]
            elif self.ware.pattern in ("band", "key") and 0.55 < part < 0.75 and self.kind == "bowl":
                tone = np.asarray(self.ware.trim, dtype=np.float32) * np.clip(side, 0.3, 1.1)[..., None]
            self.put(tone, inside)

    def rim_and_inside(self) -> Field:
        """The rim, its pattern, and the inside; returns where food can be seen."""
        shape = self.shape
        radius = self.radius(shape.height)
        inner = 1 - shape.rim
        place = np.clip((radius - inner) / shape.rim, 0, 1)
        angle = np.arctan2(self.y + shape.height * self.rise, self.x)
        facing = np.cos(angle - np.pi * 1.25)  # 1 towards the light
        slope = facing * (0.16 - 0.3 * np.sqrt(np.clip(place, 0, 1)))
        rim = self._decorated(place, angle) * (0.97 + slope)[..., None]
        rim = rim + 60 * (np.exp(-(((place - 0.9) / 0.07) ** 2)) * np.clip(facing, 0, 1) ** 2)[..., None]
        whole = self.edge(radius - 1)
        self.put(rim, whole)
        within = self.edge(radius - inner)
        depth = np.clip(radius / inner, 0, 1)
        tone = 0.96 - facing * 0.34 * depth**3 * min(1.0, shape.floor * 6) - 0.1 * depth**6
        floor = self.inside * tone[..., None]
        if self.kind == "steamer":
            slats = 0.84 + 0.16 * np.sign(np.sin(self.y * 34))
            floor = floor * slats[..., None]
        self.put(floor, within)
        behind = (self.y < -shape.height * self.rise).astype(np.float32) * self.edge(np.abs(self.x) - inner)
        return np.maximum(within, behind)

    def _decorated(self, place: Field, angle: Field) -> Field:
        """The colour of the rim: plain, or with the pattern of the restaurant."""
        glaze = np.broadcast_to(self.outside, (SIDE, SIDE, 3)).copy()
        trim = np.asarray(self.ware.trim, dtype=np.float32)
        if self.kind in _OWN_COLOURS:
            if self.kind == "steamer":
                glaze *= (0.9 + 0.1 * np.sin(angle * 60 + place * 9))[..., None]
            return glaze * (0.94 + 0.08 * noise(self.random, SIDE, 40))[..., None]
        pattern = self.ware.pattern
        if pattern == "band":
            mark = (np.abs(place - 0.82) < 0.08) | (np.abs(place - 0.2) < 0.05)
            mark |= (np.sin(angle * 26) * 0.16 > np.abs(place - 0.5) - 0.1) & (np.abs(place - 0.5) < 0.2)
        elif pattern == "line":
            mark = np.abs(place - 0.9) < 0.07
        elif pattern == "key":
            mark = (np.abs(place - 0.6) < 0.22) & (np.sin(angle * 34) > -0.2) | (np.abs(place - 0.93) < 0.07)
        elif pattern == "speckle":
            mark = noise(self.random, SIDE, 110) > 0.62
        elif pattern == "petals":
            mark = np.abs(np.sin(angle * 7)) * 0.8 > place + 0.1
        else:
            return glaze
        share = np.asarray(Image.fromarray(mark.astype(np.uint8) * 255).filter(ImageFilter.BoxBlur(0.8)))
        return glaze + (trim - glaze) * (share.astype(np.float32) / 255 * 0.9)[..., None]

    def picture(self) -> Image.Image:
        """All of it with its shadow, see-through around."""
        grain = 1 + 0.02 * noise(self.random, SIDE, 60)
        total = self.cover + self.cast * (1 - self.cover)
        made = np.empty((SIDE, SIDE, 4), dtype=np.uint8)
        tone = self.colour * grain[..., None] * (self.cover / np.maximum(total, 1e-4))[..., None]
        made[..., :3] = np.clip(tone, 0, 255)
        made[..., 3] = np.clip(total * 255, 0, 255)
        return Image.fromarray(made)
