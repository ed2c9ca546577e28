"""`finegraph train --tune all --shard-labels` as typed: 1, 2 and 3 processes learn what one does, whole or broken.

In float64 all of them agree to 1e-9 in metrics, and to 2e-7 in the weights of the model, which is saved in float32;
with a fitted head to 1e-6. In float32 runs from a new head agree to 1e-4. On the same number of processes a broken
run ends equal to the bit. A grid of 2 groups of 2 processes agrees with one process as well.
"""

import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import tiny
import torch
from PIL import Image
from safetensors.torch import load_file
from test_distributed import results
from test_typed_ranks import answer_here, around, command, forked

import finegraph as fg
from finegraph.graph.label_shards import label_shard
from finegraph.training.checkpoints.checkpoint_reader import checkpoint_names
from finegraph.training.checkpoints.shard_files import ShardFolder
from finegraph.training.distributed import Ranks

LABELS = 14
HEAT = ("mild", "medium", "hot")
SHORT = ("--recipe", "short", "--epochs", "2", "--batch-size", "3", "--laplacian", "0.01", "--lr", "0.02")
"""Batches of two and three: at times the third process has no photo, and so the second of two groups has none."""
GRID = ("--shard-labels", "--shard-groups", "2")
TWO = (*SHORT[:6], "--lr", "0.02", "--coarse-network", "tiny_narrow", "--coarse-weights", "none")
FITTED = ("--recipe", "fitted", "--epochs", "2", "--batch-size", "9", "--lr", "0.001")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Photos of labels with a kind that two or three processes share out, others that each has copies of, and a number.

    Some masses are unknown and some were measured on the photo.
    """
    tiny.register()
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    lines = ["path,label,split,place,mass [number]"]
    cells = ["fine,dish,place,heat [mild < medium < hot],mass [number]"]
    for label in range(LABELS):
        colour = random.integers(0, 200, 3)
        mass = "" if label % 5 == 0 else f"{10 + label % 4}" + (f" +- {label % 3}" if label % 3 else "")
        cells.append(f"item {label},dish {label % 12},place {label % 2},{HEAT[label % 3]},{mass}")
        for number in range(3):
            pixels = random.integers(0, 50, (40, 40, 3)) + colour
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{label}-{number}.png")
            seen = "" if (label, number) == (3, 1) else f"item {label}"
            split, place = "val" if number == 2 else "train", f"place {label % 2}" if label < 5 else ""
            lines.append(f"{label}-{number}.png,{seen},{split},{place},{12.5 if label % 4 == 0 else ''}")
    (folder / "graph.csv").write_text("\n".join(cells) + "\n")
    (folder / "images.csv").write_text("\n".join(lines) + "\n")
    return folder / "images.csv"


def words(photos, run, *more, precision="float64"):
    graph = photos.parent / "graph.csv"
    plain = ("--network", "tiny", "--weights", "none", "--tune", "all", "--dropout", "0", "--fixed-statistics")
    asked = ("--run-folder", run, "--precision", precision, "--no-report")
    return ("train", photos, "--graph", graph, *plain, *asked, *more)


def start(processes, photos, *typed, **variables):
    """Start a command under torchrun, in a group of its own."""
    return subprocess.Popen(
        command(processes, *typed, "--json"),
        env=around(FINEGRAPH_CACHE=str(photos.parent / "cache"), **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process, seconds=180):
    """Wait for a command; returns what it says, and ends what is left of it."""
    try:
        return process.communicate(timeout=seconds)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def trained(processes, photos, *typed):
    """The JSON of a training that comes to its end."""
    if processes == 1:
        return answer_here(*typed, cache=photos.parent / "cache")
    done = forked(processes, *typed, "--json", FINEGRAPH_CACHE=str(photos.parent / "cache"))
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def runs(photos, tmp_path_factory):
    """Makes runs by name, each once."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def run(name, processes, *more, **precision):
        if name not in made:
            made[name] = trained(processes, photos, *words(photos, folder / name, *more, **precision))
        return folder / name, made[name]

    return run


def shards(photos, run):
    """The checkpoints of a run, with all rows."""
    graph = fg.LabelGraph.read(photos.parent / "graph.csv")
    return ShardFolder(run / "checkpoints", graph, label_shard(graph, 0, 1), Ranks())


def assert_alike(one, two, tolerance):
    """Assert that two runs gave the same model and metrics."""
    (path, result), (other_path, other) = one, two
    assert result["metrics"] == pytest.approx(other["metrics"], rel=tolerance)
    assert tiny.metrics(path) == [pytest.approx(row, rel=tolerance) for row in tiny.metrics(other_path)]
    weights, others = (load_file(each / "model" / "model.safetensors") for each in (path, other_path))
    assert weights.keys() == others.keys()
    for name, values in weights.items():  # saved in float32
        torch.testing.assert_close(values, others[name], rtol=max(tolerance, 2e-7), atol=max(tolerance, 1e-7), msg=name)


@pytest.mark.parametrize(
    "processes", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)]
)
def test_processes_that_share_labels_learn_what_one_does(runs, photos, processes):
    run = runs(f"short {processes}", processes, *SHORT, "--shard-labels")
    assert_alike(run, runs("short", 1, *SHORT), 1e-9)
    newest = str(checkpoint_names(run[0] / "checkpoints")[-1])
    files = sorted((run[0] / "checkpoints" / newest).glob("*.safetensors"))
    assert len(files) == processes
    rows = [load_file(file)["fine.network.head.fine.weight"].shape for file in files]
    assert sum(count for count, _ in rows) == LABELS
    assert all(count < LABELS for count, _ in rows) == (processes > 1)


@pytest.mark.parametrize(
    ("processes", "sharing"), [(2, ("--shard-labels",)), pytest.param(4, GRID, marks=pytest.mark.slow)]
)
def test_two_networks_learn_what_they_do_in_one_process(runs, processes, sharing):
    run = runs(f"two networks {processes}", processes, *TWO, *sharing)
    assert_alike(run, runs("two networks", 1, *TWO), 1e-9)


@pytest.mark.slow
def test_float32_agrees_to_rounding(runs):
    run = runs("float32 2", 2, *SHORT, "--shard-labels", precision="float32")
    assert_alike(run, runs("float32", 1, *SHORT, precision="float32"), 1e-4)


@pytest.mark.slow
def test_a_fitted_head_is_shared_out_and_fitted_anew(runs):
    run = runs("fitted 4", 4, *FITTED, *GRID)
    assert_alike(run, runs("fitted", 1, *FITTED), 1e-6)
    assert [row["epoch"] for row in tiny.metrics(run[0])] == [0, 1, 2]


@pytest.fixture(scope="module")
def killed(photos, tmp_path_factory):
    """A run of two processes, of which the second was killed in its 9th step."""
    path = tmp_path_factory.mktemp("killed") / "run"
    process = start(
        2, photos, *words(photos, path, *SHORT, "--shard-labels", "--checkpoint-minutes", "0"), TINY_KILL="1 9"
    )
    while process.poll() is None and not (path / "log.jsonl").is_file():
        time.sleep(0.02)
    while process.poll() is None and len(tiny.steps_logged(path)) < 8:
        time.sleep(0.02)
    began = time.monotonic()
    said, faults = finish(process, 60)
    assert process.returncode != 0, said + faults
    assert time.monotonic() - began < 30  # a promise, not a measurement
    return path


def test_a_killed_process_ends_all_and_the_run_goes_on_exactly(photos, runs, killed, tmp_path):
    path = tmp_path / "again"
    shutil.copytree(killed, path)
    assert shards(photos, path).last().step in (7, 8)
    result = trained(2, photos, "train", "--run-folder", path, "--resume", "--no-report")
    unbroken, expected = runs("short 2", 2, *SHORT, "--shard-labels")
    for one, two in zip(
        *((each.last(), each.best()) for each in (shards(photos, path), shards(photos, unbroken))), strict=True
    ):
        assert one.step == two.step
        assert one.tensors.keys() == two.tensors.keys()
        assert all(torch.equal(values, two.tensors[name]) for name, values in one.tensors.items())
    assert result["metrics"] == expected["metrics"]
    assert tiny.metrics(path) == tiny.metrics(unbroken)
    model, other = ((each / "model" / "model.safetensors").read_bytes() for each in (path, unbroken))
    assert model == other


def test_a_grid_of_other_processes_goes_on(photos, runs, killed, tmp_path):
    path = tmp_path / "again"
    shutil.copytree(killed, path)
    resumed = ("--run-folder", path, "--resume", "--no-report", "--shard-groups", "2")
    result = trained(4, photos, "train", *resumed)
    assert_alike((path, result), runs("short", 1, *SHORT), 1e-9)
    newest = path / "checkpoints" / str(checkpoint_names(path / "checkpoints")[-1])
    files = sorted(newest.glob("*.safetensors"))
    assert len(files) == 2  # one group writes
    assert sum(len(load_file(file)["labels.fine"]) for file in files) == LABELS
    assert shards(photos, path).last().state["progress"]["groups"] == 2


def test_faults_of_one_process_reach_all(photos, tmp_path):
    bad = tmp_path / "bad"
    shutil.copytree(photos.parent, bad)
    for name in ("0-0", "3-0", "3-1", "5-2"):
        (bad / f"{name}.png").write_bytes(b"no photo")
    usual = {"shard_labels": True, "epochs": 2, "batch_size": 3, "fixed_statistics": True, "checkpoint_minutes": 0.0}
    runs = [
        {"manifest": str(photos), "path": str(tmp_path / "nan"), "settings": usual, "poison_at": 4},
        {
            "manifest": str(bad / "images.csv"),
            "path": str(tmp_path / "skip"),
            "settings": {**usual, "on_bad_file": "skip"},
        },
    ]
    nan, skip = results(tmp_path, runs)
    assert all("step 4: the loss became NaN or infinite, first in backbone.second" in one for one in nan["error"])
    assert shards(photos, tmp_path / "nan").last().step == 3
    assert (skip["finished"], skip["error"]) == (True, [None, None])
    assert sum(note.startswith("left out: ") for note in skip["notes"][0]) == 4


def test_what_stands_against_it_is_told_once(photos, tmp_path):
    process = start(2, photos, *words(photos, tmp_path / "run", *SHORT, "--shard-labels", "--learn", "tree"))
    said, faults = finish(process)
    assert (process.returncode != 0, said) == (True, "")
    assert faults.count("error:") == faults.count("error: shard_labels does not go with other settings") == 1
    assert faults.count("shard_labels does not go with other settings") == 2  # and where the report of torchrun ends
    assert faults.rsplit("traceback : ", 1)[1].startswith("shard_labels does not go with other settings")
    assert not (tmp_path / "run").exists()
