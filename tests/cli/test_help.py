"""What the commands say of themselves, and of words that they cannot use."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from cli.test_main import commands
from finegraph.cli.commands import value_name
from finegraph.cli.main import ORDER
from finegraph.training.settings import TrainSettings

COMMANDS = dict(commands())
LEAVES = [name for name, one in COMMANDS.items() if not hasattr(one, "commands")]


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_plain_text_within_80_columns(finegraph, name):
    text = finegraph(*name.split()[1:], "--help").out
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"[<{]|\[\[|\.\.\.\.|list\[|x>=|<=x", text), text
    assert not re.search(r"\b(Cpu|None|PosixPath|typer|click)\b", text), text
    usage = " ".join(text.partition("\n\n")[0].split())
    for argument in COMMANDS[name].params:
        if argument.param_type_name == "argument":
            named = value_name(argument)
            shown = (named if argument.required else f"[{named}]") + ("..." if argument.nargs != 1 else "")
            assert f" {shown}" in usage


@pytest.mark.parametrize("name", LEAVES)
def test_an_argument_that_is_missing_is_wrong_usage(finegraph, name):
    needed = [one for one in COMMANDS[name].params if one.required]
    if not needed and name != "finegraph train":
        return
    outcome = finegraph(*name.split()[1:])
    assert outcome.code == 2
    assert outcome.err.startswith("error: missing "), outcome.err
    assert outcome.out == ""


def test_commands_stand_in_the_order_of_work(finegraph):
    text = finegraph("--help").out.partition("Commands:\n")[2].partition("\n\n")[0]
    assert tuple(line.split()[0] for line in text.splitlines()) == ORDER
    assert ORDER[:6] == ("demo", "data", "graph", "train", "evaluate", "predict")


def test_options_of_train_stand_under_headings(finegraph):
    text = finegraph("train", "--help").out
    sections = dict(re.findall(r"^(\S[^\n]*):\n((?:[ ]+[^\n]*\n?)+)", text, flags=re.MULTILINE))
    assert list(sections) == [
        "Arguments",
        "Options",
        "Data",
        "Network and head",
        "Fit",
        "Training the whole network (--tune all)",
        "Running",
    ]
    places = {"--resume": "Options", "--graph": "Data", "--network": "Network and head", "--l2": "Fit"}
    places |= {"--epochs": "Training the whole network (--tune all)", "--device": "Running"}
    for flag, heading in places.items():
        assert re.search(rf"^  {flag}\b", sections[heading], flags=re.MULTILINE), flag
    for one in fields(TrainSettings):
        if one.name != "data":
            assert text.count(f"\n  --{one.name.replace('_', '-')} ") == 1, one.name


def test_choices_defaults_bounds_and_variables_are_said(finegraph):
    text = " ".join(finegraph("serve", "--help").out.split())
    assert "--engine auto|onnx|torch" in text
    assert "[default: 8000; 0 to 65535]" in text
    assert "[or $FINEGRAPH_TOKEN]" in text
    assert "[default: 64; at least 1]" in text


@pytest.mark.deep
@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["graph", "show", "mneu.csv"], "menu.csv"),
        (["graph", "check", "mneu.csv"], "menu.csv"),
        (["data", "check", "fotos"], "photos"),
        (["train", "fotos"], "photos"),
        (["train", "photos", "--graph", "mneu.csv"], "menu.csv"),
        (["train", "photos", "--config", "steings.toml"], "settings.toml"),
        (["train", "photos", "--weights", "wieghts.pth"], "weights.pth"),
        (["evaluate", "runs/frist"], "runs/first"),
        (["predict", "runs/frist", "photos/a/1.jpg"], "runs/first"),
        (["predict", "runs/first", "photos/a/l.jpg"], "photos/a/1.jpg"),
        (["report", "runs/frist"], "runs/first"),
        (["search", "photo.index", "photos/a/1.jpg"], "photos.index"),
        (["study", "stduy.toml"], "study.toml"),
        (["label", "history", "lables.db"], "labels.db"),
        (["label", "import", "menu.csv", "settigns.toml"], "settings.toml"),
        (["export", "runs/frist", "-o", "x.onnx"], "runs/first"),
    ],
)
def test_a_mistyped_path_is_said_not_to_be_there(finegraph, tmp_path, monkeypatch, arguments, near):
    monkeypatch.chdir(tmp_path)
    for folder in ("photos/a", "runs/first/model", "photos.index"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("photos/a/1.jpg", "settings.toml", "study.toml", "weights.pth", "runs/first/config.toml", "labels.db"):
        (tmp_path / file).write_bytes(b"")
    (tmp_path / "runs/first/model/config.json").write_bytes(b"{}")
    (tmp_path / "menu.csv").write_text("fine,dish\na,x\n", encoding="utf-8")
    outcome = finegraph(*arguments)
    text = " ".join(outcome.err.split())
    assert outcome.code == 3
    assert text.startswith("error: ")
    assert "no such" in text
    assert re.search(rf"did you mean '[^']*{near}'", text)
    assert not re.search(r"\b[Mm]end\b", text)
