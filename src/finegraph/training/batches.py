"""The batches of a run, decoded ahead by threads.

The order of an epoch depends only on the seed and the epoch, and each view on these and the photo, so that training can
resume at any step. Decoding and resizing release the interpreter lock, so threads are enough and no worker processes
are needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from finegraph.data.dataset import Batch, Item, PhotoDataset, collate
from finegraph.errors import PhotoFileError
from finegraph.training.distributed import Ranks

_AHEAD = 3
"""How many batches are prepared ahead."""


def epoch_order(seed: int, epoch: int, count: int) -> list[int]:
    """The order in which an epoch takes the samples; each once."""
    # Four numbers: the chance of views has three, so that none of it is used twice.
    return [int(number) for number in np.random.default_rng((seed, epoch, 0, 1)).permutation(count)]


def steps_per_epoch(count: int, batch_size: int) -> int:
    """How many batches an epoch has: as few as possible, each of at most `batch_size` samples."""
    return -(-count // batch_size)


def batch_numbers(seed: int, count: int, batch_size: int, start: int, stop: int) -> Iterator[tuple[int, list[int]]]:
    """For each step from `start` up to `stop` its epoch and its samples, over all processes.

    The batches of an epoch differ by at most one sample: a small rest would make a step of much noise, and a batch of
    one photo has no statistics.
    """
    per_epoch = steps_per_epoch(count, batch_size)
    order: list[int] = []
    for step in range(start, stop):
        epoch, place = divmod(step, per_epoch)
        if place == 0 or not order:
            order = epoch_order(seed, epoch, count)
        yield epoch, order[place * count // per_epoch : (place + 1) * count // per_epoch]


def read_batches(
    dataset: PhotoDataset, numbers: Iterator[tuple[int, list[int]]], ranks: Ranks, workers: int
) -> Generator[Batch, None, None]:
    """The batches of this process, one for each step; some may have no photos. Close it to end the threads.

    Args:
        dataset: where the photos come from.
        numbers: the epoch and the samples of each step, over all processes.
        ranks: this process among the others.
        workers: how many threads decode.
    """
    with ThreadPoolExecutor(workers, "decode") as pool:
        waiting: deque[list[Future[Item | PhotoFileError]]] = deque()
        try:
            for epoch, samples in numbers:
                waiting.append([pool.submit(dataset.item, number, epoch) for number in ranks.share(samples)])
                if len(waiting) > _AHEAD:
                    yield collate([item.result() for item in waiting.popleft()])
            while waiting:
                yield collate([item.result() for item in waiting.popleft()])
        finally:
            pool.shutdown(cancel_futures=True)
