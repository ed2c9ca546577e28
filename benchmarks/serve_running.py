"""The server of `benchmarks/serve.py` as a process of its own, and how much memory it takes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Running:
    """The command as a process of its own, for the time of a `with` block."""

    def __init__(self, model: str, engine: str = "auto") -> None:
        self._command = [sys.executable, "-m", "finegraph", "serve", model, "--port", "0", "--json", "--engine", engine]

    def __enter__(self) -> Running:
        # A group of its own: a Ctrl-C is for the benchmark, which then stops the server in its own way.
        # Its log has a line for every request that is no HTTP; only the last ones of a server that died are shown.
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=self._log, text=True, start_new_session=True
        )
        text = ""
        assert self._process.stdout is not None
        while not text.rstrip().endswith("}"):
            line = self._process.stdout.readline()
            if not line:
                code = self._process.wait()
                raise RuntimeError(f"the server did not start; it ended with {code}\n{self.last_words()}")
            text += line
        self.port = int(json.loads(text)["address"].rstrip("/").rpartition(":")[2])
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if (code := self._process.poll()) is not None:
            raise RuntimeError(f"the server died with {code}\n{self.last_words()}")
        if kind is not None:
            print(self.last_words(), file=sys.stderr, flush=True)
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(45)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def last_words(self) -> str:
        """The end of the server's log."""
        self._log.seek(0)
        return "".join(self._log.readlines()[-20:])

    def megabytes(self) -> tuple[float, float]:
        """The memory of the server, and of all its workers together."""
        number = self._process.pid
        try:
            children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        except OSError:
            children = []
        return resident(number), sum(resident(int(child)) for child in children)

    @contextmanager
    def watched(self, seconds: float) -> Iterator[list[tuple[float, float]]]:
        """Its memory from now on, every so many seconds."""
        samples, over = [self.megabytes()], threading.Event()

        def watch() -> None:
            while not over.wait(seconds):
                samples.append(self.megabytes())

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield samples
        finally:
            over.set()
            thread.join()


def resident(process: int) -> float:
    """The resident memory of a process in MB; 0 where it is gone."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
