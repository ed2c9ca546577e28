"""Learning a graph from a model: what is found, what is written, and what is refused."""

import csv

import pytest

import taught_classifier
import tiny_classifier as tiny
from finegraph.errors import DataError, InputError
from finegraph.graph import LabelGraph
from finegraph.workflows.learn_graph import learn_graph


@pytest.fixture
def model(tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    taught_classifier.fitted().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def table(tmp_path):
    """The graph of the model with one empty cell, and a fine label that the model does not know."""
    rows = {**tiny.TABLE, "egg rice @ B": {**tiny.TABLE["egg rice @ B"], "dish": None}}
    path = tmp_path / "menu.csv"
    LabelGraph.from_table({**rows, "egg soup @ A": {"dish": None, "restaurant": "A", "spicy": None}}).write(path)
    return path


def test_empty_cells_are_listed_with_odds(model, table):
    found = learn_graph(model, graph=table)
    assert {(cell.fine, cell.kind) for cell in found.empty if cell.photos} == {("egg rice @ B", "dish")}
    assert [cell.probability for cell in found.empty] == sorted((c.probability for c in found.empty), reverse=True)
    assert all(cell.table != cell.label for cell in found.doubtful)
    assert found.output is None
    assert found.to_dict()["empty"][0]["odds"] == found.empty[0].odds


@pytest.mark.deep
def test_what_is_accepted_goes_to_a_new_file(model, table, tmp_path):
    before = table.read_bytes()
    cells = tmp_path / "cells.csv"
    learn_graph(model, graph=table, cells=cells)
    with cells.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["accept"] = "yes" if (row["fine"], row["kind"]) == ("egg rice @ B", "dish") else ""
    rows = [{**row, "label": "kung pao"} if row["accept"] else row for row in rows]  # people may know better
    with cells.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    found = learn_graph(model, graph=table, accept=str(cells), output=tmp_path / "new.csv")
    assert [cell.label for cell in found.accepted] == ["kung pao"]
    old, new = LabelGraph.read(table), LabelGraph.read(tmp_path / "new.csv")
    assert new.parents("dish")[4] == new.label_index("dish", "kung pao")
    assert new.parents("dish")[:4].tolist() == old.parents("dish")[:4].tolist()
    assert table.read_bytes() == before
    with pytest.raises(InputError, match="exists already"):
        learn_graph(model, graph=table, accept="2", output=tmp_path / "new.csv")


def test_odds_accept_what_is_sure_enough(model, table, tmp_path):
    found = learn_graph(model, graph=table, accept="1.5", output=tmp_path / "new.csv")
    assert found.accepted == tuple(cell for cell in (*found.doubtful, *found.empty) if cell.odds >= 1.5)


@pytest.mark.deep
def test_kinds_that_are_asked_for(model, table):
    found = learn_graph(model, graph=table, kinds=["spicy"])
    assert {cell.kind for cell in (*found.empty, *found.doubtful)} <= {"spicy"}


@pytest.mark.deep
def test_faults_are_said_in_words(model, table, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="expected both or none"):
        learn_graph(model, graph=table, accept="40")
    with pytest.raises(DataError, match="expected odds or a file of cells"):
        learn_graph(model, graph=table, accept="none.csv", output=tmp_path / "new.csv")
    wrong = tmp_path / "wrong.csv"
    known = "egg rice @ B,dish"
    wrong.write_text(
        f"accept,fine,kind,label\nyes,nobody,dish,x\n\nyes,{known},x\nno,a,b,c\n"
        f"ja,{known},kung pao\n\u2713,{known},kung pao\n"
    )
    with pytest.raises(DataError) as found:
        learn_graph(model, graph=table, accept=str(wrong), output=tmp_path / "new.csv")
    assert str(found.value).partition(": ")[2].split("; ") == [
        "line 2: the graph has no cell 'nobody', 'dish'",
        "line 4: 'dish' has no label 'x'",
        "line 5: the graph has no cell 'a', 'b'",
        "line 6: expected yes, no or nothing in the column accept, got 'ja'",
        "line 7: expected yes, no or nothing in the column accept, got '\u2713'",
    ]
    assert not (tmp_path / "new.csv").exists()
    others = tmp_path / "others.csv"
    LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": None}}).write(others)
    with pytest.raises(InputError, match="another data set"):
        learn_graph(model, graph=others)
    tiny.classifier().save(tmp_path / "descent")
    with pytest.raises(InputError, match="fitted by descent"):
        learn_graph(tmp_path / "descent")
