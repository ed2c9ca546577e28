"""`finegraph graph suggest`: what it prints, JSON, and the file that it writes."""

import json

import pytest

import taught_classifier
import tiny_classifier as tiny
from finegraph import LabelGraph


@pytest.fixture
def model(tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    taught_classifier.fitted().save(tmp_path / "model")
    return tmp_path / "model"


def test_kinds_are_listed_and_accepted(finegraph, model, tmp_path):
    table = tmp_path / "menu.csv"
    LabelGraph.from_table({fine: {"restaurant": row["restaurant"]} for fine, row in tiny.TABLE.items()}).write(table)
    outcome = finegraph("graph", "suggest", model, "--graph", table)
    assert (outcome.code, outcome.err) == (0, "")
    assert "1. before @: what stands before '@'" in outcome.out
    assert "--accept 'before @' -o FILE" in " ".join(outcome.out.split())
    document = json.loads(finegraph("graph", "suggest", model, "--graph", table, "--json").out)
    assert document["suggestions"][0]["labels"][0]["fine"] == ["mapo tofu @ A", "mapo tofu @ B"]
    written = tmp_path / "new.csv"
    outcome = finegraph("graph", "suggest", model, "-g", table, "--accept", "1", "-o", written)
    assert f"finegraph label {written}" in " ".join(outcome.out.split())
    assert LabelGraph.read(written).kinds == ("restaurant", "before @")
