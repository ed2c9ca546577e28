"""The synthetic menu: its numbers, its graph, its photo list, and that photos are drawn as they should."""

from collections import Counter

import numpy as np
import pytest

from finegraph.data.menu import SIZES, Menu, Photo
from finegraph.data.menu.ingredients import INGREDIENTS
from finegraph.data.menu.sizes import apportion
from finegraph.errors import InputError, UnknownNameError
from finegraph.graph.names import name_fault


@pytest.fixture(scope="module")
def small():
    return Menu.of_size("small")


@pytest.fixture(scope="module")
def full():
    return Menu.of_size("full")


@pytest.mark.deep
def test_the_full_menu_has_the_numbers_of_the_paper(full):
    graph = full.graph()
    assert len(graph) == len(full.items) == 975
    assert len(graph.labels("dish")) == 781
    assert len(graph.labels("restaurant")) == 6
    ingredients = [kind for kind in graph.kinds if kind.startswith("ingredient: ")]
    assert sorted(ingredients) == sorted(f"ingredient: {one.name}" for one in INGREDIENTS)
    assert len(ingredients) == 51
    assert set(graph.kinds) == {"dish", "restaurant", *ingredients}
    splits = Counter(photo.split for photo in full.photos)
    assert splits["train"] + splits["val"] == 32_135
    assert (splits["val"], splits["test"], splits["wild"]) == (3_135, 4_951, 351)


def test_the_full_menu_has_a_long_tail(full):
    train = Counter(photo.label for photo in full.photos if photo.split in ("train", "val"))
    assert set(train) == {item.label for item in full.items}
    counts = sorted(train.values())
    assert counts[0] <= 4
    assert counts[-1] >= 20 * counts[len(counts) // 2]  # a few have many
    assert {photo.label for photo in full.photos if photo.split == "train"} == set(train)
    assert {photo.label for photo in full.photos if photo.split == "test"} == set(train)


def test_the_small_menu(small):
    graph = small.graph()
    assert (len(graph), len(graph.labels("dish")), len(graph.labels("restaurant"))) == (60, 35, 6)
    assert sum(kind.startswith("ingredient: ") for kind in graph.kinds) == 16
    assert Counter(photo.split for photo in small.photos) == {"train": 900, "val": 120, "test": 240, "wild": 90}


@pytest.mark.deep
@pytest.mark.parametrize("size", SIZES)
def test_names(size):
    menu = Menu(size)
    labels = [item.label for item in menu.items]
    assert len(set(labels)) == len(labels)
    assert len({photo.path for photo in menu.photos}) == len(menu.photos)
    for item in menu.items:
        assert name_fault(item.label) is None
        assert item.label == f"{item.dish.name} @ {item.serving.restaurant.name}"
        assert len(set(item.ingredients)) == len(item.ingredients) >= 2


def test_a_name_says_what_is_in_the_dish(full):
    for item in full.items:
        for name in item.dish.ingredients:
            assert name in item.dish.name or name == item.dish.method.adds, (item.dish.name, name)


def test_restaurants_change_dishes_that_they_share(full):
    by_dish = {}
    for item in full.items:
        by_dish.setdefault(item.dish.name, []).append(item)
    shared = [items for items in by_dish.values() if len(items) > 1]
    assert Counter(map(len, shared)) == {2: 120, 3: 25, 4: 8}
    other = sum(len({frozenset(item.ingredients) for item in items}) > 1 for items in shared)
    assert 0.4 < other / len(shared) < 0.95


def test_a_seed_makes_the_same_menu_and_another_makes_another(small):
    again, other = Menu("small"), Menu("small", seed=1)
    assert again.photos == small.photos
    assert again.graph() == small.graph()
    assert {item.label for item in other.items} != {item.label for item in small.items}
    assert len(other.photos) == len(small.photos)


def test_photos_are_the_same_in_whatever_order_they_are_drawn(small):
    chosen = [small.photos[index] for index in (0, 700, 30)]
    first = [small.jpeg(photo) for photo in chosen]
    fresh = Menu("small")
    assert [fresh.jpeg(photo) for photo in reversed(chosen)] == first[::-1]
    assert len(set(first)) == 3


def test_a_photo_is_drawn(small):
    picture = small.draw(small.photos[0])
    assert (picture.size, picture.mode) == ((256, 256), "RGB")
    assert np.asarray(picture).std() > 20


def test_photos_of_a_label_differ(small):
    label = small.photos[0].label
    same = [photo for photo in small.photos if photo.label == label][:4]
    pictures = [np.asarray(small.draw(photo), dtype=float) for photo in same]
    for one in range(len(pictures)):
        for two in range(one):
            assert np.abs(pictures[one] - pictures[two]).mean() > 8


@pytest.mark.deep
def test_wild_photos_are_not_like_controlled_ones(small):
    label = Counter(photo.label for photo in small.photos if photo.split == "wild").most_common(1)[0][0]

    def spread(split):
        photos = [Photo(label, split, number, "") for number in range(12)]
        return np.std([np.asarray(small.draw(photo)).mean() for photo in photos])

    assert spread("wild") > 1.3 * spread("test")


def test_a_photo_of_another_menu(small):
    with pytest.raises(UnknownNameError, match="unknown fine label 'boiled hat' of this menu"):
        small.draw(Photo("boiled hat", "train", 0, "x.jpg"))


@pytest.mark.parametrize(
    ("size", "seed", "error", "message"),
    [
        ("smal", 0, UnknownNameError, "unknown size of a menu 'smal'; did you mean 'small'?"),
        ("huge", 0, UnknownNameError, "there are: 'small', 'full'"),
        ("small", -1, InputError, "seed: expected a whole number from 0 on, got -1"),
        ("small", 0.5, InputError, "seed: expected a whole number from 0 on, got 0.5"),
    ],
)
def test_bad_arguments(size, seed, error, message):
    with pytest.raises(error, match=message.replace("?", r"\?")):
        Menu(size, seed)


@pytest.mark.parametrize(("total", "least"), [(100, 0), (100, 3), (31, 1)])
def test_apportion(total, least):
    counts = apportion(total, np.array([5.0, 1.0, 0.0, 2.5]), least)
    assert counts.sum() == total
    assert counts.min() >= least
    assert counts[0] > counts[3] > counts[1] >= counts[2]


def test_numbers_of_the_menu(small):
    graph = small.graph(numbers=True)
    assert graph.only(small.graph().kinds).kinds == small.graph().kinds
    assert set(graph.kinds) - set(small.graph().kinds) == {"heat"}
    assert graph.numbers == ("portion", "price")
    assert (graph.number("portion").unit, graph.number("price").scale) == ("g", "log")
    heat = graph.kind("heat")
    assert heat.ordered
    assert heat.labels == ("mild", "medium", "hot")
    for item, parent in zip(small.items, heat.parents.tolist(), strict=True):
        assert parent == ("chilli" in item.ingredients) + (item.serving.sauce == "chilli oil")


@pytest.mark.deep
def test_the_weight_of_an_item_is_the_median_of_its_plates(full):
    """Over 20 days, the median and the spread of the plates come near those of the graph; every fourth is looked at."""
    portion = full.graph(numbers=True).number("portion")
    photos = {}
    for photo in full.photos:
        if photo.split in ("train", "val"):
            photos.setdefault(photo.label, []).append(photo)
    often = [number for number, item in enumerate(full.items) if len(photos[item.label]) >= 100]
    assert len(often) > 20
    plates = {number: [full.grams(photo) for photo in photos[full.items[number].label][::4]] for number in often}
    ratio = [np.mean(np.log(plates[number])) - np.log(portion.values[number]) for number in often]
    assert abs(np.mean(ratio)) < 0.05
    spread = [np.std(np.log(plates[number])) / portion.spreads[number] * portion.values[number] for number in often]
    assert 0.8 < np.mean(spread) < 1.1


def test_what_is_eaten_is_gone(full):
    wild = [photo for photo in full.photos if photo.split == "wild"]
    portion = dict(zip(full.graph().fine, full.graph(numbers=True).values("portion").tolist(), strict=True))
    assert np.mean([full.grams(photo) / portion[photo.label] for photo in wild]) < 0.9


@pytest.mark.deep
def test_a_dear_restaurant(full):
    """The same dish costs more where everything does."""
    price = dict(zip(full.graph().fine, full.graph(numbers=True).values("price").tolist(), strict=True))
    by_restaurant = {}
    for item in full.items:
        by_restaurant.setdefault(item.serving.restaurant.name, []).append(price[item.label])
    levels = {item.serving.restaurant.name: item.serving.restaurant.price_level for item in full.items}
    means = {name: np.mean(values) for name, values in by_restaurant.items()}
    assert max(means, key=means.get) in sorted(levels, key=levels.get)[-2:]
