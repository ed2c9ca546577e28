"""`finegraph teach`: lessons by command, with what they change."""

import json
from dataclasses import replace

import pytest
from PIL import Image

import finegraph as fg
import tiny_classifier as tiny
from finegraph.cli.terminal import percent
from finegraph.graph import Number
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
    first, _, heading, *rows = outcome.out.splitlines()
    assert first.startswith("Taught: egg rice @ B from 1 photo   (lesson ")
    assert heading.split() == ["dinner.png", "before", "now", "shared", "with", "it"]
    after = fg.load(model).predict(photo, top=5)
    assert rows[0].startswith("egg rice @ B  ")
    assert len(rows) == 5
    chances = [{one.label: one.probability for one in found.top} for found in (before, after)]
    for line in rows:
        label = next(name for name in chances[0] if line.startswith(name))
        assert line.split()[4:6] == [percent(some[label]) for some in chances]
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


def test_a_new_coarse_label_that_looks_like_a_known_one_is_noted(finegraph, model):
    outcome = finegraph("teach", model, "soup @ A", "--parent", "dish=kung poa", "--parent", "restaurant=Ritz")
    assert outcome.code == 0
    assert "New dish: kung poa (near 'kung pao')" in outcome.out
    assert "New restaurant: Ritz\n" in outcome.out
    (lesson,) = fg.load(model).lessons
    assert f"If a known label was meant, take the lesson back: --forget {lesson.id}" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "expected one of LABEL, --from, --forget and --list, got none"),
        (("--list", "--new"), "--parent and --new are about a new LABEL, not about --list"),
        (("x", "--list"), "got LABEL and --list"),
        (("egg rice @ B", "--new"), "the model knows it already; leave --new out"),
        (("riddle",), "to add it, say which coarse labels it has"),
        (("x", "--parent", "dish"), "expected kind=label"),
        (("egg rise @ B", "nowhere.jpg"), "nowhere.jpg: there is no such file"),
        (("egg rise @ B",), "did you mean 'egg rice @ B'? To add it, say which coarse labels it has"),
        (("egg rise @ B",), "Give each of them with --parent KIND=LABEL, or --new if none is known."),
        (("x", "--parent", "dich=ramen"), "did you mean 'dish'"),
        (("x", "--parent", "dish="), "kind 'dish': expected a label behind the '=', got nothing"),
        (("--forget", "never"), "there is none of this id"),
        (("--forget", "never"), "--list shows the lessons."),
        (("egg rice @ B", "nowhere.jpg"), "nowhere.jpg"),
    ],
)
def test_what_is_wrong_is_said(finegraph, model, arguments, words):
    outcome = finegraph("teach", model, *arguments)
    assert outcome.code == (2 if words.startswith(("expected one", "got LABEL", "--parent and")) else 3)
    assert words in " ".join(outcome.err.split())
    assert fg.load(model).lessons == ()


def test_a_model_of_another_fit(finegraph, tmp_path, model, photo):
    tiny.classifier().save(tmp_path / "other")
    outcome = finegraph("teach", tmp_path / "other", "egg rice @ B", photo)
    assert outcome.code == 3
    assert "train it again with fit = prototypes" in " ".join(outcome.err.split())


def test_answers_before_and_now_are_those_of_predict_also_where_several_views_are_learnt_from(finegraph, model, photo):
    classifier = fitted()
    classifier.statistics = replace(classifier.statistics, views=4)
    classifier.save(model)
    before = fg.load(model).predict(photo, top=5)
    document = json.loads(finegraph("teach", model, "kung pao @ A", photo, "--json").out)
    after = fg.load(model).predict(photo, top=5)
    (change,) = document["changes"]
    for side, found in (("before", before), ("after", after)):
        chances = {one.label: one.probability for one in found.top}
        assert {one["label"]: one["probability"] for one in change[side]} == pytest.approx(chances, abs=1e-5)
        assert change[f"label_{side}"] == pytest.approx(chances["kung pao @ A"], abs=1e-5)
        for one in change["relatives"]:
            assert one[side] == pytest.approx(chances[one["label"]], abs=1e-5)
    undone = json.loads(finegraph("teach", model, "--forget", document["lesson"]["id"], "--json").out)["changes"][0]
    assert undone["after"][0]["probability"] == pytest.approx(before.top[0].probability, abs=1e-5)


def test_relatives_are_siblings_too_the_most_changed_first(finegraph, model, photo):
    (change,) = json.loads(finegraph("teach", model, "kung pao @ A", photo, "--json").out)["changes"]
    relatives = {one["label"]: one for one in change["relatives"]}
    assert relatives["kung pao @ B"]["shares"]["dish"] == "kung pao"
    moves = [abs(one["after"] - one["before"]) for one in change["relatives"]]
    assert moves == sorted(moves, reverse=True)
    assert "kung pao @ A" not in relatives


@pytest.mark.deep
def test_values_of_a_new_label(finegraph, tmp_path, monkeypatch, photo):
    tiny.register(monkeypatch)
    graph = fitted().graph
    fitted(graph.with_number(Number.from_values("price", range(5, 5 + len(graph)), unit="EUR"))).save(tmp_path / "m")
    for number, (text, value, spread) in enumerate([("12.5", 12.5, 0.0), ("12.5 +- 1.5", 12.5, 1.5), ("8 EUR", 8, 0)]):
        outcome = finegraph("teach", tmp_path / "m", f"new {number}", photo, "--parent", f"price={text}")
        assert (outcome.code, outcome.err) == (0, "")
        found = fg.load(tmp_path / "m").graph.number("price")
        assert (found.values[-1], found.spreads[-1]) == (value, spread)
    for text, words in (
        ("price=dear", "number 'price': 'dear': the cell is in a column of numbers but is not a number"),
        ("price=", "number 'price': expected a value behind the '='"),
        ("prise=3", "did you mean 'price'"),
    ):
        outcome = finegraph("teach", tmp_path / "m", "x", photo, "--parent", text)
        assert outcome.code == 3
        assert words in " ".join(outcome.err.split())
    twice = finegraph("teach", tmp_path / "m", "x", photo, "--parent", "price=3", "--parent", "price=4")
    assert "number 'price': expected one value, got 2; a range is written as 10..15" in " ".join(twice.err.split())


def test_a_photo_that_cannot_be_read_is_not_to_be_left_out_by_a_flag_that_there_is_not(finegraph, model, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no photo")
    for name in ("broken.jpg", "missing.jpg"):
        outcome = finegraph("teach", model, "egg rice @ B", tmp_path / name)
        assert outcome.code == 3
        assert "--on-bad-file" not in outcome.err


def test_what_was_forgotten_before_is_said(finegraph, model, photo):
    lesson = json.loads(finegraph("teach", model, "egg rice @ B", photo, "--json").out)["lesson"]["id"]
    assert finegraph("teach", model, "--forget", lesson).out.startswith("Forgotten: egg rice @ B from 1 photo")
    again = finegraph("teach", model, "--forget", lesson)
    assert again.code == 0
    assert again.out == f"Forgotten before, so nothing changes: egg rice @ B from 1 photo   (lesson {lesson})\n"
    assert json.loads(finegraph("teach", model, "--forget", lesson, "--json").out)["repeated"] is True


def test_copies_of_a_photo_count_once_and_this_is_said(finegraph, model, photo, tmp_path):
    (tmp_path / "copy.png").write_bytes(photo.read_bytes())
    out = finegraph("teach", model, "egg rice @ B", photo, tmp_path / "copy.png").out
    assert out.startswith("Taught: egg rice @ B from 1 photo   (lesson ")
    assert out.splitlines()[1] == "1 more file with the same content: a photo counts once"
    assert finegraph("teach", model, "--list").out.splitlines()[1].endswith(" 1")


def test_a_list_is_taught_row_by_row_and_goes_on(finegraph, model, tmp_path):
    for label in range(4):
        Image.fromarray(photo_of(label, 60)).save(tmp_path / f"{label}.png")
    (tmp_path / "next.csv").write_text(
        "path,label,guess\n0.png,mapo tofu @ A,\n1.png,,\n2.png,kung pao @ A,x\n3.png, kung pao @ A,\n"
    )
    outcome = finegraph("teach", model, "--from", tmp_path / "next.csv", "--person", "Ada")
    assert outcome.code == 0
    assert outcome.out.splitlines()[:2] == ["Taught: 3 photos of 2 labels", "Without a label: 1 photo"]
    assert [line.split() for line in outcome.out.splitlines()[3:]] == [
        ["label", "photos"],
        ["mapo", "tofu", "@", "A", "1"],
        ["kung", "pao", "@", "A", "2"],
    ]
    lessons = fg.load(model).lessons
    assert [(one.label, one.photos[0].name, one.person) for one in lessons] == [
        ("mapo tofu @ A", "0.png", "Ada"),
        ("kung pao @ A", "2.png", "Ada"),
        ("kung pao @ A", "3.png", "Ada"),
    ]
    text = (tmp_path / "next.csv").read_text()
    (tmp_path / "next.csv").write_text(
        text.replace("1.png,", "1.png,mapo tofu @ B").replace(" kung pao @ A", "egg rice @ B")
    )
    document = json.loads(finegraph("teach", model, "--from", tmp_path / "next.csv", "--json").out)
    assert [(one["label"], one["photos"]) for one in document["lessons"]] == [
        ("mapo tofu @ B", ["1.png"]),
        ("egg rice @ B", ["3.png"]),  # it was another label before
    ]
    assert (document["known"], document["open"]) == (2, 0)
    assert finegraph("teach", model, "--from", tmp_path / "next.csv").out.splitlines() == [
        "Taught: 0 photos of 0 labels",
        "Taught before: 4 photos",
    ]


def test_all_faults_of_a_list_are_said_at_once_and_nothing_is_taught(finegraph, model, tmp_path):
    Image.fromarray(photo_of(0, 60)).save(tmp_path / "0.png")
    (tmp_path / "broken.png").write_bytes(b"no photo")
    (tmp_path / "next.csv").write_text(
        "path,label\n0.png,mapo tofu @ A\nbroken.png,mapo tofu @ A\n0.png,kung pau @ A\n,kung pao @ A\n"
        "gone.png,kung pao @ A\n0.png,kung pao @ A\ngone too.png,\n"
    )
    outcome = finegraph("teach", model, "--from", tmp_path / "next.csv")
    assert outcome.code == 3
    said = [" ".join(line.split()) for line in outcome.err.splitlines()]
    assert said[0] == f"error: the list {tmp_path}/next.csv: 6 faults"
    for number, words in (
        (1, ":3: column 'path': value 'broken.png':"),
        (
            2,
            ":4: column 'label': value 'kung pau @ A': the model does not know this label; did you mean 'kung pao @ A'",
        ),
        (3, ":4: column 'label': value 'kung pau @ A': this photo is on line 2 as 'mapo tofu @ A'"),
        (4, ":5: column 'path': the row names no photo"),
        (5, ":6: column 'path': value 'gone.png':"),
        (6, ":7: column 'label': value 'kung pao @ A': this photo is on line 2 as 'mapo tofu @ A'"),
    ):
        assert words in said[number]
    assert fg.load(model).lessons == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("photo,label\na.png,x\n", ":1: there is no column 'path'; the first line names the columns: path,label"),
        ("path,labels\na.png,x\n", ":1: there is no column 'label'; rename 'labels'"),
        ("path,label\na.png,\n", "expected rows with a label, got none; fill in the column label"),
        (None, "the file cannot be read"),
    ],
)
def test_lists_that_name_no_labels(finegraph, model, tmp_path, text, words):
    if text is not None:
        (tmp_path / "next.csv").write_text(text)
    outcome = finegraph("teach", model, "--from", tmp_path / "next.csv")
    assert outcome.code == 3
    assert words in " ".join(outcome.err.split())


def test_several_photos_are_a_table(finegraph, model, tmp_path):
    for number in range(12):
        Image.fromarray(photo_of(9, number)).save(tmp_path / f"{number:02}.png")
    lines = finegraph("teach", model, "egg rice @ B", *sorted(tmp_path.glob("*.png"))).out.splitlines()
    assert lines[2].split() == ["photo", "this", "label", "taken", "for", "before", "taken", "for", "now"]
    assert [line.split()[0] for line in lines[3:13]] == [f"{number:02}.png" for number in range(10)]
    assert lines[13:] == ["and 2 more photos"]


def test_help_says_which_models_can_be_taught(finegraph):
    said = " ".join(finegraph("teach", "--help").out.split())
    assert "must have been trained with --fit prototypes" not in said
    assert "with --fit prototypes, with --fit auto where that is the better fit" in said
