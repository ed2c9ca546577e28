"""Worker processes of one kind that decode photos; each is killed and replaced when a photo hangs or breaks it.

A photo waits for a free worker of its lane, so no more photos are decoded at once than the lane has workers. A worker
that dies or hangs costs its own photo and nobody else's; one that died before it was asked costs none. Workers also die
when somebody kills them, or the system does for want of memory: so a photo that a worker died at may be tried again,
and only the second time it is the photo that broke the decoder. If no new one can be started, that is tried again
until it works; meanwhile the lane says that it has none. Cost: two copies of the file and of the small picture through
pipes, far less than the decoding itself.
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
from typing import Any

import numpy as np
from jaxtyping import UInt8

from finegraph.errors import PhotoFileError
from finegraph.web.decode_worker import PIPE_BYTES, READY
from finegraph.web.problems import ProblemError

Pixels = UInt8[np.ndarray, "height width channel"]
_A_MOMENT = 1.0
"""How long a worker that has closed its end may take to be gone, in seconds."""
_OUT_OF_TIME = -getattr(signal, "SIGPROF", 27)
_STARTING = 60.0
"""How long a worker may take to be ready, in seconds."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
"""The first and the longest pause after a failed start, in seconds; each pause is twice the last."""
_SECRETS = ("FINEGRAPH_TOKEN",)
"""Variables that are not passed on: a photo that breaks a worker must not find secrets in it."""
_MAX_SUSPECTS = 1000
"""How many photos that a worker died at are remembered."""
_LOG = logging.getLogger("finegraph.web")


class LargePhoto(Exception):  # noqa: N818  # no error: it goes to another lane
    """A photo that would take longer than this lane allows.

    Attributes:
        pixels: how many it has; 0 if its memory is the problem.
    """

    def __init__(self, pixels: int) -> None:
        super().__init__(pixels)
        self.pixels = pixels


class Lane:
    """The workers of one kind.

    Args:
        workers: how many photos are decoded at once.
        megabytes: how much memory a worker may take beyond what it needs when idle.
        computing: for how many seconds a worker may compute on one photo.
        waiting: after how many seconds a worker that does not answer is given up.
        queueing: after how many seconds a photo that no worker became free for is refused.

    Attributes:
        processes: those that run.
        killed: how many had to be killed or died so far.
        inside: how many photos are in this lane, waiting or being decoded.
    """

    def __init__(self, workers: int, megabytes: int, computing: float, waiting: float, queueing: float) -> None:
        self._workers, self._megabytes = workers, megabytes
        self._computing, self._waiting, self._queueing = computing, waiting, queueing
        self._idle: asyncio.LifoQueue[Process] = asyncio.LifoQueue()
        self._replacing: set[asyncio.Task[None]] = set()
        self._suspects: OrderedDict[bytes, None] = OrderedDict()
        """The photos at which a worker died the last time they were asked about, by digest."""
        self.processes: set[Process] = set()
        self.killed, self.inside = 0, 0

    async def start(self) -> None:
        """Start the workers."""
        for worker in await asyncio.gather(*(self._start() for _ in range(self._workers))):
            self._idle.put_nowait(worker)

    async def stop(self) -> None:
        """End them."""
        for task in self._replacing:
            task.cancel()
        await asyncio.gather(*self._replacing, return_exceptions=True)
        for worker in list(self.processes):
            await self._stop(worker)

    async def decode(self, content: bytes, name: str, job: dict[str, Any]) -> Pixels:
        """The middle of a photo as the network sees it; see `ask`."""
        _, data = await self.ask(content, name, job)
        return np.frombuffer(data, dtype=np.uint8).reshape(job["size"], job["size"], 3)

    async def ask(self, content: bytes, name: str, job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """What a worker answers: some facts, and bytes.

        Args:
            content: the file; empty if the worker is to read it itself.
            name: what it is called in the error.
            job: see `decode_worker.decode` and `decode_worker.read_photo`.

        Raises:
            PhotoFileError: it is no photo, broken, too large, or takes too long.
            LargePhoto: it is for another lane.
            ProblemError: no worker became free for too long, or the worker died; another may do it.
        """
        self.inside += 1
        try:
            return await self._answer(await self._free(), content, name, job)
        finally:
            self.inside -= 1

    def has_worker(self) -> bool:
        """Whether any worker is there; those that died since they were asked last are replaced."""
        for worker in [self._idle.get_nowait() for _ in range(self._idle.qsize())][::-1]:
            if worker.returncode is None:
                self._idle.put_nowait(worker)
            else:
                self._give_up(worker)
        return any(worker.returncode is None for worker in self.processes)

    async def _free(self) -> Process:
        """A worker that lives and has nothing to do."""
        try:
            async with asyncio.timeout(self._queueing):
                while (worker := await self._idle.get()).returncode is not None:
                    self._give_up(worker)
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
                found = await self._ask(worker, content, job)
            usable = True
        except (PhotoFileError, LargePhoto) as error:
            usable = True
            if isinstance(error, LargePhoto):
                raise
            raise PhotoFileError(name, error.reason) from None
        except TimeoutError:
            raise PhotoFileError(name, _too_long(self._waiting)) from None
        except (OSError, EOFError, ValueError):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_A_MOMENT):
                    await worker.wait()
            if worker.returncode == _OUT_OF_TIME:
                raise PhotoFileError(name, _too_long(self._computing)) from None
            raise self._suspect(content, job, name) from None
        finally:
            # A worker that was interrupted half-way, for whatever reason, would answer the next photo with this one.
            if usable:
                self._acquit(content, job)
                self._idle.put_nowait(worker)
            else:
                self._give_up(worker)
        return found

    def _suspect(self, content: bytes, job: dict[str, Any], name: str) -> PhotoFileError | ProblemError:
        """The error for a photo at which a worker died; the second time in a row the photo is to blame."""
        digest = _digest(content, job)
        if digest in self._suspects:
            self._suspects.move_to_end(digest)
            return PhotoFileError(name, "the photo broke the decoder, twice")
        self._suspects[digest] = None
        if len(self._suspects) > _MAX_SUSPECTS:
            self._suspects.popitem(last=False)
        return ProblemError("overloaded", "The process that decoded the photo ended early.", {"retry-after": "1"})

    def _acquit(self, content: bytes, job: dict[str, Any]) -> None:
        """Clear a photo at which a worker died: another worker has decoded it."""
        if self._suspects:
            self._suspects.pop(_digest(content, job), None)

    def _give_up(self, worker: Process) -> None:
        """Let a worker be replaced while others go on."""
        self.killed += 1
        task = asyncio.get_running_loop().create_task(self._replace(worker))
        self._replacing.add(task)  # a task that nobody holds may be collected
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
            raise LargePhoto(answer["large"])
        if "error" in answer:
            raise PhotoFileError("photo", answer["error"])
        return answer, await worker.stdout.readexactly(answer["bytes"])

    async def _replace(self, worker: Process) -> None:
        """End a worker and put a new one in its place, however often that must be tried."""
        await self._stop(worker)
        pause = _FIRST_PAUSE
        while True:
            try:
                self._idle.put_nowait(await self._start())
                return
            except Exception as error:  # no memory, no file, no thread: all of them may be there again later
                _LOG.error("no process that decodes photos could be started; next try in %g s: %s", pause, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _start(self) -> Process:
        """A worker that is ready; its start is not part of any photo's time."""
        environment = {name: value for name, value in os.environ.items() if name not in _SECRETS}
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the working folder may hold any file, also one called json.py
            *("-m", "finegraph.web.decode_worker", str(self._megabytes)),
            stdin=PIPE,
            stdout=PIPE,
            limit=PIPE_BYTES,
            stderr=asyncio.subprocess.DEVNULL,  # decoders may print what a file makes them print
            env={**environment, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # a Ctrl-C is for the server, which lets its workers finish
        )
        self.processes.add(worker)
        assert worker.stdout is not None
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STARTING):
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


def _too_long(seconds: float) -> str:
    return f"decoding took longer than {seconds:g} seconds and was given up"
