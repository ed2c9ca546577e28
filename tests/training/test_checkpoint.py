"""Checkpoints: what is saved comes back bit for bit, and what is kept is what should be."""

import json
import os
import random
import shutil
import struct
from pathlib import Path

import checkpoint_drills as drills
import numpy as np
import pytest
import safetensors.torch
import torch

from finegraph.errors import CheckpointError, InputError, UnknownNameError
from finegraph.files.sealed_json import seal, unseal
from finegraph.training.checkpoints import checkpoint as checkpoint_module
from finegraph.training.checkpoints.checkpoint import CheckpointFolder, load_checkpoint
from finegraph.training.checkpoints.tensor_file import TYPES, parse_tensors

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoint-1"


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def random_tensor(dtype, shape, generator):
    """Random bits: also NaN, infinities and subnormal numbers."""
    size = torch.Size(shape).numel() * dtype.itemsize
    highest = 2 if dtype == torch.bool else 256
    return torch.randint(0, highest, (size,), dtype=torch.uint8, generator=generator).view(dtype).view(shape)


def test_every_type_and_shape_comes_back_bit_for_bit(tmp_path):
    generator = torch.Generator().manual_seed(0)
    shapes = [(), (0,), (3, 0, 2), (1,), (8,), (3, 5)]
    tensors = {f"{name} {s}": random_tensor(dtype, s, generator) for name, dtype in TYPES.items() for s in shapes}
    CheckpointFolder(tmp_path).save(1, tensors, {})
    saved = CheckpointFolder(tmp_path).last()
    assert list(saved.tensors) == list(tensors)
    for name, tensor in tensors.items():
        back = saved.tensors[name]
        assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(bits(back), bits(tensor))
        # All lie aligned in the one buffer that was read, so none had to be copied.
        assert back.untyped_storage().data_ptr() == saved.tensors["F64 ()"].untyped_storage().data_ptr()


def test_views_parameters_and_shared_memory_come_back_by_value(tmp_path):
    base = torch.arange(24.0).view(2, 3, 4)
    tensors = {
        "transposed": base.transpose(0, 2),
        "strided": base[:, ::2, 1:],
        "expanded": base[0, :1].expand(5, 4),
        "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "parameter": torch.nn.Parameter(base.clone()),
        "conjugate": torch.tensor([1 + 2j], dtype=torch.complex64).conj(),
        "one": base,
        "same again": base,
    }
    CheckpointFolder(tmp_path).save(0, tensors, {})
    saved = CheckpointFolder(tmp_path).last().tensors
    for name, tensor in tensors.items():
        assert torch.equal(saved[name], tensor.detach()), name
        assert not saved[name].requires_grad
    saved["one"] += 1
    assert torch.equal(saved["same again"], base)


def test_saving_makes_no_copy_of_contiguous_tensors(tmp_path, monkeypatch):
    tensor = torch.randn(3000)
    written = []

    def write(handle, data):
        written.append(np.frombuffer(data, np.uint8).__array_interface__["data"][0])
        return drills.REAL_WRITE(handle, data)

    monkeypatch.setattr(os, "write", write)
    CheckpointFolder(tmp_path).save(1, {"a": tensor, "b": tensor[1000:]}, {})
    assert written[1:3] == [tensor.data_ptr(), tensor.data_ptr() + 4000]


def test_large_tensors_are_written_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("finegraph.training.checkpoints.tensor_file.MAX_WRITE", 1000)
    monkeypatch.setattr("finegraph.files.durable.MAX_WRITE", 300)
    monkeypatch.setattr(
        os, "write", lambda handle, data: drills.REAL_WRITE(handle, data[:77])
    )  # the system may do less
    folder = CheckpointFolder(tmp_path)
    drills.save(folder, 1)
    assert drills.is_whole(folder.last())


def test_the_library_of_the_format_reads_our_files_and_we_read_its_files(tmp_path):
    tensors = {**drills.tensors_of(1), "half": torch.randn(3).to(torch.bfloat16), "é": torch.tensor(True)}
    path = CheckpointFolder(tmp_path).save(1, tensors, {})
    theirs = safetensors.torch.load_file(path / "tensors.safetensors")
    ours = parse_tensors(torch.tensor(list(safetensors.torch.save(tensors, {"format": "pt"})), dtype=torch.uint8))
    for found in (theirs, ours):
        assert found.keys() == tensors.keys()
        assert all(torch.equal(found[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (None, "longer than the file"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, r"shape \[2\] does not lie at"),
        ({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}, "does not lie at"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, "do not fill the file"),
        ({"a": {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}}, "no header of tensors"),
        ({"a": {"dtype": "PICKLE", "shape": [1], "data_offsets": [0, 4]}}, "no header of tensors"),
        ({"a": 1}, "no header of tensors"),
        ([1], "no header of tensors"),
    ],
)
def test_files_that_lie_about_their_tensors(header, text):
    data = json.dumps(header).encode()
    length = (2**63 if header is None else len(data)).to_bytes(8, "little")
    with pytest.raises(ValueError, match=text):
        parse_tensors(torch.tensor(list(length + data + bytes(8)), dtype=torch.uint8))


def test_state_comes_back_equal_and_floats_to_the_last_bit(tmp_path):
    rng = random.Random(0)
    floats = [struct.unpack("d", rng.randbytes(8))[0] for _ in range(1000)]
    floats = [number for number in floats if np.isfinite(number)] + [0.0, -0.0, 5e-324, 0.1]
    state = {
        "floats": floats,
        "big": 2**127 - 1,
        "text": "é\ud800\n",
        "nothing": None,
        "yes": True,
        "deep": {"": [[], {}]},
    }
    CheckpointFolder(tmp_path).save(1, {}, state)
    saved = CheckpointFolder(tmp_path).last().state
    assert saved == state
    assert struct.pack(f"{len(floats)}d", *saved["floats"]) == struct.pack(f"{len(floats)}d", *floats)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({"rng": {"state": (1, 2)}}, r"at state\.rng\.state, got a tuple; make it a list"),
        ({"best": float("nan")}, r"expected a finite number at state\.best, got nan"),
        ({"a": [0, float("-inf")]}, r"at state\.a\[1\], got -inf"),
        ({"a": {1: 2}}, r"expected names that are text at state\.a, got 1"),
        ({"a": torch.ones(1)}, r"at state\.a, got a Tensor"),
        ({"a": b"bytes"}, "got a bytes"),
    ],
)
def test_state_that_json_would_change_is_refused(tmp_path, state, text):
    with pytest.raises(InputError, match=text):
        CheckpointFolder(tmp_path / "checkpoints").save(1, {}, state)
    assert os.listdir(tmp_path) == []


def test_state_within_itself_is_refused(tmp_path):
    state = {}
    state["state"] = state
    with pytest.raises(InputError, match="nor within themselves"):
        CheckpointFolder(tmp_path).save(1, {}, state)


@pytest.mark.parametrize(
    ("tensors", "text"),
    [
        ({"a": [1.0]}, "a: expected a tensor, got a list"),
        ({"a": torch.ones(2).to_sparse()}, "a: expected a dense tensor"),
        ({"a": torch.ones(2, device="meta")}, "got a tensor without values"),
        ({"a": torch.ones(2, dtype=torch.complex128)}, "got torch.complex128"),
        ({"__metadata__": torch.ones(2)}, "choose another name"),
        ({"\ud800": torch.ones(2)}, "expected a name that is text"),
        ({1: torch.ones(2)}, "expected the name of a tensor, got 1"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_tensors_that_cannot_be_saved(tmp_path, tensors, text):
    with pytest.raises(InputError, match=text):
        CheckpointFolder(tmp_path / "checkpoints").save(1, tensors, {})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("step", [-1, True, 1.0, None])
def test_steps_are_whole_numbers(tmp_path, step):
    with pytest.raises(InputError, match="expected a step, 0 or more"):
        CheckpointFolder(tmp_path).save(step, {}, {})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_nan_is_never_saved_where_it_must_not_be(tmp_path, value, dtype):
    folder = CheckpointFolder(tmp_path)
    folder.save(1, {"weight": torch.ones(3)}, {}, best=True, check_finite=["weight"])
    bad = {"weight": torch.tensor([0.0, value, 1.0]).to(dtype), "count": torch.tensor(3)}
    with pytest.raises(
        CheckpointError, match=r"step 2: expected finite values, got NaN or infinity in 1 tensor \(weigh"
    ):
        folder.save(2, bad, {}, best=True, check_finite=bad)
    assert folder.last().step == folder.best().step == 1
    assert folder.save(2, bad, {}, check_finite=["count"]).name == "000002-step-2"
    with pytest.raises(UnknownNameError, match="unknown tensor 'weigth' to check; did you mean 'weight'"):
        folder.save(3, bad, {}, check_finite=["weigth"])


def names(path):
    return [name.split("-", 1)[1] for name in sorted(os.listdir(path))]


def test_the_last_and_the_best_are_kept_with_one_each_to_fall_back_to(tmp_path):
    folder = CheckpointFolder(tmp_path)
    assert folder.last() is None
    seen = []
    for step, best in [(10, True), (20, True), (30, True), (40, False), (50, False), (60, False), (70, True)]:
        path = folder.save(step, drills.tensors_of(step), drills.state_of(step), best=best)
        assert folder.last().path == path
        assert folder.last().best == best
        seen.append(names(tmp_path))
    assert seen[0] == ["step-10-best"]
    assert seen[2] == ["step-20-best", "step-30-best"]
    assert seen[5] == ["step-20-best", "step-30-best", "step-50", "step-60"]
    assert seen[6] == ["step-30-best", "step-60", "step-70-best"]
    assert folder.best().step == 70


@pytest.mark.parametrize(
    ("keep", "expected"), [(0, ["step-3-best", "step-5"]), (2, ["step-3-best", "step-4", "step-5"])]
)
def test_keep(tmp_path, keep, expected):
    for step in range(1, 6):
        drills.save(CheckpointFolder(tmp_path, keep), step)
    assert names(tmp_path) == expected


def test_keep_may_not_be_negative(tmp_path):
    with pytest.raises(InputError, match="0 or more, got -1"):
        CheckpointFolder(tmp_path, -1)


def test_without_a_best_one_there_is_none(tmp_path):
    folder = CheckpointFolder(tmp_path)
    drills.save(folder, 1)
    assert folder.best() is None


def test_what_is_saved_last_is_last_whatever_its_step(tmp_path):
    folder = CheckpointFolder(tmp_path)
    for step in (20, 10, 10):
        path = drills.save(folder, step)
    assert folder.last().step == 10
    assert folder.last().path == path


def test_other_things_in_the_folder_are_left_alone(tmp_path):
    others = ["notes.txt", "000009-step-x", "0000010-step-3", ".hidden", "step-4"]
    for name in others:
        (tmp_path / name).mkdir()
    stale = tmp_path / ".finegraph-0123456789abcdef.tmp"
    stale.mkdir()
    (stale / "tensors.safetensors").write_bytes(b"half")
    folder = CheckpointFolder(tmp_path, keep=0)
    assert folder.last() is None
    for step in (1, 2):
        drills.save(folder, step)
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "000002-step-2"])


def test_a_checkpoint_that_is_removed_while_it_is_read_is_no_damage(tmp_path, monkeypatch):
    folder = CheckpointFolder(tmp_path)
    drills.save(folder, 1)
    drills.save(folder, 2)
    real = checkpoint_module.load_checkpoint

    def load(path, *arguments):
        if path.name == "000002-step-2":
            for step in (3, 4, 5):
                drills.save(CheckpointFolder(tmp_path), step)
        return real(path, *arguments)

    monkeypatch.setattr(checkpoint_module, "load_checkpoint", load)
    found = folder.last()
    assert (found.step, found.notes) == (5, ())


def test_a_renamed_checkpoint_is_not_believed(tmp_path):
    folder = CheckpointFolder(tmp_path)
    for step in (1, 2):
        drills.save(folder, step)
    os.rename(tmp_path / "000001-step-1", tmp_path / "000003-step-3-best")
    found = folder.last()
    assert found.step == 2
    assert "its name was changed; its record says 000001-step-1" in found.notes[0]
    assert load_checkpoint(tmp_path / "000003-step-3-best").step == 1


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(CheckpointError, match="expected a folder of checkpoints: Not a directory"):
        CheckpointFolder(tmp_path / "checkpoints").last()


def reseal(path, **changes):
    file = path / "state.json"
    file.write_bytes(seal({**unseal(file.read_bytes()), **changes}))


@pytest.mark.parametrize(
    ("changes", "text", "damaged"),
    [
        ({"version": 2}, "expected a checkpoint of version 1, got version 2; it was saved by a later finegraph", False),
        ({"format": "finegraph.graph"}, "expected the record of a checkpoint, got 'finegraph.graph'", False),
        ({"state": []}, "expected number, step, best, tensors, state in the record", True),
        ({"tensors": {}}, "expected None bytes", True),
    ],
)
def test_other_versions_and_other_files_are_refused_clearly(tmp_path, changes, text, damaged):
    folder = CheckpointFolder(tmp_path)
    drills.save(folder, 1)
    path = drills.save(folder, 2)
    reseal(path, **changes)
    with pytest.raises(CheckpointError, match=text) as caught:
        load_checkpoint(path)
    assert caught.value.damaged == damaged
    if damaged:
        assert folder.last().step == 1
    else:
        with pytest.raises(CheckpointError, match=text):
            folder.last()


def test_the_first_version_of_the_format_loads_for_ever(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "checkpoints")
    folder = CheckpointFolder(tmp_path / "checkpoints")
    saved = folder.last()
    assert (saved.step, saved.best, saved.notes) == (12, True, ())
    assert saved.state == {"epoch": 3, "rate": 0.1, "name": "é"}
    expected = {
        "network.weight": torch.arange(6.0).view(2, 3),
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "count": torch.tensor(7),
        "mask": torch.tensor([True, False, True]),
        "empty": torch.zeros(0, 4),
    }
    assert list(saved.tensors) == list(expected)
    assert all(torch.equal(saved.tensors[name], expected[name]) for name in expected)
    folder.save(13, expected, saved.state)
    assert folder.last().path.name == "000002-step-13"
