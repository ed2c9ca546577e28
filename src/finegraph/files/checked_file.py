"""Files that are written once and checked by their size and SHA-256, which are kept elsewhere.

Cost: one pass over the bytes to check them.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from dataclasses import dataclass
from pathlib import Path

from finegraph.files.durable import write_new


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """The entry of a file: its name in its folder, its size, and its SHA-256."""

    name: str
    bytes: int
    sha256: str


def entry_of(name: str, data: bytes) -> FileEntry:
    """The entry of a file with these bytes."""
    return FileEntry(name=name, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def write_checked(path: Path, data: bytes) -> FileEntry:
    """Write a new file, in one step.

    Raises:
        OSError: it cannot be written; nothing of it is left.
    """
    write_new(path, data)
    return entry_of(path.name, data)


def map_file(path: Path) -> mmap.mmap | bytes:
    """The bytes of a file, mapped into memory: only the parts that are used are loaded.

    Raises:
        OSError: it is not there, or cannot be read.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""


def damage_of(data: bytes | mmap.mmap | memoryview, *, size: object, sha256: object) -> str | None:
    """How bytes differ from the entry of their file; None if they match."""
    if len(data) != size:
        return f"expected {size} bytes, got {len(data)}: the file was cut short or changed"
    if hashlib.sha256(data).hexdigest() != sha256:
        return "the content does not match its SHA-256: the file is damaged"
    return None
