import json
import math
import re
from dataclasses import replace

import pytest

import finegraph as fg
import tiny_classifier as tiny
from finegraph.cli.prediction_text import kind_lines, print_prediction
from finegraph.cli.terminal import console
from finegraph.inference import Answer, Explanation, Part, Question, Statement
from finegraph.model import Prediction
from finegraph.model.answering.unknown import UnknownRule


@pytest.fixture
def model(tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    tiny.classifier().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    tiny.picture(3).save(path)
    return path


@pytest.fixture
def on_a_terminal(monkeypatch):
    def use(columns):
        for name, value in {"TTY_COMPATIBLE": "1", "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": str(columns)}.items():
            monkeypatch.setenv(name, value)

    return use


def unstyled(text):
    return re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", text)


def test_json_has_the_numbers_of_the_library(finegraph, model, photo):
    outcome = finegraph("predict", model, photo, "--given", "restaurant=B", "--views", 10, "--risk", 0.2, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    prediction = fg.load(model).predict(photo, given={"restaurant": "B"}, views=10, risk=0.2)
    assert (document["views"], document["given"], document["bad"]) == (10, {"restaurant": ["B"]}, [])
    (found,) = document["photos"]
    assert {answer["label"]: answer["probability"] for answer in found["top"]} == pytest.approx(
        dict(prediction.top), abs=1e-6
    )
    for kind, answers in prediction.kinds.items():
        listed = {answer["label"]: answer["probability"] for answer in found["kinds"][kind]}
        assert listed == pytest.approx(dict(answers), abs=1e-6)
    assert found["explanation"]["log_odds"] == pytest.approx(prediction.explanation.log_odds, abs=1e-6)


def test_what_is_printed(finegraph, model, photo):
    outcome = finegraph("predict", model, photo)
    assert (outcome.code, outcome.err) == (0, "")
    prediction = fg.load(model).predict(photo)
    lines = outcome.out.splitlines()
    assert lines[0] == str(photo)
    for line, answer in zip(lines[1:6], prediction.top, strict=True):
        assert re.fullmatch(rf"  {re.escape(answer.label)} +[<>]?\d+\.\d%", line), line
    assert all(line == line.rstrip() for line in lines)
    kinds = dict(line.strip().split("  ", 1) for line in lines if re.match(r"  (dish|restaurant|with|spicy) ", line))
    assert list(kinds) == ["dish", "restaurant", "with", "spicy"]
    best = prediction.kinds["dish"][0]
    assert kinds["dish"].strip().startswith(f"{best.label} ")
    assert re.search(r"^  (Sure|Nothing is sure) at a risk of 5%", outcome.out, re.MULTILINE)
    first, second = prediction.top[:2]
    why = next(line for line in lines if " as probable as " in line)
    assert why.startswith(f"  {first.label} is ")
    assert why.endswith(f" as probable as {second.label}:")


def test_a_table_on_the_standard_output(finegraph, model, photo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert finegraph("predict", model, photo, "--csv", "answers.csv").code == 0
    outcome = finegraph("predict", model, photo, "--csv", "-")
    assert outcome.out == (tmp_path / "answers.csv").read_text(encoding="utf-8")
    assert not (tmp_path / "-").exists()
    assert "expected one of a table and JSON" in finegraph("predict", model, photo, "--csv", "-", "--json").err


def test_what_contradicts_the_photo_is_said(capsys):
    sure = Statement(None, "Anjou", 0.99, 1)
    found = Prediction("p.jpg", (Answer("Anjou", 0.99),), {}, 0.05, sure, None, None, 1 / 4000, True)
    print_prediction(console(), found, {"product": ("Pear",), "with: nut": ("no",)})
    lines = capsys.readouterr().out.splitlines()
    assert lines[3:5] == [
        "  If the product is Pear and with nut: no, then it is Anjou (99.0%).",
        "  But the photo alone gave what is given 1 in 4,000.",
    ]
    assert "Sure" not in "".join(lines)
    print_prediction(console(), replace(found, evidence_probability=0.62, contradicts_photo=False), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[3:5] == ["  Sure at a risk of 5%: it is Anjou (99.0%).", "  The photo alone gave what is given 62 %."]


def test_a_sure_group_is_said_by_its_labels(capsys):
    found = Prediction("p.jpg", (Answer("gala", 0.5),), {}, 0.05, Statement("look 1", "apple", 0.9995, 2), None, None)
    groups = {("look 1", "apple"): ("gala", "pink lady")}
    print_prediction(console(), found, {}, groups)
    assert (
        "Sure at a risk of 5%: it is one of 2 that look alike (apple): gala, pink lady (>99.9%)."
        in capsys.readouterr().out
    )
    many = tuple(f"sort {number}" for number in range(9))
    mixed = replace(found, sure=Statement("often confused", "sort 0, sort 1 and 7 more", 0.96, 9))
    print_prediction(console(), mixed, {}, {("often confused", "sort 0, sort 1 and 7 more"): many})
    said = " ".join(capsys.readouterr().out.split())
    assert "it is one of 9 that are often confused: sort 0, sort 1, sort 2, sort 3 and 5 more (96.0%)." in said


def test_what_to_ask_next(capsys):
    asked = (
        Question("with: scallion", True, 0.9, 0.4, 0.8, 0.83),
        Question("restaurant", False, 0.5, 0.4, 0.6, 0.0),
    )
    found = Prediction("p.jpg", (Answer("a", 0.4),), {}, 0.05, None, None, None, questions=asked)
    print_prediction(console(), found, {})
    assert capsys.readouterr().out.splitlines()[4:7] == [
        "  Ask next:",
        "    Is there scallion?  settles it in 83% of cases",
        "    Which restaurant?   the best label then has 60.0% rather than 40.0%, on average",
    ]


def explained(capsys, *parts):
    """The lines that explain parts, which are given by their factors."""
    listed = tuple(
        sorted((part._replace(value=math.log(part.value)) for part in parts), key=lambda part: -abs(part.value))
    )
    why = Explanation("a @ A", "b @ B", sum(part.value for part in listed), listed)
    print_prediction(console(), Prediction("p.jpg", (Answer("a @ A", 0.6),), {}, 0.1, None, why, None), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["p.jpg", "  a @ A  60.0%", "", "  Nothing is sure at a risk of 10%."]
    return lines[4:]


def test_the_factors_of_an_explanation_make_its_odds(capsys):
    lines = explained(
        capsys,
        Part("fine", "a @ A", "b @ B", 2.0),
        Part("dish", "a", "b", 8.0),
        Part("with: nut", "yes", "no", 0.25),
        Part("served", None, None, 1.5, several=True),
        Part("where", "x", "x", 1.25),
        Part("tool", "x", "y", 1.3),
        Part("evidence: where", "x", "z", 4000.0),
    )
    assert lines == [
        "  a @ A is over 10,000 times as probable as b @ B:",
        "    x 4,000  what is given on where: x rather than z",
        "        x 8  dish: a rather than b",
        "     x 0.25  with nut: yes rather than no",
        "        x 2  the label itself",
        "      x 2.4  all else together",
    ]


def test_explanations_of_few_or_weak_parts(capsys):
    assert explained(capsys, Part("fine", "a @ A", "b @ B", 1.01), Part("dish", "a", "b", 1.02)) == [
        "  a @ A is about as probable as b @ B, for no single reason."
    ]
    assert explained(capsys, Part("served", None, None, 3.0, several=True), Part("where", "x", "x", 1.1)) == [
        "  a @ A is 3.3 times as probable as b @ B:",
        "      x 3  served, one of several or unknown",
        "    x 1.1  where: x",
    ]
    assert explained(capsys, Part("fine", "a @ A", "b @ B", 1e9), Part("dish", "a", "b", 1e-6))[1:] == [
        "    x >10,000  the label itself",
        "    x <0.0001  dish: a rather than b",
    ]


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_nothing_is_wider_than_the_terminal(finegraph, tmp_path, photo, monkeypatch, on_a_terminal, columns):
    tiny.register(monkeypatch)
    table = {
        f"{name} with a name that goes on and on and on, longer than any line @ C": row
        for name, row in tiny.TABLE.items()
    }
    tiny.classifier(table, unknown=UnknownRule("log_prob", -1.0, 0.9)).save(tmp_path / "m")
    on_a_terminal(columns)
    outcome = finegraph("predict", tmp_path / "m", photo)
    assert outcome.code == 0
    text = unstyled(outcome.out)
    assert "█" in text
    assert max(map(len, text.splitlines())) <= columns


def test_unknown_photo(finegraph, tmp_path, photo, monkeypatch):
    tiny.register(monkeypatch)
    for threshold, warned in ((-1.0, True), (50.0, False)):
        tiny.classifier(unknown=UnknownRule("log_prob", threshold, 0.9)).save(tmp_path / "m")
        assert ("  ! This may be none of the known labels" in finegraph("predict", tmp_path / "m", photo).out) == warned


def test_sentences_on_the_sure_answer(finegraph, model, photo):
    assert "Nothing is sure at a risk of 0%." in finegraph("predict", model, photo, "--risk", 0).out
    text = finegraph("predict", model, photo, "--given", "fine=egg rice @ B").out
    assert "Nothing more exact than what is given is sure at a risk of 5%." in text
    assert "No other label is possible, so there is nothing to compare it with." in text
    text = finegraph("predict", model, photo, "--given", "dish=egg rice").out
    assert "If the dish is egg rice, then it is egg rice @ B (100.0%)." in text
    text = finegraph("predict", model, photo, "--given", "dish=kung pao", "--given", "dish=egg rice").out
    assert "mapo" not in text
    assert {"kung pao @ A", "egg rice @ B"} <= set(re.findall(r"^  (.*?)  ", text, re.MULTILINE))


def test_top(finegraph, model, photo):
    assert len(json.loads(finegraph("predict", model, photo, "--top", 2, "--json").out)["photos"][0]["top"]) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--given", "restaurnt=B"], 3, "error: unknown kind 'restaurnt'; did you mean 'restaurant'?"),
        (["--given", "dish=tofu"], 3, "error: unknown label 'tofu' of kind 'dish'; there are:"),
        (["--given", "dish=egg rice", "--given", "restaurant=A"], 3, "error: no fine label of the graph agrees with"),
        (["--views", "3"], 3, "error: views: expected 1 or 10, got 3"),
        (["--on-bad-file", "ignore"], 3, "error: on_bad_file must be 'error' or 'skip', got 'ignore'"),
        (["--risk", "2"], 2, "invalid value for '--risk'"),
        (["--top", "0"], 2, "invalid value for '--top'"),
        (["missing.jpg"], 3, "error: missing.jpg: there is no such file"),
    ],
)
def test_errors(finegraph, model, photo, arguments, code, words):
    outcome = finegraph("predict", model, photo, *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert words in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err


def test_damaged_model(finegraph, model, photo):
    (model / "model.safetensors").write_bytes(b"")
    outcome = finegraph("predict", model, photo, "--json")
    assert (outcome.code, outcome.out) == (3, "")
    assert "model.safetensors: expected" in outcome.err


def test_photos_that_cannot_be_read(finegraph, model, photo, tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no photo")
    stopped = finegraph("predict", model, photo, bad)
    assert (stopped.code, stopped.out) == (3, "")
    assert "bad.png: this is no photo of a known format" in stopped.err
    went_on = finegraph("predict", model, bad, photo, "--on-bad-file", "skip")
    assert went_on.code == 0
    assert went_on.out.startswith(str(photo))
    assert went_on.err.startswith("left out as they cannot be read: 1 photo\n  ")
    assert "bad.png" in went_on.err


def test_names_cannot_steer_the_terminal(finegraph, model, photo, on_a_terminal):
    nasty = photo.with_name("a\x1b[31mb\u202e.png")
    nasty.write_bytes(photo.read_bytes())
    on_a_terminal(200)
    outcome = finegraph("predict", model, nasty)
    assert outcome.code == 0
    assert "\x1b[31m" not in outcome.out
    assert "\\x1b[31mb\\u202e.png" in unstyled(outcome.out)


def test_lines_of_kinds():
    kinds = {
        "dish": [Answer("soup", 0.9), Answer("tea", 0.097), Answer("cake", 0.003)],
        "ingredient: tofu": [Answer("yes", 0.99996), Answer("no", 0.00004)],
        "spicy": [Answer("no", 0.8), Answer("yes", 0.2)],
        "ingredient: egg": [Answer("no", 0.7), Answer("yes", 0.3)],
        "ingredient: nut": [Answer("no", 1.0)],
        "tool: fork": [Answer("no", 0.95), Answer("yes", 0.05)],
        "sure": [Answer("x", 1.0)],
        "doubtful": [Answer("x", 0.004), Answer("y", 0.003)],
    }
    assert kind_lines(kinds) == [
        ("dish", "soup 90.0%, tea 9.7%"),
        ("ingredient", "tofu >99.9%; perhaps egg 30.0%"),
        ("spicy", "no 80.0%"),
        ("tool", "none"),
        ("sure", "x 100.0%"),
        ("doubtful", "x 0.4%"),
    ]
