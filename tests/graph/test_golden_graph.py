"""Graph files of every released version load for ever, and say what they said when they were written."""

from pathlib import Path

import pytest

from finegraph import LabelGraph

GOLDEN = Path(__file__).parents[1] / "golden"
FINE = ("mapo tofu @ A", "麻婆豆腐 @ B", '=salt, fine "x" | y', "soup")
KINDS = ("dish", "restaurant", "ingredient: tofu", "ingredient: pork", "served", "spicy")


@pytest.mark.parametrize("form", ["csv", "json"])
def test_what_it_says(form):
    graph = LabelGraph.read(GOLDEN / f"graph-1.{form}")
    assert graph.fine == FINE
    assert graph.kinds == KINDS
    assert graph.labels("dish") == ("mapo tofu", "has_shape::dagger")
    assert graph.labels("restaurant") == ("A", "B", "M&M", "a:0.5")
    assert graph.parents("dish").tolist() == [0, 0, 1, -1]
    assert graph.parents("ingredient: pork").tolist() == [1, 0, 0, -1]
    assert graph.parents("spicy").tolist() == [1, -1, 0, 0]
    assert graph.matrix("served").tolist() == [[1.0, 0.0], [0.75, 0.25], [0.5, 0.5], [0.0, 1.0]]
    assert graph.kind("dish").unknown_prior == ("uniform" if form == "json" else "frequency")


def test_the_digest_stays():
    """Weights are refused on another graph by this digest: were it to change, old models would not load."""
    graph = LabelGraph.read(GOLDEN / "graph-1.json")
    assert graph.digest == "18ec443a585d2f643a71987da13beb93aee86f7e7d2c9fb0438bcc0ca726d8b6"
    graph = LabelGraph.read(GOLDEN / "graph-1.csv")
    assert graph.digest == "f085b8c4f9d37d6727a4b02a22c3159756cebafc45e65522ea0c84abe75be66f"
    for form in ("csv", "json"):
        graph = LabelGraph.read(GOLDEN / f"graph-2.{form}")
        assert graph.digest == "857a1aa93662f8ac32976763479709fe663a542950dc3ec777d23e8d8f56ef4d"


@pytest.mark.parametrize("form", ["csv", "json"])
def test_what_numbers_and_orders_say(form):
    graph = LabelGraph.read(GOLDEN / f"graph-2.{form}")
    assert (graph.kinds, graph.numbers) == (("dish", "heat", "price [number]", "odd"), ("price", "mass"))
    price, mass = graph.number("price"), graph.number("mass")
    assert (price.scale, price.unit, mass.scale, mass.unit) == ("linear", "EUR", "log", "g")
    assert price.values[[0, 1, 3]].tolist() == [12.5, -3, 12.5]
    assert price.spreads.tolist() == [1.5, 0, 0, 1.4433756729740645]
    assert mass.known.tolist() == [True, True, False, True]
    assert [graph.kind(name).ordered for name in graph.kinds] == [False, True, False, True]
    assert graph.labels("odd") == ("a [b]", "c < d")


@pytest.mark.parametrize("name", ["graph-1.csv", "graph-1.json", "graph-2.csv", "graph-2.json"])
def test_this_version_writes_the_same_bytes(tmp_path, name):
    LabelGraph.read(GOLDEN / name).write(tmp_path / name)
    assert (tmp_path / name).read_bytes() == (GOLDEN / name).read_bytes()
