"""Hits sorted by a number or an ordered kind."""

from dataclasses import replace

import pytest

from finegraph import LabelGraph
from finegraph.errors import InputError
from finegraph.search.hits import Hit
from finegraph.workflows.search import sorted_hits

GRAPH = LabelGraph.from_table(
    {
        "a": {"heat": "mild", "price": 12.0, "dish": "x"},
        "b": {"heat": "hot", "price": 9.0, "dish": "x"},
        "c": {"heat": "medium", "price": None, "dish": "y"},
    },
    types={"heat": ("mild", "medium", "hot"), "price": "number, EUR"},
)
HEAT = {"a": ("mild",), "b": ("hot",), "c": ("medium",)}


def hit(name, label, guess=None):
    kinds = {"heat": HEAT[label or guess]}
    return Hit(path=name, label=label, guess=guess, kinds=kinds, similarity=0.5, score=0.5)


HITS = [hit("1", "c"), hit("2", "a"), hit("3", None, "b"), hit("4", "b"), hit("5", "a")]


@pytest.mark.parametrize(
    ("by", "order"), [("price", "34251"), ("-price", "25341"), ("heat", "25134"), ("-heat", "34125")]
)
def test_order(by, order):
    assert "".join(one.path for one in sorted_hits(GRAPH, HITS, by)) == order


@pytest.mark.parametrize("by", ["dish", "prce", "-dish"])
def test_what_has_no_order(by):
    with pytest.raises(
        InputError, match="expected a number or an ordered kind, of which the index has 'price', 'heat'"
    ):
        sorted_hits(GRAPH, (), by)


def test_values_are_in_json_if_there_are_any():
    one = hit("1", "a")
    assert "values" not in one.to_dict()
    assert replace(one, values={"price": 12.0}).to_dict()["values"] == {"price": 12.0}
