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
    assert json.loads(done.out)["text"] == "imported a graph: 1 cell changed"
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


def test_flags_that_would_be_of_no_use_are_refused(finegraph, store_file, tmp_path):
    out = finegraph("label", store_file, "--export", tmp_path / "x.csv", "--fine", "kung pao @ B")
    assert (out.code, "--fine is of no use here; it goes with --history" in out.err) == (2, True)
    out = finegraph("label", store_file, "--person", "ann")
    assert (out.code, "--import or --undo or --history" in " ".join(out.err.split())) == (2, True)
    assert not (tmp_path / "x.csv").exists()


def test_an_earlier_state_is_exported_by_the_number_of_its_edit(finegraph, menu_file, store_file, tmp_path):
    head, *lines = finegraph("label", store_file, "--history").out.splitlines()
    assert head.split() == ["edit", "action", "when", "who", "what"]
    [number] = [line.split()[0] for line in lines if line.endswith("unknown -> pork")]
    assert finegraph("label", f"{store_file}@{number}", "--export", tmp_path / "then.csv").code == 0
    assert "kung pao @ B,kung pao,B,pork,plate" in (tmp_path / "then.csv").read_text(encoding="utf-8")
    refused = finegraph("label", f"{store_file}@{number}", "--undo", 2)
    assert (refused.code, "an earlier state can be looked at" in refused.err) == (3, True)
    refused = finegraph("label", f"{store_file}@1", "--export", tmp_path / "x.json", "--format", "label-studio")
    assert (refused.code, "written as csv, json or photos" in refused.err) == (3, True)


def test_a_file_makes_a_store_that_is_not_there(finegraph, store_file, tmp_path):
    finegraph("label", store_file, "--export", tmp_path / "studio.json", "--format", "label-studio")
    made = finegraph("label", tmp_path / "new.db", "--import", tmp_path / "studio.json")
    assert made.code == 0
    assert "made the store" in made.err
    again = finegraph("label", tmp_path / "new.db", "--import", tmp_path / "studio.json", "--json")
    assert json.loads(again.out)["edits"] == 0
    (tmp_path / "bad.json").write_text("[{}]", encoding="utf-8")
    assert finegraph("label", tmp_path / "other.db", "--import", tmp_path / "bad.json").code == 3
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("other")] == []
