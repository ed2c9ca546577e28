"""Photos of many requests through the network together, in as many threads as there are cores for it.

The first free thread takes its share of the waiting photos, up to a batch; no photo waits for a batch to fill. Each
thread has a core of its own, which keeps cores busy better than all cores on one batch, and does not fall apart when
others use the machine too. Photos that are asked the same are answered together. The answer to a photo is its own
alone: it belongs to the job, not to a place in a batch.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from finegraph.model import Prediction
from finegraph.web.decode_lane import Pixels
from finegraph.web.serve.answering import Ask, Scores, ServedModel

_LOG = logging.getLogger("finegraph.web")


@dataclass(frozen=True)
class Job:
    """A decoded photo that waits.

    Attributes:
        model: the model that it is for, which may be another one for later photos.
        picture: what the network sees.
        name: what the photo is called.
        ask: what is asked of it; None if only its scores and its feature are wanted.
    """

    model: ServedModel
    picture: Pixels
    name: str
    ask: Ask | None


@dataclass(frozen=True)
class Done:
    """What became of a photo: its scores, and the answer if one was asked for."""

    scores: Scores
    prediction: Prediction | None


class Batcher:
    """The threads; `start` and `close` them.

    Args:
        threads: how many batches go through the network at once.
        batch_size: how many photos are in a batch at most.
        on_batch: called with the size of each batch, for statistics.
        first: is called in each thread before its first batch, such as to let the model take the memory it will need.
    """

    def __init__(
        self,
        threads: int,
        batch_size: int,
        on_batch: Callable[[int], None] = lambda size: None,
        first: Callable[[], None] = lambda: None,
    ) -> None:
        self._threads, self._batch_size, self._on_batch, self._first = threads, batch_size, on_batch, first
        self._waiting: deque[tuple[Job, asyncio.Future[Done]]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._free = 0  # threads that wait for photos
        self._running: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start the threads; answers go to the event loop that is running now."""
        self._loop = asyncio.get_running_loop()
        for number in range(self._threads):
            thread = threading.Thread(target=self._run, name=f"model {number}", daemon=True)
            thread.start()
            self._running.append(thread)

    async def close(self) -> None:
        """Finish what is waiting, then end the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._running:
            await asyncio.to_thread(thread.join)

    async def submit(self, job: Job) -> Done:
        """The outcome of a photo; errors of its batch are raised here."""
        assert self._loop is not None
        future: asyncio.Future[Done] = self._loop.create_future()
        with self._changed:
            self._waiting.append((job, future))
            self._changed.notify()
        return await future

    def _run(self) -> None:
        """One thread: batch after batch until it is closed and nothing waits. No error ends it: others wait for it."""
        torch.set_num_threads(1)
        assert self._loop is not None
        try:
            self._first()
        except Exception:
            _LOG.exception("the model failed before its first photo; photos are tried all the same")
        while batch := self._take():
            try:
                self._on_batch(len(batch))
                found = _outcomes([job for job, _ in batch])
            except Exception as error:
                found = [error] * len(batch)
            pairs = [(future, outcome) for (_, future), outcome in zip(batch, found, strict=True)]
            self._loop.call_soon_threadsafe(_tell, pairs)

    def _take(self) -> list[tuple[Job, asyncio.Future[Done]]]:
        """This thread's share of what waits, all for one model; nothing when it is closed.

        Threads that are free share it; a thread that is the only one takes all, which a GPU answers more quickly.
        """
        with self._changed:
            self._free += 1
            while not self._waiting and not self._closed:
                self._changed.wait()
            share = min(self._batch_size, -(-len(self._waiting) // self._free))
            self._free -= 1
            batch: list[tuple[Job, asyncio.Future[Done]]] = []
            while len(batch) < share and self._waiting:
                if batch and self._waiting[0][0].model is not batch[0][0].model:
                    break
                batch.append(self._waiting.popleft())
            return batch


def _outcomes(jobs: Sequence[Job]) -> list[Done | Exception]:
    """The outcome of each job of a batch, in order; an error if it failed."""
    try:
        scores = jobs[0].model.scores([job.picture for job in jobs])
    except Exception as error:
        return [error] * len(jobs)
    found: list[Done | Exception] = [Done(row, None) for row in scores]
    groups: dict[Ask, list[int]] = {}
    for number, job in enumerate(jobs):
        if job.ask is not None:
            groups.setdefault(job.ask, []).append(number)
    for ask, numbers in groups.items():
        try:
            rows, names = [scores[number] for number in numbers], [jobs[number].name for number in numbers]
            predictions = jobs[0].model.answer(rows, names, ask)
        except Exception as error:  # evidence that is impossible for one request does not concern the others
            found = [error if number in numbers else outcome for number, outcome in enumerate(found)]
            continue
        for number, prediction in zip(numbers, predictions, strict=True):
            found[number] = Done(scores[number], prediction)
    return found


def _tell(pairs: Sequence[tuple[asyncio.Future[Done], Done | Exception]]) -> None:
    """Give outcomes to their callers, if they still wait."""
    for future, outcome in pairs:
        if future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
