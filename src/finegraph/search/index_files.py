"""The files of an index: written once, checked by size and SHA-256 when they are opened, then looked at where they lie.

A file appears whole or not at all and never changes. What is kept of it stands in the state of the index. Arrays are
views of the mapped file: only the parts that are used take memory. Cost: one read of the file to check it.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped
from numpy.typing import NDArray
from safetensors.numpy import save

from finegraph.errors import IndexFolderError
from finegraph.files import tensor_frame
from finegraph.files.checked_file import FileEntry, damage_of, map_file, write_checked
from finegraph.files.durable import reason_of

ENDING = ".safetensors"
AGAIN = "copy the index again from where it was made, or make it again"
"""What to do about a damaged index."""
Arrays = dict[str, Shaped[NDArray[Any], " ..."]]


def write_arrays(
    path: Path, arrays: Mapping[str, Shaped[NDArray[Any], " ..."]], about: Mapping[str, object]
) -> FileEntry:
    """Write arrays and a few facts, as JSON data, to a new file."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return write_checked(path, save(whole, {"about": json.dumps(dict(about))}))


def read_bytes(folder: Path, entry: FileEntry) -> mmap.mmap | bytes:
    """The bytes of a file, mapped and checked.

    Raises:
        IndexFolderError: it is damaged or cannot be read.
        FileNotFoundError: it is not there.
    """
    path = folder / entry.name
    try:
        data = map_file(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise IndexFolderError(f"{path}: the file cannot be read: {reason_of(error)}; check its rights") from error
    if damage := damage_of(data, size=entry.bytes, sha256=entry.sha256):
        raise IndexFolderError(f"{path}: {damage}; {AGAIN}")
    return data


def read_arrays(folder: Path, entry: FileEntry) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and the facts of a file, after its checksum was found right."""
    arrays, texts = tensor_frame.read_arrays(read_bytes(folder, entry))
    return arrays, json.loads(texts["about"])
