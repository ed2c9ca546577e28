"""What is seen while a network is trained: loss, rate and time left, in a bar or in lines."""

from pathlib import Path

import pytest

from finegraph.cli import training_display as module
from finegraph.cli.training_display import TrainingDisplay, _metric, _metric_name
from finegraph.data.samples import Sample, Samples
from finegraph.graph import LabelGraph
from finegraph.workflows.training.training_data import TrainingData


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    return now


def test_lines_come_every_ten_seconds_with_loss_rate_speed_and_time_left(clock, capsys):
    with TrainingDisplay() as display:
        for second, done in [(0, 101), (4, 121), (11, 210), (15, 300), (21, 310)]:
            clock[0] = float(second)
            display.step(done, 1_000, 2.34567, 0.0125)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "step 210 of 1,000, loss 2.346, rate 0.013, 10 steps/s, 1:19 min left",
        "step 310 of 1,000, loss 2.346, rate 0.013, 10 steps/s, 1:09 min left",
    ]


def test_a_bar_on_a_terminal(monkeypatch, capsys):
    for name, value in {"TTY_COMPATIBLE": "1", "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "110"}.items():
        monkeypatch.setenv(name, value)
    with TrainingDisplay() as display:
        display.step(1, 40, 1.5, 0.01)
        display.step(40, 40, 0.25, 0.001)
    out, err = capsys.readouterr()
    assert out == ""
    for words in ("40/40", "loss 0.250", "rate 0.001", "0:00:00"):
        assert words in err, words


def test_epochs_are_a_table_and_only_the_first_process_speaks(monkeypatch, capsys):
    row = {"epoch": 3.0, "train_loss": 1.25, "val_top1": 0.5, "val_nll": 0.75, "seconds": 61.0}
    with TrainingDisplay() as display:
        display.epoch(row)
        display.epoch({**row, "epoch": 4.0})
    lines = capsys.readouterr().err.splitlines()
    assert [line.split() for line in lines[1:]] == [
        [f"{n}", "1.2500", "50.0%", "0.7500", "1:01", "min"] for n in (3, 4)
    ]
    assert lines[0].split() == ["epoch", "train", "loss", "val", "top-1", "val", "nll", "time"]
    monkeypatch.setenv("RANK", "1")
    with TrainingDisplay() as display:
        display.epoch(row)
    assert capsys.readouterr().err == ""


def test_numbers_of_the_graph_are_named(capsys):
    table = {"a": {"dish": "x", "price": 1.0, "mass": 2.0}, "b": {"dish": "y", "price": 3.0, "mass": 4.0}}
    photos = Samples([Sample(Path("1.jpg"), "a"), Sample(Path("2.jpg"), "b")])
    for types, words in [
        ({"price": "number", "mass": "log number"}, "2 fine labels; dish 2; numbers price, mass"),
        ({"price": "number"}, "2 fine labels; dish 2; number price"),
    ]:
        own = {fine: {name: row[name] for name in ("dish", *types)} for fine, row in table.items()}
        graph = LabelGraph.from_table(own, types)
        data = TrainingData(train=photos, val=None, graph=graph, held_out=False, splits=("train",), counted=())
        with TrainingDisplay() as display:
            display.data(data, "run")
        assert words in capsys.readouterr().err.splitlines()


def test_the_strengths_of_the_closed_form_in_a_line():
    variances = {"kinds": {"dish": 3.0, "year": 0.0}, "own": 1.0, "noise": 0.5}
    strengths = {"covariance": "within", "shrinkage": 2.0, "variances": variances, "temperature": 1.0}
    line = module._strengths({**strengths, "reason": "of this"})
    assert line == "class means in closed form, shrinkage 2; chosen because of this"


def test_errors_of_numbers_are_told_in_their_units():
    assert _metric_name("numbers.price") == "price, mean error"
    assert _metric("numbers.price", 1.2345, {"price": "EUR"}) == "1.23 EUR"
    assert _metric("numbers.year", 1.5, {}) == "1.5"
    assert (_metric_name("kinds.dish"), _metric("kinds.dish", 0.5, {})) == ("dish", "50.0%")
