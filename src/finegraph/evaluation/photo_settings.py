"""How an evaluation reads photos: its settings, and the posteriors and features of photos under these settings.

All photos take the path of `finegraph.model.answering.pipeline`, batch after batch, so memory does not grow with their
number. Photos that cannot be read are named in the result, and the progress of several loops is shown as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypedDict

from finegraph.data.samples import Samples
from finegraph.errors import InputError
from finegraph.evaluation.results import BadPhoto
from finegraph.model.answering.pipeline import PhotoPipeline, PhotoPosterior, known_posteriors
from finegraph.model.features import Features
from finegraph.model.features.engines import EngineName
from finegraph.model.features.extract import Cache
from finegraph.model.features.photos import OnBadFile, Views, sample_inputs
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.progress_types import ShowProgress


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
    """How photos are read."""

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


def photo_batches(
    classifier: PhotoClassifier,
    samples: Samples,
    settings: PhotoSettings,
    bad: list[BadPhoto],
    progress: ShowProgress | None = None,
    known: Features | None = None,
) -> Iterator[PhotoPosterior]:
    """The posteriors of photos in order, batch after batch, without temperature; of the single views.

    Args:
        classifier: its network and its views are used, its temperature is not.
        samples: the photos.
        settings: how they are read.
        bad: photos that cannot be read are put here.
        progress: called with the number of photos done and the total.
        known: the features of these photos, of as many views, if already computed; no file is read then.

    Raises:
        PhotoFileError: a photo that cannot be read, if that is an error.
    """
    if known is not None:
        bad += [BadPhoto(path=error.path, reason=error.reason) for error in known.bad]
        yield from known_posteriors(classifier.network, known)
        return
    pipeline = _pipeline(classifier, settings)
    photos = sample_inputs(samples, box=pipeline.extractor.settings.box)
    named: set[str] = set()
    for batch in pipeline.posteriors(photos, on_bad_file=settings.on_bad_file, progress=progress):
        for error in batch.bad.values():
            if error.path not in named:
                bad.append(BadPhoto(path=error.path, reason=error.reason))
            named.add(error.path)
        if batch.numbers:
            yield batch


def photo_features(classifier: PhotoClassifier, samples: Samples, settings: PhotoSettings) -> Features:
    """The features of photos, as `photo_batches` takes them.

    Args:
        classifier: its network and its views are used.
        samples: the photos; those of one process, if several divide them.
        settings: how they are read.

    Raises:
        PhotoFileError: a photo that cannot be read, if that is an error.
    """
    return _pipeline(classifier, settings).extractor.features(samples, on_bad_file=settings.on_bad_file)


def _pipeline(classifier: PhotoClassifier, settings: PhotoSettings) -> PhotoPipeline:
    """The pipeline with these settings."""
    return classifier.pipeline(
        views=settings.views,
        box=settings.box,
        engine=settings.engine,
        cache=settings.cache,
        threads=settings.workers,
        batch_size=settings.batch_size,
    )


class JoinedProgress:
    """Reports the progress of several loops as one."""

    def __init__(self, progress: ShowProgress | None, total: int) -> None:
        self.progress, self.total = progress, total

    def part(self, start: int) -> ShowProgress | None:
        """For a loop before which `start` photos were done."""
        if self.progress is None:
            return None
        progress = self.progress
        return lambda done, _: progress(start + done, self.total)

    def more(self) -> ShowProgress | None:
        """For a loop over further photos, which come on top when all of these are done."""
        if self.progress is None:
            return None
        progress = self.progress
        return lambda done, total: progress(self.total + done, self.total + total)
