"""The frame of safetensors files, against files that the library of that name writes."""

import json

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from finegraph.files.checked_file import damage_of, entry_of
from finegraph.files.tensor_frame import ITEM_SIZES, TensorEntry, frame_bytes, read_arrays, read_frame


def test_arrays_of_the_library_come_back_as_views():
    arrays = {
        "wide": np.arange(6, dtype="<f8").reshape(2, 3),
        "bits": np.array([True, False, True]),
        "none": np.zeros((0, 4), "<f4"),
        "one": np.array(7, "<i2"),
    }
    data = safetensors.numpy.save(arrays, {"about": "a text"})
    found, texts = read_arrays(data)
    assert texts == {"about": "a text"}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(found[name], array)
    assert np.shares_memory(found["wide"], np.frombuffer(data, np.uint8))


def test_the_library_reads_what_is_framed():
    entries = {"b": TensorEntry("U8", (3,), 8, 11), "a": TensorEntry("F64", (), 0, 8)}
    data = frame_bytes(entries) + np.array(2.5).tobytes() + b"\1\2\3"
    assert read_frame(data).entries == entries
    theirs = safetensors.numpy.load(data)
    assert (theirs["a"].item(), theirs["b"].tolist()) == (2.5, [1, 2, 3])


def test_a_type_that_numpy_does_not_have_is_named():
    data = safetensors.torch.save({"half": torch.zeros(2, dtype=torch.bfloat16)})
    assert ITEM_SIZES[read_frame(data).entries["half"].dtype] == 2
    with pytest.raises(ValueError, match="half is of type BF16"):
        read_arrays(data)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"shape": [3]}, "does not lie at"),
        ({"data_offsets": [0, 16]}, "does not lie at"),
        ({"data_offsets": [0.0, 8.0]}, "no header of tensors"),
        ({"shape": [-1, -2]}, "no header of tensors"),
        ({"dtype": "PICKLE"}, "no header of tensors"),
        ({"shape": [1], "data_offsets": [4, 8]}, "do not fill the file"),
    ],
)
def test_headers_that_lie(change, text):
    item = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | change
    header = json.dumps({"a": item}).encode()
    with pytest.raises(ValueError, match=text):
        read_frame(len(header).to_bytes(8, "little") + header + bytes(8))


def test_any_changed_byte_is_damage():
    data = bytes(range(100))
    entry = entry_of("a.bin", data)
    assert damage_of(data, size=entry.bytes, sha256=entry.sha256) is None
    assert "expected 100 bytes, got 99" in damage_of(data[:-1], size=entry.bytes, sha256=entry.sha256)
    for place in range(100):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        assert "SHA-256" in damage_of(bytes(changed), size=entry.bytes, sha256=entry.sha256)
