"""A log of JSON entries that only grows, for several processes at once.

    NAME.jsonl     the entries, one sealed line each (sealed_json.py), numbered from 1
    NAME.json      the end that was acknowledged: how many entries, how many bytes, a digest over all of them, and what
                   the log belongs to; replaced in one step after each entry

An entry counts once both files are on the disk. Anything beyond the acknowledged end was left by a process that died:
the next writer adopts complete entries, as no caller saw a failure, and cuts off the rest. A log that is
shorter than its end, or has another digest, is damaged, and nothing of it is used. Writers take turns by the lock of
the folder, which ends with its process. Readers need no lock: what is acknowledged never changes.

Cost: an entry is one write and three syncs, whatever the length of the log; to see that nothing is new, one look at the
time of a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from finegraph.files.durable import remove_stale, sync_folder, write_all, write_over
from finegraph.files.folder_swap import locked_folder
from finegraph.files.sealed_json import seal, unseal

_START = hashlib.sha256(b"").hexdigest()


class SealedLog:
    """The log of a folder, up to where it was read.

    Attributes:
        entries: all entries that were read so far, the oldest first.
    """

    def __init__(self, folder: Path, name: str, owner: str) -> None:
        """Look at the log of a folder; there may be none yet. `read` reads it.

        Args:
            folder: the folder, which must be there.
            name: the name of its files, without the ending.
            owner: what the entries belong to, such as a digest of it; a log of something else is refused.
        """
        self.entries: list[dict[str, Any]] = []
        self._folder, self._owner = folder, owner
        self._log, self._end = folder / f"{name}.jsonl", folder / f"{name}.json"
        self._bytes, self._chain = 0, _START
        self._signature: tuple[int, ...] | None = None
        self._thread = threading.RLock()

    def is_current(self) -> bool:
        """Whether nothing was acknowledged since the last reading; waits for nobody."""
        try:
            status = os.stat(self._end)
        except OSError:
            return not self.entries  # reading says what is wrong
        return (status.st_ino, status.st_mtime_ns, status.st_size) == self._signature

    def read(self) -> int:
        """Read what was acknowledged since; how many entries are new.

        Raises:
            ValueError: the log is damaged, or belongs to something else.
            OSError: it cannot be read.
        """
        with self._thread:
            try:
                status = os.stat(self._end)
            except FileNotFoundError:
                if self.entries:
                    raise ValueError(
                        f"{self._end}: the file is gone; the log had {len(self.entries)} entries"
                    ) from None
                return 0
            signature = (status.st_ino, status.st_mtime_ns, status.st_size)
            if signature == self._signature:
                return 0
            end = self._read_end()
            if end["bytes"] < self._bytes:
                raise ValueError(f"{self._log}: the log is another one than it was")
            with open(self._log, "rb") as file:
                file.seek(self._bytes)
                data = file.read(end["bytes"] - self._bytes)
            entries, chain, good = self._parse(data)
            if good != end["bytes"] - self._bytes or chain != end["chain"]:
                raise ValueError(
                    f"{self._log}: the log is damaged behind entry {len(self.entries) + len(entries)} of "
                    f"{end['entries']}"
                )
            self._take(entries, chain, good)
            self._signature = signature
            return len(entries)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Lock out other writers; `entries` then holds everything they wrote.

        Raises:
            ValueError: the log is damaged, or belongs to something else.
            OSError: the folder cannot be written.
        """
        with self._thread, self._locked():
            remove_stale(self._folder)
            self.read()
            self._adopt()
            yield

    def append(self, content: Mapping[str, object]) -> None:
        """Add an entry; it is on the disk when this returns. Only within `writing`.

        Raises:
            ValueError: the content is nothing that JSON holds.
            OSError: it cannot be written; the log is as before.
        """
        line = seal({"number": len(self.entries) + 1, **content})
        chain = _next(self._chain, line)
        handle = os.open(self._log, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        try:
            try:
                write_all(handle, line)
                os.fsync(handle)
                if not self._bytes:
                    sync_folder(self._folder)
                self._publish(len(self.entries) + 1, self._bytes + len(line), chain)
            except OSError:
                if self._end_if_any().get("chain") != chain:
                    os.ftruncate(handle, self._bytes)
                    raise
                # Only the name of the new end may not be on the disk yet; the entry itself is.
        finally:
            os.close(handle)
        self._take([unseal(line)], chain, len(line))

    def files(self) -> dict[str, bytes]:
        """What was read, as the files of another folder; none if there are no entries."""
        with self._thread:
            if not self.entries:
                return {}
            data = b"".join(seal(entry) for entry in self.entries)
            return {self._log.name: data, self._end.name: self._sealed_end(len(self.entries), len(data), self._chain)}

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _read_end(self) -> dict[str, Any]:
        try:
            end = unseal(self._end.read_bytes())
        except ValueError as error:
            raise ValueError(f"{self._end}: {error}") from error
        if end.get("owner") != self._owner:
            raise ValueError(f"{self._end}: the log belongs to something else than what is here now")
        if type(end.get("bytes")) is not int or type(end.get("entries")) is not int:
            raise ValueError(f"{self._end}: expected the end of a log, got something else")
        return end

    def _end_if_any(self) -> dict[str, Any]:
        try:
            return self._read_end()
        except FileNotFoundError:
            return {}

    def _parse(self, data: bytes) -> tuple[list[dict[str, Any]], str, int]:
        """The good entries that some bytes begin with, the digest behind them, and how many bytes they take."""
        entries: list[dict[str, Any]] = []
        chain, good = self._chain, 0
        for line in data.splitlines(keepends=True):
            try:
                entry = unseal(line)
            except ValueError:
                break
            if entry.get("number") != len(self.entries) + len(entries) + 1:
                break
            entries.append(entry)
            chain, good = _next(chain, line), good + len(line)
        return entries, chain, good

    def _take(self, entries: list[dict[str, Any]], chain: str, size: int) -> None:
        self.entries.extend(entries)
        self._chain, self._bytes = chain, self._bytes + size

    def _adopt(self) -> None:
        """Take over whole entries behind the end, and cut off what else is there."""
        try:
            handle = os.open(self._log, os.O_RDWR | getattr(os, "O_BINARY", 0))
        except FileNotFoundError:
            return
        try:
            size = os.fstat(handle).st_size
            if size <= self._bytes:
                return
            os.lseek(handle, self._bytes, os.SEEK_SET)
            with os.fdopen(os.dup(handle), "rb") as file:
                entries, chain, good = self._parse(file.read())
            os.ftruncate(handle, self._bytes + good)
            os.fsync(handle)
        finally:
            os.close(handle)
        if entries:
            self._publish(len(self.entries) + len(entries), self._bytes + good, chain)
            self._take(entries, chain, good)

    def _publish(self, entries: int, size: int, chain: str) -> None:
        write_over(self._end, self._sealed_end(entries, size, chain))
        status = os.stat(self._end)
        self._signature = (status.st_ino, status.st_mtime_ns, status.st_size)

    def _sealed_end(self, entries: int, size: int, chain: str) -> bytes:
        return seal({"owner": self._owner, "entries": entries, "bytes": size, "chain": chain})

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the folder that has the name now; another may have taken its place while we waited."""
        with contextlib.ExitStack() as stack:
            while True:
                before = os.stat(self._folder)
                stack.enter_context(locked_folder(self._folder))
                if os.path.samestat(before, os.stat(self._folder)):
                    break
                stack.close()
            yield


def _next(chain: str, line: bytes) -> str:
    """The digest over all lines up to this one."""
    return hashlib.sha256(chain.encode() + line).hexdigest()
