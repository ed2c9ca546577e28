"""Ways of cooking: their names, their ingredients and sauces, and how the dish is served."""

from __future__ import annotations

from dataclasses import dataclass

_MEAT = ("chicken", "beef", "pork", "lamb", "duck", "pork belly", "ribs", "meatball", "sausage")
_SEA = ("shrimp", "fish", "squid", "scallop", "clam", "crab")
_SOY = ("tofu", "tofu puff", "egg")
_GREEN = (
    "green bean",
    "broccoli",
    "bok choy",
    "spinach",
    "cabbage",
    "eggplant",
    "mushroom",
    "lotus root",
    "cauliflower",
    "potato",
    "bamboo shoot",
    "wood ear",
    "bean sprout",
    "tomato",
    "cucumber",
    "carrot",
)
_PLATES = ("plate", "oval plate", "square plate")


@dataclass(frozen=True)
class Method:
    """A way of cooking.

    Attributes:
        name: with {} for the main ingredient.
        mains: what it may be made with.
        sauces: the sauces that it may have; restaurants differ in that.
        vessels: what it may be served in.
        arrangements: how it may be arranged; see `plating.ARRANGEMENTS`.
        wet: how much sauce there is.
        weight: how common it is.
        adds: an ingredient that always goes with it; "" for none.
        steams: whether it comes steaming hot.
        max_further: the largest number of further ingredients.
    """

    name: str
    mains: tuple[str, ...]
    sauces: tuple[str, ...]
    vessels: tuple[str, ...]
    arrangements: tuple[str, ...]
    wet: float
    weight: float
    adds: str = ""
    steams: bool = False
    max_further: int = 3


METHODS: tuple[Method, ...] = (
    Method(
        "stir-fried {}",
        (*_MEAT[:4], *_SEA[:4], *_SOY, *_GREEN),
        ("oyster", "clear"),
        _PLATES,
        ("heap", "ring", "heap"),
        0.5,
        3.0,
    ),
    Method(
        "braised {}",
        (*_MEAT, "fish", *_SOY, "eggplant", "potato"),
        ("soy",),
        ("bowl", "plate", "clay pot"),
        ("heap", "ring"),
        0.9,
        1.6,
    ),
    Method(
        "steamed {}",
        (*_SEA, "tofu", "egg", "pork", "ribs"),
        ("clear", "soy"),
        ("oval plate", "plate", "steamer"),
        ("rows", "heap"),
        0.4,
        1.1,
        steams=True,
    ),
    Method(
        "sweet and sour {}",
        ("chicken", "pork", "ribs", "shrimp", "fish", "meatball", "tofu puff"),
        ("sweet and sour",),
        _PLATES,
        ("heap", "sides"),
        0.9,
        1.0,
    ),
    Method(
        "{} curry",
        ("chicken", "beef", "lamb", "shrimp", "fish", "tofu puff", "potato", "cauliflower"),
        ("curry",),
        ("bowl", "plate", "clay pot"),
        ("heap", "sides"),
        1.0,
        1.0,
    ),
    Method(
        "{} in black bean sauce",
        ("beef", "chicken", "ribs", "clam", "squid", "fish", "tofu", "eggplant"),
        ("black bean",),
        _PLATES,
        ("heap",),
        0.7,
        0.9,
    ),
    Method(
        "salt and pepper {}",
        ("squid", "shrimp", "ribs", "chicken", "tofu", "tofu puff", "crab", "mushroom"),
        ("dry",),
        _PLATES,
        ("heap", "rows"),
        0.0,
        0.9,
    ),
    Method(
        "sizzling {}",
        (*_MEAT[:4], "shrimp", "squid", "scallop", "tofu"),
        ("pepper",),
        ("skillet",),
        ("heap", "sides"),
        0.6,
        0.9,
        steams=True,
    ),
    Method(
        "clay pot {}",
        (*_MEAT, "tofu", "tofu puff", "fish", "eggplant", "mushroom"),
        ("soy", "oyster"),
        ("clay pot",),
        ("heap", "ring"),
        0.8,
        0.9,
        steams=True,
    ),
    Method(
        "{} soup",
        ("meatball", "ribs", "fish", "clam", "tofu", "chicken", "dumpling", "egg", "spinach", "mushroom"),
        ("broth",),
        ("bowl", "clay pot"),
        ("broth",),
        1.0,
        1.0,
        steams=True,
    ),
    Method(
        "hot and sour {} soup",
        ("tofu", "fish", "chicken", "shrimp", "pork", "dumpling"),
        ("red broth",),
        ("bowl",),
        ("broth",),
        1.0,
        0.6,
        steams=True,
    ),
    Method(
        "fiery {}",
        ("fish", "beef", "chicken", "tofu", "shrimp", "lamb", "crab", "potato"),
        ("chilli oil",),
        ("bowl", "plate"),
        ("heap", "bed"),
        1.0,
        0.9,
        adds="chilli",
    ),
    Method(
        "chilled {}",
        ("cucumber", "wood ear", "tofu", "chicken", "lotus root", "spinach", "bean sprout", "egg", "tomato"),
        ("clear", "herb"),
        ("plate", "square plate"),
        ("heap", "rows"),
        0.3,
        0.7,
        max_further=2,
    ),
    Method(
        "garlic {}",
        ("shrimp", "scallop", "pork", "eggplant", "green bean", "broccoli", "clam", "spinach", "crab"),
        ("garlic",),
        _PLATES,
        ("heap", "ring"),
        0.6,
        0.8,
        adds="garlic",
    ),
    Method(
        "{} fried rice",
        ("shrimp", "chicken", "egg", "sausage", "beef", "crab", "pork", "pineapple", "duck"),
        ("clear", "oyster"),
        ("plate", "bowl", "skillet"),
        ("heap", "bed"),
        0.0,
        0.9,
        adds="rice",
    ),
    Method(
        "{} fried noodles",
        ("shrimp", "chicken", "beef", "pork", "squid", "tofu puff", "cabbage", "mushroom", "duck"),
        ("soy", "oyster"),
        ("plate", "oval plate", "skillet"),
        ("heap", "bed"),
        0.2,
        0.9,
        adds="noodles",
    ),
    Method(
        "{} noodle soup",
        ("beef", "pork belly", "ribs", "fish", "meatball", "egg", "duck", "shrimp", "bok choy"),
        ("broth", "red broth"),
        ("bowl",),
        ("broth",),
        1.0,
        0.9,
        adds="noodles",
        steams=True,
    ),
    Method(
        "glass noodles with {}",
        ("crab", "shrimp", "pork", "scallop", "cabbage", "wood ear"),
        ("soy", "garlic"),
        ("clay pot", "plate", "bowl"),
        ("heap", "bed"),
        0.4,
        0.6,
        adds="glass noodles",
    ),
    Method(
        "{} over rice",
        (*_MEAT, "egg", "tofu", "eggplant", "shrimp"),
        ("soy", "oyster"),
        ("bowl", "plate"),
        ("bed", "sides"),
        0.5,
        1.0,
        adds="rice",
    ),
    Method(
        "rice cake with {}",
        ("pork", "crab", "beef", "cabbage", "chicken", "spinach"),
        ("soy", "chilli oil"),
        _PLATES,
        ("heap",),
        0.6,
        0.5,
        adds="rice cake",
    ),
    Method(
        "pan-fried dumpling with {}",
        ("cabbage", "pork", "shrimp", "lamb", "corn", "mushroom"),
        ("dry",),
        ("plate", "skillet", "oval plate"),
        ("rows", "heap"),
        0.0,
        0.5,
        adds="dumpling",
        max_further=1,
    ),
    Method(
        "steamed bun with {}",
        ("pork", "pork belly", "duck", "egg", "spinach", "mushroom"),
        ("dry",),
        ("steamer", "plate"),
        ("sides", "heap"),
        0.0,
        0.5,
        adds="bun",
        steams=True,
        max_further=1,
    ),
    Method(
        "roast {}",
        ("duck", "pork belly", "chicken", "ribs", "lamb", "fish"),
        ("dry", "pepper"),
        _PLATES,
        ("rows", "heap"),
        0.2,
        0.7,
    ),
    Method(
        "herb {}",
        ("chicken", "fish", "lamb", "squid", "clam", "potato"),
        ("herb",),
        _PLATES,
        ("heap", "sides"),
        0.6,
        0.5,
    ),
)

STAPLES_FIRST = frozenset({"dumpling", "bun", "rice cake", "noodles", "glass noodles"})
"""Added ingredients that are the larger part of the dish."""
PARTNERS: tuple[str, ...] = (
    "scallion",
    "garlic",
    "carrot",
    "green pepper",
    "onion",
    "mushroom",
    "red pepper",
    "bok choy",
    "ginger",
    "chilli",
    "broccoli",
    "pea",
    "bamboo shoot",
    "wood ear",
    "peanut",
    "egg",
    "corn",
    "tofu",
    "cabbage",
    "bean sprout",
    "tomato",
    "spinach",
    "green bean",
    "potato",
    "eggplant",
    "lotus root",
    "cucumber",
    "cauliflower",
    "pineapple",
    "pork",
    "shrimp",
    "sausage",
    "tofu puff",
    "squid",
)
"""What goes with a main ingredient, the most common first."""
