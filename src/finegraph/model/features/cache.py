"""The cache of computed features.

    FOLDER/features/NETWORK-KEY/*.safetensors     one folder per network and way to cut photos; see keys.py

A file, or shard, has keys and features side by side, with a checksum over both. It appears whole or not at all and is
never changed afterwards. So any number of processes may read and write in one folder, and a process that is killed
leaves nothing but a temporary file, which is removed when it is a day old.

Rows are written every few seconds, so that a run which is killed loses little: at most some seconds, or a fiftieth of
the time it took. Opening reads the keys alone; the rows of a shard are read and checked when the first of them is asked
for. A shard that is damaged is removed, and what it held is computed again. The folder may be deleted at any time.

Cost: 16 bytes per stored photo to open, one pass over the rows that are used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from finegraph.files.durable import reason_of, remove_stale, write_new
from finegraph.model.features.keys import KEY_SIZE

_SECONDS, _SHARE = 5.0, 0.02
"""New rows are written when this time has gone by since the last were, or this share of all the time if that is more,
so that a long run does not leave thousands of files."""

Row = NDArray[np.float32]
T = TypeVar("T")
FORMAT = "finegraph features 1"
_ENDING = ".safetensors"
STALE_AGE = 24 * 3600.0
"""Seconds after which a process that was writing a shard is surely gone."""


def default_cache_folder() -> Path:
    """The folder for data that can be computed again: `FINEGRAPH_CACHE`, or else the user's cache folder."""
    chosen = os.environ.get("FINEGRAPH_CACHE")
    if chosen:
        return Path(chosen)
    user = os.environ.get("XDG_CACHE_HOME")  # only an absolute path counts, says the specification
    return (Path(user) if user and os.path.isabs(user) else Path.home() / ".cache") / "finegraph"


class FeatureCache:
    """The rows of one network and one way to cut photos, by the keys of the photos.

    Any thread may call `get`; one thread calls the others.
    """

    def __init__(self, folder: Path | None, size: int) -> None:
        """Open a folder; it need not exist.

        Args:
            folder: where the shards are; None for nothing stored and nothing found.
            size: the number of columns.
        """
        self.folder, self.size = folder, size
        self.notes: list[str] = []
        self._place: dict[bytes, tuple[Path, int]] = {}
        self._shards: dict[Path, Row | None] = {}
        self._new: dict[bytes, Row] = {}
        self._lock = threading.Lock()
        self._started = self._written = time.monotonic()
        if folder is not None:
            with contextlib.suppress(OSError):
                remove_stale(folder, STALE_AGE)
            self._index(folder)

    def _index(self, folder: Path) -> None:
        """Read the index of the shards."""
        try:
            for path in shards_in(folder):
                for number, key in enumerate(self._checked(path, read_keys) or ()):
                    self._place[key] = (path, number)
        except OSError as error:
            self.notes.append(f"{folder}: stored features cannot be read ({reason_of(error)})")

    def _checked(self, path: Path, read: Callable[[Path], T]) -> T | None:
        """The content of a shard; None, and a note, if it is damaged."""
        try:
            return read(path)
        except DamagedShardError as error:
            self.notes.append(f"{path}: stored features are damaged ({error}); they are removed and computed again")
            with contextlib.suppress(OSError):
                path.unlink()
        except FileNotFoundError:
            pass  # another process found it damaged and removed it
        except OSError as error:
            self.notes.append(f"{path}: stored features cannot be read ({reason_of(error)}); they are computed again")
        return None

    def get(self, key: bytes) -> Float[Row, " column"] | None:
        """The row of a photo; None if there is none."""
        with self._lock:
            row = self._new.get(key)
            place = self._place.get(key) if row is None else None
            if place is None:
                return row
            path, number = place
            if path not in self._shards:
                self._shards[path] = self._checked(path, self._rows)
            shard = self._shards[path]
            return None if shard is None else shard[number]

    def _rows(self, path: Path) -> Row:
        """The rows of a shard."""
        rows = read_features(path)
        if rows.dtype != np.float32 or rows.ndim != 2 or rows.shape[1] != self.size:
            raise DamagedShardError("it does not hold features of this network")
        return rows

    def put(self, key: bytes, row: Float[Row, " column"]) -> None:
        """Keep a row; it is on the disk some seconds later, or after `flush`."""
        if self.folder is None:
            return
        with self._lock:
            self._new[key] = row
        now = time.monotonic()
        if now - self._written >= max(_SECONDS, _SHARE * (now - self._started)):
            self.flush()

    def flush(self) -> None:
        """Write the rows that are not on the disk yet. If writing fails, that is noted and not tried again."""
        if not self._new or self.folder is None:
            return
        keys = list(self._new)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = write_shard(self.folder, keys, np.stack([self._new[key] for key in keys]))
            stored = {key: (path, number) for number, key in enumerate(keys)}
        except OSError as error:
            self.notes.append(
                f"{self.folder}: features cannot be stored ({reason_of(error)}); they will have to be computed "
                "again next time"
            )
            self.folder, stored = None, {}
        with self._lock:
            self._place |= stored
            self._new = {}
        self._written = time.monotonic()


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
