"""Ways to hurt checkpoints, for the tests (few, seeded) and for `benchmarks/checkpoints.py` (many).

Every drill saves what follows from the step alone, so that what is read back can be compared with what must be there.
As a script, it runs the drill of kills: `python checkpoint_drills.py FOLDER KILLS SEED` prints what it found as JSON.
"""

import contextlib
import errno
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import torch

from finegraph.errors import CheckpointError
from finegraph.training.checkpoints.checkpoint import CheckpointFolder, load_checkpoint
from finegraph.training.records.run_folder import RunFolder

OPERATIONS = ("mkdir", "open", "write", "fsync", "rename", "unlink", "rmdir")
"""All by which a save changes the disk."""


def tensors_of(step, count=6):
    """The tensors of a step."""
    generator = torch.Generator().manual_seed(step)
    tensors = {f"network.{i}": torch.randn(31, 5 + i, generator=generator) for i in range(count)}
    tensors["optimizer.step"] = torch.tensor(step)
    return tensors


def state_of(step):
    """The other state of a step."""
    return {"progress": {"step": step, "loss": step / 7}, "names": ["a", "é"]}


def is_whole(checkpoint):
    """Whether a checkpoint holds exactly what was saved at its step."""
    expected = tensors_of(checkpoint.step, len(checkpoint.tensors) - 1)
    return (
        list(checkpoint.tensors) == list(expected)
        and all(torch.equal(checkpoint.tensors[name], expected[name]) for name in expected)
        and checkpoint.state == state_of(checkpoint.step)
    )


@contextlib.contextmanager
def operations(before):
    """Call `before(name, arguments, number)` before each operation that changes the disk; numbers count from 1."""
    count = 0
    real = {name: getattr(os, name) for name in OPERATIONS}

    def watched(name):
        def call(*arguments, **options):
            nonlocal count
            if name != "open" or arguments[1] & os.O_CREAT:
                count += 1
                before(name, arguments, count)
            return real[name](*arguments, **options)

        return call

    try:
        for name in OPERATIONS:
            setattr(os, name, watched(name))
        yield
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def write_half(name, arguments):
    """Where the operation is a write, do half of it."""
    if name == "write":
        handle, data = arguments
        REAL_WRITE(handle, data[: len(data) // 2])


REAL_WRITE = os.write


def no_space_at(first, error=errno.ENOSPC):
    """From operation `first` on, nothing new can be written; removing works. With EROFS, nothing works."""

    def before(name, arguments, number):
        if number >= first and (error == errno.EROFS or name in ("mkdir", "open", "write", "fsync")):
            if number == first:
                write_half(name, arguments)
            raise OSError(error, os.strerror(error))

    return operations(before)


def save(folder, step, tensors=6):
    """Save a step; every third one is a best one."""
    return folder.save(step, tensors_of(step, tensors), state_of(step), best=step % 3 == 0)


def no_space_drill(path, points, tensors=6):
    """Have no space left at each of the first operations of a save; counts what was as it must be."""
    found = Counter()
    for first in range(1, points + 1):
        shutil.rmtree(path, ignore_errors=True)
        folder = CheckpointFolder(path)
        for step in (1, 2):
            save(folder, step, tensors)
        try:
            with no_space_at(first):
                save(folder, 3, tensors)
            found["saved"] += 1  # what failed was the removal of old ones, after the new one was safe
            oldest = 3
        except CheckpointError as error:
            found["refused"] += 1
            oldest = 2
            found["named"] += str(path) in str(error) and "No space left on device. It needs " in str(error)
            found["old ones intact"] += {"000001-step-1", "000002-step-2"} <= set(os.listdir(path))
        found["loaded"] += _loads(folder, oldest)
        save(folder, 4, tensors)
        found["goes on"] += _loads(folder, 4)
        found["clean"] += not _strays(Path(path))
    return found


def _loads(folder, oldest):
    """Whether the last checkpoint is whole, and at least of this step, without falling back."""
    checkpoint = folder.last()
    return checkpoint is not None and is_whole(checkpoint) and checkpoint.step >= oldest and not checkpoint.notes


def _strays(folder):
    """What lies in a folder of checkpoints and is none."""
    return [name for name in os.listdir(folder) if "-step-" not in name]


def damage_drill(path, count, seed, cut):
    """Flip bits, or cut files; counts what was found and what was fallen back to."""
    rng = random.Random(seed)
    found = Counter()
    folder = CheckpointFolder(path)
    for step in (1, 2, 3, 4, 5, 6):
        save(folder, step)
    last = folder.last().path
    for _ in range(count):
        file = last / rng.choice(["state.json", "tensors.safetensors"])
        content = file.read_bytes()
        if cut:
            damaged = content[: rng.randrange(len(content))]
        else:
            place, bit = rng.randrange(len(content)), rng.randrange(8)
            damaged = content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :]
        file.write_bytes(damaged)
        try:
            load_checkpoint(last)
        except CheckpointError as error:
            found["detected"] += error.damaged and str(file) in str(error)
        back = folder.last()
        found["fell back"] += back.step == 5 and is_whole(back) and str(file) in back.notes[0]
        back = folder.best()
        found["best fell back"] += back.step == 3 and is_whole(back) and len(back.notes) == 2
        file.write_bytes(content)
    assert folder.last().path == last
    return found


def kill_drill(path, kills, seed):
    """Kill a process that saves without pause at random moments; counts what was as it must be."""
    rng = random.Random(seed)
    run = RunFolder.create(path)
    found = Counter()
    acknowledged = best = 0
    for number in range(kills):
        last = CheckpointFolder(run.checkpoints).last()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _save_for_ever(run, last.step + 1 if last else 1, writer)
        os.close(writer)
        with open(reader, "rb") as file:
            file.readline()  # it has begun
            first = [file.readline()] if number % 2 else []  # every other one is killed after a save at the earliest
            time.sleep(rng.uniform(0, 0.04))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            steps = [int(line) for line in (*first, *file.read().split(b"\n")[:-1])]
        found["saves"] += len(steps)
        acknowledged = max([acknowledged, *steps])
        best = max([best, *(step for step in steps if step % 3 == 0)])
        _check_after_kill(run, acknowledged, best, found)
    return found


def crash_points_drill(path):
    """Kill a process at each operation of a save in turn; counts what was as it must be."""
    found = Counter()
    for point in range(1, 1000):
        shutil.rmtree(path, ignore_errors=True)
        run = RunFolder.create(path)
        for step in (1, 2, 3):
            save(CheckpointFolder(run.checkpoints), step)
        child = os.fork()
        if child == 0:
            _save_and_die(run, point)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            return found
        found["points"] += 1
        _check_after_kill(run, 3, 3, found)
    raise AssertionError("a save has no end")


def _save_for_ever(run, step, writer):
    try:
        with run.lock():
            folder = CheckpointFolder(run.checkpoints)
            REAL_WRITE(writer, b"begun\n")
            while True:
                save(folder, step)
                REAL_WRITE(writer, b"%d\n" % step)
                step += 1
    finally:
        os._exit(1)  # only an error leads here


def _save_and_die(run, point):
    def before(name, arguments, number):
        if number == point:
            write_half(name, arguments)
            os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        with operations(before):
            save(CheckpointFolder(run.checkpoints), 4)
        code = 0
    finally:
        os._exit(code)


def _check_after_kill(run, acknowledged, best, found):
    """What must be there after a kill, and what must not be there after the next start."""
    folder = CheckpointFolder(run.checkpoints)
    found["left half done"] += run.checkpoints.exists() and bool(_strays(run.checkpoints))
    checkpoint = folder.last()
    step = checkpoint.step if checkpoint else 0
    found["loaded"] += checkpoint is None or (is_whole(checkpoint) and not checkpoint.notes)
    found["fresh"] += step >= acknowledged
    checkpoint = folder.best()
    found["best fresh"] += (checkpoint.step if checkpoint else 0) >= best and (not checkpoint or is_whole(checkpoint))
    with run.lock():
        found["clean"] += os.listdir(run.path) in ([".lock"], ["checkpoints", ".lock"], [".lock", "checkpoints"]) and (
            not run.checkpoints.exists() or not _strays(run.checkpoints)
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    place, kills, seed = sys.argv[1:]
    print(json.dumps([kill_drill(f"{place}/a", int(kills), int(seed)), crash_points_drill(f"{place}/b")]))
