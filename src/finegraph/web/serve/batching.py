"""Batches the photos of many requests for the network, in several threads.

The first idle thread takes its share of the waiting photos, up to a batch; no photo waits for a batch to fill. Each
thread uses one core, which is faster than all cores on one batch, and stays fast when other programs use the machine.
Photos with the same question are answered together. An answer belongs to its job, not to a position in a batch.
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
from finegraph.web.serve.answering import PhotoQuestion, Scores, ServedModel

_LOG = logging.getLogger("finegraph.web")


@dataclass(frozen=True)
class Job:
    """A decoded photo that waits to be answered.

    Attributes:
        model: the model to use; later photos may have another one.
        picture: the pixels that the network sees.
        name: the name of the photo.
        ask: the question; None if only scores and feature are wanted.
    """

    model: ServedModel
    picture: Pixels
    name: str
    ask: PhotoQuestion | None


@dataclass(frozen=True)
class Done:
    """The outcome for a photo: its scores, and the prediction if one was asked for."""

    scores: Scores
    prediction: Prediction | None


class Batcher:
    """The threads that run the network; `start` and `close` them.

    Args:
        threads: how many batches go through the network at once.
        batch_size: the largest number of photos in a batch.
        on_batch: called with the size of each batch, for statistics.
        on_start: called in each thread before its first batch, for example to warm the model up.
    """

    def __init__(
        self,
        threads: int,
        batch_size: int,
        on_batch: Callable[[int], None] = lambda size: None,
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        self._threads, self._batch_size, self._on_batch, self._on_start = threads, batch_size, on_batch, on_start
        self._waiting: deque[tuple[Job, asyncio.Future[Done]]] = deque()
        self._condition = threading.Condition()
        self._closed = False
        self._idle = 0  # threads that wait for photos
        self._running_threads: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start the threads; answers go to the event loop that is running now."""
        self._loop = asyncio.get_running_loop()
        for number in range(self._threads):
            thread = threading.Thread(target=self._run, name=f"model {number}", daemon=True)
            thread.start()
            self._running_threads.append(thread)

    async def close(self) -> None:
        """Finish what is waiting, then end the threads."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        for thread in self._running_threads:
            await asyncio.to_thread(thread.join)

    async def submit(self, job: Job) -> Done:
        """The outcome of a photo; errors of its batch are raised here."""
        assert self._loop is not None
        future: asyncio.Future[Done] = self._loop.create_future()
        with self._condition:
            self._waiting.append((job, future))
            self._condition.notify()
        return await future

    def _run(self) -> None:
        """Process batches until closed and nothing waits. No error may end the thread: requests would wait for ever."""
        torch.set_num_threads(1)
        assert self._loop is not None
        try:
            self._on_start()
        except Exception:
            _LOG.exception("the model failed before its first photo; photos are tried all the same")
        while batch := self._take():
            try:
                self._on_batch(len(batch))
                outcomes = _outcomes([job for job, _ in batch])
            except Exception as error:
                outcomes = [error] * len(batch)
            pairs = [(future, outcome) for (_, future), outcome in zip(batch, outcomes, strict=True)]
            self._loop.call_soon_threadsafe(_resolve, pairs)

    def _take(self) -> list[tuple[Job, asyncio.Future[Done]]]:
        """This thread's share of the waiting jobs, all for one model; empty when closed.

        Idle threads share the jobs; a single thread takes all of them, which is faster on a GPU.
        """
        with self._condition:
            self._idle += 1
            while not self._waiting and not self._closed:
                self._condition.wait()
            share = min(self._batch_size, -(-len(self._waiting) // self._idle))
            self._idle -= 1
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
    outcomes: list[Done | Exception] = [Done(row, None) for row in scores]
    groups: dict[PhotoQuestion, list[int]] = {}
    for number, job in enumerate(jobs):
        if job.ask is not None:
            groups.setdefault(job.ask, []).append(number)
    for ask, numbers in groups.items():
        try:
            rows, names = [scores[number] for number in numbers], [jobs[number].name for number in numbers]
            predictions = jobs[0].model.answer(rows, names, ask)
        except Exception as error:  # one request's impossible evidence must not fail the others
            outcomes = [error if number in numbers else outcome for number, outcome in enumerate(outcomes)]
            continue
        for number, prediction in zip(numbers, predictions, strict=True):
            outcomes[number] = Done(scores[number], prediction)
    return outcomes


def _resolve(pairs: Sequence[tuple[asyncio.Future[Done], Done | Exception]]) -> None:
    """Give outcomes to their callers, if they still wait."""
    for future, outcome in pairs:
        if future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
