"""A few worker processes that decode uploads, each killed and replaced when a photo takes too long or breaks it.

A photo waits for a free worker, so no more photos are decoded at once than there are workers. What a worker cannot read
comes back as `ImageFileError`; a worker that dies or hangs costs its own photo and nobody else's. Cost: two copies of
the file and of the small picture through pipes, far less than the decoding itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8

from finegraph.data.transforms import ViewSettings
from finegraph.errors import ImageFileError
from finegraph.web.decode_worker import READY

Pixels = UInt8[np.ndarray, "height width channel"]


@dataclass(frozen=True, kw_only=True)
class DecodingSettings:
    """How uploads are decoded."""

    workers: int = 2
    """How many photos are decoded at once."""
    seconds: float = 5.0
    """A photo that takes longer is given up and its worker killed."""
    megabytes: int = 144
    """How much memory a worker may take beyond what it needs when idle."""
    most_pixels: int = 40_000_000
    """A photo with more pixels is refused from its header alone."""


class DecodingPool:
    """The workers; `async with` starts and stops them.

    Attributes:
        killed: how many workers had to be killed or died so far.
    """

    def __init__(self, settings: DecodingSettings) -> None:
        self._settings = settings
        self._idle: asyncio.LifoQueue[Process] = asyncio.LifoQueue()
        self._all: set[Process] = set()
        self._replacing: set[asyncio.Task[None]] = set()
        self.killed = 0

    async def __aenter__(self) -> DecodingPool:
        for worker in await asyncio.gather(*(self._start() for _ in range(self._settings.workers))):
            self._idle.put_nowait(worker)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._replacing:
            task.cancel()
        await asyncio.gather(*self._replacing, return_exceptions=True)
        for worker in list(self._all):
            await self._stop(worker)

    async def decode(self, content: bytes, name: str, views: ViewSettings) -> Pixels:
        """The picture that views are cut from.

        Args:
            content: the file.
            name: what it is called in the error.
            views: the sizes.

        Raises:
            ImageFileError: it is no photo, broken, too large, or takes too long.
        """
        worker = await self._idle.get()
        usable = False
        try:
            async with asyncio.timeout(self._settings.seconds):
                pixels = await self._ask(worker, content, views)
            usable = True
        except ImageFileError as error:
            usable = True
            raise ImageFileError(name, error.reason) from None
        except TimeoutError:
            reason = f"decoding took longer than {self._settings.seconds:g} seconds and was given up"
            raise ImageFileError(name, reason) from None
        except (OSError, EOFError, ValueError):
            raise ImageFileError(name, "the photo broke the decoder") from None
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

    async def _ask(self, worker: Process, content: bytes, views: ViewSettings) -> Pixels:
        assert worker.stdin is not None
        assert worker.stdout is not None
        job = {
            "bytes": len(content),
            "resize": views.resize,
            "keep_shape": views.keep_shape,
            "interpolation": views.interpolation,
            "most_pixels": self._settings.most_pixels,
        }
        worker.stdin.write(json.dumps(job).encode() + b"\n")
        worker.stdin.write(content)
        await worker.stdin.drain()
        line = await worker.stdout.readline()
        if not line:
            raise EOFError
        answer = json.loads(line)
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
            *("-m", "finegraph.web.decode_worker", str(self._settings.megabytes)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # decoders may print what a file makes them print
            env=environment,
            start_new_session=True,  # a Ctrl-C is for the server, which lets its workers finish
        )
        self._all.add(worker)
        assert worker.stdout is not None
        if await worker.stdout.readline() != READY:
            await self._stop(worker)
            raise OSError("a worker that decodes photos could not be started; see whether the machine has memory left")
        return worker

    async def _stop(self, worker: Process) -> None:
        self._all.discard(worker)
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
        if worker.stdin is not None:
            worker.stdin.close()
        await worker.wait()
