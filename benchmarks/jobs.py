"""What a training job of two processes survives: one of them, either one, is killed in the midst of training.

    python benchmarks/jobs.py               100 kills, some 20 seconds each
    python benchmarks/jobs.py --kills 5     fewer

Each time `torch.distributed.run` starts two processes that train a tiny network (that of the tests) for 15 steps; every
step is made 0.15 s longer and ends with a checkpoint. After a step drawn from the first 13, and up to 0.15 s more,
SIGKILL ends one of the two. Then the job is started again to resume, and nothing disturbs it. Kills while a job begins,
while it ends or while it resumes are not tried, nor those of the starter or of both. What must hold: both processes are
gone within 30 seconds of the kill and the job says that it failed; the newest checkpoint is whole and at most one step
behind; and the last checkpoint of the resumed run has the very bits of that of a run that nobody disturbed. The exit
code is 1 if anything was otherwise.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "training"))
import test_distributed as jobs  # the folder of the tests is no package
import tiny

LIMIT = 30.0
SETTINGS = {"epochs": 3, "checkpoint_minutes": 0.0}
STEPS = 15


def gone(process: int) -> bool:
    """Whether a process has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def kill_once(manifest: Path, folder: Path, chance: random.Random, found: Counter[str]) -> float:
    """Kill one process of a job and resume; returns the seconds until all were gone."""
    path, rank, step = folder / "runs" / "killed", chance.randrange(2), chance.randint(1, STEPS - 2)
    job = jobs.start(folder, [jobs.run_of(manifest, path, SETTINGS, wait=0.15)])
    while jobs.tiny_steps(path) < step and job.poll() is None:
        time.sleep(0.01)
    processes = [int((folder / f"out.json.{number}").read_text()) for number in range(2)]
    time.sleep(chance.uniform(0, 0.15))
    os.kill(processes[rank], signal.SIGKILL)
    began = time.monotonic()
    jobs.finish(job, seconds=10 * LIMIT)
    while not all(gone(process) for process in processes):
        time.sleep(0.01)
    seconds = time.monotonic() - began
    found[f"of process {rank}"] += 1
    found["all gone in time"] += seconds <= LIMIT and job.returncode != 0
    checkpoint = tiny.last(path)
    found["whole checkpoint"] += checkpoint is not None and checkpoint.step >= step - 1
    again = jobs.start(folder, [jobs.run_of(manifest, path, SETTINGS, resume=True)])
    text = jobs.finish(again, seconds=10 * LIMIT)
    if again.returncode != 0:
        print(text, file=sys.stderr)
    return seconds


def same(one: Path, two: Path) -> bool:
    """Whether two runs ended with the same bits."""
    first, second = tiny.last(one), tiny.last(two)
    return first.tensors.keys() == second.tensors.keys() and all(
        torch.equal(tensor, second.tensors[name]) for name, tensor in first.tensors.items()
    )


def main() -> int:
    """Kill, resume, and print what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tiny.register()
    folder = Path(tempfile.mkdtemp(prefix="finegraph-jobs-"))
    chance, found, seconds = random.Random(arguments.seed), Counter[str](), []
    try:
        manifest = tiny.make_photos(folder / "photos")
        unbroken = folder / "whole" / "runs" / "unbroken"
        whole = jobs.start(unbroken.parents[1], [jobs.run_of(manifest, unbroken, SETTINGS)])
        jobs.finish(whole, seconds=10 * LIMIT)
        for number in range(arguments.kills):
            place = folder / f"{number}"
            seconds.append(kill_once(manifest, place, chance, found))
            found["resumed to the same bits"] += same(unbroken, place / "runs" / "killed")
            shutil.rmtree(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    table = Table("what must hold", "found", "expected")
    for name in ("all gone in time", "whole checkpoint", "resumed to the same bits"):
        table.add_row(name, str(found[name]), str(arguments.kills))
    table.add_row("the slowest end, in seconds", f"{max(seconds):.1f}", f"at most {LIMIT:.0f}")
    table.add_row("kills of process 0 / 1", f"{found['of process 0']} / {found['of process 1']}", "")
    Console().print(table)
    return (
        0
        if all(found[name] == arguments.kills for name in ("all gone in time", "whole checkpoint"))
        and (found["resumed to the same bits"] == arguments.kills)
        else 1
    )


if __name__ == "__main__":
    raise SystemExit(main())
