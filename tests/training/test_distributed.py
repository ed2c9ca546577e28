"""Several processes that train one network: the same as one, whole or broken."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny
import torch

import warm_ranks
from finegraph.data.sources import read_samples
from finegraph.data.splits import choose_splits
from finegraph.training.batches import batch_numbers
from finegraph.training.distributed import Ranks, joined_ranks

SCRIPT = Path(__file__).parent / "tiny_job.py"
ALIKE = {"dropout": 0.0, "fixed_statistics": True, "lr": 0.01}
WHOLE = {**ALIKE, "network": "tiny_auxiliary", "laplacian": 0.02, "batch_size": 9, "epochs": 5}  # 4 steps per epoch
FEW = {**ALIKE, "precision": "float64", "batch_size": 2, "epochs": 7}  # batches of 1 and 2 photos
BROKEN = {"epochs": 3, "checkpoint_minutes": 0.0}


def written(folder, runs):
    """The file of a job."""
    folder.mkdir(exist_ok=True)
    job = folder / "job.json"
    job.write_text(json.dumps({"runs": runs, "out": str(folder / "out.json")}))
    return job


def around():
    """The environment of a job."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def results(folder, runs, processes=2):
    """What a job that comes to its end tells of its runs; its processes need not start, and no torchrun."""
    done = warm_ranks.run(processes, SCRIPT, [written(folder, runs)], around(), 90)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "out.json").read_text())


def start(folder, runs, processes=2):
    """Start a job under torchrun, in a group of its own."""
    job = written(folder, runs)
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
        command += ["--master-addr", "127.0.0.1", "--master-port", "0", "--rdzv-backend", "c10d"]
        command += ["--rdzv-endpoint", "127.0.0.1:0"]
    return subprocess.Popen(
        [*command, str(SCRIPT), str(job)],
        env=around(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process, seconds=90):
    """Wait for a job; returns what it said."""
    try:
        return process.communicate(timeout=seconds)[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run_of(manifest, path, settings, **more):
    return {"manifest": str(manifest), "path": str(path), "settings": settings, **more}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    tiny.register()
    folder = tmp_path_factory.mktemp("photos")
    return {
        "gaps": tiny.make_photos(folder / "gaps", gaps=True),
        "few": tiny.make_photos(folder / "few", per_class=1, val=1),
        "whole": tiny.make_photos(folder / "whole"),
        "bad": tiny.make_photos(folder / "bad", per_class=2, val=1),
    }


@pytest.fixture(scope="module")
def killed(photos, tmp_path_factory):
    """A run one of whose two processes was killed in its 8th step: where it is, and how it ended."""
    folder = tmp_path_factory.mktemp("killed")
    path = folder / "runs" / "killed"
    process = start(folder, [run_of(photos["whole"], path, BROKEN, kill_at=8)])
    while not (tiny_steps(path) >= 7 or process.poll() is not None):
        time.sleep(0.02)
    began = time.monotonic()
    text = finish(process)
    seconds = time.monotonic() - began
    return SimpleNamespace(path=path, code=process.returncode, seconds=seconds, text=text, step=tiny.last(path).step)


def tiny_steps(path):
    """How many steps a run has logged."""
    try:
        return (path / "log.jsonl").read_text().count('"event": "step"')
    except FileNotFoundError:
        return 0


@pytest.fixture(scope="module")
def job(photos, killed, tmp_path_factory):
    """The results of several runs in two processes, by name, with their folders."""
    folder = tmp_path_factory.mktemp("job")
    for path in bad_files(photos):
        path.write_bytes(b"no photo")
    runs = {
        "float64": run_of(photos["gaps"], folder / "runs" / "float64", {**WHOLE, "precision": "float64"}),
        "float32": run_of(photos["gaps"], folder / "runs" / "float32", WHOLE),
        "few": run_of(photos["few"], folder / "runs" / "few", FEW),
        "unbroken": run_of(photos["whole"], folder / "runs" / "unbroken", BROKEN),
        "killed": run_of(photos["whole"], killed.path, BROKEN, resume=True),
        "bad": run_of(photos["bad"], folder / "runs" / "bad", {"on_bad_file": "skip", "epochs": 2}),
        "nan": run_of(photos["whole"], folder / "runs" / "nan", BROKEN, poison_at=3),
    }
    told = results(folder, list(runs.values()))
    return {name: (Path(run["path"]), result) for (name, run), result in zip(runs.items(), told, strict=True)}


@pytest.mark.parametrize(
    ("name", "settings", "data", "tolerance"),
    [
        ("float64", {**WHOLE, "precision": "float64"}, "gaps", 1e-9),
        ("float32", WHOLE, "gaps", 1e-4),
        ("few", FEW, "few", 1e-9),
    ],
)
def test_two_processes_learn_what_one_does(job, photos, tmp_path, name, settings, data, tolerance):
    path, result = job[name]
    assert result["finished"]
    tiny.tune(photos[data], tmp_path / "one", **settings)
    one, two = tiny.last(tmp_path / "one"), tiny.last(path)
    assert one.step == two.step >= 20
    assert one.tensors.keys() == two.tensors.keys()
    moved = 0.0
    for key, tensor in one.tensors.items():
        torch.testing.assert_close(two.tensors[key], tensor, rtol=0, atol=tolerance, msg=key)
        moved = max(moved, float(tensor.double().abs().max()) if key.startswith("optimizer") else 0.0)
    assert moved > 1e-3  # there was something to learn
    for mine, theirs in zip(tiny.metrics(tmp_path / "one"), tiny.metrics(path), strict=True):
        assert theirs == pytest.approx(mine, rel=100 * tolerance, abs=100 * tolerance)


def test_each_photo_once_per_epoch(job, photos):
    for name, data, size in (("float64", "gaps", 9), ("few", "few", 2), ("unbroken", "whole", 8)):
        first, second = job[name][1]["seen"]
        train, _ = choose_splits(read_samples(photos[data]))
        expected = [numbers for _, numbers in batch_numbers(0, len(train), size, 0, len(first))]
        assert [sorted(one + two) for one, two in zip(first, second, strict=True)] == [sorted(one) for one in expected]
    assert [] in job["few"][1]["seen"][1]  # a step in which one process had no photo


def test_one_process_writes(job):
    for name, (_, result) in job.items():
        assert result["written"] == [[], []], name


def test_processes_stay_alike(job):
    for name in ("float32", "unbroken", "killed"):
        first, second = job[name][1]["weights"]
        assert first == second, name
        assert first


def test_nan_in_one_process_is_told_by_all(job, photos):
    path, result = job["nan"]
    first, second = result["error"]
    assert first == second
    assert first.startswith("NonFiniteError: step 3: the loss became NaN or infinite, first in backbone.second. ")
    train, _ = choose_splits(read_samples(photos["whole"]))
    assert first.endswith("The photos: " + ", ".join(str(train[number].path) for number in result["seen"][1][2]))
    assert tiny.last(path).step == 2


def bad_files(photos):
    return sorted(photos["bad"].parent.glob("blue-*-[12].png"))


def test_bad_photos_of_all_processes_are_named_once(job, photos):
    path, result = job["bad"]
    bad = bad_files(photos)
    assert len(bad) == 4  # two to train on, two to validate on
    said = sorted(note.split(": ")[1] for note in result["notes"][0])
    assert said == [str(one) for one in bad]
    assert result["notes"][1] == []
    assert (path / "log.jsonl").read_text().count("left out") == 4
    assert sorted(number for step in result["seen"][0] + result["seen"][1] for number in step) == sorted(
        2
        * [
            number
            for number, sample in enumerate(choose_splits(read_samples(photos["bad"]))[0])
            if sample.path not in bad
        ]
    )


def test_a_killed_process_ends_the_job(killed):
    assert killed.code != 0
    assert killed.seconds < 30
    # The other process says so itself, unless whoever started both was quicker to end it.
    assert "another process of this job ended or cannot be reached" in killed.text or "SIGKILL" in killed.text
    assert killed.step == 7


def test_after_a_kill_the_run_goes_on_exactly(job):
    (unbroken, _), (again, result) = job["unbroken"], job["killed"]
    assert result["finished"]
    assert len(result["seen"][0]) == 15 - 7
    one, two = tiny.last(unbroken), tiny.last(again)
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, two.tensors[name]), name
    assert tiny.metrics(unbroken) == tiny.metrics(again)


@pytest.mark.slow
def test_the_process_that_writes_may_be_killed_too(photos, job, tmp_path):
    path = tmp_path / "runs" / "first"
    process = start(tmp_path, [run_of(photos["whole"], path, BROKEN, kill_at=6, kill_rank=0)])
    while not (tiny_steps(path) >= 5 or process.poll() is not None):
        time.sleep(0.02)
    began = time.monotonic()
    finish(process)
    assert process.returncode != 0
    assert time.monotonic() - began < 30
    assert tiny.last(path).step == 5
    results(tmp_path, [run_of(photos["whole"], path, BROKEN, resume=True)])
    one, two = tiny.last(job["unbroken"][0]), tiny.last(path)
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, two.tensors[name]), name


@pytest.mark.parametrize("again", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_command_as_one_types_it(photos, tmp_path, again):
    """`torchrun --nproc-per-node 2 -m finegraph train ...`, with a real network: one speaks and writes, both learn."""
    run = tmp_path / "runs" / "typed"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    command += ["--rdzv-endpoint", "127.0.0.1:0", "-m", "finegraph", "train", str(photos["few"])]
    command += ["--graph", str(photos["few"].parent / "graph.csv"), "--tune", "all", "--weights", "none"]
    command += ["--size", "64", "--batch-size", "3", "--run-folder", str(run)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}

    def typed(*more):
        return subprocess.run([*command, *more], env=variables, capture_output=True, text=True, timeout=240)

    done = typed("--epochs", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("top-1") == 1
    assert tiny.last(run).step == 4  # 5 photos in batches of 3, twice
    assert (run / "model" / "model.safetensors").is_file()
    if again:
        refused = typed("--epochs", "3")
        assert refused.returncode != 0
        assert "this run exists already" in refused.stderr


@pytest.mark.slow
def test_a_signal_to_all_saves_and_stops(photos, tmp_path):
    path = tmp_path / "runs" / "asked"
    process = start(tmp_path, [run_of(photos["whole"], path, {"epochs": 3}, wait=0.3)])
    while tiny_steps(path) < 2 and process.poll() is None:
        time.sleep(0.02)
    before = tiny_steps(path)
    # As a terminal or a scheduler may do: to all, and torchrun sends it to its processes once more.
    for rank in range(2):
        os.kill(int((tmp_path / f"out.json.{rank}").read_text()), signal.SIGINT)
    os.killpg(process.pid, signal.SIGINT)
    text = finish(process)
    assert tiny.last(path) is not None, text
    assert tiny.last(path).step == tiny_steps(path) <= before + 2


def test_going_on_with_another_number_of_processes_is_said(photos, job, tmp_path):
    unbroken = job["unbroken"][0]
    tuned = tiny.tune(photos["whole"], unbroken, resume=True, **BROKEN)
    assert "before there were 2 processes, now 1" in tuned.watcher.notes[-1]


def test_one_process_alone():
    ranks = Ranks()
    values = [torch.ones(2), torch.zeros(0)]
    ranks.sum(values)
    ranks.copy_first(values)
    ranks.wait()
    assert values[0].tolist() == [1.0, 1.0]
    assert ranks.gather("a") == ["a"]
    assert (ranks.any(True), ranks.any(False)) == (True, False)
    assert ranks.share([1, 2, 3]) == [1, 2, 3]
    assert [Ranks(rank, 3).share(range(8)) for rank in range(3)] == [[0, 3, 6], [1, 4, 7], [2, 5]]
    with joined_ranks() as found:
        assert found == Ranks(0, 1)
