"""The command `finegraph train`: flags are settings, and its output is fit for people and programs."""

import errno
import json
import shutil
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest

from finegraph.training.settings import TrainSettings
from training import tiny

RUN_TINY = Path(__file__).parents[1] / "training" / "run_tiny.py"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"))


def test_every_setting_is_a_flag(finegraph):
    help_text = finegraph("train", "--help").out
    for one in fields(TrainSettings):
        if one.name != "data":
            assert f"--{one.name.replace('_', '-')}" in help_text, one.name


def test_former_names_of_settings_are_flags_too(finegraph, manifest, tmp_path):
    run, tiny_network = tmp_path / "run", ("--network", "tiny", "--weights", "none", "--no-report")
    former = ("--photos-per-class", "3", "--image-labels", "ignore")
    assert finegraph("train", manifest, *tiny_network, *former, "--run", run).code == 0
    config = (run / "config.toml").read_text(encoding="utf-8")
    assert "photos_per_label = 3" in config
    assert 'photo_labels = "ignore"' in config
    assert "--photos-per-class" not in finegraph("train", "--help").out


def test_a_model_in_one_command(finegraph, manifest, tmp_path):
    run = tmp_path / "run"
    result = finegraph("train", manifest, "--network", "tiny", "--weights", "none", "--run", run)
    assert result.code == 0, result.err
    assert "35 photos of 5 labels to train on, 10 photos to validate on" in result.err
    assert "top-1" in result.out
    assert "calibrated on these photos: temperature " in result.out
    for words in (
        "report.html",
        f"finegraph evaluate {run}",
        f"finegraph predict {run} PHOTO",
        f"finegraph serve {run}",
    ):
        assert words in result.out[result.out.index("Next") :]
    again = finegraph("train", manifest, "--network", "tiny", "--weights", "none", "--run", run)
    assert again.code == 3
    assert "this run exists already" in again.err


def test_a_report_comes_with_it(finegraph, manifest, tmp_path):
    run = tmp_path / "run"
    result = finegraph("train", manifest, "--network", "tiny", "--weights", "none", "--run", run, "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["report"] == str(run / "report.html")
    assert "10 photos of val" in (run / "report.html").read_text(encoding="utf-8")
    again = finegraph("train", "--run", run, "--resume")
    assert again.code == 0, again.err
    assert f"report: {run / 'report.html'}" in again.out
    assert [path.name for path in (run / "evaluations").iterdir()] == ["val"]


def test_without_a_report(finegraph, manifest, tmp_path):
    own = ("--network", "tiny", "--weights", "none")
    result = finegraph("train", manifest, *own, "--run", tmp_path / "one", "--no-report")
    assert (result.code, "report:" in result.out + result.err) == (0, False)
    assert f"finegraph evaluate {tmp_path / 'one'}\n      how good it is, on the photos of val" in result.out
    again = finegraph("train", "--run", tmp_path / "one", "--resume", "--no-report", "--json")
    assert json.loads(again.out)["report"] is None
    assert not (tmp_path / "one" / "evaluations").exists()


def test_photos_to_test_on_are_not_for_the_report(finegraph, manifest, tmp_path):
    photos = shutil.copytree(manifest.parent, tmp_path / "photos")
    (photos / "images.csv").write_text(manifest.read_text().replace(",val,", ",test,"))
    run = tmp_path / "run"
    result = finegraph("train", photos / "images.csv", "--network", "tiny", "--weights", "none", "--run", run)
    assert result.code == 0, result.err
    assert "no report: there are no validation photos to judge the model on; hold some out with" in result.err
    assert not (run / "evaluations").exists()


def test_a_report_that_cannot_be_written(finegraph, manifest, tmp_path, monkeypatch):
    from finegraph.workflows.training import train_report

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(train_report, "write_report", full)
    run = tmp_path / "run"
    result = finegraph("train", manifest, "--network", "tiny", "--weights", "none", "--run", run)
    assert result.code == 0, result.err
    assert "no report: [Errno 28] No space left on device; the model is complete, try again with" in result.err
    assert (run / "model" / "config.json").exists()
    monkeypatch.undo()
    assert finegraph("report", run).code == 0


def test_a_report_that_fails_in_any_way_leaves_the_model(finegraph, manifest, tmp_path, monkeypatch):
    from finegraph.workflows.training import train_report

    def odd(*_, **__):
        raise RuntimeError("out of some memory")

    monkeypatch.setattr(train_report, "gather_details", odd)
    run = tmp_path / "my run"
    own = (manifest, "--network", "tiny", "--weights", "none")
    result = finegraph("train", *own, "--run", run, "--json")
    assert result.code == 0, result.err
    document = json.loads(result.out)
    assert (document["report"], document["report_fault"]) == (None, "RuntimeError: out of some memory")
    assert document["figures"] == document["metrics"] != {}
    assert (run / "model" / "config.json").exists()
    again = finegraph("train", "--run", run, "--resume")
    assert f"finegraph evaluate '{run}' --split val, then finegraph report '{run}'" in again.err
    assert f"finegraph evaluate '{run}'\n" in again.out


def test_settings_come_from_a_file_and_flags_win(finegraph, manifest, tmp_path):
    config = tmp_path / "menu.toml"
    config.write_text(f'data = "{manifest}"\nnetwork = "tiny"\nweights = "none"\nl2 = 0.5\nkinds = ["colour"]\n')
    result = finegraph("train", "--config", config, "--l2", "0.25", "--run", tmp_path / "run", "--json")
    assert result.code == 0, result.err
    document = json.loads(result.out)
    assert document["strengths"]["l2"] == 0.25
    assert document["finished"]
    config.write_text("epoch = 3\n")
    result = finegraph("train", "--config", config)
    assert result.code == 3
    assert "'epoch'" in result.err
    assert "did you mean 'epochs'" in result.err


def test_wrong_values_are_refused(finegraph, manifest):
    result = finegraph("train", manifest, "--tune", "heads")
    assert result.code == 3
    assert "tune: expected head or all, got 'heads'" in result.err
    result = finegraph("train", manifest, "--epochs", "0")
    assert result.code == 3
    assert "epochs: expected a whole number of at least 1, got 0" in result.err
    result = finegraph("train", manifest, "--resume")
    assert result.code == 2
    assert "name the run to resume" in result.err
    result = finegraph("train")
    assert result.code == 2
    assert "missing argument 'SOURCE': the photos to train on" in result.err


def test_interrupt_as_a_process_and_resume(finegraph, manifest, tmp_path):
    run = tmp_path / "run"
    numbers = ["--network", "tiny", "--weights", "none", "--tune", "all", "--epochs", "2000", "--batch-size", "8"]
    command = [sys.executable, str(RUN_TINY), "train", str(manifest), *numbers, "--run", str(run)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    metrics = run / "metrics.csv"
    while process.poll() is None and not (metrics.exists() and len(metrics.read_text().splitlines()) > 2):
        time.sleep(0.05)
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"finegraph train --run {run} --resume" in out
    resumed = finegraph("train", "--resume", "--epochs", "3", "--run", run)
    assert resumed.code == 3
    assert "epochs was 2000, now 3" in resumed.err
