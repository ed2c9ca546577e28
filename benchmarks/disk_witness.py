"""How long the disk alone takes meanwhile: a process beside a benchmark that writes 32 KB and syncs, 20 times a second.

An edit is acknowledged when it is on the disk, so nobody can be answered while the disk stands still, which disks of
rented machines do for some tenths of a second now and then. The witness does nothing but wait for the disk, without the
program that is measured; what it saw says how much of a slow answer is the disk's. A quarter of the writes of 32 people
come on top.

    with DiskWitness(folder) as witness:
        ...                                     measure something
    witness.syncs                               when each began and ended, by `time.monotonic`
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

PAUSE = 0.05
_BYTES, _PLACES = 32 << 10, 128


class DiskWitness:
    """A process that syncs to the disk of a folder from time to time.

    Attributes:
        syncs: when each write and sync began and ended; known after the block.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.syncs: list[tuple[float, float]] = []

    def __enter__(self) -> Self:
        command = [sys.executable, __file__, str(self._folder / "witness")]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        out, _ = self._process.communicate(timeout=30)
        self.syncs = [tuple(one) for one in json.loads(out or "[]")]

    def stalls(self, least: float) -> list[tuple[float, float]]:
        """The syncs that took so many seconds at least."""
        return [(began, ended) for began, ended in self.syncs if ended - began >= least]


def _watch(path: str) -> None:
    """Write and sync until the process is asked to stop; then print the times."""
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it tells it to stop
    handle, times = os.open(path, os.O_RDWR | os.O_CREAT), []
    parent = os.getppid()
    while not stopped and os.getppid() == parent:
        began = time.monotonic()
        os.pwrite(handle, os.urandom(_BYTES), len(times) % _PLACES * _BYTES)
        os.fdatasync(handle)
        times.append((began, time.monotonic()))
        time.sleep(PAUSE)
    print(json.dumps(times))


if __name__ == "__main__":
    _watch(sys.argv[1])
