"""A table with one dish on it, before the camera sees it.

The scene is a picture of 384 pixels: table, shadow, vessel, sauce, pieces from the lowest to the uppermost layer with
shade between the layers, garnish, what else lies about, steam, and the light of the place.

Cost: about five milliseconds once the pictures of pieces and vessels are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageChops

from finegraph.data.menu.ingredients import sheet
from finegraph.data.menu.plating import Piece, Plating, Portion, arrange
from finegraph.data.menu.restaurants import Restaurant
from finegraph.data.menu.sauces import VARIANTS, pool, shade_mask, steam
from finegraph.data.menu.surface import Colour
from finegraph.data.menu.table_tops import SIDE as TABLE_SIDE
from finegraph.data.menu.table_tops import THINGS, draw_variant, garnish, table, thing
from finegraph.data.menu.vessels import RADIUS, SHAPES, VIEWS, Vessel, vessel
from finegraph.data.menu.vessels import SIDE as VESSEL_SIDE

SIDE = 384
"""Pixels of a scene."""


@dataclass(frozen=True)
class Serving:
    """How one restaurant serves one dish: all that the photos of a fine label have in common.

    Attributes:
        restaurant: the restaurant.
        portions: what is in it, the most important first.
        sauce: the name of its sauce.
        vessel: what it is served in.
        ware: which of the restaurant's crockery.
        arrangement: how it is arranged; see `plating.ARRANGEMENTS`.
        size: how much there is of it, beside the restaurant's usual portion.
        wet: how much sauce there is.
        steams: whether it comes hot enough to steam.
    """

    restaurant: Restaurant
    portions: tuple[Portion, ...]
    sauce: str
    vessel: str
    ware: int
    arrangement: str
    size: float
    wet: float
    steams: bool


@dataclass(frozen=True)
class Moment:
    """The peculiarities of the scene of one photo.

    Attributes:
        view: from how high it is seen, an index of `vessels.VIEWS`.
        eaten: what part of the food is gone already, 0 to 1.
        things: how many other things lie about.
        covered: whether chopsticks lie across the plate.
        table: which of the restaurant's tables it stands on.
        light: how the colour of the light differs from the usual.
        lamp: how much the light falls off towards the edges.
        garnish: whether something is strewn on top, where the restaurant does that.
    """

    view: int = 1
    eaten: float = 0.0
    things: int = 1
    covered: bool = False
    table: int = 0
    light: tuple[float, float, float] = (1.0, 1.0, 1.0)
    lamp: float = 0.3
    garnish: bool = True


def draw_scene(serving: Serving, moment: Moment, random: np.random.Generator) -> Image.Image:
    """Draw a dish on a table."""
    scene = _table(serving.restaurant, moment.table, random)
    centre = SIDE / 2
    around = vessel(serving.vessel, serving.restaurant.wares[serving.ware], moment.view)
    _lay_about(scene, moment.things, random)
    corner = round(centre - VESSEL_SIDE / 2)
    scene.paste(around.back, (corner, corner), around.back)
    if around.mask is None:
        _serve(scene, serving, moment, around, random)
    else:
        full = scene.copy()
        _serve(full, serving, moment, around, random)
        box = (corner, corner, corner + VESSEL_SIDE, corner + VESSEL_SIDE)
        scene.paste(full.crop(box), box, around.mask)
    if moment.covered:
        over = thing("chopsticks", draw_variant(random))
        x, y = random.uniform(0.1, 0.5, 2) * SIDE - over.width / 4
        scene.paste(over, (round(x), round(y)), over)
    if serving.steams and random.random() < 0.5:
        wisps = steam(int(random.integers(4)))
        scene.paste((250, 250, 250), (round(random.uniform(10, 54)), round(random.uniform(-30, 30))), wisps)
    return _lit(scene, serving.restaurant, moment, random)


def _table(restaurant: Restaurant, number: int, random: np.random.Generator) -> Image.Image:
    """A part of one of the table tops of a restaurant."""
    top = table(restaurant.tables[number % len(restaurant.tables)])
    x, y = random.integers(0, TABLE_SIDE - SIDE, 2).tolist()
    part = top.crop((x, y, x + SIDE, y + SIDE))
    turns = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)
    turn = turns[int(random.integers(4))]
    return part if turn is None else part.transpose(turn)


def _lay_about(scene: Image.Image, number: int, random: np.random.Generator) -> None:
    """Put things on the table beside the plate."""
    start = random.uniform(0, 2 * np.pi)
    for index in range(number):
        name = THINGS[int(random.integers(len(THINGS)))]
        one = thing(name, draw_variant(random))
        turn = start + index * 2.2 + random.normal(0, 0.3)
        far = RADIUS * 1.12 + one.width * (0.1 if name == "chopsticks" else 0.42)
        x, y = SIDE / 2 + far * np.cos(turn), SIDE / 2 + far * np.sin(turn)
        scene.paste(one, (round(x - one.width / 2), round(y - one.height / 2)), one)


def _serve(scene: Image.Image, serving: Serving, moment: Moment, around: Vessel, random: np.random.Generator) -> None:
    """Put the food into the vessel."""
    place = serving.restaurant
    half_wide, half_high = around.inside
    middle = (SIDE / 2, SIDE / 2 - around.lift)
    broth = serving.arrangement == "broth"
    _pour(scene, serving, around, middle, random, thin=1.0, grow=1.0 if broth else 0.94)
    plating = Plating(random, place.heap * (0.35 if broth else 1.0), place.portion * serving.size)
    arrange(serving.arrangement, serving.portions, plating)
    pieces = _left(plating.in_order(), moment.eaten, random)
    rise = RADIUS * float(np.sqrt(1 - VIEWS[moment.view] ** 2))
    layer = -1
    for piece in pieces:
        if piece.layer != layer:
            layer = piece.layer
            _shade_below(scene, around, middle, layer)
            if layer == 1 and (broth or serving.wet > 0.5):
                _pour(
                    scene,
                    serving,
                    around,
                    middle,
                    random,
                    thin=0.5 if broth else 0.28 * serving.wet,
                    grow=1.0 if broth else 0.8,
                )
        pictures = sheet(piece.ingredient, serving.sauce, place.cut)
        picture = pictures[piece.facing if piece.facing >= 0 else int(random.integers(len(pictures)))]
        x = middle[0] + piece.x * half_wide * 0.9
        y = middle[1] + piece.y * half_high * 0.9 - piece.high * (rise * 0.8 + 4)
        scene.paste(picture, (round(x - picture.width / 2), round(y - picture.height / 2)), picture)
    if serving.wet > 0.3 and not moment.eaten:
        _pour(scene, serving, around, (middle[0], middle[1] - 8), random, thin=0.2 * serving.wet, grow=0.5)
    if place.garnish and moment.garnish:
        _garnish(scene, place.garnish, around, middle, rise, random)


def _left(pieces: list[Piece], eaten: float, random: np.random.Generator) -> list[Piece]:
    """What is left of the pieces when a part is eaten, from one side of the plate."""
    if not eaten:
        return pieces
    turn = random.uniform(0, 2 * np.pi)
    cos, sin = np.cos(turn), np.sin(turn)
    edge = np.cos(np.pi * eaten) * 0.8
    return [
        piece
        for piece in pieces
        if piece.x * cos + piece.y * sin + random.normal(0, 0.12) < edge
        and (piece.layer < 2 or random.random() > eaten)
    ]


def _pour(
    scene: Image.Image,
    serving: Serving,
    around: Vessel,
    middle: tuple[float, float],
    random: np.random.Generator,
    *,
    thin: float,
    grow: float,
) -> None:
    """Pour sauce over what is there."""
    wide, high = (2 * round(half * grow) for half in around.inside)
    full = serving.arrangement == "broth" and grow == 1.0
    made = pool(serving.sauce, wide, high, int(random.integers(VARIANTS)), full, round(thin, 1) or 0.1)
    scene.paste(made, (round(middle[0] - wide / 2), round(middle[1] - high / 2)), made)


def _shade_below(scene: Image.Image, around: Vessel, middle: tuple[float, float], layer: int) -> None:
    """Darken what lies below a layer."""
    grow = (1.0, 0.86, 0.6, 0.7, 0.6, 0.5, 0.5)[layer]
    wide, high = (2 * round(half * grow) for half in around.inside)
    mask = shade_mask(wide, high, 88 if layer < 3 else 40)
    move = 6 if layer == 0 else 2
    scene.paste((26, 14, 6), (round(middle[0] - wide / 2 + move), round(middle[1] - high / 2 + move)), mask)


def _garnish(
    scene: Image.Image, name: str, around: Vessel, middle: tuple[float, float], rise: float, random: np.random.Generator
) -> None:
    """Strew something on top."""
    pictures, number = garnish(name)
    for _ in range(round(number * random.uniform(0.5, 1.3))):
        far, turn = np.sqrt(random.uniform(0, 1)) * 0.6, random.uniform(0, 2 * np.pi)
        x = middle[0] + far * np.cos(turn) * around.inside[0]
        y = middle[1] + far * np.sin(turn) * around.inside[1] - rise * 0.2 * (1 - far)
        picture = pictures[int(random.integers(len(pictures)))]
        scene.paste(picture, (round(x - picture.width / 2), round(y - picture.height / 2)), picture)


@lru_cache(maxsize=160)
def _lamp(light: Colour, lamp: float) -> Image.Image:
    """The light of a place: brighter at the upper left, falling off to the edges."""
    side = SIDE + 160
    line = ((np.arange(side) + 0.5) / side * 2 - 1).astype(np.float32)
    far = np.hypot(line[None, :] + 0.22, line[:, None] + 0.28)
    bright = 1 - lamp * np.clip(far - 0.25, 0, 1.4) * 0.62
    made = bright[..., None] * np.asarray(light, dtype=np.float32)
    return Image.fromarray(np.clip(made, 0, 255).astype(np.uint8))


def _lit(scene: Image.Image, restaurant: Restaurant, moment: Moment, random: np.random.Generator) -> Image.Image:
    """The scene in the light of the place and the day."""
    red, green, blue = (min(255, round(a * b)) for a, b in zip(restaurant.light, moment.light, strict=True))
    whole = _lamp((red, green, blue), moment.lamp)
    x, y = random.integers(30, 130, 2).tolist()
    lit = ImageChops.multiply(scene, whole.crop((x, y, x + SIDE, y + SIDE)))
    return lit.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if restaurant.mirrored else lit


def flat(kind: str) -> bool:
    """Whether a vessel is flat, so that broth would run out of it."""
    return SHAPES[kind].floor <= 0.1
