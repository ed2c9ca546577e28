"""Worker processes of one kind that decode photos; each is killed and replaced when a photo hangs or breaks it.

A photo waits for a free worker of its lane, so at most as many photos are decoded at once as the lane has workers. A
worker that dies or hangs fails the photo it was decoding and no other. The cause may be outside, such as a machine that
runs out of memory, so the client may send the photo again; only when a second worker dies at it is the photo blamed. If
a new worker cannot be started, the lane keeps trying and meanwhile reports that it has none. Cost: two copies of the
file and of the small picture through pipes, far less than the decoding itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import UInt8

from finegraph.errors import PhotoFileError
from finegraph.web.decode_worker import PIPE_BYTES, READY
from finegraph.web.problems import ProblemError

Pixels = UInt8[np.ndarray, "height width channel"]
_EXIT_SECONDS = 1.0
"""How long a worker that has closed its pipe may take to exit, in seconds."""
_CPU_TIME_EXCEEDED = -getattr(signal, "SIGPROF", 27)
_START_SECONDS = 60.0
"""How long a worker may take to start, in seconds."""
_MIN_PAUSE, _MAX_PAUSE = 0.2, 10.0
"""The shortest and longest pause after a failed start, in seconds; each pause is twice the last."""
_SECRETS = ("FINEGRAPH_TOKEN",)
"""Environment variables withheld from workers: a photo that takes one over must not find secrets in it."""
_MAX_SUSPECTS = 1000
"""How many photos at which a worker died are remembered."""
_LOG = logging.getLogger("finegraph.web")


@dataclass(frozen=True)
class LargePhoto:
    """What a lane answers about a photo that is too large for it.

    Attributes:
        pixels: its number of pixels; 0 if it needs too much memory.
    """

    pixels: int


class Lane:
    """A group of workers with the same limits.

    Args:
        workers: the number of workers, and so of photos decoded at once.
        megabytes: how much memory a worker may take beyond what it needs when idle.
        computing: the processor seconds that one photo may take.
        waiting: the seconds after which a worker that does not answer is killed.
        queueing: the seconds after which a photo is refused if no worker becomes free.

    Attributes:
        processes: the running workers.
        killed: how many workers were killed or died so far.
        inside: how many photos are in this lane, waiting or being decoded.
    """

    def __init__(self, workers: int, megabytes: int, computing: float, waiting: float, queueing: float) -> None:
        self._workers, self._megabytes = workers, megabytes
        self._computing, self._waiting, self._queueing = computing, waiting, queueing
        self._idle: asyncio.LifoQueue[Process] = asyncio.LifoQueue()
        self._replacing: set[asyncio.Task[None]] = set()
        self._suspects: OrderedDict[bytes, None] = OrderedDict()
        """The digests of photos at which a worker died the last time they were decoded."""
        self.processes: set[Process] = set()
        self.killed, self.inside = 0, 0

    async def start(self) -> None:
        """Start the workers."""
        for worker in await asyncio.gather(*(self._start() for _ in range(self._workers))):
            self._idle.put_nowait(worker)

    async def stop(self) -> None:
        """End the workers."""
        for task in self._replacing:
            task.cancel()
        await asyncio.gather(*self._replacing, return_exceptions=True)
        for worker in list(self.processes):
            await self._stop(worker)

    async def decode(self, content: bytes, name: str, job: dict[str, Any]) -> Pixels | LargePhoto:
        """The middle of a photo as the network sees it; see `ask`."""
        answer, data = await self.ask(content, name, job)
        if "large" in answer:
            return LargePhoto(answer["large"])
        return np.frombuffer(data, dtype=np.uint8).reshape(job["size"], job["size"], 3)

    async def ask(self, content: bytes, name: str, job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """The answer of a worker: a JSON object, and bytes; `large` and none if the photo belongs in another lane.

        Args:
            content: the file; empty if the worker reads it from disk.
            name: the name of the photo in errors.
            job: see `decode_worker.decode_upload` and `decode_worker.read_local_photo`.

        Raises:
            PhotoFileError: it is not a photo, broken, too large, or takes too long.
            ProblemError: no worker became free in time, or the worker died; the client may try again.
        """
        self.inside += 1
        try:
            return await self._answer(await self._free_worker(), content, name, job)
        finally:
            self.inside -= 1

    def has_worker(self) -> bool:
        """Whether any worker runs; workers that died while idle are replaced."""
        for worker in [self._idle.get_nowait() for _ in range(self._idle.qsize())][::-1]:
            if worker.returncode is None:
                self._idle.put_nowait(worker)
            else:
                self._discard(worker)
        return any(worker.returncode is None for worker in self.processes)

    async def _free_worker(self) -> Process:
        """Wait for a worker that is alive and idle."""
        try:
            async with asyncio.timeout(self._queueing):
                while (worker := await self._idle.get()).returncode is not None:
                    self._discard(worker)
                return worker
        except TimeoutError:
            detail = f"No process that decodes photos became free within {self._queueing:g} seconds."
            raise ProblemError("overloaded", detail, {"retry-after": "5"}) from None

    async def _answer(
        self, worker: Process, content: bytes, name: str, job: dict[str, Any]
    ) -> tuple[dict[str, Any], bytes]:
        usable = False
        try:
            async with asyncio.timeout(self._waiting):
                answer = await self._ask(worker, content, job)
            usable = True
        except PhotoFileError as error:
            usable = True
            raise PhotoFileError(name, error.reason) from None
        except TimeoutError:
            raise PhotoFileError(name, _timeout_text(self._waiting)) from None
        except (OSError, EOFError, ValueError):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_SECONDS):
                    await worker.wait()
            if worker.returncode == _CPU_TIME_EXCEEDED:
                raise PhotoFileError(name, _timeout_text(self._computing)) from None
            raise self._worker_died(content, job, name) from None
        finally:
            # A worker that was interrupted half-way would answer the next request with this photo.
            if usable:
                self._clear_suspect(content, job)
                self._idle.put_nowait(worker)
            else:
                self._discard(worker)
        return answer

    def _worker_died(self, content: bytes, job: dict[str, Any], name: str) -> PhotoFileError | ProblemError:
        """The error for a photo at which a worker died; at the second time in a row it blames the photo."""
        digest = _digest(content, job)
        if digest in self._suspects:
            self._suspects.move_to_end(digest)
            return PhotoFileError(name, "the photo broke the decoder, twice")
        self._suspects[digest] = None
        if len(self._suspects) > _MAX_SUSPECTS:
            self._suspects.popitem(last=False)
        return ProblemError("overloaded", "The process that decoded the photo ended early.", {"retry-after": "1"})

    def _clear_suspect(self, content: bytes, job: dict[str, Any]) -> None:
        """Clear a photo at which a worker died, now that another worker has decoded it."""
        if self._suspects:
            self._suspects.pop(_digest(content, job), None)

    def _discard(self, worker: Process) -> None:
        """Replace a worker in the background."""
        self.killed += 1
        task = asyncio.get_running_loop().create_task(self._replace(worker))
        self._replacing.add(task)  # asyncio holds only a weak reference: without this the task may be collected
        task.add_done_callback(self._replacing.discard)

    async def _ask(self, worker: Process, content: bytes, job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        assert worker.stdin is not None
        assert worker.stdout is not None
        head = json.dumps({**job, "bytes": len(content), "seconds": self._computing})
        worker.stdin.write(b"%b\n%b" % (head.encode(), content))
        await worker.stdin.drain()
        line = await worker.stdout.readline()
        if not line:
            raise EOFError
        answer = json.loads(line)
        if "large" in answer:
            return answer, b""
        if "error" in answer:
            raise PhotoFileError("photo", answer["error"])
        return answer, await worker.stdout.readexactly(answer["bytes"])

    async def _replace(self, worker: Process) -> None:
        """End a worker and start a new one, retrying until that works."""
        await self._stop(worker)
        pause = _MIN_PAUSE
        while True:
            try:
                self._idle.put_nowait(await self._start())
                return
            except Exception as error:  # out of memory, files or threads: all of these may pass
                _LOG.error("no process that decodes photos could be started; next try in %g s: %s", pause, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)

    async def _start(self) -> Process:
        """Start a worker and wait until it is ready; no photo's time limit includes this."""
        environment = {name: value for name, value in os.environ.items() if name not in _SECRETS}
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # do not import from the working folder, which may hold a file called json.py
            *("-m", "finegraph.web.decode_worker", str(self._megabytes)),
            stdin=PIPE,
            stdout=PIPE,
            limit=PIPE_BYTES,
            stderr=asyncio.subprocess.DEVNULL,  # decoders may print what a file makes them print
            env={**environment, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # so that Ctrl-C reaches the server only, which lets its workers finish
        )
        self.processes.add(worker)
        assert worker.stdout is not None
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                line = await worker.stdout.readline()
        if line != READY:
            await self._stop(worker)
            raise OSError("a worker that decodes photos could not be started; see whether the machine has memory left")
        return worker

    async def _stop(self, worker: Process) -> None:
        self.processes.discard(worker)
        if worker.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                worker.kill()
        if worker.stdin is not None:
            worker.stdin.close()
        await worker.wait()


def _digest(content: bytes, job: dict[str, Any]) -> bytes:
    """The identity of a photo: a digest of its content, or of its path if the worker reads it."""
    return hashlib.blake2b(content or os.fsencode(job.get("path", "")), digest_size=16).digest()


def _timeout_text(seconds: float) -> str:
    return f"decoding took longer than {seconds:g} seconds and was given up"
