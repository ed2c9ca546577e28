import json
import re
from dataclasses import replace

import pytest

import tiny_classifier as tiny
from finegraph.cli.index import _print_facts
from finegraph.search import Index
from finegraph.workflows.indexing.index_upkeep import describe_index

LABELS = list(tiny.TABLE)


@pytest.fixture
def run(tmp_path, monkeypatch):
    return tiny.saved_run(tmp_path, monkeypatch)


@pytest.fixture
def photos(tmp_path):
    return tiny.photo_folders(tmp_path)


@pytest.mark.deep
def test_the_life_of_an_index(finegraph, run, photos, tmp_path):
    index = tmp_path / "index"
    outcome = finegraph("index", run, photos, "-o", index, "--project", 4)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == f"10 photos added; 10 photos in {index}"
    assert re.fullmatch(r"\d+\.\d s, \d+\.\d% of them for computing features", lines[1])
    assert re.fullmatch(
        r"projected to 4 dimensions, which keeps \S+% of the ten nearest photos \(loses \S+%\)", lines[2]
    )
    tiny.picture(91).save(photos / LABELS[0] / "2.png")
    outcome = finegraph("index", "add", index, photos)
    assert outcome.out.splitlines()[0] == f"1 photo added, 10 unchanged; 11 photos in {index}"
    outcome = finegraph("index", "remove", index, photos / LABELS[0], "--label", LABELS[1])
    assert outcome.out == f"5 photos removed from {index}\n"
    outcome = finegraph("index", "show", index)
    assert outcome.out.splitlines()[0] == "photos  6, 6 with a fine label"
    assert f"model   {run} (tiny, fingerprint " in outcome.out
    assert re.search(r"files   \S+ MB in \d segments?, 4 removed photos still among them", outcome.out)
    outcome = finegraph("index", "compact", index, "--json")
    document = json.loads(outcome.out)
    assert (document["photos"], document["removed"], document["segments"]) == (6, 0, 1)
    outcome = finegraph("index", "check", index, "--photos")
    assert (outcome.code, outcome.out) == (0, "4 files and 6 photos checked: nothing wrong\n")
    assert len(Index.open(index)) == 6


def test_most_photos_missing_needs_a_yes(finegraph, run, photos, tmp_path):
    index = tmp_path / "index"
    finegraph("index", run, photos, "-o", index)
    photos.rename(tmp_path / "elsewhere")
    outcome = finegraph("index", "remove", index, "--missing")
    assert outcome.code != 0
    assert "10 of 10 whose file is missing" in " ".join(outcome.err.split())
    assert len(Index.open(index)) == 10
    assert finegraph("index", "remove", index, "--missing", "--yes").out == f"10 photos removed from {index}\n"


def test_json_of_making_and_a_model_called_like_a_command(finegraph, run, photos, tmp_path, monkeypatch):
    run.rename(tmp_path / "add")
    monkeypatch.chdir(tmp_path)
    outcome = finegraph("index", "./add", "photos", "-o", "index", "--approximate", "--json")
    assert outcome.code == 0
    document = json.loads(outcome.out)
    assert (document["photos"], document["folder"], document["bad"]) == (10, "index", [])
    assert 0.9 <= document["approximate_recall"] <= 1.0
    assert finegraph("index", "make", "./add", "photos", "-o", "again").code == 0
    assert "approximate, " in finegraph("index", "show", "index").out


def test_what_is_wrong_is_said(finegraph, run, photos, tmp_path):
    index = tmp_path / "index"
    assert finegraph("index", run, photos, "-o", index, "--exact", "--approximate").code == 2
    assert finegraph("index", run, photos).code == 2
    assert finegraph("index", run, photos, "-o", index).code == 0
    outcome = finegraph("index", run, photos, "-o", index)
    assert (outcome.code, outcome.out) == (3, "")
    assert "there is an index already" in outcome.err
    (photos / LABELS[0] / "0.png").write_bytes(b"no photo")
    outcome = finegraph("index", "check", index, "--photos")
    assert outcome.code == 1
    assert f"changed  {photos / LABELS[0] / '0.png'}" in outcome.out
    assert "3 files and 10 photos checked: 1 wrong" in outcome.out
    outcome = finegraph("index", "add", index, photos, "--on-bad-file", "skip")
    assert (outcome.code, outcome.err.splitlines()[0]) == (0, "left out as they cannot be read: 1 photo")
    segment = next(index.glob("segment-*"))
    segment.write_bytes(segment.read_bytes() + b"x")
    outcome = finegraph("index", "check", index, "--json")
    assert (outcome.code, len(json.loads(outcome.out)["damaged"])) == (1, 1)


def test_a_command_that_is_spelt_wrong(finegraph, run, photos, tmp_path):
    outcome = finegraph("index", "compat", tmp_path / "index")
    assert outcome.code == 2
    assert "'compat': there is no such file, folder or command; did you mean 'compact'?" in outcome.err
    outcome = finegraph("index", "nowhere", photos, "-o", tmp_path / "index")
    assert outcome.code == 3
    assert "nowhere: there is no such folder" in outcome.err


def test_labels_that_change_are_told(finegraph, run, photos, tmp_path):
    assert finegraph("index", run, photos, "-o", tmp_path / "index").code == 0
    (tmp_path / "images.csv").write_text(f"path,label\nphotos/{LABELS[2]}/0.png,odd\n")
    outcome = finegraph("index", "add", tmp_path / "index", tmp_path / "images.csv")
    assert outcome.out.startswith("0 photos added, 1 replaced (1 had another label); 10 photos in ")


def test_help_names_the_commands(finegraph):
    outcome = finegraph("index", "--help")
    assert outcome.code == 0
    for name in ("make", "add", "remove", "compact", "show", "check"):
        assert re.search(rf"^  {name} ", outcome.out, flags=re.MULTILINE)


def test_an_index_on_a_server_counts_no_segments(run, photos, tmp_path, finegraph, capsys):
    index = tmp_path / "index"
    finegraph("index", run, photos, "-o", index)
    facts = replace(describe_index(index), uri="http://localhost:19530", collection="dishes", segments=0, bytes=0)
    capsys.readouterr()
    _print_facts(facts, False)
    shown = capsys.readouterr().out
    assert "engine  Milvus at http://localhost:19530, collection dishes" in shown
    assert "files" not in shown
    assert "segment" not in shown
    _print_facts(replace(facts, bytes=2_500_000), False)
    assert "files   2.5 MB beside the collection\n" in capsys.readouterr().out
