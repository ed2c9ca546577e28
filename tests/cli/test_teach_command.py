"""`finegraph teach`: lessons by command, with what they change."""

import json

import pytest
from PIL import Image

import finegraph as fg
import tiny_classifier as tiny
from taught_classifier import fitted, photo_of


@pytest.fixture
def model(tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    fitted().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "dinner.png"
    Image.fromarray(photo_of(9, 1)).save(path)
    return path


def test_a_lesson_and_its_undo(finegraph, model, photo):
    before = fg.load(model).predict(photo)
    outcome = finegraph("teach", model, "egg rice @ B", photo, "--person", "Ada")
    assert (outcome.code, outcome.err) == (0, "")
    first, _, heading, row = outcome.out.splitlines()
    assert first.startswith("Taught: egg rice @ B from 1 photo   (lesson ")
    assert heading.split() == ["photo", "before", "now", "egg", "rice", "@", "B"]
    assert row.startswith("dinner.png  ")
    assert f"{before.top[0].label}, {100 * before.top[0].probability:.1f} %" in row
    lesson = first.rpartition(" ")[2].rstrip(")")

    listed = finegraph("teach", model, "--list")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["lesson", lesson]
    assert "Ada  " in listed.out
    document = json.loads(finegraph("teach", model, "--forget", lesson, "--person", "Bob", "--json").out)
    assert document["lesson"]["forgotten"] is True
    (change,) = document["changes"]
    assert change["label_after"] < change["label_before"]
    assert change["after"][0]["label"] == before.top[0].label
    assert finegraph("teach", model, "--list").out == "It was taught nothing yet.\n"
    everything = json.loads(finegraph("teach", model, "--list", "--json").out)
    assert [one["forgotten"] for one in everything["lessons"]] == [True]


def test_a_new_label_with_its_parents(finegraph, model, photo):
    parents = (
        "--parent",
        "dish=mapo tofu",
        "--parent",
        "restaurant=C",
        "--parent",
        "with=tofu",
        "--parent",
        "spicy=yes",
    )
    outcome = finegraph("teach", model, "mapo tofu @ C", photo, *parents, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    assert document["new_labels"] == {"fine": ["mapo tofu @ C"], "restaurant": ["C"]}
    assert document["lesson"]["parents"]["with: tofu"] == "yes"
    assert document["lesson"]["parents"]["with: pork"] == "no"
    assert document["changes"][0]["label_before"] == 0.0
    assert document["changes"][0]["after"][0]["label"] == "mapo tofu @ C"


def test_a_new_label_without_a_photo(finegraph, model):
    outcome = finegraph("teach", model, "egg rice @ A", "--parent", "dish=egg rice", "--parent", "restaurant=A")
    assert outcome.out.startswith("Taught: egg rice @ A, without a photo   (lesson ")
    assert "New fine label: egg rice @ A" in outcome.out
    assert finegraph("teach", model, "a riddle", "--new").code == 0
    assert fg.load(model).graph.fine[-2:] == ("egg rice @ A", "a riddle")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected one of LABEL, --forget and --list, got none"),
        (("x", "--list"), "got LABEL and --list"),
        (("mapo tofu",), "to add it, say which coarse labels it has"),
        (("x", "--parent", "dish"), "expected kind=label"),
        (("x", "--parent", "dich=ramen"), "did you mean 'dish'"),
        (("--forget", "never"), "there is none of this id"),
        (("egg rice @ B", "nowhere.jpg"), "nowhere.jpg"),
    ],
)
def test_what_is_wrong_is_said(finegraph, model, arguments, words):
    outcome = finegraph("teach", model, *arguments)
    assert outcome.code == (2 if words.startswith(("expected one", "got LABEL")) else 3)
    assert words in " ".join(outcome.err.split())
    assert fg.load(model).lessons == ()


def test_a_model_of_another_fit(finegraph, tmp_path, model, photo):
    tiny.classifier().save(tmp_path / "other")
    outcome = finegraph("teach", tmp_path / "other", "egg rice @ B", photo)
    assert outcome.code == 3
    assert "train it again with fit = prototypes" in " ".join(outcome.err.split())
