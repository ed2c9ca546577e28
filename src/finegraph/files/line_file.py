"""Text files that grow line by line and survive being interrupted.

A line is one write, so a kill leaves it complete or absent; if the system writes only a part of it, because the disk is
full, the part is cut off again. Resuming first cuts off everything after the point to resume from. Cost: one write per
line; cutting reads the file once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from enum import Enum
from pathlib import Path

from finegraph.errors import RunFolderError
from finegraph.files.durable import reason_of, sync_folder, write_all


class Line(Enum):
    """How a line relates to a point to resume from: before it, after it, or not a valid line."""

    BEFORE = "before"
    AFTER = "after"
    BROKEN = "broken"


class LineFile:
    """A text file that lines are added to.

    Args:
        path: the file; it is made if it is not there.

    Raises:
        RunFolderError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
            self._handle: int | None = os.open(path, flags, 0o666)
            sync_folder(path.parent)
        except OSError as error:
            raise RunFolderError(f"{path}: cannot be opened to add lines: {reason_of(error)}") from error

    def add(self, text: str) -> None:
        """Add a line.

        Raises:
            RunFolderError: the line cannot be written; the file is as before.
        """
        if self._handle is None:
            raise RunFolderError(f"{self.path}: closed already, no line can be added")
        data = (text + "\n").encode("utf-8", "backslashreplace")
        size = os.fstat(self._handle).st_size
        try:
            write_all(self._handle, data)
        except OSError as error:
            with contextlib.suppress(OSError):  # a part that stays is cut off when the run continues
                os.ftruncate(self._handle, size)
            raise RunFolderError(
                f"{self.path}: cannot add a line of {len(data)} bytes: {reason_of(error)}; "
                "make room or make the file writable, then resume the run"
            ) from error

    def sync(self) -> None:
        """Bring all lines to the disk.

        Raises:
            RunFolderError: the system cannot.
        """
        if self._handle is not None:
            try:
                os.fsync(self._handle)
            except OSError as error:
                raise RunFolderError(f"{self.path}: cannot be brought to the disk: {reason_of(error)}") from error

    def close(self) -> None:
        """Close the file; doing it twice does no harm."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def cut_lines(path: Path, judge: Callable[[bytes], Line]) -> int:
    """Cut a file after the last line that lies before a point; a broken line between good ones stays as it is.

    Args:
        path: the file; nothing happens if it is not there.
        judge: where a line lies.

    Returns:
        How many lines were cut off, a torn one included.

    Raises:
        RunFolderError: the file cannot be read or cut.
    """
    end = place = kept = lines = 0
    try:
        with open(path, "rb") as file:
            for lines, line in enumerate(file, start=1):
                place += len(line)
                where = judge(line) if line.endswith(b"\n") else Line.BROKEN
                if where is Line.AFTER:
                    break
                if where is Line.BEFORE:
                    end, kept = place, lines
            lines += sum(1 for _ in file)
        if lines > kept:
            with open(path, "r+b") as file:
                file.truncate(end)
                os.fsync(file.fileno())
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise RunFolderError(
            f"{path}: what was written after the last checkpoint cannot be cut off: {reason_of(error)}"
        ) from error
    return lines - kept
