"""How dishes are drawn: every ingredient, sauce, vessel and arrangement shows."""

from dataclasses import replace

import numpy as np
import pytest

from finegraph.data.menu.ingredients import CUTS, INGREDIENTS, PIECES, sheet
from finegraph.data.menu.methods import METHODS, PARTNERS
from finegraph.data.menu.plating import ARRANGEMENTS, Portion
from finegraph.data.menu.restaurants import RESTAURANTS
from finegraph.data.menu.sauces import SAUCES
from finegraph.data.menu.scene import Moment, Serving, draw_scene
from finegraph.data.menu.table_tops import TABLES
from finegraph.data.menu.vessels import SHAPES

NAMES = [one.name for one in INGREDIENTS]
PLAIN = Serving(
    restaurant=RESTAURANTS[3],
    portions=(Portion("cabbage", 0.6),),
    sauce="clear",
    vessel="plate",
    ware=0,
    arrangement="heap",
    size=1.0,
    wet=0.5,
    steams=False,
)


def drawn(**changes):
    scene = draw_scene(replace(PLAIN, **changes), Moment(things=0), np.random.default_rng(0))
    return np.asarray(scene, dtype=float)


@pytest.fixture(scope="module")
def plain():
    return drawn()


@pytest.mark.deep
@pytest.mark.parametrize("name", [name for name in NAMES if name != "cabbage"])
def test_every_ingredient_changes_the_picture(name, plain):
    with_it = drawn(portions=(*PLAIN.portions, Portion(name, 0.6)))
    assert (np.abs(with_it - plain).max(axis=2) > 25).mean() > 0.004


@pytest.mark.deep
def test_every_ingredient_has_a_look_of_its_own():
    looks = {}
    for name in NAMES:
        pieces = [np.asarray(piece, dtype=float) for piece in sheet(name, "clear", "usual")]
        cover = sum(piece[..., 3].sum() for piece in pieces)
        colour = sum((piece[..., :3] * piece[..., 3:]).sum(axis=(0, 1)) for piece in pieces) / cover
        looks[name] = np.array(
            [*colour, 2 * pieces[0].shape[0], 200 * cover / sum(p[..., 3].size * 255 for p in pieces)]
        )
    for one in NAMES:
        for two in NAMES:
            assert one == two or np.abs(looks[one] - looks[two]).max() > 4, (one, two)


def test_pieces_of_a_sheet_differ():
    pieces = sheet("shrimp", "soy", "usual")
    assert len(pieces) == len({piece.tobytes() for piece in pieces}) == PIECES


def test_cuts_differ_in_size():
    sizes = [sheet("tofu", "soy", cut)[0].width for cut in CUTS]
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize("sauce", [name for name in SAUCES if name != "clear"])
def test_every_sauce_shows(sauce, plain):
    assert np.abs(drawn(sauce=sauce) - plain).mean() > 0.5


@pytest.mark.parametrize("vessel", [name for name in SHAPES if name != "plate"])
def test_every_vessel_shows(vessel, plain):
    assert np.abs(drawn(vessel=vessel) - plain).mean() > 2


@pytest.mark.parametrize("arrangement", [one for one in ARRANGEMENTS if one != "heap"])
def test_every_arrangement_shows(arrangement):
    portions = (Portion("shrimp", 0.6), Portion("broccoli", 0.5), Portion("pea", 0.5), Portion("rice", 0.7))
    heap, other = (drawn(portions=portions, arrangement=one, vessel="bowl") for one in ("heap", arrangement))
    assert np.abs(heap - other).mean() > 2


def test_restaurants_differ():
    pictures = [drawn(restaurant=one) for one in RESTAURANTS]
    for index, one in enumerate(pictures):
        for other in pictures[:index]:
            assert np.abs(one - other).mean() > 5


def test_a_plate_that_is_half_eaten_holds_less():
    random = [np.random.default_rng(0) for _ in range(2)]
    serving = replace(PLAIN, portions=(Portion("pea", 3.0),), sauce="dry")
    full, half = (
        np.asarray(draw_scene(serving, Moment(things=0, eaten=eaten), one), dtype=float)
        for eaten, one in zip((0.0, 0.6), random, strict=True)
    )
    greens = [((one[..., 1] > 1.25 * one[..., 0]) & (one[..., 1] > 1.25 * one[..., 2])).sum() for one in (full, half)]
    assert greens[1] < 0.75 * greens[0]


def test_what_the_menu_is_made_of_is_there():
    for method in METHODS:
        assert set(method.mains) <= set(NAMES)
        assert set(method.sauces) <= set(SAUCES)
        assert set(method.vessels) <= set(SHAPES)
        assert set(method.arrangements) <= set(ARRANGEMENTS)
        assert method.adds in ("", *NAMES)
        assert "{}" in method.name
    assert set(PARTNERS) <= set(NAMES)
    for restaurant in RESTAURANTS:
        assert set(restaurant.house) <= set(NAMES)
        assert set(restaurant.tables) <= set(TABLES)
        assert restaurant.cut in CUTS
        assert restaurant.garnish in ("", "coriander", "sesame")
