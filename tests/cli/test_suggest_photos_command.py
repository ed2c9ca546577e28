"""`finegraph suggest-photos`: a list, a file with a column for labels, JSON."""

import csv
import json
from pathlib import Path

import pytest
from PIL import Image

import finegraph as fg
import tiny_classifier as tiny
from finegraph.workflows.suggest_photos import SuggestedPhoto, read_photo_list, write_suggestions
from taught_classifier import fitted, photo_of


@pytest.fixture
def model(tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    fitted(labels=(0, 1, 2, 3)).save(tmp_path / "model")  # no photo of the last label
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
    assert f"teach {model} --from {tmp_path}/next.csv" in outcome.out
    with open(tmp_path / "next.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == [one["path"] for one in document[:2]]
    assert {row["label"] for row in rows} == {""}
    assert len(finegraph("suggest-photos", model, photos, "--count", 3).out.splitlines()) == 4


@pytest.mark.deep
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


def test_photos_that_were_taught_are_not_asked_for_again(finegraph, model, photos):
    classifier = fg.load(model)
    lesson = classifier.teach(classifier.graph.fine[0], [photos / "0.png", photos / "4.png"])
    named = json.loads(finegraph("suggest-photos", model, photos, "--json").out)["photos"]
    assert sorted(Path(one["path"]).name for one in named) == ["1.png", "2.png", "3.png"]  # nor is the copy
    classifier.forget(lesson.id)
    assert len(json.loads(finegraph("suggest-photos", model, photos, "--json").out)["photos"]) == 6
    classifier.teach(classifier.graph.fine[0], sorted(photos.iterdir()))
    outcome = finegraph("suggest-photos", model, photos)
    assert outcome.code == 3
    assert "the model was taught all 6 of these already" in outcome.err


def test_the_list_opens_on_the_page(finegraph, model, photos, tmp_path, monkeypatch):
    served = []
    monkeypatch.setattr("finegraph.web.serve.model_server.serve", lambda settings, _: served.append(settings))
    order = [one["path"] for one in json.loads(finegraph("suggest-photos", model, photos, "--json").out)["photos"]]
    assert finegraph("suggest-photos", model, photos, "--label", "--port", 0).code == 0
    finegraph("suggest-photos", model, photos, "-o", tmp_path / "next.csv")
    assert finegraph("serve", model, "--teach", "--to-label", tmp_path / "next.csv").code == 0
    for settings in served:
        assert settings.teach
        assert [str(path) for path in settings.to_label] == order
    assert served[0].security.port == 0


@pytest.mark.deep
def test_photos_that_cannot_be_read_may_be_left_out(finegraph, model, photos):
    (photos / "broken.jpg").write_bytes(b"no photo")
    outcome = finegraph("suggest-photos", model, photos)
    assert outcome.code == 3
    assert "or leave such files out: --on-bad-file skip." in " ".join(outcome.err.split())
    outcome = finegraph("suggest-photos", model, photos, "--on-bad-file", "skip", "--json")
    assert outcome.code == 0
    assert "left out as they cannot be read: 1 photo" in outcome.err
    document = json.loads(outcome.out)
    assert len(document["photos"]) == 6
    assert [Path(one["photo"]).name for one in document["bad"]] == ["broken.jpg"]
    outcome = finegraph("suggest-photos", model, photos / "broken.jpg", "--on-bad-file", "skip")
    assert "none of these 1 can be read" in outcome.err


def test_the_list_is_taught_when_it_is_filled_in(finegraph, model, photos, tmp_path):
    finegraph("suggest-photos", model, photos, "--count", 2, "-o", tmp_path / "next.csv")
    first, second, third = (tmp_path / "next.csv").read_text().splitlines()
    filled = second.replace(".png,,", ".png,egg rice @ B,", 1)
    (tmp_path / "next.csv").write_text("\n".join([first, filled, third]) + "\n")
    assert finegraph("teach", model, "--from", tmp_path / "next.csv").code == 0
    (lesson,) = fg.load(model).lessons
    assert (lesson.label, lesson.photos[0].name) == ("egg rice @ B", Path(second.partition(",")[0]).name)


def test_rows_that_are_filled_in_stay(finegraph, model, photos, tmp_path):
    file = tmp_path / "next.csv"
    finegraph("suggest-photos", model, photos, "--count", 2, "-o", file)
    text = file.read_text().replace(".png,,", ".png,egg rice @ B,", 1)
    file.write_text(text)
    (filled,) = [line for line in text.splitlines() if ".png,egg rice @ B," in line]
    outcome = finegraph("suggest-photos", model, photos, "-o", file)
    assert (outcome.code, outcome.err) == (0, "")
    assert "1 row with a label was there already, and stayed" in outcome.out
    *new, last = file.read_text().splitlines()[1:]
    assert last == filled
    listed = [line.partition(",")[0] for line in (*new, last)]
    assert sorted(listed) == sorted(str(path) for path in photos.iterdir())  # each photo once
    # A spreadsheet may save semicolons and a mark of the byte order.
    file.write_text("\ufeff" + file.read_text().replace(",", ";"))
    finegraph("suggest-photos", model, photos, "--count", 1, "-o", file)
    assert file.read_text().splitlines()[2:] == [filled]


def test_labels_that_would_be_lost_are_not_written_over(finegraph, model, photos, tmp_path):
    file = tmp_path / "menu.csv"
    file.write_text("path,label,price\na.png,egg rice @ B,3\nb.png,,\n")
    outcome = finegraph("suggest-photos", model, photos, "-o", file)
    assert outcome.code == 3
    assert "1 of its rows has a label, which would be lost" in " ".join(outcome.err.split())
    assert "egg rice @ B,3" in file.read_text()
    rows = "".join(f"{path},egg rice @ B,,,,\n" for path in photos.iterdir())
    file.write_text("path,label,guess,probability,gain,alike\n" + rows)
    outcome = finegraph("suggest-photos", model, photos, "-o", file)
    assert outcome.code == 3
    assert "all 6 of these have a label in" in " ".join(outcome.err.split())
    assert file.read_text().endswith(rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("photo\na.png\n", "expected a CSV file with a column path"),
        ("path\n", "expected a photo in each line, got none"),
        (None, "cannot be read"),
    ],
)
def test_lists_that_name_no_photos(finegraph, model, tmp_path, text, message):
    if text is not None:
        (tmp_path / "next.csv").write_text(text)
    outcome = finegraph("serve", model, "--teach", "--to-label", tmp_path / "next.csv")
    assert outcome.code == 3
    assert message in outcome.err


def test_labels_are_lessons(finegraph, model, tmp_path):
    (tmp_path / "next.csv").write_text("path\na.png\n")
    outcome = finegraph("serve", model, "--to-label", tmp_path / "next.csv")
    assert "labels are lessons, and this server takes none; let it with --teach" in outcome.err


def test_paths_of_a_list_hold_from_its_folder_too(tmp_path, monkeypatch):
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "-a.png").write_bytes(b"")
    (tmp_path / "b.png").write_bytes(b"")
    suggested = [SuggestedPhoto(name, "", 1.0, 1.0, None) for name in ("-a.png", "b.png")]
    write_suggestions(tmp_path / "lists" / "next.csv", suggested)
    monkeypatch.chdir(tmp_path)
    assert read_photo_list("lists/next.csv") == [Path("lists/-a.png"), Path("b.png")]
