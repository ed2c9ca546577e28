"""A lock on a folder, so that only one process writes in it.

The lock is the system's own (a POSIX record lock), which ends with the process that holds it, however it ends, and is
not inherited by the workers it starts: so there are no stale locks. The file `.lock` also names the holder, for
messages. If the file system has no locks, the lock counts as held while the process named in the file is alive.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any

from finegraph.errors import FinegraphError
from finegraph.files.closing import Closing
from finegraph.files.durable import reason_of, write_all
from finegraph.files.system_lock import take_lock

LOCK_FILE = ".lock"
# Record locks are the process's, not the handle's: a second lock in one process would be granted.
_held: dict[tuple[int, int], int] = {}


class FolderLock(Closing):
    """The right to write in a folder, until `close` or the end of the process.

    Args:
        folder: the folder.
        noun: what the folder is, such as a run; for messages.
        purpose: what it is locked for.
        instead: what the user can do instead, for messages.
        error: the type of the errors.

    Raises:
        FinegraphError: of the type `error`: a living process has the lock, or the folder cannot be written.
    """

    def __init__(
        self, folder: Path, *, noun: str, purpose: str, error: type[FinegraphError], instead: str = ""
    ) -> None:
        self._noun, self._instead, self._error = noun, instead, error
        self.path = folder / LOCK_FILE
        self._process = os.getpid()
        self._released = False
        try:
            self._handle, self._key = self._take()
        except OSError as refusal:
            raise error(
                f"{folder}: cannot be locked for {purpose}: {reason_of(refusal)}; the folder must be writable"
            ) from refusal

    def close(self) -> None:
        """Release the lock; does nothing if it was released before, or in a forked copy of the process."""
        if self._process != os.getpid() or self._released:
            return
        self._released = True
        del _held[self._key]
        # Before the lock ends, so that no other process has it yet. A remaining file locks nothing.
        with contextlib.suppress(OSError):
            self.path.unlink()
        os.close(self._handle)

    def _take(self) -> tuple[int, tuple[int, int]]:
        while True:
            self._refuse_second()
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                self._lock(handle)
                status = os.fstat(handle)
                if self._is_current(status):
                    os.ftruncate(handle, 0)
                    write_all(handle, _note())
                    key = (status.st_dev, status.st_ino)
                    _held[key] = self._process
                    return handle, key
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)  # the file was given back and removed between opening and locking it

    def _refuse_second(self) -> None:
        """Refuse a second lock in this process, before opening the file: closing its handle would end the first."""
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(self.path)
            if _held.get((status.st_dev, status.st_ino)) == self._process:
                raise self._in_use({"pid": self._process})

    def _lock(self, handle: int) -> None:
        """Take the system's lock, or refuse by what the file says if there are none."""
        try:
            if take_lock(handle, "process"):
                return
        except BlockingIOError:
            raise self._in_use(_holder(handle)) from None
        holder = _holder(handle)
        if holder and _may_live(holder):
            raise self._in_use(holder)

    def _is_current(self, status: os.stat_result) -> bool:
        """Whether the locked file is still the one with that name."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(status, os.stat(self.path))
        return False

    def _in_use(self, holder: dict[str, Any]) -> FinegraphError:
        """The error for a folder that somebody writes in."""
        who = "another process"
        if holder.get("pid") == os.getpid() and holder.get("host", socket.gethostname()) == socket.gethostname():
            who = f"this process ({holder['pid']}) already"
        elif "pid" in holder:
            who = f"process {holder['pid']}"
            if holder.get("host") != socket.gethostname():
                who += f" on {holder.get('host')}"
        return self._error(
            f"{self.path.parent}: this {self._noun} is in use by {who}; wait for it or stop it"
            f"{self._instead} (if that process is gone, remove {self.path})"
        )


def _note() -> bytes:
    """What the file says of the process that holds the lock."""
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode()


def _holder(handle: int) -> dict[str, Any]:
    """The process that holds the lock; empty if the file does not say."""
    with contextlib.suppress(OSError, ValueError):
        os.lseek(handle, 0, os.SEEK_SET)
        note = json.loads(os.read(handle, 4096))
        if isinstance(note, dict):
            return note
    return {}


def _may_live(holder: dict[str, Any]) -> bool:
    """Whether the process may be alive; on another machine that is unknown."""
    pid = holder.get("pid")
    if holder.get("host") != socket.gethostname() or os.name != "posix" or not isinstance(pid, int):
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it lives, and is somebody else's
    return True
