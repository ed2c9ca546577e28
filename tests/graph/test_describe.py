import math

import numpy as np
import pytest

from finegraph.errors import UnknownNameError
from finegraph.graph import Kind, LabelGraph
from finegraph.graph.describe import choose_columns, columns_of, describe


@pytest.fixture
def menu():
    return LabelGraph.from_table(
        {
            "a1": {"dish": "a", "served": {"bowl": 1.0, "plate": 3.0}, "spicy": True, "with": ["tofu", "pork"]},
            "a2": {"dish": "a", "served": "plate", "spicy": False, "with": ["tofu"]},
            "b1": {"dish": "b", "served": None, "spicy": None, "with": []},
            "c1": {"dish": "c", "served": "bowl", "spicy": True, "with": None},
        }
    )


def column(graph, name):
    return describe(graph, [name]).columns[0]


def test_size_of_the_graph(menu):
    summary = describe(menu)
    assert (summary.fine, summary.kinds, [entry.name for entry in summary.columns]) == (
        4,
        5,
        ["dish", "served", "spicy", "with"],
    )
    assert summary.edges == 4 + 4 + 3 + 2 * 3


def test_kind_with_one_parent(menu):
    dish = column(menu, "dish")
    assert (dish.form, dish.binary, dish.labels, dish.kinds) == ("one of", False, 3, 1)
    assert (dish.one, dish.several, dish.none, dish.unknown) == (4, 0, 0, 0)
    assert (dish.children_min, dish.children_median, dish.children_max) == (1, 1.0, 2)
    assert dish.entropy == pytest.approx(1.5)
    assert [(entry.label, entry.fine, entry.share) for entry in dish.most_frequent] == [
        ("a", 2, 0.5),
        ("b", 1, 0.25),
        ("c", 1, 0.25),
    ]


def test_several_and_unknown_parents(menu):
    served = column(menu, "served")
    assert (served.one, served.several, served.unknown) == (2, 1, 1)
    assert [(entry.label, entry.fine) for entry in served.most_frequent] == [("plate", 2), ("bowl", 2)]
    assert served.most_frequent[0].share == pytest.approx(1.75 / 3)


def test_binary_kind(menu):
    spicy = column(menu, "spicy")
    assert (spicy.form, spicy.binary, spicy.labels, spicy.unknown) == ("yes or no", True, 2, 1)
    assert [(entry.label, entry.fine) for entry in spicy.most_frequent] == [("yes", 2), ("no", 1)]


def test_group_is_one_column(menu):
    group = column(menu, "with")
    assert (group.form, group.binary, group.labels, group.kinds) == ("group", True, 2, 2)
    assert (group.one, group.several, group.none, group.unknown) == (1, 1, 1, 1)
    assert (group.children_min, group.children_median, group.children_max) == (1, 1.5, 2)
    third = 1 / 3
    binary_entropy = -(third * math.log2(third) + 2 * third * math.log2(2 * third))
    assert group.entropy == pytest.approx(binary_entropy)
    assert [(entry.label, entry.fine) for entry in group.most_frequent] == [("tofu", 2), ("pork", 1)]


def test_numbers_of_every_column_add_up(menu):
    for entry in describe(menu).columns:
        assert entry.one + entry.several + entry.none + entry.unknown == len(menu)


def test_most_limits_the_frequent_labels(menu):
    assert [entry.label for entry in describe(menu, ["dish"], max_labels=1).columns[0].most_frequent] == ["a"]


def test_unused_label_has_no_children():
    graph = LabelGraph.from_parents(["x", "y"], {"dish": [0, 0]}, {"dish": ["a", "unused"]})
    dish = column(graph, "dish")
    assert (dish.children_min, dish.children_max, dish.entropy) == (0, 2, 0.0)
    assert [entry.label for entry in dish.most_frequent] == ["a"]


def test_kind_that_is_unknown_everywhere():
    graph = LabelGraph(["x", "y"], [Kind.from_parents("dish", ["a"], [-1, -1])])
    dish = column(graph, "dish")
    assert (dish.unknown, dish.entropy, dish.most_frequent) == (2, 0.0, ())


def test_uniform_unknown_prior_does_not_change_the_entropy():
    kind = Kind.from_parents("dish", ["a", "b"], [0, 0, -1], unknown_prior="uniform")
    assert column(LabelGraph("xyz", [kind]), "dish").entropy == 0.0


def test_what_is_a_group():
    yes_no = ("no", "yes")
    rows = np.array([0, 1])
    graph = LabelGraph(
        "xy",
        [
            Kind.from_parents("lone: one", yes_no, rows),
            Kind.from_parents("g: b", yes_no, rows),
            Kind.from_parents("dish", ["a", "b"], rows),
            Kind.from_parents("g: a", yes_no, rows),
            Kind.from_parents("g: three", ["1", "2", "3"], rows),
            Kind.from_parents("taken", ["a", "b"], rows),
            Kind.from_parents("taken: a", yes_no, rows),
            Kind.from_parents("taken: b", yes_no, rows),
        ],
    )
    assert [(entry.name, entry.kinds, entry.group) for entry in columns_of(graph)] == [
        ("lone: one", ("lone: one",), False),
        ("g", ("g: b", "g: a"), True),
        ("dish", ("dish",), False),
        ("g: three", ("g: three",), False),
        ("taken", ("taken",), False),
        ("taken: a", ("taken: a",), False),
        ("taken: b", ("taken: b",), False),
    ]
    assert columns_of(graph)[1].labels(graph) == ("b", "a")


def test_choosing_columns(menu):
    chosen = choose_columns(menu, ["with", "dish", "with: tofu", "dish"])
    assert [entry.name for entry in chosen] == ["with", "dish", "with: tofu"]
    assert [entry.group for entry in chosen] == [True, False, False]


def test_unknown_kind_is_refused_with_a_suggestion(menu):
    with pytest.raises(UnknownNameError, match=r"unknown kind 'serve'; did you mean 'served'\?"):
        describe(menu, ["serve"])
