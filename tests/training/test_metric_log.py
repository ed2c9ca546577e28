"""The log and the metrics: whole lines, stable columns, and the same table whether a run was interrupted or not."""

import ast
import csv
import json
import math
import os
import random
import subprocess
import sys
import types

import checkpoint_drills as drills
import pytest

from finegraph.errors import InputError, MissingExtraError, RunFolderError, UnknownNameError
from finegraph.files.line_file import Line, cut_lines
from finegraph.training.records.metric_log import MetricLog
from finegraph.training.records.run_folder import RunFolder


@pytest.fixture
def run(tmp_path):
    return RunFolder.create(tmp_path / "menu")


def clock():
    return 1_700_000_000.25


def lines(run):
    return [json.loads(line) for line in run.log_file.read_text().splitlines()]


def rows(run):
    with run.metrics_file.open(newline="") as file:
        return list(csv.reader(file))


PER_EPOCH = 3


def train(log, first, last):
    """Take steps; the metrics follow from the step."""
    for step in range(first, last + 1):
        epoch = (step - 1) // PER_EPOCH + 1
        log.step(step, epoch, 1 / step, {"backbone": 0.001 / step, "head": 0.01 / step})
        if step % PER_EPOCH == 0:
            log.epoch({"epoch": epoch, "step": step, "train_loss": 1 / step, "val_top1": step / 7})


def test_what_is_written(run):
    with MetricLog(run, clock=clock) as log:
        log.step(1, 1, 2.5, 0.01, {"samples": 32})
        log.step(2, 1, math.nan, {"head": math.inf})
        log.note("skipped: é.jpg", step=2, epoch=1)
        log.epoch({"epoch": 1, "step": 2, "train_loss": 0.1 + 0.2, "rate": -1e-300, "val_top1": None})
        log.epoch({"epoch": 2, "step": 4, "val_top1": -math.inf, "train_loss": 3})
    time = "2023-11-14T22:13:20.250Z"
    assert lines(run) == [
        {"time": time, "event": "start", "step": 0, "epoch": 0},
        {"time": time, "event": "step", "step": 1, "epoch": 1, "loss": 2.5, "rates": {"all": 0.01}, "samples": 32},
        {"time": time, "event": "step", "step": 2, "epoch": 1, "loss": "nan", "rates": {"head": "inf"}},
        {"time": time, "event": "note", "step": 2, "epoch": 1, "text": "skipped: é.jpg"},
        {
            "time": time,
            "event": "epoch",
            "step": 2,
            "epoch": 1,
            "train_loss": 0.1 + 0.2,
            "rate": -1e-300,
            "val_top1": None,
        },
        {"time": time, "event": "epoch", "step": 4, "epoch": 2, "val_top1": "-inf", "train_loss": 3},
    ]
    assert run.metrics_file.read_text() == (
        f"epoch,step,time,train_loss,rate,val_top1\n1,2,{time},0.30000000000000004,-1e-300,\n2,4,{time},3,,-inf\n"
    )


@pytest.mark.parametrize("seed", range(8))
def test_an_interrupted_run_has_the_same_metrics_as_an_uninterrupted_one(tmp_path, seed):
    whole, parts = RunFolder.create(tmp_path / "whole"), RunFolder.create(tmp_path / "parts")
    total = 20
    with MetricLog(whole, clock=clock) as log:
        train(log, 1, total)
    rng = random.Random(seed)
    saved = 0
    while saved < total:
        log = MetricLog(parts, clock=clock)
        log.rewind(saved)
        reached = rng.randint(saved, total)
        train(log, saved + 1, reached)
        saved = rng.randint(saved, reached)
        log.close()
        for file in (parts.log_file, parts.metrics_file):
            if rng.random() < 0.5:
                with file.open("ab") as torn:
                    torn.write(rng.choice([b'{"time": "2023', b"3,9,20", b"\0\0\0", b"\0\n\0\n"]))
    with MetricLog(parts, clock=clock) as log:
        log.rewind(total)
    assert parts.metrics_file.read_bytes() == whole.metrics_file.read_bytes()
    steps = [line for line in lines(parts) if line["event"] in ("step", "epoch")]
    assert steps == [line for line in lines(whole) if line["event"] in ("step", "epoch")]


def test_rewinding_says_how_much_was_dropped(run):
    with MetricLog(run, clock=clock) as log:
        train(log, 1, 6)
        assert log.rewind(4) == 4  # steps 5 and 6, and epoch 2 in both files
        assert log.rewind(4) == 0
        train(log, 5, 6)
    assert [line["event"] for line in lines(run)].count("rewind") == 2
    assert [row[:2] for row in rows(run)] == [["epoch", "step"], ["1", "3"], ["2", "6"]]


def test_an_epoch_whose_steps_were_saved_but_not_its_end_is_written_anew(run):
    with MetricLog(run, clock=clock) as log:
        train(log, 1, 6)
        assert log.rewind(6, 1) == 2  # the row of epoch 2, and its line in the log
        log.epoch({"epoch": 2, "step": 6, "train_loss": 0.5, "val_top1": 0.5})
        assert log.rewind(6, 2) == 0
    assert [row[:2] for row in rows(run)] == [["epoch", "step"], ["1", "3"], ["2", "6"]]
    assert [line["step"] for line in lines(run) if line["event"] == "step"] == [1, 2, 3, 4, 5, 6]
    assert [line["epoch"] for line in lines(run) if line["event"] == "epoch"] == [1, 2]


def test_rewinding_to_the_beginning(run):
    with MetricLog(run) as log:
        train(log, 1, 3)
    with MetricLog(run) as log:
        log.rewind(0)
    assert [line["event"] for line in lines(run)] == ["start", "rewind"]
    assert len(rows(run)) == 1


def test_a_broken_line_between_good_ones_stays(run):
    with MetricLog(run, clock=clock) as log:
        train(log, 1, 6)
    text = run.log_file.read_text().splitlines(keepends=True)
    run.log_file.write_text("".join([*text[:3], "no JSON\n", *text[3:], "no JSON\n", "5"]))
    with MetricLog(run, clock=clock):
        pass
    assert run.log_file.read_text() == "".join([*text[:3], "no JSON\n", *text[3:]])


def test_columns_never_change(run):
    with MetricLog(run) as log:
        log.epoch({"epoch": 1, "step": 3, "train_loss": 1.0})
    with MetricLog(run) as log:
        with pytest.raises(UnknownNameError, match=r"unknown column 'train_los' of metrics.csv, whose columns never"):
            log.epoch({"epoch": 2, "step": 6, "train_los": 1.0})
        # The table of an earlier version has no columns for numbers.
        log.epoch({"epoch": 2, "step": 6, "val_numbers.price": 1.0})
    assert [row[3:] for row in rows(run)] == [["train_loss"], ["1.0"], [""]]
    assert [line["event"] for line in lines(run)] == ["start", "epoch", "epoch"]


def test_a_row_twice_is_refused(run):
    with MetricLog(run) as log:
        train(log, 1, 3)
    with MetricLog(run) as log, pytest.raises(InputError, match=r"expected a step after 3, .*, got 3; rewind first"):
        train(log, 1, 3)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"step": 1}, "expected 'epoch' in the row"),
        ({"epoch": 1, "step": 1.5}, "'step' in the row of an epoch as a whole number, got 1.5"),
        ({"epoch": 1, "step": 1, "time": 3.0}, r"differ from each other and from epoch, step, time, .* got 'time'"),
        ({"epoch": 1, "step": 1, "a\nb": 3.0}, "each one line of text"),
        ({"epoch": 1, "step": 1, "": 3.0}, "each one line of text"),
        ({"epoch": 1, "step": 1, "=a": 3.0, "'=a": 1.0}, 'got "\'=a"'),
    ],
)
def test_rows_that_cannot_be_written(run, row, text):
    with MetricLog(run) as log, pytest.raises(InputError, match=text):
        log.epoch(row)
    assert run.metrics_file.read_text() == ""


def test_metrics_of_a_step_may_not_hide_its_own(run):
    with MetricLog(run) as log, pytest.raises(InputError, match="other than time, event, step, epoch, got time"):
        log.step(1, 1, 0.5, 0.1, {"time": 3.0})


def test_no_column_is_a_formula(run):
    with MetricLog(run) as log:
        log.epoch({"epoch": 1, "step": 1, "=cmd|x": 1.0, "a,b": 2.0})
    with MetricLog(run) as log:
        log.epoch({"epoch": 2, "step": 2, "a,b": 3.0, "=cmd|x": 4.0})
    assert [row[3:] for row in rows(run)] == [["'=cmd|x", "a,b"], ["1.0", "2.0"], ["4.0", "3.0"]]


def test_a_table_that_a_spreadsheet_saved_goes_on(run):
    with MetricLog(run) as log:
        train(log, 1, 6)
    run.metrics_file.write_bytes(run.metrics_file.read_bytes().replace(b"\n", b"\r\n"))
    with MetricLog(run) as log:
        log.rewind(3)
        train(log, 4, 6)
    assert [row[:2] for row in rows(run)] == [["epoch", "step"], ["1", "3"], ["2", "6"]]


def test_another_table_is_not_touched(run):
    run.metrics_file.write_text("name,price\nmapo tofu,9\n")
    with pytest.raises(RunFolderError, match=r"metrics.csv: expected a table that begins with .*, got name, price"):
        MetricLog(run)
    assert run.metrics_file.read_text() == "name,price\nmapo tofu,9\n"


def test_no_space_leaves_whole_lines(run):
    with MetricLog(run) as log:
        train(log, 1, 3)
        before = [file.read_bytes() for file in (run.log_file, run.metrics_file)]
        with (
            drills.no_space_at(1),
            pytest.raises(RunFolderError, match=r"log.jsonl: cannot add a line of \d+ bytes: No space left on device"),
        ):
            log.step(4, 2, 0.5, 0.1)
        with drills.no_space_at(1), pytest.raises(RunFolderError, match=r"metrics.csv: cannot add a line of \d+ bytes"):
            log.epoch({"epoch": 2, "step": 6, "train_loss": 0.5})
        with (
            drills.no_space_at(1),
            pytest.raises(RunFolderError, match=r"log.jsonl: cannot be brought to the disk: No"),
        ):
            log.sync()
        assert [file.read_bytes() for file in (run.log_file, run.metrics_file)] == before
        train(log, 4, 6)
    assert len(rows(run)) == 3


def test_sync_brings_both_files_to_the_disk(run):
    happened = []
    with MetricLog(run) as log, drills.operations(lambda name, arguments, number: happened.append(name)):
        log.sync()
    assert happened == ["fsync", "fsync"]


def test_closing_twice_and_using_it_afterwards(run):
    log = MetricLog(run)
    log.close()
    log.close()
    with pytest.raises(RunFolderError, match="closed already"):
        log.note("late", step=1)


def test_cutting_a_file_that_cannot_be_cut(tmp_path):
    assert cut_lines(tmp_path / "nothing", lambda line: Line.BEFORE) == 0
    with pytest.raises(RunFolderError, match="cannot be cut off: Is a directory"):
        cut_lines(tmp_path, lambda line: Line.BEFORE)


class FakeWriter:
    """What we use of TensorBoard's writer."""

    made: list["FakeWriter"]

    def __init__(self, folder, purge_step):
        self.folder, self.purge_step, self.scalars, self.ended = folder, purge_step, [], []
        self.made.append(self)

    def add_scalar(self, name, value, step):
        self.scalars.append((name, value, step))

    def flush(self):
        self.ended.append("flush")

    def close(self):
        self.ended.append("close")


def test_tensorboard_when_asked(run, monkeypatch):
    FakeWriter.made = []
    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = FakeWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    with MetricLog(run, tensorboard=True) as log:
        log.rewind(4)
        log.step(5, 2, 0.5, {"head": 0.1}, {"samples": 3, "none": None})
        log.epoch({"epoch": 2, "step": 6, "val_top1": 0.5})
        log.sync()
    (writer,) = FakeWriter.made
    assert (writer.folder, writer.purge_step) == (str(run.path / "tensorboard"), 5)
    assert writer.scalars == [
        ("loss", 0.5, 5),
        ("rate/head", 0.1, 5),
        ("samples", 3.0, 5),
        ("epoch/val_top1", 0.5, 6),
    ]
    assert writer.ended == ["flush", "close"]


@pytest.mark.deep
def test_tensorboard_reads_what_was_written(tmp_path):
    """With the real package, in a process of its own: it has warnings of its own, which are errors here."""
    code = """
import sys
from finegraph.training.records.metric_log import MetricLog
from finegraph.training.records.run_folder import RunFolder
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = RunFolder.create(sys.argv[1])
with MetricLog(run, tensorboard=True) as log:
    log.step(1, 1, 0.5, {"head": 0.125})
    log.step(2, 1, 0.25, {"head": 0.0625})
    log.epoch({"epoch": 1, "step": 2, "val_top1": 0.75})
curves = EventAccumulator(str(run.path / "tensorboard"))
curves.Reload()
print({name: [(one.step, one.value) for one in curves.Scalars(name)] for name in sorted(curves.Tags()["scalars"])})
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ast.literal_eval(done.stdout.splitlines()[-1]) == {
        "epoch/val_top1": [(2, 0.75)],
        "loss": [(1, 0.5), (2, 0.25)],
        "rate/head": [(1, 0.125), (2, 0.0625)],
    }


def test_tensorboard_that_is_not_installed(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(MissingExtraError, match=r'need tensorboard, .* `pip install "finegraph\[track\]"`'):
        MetricLog(run, tensorboard=True)
    assert os.listdir(run.path) == []


def test_logs_and_run_folders_need_no_torch():
    code = "import sys, finegraph.training.records.metric_log; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
