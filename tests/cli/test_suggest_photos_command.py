"""`finegraph suggest-photos`: a list, a file with a column for labels, JSON."""

import csv
import json

import pytest
from PIL import Image

import finegraph as fg
import tiny_classifier as tiny
from taught_classifier import fitted, photo_of


@pytest.fixture
def model(tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    fitted(labels=[0, 1, 2, 3]).save(tmp_path / "model")  # no photo of the last label
    return tmp_path / "model"


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "unlabelled"
    folder.mkdir()
    for label in range(5):
        Image.fromarray(photo_of(label, 60)).save(folder / f"{label}.png")
    (folder / "copy.png").write_bytes((folder / "4.png").read_bytes())
    return folder


def test_a_list_a_file_and_json(finegraph, model, photos, tmp_path):
    document = json.loads(finegraph("suggest-photos", model, photos, "--count", 6, "--json").out)["photos"]
    assert sorted(one["path"] for one in document) == sorted(str(path) for path in photos.iterdir())
    places = {one["path"]: number for number, one in enumerate(document)}
    _, second = sorted(places[str(photos / name)] for name in ("4.png", "copy.png"))
    assert document[second]["alike"] is not None
    own = [one["alike"] is None for one in document]
    assert own == sorted(own, reverse=True)  # what looks like another photo comes after all others
    assert all(one["gain"] > 0 for one in document)
    outcome = finegraph("suggest-photos", model, photos, "--count", 2, "-o", tmp_path / "next.csv")
    assert (outcome.code, outcome.err) == (0, "")
    assert "fill in the column label" in outcome.out
    with open(tmp_path / "next.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == [one["path"] for one in document[:2]]
    assert {row["label"] for row in rows} == {""}
    assert len(finegraph("suggest-photos", model, photos, "--count", 3).out.splitlines()) == 4


def test_what_was_taught_is_asked_for_less(finegraph, model, photos):
    before = json.loads(finegraph("suggest-photos", model, photos, "--count", 1, "--json").out)["photos"][0]
    classifier = fg.load(model)
    for number in range(12):
        for label in classifier.graph.fine:
            classifier.teach(label, [photo_of(classifier.graph.fine_index(label), 200 + number)])
    after = json.loads(finegraph("suggest-photos", model, photos, "--count", 1, "--json").out)["photos"][0]
    assert after["gain"] < before["gain"]


def test_models_without_statistics_say_so(finegraph, tmp_path, model, photos):
    tiny.classifier().save(tmp_path / "other")
    outcome = finegraph("suggest-photos", tmp_path / "other", photos)
    assert outcome.code == 3
    assert "fit = prototypes" in outcome.err
