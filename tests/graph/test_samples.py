from importlib.resources import files

import numpy as np

from finegraph.graph.graph_files import check_graph_file
from finegraph.graph.sample_menu import SAMPLE_MENU, sample_menu


def test_size():
    menu = sample_menu()
    assert len(menu) == 24
    assert menu.labels("restaurant") == ("Chef Yu", "Lei Garden", "Shanghai Dumpling")
    assert [name for name in menu.kinds if not name.startswith("ingredient: ")] == [
        *("dish", "restaurant", "served", "spicy")
    ]


def test_fine_labels_say_dish_and_restaurant():
    menu = sample_menu()
    for number, fine in enumerate(menu.fine):
        dish, restaurant = (menu.labels(kind)[menu.parents(kind)[number]] for kind in ("dish", "restaurant"))
        assert fine == f"{dish} @ {restaurant}"


def test_every_form_occurs():
    menu = sample_menu()
    served = menu.kind("served")
    assert (served.row_sizes == 2).any()
    assert {0.25, 0.5, 0.75, 1.0} == set(served.weight.tolist())
    assert menu.kind("spicy").binary
    assert menu.kind("spicy").unknown.any()
    group = np.stack([menu.parents(kind) for kind in menu.kinds if kind.startswith("ingredient: ")])
    assert ((group == 1).sum(axis=0) > 1).any()
    assert ((group == -1).all(axis=0)).sum() == 1


def test_some_dishes_are_served_in_several_places():
    menu = sample_menu()
    assert set(np.bincount(menu.parents("dish")).tolist()) == {1, 2, 3}


def test_nothing_in_it_is_doubtful():
    assert check_graph_file(str(files("finegraph.graph") / SAMPLE_MENU)) == []
