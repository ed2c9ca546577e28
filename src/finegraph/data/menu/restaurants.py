"""The six restaurants: their crockery, tables, light, portions and the way they put food on a plate."""

from __future__ import annotations

from dataclasses import dataclass

from finegraph.data.menu.surface import Colour
from finegraph.data.menu.vessels import Ware


@dataclass(frozen=True)
class Restaurant:
    """One restaurant.

    Attributes:
        name: as it stands in the graph.
        wares: its crockery.
        tables: the table tops it has.
        light: the colour of its light.
        lamp: how much the light falls off towards the edge of the picture, 0 to 1.
        exposure: how bright its photos usually are.
        portion: how much there is on a plate; 1 is usual.
        cut: how large pieces are cut.
        heap: how high food is heaped; 1 is usual.
        garnish: what is strewn on top that is no ingredient of the list: "coriander", "sesame" or "".
        house: ingredients that it likes to add to dishes others make without, the dearest first.
        mirrored: whether light comes from the right.
        share: how much of the whole menu is its own.
        price_level: what a dish costs here, as a multiple of the usual price.
    """

    name: str
    wares: tuple[Ware, ...]
    tables: tuple[str, ...]
    light: Colour
    lamp: float
    exposure: float
    portion: float
    cut: str
    heap: float
    garnish: str
    house: tuple[str, ...]
    mirrored: bool
    share: float
    price_level: float


_WHITE = Ware((246, 246, 244), (226, 226, 226), "line")
"""Plain crockery, as all of them have."""

RESTAURANTS: tuple[Restaurant, ...] = (
    Restaurant(
        "Jade Lantern",
        (Ware((244, 243, 238), (40, 70, 150), "band"), Ware((240, 240, 236), (40, 70, 150), "line"), _WHITE),
        ("walnut", "red lacquer", "linen"),
        (255, 240, 216),
        0.42,
        1.02,
        1.0,
        "usual",
        1.0,
        "coriander",
        ("scallion", "mushroom"),
        False,
        1.25,
        1.0,
    ),
    Restaurant(
        "The Copper Wok",
        (Ware((72, 72, 78), (176, 112, 62), "line"), Ware((112, 98, 88), (66, 56, 52), "speckle"), _WHITE),
        ("oak", "slate", "walnut"),
        (255, 232, 204),
        0.42,
        1.04,
        1.15,
        "large",
        1.25,
        "sesame",
        ("onion", "carrot"),
        True,
        1.1,
        1.15,
    ),
    Restaurant(
        "Willow Kitchen",
        (Ware((196, 214, 196), (120, 150, 126), "petals"), Ware((206, 220, 206), (90, 130, 106), "line"), _WHITE),
        ("bamboo mat", "linen", "oak"),
        (250, 252, 248),
        0.25,
        1.02,
        0.85,
        "small",
        0.85,
        "",
        ("carrot", "pea"),
        False,
        0.9,
        1.45,
    ),
    Restaurant(
        "Harbour Moon",
        (Ware((250, 250, 250), (178, 150, 90), "line"), Ware((248, 248, 250), (200, 200, 206), "plain"), _WHITE),
        ("marble", "blue tiles", "linen"),
        (240, 247, 255),
        0.2,
        1.02,
        0.9,
        "usual",
        1.1,
        "",
        ("ginger", "scallion"),
        True,
        1.0,
        0.8,
    ),
    Restaurant(
        "Auntie Fen's",
        (Ware((246, 240, 226), (190, 40, 36), "key"), Ware((244, 236, 216), (190, 40, 36), "line"), _WHITE),
        ("checked cloth", "oak", "marble"),
        (255, 248, 232),
        0.3,
        1.0,
        1.2,
        "large",
        1.15,
        "coriander",
        ("chilli", "red pepper"),
        False,
        1.0,
        0.9,
    ),
    Restaurant(
        "Nine Clouds Noodle House",
        (Ware((226, 214, 190), (110, 80, 50), "speckle"), Ware((150, 160, 170), (70, 84, 104), "petals"), _WHITE),
        ("green cloth", "slate", "bamboo mat"),
        (255, 246, 230),
        0.34,
        1.03,
        1.05,
        "small",
        1.0,
        "sesame",
        ("bean sprout", "egg"),
        True,
        0.75,
        1.25,
    ),
)
