"""Commands as typed under torchrun: 1, 2 and 3 processes answer and learn the same, and faults are told once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny

SCRIPT = Path(__file__).parent / "typed_tiny.py"


def command(processes, *words):
    """A command of finegraph, under torchrun if there are several processes."""
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--rdzv-backend", "c10d"]
        start += ["--rdzv-endpoint", "127.0.0.1:0"]
    return [*start, str(SCRIPT), *map(str, words)]


def typed(processes, *words, **variables):
    """What a command says and how it ends."""
    around = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **variables}
    return subprocess.run(command(processes, *words), env=around, capture_output=True, text=True, timeout=180)


def answer(processes, *words, **variables):
    """The JSON of a command that comes to its end; one process speaks."""
    done = typed(processes, *words, "--json", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return tiny.make_photos(tmp_path_factory.mktemp("photos"), per_class=4, val=2)


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    """A head that one process tuned."""
    folder = tmp_path_factory.mktemp("runs") / "head"
    words = ("--graph", photos.parent / "graph.csv", "--network", "tiny", "--weights", "none", "--no-report")
    answer(1, "train", photos, *words, "--run", folder, FINEGRAPH_CACHE=str(folder.parent / "cache"))
    return folder


# ---- predict ---------------------------------------------------------------------------------------------------------


def test_predictions_do_not_depend_on_the_number_of_processes(run, photos, tmp_path):
    folder, some = photos.parent, sorted(photos.parent.glob("*.png"))[:2]
    (tmp_path / "bad.png").write_bytes(b"no photo")
    words = (folder, tmp_path / "bad.png", "--on-bad-file", "skip", "--given", "colour=red")
    one = answer(1, "predict", run, *words, "--csv", tmp_path / "1.csv")
    assert len(one["photos"]) == 30
    assert [bad["photo"] for bad in one["bad"]] == [str(tmp_path / "bad.png")]
    for processes in (2, 3):
        assert answer(processes, "predict", run, *words, "--csv", tmp_path / f"{processes}.csv") == one
        assert (tmp_path / f"{processes}.csv").read_bytes() == (tmp_path / "1.csv").read_bytes()
    few = answer(3, "predict", run, *some)  # one process has nothing to do
    assert few == answer(1, "predict", run, *some)


def test_a_fault_is_told_once_and_by_name(run, photos, tmp_path):
    bad = [tmp_path / f"{number}.png" for number in range(4)]
    for one in bad[:2]:
        one.write_bytes(b"no photo")
    done = typed(2, "predict", run, *bad[:2], "--json")
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert done.stderr.count("error:") == done.stderr.count(f"error: {bad[0]}:") == 1
    done = typed(2, "predict", run, sorted(photos.parent.glob("*.png"))[0], *bad[2:])  # both are missing
    assert done.stderr.count("error:") == done.stderr.count(f"error: {bad[2]}:") == 1
    done = typed(3, "predict", run, photos.parent, "--given", "color=red")
    assert done.stderr.count("error:") == done.stderr.count("unknown kind 'color'") == 1
