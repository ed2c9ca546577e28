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
    out = finegraph("label", "export", menu_file, tmp_path / "out.csv")
    assert (out.code, out.out) == (0, f"wrote {tmp_path / 'out.csv'}\n")
    text = (tmp_path / "out.csv").read_text(encoding="utf-8")
    assert "kung pao @ B,kung pao,B,tofu,plate" in text
    (tmp_path / "out.csv").write_text(text.replace("B,tofu,plate\n", "B,,plate\n"), encoding="utf-8")
    done = finegraph("label", "import", menu_file, tmp_path / "out.csv", "--person", "cat", "--json")
    assert done.code == 0
    assert json.loads(done.out)["text"] == "imported a graph: 1 cell changed"
    assert finegraph("label", "export", store_file, tmp_path / "x.json", "--format", "label-studio").code == 0
    assert isinstance(json.loads((tmp_path / "x.json").read_text(encoding="utf-8")), list)
    wrong = finegraph("label", "export", store_file, tmp_path / "x.json", "--format", "xml")
    assert wrong.code == 3
    assert "format: expected one of csv, json, label-studio, photos, comparisons, got 'xml'" in wrong.err


def test_comparisons_go_in_and_out(finegraph, tmp_path):
    (tmp_path / "menu.csv").write_text("fine,heat [number]\nmapo,\nramen,\nudon,\n")
    told = tmp_path / "told.csv"
    told.write_text("kind,more,less,who,same\nheat,mapo,udon,ann,\nheat,ramen,udon,,yes\n")
    done = finegraph("label", "import", tmp_path / "menu.csv", told, "--person", "cat")
    assert "imported 2 comparisons; action number 2" in done.out
    assert finegraph("label", "export", tmp_path / "menu.db", told, "--format", "comparisons").code == 0
    assert told.read_text() == "kind,more,less,who,same\nheat,mapo,udon,ann,\nheat,ramen,udon,cat,yes\n"
    filled = tmp_path / "menu2.csv"
    assert finegraph("label", "export", tmp_path / "menu.db", filled, "--compared", "classes").code == 0
    assert filled.read_text().count(" +- ") == 3
    assert (
        "compared: expected classes or photos"
        in finegraph("label", "export", tmp_path / "menu.db", filled, "--compared", "pets").err
    )


def test_history_and_undo(finegraph, menu_file, store_file):
    out = finegraph("label", "history", menu_file, "--fine", "kung pao @ B", "--kind", "with")
    assert out.code == 0
    lines = out.out.splitlines()
    assert "bob" in lines[1]
    assert lines[1].endswith("cell 'kung pao @ B', 'with': pork -> tofu")
    assert len(lines) == 3
    assert finegraph("label", "undo", store_file, 3, "--person", "bob").code == 0
    document = json.loads(finegraph("label", "history", store_file, "--max", 2, "--json").out)
    assert [edit["action"] for edit in document["edits"]] == ["undo", "decide"]
    again = finegraph("label", "undo", store_file, 3)
    assert (again.code, "is undone already" in again.err) == (3, True)


def test_agreement_backup_and_diff(finegraph, menu_file, store_file, tmp_path):
    out = finegraph("label", "agreement", store_file)
    assert out.code == 0
    assert "Cohen's kappa" in out.out
    assert json.loads(finegraph("label", "agreement", store_file, "--json").out)["pairs"][0]["one"] == "ann"
    assert finegraph("label", "backup", store_file, tmp_path / "copy.db").code == 0
    assert finegraph("label", "backup", store_file, tmp_path / "copy.db").code == 3
    with LabelStore.open(tmp_path / "copy.db") as copy:
        assert copy.cell("kung pao @ B", "with").value == {"all_of": ["tofu"]}
    out = finegraph("label", "diff", store_file, menu_file)
    assert out.out == "cell 'kung pao @ B', 'with': unknown -> tofu\n1 cell\n"
    assert finegraph("label", "diff", menu_file, f"{store_file}@1").out == out.out
    assert finegraph("label", "diff", menu_file, store_file).out == "no difference\n"


def test_a_store_that_is_not_there(finegraph, store_file, tmp_path):
    missing = finegraph("label", "history", tmp_path / "none.db")
    assert (missing.code, "there is no such store" in missing.err) == (3, True)
    near = finegraph("label", "history", tmp_path / f"{store_file.stem}x.db")
    assert f"did you mean {str(store_file)!r}" in near.err


@pytest.mark.parametrize("verb", ["import", "export", "undo", "history", "backup", "diff", "agreement"])
def test_what_was_a_flag_names_the_command_that_it_is_now(finegraph, store_file, verb):
    out = finegraph("label", store_file, f"--{verb}", "x")
    assert out.code == 2
    assert f"error: --{verb} is a command of its own: finegraph label {verb} GRAPH ..." in out.err


def test_options_of_other_commands_are_refused(finegraph, store_file, tmp_path):
    out = finegraph("label", "export", store_file, tmp_path / "x.csv", "--fine", "kung pao @ B")
    assert (out.code, "no such option: --fine" in out.err) == (2, True)
    out = finegraph("label", store_file, "--person", "ann")
    assert (out.code, "no such option: --person" in out.err) == (2, True)
    assert not (tmp_path / "x.csv").exists()


def test_a_mistyped_command_is_not_taken_for_a_graph(finegraph, menu_file):
    out = finegraph("label", "exprot", menu_file, "out.csv")
    assert out.code == 2
    assert "'exprot': there is no such file, folder or command; did you mean 'export'" in out.err


def test_the_page_is_opened_without_naming_the_command(finegraph, menu_file, monkeypatch):
    def ready_at_once(session, *, host, port, token, hosts, on_ready):
        on_ready(f"http://{host}:{port}/")

    monkeypatch.setattr("finegraph.web.label.serve_label", ready_at_once)
    for words in (["label", menu_file], ["label", "open", menu_file]):
        done = finegraph(*words, "--port", 9999, "--json")
        assert done.code == 0
        assert json.loads(done.out)["address"] == "http://127.0.0.1:9999/"
        assert json.loads(done.out)["store"] == str(menu_file.with_suffix(".db"))


def test_an_earlier_state_is_exported_by_the_number_of_its_edit(finegraph, menu_file, store_file, tmp_path):
    head, *lines = finegraph("label", "history", store_file).out.splitlines()
    assert head.split() == ["edit", "action", "when", "who", "what"]
    [number] = [line.split()[0] for line in lines if line.endswith("unknown -> pork")]
    assert finegraph("label", "export", f"{store_file}@{number}", tmp_path / "then.csv").code == 0
    assert "kung pao @ B,kung pao,B,pork,plate" in (tmp_path / "then.csv").read_text(encoding="utf-8")
    refused = finegraph("label", "undo", f"{store_file}@{number}", 2)
    assert (refused.code, "an earlier state can be read" in refused.err) == (3, True)
    refused = finegraph("label", "export", f"{store_file}@1", tmp_path / "x.json", "--format", "label-studio")
    assert (refused.code, "written in any other format" in refused.err) == (3, True)


def test_a_file_makes_a_store_that_is_not_there(finegraph, store_file, tmp_path):
    finegraph("label", "export", store_file, tmp_path / "studio.json", "--format", "label-studio")
    made = finegraph("label", "import", tmp_path / "new.db", tmp_path / "studio.json")
    assert made.code == 0
    assert "made the store" in made.err
    again = finegraph("label", "import", tmp_path / "new.db", tmp_path / "studio.json", "--json")
    assert json.loads(again.out)["edits"] == 0
    (tmp_path / "bad.json").write_text("[{}]", encoding="utf-8")
    assert finegraph("label", "import", tmp_path / "other.db", tmp_path / "bad.json").code == 3
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("other")] == []
