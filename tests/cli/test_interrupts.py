"""Ctrl-C in every long command: one line says what is kept and what goes on, and the exit code is 130."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from finegraph.cli.failures import interruptible
from training import tiny

RUN_TINY = Path(__file__).parents[1] / "training" / "run_tiny.py"
COMMANDS = {
    "data check": (
        ["data", "check", "photos"],
        "workflows.data.check_data",
        "nothing was written; the same command starts",
    ),
    "data menu": (
        ["data", "menu", "out"],
        "workflows.menu.write_menu",
        "photos drawn so far are kept; the same command continues",
    ),
    "train": (["train", "photos"], "workflows.train.train_run", "no run was begun; the same command starts again"),
    "evaluate": (["evaluate", "run"], "workflows.evaluate.evaluate_run", "no evaluation was written; the same command"),
    "predict": (
        ["predict", "run", "photos"],
        "workflows.predict.predict_photos",
        "no answer is kept; the same command",
    ),
    "report": (["report", "run"], "workflows.report.write_report", "no page was written, an earlier one is as it was"),
    "index": (
        ["index", "run", "photos", "-o", "i"],
        "workflows.index.make_index",
        "in the index are kept; the same command",
    ),
    "index add": (
        ["index", "add", "i", "photos"],
        "workflows.index.add_photos",
        "in the index are kept; the same command",
    ),
    "export": (
        ["export", "run", "-o", "m.onnx"],
        "workflows.export.export_model",
        "no file was written, an earlier one",
    ),
    "demo": (
        ["demo", "--output", "here"],
        "workflows.demo.run_demo",
        "so far is in here; finegraph demo starts again in a new",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_one_line_says_what_is_kept(finegraph, tmp_path, monkeypatch, name):
    arguments, function, words = COMMANDS[name]
    monkeypatch.chdir(tmp_path)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"finegraph.{function}", stopped)
    outcome = finegraph(*arguments)
    assert (outcome.code, outcome.out) == (130, "")
    [line] = outcome.err.splitlines()
    assert line.startswith("stopped; ")
    assert words in line


def test_a_study(finegraph, tmp_path, monkeypatch):
    study = Path(__file__).parents[2] / "studies" / "menu-small.toml"

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("finegraph.workflows.study.run_study", stopped)
    outcome = finegraph("study", study, "--output", tmp_path / "study")
    assert (outcome.code, outcome.err) == (
        130,
        "stopped; the cells that are done are kept; the same command continues\n",
    )


def test_a_run_that_has_begun_is_named(finegraph, tmp_path, monkeypatch):
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos")

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("finegraph.workflows.train.tune_head", stopped)
    run = tmp_path / "my run"
    outcome = finegraph("train", manifest, "--network", "tiny", "--weights", "none", "--run", run)
    assert outcome.code == 130
    go_on = f"finegraph train --run '{run}' --resume"
    assert outcome.err.endswith(f"stopped; what was computed so far is kept; continue with: {go_on}\n")
    monkeypatch.undo()
    tiny.register()
    assert finegraph("train", "--run", run, "--resume").code == 0


def test_termination_is_an_interruption(capsys):
    import typer

    with pytest.raises(typer.Exit) as caught, interruptible("all is well"):
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.exit_code == 130
    assert capsys.readouterr().err == "stopped; all is well\n"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_one_process_of_a_job_speaks_and_names_all_of_them(finegraph, tmp_path, monkeypatch, capsys):
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos")

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("finegraph.workflows.train.tune_head", stopped)
    run = tmp_path / "my run"
    assert finegraph("train", manifest, "--network", "tiny", "--weights", "none", "--run", run).code == 130
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setattr("finegraph.workflows.train.train_run", stopped)
    err = finegraph("train", "--run", run, "--resume").err
    go_on = f"-m finegraph train --run-folder '{run}' --resume"
    assert err == f"stopped; what was computed so far is kept; continue with: torchrun --nproc-per-node 4 {go_on}\n"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")  # two machines
    err = finegraph("train", "--run", run, "--resume").err
    assert err.endswith(f": torchrun --nnodes 2 --rdzv-endpoint HOST:PORT --nproc-per-node 2 {go_on}\n")
    monkeypatch.setenv("RANK", "1")
    outcome = finegraph("train", "--run", run, "--resume")
    assert (outcome.code, outcome.err) == (130, "")


def test_signals_stay_as_they_are_elsewhere(monkeypatch):
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with interruptible("x"):
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    seen = []

    def other_thread():
        with interruptible("x"):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_before_the_first_step_as_a_process(tmp_path, number):
    """A pipe in place of a photo list keeps the process where it is until it is told to stop."""
    os.mkfifo(tmp_path / "images.csv")
    command = [
        sys.executable,
        str(RUN_TINY),
        "train",
        f"manifest:{tmp_path / 'images.csv'}",
        "--run",
        str(tmp_path / "r"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with (tmp_path / "images.csv").open("w"):  # returns when the process reads it
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err == "stopped; no run was begun; the same command starts again\n"
