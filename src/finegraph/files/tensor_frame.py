"""The frame of a safetensors file: the length of a JSON header, the header, the data. No tensor library is needed.

The header names each tensor with its type, its shape and where it lies in the data. What is read is checked: every
tensor has the size of its shape, and together they fill the file from end to end. Cost: linear in the header.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped
from numpy.typing import NDArray

RESERVED = "__metadata__"
"""The reserved name under which the file keeps its texts; no tensor may have it."""
ITEM_SIZES = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 8),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 2),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "I8", "U8", "BOOL"), 1),
}
"""The types of safetensors by the names they have in a file, with the bytes of one number."""
_NUMPY = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "C64": "<c8", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
_LENGTH = 8
_ALIGNMENT = 8


class TensorEntry(NamedTuple):
    """What the header says of a tensor: its type, its shape, and from where to where it lies in the data."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


class Frame(NamedTuple):
    """What the header of a file says.

    Attributes:
        entries: of the tensors by name, in the order of the file.
        texts: the texts by name that stand beside them.
        start: where the data begin in the file.
    """

    entries: dict[str, TensorEntry]
    texts: dict[str, str]
    start: int


def frame_bytes(entries: Mapping[str, TensorEntry]) -> bytes:
    """The beginning of a file, up to its data."""
    content = {
        name: {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [entry.start, entry.end]}
        for name, entry in entries.items()
    }
    header = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    header += b" " * (-len(header) % _ALIGNMENT)
    return len(header).to_bytes(_LENGTH, "little") + header


def read_frame(data: bytes | mmap.mmap | memoryview) -> Frame:
    """What the header of a file says, checked against its size.

    Raises:
        ValueError: the bytes are no such file.
    """
    start = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    if not _LENGTH <= start <= len(data):
        raise ValueError("its header is longer than the file")
    content = json.loads(bytes(data[_LENGTH:start]))
    try:
        texts = dict(content.pop(RESERVED, {}))
        entries = {name: _entry(item, len(data) - start) for name, item in content.items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"its header is no header of tensors ({type(error).__name__})") from error
    spans = [(0, 0), *sorted((entry.start, entry.end) for entry in entries.values()), (len(data) - start,) * 2]
    if any(first[1] != second[0] for first, second in pairwise(spans)):
        raise ValueError("its tensors do not fill the file from end to end")
    return Frame(entries, texts, start)


def read_arrays(data: bytes | mmap.mmap | memoryview) -> tuple[dict[str, Shaped[NDArray[Any], " ..."]], dict[str, str]]:
    """The tensors of a file as arrays, which are views of its bytes, and the texts beside them.

    Raises:
        ValueError: the bytes are no such file, or hold a type that numpy does not have.
    """
    frame = read_frame(data)
    arrays: dict[str, NDArray[Any]] = {}
    for name, entry in frame.entries.items():
        if entry.dtype not in _NUMPY:
            raise ValueError(f"{name} is of type {entry.dtype}, which numpy does not have")
        kind = np.dtype(_NUMPY[entry.dtype])
        place = frame.start + entry.start
        empty = entry.start == entry.end
        arrays[name] = np.empty(entry.shape, kind) if empty else np.ndarray(entry.shape, kind, data, place)
    return arrays, frame.texts


def _entry(item: Mapping[str, Any], size: int) -> TensorEntry:
    """One tensor of the header, in a file with a number of bytes of data."""
    dtype, shape, (start, end) = item["dtype"], item["shape"], item["data_offsets"]
    if not all(type(number) is int and number >= 0 for number in (start, end, *shape)):
        raise TypeError("expected whole numbers, 0 or more")
    if not start <= end <= size or end - start != math.prod(shape) * ITEM_SIZES[dtype]:
        raise ValueError(f"a tensor of shape {shape} does not lie at {[start, end]}")
    return TensorEntry(dtype, tuple(shape), start, end)
