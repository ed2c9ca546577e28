"""Commands as typed under torchrun: 1, 2 and 3 processes answer and learn the same, and faults are told once."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import jaxtyping
import pytest
import tiny
import torch
from safetensors.torch import load_file

import warm_ranks
from finegraph.cli.main import run as finegraph

SCRIPT = Path(__file__).parent / "typed_tiny.py"


def command(processes, *words):
    """A command of finegraph, under torchrun if there are several processes."""
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--rdzv-backend", "c10d"]
        start += ["--rdzv-endpoint", "127.0.0.1:0"]
    return [*start, str(SCRIPT), *map(str, words)]


def around(**more):
    """The environment of a command."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **more}


def typed(processes, *words, **variables):
    """What a command under torchrun says and how it ends."""
    variables = around(**variables)
    return subprocess.run(command(processes, *words), env=variables, capture_output=True, text=True, timeout=180)


def forked(processes, *words, **variables):
    """The same without torchrun, in processes that need not start."""
    return warm_ranks.run(processes, SCRIPT, words, around(**variables))


def answer(processes, *words, cache=None):
    """The JSON of a command that comes to its end; one process speaks. One process alone is this one.

    Args:
        processes: how many processes carry it out.
        words: the command.
        cache: a folder in which each process has a cache of its own, as on machines that share no disk.
    """
    if processes == 1:
        return answer_here(*words, cache=None if cache is None else cache / "0")
    own = {} if cache is None else {"TINY_OWN_CACHES": str(cache)}  # typed_tiny.py adds the number of the process
    done = forked(processes, *words, "--json", **own)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def answer_here(*words, cache=None):
    """The JSON of a command that this process carries out, without checks of shapes, as the others."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        if cache is not None:
            patch.setenv("FINEGRAPH_CACHE", str(cache))
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)
        assert finegraph([*map(str, words), "--json"]) == 0, said.getvalue()
    return json.loads(said.getvalue())


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"), per_class=4, val=2)


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    """A head that one process tuned."""
    folder = tmp_path_factory.mktemp("runs") / "head"
    words = ("--graph", photos.parent / "graph.csv", "--network", "tiny", "--weights", "none", "--no-report")
    answer(1, "train", photos, *words, "--run", folder, cache=folder.parent / "cache")
    return folder


# ---- predict ---------------------------------------------------------------------------------------------------------


def test_predictions_do_not_depend_on_the_number_of_processes(run, photos, tmp_path):
    folder, some = photos.parent, sorted(photos.parent.glob("*.png"))[:2]
    (tmp_path / "bad.png").write_bytes(b"no photo")
    words = (folder, tmp_path / "bad.png", "--on-bad-file", "skip", "--given", "colour=red")
    one = answer(1, "predict", run, *words, "--csv", tmp_path / "1.csv")
    assert len(one["photos"]) == 30
    assert [bad["photo"] for bad in one["bad"]] == [str(tmp_path / "bad.png")]
    assert answer(2, "predict", run, *words, "--csv", tmp_path / "2.csv") == one
    assert (tmp_path / "2.csv").read_bytes() == (tmp_path / "1.csv").read_bytes()
    few = answer(3, "predict", run, *some)  # one process has nothing to do
    assert few == answer(1, "predict", run, *some)


def test_a_fault_is_told_once_and_by_name(run, photos, tmp_path):
    bad = [tmp_path / f"{number}.png" for number in range(4)]
    for one in bad[:2]:
        one.write_bytes(b"no photo")
    done = forked(2, "predict", run, *bad[:2], "--json")
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert done.stderr.count("error:") == done.stderr.count(f"error: {bad[0]}:") == 1
    done = forked(2, "predict", run, sorted(photos.parent.glob("*.png"))[0], *bad[2:])  # both are missing
    assert done.stderr.count("error:") == done.stderr.count(f"error: {bad[2]}:") == 1
    done = typed(2, "predict", run, photos.parent, "--given", "color=red")
    assert done.stderr.count("error:") == done.stderr.count("error: unknown kind 'color'") == 1
    assert done.stderr.count("unknown kind 'color'") == 2  # and where the report of torchrun ends
    assert "unknown kind 'color'" in done.stderr.rsplit("traceback : ", 1)[1]


# ---- evaluate and index ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(photos, tmp_path_factory):
    """A network that one process trained as a whole; its features are stored nowhere."""
    folder = tmp_path_factory.mktemp("runs") / "all"
    words = ("--graph", photos.parent / "graph.csv", "--network", "tiny", "--weights", "none", "--no-report")
    answer(1, "train", photos, *words, "--tune", "all", "--epochs", "1", "--run", folder)
    return folder


@pytest.mark.parametrize("tuned", ["run", "whole"])
def test_evaluations_do_not_depend_on_the_number_of_processes(request, photos, tmp_path, tuned):
    model = request.getfixturevalue(tuned)
    (photos.parent / "more").mkdir(exist_ok=True)
    bad = photos.parent / "more" / "images.csv"
    rows = photos.read_text().splitlines()
    (photos.parent / "more" / "bad.png").write_bytes(b"no photo")
    moved = [f"../{row}" for row in rows[1:]]
    bad.write_text("\n".join([rows[0], moved[0], f"bad.png,{moved[0].split(',')[1]},val,", *moved[1:]]) + "\n")
    words = ("evaluate", model, "--data", bad, "--split", "val", "--retrieval", "--on-bad-file", "skip")
    found = [
        answer(processes, *words, "--name", f"ranks-{processes}", cache=tmp_path / str(processes))
        for processes in (1, 2)
    ]
    for one in found:
        for changing in ("folder", "evaluation", "name"):
            one.pop(changing, None)
    assert found[0] == found[1]
    assert "bad.png" in json.dumps(found[0])
    if tuned == "run":
        each = [len(list((tmp_path / "2" / str(rank)).rglob("*"))) for rank in (0, 1)]
        assert min(each) > 0  # both computed features


@pytest.mark.parametrize("tuned", ["run", pytest.param("whole", marks=pytest.mark.slow)])
def test_an_index_is_made_and_added_to_by_all_processes(request, photos, tmp_path, tuned):
    model = request.getfixturevalue(tuned)
    every = sorted(photos.parent.glob("*.png"))
    (tmp_path / "bad.png").write_bytes(b"no photo")
    reports, hits = [], []
    for processes in (1, 2):
        index, cache = tmp_path / f"index-{processes}", tmp_path / str(processes)
        made = answer(processes, "index", model, *every[:9], "-o", index, cache=cache)
        skipped = ("--on-bad-file", "skip")
        added = answer(processes, "index", "add", index, *every[5:], tmp_path / "bad.png", *skipped, cache=cache)
        reports.append(
            [{k: v for k, v in one.items() if "seconds" not in k and k != "folder"} for one in (made, added)]
        )
        found = answer(1, "search", index, every[3], cache=cache)
        hits.append(json.loads(json.dumps(found).replace(str(index), "")))
    assert reports[0] == reports[1]
    assert (reports[1][0]["added"], reports[1][1]["added"], reports[1][1]["unchanged"]) == (9, len(every) - 9, 4)
    assert len(reports[1][1]["bad"]) == 1
    assert hits[0] == hits[1]


def test_a_photo_that_cannot_be_read_ends_an_index_of_several_processes_once(run, photos, tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no photo")
    some = sorted(photos.parent.glob("*.png"))[:3]
    done = forked(2, "index", run, *some, bad, "-o", tmp_path / "index", "--json")
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert done.stderr.count("error:") == done.stderr.count(f"error: {bad}:") == 1


def test_a_head_is_tuned_by_machines_that_share_no_disk(run, photos, tmp_path):
    words = ("--graph", photos.parent / "graph.csv", "--network", "tiny", "--weights", "none", "--no-report")
    answer(2, "train", photos, *words, "--run-folder", tmp_path / "two", cache=tmp_path / "caches")
    one, two = (load_file(folder / "model" / "model.safetensors") for folder in (run, tmp_path / "two"))
    assert one.keys() == two.keys()
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, rtol=1e-5, atol=1e-6)


def test_statistics_of_the_closed_form_are_summed_over_processes(photos, tmp_path):
    words = ("train", photos, "--graph", photos.parent / "graph.csv", "--network", "tiny", "--weights", "none")
    words += ("--fit", "prototypes", "--photo-labels", "ignore", "--train-views", "2")
    found = []
    for processes in (1, 2):
        run = tmp_path / str(processes)
        told = answer(processes, *words, "--run-folder", run, cache=tmp_path / f"caches-{processes}")
        assert Path(told["report"]).is_file()
        found.append((told, load_file(run / "model" / "model.safetensors")))
    (alone, weights), (told, others) = found
    assert told["metrics"] == pytest.approx(alone["metrics"], rel=1e-4, abs=1e-4)
    assert told["strengths"]["variances"]["own"] == pytest.approx(alone["strengths"]["variances"]["own"], rel=1e-5)
    assert others.keys() == weights.keys()
    for name, weight in weights.items():
        torch.testing.assert_close(others[name], weight, rtol=1e-5, atol=1e-5)
