"""Inventing a menu: dishes with names that list their ingredients, and the version of each restaurant.

All chance comes from the seed, so a menu is the same whenever it is made. Cost: some milliseconds per hundred dishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from finegraph.data.menu.chance import chance
from finegraph.data.menu.ingredients import BY_NAME, INGREDIENTS
from finegraph.data.menu.methods import METHODS, PARTNERS, STAPLES_FIRST, Method
from finegraph.data.menu.plating import Portion
from finegraph.data.menu.restaurants import RESTAURANTS, Restaurant
from finegraph.data.menu.scene import Serving
from finegraph.data.menu.vessels import SHAPES

AMOUNT_NOISE = 0.48
"""How much the amount of an ingredient differs from day to day: the deviation of its logarithm."""
SIZE_NOISE = 0.25
"""How far the size of a whole plate may be from the usual one, as a part of it."""
BEDS = frozenset(one.name for one in INGREDIENTS if one.role == "staple")
"""What other things can lie on."""


@dataclass(frozen=True)
class Dish:
    """A dish in any restaurant: its name, its method, and its ingredients, the most important first."""

    name: str
    method: Method
    ingredients: tuple[str, ...]


@dataclass(frozen=True)
class MenuItem:
    """A fine label: a dish of one restaurant."""

    label: str
    dish: Dish
    serving: Serving

    @property
    def ingredients(self) -> tuple[str, ...]:
        """What this restaurant puts into it."""
        return tuple(portion.ingredient for portion in self.serving.portions)

    def on(self, day: int, seed: int) -> Serving:
        """The dish as it comes on one day: no cook's hand is the same every day."""
        random = chance("cooked", seed, self.label, day)
        usual = self.serving
        method = self.dish.method
        arrangement = usual.arrangement if random.random() < 0.5 else _one_of(method.arrangements, random)
        portions = (
            sorted(usual.portions, key=lambda portion: portion.ingredient in BEDS)
            if arrangement == "bed"
            else usual.portions
        )
        return replace(
            usual,
            portions=tuple(
                Portion(one.ingredient, float(one.amount * np.exp(random.normal(0, AMOUNT_NOISE)))) for one in portions
            ),
            sauce=usual.sauce if random.random() < 0.7 else _one_of(method.sauces, random),
            vessel=usual.vessel if random.random() < 0.45 else _one_of(_vessels(method, arrangement), random),
            ware=int(random.integers(len(usual.restaurant.wares))),
            arrangement=arrangement,
            size=float(usual.size * random.uniform(1 - SIZE_NOISE, 1 + SIZE_NOISE)),
            wet=round(float(np.clip(usual.wet * random.uniform(0.5, 1.3), 0, 1)), 1),
        )


def invent_dishes(count: int, pantry: Sequence[str], seed: int) -> list[Dish]:
    """This many dishes with names of their own, made of what is in the pantry; everything there is used.

    Args:
        count: how many; at least as many as ingredients.
        pantry: the names of the ingredients that there are.
        seed: the seed of random choices.
    """
    random = chance("dishes", seed)
    dishes: dict[str, Dish] = {}
    wanted = iter([*pantry, *[""] * (50 * count)])
    while len(dishes) < count:
        must = next(wanted)
        for _ in range(200):
            dish = _invent(random, pantry, must)
            if dish is not None and dish.name not in dishes:
                dishes[dish.name] = dish
                break
    return [dishes[name] for name in sorted(dishes)]


def _invent(random: np.random.Generator, pantry: Sequence[str], must: str) -> Dish | None:
    """A dish by chance; None if chance leads nowhere, or not to the ingredient it must have."""
    weights = np.array([method.weight for method in METHODS])
    method = METHODS[int(random.choice(len(METHODS), p=weights / weights.sum()))]
    mains = [name for name in method.mains if name in pantry]
    if not mains or (method.adds and method.adds not in pantry):
        return None
    main = must if must in mains else mains[int(random.integers(len(mains)))]
    partners = [name for name in PARTNERS if name in pantry and name not in (main, method.adds)]
    number = int(random.integers(1, method.max_further + 1))
    likely = 1 / (np.arange(len(partners)) + 6.0)
    chosen = random.choice(len(partners), size=min(number, len(partners)), replace=False, p=likely / likely.sum())
    rest = [partners[int(index)] for index in chosen]
    if must in partners and must not in rest:
        rest[-1] = must
    names = [main, *rest]
    if must and must not in (*names, method.adds):
        return None
    word = "and" if "with" in method.name else "with"
    name = f"{method.name.format(main)} {word} {_listed(rest)}"
    if method.adds:
        names.insert(0 if method.adds in STAPLES_FIRST else len(names), method.adds)
    return Dish(name, method, tuple(names))


def _vessels(method: Method, arrangement: str) -> list[str]:
    """What a dish can be served in; broth would run off a plate."""
    return [vessel for vessel in method.vessels if arrangement != "broth" or SHAPES[vessel].floor > 0.1]


def _one_of(options: Sequence[str], random: np.random.Generator) -> str:
    return options[int(random.integers(len(options)))]


def _listed(names: Sequence[str]) -> str:
    """Names as one says them: a, b and c."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def serve_dishes(dishes: Sequence[Dish], shared: Mapping[int, int], pantry: Sequence[str], seed: int) -> list[MenuItem]:
    """Say which restaurants serve each dish.

    Args:
        dishes: all dishes.
        shared: how many dishes are served by 2, 3, ... restaurants; all others by one.
        pantry: the names of the ingredients that there are.
        seed: the seed of random choices.

    Returns:
        The fine labels, restaurant by restaurant, and for each in the order of the dishes.
    """
    random = chance("who serves", seed)
    many = np.ones(len(dishes), dtype=int)
    order = random.permutation(len(dishes))
    start = 0
    for restaurants, number in shared.items():
        many[order[start : start + number]] = restaurants
        start += number
    share = np.array([restaurant.share for restaurant in RESTAURANTS])
    items = []
    for dish, number in zip(dishes, many, strict=True):
        drawn = random.choice(len(RESTAURANTS), size=int(number), replace=False, p=share / share.sum())
        for index in sorted(drawn.tolist()):
            items.append(_item(dish, RESTAURANTS[index], pantry, seed, first=index == int(drawn[0])))
    places = {restaurant.name: place for place, restaurant in enumerate(RESTAURANTS)}
    return sorted(items, key=lambda item: places[item.serving.restaurant.name])


def _item(dish: Dish, restaurant: Restaurant, pantry: Sequence[str], seed: int, first: bool) -> MenuItem:
    """A dish as one restaurant serves it; all but the first change it in their own way."""
    random = chance("item", seed, dish.name, restaurant.name)
    names = list(dish.ingredients)
    if not first:
        names = _changed(names, dish, restaurant, pantry, random)
    method = dish.method
    sauce, arrangement = _one_of(method.sauces, random), _one_of(method.arrangements, random)
    serving = Serving(
        restaurant=restaurant,
        portions=tuple(_portions(names, arrangement, random)),
        sauce=sauce,
        vessel=_one_of(_vessels(method, arrangement), random),
        ware=int(random.integers(len(restaurant.wares))),
        arrangement=arrangement,
        size=float(random.uniform(0.88, 1.14)),
        wet=round(float(method.wet * random.uniform(0.7, 1.1)), 1),
        steams=method.steams,
    )
    return MenuItem(f"{dish.name} @ {restaurant.name}", dish, serving)


def _changed(
    names: list[str], dish: Dish, restaurant: Restaurant, pantry: Sequence[str], random: np.random.Generator
) -> list[str]:
    """The ingredients as another restaurant has them: its favourite comes in, or something is left out."""
    favourites = [name for name in restaurant.house if name in pantry and name not in names]
    if favourites and random.random() < 0.6:
        return [*names, favourites[0]]
    last = next((name for name in reversed(names) if name != dish.method.adds), "")
    if len(names) > 2 and names.index(last) > 1 and random.random() < 0.6:
        return [name for name in names if name != last]
    return names


def _portions(names: Sequence[str], arrangement: str, random: np.random.Generator) -> Iterator[Portion]:
    """How much there is of each ingredient."""
    if arrangement == "bed":  # what the rest lies on comes last
        names = sorted(names, key=lambda name: name in BEDS)
    for place, name in enumerate(names):
        role = BY_NAME[name].role
        if role == "staple":
            usual = 0.8
        elif place == 0:
            usual = 0.75
        else:
            usual = {"main": 0.4, "vegetable": 0.42, "accent": 0.5}[role]
        if len(names) > 3 and role != "accent":
            usual *= 0.85
        yield Portion(name, float(usual * random.uniform(0.75, 1.25)))
