"""The menu: invented dishes of six restaurants, with any number of photos of each.

Nothing is stored. A photo is drawn when it is asked for, and depends on the seed, its fine label, its split and its
number alone: the same photo has the same bytes in whatever order photos are drawn, and in whatever process.

Cost: a menu some 0.2 s; a photo about 12 ms on one core, once the pictures of its ingredients are made.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from PIL import Image

from finegraph.data.menu.camera import CONTROLLED, WILD, take
from finegraph.data.menu.chance import chance
from finegraph.data.menu.dishes import MenuItem, invent_dishes, serve_dishes
from finegraph.data.menu.item_values import HEATS, heat_of, price_of, served_grams, weight_of
from finegraph.data.menu.restaurants import Restaurant
from finegraph.data.menu.scene import Moment, Serving, draw_scene
from finegraph.data.menu.sizes import SIZES, photo_counts
from finegraph.data.menu.vessels import VIEWS
from finegraph.errors import InputError, unknown_name
from finegraph.graph.kind import Kind
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.number import Number

SPLITS = ("train", "val", "test", "wild")
"""The splits, in the order in which photos are listed."""
DAYS = {"train": range(20), "val": range(20), "test": range(20, 26), "wild": range(26, 60)}
"""The days on which the photos of each split are taken; no test photo is of a day that was trained on."""


@dataclass(frozen=True, slots=True)
class Photo:
    """One photo of a menu: the `number`-th of its fine label in its split."""

    label: str
    split: str
    number: int
    path: str
    """Where it is written, below the folder of the menu."""


class Menu:
    """A menu of drawn dishes.

    Args:
        size: `small` or `full`.
        seed: another seed makes another menu with other photos.

    Example:
        >>> menu = Menu.of_size("small")
        >>> len(menu.graph()), len(menu.photos), menu.items[0].serving.restaurant.name
        (60, 1350, 'Jade Lantern')
        >>> menu.draw(menu.photos[0]).size
        (256, 256)
    """

    def __init__(self, size: str = "small", seed: int = 0) -> None:
        if size not in SIZES:
            raise unknown_name("size of a menu", size, tuple(SIZES))
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InputError(f"seed: expected a whole number from 0 on, got {seed!r}")
        self.size, self.seed = size, seed
        wanted = SIZES[size]
        dishes = invent_dishes(wanted.dishes, wanted.pantry, seed)
        self.items: tuple[MenuItem, ...] = tuple(serve_dishes(dishes, wanted.shared, wanted.pantry, seed))
        self._by_label = {item.label: item for item in self.items}

    @classmethod
    def of_size(cls, size: str, seed: int = 0) -> Menu:
        """The menu of a size; the same as calling the class."""
        return cls(size, seed)

    @cached_property
    def photos(self) -> tuple[Photo, ...]:
        """All photos, fine label by fine label."""
        return tuple(self._list())

    def _list(self) -> Iterator[Photo]:
        counts = photo_counts(SIZES[self.size], self.seed)
        for index, item in enumerate(self.items):
            folder = f"{index:03d}-{re.sub('[^a-z0-9]+', '-', item.dish.name.lower())}"
            for split in SPLITS:
                for number in range(int(counts[split][index])):
                    yield Photo(item.label, split, number, f"photos/{folder}/{split}-{number:04d}.jpg")

    def graph(self, *, numbers: bool = False) -> LabelGraph:
        """The label graph: dish, restaurant, and a yes-or-no kind for each ingredient.

        Args:
            numbers: whether it also has how hot an item is (ordered labels), what it weighs and what it costs.
        """
        graph = LabelGraph.from_table(
            {
                item.label: {
                    "dish": item.dish.name,
                    "restaurant": item.serving.restaurant.name,
                    "ingredient": list(item.ingredients),
                }
                for item in self.items
            }
        )
        if not numbers:
            return graph
        heats = [HEATS.index(heat_of(item)) for item in self.items]
        weights = [weight_of(item) for item in self.items]
        grams = [round(one.grams) for one in weights], [round(one.spread) for one in weights]
        prices = Number.from_values("price", [price_of(item, self.seed) for item in self.items], 0.0, "log", "EUR")
        heat = replace(Kind.from_parents("heat", HEATS, heats), ordered=True)
        return graph.with_kind(heat).with_number(Number.from_values("portion", *grams, "log", "g")).with_number(prices)

    def grams(self, photo: Photo) -> float:
        """The food on the plate of a photo in grams, without what is already eaten."""
        serving, moment, _ = self._scene_of(photo, self._random_of(photo))
        return served_grams(serving, moment.eaten)

    def draw(self, photo: Photo) -> Image.Image:
        """Draw a photo: a picture of 256 x 256 pixels.

        Raises:
            UnknownNameError: the photo is of another menu.
        """
        if photo.label not in self._by_label:
            raise unknown_name("fine label", photo.label, tuple(self._by_label), "of this menu")
        random = self._random_of(photo)
        serving, moment, bright = self._scene_of(photo, random)
        scene = draw_scene(serving, moment, random)
        camera = WILD if photo.split == "wild" else CONTROLLED
        return take(scene, camera, serving.restaurant.exposure * bright, random)

    def _random_of(self, photo: Photo) -> np.random.Generator:
        """Where the chance of a photo comes from."""
        return chance("photo", self.seed, photo.label, photo.split, photo.number)

    def _scene_of(self, photo: Photo, random: np.random.Generator) -> tuple[Serving, Moment, float]:
        """What a photo is taken of: the dish on its day, what is special about it, and how bright the day is."""
        day = int(random.choice(DAYS[photo.split]))
        serving = self._by_label[photo.label].on(day, self.seed)
        of_day = chance("day", self.seed, serving.restaurant.name, day)
        return serving, *_moment(serving.restaurant, of_day, random, photo.split == "wild")

    def jpeg(self, photo: Photo) -> bytes:
        """Draw a photo, as the bytes of a JPEG file."""
        random = chance("file", self.seed, photo.label, photo.split, photo.number)
        quality = int(random.integers(55, 88)) if photo.split == "wild" else 90
        to = io.BytesIO()
        self.draw(photo).save(to, "JPEG", quality=quality)
        return to.getvalue()


def _moment(
    restaurant: Restaurant, day: np.random.Generator, random: np.random.Generator, wild: bool
) -> tuple[Moment, float]:
    """The peculiarities of one photo, some of them by the day; and how bright the day is."""
    table, warm, bright = int(day.integers(60)), day.normal(0, 0.05), float(np.exp(day.normal(0, 0.07)))
    moment = Moment(
        view=int(random.integers(len(VIEWS))),
        eaten=float(random.uniform(0.2, 0.65)) if wild and random.random() < 0.5 else 0.0,
        things=int(random.integers(1, 5) if wild else random.integers(0, 4)),
        covered=bool(random.random() < (0.25 if wild else 0.1)),
        table=table,
        light=(1 + warm, 1.0, 1 - warm),
        lamp=float(np.clip(restaurant.lamp + day.normal(0, 0.12), 0.05, 0.7)),
        garnish=bool(day.random() < 0.6),
    )
    return moment, bright
