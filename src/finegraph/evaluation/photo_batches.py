"""The posteriors of photos, batch after batch: the one way in which evaluation looks at photos.

Features come from `extract_features`, which is quick, works on several photos at a time, and knows those that it has
seen before; the head makes posteriors of them. Both are taken in parts, so that memory does not grow with the number of
photos.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypedDict

import torch
from jaxtyping import Int
from torch import Tensor

from finegraph.data.samples import Samples
from finegraph.errors import InputError
from finegraph.evaluation.results import BadPhoto
from finegraph.inference import Posterior
from finegraph.model.answering.photos import OnBadFile
from finegraph.model.features import Features, extract_features
from finegraph.model.features.engines import EngineName
from finegraph.model.photo_classifier import PhotoClassifier

Progress = Callable[[int, int], None]
Views = Literal[1, 10]
Cache = str | os.PathLike[str] | Literal[False] | None
_MAX_FEATURES = 2**25
"""How many features are held at a time: 128 MB of float32."""
_MAX_SCORES = 2**22
"""How many scores are in a posterior at most, so that graphs of any size can be evaluated."""
_MAX_ROWS = 256


class PhotoOptions(TypedDict, total=False):
    """The options of `PhotoSettings`, for functions that take them one by one."""

    views: Views
    box: bool | None
    batch_size: int
    workers: int | None
    on_bad_file: OnBadFile
    engine: EngineName
    cache: Cache


@dataclass(frozen=True, kw_only=True)
class PhotoSettings:
    """How photos are looked at."""

    views: Views = 1
    """1 for the centre, 10 for the average over the centre, the corners and their mirrors."""
    box: bool | None = None
    """Whether photos are cut to their boxes; None for what the classifier was trained with."""
    batch_size: int = 32
    """How many photos are in the network at a time at most."""
    workers: int | None = None
    """How many threads work on photos; by default as many as torch has threads."""
    on_bad_file: OnBadFile = "error"
    """`error` raises at the first photo that cannot be read, `skip` leaves it out and names it."""
    engine: EngineName = "auto"
    """What computes features: `onnx`, `torch`, or `auto`. They differ by rounding."""
    cache: Cache = False
    """Where features are stored and looked for; None for the folder of the user, False for nowhere."""

    def __post_init__(self) -> None:
        if isinstance(self.views, bool) or self.views not in (1, 10):
            raise InputError(f"views: expected 1 or 10, got {self.views!r}")
        if self.on_bad_file not in ("error", "skip"):
            raise InputError(f"on_bad_file must be 'error' or 'skip', got {self.on_bad_file!r}")


class PhotoBatch(NamedTuple):
    """Some photos.

    Attributes:
        posterior: of the network itself, without temperature; of the single views.
        numbers: which photos these are, counted from 0.
    """

    posterior: Posterior
    numbers: Int[Tensor, " batch"]


def photo_batches(
    classifier: PhotoClassifier,
    samples: Samples,
    settings: PhotoSettings,
    bad: list[BadPhoto],
    progress: Progress | None = None,
    known: Features | None = None,
) -> Iterator[PhotoBatch]:
    """The posteriors of photos in order, batch after batch.

    Args:
        classifier: its network and its views are used, its temperature is not.
        samples: the photos.
        settings: how they are looked at.
        bad: photos that cannot be read are put here.
        progress: called with the number of photos done and the total.
        known: the features of the centre of these photos, where they were computed already; no file is read then.

    Raises:
        PhotoFileError: a photo that cannot be read, where that is an error.
    """
    network = classifier.network
    backbones = [part for part in (network.backbone, network.coarse_backbone) if part is not None]
    rows = max(1, _MAX_FEATURES // (settings.views * sum(part.feature_size for part in backbones)))
    labels = len(network.graph) + sum(len(network.graph.labels(kind)) for kind in network.graph.kinds)
    size = max(1, min(_MAX_ROWS, _MAX_SCORES // labels) // settings.views)
    if known is not None:
        yield from _batches(classifier, samples, known, 1, size, 0, bad)
        return
    for start in range(0, len(samples), rows):
        part = samples[start : start + rows]
        features = extract_features(
            network,
            part,
            classifier.views if settings.box is None else replace(classifier.views, box=settings.box),
            view="centre" if settings.views == 1 else "ten",
            cache=settings.cache,
            threads=settings.workers,
            batch_size=settings.batch_size,
            on_bad_file=settings.on_bad_file,
            engine=settings.engine,
            progress=JoinedProgress(progress, len(samples)).part(start),
        )
        yield from _batches(classifier, part, features, settings.views, size, start, bad)


def _batches(
    classifier: PhotoClassifier,
    part: Samples,
    features: Features,
    views: int,
    size: int,
    start: int,
    bad: list[BadPhoto],
) -> Iterator[PhotoBatch]:
    """The posteriors of some photos, the first of which is number `start`, by their features."""
    bad += [BadPhoto(path=error.path, reason=error.reason) for error in features.bad]
    numbers = numbers_read(part, features.samples) + start
    for first in range(0, len(numbers), size):
        own = slice(first, first + size)
        coarse = None if features.coarse is None else _rows(features.coarse[own], views)
        yield PhotoBatch(_posterior(classifier, _rows(features.fine[own], views), coarse), numbers[own])


def _posterior(classifier: PhotoClassifier, features: Tensor, coarse: Tensor | None) -> Posterior:
    """The posterior of features, without gradients and in evaluation mode, where the head is."""
    weight = classifier.network.head.fine.weight
    with torch.no_grad():
        moved = None if coarse is None else coarse.to(weight)
        return classifier.network.of_features(features.to(weight), moved)


def _rows(features: Tensor, views: int) -> Tensor:
    """A row per view."""
    return features if views == 1 else features.flatten(0, 1)


def numbers_read(samples: Samples, read: Samples) -> Int[Tensor, " batch"]:
    """Which of the samples were read; both are in the same order."""
    found: list[int] = []
    for number, sample in enumerate(samples):
        if len(found) < len(read) and read[len(found)] == sample:
            found.append(number)
    return torch.tensor(found, dtype=torch.int64)


class JoinedProgress:
    """Tells of the progress of several loops as if they were one."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total = progress, total

    def part(self, start: int) -> Progress | None:
        """For a loop before which `start` photos were done."""
        if self.progress is None:
            return None
        progress = self.progress
        return lambda done, _: progress(start + done, self.total)

    def more(self) -> Progress | None:
        """For a loop over further photos, which come on top when all of these are done."""
        if self.progress is None:
            return None
        progress = self.progress
        return lambda done, total: progress(self.total + done, self.total + total)
