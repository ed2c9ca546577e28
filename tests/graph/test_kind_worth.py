"""What kinds are worth, as shares and in words."""

import itertools

import numpy as np
import pytest

from finegraph.graph import LabelGraph
from finegraph.graph.kind_worth import kind_worth


def different(*kinds):
    """A graph of twenty classes, each with labels of its own: all pairs differ along all kinds."""
    return LabelGraph.from_table({f"class {i}": dict.fromkeys(kinds, f"label {i}") for i in range(20)})


def test_shares_add_up_and_the_largest_comes_first():
    worth = kind_worth(different("year", "dish"), {"year": 1.0, "dish": 5.0}, own=4.0)
    assert list(worth.kinds.items()) == [("dish", pytest.approx(0.5)), ("year", pytest.approx(0.1))]
    assert worth.own == pytest.approx(0.4)
    assert worth.words == "Of what tells classes apart, dish tells 50 %, year tells 10 %, and 40 % is each class's own."


def test_the_worth_is_the_mean_over_all_pairs_of_classes():
    graph = LabelGraph.from_table(
        {
            "a": {"dish": "x", "served": {"bowl": 0.75, "plate": 0.25}, "with": ["tofu"]},
            "b": {"dish": "x", "served": "bowl", "with": []},
            "c": {"dish": "y", "served": "plate", "with": []},
            "d": {"dish": "z", "served": "plate", "with": []},
        }
    )
    variances = {"dish": 2.0, "served": 3.0, "with: tofu": 1.5}
    apart = {}
    for kind, variance in variances.items():
        rows = graph.matrix(kind)
        pairs = [np.square(rows[i] - rows[j]).sum() for i, j in itertools.product(range(4), repeat=2)]
        apart[kind] = variance * float(np.mean(pairs)) / 2
    own = 0.5 * np.mean([i != j for i, j in itertools.product(range(4), repeat=2)])
    total = sum(apart.values()) + own
    worth = kind_worth(graph, variances, own=0.5)
    assert worth.own == pytest.approx(own / total)
    assert worth.kinds["dish"] == pytest.approx(apart["dish"] / total)
    assert worth.kinds["served"] == pytest.approx(apart["served"] / total)
    assert worth.kinds["with"] == pytest.approx(apart["with: tofu"] / total)  # a group goes by its name


def test_a_kind_that_is_the_same_for_all_classes_adds_nothing():
    graph = LabelGraph.from_table({f"class {i}": {"dish": f"dish {i}", "town": "Rome"} for i in range(5)})
    assert kind_worth(graph, {"dish": 1.0, "town": 9.0}, own=1.0).words.endswith("town adds nothing.")


def test_unknown_labels_are_left_out():
    graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "y"}, "c": {"dish": None}})
    known = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "y"}})
    one, two = (kind_worth(each, {"dish": 1.0}, own=0.0).kinds for each in (graph, known))
    assert one == two == {"dish": 1.0}


def test_kinds_that_say_nothing():
    assert kind_worth(different("dish"), {}, own=1.0).words == "The label graph takes no part."
    words = kind_worth(different("year", "month"), {"year": 0.001, "month": 0.0}, own=1.0).words
    assert "no kind tells anything, and 100 % is each class's own. year, month add nothing." in words
    alike = kind_worth(different("dish"), {"dish": 0.0}, own=0.0)
    assert (alike.kinds, alike.own) == ({"dish": 0.0}, 1.0)


def test_very_many_kinds_are_summed_up():
    nine, seven = ({f"kind {number}": variance for number in range(count)} for count, variance in ((9, 1.0), (7, 0.0)))
    worth = kind_worth(different(*nine), nine, own=1.0)
    assert "4 more kinds 40 %" in worth.words
    assert "kind 5" not in worth.words
    assert "and 2 more add nothing" in kind_worth(different(*seven), seven, own=1.0).words


def test_a_kind_of_a_group_that_adds_nothing_is_named_though_the_group_adds_something():
    table = {
        f"{dish} {pork} {tofu}": {"dish": f"dish {dish}", "with": ["pork"] * pork + ["tofu"] * tofu}
        for dish in range(4)
        for pork in (0, 1)
        for tofu in (0, 1)
    }
    graph = LabelGraph.from_table(table)
    worth = kind_worth(graph, {"dish": 1.0, "with: pork": 2.0, "with: tofu": 0.0}, own=1.0)
    assert worth.silent == ("with: tofu",)
    assert worth.words.endswith("with: tofu adds nothing.")
    assert "with tells " in worth.words
    few = kind_worth(graph, {"dish": 1.0, "with: pork": 0.05, "with: tofu": 0.05}, own=1.0)
    assert few.silent == ()  # each tells little, but both together something
    none = kind_worth(graph, {"dish": 1.0, "with: pork": 0.0, "with: tofu": 0.0}, own=1.0)
    assert none.silent == ("with",)  # the group goes by its name


def test_one_more_kind_is_one():
    six = {f"kind {number}": 1.0 for number in range(6)}
    assert "1 more kind 14 %" in kind_worth(different(*six), six, own=1.0).words
