"""The batches of a run, decoded ahead by threads.

The order of an epoch depends only on the seed and the epoch, and each view on these and the photo, so that training can
resume at any step. Decoding and resizing release the interpreter lock, so threads are enough and no worker processes
are needed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from finegraph.data.dataset import MISSING, Batch, Item, PhotoDataset, collate
from finegraph.errors import PhotoFileError
from finegraph.training.distributed import Ranks

_AHEAD = 3
"""How many batches are prepared ahead."""


class PhotoPair(NamedTuple):
    """Two photos that were compared by a number: which has more, and whether both have the same."""

    number: str
    more: int
    less: int
    same: bool


@dataclass(frozen=True, eq=False)
class PhotoPairs:
    """The photos that were compared, as numbers of the dataset.

    An epoch takes each photo with one that it was compared with, drawn again each time, so that comparisons cost at
    most as much as the photos themselves. All pairs that a batch holds count.

    Attributes:
        pairs: the comparisons.
        scales: of each number the difference that people tell apart in 73 of 100 cases; see `ranking_loss`.
    """

    pairs: tuple[PhotoPair, ...]
    scales: Mapping[str, float]

    @cached_property
    def _of_photo(self) -> Mapping[int, list[int]]:
        """The pairs of each photo."""
        found: dict[int, list[int]] = {}
        for place, pair in enumerate(self.pairs):
            for photo in {pair.more, pair.less}:
                found.setdefault(photo, []).append(place)
        return found

    def partners(self, photos: Sequence[int], seed: int, epoch: int) -> list[int]:
        """Photos to take beside some photos: for each one that it was compared with, unless that is there already."""
        taken, added = set(photos), []
        for photo in photos:
            places = self._of_photo.get(photo)
            if not places or any(self._other(place, photo) in taken for place in places):
                continue
            # Five numbers: the chance of views has three and that of orders four, so that none of it is used twice.
            drawn = int(np.random.default_rng((seed, epoch, photo, 0, 1)).integers(len(places)))
            added.append(self._other(places[drawn], photo))
            taken.add(added[-1])
        return added

    def _other(self, place: int, photo: int) -> int:
        pair = self.pairs[place]
        return pair.less if pair.more == photo else pair.more

    def among(self, photos: Sequence[int]) -> dict[str, list[tuple[int, int, bool]]]:
        """By number, the pairs among some photos: the places of both there, and whether they are the same."""
        row = {photo: place for place, photo in enumerate(photos)}
        found: dict[str, list[tuple[int, int, bool]]] = {}
        for place in sorted({place for photo in photos for place in self._of_photo.get(photo, ())}):
            number, more, less, same = self.pairs[place]
            if more in row and less in row:
                found.setdefault(number, []).append((row[more], row[less], same))
        return found


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
    dataset: PhotoDataset,
    numbers: Iterator[tuple[int, list[int]]],
    ranks: Ranks,
    workers: int,
    pairs: PhotoPairs | None = None,
) -> Generator[Batch, None, None]:
    """The batches of this process, one for each step; some may have no photos. Close it to end the threads.

    Args:
        dataset: where the photos come from.
        numbers: the epoch and the samples of each step, over all processes.
        ranks: this process among the others.
        workers: how many threads decode.
        pairs: photos that were compared; beside each one comes another, without its labels.
    """
    with ThreadPoolExecutor(workers, "decode") as pool:
        waiting: deque[tuple[list[Future[Item | PhotoFileError]], list[int]]] = deque()
        try:
            for epoch, samples in numbers:
                own = list(ranks.share(samples))
                beside = [] if pairs is None else pairs.partners(own, dataset.seed, epoch)
                waiting.append(([pool.submit(dataset.item, number, epoch) for number in (*own, *beside)], beside))
                if len(waiting) > _AHEAD:
                    yield _batch(*waiting.popleft())
            while waiting:
                yield _batch(*waiting.popleft())
        finally:
            pool.shutdown(cancel_futures=True)


def _batch(items: Sequence[Future[Item | PhotoFileError]], beside: Sequence[int]) -> Batch:
    """A batch of items; photos that are there for comparison have no labels: each counts once in an epoch."""
    batch = collate([item.result() for item in items])
    if not beside or not len(batch.sample):
        return batch
    silent = torch.isin(batch.sample, torch.tensor(beside))
    kinds = {name: _without(labels, silent) for name, labels in batch.kinds.items()}
    return batch._replace(fine=_without(batch.fine, silent), kinds=kinds)


def _without(labels: Tensor, silent: Tensor) -> Tensor:
    """Labels or values of which some are not known."""
    return labels.masked_fill(silent, math.nan if labels.is_floating_point() else MISSING)
