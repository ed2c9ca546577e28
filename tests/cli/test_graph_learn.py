"""`finegraph graph learn`: what it prints, JSON, and the file that it writes."""

import json

import pytest

import taught_classifier
import tiny_classifier as tiny
from finegraph import LabelGraph
from finegraph.cli.graph_learn import _wrong_words


@pytest.fixture
def model(tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    taught_classifier.fitted().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.deep
def test_cells_are_listed_and_accepted(finegraph, model, tmp_path):
    table = tmp_path / "menu.csv"
    LabelGraph.from_table({**tiny.TABLE, "egg rice @ B": {**tiny.TABLE["egg rice @ B"], "dish": None}}).write(table)
    outcome = finegraph("graph", "learn", model, "--graph", table, "--cells", tmp_path / "cells.csv")
    assert (outcome.code, outcome.err) == (0, "")
    assert "Empty: 1 cell" in outcome.out
    assert "egg rice @ B" in outcome.out
    assert f"--graph {table} --accept {tmp_path / 'cells.csv'} -o FILE" in " ".join(outcome.out.split())
    document = json.loads(finegraph("graph", "learn", model, "--graph", table, "--json").out)
    assert [(cell["fine"], cell["kind"]) for cell in document["empty"]] == [("egg rice @ B", "dish")]
    outcome = finegraph("graph", "learn", model, "--graph", table, "--accept", "0.01", "-o", tmp_path / "new.csv")
    assert "accepted" in outcome.out
    assert not LabelGraph.read(tmp_path / "new.csv").kind("dish").unknown.any()


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.0, 0.002, "Up to 1 %"), (0.0, 0.026, "Up to 3 %"), (0.016, 0.115, "Between 2 and 12 %")],
)
def test_how_many_cells_are_wrong_is_said_as_a_range(low, high, said):
    assert _wrong_words(low, high).startswith(f"{said} of the filled cells are wrong")
