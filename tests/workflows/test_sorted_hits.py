"""Hits sorted by a number or an ordered kind, and limits that are those of the query: "hotter than this one"."""

from dataclasses import replace

import pytest
import torch
from PIL import Image

import tiny_classifier as tiny
from finegraph import LabelGraph, Posterior
from finegraph.errors import InputError
from finegraph.search.hits import Hit, StoredPhoto
from finegraph.workflows.index import make_index
from finegraph.workflows.search import is_relative, label_limits, labelled_copy, own_limits, search_index, sorted_hits

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
    ordered = {"heat": HEAT[label or guess]}
    kinds = ordered if label else {}
    return Hit(path=name, label=label, guess=guess, kinds=kinds, ordered=ordered, similarity=0.5, score=0.5)


HITS = [hit("1", "c"), hit("2", "a"), hit("3", None, "b"), hit("4", "b"), hit("5", "a")]


@pytest.mark.parametrize(
    ("by", "order"), [("price", "34251"), ("-price", "25341"), ("heat", "25134"), ("-heat", "34125")]
)
def test_order(by, order):
    assert "".join(one.path for one in sorted_hits(GRAPH, HITS, by)) == order


def test_photos_without_a_label_have_the_place_of_their_guess(tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    tiny.classifier(GRAPH).save(tmp_path / "model")
    (tmp_path / "photos").mkdir()
    for number, colour in enumerate(("red", "lime", "blue", "white", "black", "yellow")):
        Image.new("RGB", (40, 40), colour).save(tmp_path / "photos" / f"{number}.png")
    make_index(tmp_path / "model", [tmp_path / "photos"], tmp_path / "index", engine="torch")
    hits = search_index(tmp_path / "index", [tmp_path / "photos/0.png"], sort="-heat").queries[0].hits
    assert {one.label for one in hits} == {None}
    assert len({one.guess for one in hits}) > 1
    assert [one.ordered["heat"] for one in hits] == [HEAT[one.guess] for one in hits]
    steps = [GRAPH.label_index("heat", *one.ordered["heat"]) for one in hits]
    assert steps == sorted(steps, reverse=True)
    assert (hits[0].to_dict()["ordered"], hits[0].to_dict()["kinds"]) == ({"heat": list(hits[0].ordered["heat"])}, {})


@pytest.mark.parametrize("by", ["dish", "prce", "-dish"])
def test_what_has_no_order(by):
    with pytest.raises(
        InputError, match="expected a number or an ordered kind, of which the index has 'price', 'heat'"
    ):
        sorted_hits(GRAPH, (), by)


@pytest.mark.parametrize(("by", "near"), [("prce", "price"), ("-haet", "heat")])
def test_a_misspelt_order_gets_a_near_match(by, near):
    with pytest.raises(InputError, match=f"; did you mean '{near}'[?]"):
        sorted_hits(GRAPH, (), by)


def test_values_are_in_json_if_there_are_any():
    one = hit("1", "a")
    assert "values" not in one.to_dict()
    assert replace(one, values={"price": 12.0}).to_dict()["values"] == {"price": 12.0}


def test_the_limit_of_a_photo_is_its_expected_value_and_its_likeliest_label():
    probs = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.9, 0.0]], dtype=torch.float64)
    where = {"price": {"<= 20 and < this"}, "heat": {"> this"}, "dish": {"x"}}
    posterior = Posterior(GRAPH, probs.log())
    first, second = own_limits(posterior, where)
    means = posterior.value("price").mean.tolist()
    assert first.where == {"price": {f"<= 20 and < {means[0]!r}"}, "heat": {"medium", "hot"}, "dish": {"x"}}
    assert first.words == {"price": f"< {means[0]:.6g}", "heat": "> mild"}
    assert (second.possible, second.words["heat"]) == (False, "> hot")  # nothing is hotter
    (named,) = own_limits(Posterior(GRAPH, probs[:1].log()), {"heat": ("mild", "medium", ">= this")})
    assert named.where == {"heat": {"mild", "medium"}}


def test_the_limit_of_a_photo_of_the_index_is_that_of_its_label():
    posterior = Posterior(GRAPH, torch.tensor([[0.5, 0.25, 0.25]] * 3, dtype=torch.float64).log())
    known = StoredPhoto(path="1", label="b", guess=None, kinds={"heat": ("hot",)}, values={"price": 8.6})
    bare = StoredPhoto(path="2", label="c", guess=None, kinds={})
    first, second, third = own_limits(posterior, {"price": "< this", "heat": "< this"}, [known, None, bare])
    assert first.where == {"price": {"< 8.6"}, "heat": {"mild", "medium"}}
    assert second.words == third.words == own_limits(posterior, {"price": "< this", "heat": "< this"})[0].words
    guessed = replace(known, label=None, guess="b")
    assert labelled_copy([guessed, known]) is known
    assert labelled_copy([guessed]) is None


def test_the_limit_of_a_label_is_its_own():
    assert label_limits(GRAPH, "a", {"price": "< this", "heat": ("> this",)}) == (
        {"price": {"< 12.0"}, "heat": {"medium", "hot"}},
        {"price": "< 12", "heat": "> mild"},
        True,
    )
    assert label_limits(GRAPH, "a", {}).where is None
    assert not is_relative({"price": "< 12", "dish": {"x", True}})
    with pytest.raises(InputError, match="the price of 'c' is not known"):
        label_limits(GRAPH, "c", {"price": "< this"})
    with pytest.raises(InputError, match="dish has no order"):
        label_limits(GRAPH, "c", {"dish": "< this"})
