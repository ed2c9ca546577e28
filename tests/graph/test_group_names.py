"""Names of groups: what members share and others lack, in any script."""

import numpy as np
import pytest

from finegraph.graph import LabelGraph
from finegraph.graph.group_names import group_kind, group_name, is_found


def named(names, members, number=None):
    return group_name(LabelGraph(names), np.array(members), number)


MENU = [
    "clay pot beef with egg @ Jade Lantern",
    "clay pot beef with egg @ Harbour Moon",
    "steamed tofu with pea and carrot @ Jade Lantern",
    "steamed tofu with pea and carrot @ Harbour Moon",
    "fried noodles with shrimp @ Jade Lantern",
    "egg over rice with shrimp @ Harbour Moon",
    "egg soup with mushroom and tofu @ Willow Kitchen",
    "noodles with beef and pea @ Willow Kitchen",
]


def test_shared_words_stand_as_in_the_names():
    assert named(MENU, [0, 1]) == "clay pot beef with egg"
    assert named(MENU, [2, 3]) == "steamed tofu with pea and carrot"
    assert named(MENU, [4, 5]) == "shrimp"
    assert named(MENU, [6, 7]) == "Willow Kitchen"
    assert named(MENU, [2, 3, 6]) == "tofu"


def test_what_most_labels_have_names_no_group():
    """Words such as with, or one that most other labels have, say nothing of a group."""
    assert named(MENU, [1, 2, 4, 7], 3).startswith("group 3: clay pot beef with egg @ Harbour Moon, ")
    rows = ["item red", "item blue", "item stone", "item wood"]
    assert named(rows, [0, 1]) == "item red, item blue"


def test_words_that_stand_for_parts():
    names = ["red apple", "green apple", "big pear", "small pear", "lemon", "oat milk", "rice milk", "soap", "towel"]
    assert named(names, [0, 1, 2, 3, 4]) == "pear, apple and 1 more"
    assert named(names, [0, 2, 4, 7], 7) == "group 7: red apple, big pear and 2 more"


def test_shared_coarse_labels():
    graph = LabelGraph.from_table(
        {
            "royal gala apple": {"aisle": "fruit", "with: seeds": True},
            "pink lady apple": {"aisle": "fruit", "with: seeds": True},
            "banana": {"aisle": "fruit", "with: seeds": False},
            "soap": {"aisle": "bath", "with: seeds": False},
            "towel": {"aisle": "bath", "with: seeds": False},
            "melon": {"aisle": "veg", "with: seeds": True},
        }
    )
    assert group_name(graph, np.array([0, 1])) == "apple"
    assert group_name(graph, np.array([3, 4])) == "bath: soap, towel"
    assert group_name(graph, np.array([0, 5])) == "seeds: royal gala apple, melon"
    assert group_name(graph, np.array([2])) == "banana"
    assert group_name(graph, np.array([2, 3])) == "banana, soap"


@pytest.mark.parametrize(
    ("names", "members", "expected"),
    [
        (["麻婆豆腐", "家常豆腐", "宫保鸡丁", "辣子鸡丁", "牛肉面"], [0, 1], "豆腐"),
        (["Crème brûlée", "crème caramel", "Mousse", "Tarte"], [0, 1], "Crème"),
        (["تفاح أحمر", "تفاح أخضر", "موز", "خبز"], [0, 1], "تفاح"),
        (["हरा सेब", "लाल सेब", "केला", "रोटी"], [0, 1], "सेब"),
    ],
)
def test_any_script(names, members, expected):
    assert named(names, members) == expected


def test_labels_of_a_kind_differ():
    names = ["red apple", "green apple", "small apple", "large apple", "soap", "towel", "milk", "oil", "bread"]
    kind = group_kind(LabelGraph(names), np.array([0, 0, 1, 1, 2, 3, 4, 5, 6]), "look")
    assert kind.labels[:2] == ("apple: red apple, green apple", "apple: small apple, large apple")
    assert len(set(kind.labels)) == 7


def test_kinds_that_photos_gave_are_known_by_name():
    assert all(map(is_found, ("look", "look 2", "look 1 (2)", "often confused", "often confused (2)", "tree 1")))
    assert not any(map(is_found, ("dish", "looks", "trees 1", "outlook", "tree of life")))
