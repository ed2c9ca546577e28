"""`finegraph label`, but for the page."""

import json

import pytest

from finegraph import LabelGraph
from finegraph.labelling import LabelStore


@pytest.fixture
def store_file(menu_file):
    """A store with decisions of two people."""
    place = menu_file.with_suffix(".db")
    with LabelStore.create(place) as store:
        store.import_graph(LabelGraph.read(menu_file), person="import", edit_id="first")
        one = store.decide("kung pao @ B", "with", "pork", person="ann", edit_id="1", seen=0)
        store.decide("kung pao @ B", "with", "tofu", person="bob", edit_id="2", seen=one.version)
    return place


def test_export_and_import(finegraph, menu_file, store_file, tmp_path):
    out = finegraph("label", menu_file, "--export", tmp_path / "out.csv")
    assert (out.code, out.out) == (0, f"wrote {tmp_path / 'out.csv'}\n")
    text = (tmp_path / "out.csv").read_text(encoding="utf-8")
    assert "kung pao @ B,kung pao,B,tofu,plate" in text
    (tmp_path / "out.csv").write_text(text.replace("B,tofu,plate\n", "B,,plate\n"), encoding="utf-8")
    done = finegraph("label", menu_file, "--import", tmp_path / "out.csv", "--person", "cat", "--json")
    assert done.code == 0
    assert json.loads(done.out)["text"] == "imported a graph: 1 cells changed"
    assert finegraph("label", store_file, "--export", tmp_path / "x.json", "--format", "label-studio").code == 0
    assert isinstance(json.loads((tmp_path / "x.json").read_text(encoding="utf-8")), list)
    wrong = finegraph("label", store_file, "--export", tmp_path / "x.json", "--format", "xml")
    assert wrong.code == 3
    assert "format: expected one of csv, json, label-studio, photos, got 'xml'" in wrong.err


def test_history_and_undo(finegraph, menu_file, store_file):
    out = finegraph("label", menu_file, "--history", "--fine", "kung pao @ B", "--kind", "with")
    assert out.code == 0
    lines = out.out.splitlines()
    assert "bob" in lines[1]
    assert lines[1].endswith("cell 'kung pao @ B', 'with': pork -> tofu")
    assert len(lines) == 3
    assert finegraph("label", store_file, "--undo", 3, "--person", "bob").code == 0
    document = json.loads(finegraph("label", store_file, "--history", "--most", 2, "--json").out)
    assert [edit["action"] for edit in document["edits"]] == ["undo", "decide"]
    again = finegraph("label", store_file, "--undo", 3)
    assert (again.code, "is undone already" in again.err) == (3, True)


def test_agreement_backup_and_diff(finegraph, menu_file, store_file, tmp_path):
    out = finegraph("label", store_file, "--agreement")
    assert out.code == 0
    assert "Cohen's kappa" in out.out
    assert json.loads(finegraph("label", store_file, "--agreement", "--json").out)["pairs"][0]["one"] == "ann"
    assert finegraph("label", store_file, "--backup", tmp_path / "copy.db").code == 0
    assert finegraph("label", store_file, "--backup", tmp_path / "copy.db").code == 3
    with LabelStore.open(tmp_path / "copy.db") as copy:
        assert copy.cell("kung pao @ B", "with").value == {"all_of": ["tofu"]}
    out = finegraph("label", store_file, "--diff", menu_file)
    assert out.out == "cell 'kung pao @ B', 'with': unknown -> tofu\n1 cell\n"
    assert finegraph("label", menu_file, "--diff", f"{store_file}@1").out == out.out
    assert finegraph("label", menu_file, "--diff", store_file).out == "no difference\n"


def test_one_thing_at_a_time(finegraph, store_file, tmp_path):
    out = finegraph("label", store_file, "--history", "--agreement")
    assert out.code == 2
    assert "--history and --agreement cannot be asked for at once" in out.err
    missing = finegraph("label", tmp_path / "none.db", "--history")
    assert (missing.code, "there is no such store" in missing.err) == (3, True)
