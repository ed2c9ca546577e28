"""Arrays as a safetensors file that is written once, checked by its SHA-256, and then looked at where it lies.

A file appears whole or not at all (`durable.py`) and never changes. Its size and checksum stand in the state of the
index, so a file that was cut, altered or swapped is found when it is opened. Arrays are views of the mapped file: only
the parts that are used take memory. Cost: one read of the file to check it.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from finegraph.errors import IndexFolderError
from finegraph.files.durable import reason_of, write_new

ENDING = ".safetensors"
AGAIN = "copy the index again from where it was made, or make it again"
"""What to do about a damaged index."""
_LENGTH = 8
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "|u1"}
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """A file of an index: its name in the folder, its size, and its SHA-256."""

    name: str
    bytes: int
    sha256: str


def write_bytes(path: Path, data: bytes) -> FileEntry:
    """Write a new file of an index, in one step.

    Raises:
        OSError: it cannot be written; nothing of it is left.
    """
    write_new(path, data)
    return FileEntry(name=path.name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, object]) -> FileEntry:
    """Write arrays and a few facts, as JSON can hold them, to a new file."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return write_bytes(path, save(whole, {"about": json.dumps(dict(about))}))


def read_bytes(folder: Path, entry: FileEntry) -> mmap.mmap | bytes:
    """The bytes of a file, mapped and checked.

    Raises:
        IndexFolderError: it is damaged or cannot be read.
        FileNotFoundError: it is not there.
    """
    path = folder / entry.name
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except FileNotFoundError:
        raise
    except OSError as error:
        raise IndexFolderError(f"{path}: the file cannot be read: {reason_of(error)}; check its rights") from error
    if size != entry.bytes:
        raise IndexFolderError(f"{path}: expected {entry.bytes} bytes, got {size}: it was cut or changed; {AGAIN}")
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise IndexFolderError(f"{path}: the content does not match its SHA-256: the file is damaged; {AGAIN}")
    return data


def read_arrays(folder: Path, entry: FileEntry) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and the facts of a file, after its checksum was found right."""
    data = read_bytes(folder, entry)
    start = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    header = json.loads(data[_LENGTH:start])
    about = json.loads(header.pop("__metadata__")["about"])
    arrays: Arrays = {}
    for name, item in header.items():
        shape, first = tuple(item["shape"]), start + item["data_offsets"][0]
        kind = np.dtype(_TYPES[item["dtype"]])
        empty = 0 in shape
        arrays[name] = np.empty(shape, kind) if empty else np.ndarray(shape, kind, buffer=data, offset=first)
    return arrays, about
