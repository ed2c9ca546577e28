import json
import re

import pytest

import tiny_classifier as tiny
from finegraph.search import Index
from finegraph.workflows.index import make_index
from search.tiny_index import columns, new_writer

LABELS = list(tiny.TABLE)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with an index and the photos in it."""
    tiny.register(monkeypatch)
    tiny.classifier().save(tmp_path / "model")
    for number, label in enumerate(LABELS):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for seed in (0, 1):
            tiny.picture(10 * number + seed).save(tmp_path / "photos" / label / f"{seed}.png")
    make_index(tmp_path / "model", [tmp_path / "photos"], tmp_path / "index")
    return tmp_path


def test_a_table_of_hits(finegraph, place):
    photo = place / "photos" / LABELS[2] / "1.png"
    outcome = finegraph("search", place / "index", photo, "-n", 3)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == f"{photo}: 3 hits among 10 photos (exact search)"
    assert lines[1] == f"this photo is in the index as {LABELS[2]}: {photo}"
    assert lines[2].split() == ["similarity", "label", "photo"]
    assert re.fullmatch(rf"1 +1\.000  {LABELS[2]} +{photo}", lines[3])
    assert len(lines) == 6


def test_conditions_filters_and_labels(finegraph, place):
    outcome = finegraph(
        "search", place / "index", "--label", LABELS[0], "--same", "dish", "--other", "restaurant",
        "--where", "restaurant!=A", "--per-label", 1, "--json",
    )  # fmt: skip
    assert outcome.code == 0
    document = json.loads(outcome.out)
    assert (document["same"], document["other"], document["where_not"]) == (
        ["dish"], ["restaurant"], {"restaurant": ["A"]},
    )  # fmt: skip
    (query,) = document["queries"]
    assert [hit["label"] for hit in query["hits"]] == [LABELS[1]]
    outcome = finegraph("search", place / "index", "--label", LABELS[0], "--same", "dish")
    assert outcome.out.splitlines()[1].split() == ["similarity", "probability", "label", "photo"]
    outcome = finegraph(
        "search", place / "index", "--label", LABELS[0], "--where", f"fine={LABELS[4]}", "--same", "dish"
    )
    assert outcome.out.splitlines()[1] == "no photo passes"


def test_what_is_given(finegraph, place):
    photo = place / "photos" / LABELS[2] / "1.png"
    options = ("--other", "restaurant", "--given", "restaurant=A", "--json")
    hits = json.loads(finegraph("search", place / "index", photo, *options).out)["queries"][0]["hits"]
    assert {hit["kinds"]["restaurant"][0] for hit in hits} == {"B"}
    document = json.loads(finegraph("search", place / "index", photo, *options[2:]).out)
    assert document["given"] == {"restaurant": ["A"]}
    assert {hit["kinds"]["restaurant"][0] for hit in document["queries"][0]["hits"]} == {"A"}


def test_an_index_whose_making_was_interrupted_says_so(finegraph, place):
    with new_writer(place / "begun") as writer:
        writer.add(columns(30))
    label = Index.open(place / "begun").engine.table.names[0]
    outcome = finegraph("search", place / "begun", "--label", label, "--json")
    assert (outcome.code, json.loads(outcome.out)["complete"]) == (0, False)
    assert outcome.err == f"making {place}/begun was interrupted, so photos are missing; give the same command again\n"
    assert json.loads(finegraph("search", place / "index", "--label", LABELS[0], "--json").out)["complete"]


def test_a_page(finegraph, place):
    page = place / "page.html"
    outcome = finegraph("search", place / "index", place / "photos" / LABELS[0], "-n", 2, "--html", page)
    assert outcome.out.splitlines()[-1] == f"written to {page}"
    assert page.read_text(encoding="utf-8").count('class="hit"') == 4


def test_what_is_wrong_is_said(finegraph, place):
    outcome = finegraph("search", place / "index")
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err == "error: expected a photo or a fine label to search by, got neither\n"
    outcome = finegraph("search", place / "indx", "--label", LABELS[0])
    assert outcome.code == 3
    assert "did you mean" in outcome.err
    outcome = finegraph("search", place / "index", "--label", "mapo tofu @ C")
    assert "unknown fine label 'mapo tofu @ C'; did you mean 'mapo tofu @ " in outcome.err


def test_without_faiss_the_extra_is_named(finegraph, place, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    outcome = finegraph("search", place / "index", "--label", LABELS[0])
    assert outcome.code == 3
    assert (
        'searching needs faiss, which is not installed; install it with `pip install "finegraph[search]"`'
        in outcome.err
    )
