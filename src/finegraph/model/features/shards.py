"""Files of rows: keys and features side by side, in safetensors, with a checksum over both.

A shard appears whole or not at all, and is never changed afterwards. So any number of processes may read and write in
one folder, and a process that is killed leaves nothing but a temporary file, which is removed when it is a day old.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from finegraph.files.durable import write_new
from finegraph.model.features.keys import KEY_SIZE

FORMAT = "finegraph features 1"
_ENDING = ".safetensors"
STALE_AGE = 24 * 3600.0
"""Seconds after which a process that was writing a shard is surely gone."""


class DamagedShardError(Exception):
    """A shard that is not as it was written."""


def write_shard(folder: Path, keys: list[bytes], features: Float[NDArray[np.float32], "row column"]) -> Path:
    """Write rows to a new shard of a folder.

    Raises:
        OSError: the system does not let it be written; then nothing is.
    """
    tensors: dict[str, NDArray[Any]] = {
        "keys": np.frombuffer(b"".join(keys), np.uint8).reshape(-1, KEY_SIZE),
        "features": features,
    }
    content = save(tensors, {"format": FORMAT, "digest": _digest(tensors)})
    path = folder / f"{secrets.token_hex(8)}{_ENDING}"
    write_new(path, content)
    return path


def read_keys(path: Path) -> list[bytes]:
    """The keys of a shard, row by row; they are checked when the rows are read.

    Raises:
        DamagedShardError: the file is cut short or holds something else.
        OSError: it cannot be read, or is not there any more.
    """
    keys = _read(path, ("keys",))[0]
    content = keys.tobytes()
    return [content[start : start + KEY_SIZE] for start in range(0, len(content), KEY_SIZE)]


def read_features(path: Path) -> Float[NDArray[np.float32], " ..."]:
    """The features of a shard, row by row, after its checksum was found right.

    Raises:
        DamagedShardError: the file is not as it was written.
        OSError: it cannot be read, or is not there any more.
    """
    return _read(path, ("keys", "features"))[1]


def shards_in(folder: Path) -> list[Path]:
    """The shards of a folder, which need not exist; those that are being written are not among them."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return sorted(path for path in folder.iterdir() if path.name.endswith(_ENDING))
    return []


def _read(path: Path, names: tuple[str, ...]) -> list[NDArray[Any]]:
    """Some of the tensors of a shard; all of them, and then the checksum is compared."""
    try:
        with safe_open(path, framework="numpy") as file:
            about = file.metadata() or {}
            arrays: list[NDArray[Any]] = [file.get_tensor(name) for name in names]
    except OSError:
        raise
    except Exception as error:  # what a damaged file leads the reader to
        raise DamagedShardError(str(error)) from error
    if about.get("format") != FORMAT or arrays[0].ndim != 2 or arrays[0].shape[1] != KEY_SIZE:
        raise DamagedShardError("it does not hold features")
    if len(names) > 1 and about.get("digest") != _digest(dict(zip(names, arrays, strict=True))):
        raise DamagedShardError("its checksum is wrong")
    return arrays


def _digest(tensors: dict[str, NDArray[Any]]) -> str:
    """The checksum of keys and features."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (tensors["keys"], tensors["features"]):
        digest.update(f"{part.dtype} {part.shape}\n".encode())
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
