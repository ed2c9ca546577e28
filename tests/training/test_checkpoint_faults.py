"""Checkpoints under kills, full disks, bit rot and cuts; `benchmarks/checkpoints.py` does the same in large numbers."""

import errno
import json
import os
import resource
import subprocess
import sys

import checkpoint_drills as drills
import pytest
import torch

from finegraph.errors import CheckpointError
from finegraph.training.checkpoints.checkpoint import CheckpointFolder


def test_kills_at_any_moment_lose_nothing_that_was_acknowledged(tmp_path):
    command = [sys.executable, drills.__file__, str(tmp_path), "10", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    random, points = json.loads(done.stdout)
    assert random.pop("saves") >= 5
    random.pop("left half done")  # chance decides
    assert random == {"loaded": 10, "fresh": 10, "best fresh": 10, "clean": 10}
    count = points.pop("points")
    assert count > 15
    assert points.pop("left half done") > 10
    assert points == {"loaded": count, "fresh": count, "best fresh": count, "clean": count}


def test_no_space_at_any_operation_leaves_the_old_ones(tmp_path):
    found = drills.no_space_drill(tmp_path / "checkpoints", 40, tensors=20)
    refused = found["refused"]
    assert 25 < refused < 40
    assert found == {
        "refused": refused,
        "named": refused,
        "old ones intact": refused,
        "saved": 40 - refused,
        "loaded": 40,
        "goes on": 40,
        "clean": 40,
    }


def test_read_only_names_the_folder_and_the_size(tmp_path):
    path = tmp_path / "checkpoints"
    folder = CheckpointFolder(path)
    drills.save(folder, 1)
    twin = CheckpointFolder(tmp_path / "twin")
    drills.save(twin, 1)
    size = sum(file.stat().st_size for file in drills.save(twin, 2).iterdir())
    for error, reason in ((errno.EROFS, r"Read-only file system\. "), (errno.ENOSPC, r"No space left on device\. ")):
        text = rf"{path}: cannot save the checkpoint of step 2: {reason}It needs {size:,} bytes"
        with drills.no_space_at(1, error), pytest.raises(CheckpointError, match=text) as caught:
            drills.save(folder, 2)
        assert ("are free there" in str(caught.value)) == (error == errno.ENOSPC)
    assert folder.last().step == 1


@pytest.mark.parametrize("limit", [0, 100, 4096, 5000])
def test_a_real_limit_of_the_system(tmp_path, limit):
    folder = CheckpointFolder(tmp_path)
    drills.save(folder, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(CheckpointError, match="File too large"):
            drills.save(folder, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == ["000001-step-1"]
    assert drills.is_whole(folder.last())


def test_flipped_bits_are_found_and_fallen_back_from(tmp_path):
    assert drills.damage_drill(tmp_path, 200, 0, cut=False) == {
        "detected": 200,
        "fell back": 200,
        "best fell back": 200,
    }


def test_cuts_are_found_and_fallen_back_from(tmp_path):
    assert drills.damage_drill(tmp_path, 50, 1, cut=True) == {"detected": 50, "fell back": 50, "best fell back": 50}


@pytest.mark.parametrize("file", ["state.json", "tensors.safetensors"])
@pytest.mark.parametrize("harm", ["remove", "folder", "longer", "other"])
def test_lost_and_replaced_files(tmp_path, file, harm):
    folder = CheckpointFolder(tmp_path)
    older, newer = drills.save(folder, 1), drills.save(folder, 2)
    content = (newer / file).read_bytes()
    (newer / file).unlink()
    if harm == "folder":
        (newer / file).mkdir()
    elif harm == "longer":
        (newer / file).write_bytes(content + b"\n")
    elif harm == "other":
        (newer / file).write_bytes((older / file).read_bytes())
    back = folder.last()
    assert back.step == 1
    assert back.notes[0].startswith(str(newer))
    assert back.notes[1] == "took the checkpoint of step 1 in their place"


def test_everything_is_on_the_disk_before_it_is_acknowledged(tmp_path):
    """The order that a loss of power needs: files, their folder, the new name, the folder around it."""
    happened, names = [], {}
    real_open = os.open

    def opened(path, *arguments, **options):
        handle = real_open(path, *arguments, **options)
        names[handle] = os.path.basename(path)
        return handle

    def before(name, arguments, number):
        if name in ("write", "fsync"):
            happened.append((name, names[arguments[0]]))
        elif name == "rename":
            happened.append((name, os.path.basename(arguments[1])))

    folder = CheckpointFolder(tmp_path / "checkpoints", keep=0)
    drills.save(folder, 1)
    os.open = opened
    try:
        with drills.operations(before):
            # The drill has put its own function in place of os.open, which calls ours.
            drills.save(folder, 2)
    finally:
        os.open = real_open
    is_temporary = [name.endswith(".tmp") for _, name in happened]
    happened = [(what, "*" if hidden else name) for (what, name), hidden in zip(happened, is_temporary, strict=True)]
    assert list(dict.fromkeys(happened)) == [
        ("write", "tensors.safetensors"),
        ("fsync", "tensors.safetensors"),
        ("write", "state.json"),
        ("fsync", "state.json"),
        ("fsync", "*"),
        ("rename", "000002-step-2"),
        ("fsync", "checkpoints"),
        ("rename", "*"),
    ]


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    folder = CheckpointFolder(tmp_path)
    drills.save(folder, 1)

    def before(name, arguments, number):
        if name == "write" and number > 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), drills.operations(before):
        drills.save(folder, 2)
    assert os.listdir(tmp_path) == ["000001-step-1"]


def test_damaged_ones_do_not_count_as_something_to_fall_back_to(tmp_path):
    folder = CheckpointFolder(tmp_path)
    for step in (1, 2):
        drills.save(folder, step)
    (tmp_path / "000002-step-2" / "state.json").write_text("{}")
    assert folder.last().step == 1
    folder.save(2, {"a": torch.ones(2)}, {})
    assert sorted(os.listdir(tmp_path)) == ["000001-step-1", "000003-step-2"]


def test_all_damaged_is_an_error_and_not_a_fresh_start(tmp_path):
    folder = CheckpointFolder(tmp_path)
    for step in (3, 4):
        (drills.save(folder, step) / "state.json").unlink()
    with pytest.raises(CheckpointError, match=r"expected a checkpoint that is whole, but all 2 are damaged: .*step-4"):
        folder.last()
    with pytest.raises(CheckpointError, match=r"all 1 are damaged: .*000001-step-3-best.*Restore the folder"):
        folder.best()


def test_what_may_not_be_read_is_not_taken_for_damaged(tmp_path, monkeypatch):
    folder = CheckpointFolder(tmp_path)
    for step in (1, 2):
        drills.save(folder, step)

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with pytest.raises(CheckpointError, match=r"000002-step-2/state.json: cannot be read: Permission denied"):
        folder.last()
