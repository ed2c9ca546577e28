"""Reading and writing the text of graph files, strictly and safely.

Reading takes UTF-8 without a byte order mark and nothing else. A crash while writing leaves the old file or the new
one, never a half-written one (`files/durable.py`).
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from finegraph.errors import GraphFileError, near_paths
from finegraph.files.durable import reason_of, write_over
from finegraph.graph.faults import FaultList, one_fault

MAX_FILE_BYTES = 2**30
"""Bytes; a larger file is refused before it is read."""
_BOM = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read_bytes(path: str) -> bytes:
    """The content of a graph file.

    Raises:
        GraphFileError: there is no such file, or it is not a regular file, too large, empty or unreadable.
    """
    try:
        status = os.stat(path)
        _check_status(path, status)
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise one_fault(
            path, "missing-file", "there is no such file", near_paths(path).removeprefix("; ") or None
        ) from None
    except GraphFileError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise one_fault(path, "unreadable-file", f"the file cannot be read: {reason}") from None
    if not data:
        raise one_fault(path, "empty-file", "the file is empty", "a CSV graph begins with the line 'fine,<kind>,...'")
    return data


def _check_status(path: str, status: os.stat_result) -> None:
    """Refuse what is not a regular file or is too large, before it is opened."""
    if stat.S_ISDIR(status.st_mode):
        raise one_fault(path, "not-a-file", "expected a file, got a folder", _files_in(path))
    if not stat.S_ISREG(status.st_mode):
        raise one_fault(path, "not-a-file", "expected a regular file, got a device or a pipe")
    if status.st_size > MAX_FILE_BYTES:
        size = f"{status.st_size / 2**30:.1f} GiB; at most {MAX_FILE_BYTES / 2**30:g} GiB can be read"
        raise one_fault(path, "large-file", f"the file has {size}", "a graph file holds labels only, no data")


def decode(data: bytes, faults: FaultList) -> str | None:
    """The text of a file; None if it cannot be read as text at all."""
    if data.startswith(_UTF16_MARKS):
        faults.add("encoding", "the file is UTF-16", line=1, hint="save it as UTF-8 without a byte order mark")
        return None
    if data.startswith(_BOM):
        faults.add(
            "byte-order-mark",
            "the file begins with a byte order mark (EF BB BF)",
            line=1,
            hint="save it as plain 'UTF-8', not as 'UTF-8 with BOM'",
        )
        data = data[len(_BOM) :]
    place = data.find(b"\0")
    if place >= 0:
        faults.add(
            "nul-byte",
            f"NUL byte at byte {place}: this is not a text file",
            line=_line(data, place),
            hint="save it as UTF-8 text",
        )
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        faults.add(
            "encoding",
            f"byte {error.start} (0x{data[error.start]:02X}) is not UTF-8",
            line=_line(data, error.start),
            hint="save the file as UTF-8; it looks like another encoding, such as Latin-1 or Windows-1252",
        )
        return None


def write_text(path: str, text: str) -> None:
    """Write a file in one step: after a failure the old file is unchanged and nothing else is left.

    Raises:
        GraphFileError: the file cannot be written; the reason is in the message.
    """
    data = text.encode("utf-8")
    try:
        write_over(Path(path), data)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise GraphFileError(f"cannot write {path} ({len(data)} bytes): {reason}") from error


def _line(data: bytes, place: int) -> int:
    """The line number of a byte, counted from 1."""
    return data.count(b"\n", 0, place) + 1


def _files_in(folder: str) -> str | None:
    """The hint for a folder: the graph files in it."""
    with contextlib.suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if name.lower().endswith((".csv", ".json")))
        if names:
            return "did you mean " + " or ".join(repr(os.path.join(folder, name)) for name in names[:3]) + "?"
    return None
