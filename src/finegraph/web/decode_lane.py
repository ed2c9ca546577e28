"""Worker processes of one kind that decode photos, each killed and replaced when a photo keeps or breaks it.

A photo waits for a free worker of its lane, so no more photos are decoded at once than the lane has workers. A worker
that dies or hangs costs its own photo and nobody else's. Cost: two copies of the file and of the small picture through
pipes, far less than the decoding itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from typing import Any

import numpy as np
from jaxtyping import UInt8

from finegraph.errors import ImageFileError
from finegraph.web.decode_worker import READY

Pixels = UInt8[np.ndarray, "height width channel"]
_A_MOMENT = 1.0
"""How long a worker that has closed its end may take to be gone, in seconds."""
_OUT_OF_TIME = -getattr(signal, "SIGPROF", 27)


class LargePhoto(Exception):  # noqa: N818  # no error: it goes to another lane
    """A photo that takes longer than this lane is for.

    Attributes:
        pixels: how many it has; 0 where it is its memory that is too large.
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

    Attributes:
        processes: those that run.
        killed: how many had to be killed or died so far.
        inside: how many photos are in this lane, waiting or being decoded.
    """

    def __init__(self, workers: int, megabytes: int, computing: float, waiting: float) -> None:
        self._workers, self._megabytes, self._computing, self._waiting = workers, megabytes, computing, waiting
        self._idle: asyncio.LifoQueue[Process] = asyncio.LifoQueue()
        self._replacing: set[asyncio.Task[None]] = set()
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
        """The picture that views are cut from.

        Args:
            content: the file.
            name: what it is called in the error.
            job: see `decode_worker.decode`.

        Raises:
            ImageFileError: it is no photo, broken, too large, or takes too long.
            LargePhoto: it is for another lane.
        """
        self.inside += 1
        try:
            return await self._decode(await self._idle.get(), content, name, job)
        finally:
            self.inside -= 1

    async def _decode(self, worker: Process, content: bytes, name: str, job: dict[str, Any]) -> Pixels:
        usable = False
        try:
            async with asyncio.timeout(self._waiting):
                pixels = await self._ask(worker, content, job)
            usable = True
        except (ImageFileError, LargePhoto) as error:
            usable = True
            if isinstance(error, LargePhoto):
                raise
            raise ImageFileError(name, error.reason) from None
        except TimeoutError:
            raise ImageFileError(name, _too_long(self._waiting)) from None
        except (OSError, EOFError, ValueError):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_A_MOMENT):
                    await worker.wait()
            out_of_time = worker.returncode == _OUT_OF_TIME
            reason = _too_long(self._computing) if out_of_time else "the photo broke the decoder"
            raise ImageFileError(name, reason) from None
        finally:
            # A worker that was interrupted half-way, for whatever reason, would answer the next photo with this one.
            if usable:
                self._idle.put_nowait(worker)
            else:
                self.killed += 1
                task = asyncio.get_running_loop().create_task(self._replace(worker))
                self._replacing.add(task)  # a task that nobody holds may be collected
                task.add_done_callback(self._replacing.discard)
        return pixels

    async def _ask(self, worker: Process, content: bytes, job: dict[str, Any]) -> Pixels:
        assert worker.stdin is not None
        assert worker.stdout is not None
        head = json.dumps({**job, "bytes": len(content), "seconds": self._computing})
        worker.stdin.write(head.encode() + b"\n")
        worker.stdin.write(content)
        await worker.stdin.drain()
        line = await worker.stdout.readline()
        if not line:
            raise EOFError
        answer = json.loads(line)
        if "large" in answer:
            raise LargePhoto(answer["large"])
        if "error" in answer:
            raise ImageFileError("photo", answer["error"])
        data = await worker.stdout.readexactly(answer["bytes"])
        return np.frombuffer(data, dtype=np.uint8).reshape(answer["height"], answer["width"], 3)

    async def _replace(self, worker: Process) -> None:
        """End a worker and put a new one in its place, while others go on."""
        await self._stop(worker)
        self._idle.put_nowait(await self._start())

    async def _start(self) -> Process:
        """A worker that is ready; its start is not part of any photo's time."""
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "finegraph.web.decode_worker", str(self._megabytes)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # decoders may print what a file makes them print
            env=environment,
            start_new_session=True,  # a Ctrl-C is for the server, which lets its workers finish
        )
        self.processes.add(worker)
        assert worker.stdout is not None
        if await worker.stdout.readline() != READY:
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


def _too_long(seconds: float) -> str:
    return f"decoding took longer than {seconds:g} seconds and was given up"
