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


@pytest.mark.parametrize("form", ["csv", "json"])
def test_this_version_writes_the_same_bytes(tmp_path, form):
    LabelGraph.read(GOLDEN / f"graph-1.{form}").write(tmp_path / f"again.{form}")
    assert (tmp_path / f"again.{form}").read_bytes() == (GOLDEN / f"graph-1.{form}").read_bytes()
