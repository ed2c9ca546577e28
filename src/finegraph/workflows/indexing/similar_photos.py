"""The most similar training photos of a photo, by their features.

Distances are Euclidean. Features come from the training that has just ended, or from the folder of stored features;
those that are not there yet are computed once and stored. Cost: one product of the two matrices and one pass over the
files of the training photos, and for features that are not stored the network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from finegraph.data.samples import Samples
from finegraph.data.transforms import ViewSettings
from finegraph.evaluation.photo_settings import JoinedProgress
from finegraph.model.features import Features, extract_features
from finegraph.model.features.engines import EngineName
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.training.settings import TrainSettings

SIMILAR = 4
"""How many similar training photos are kept of each photo."""
_ROWS = 4096
Matrix = NDArray[np.float32]


class Similar(NamedTuple):
    """For each photo the numbers of the nearest training photos, -1 for none, and how far they are."""

    numbers: Int[NDArray[np.int32], "photo place"]
    distances: Float[Matrix, "photo place"]


class TrainingFeatures(NamedTuple):
    """What training has computed.

    Attributes:
        trained: the features of the photos that were trained on.
        judged: those of the photos to validate on.
    """

    trained: Features
    judged: Features


@dataclass(frozen=True, kw_only=True)
class FeatureSettings:
    """Where the features of training photos are stored, and how missing ones are computed.

    Attributes:
        cache: the folder; None for that of the user.
        threads: how many photos are worked on at the same time.
        engine: what computes; see `extract_features`.
        progress: called with the number of photos done and the total.
    """

    cache: str | None
    threads: int | None = None
    engine: EngineName = "auto"
    progress: Callable[[int, int], None] | None = None


def place_of_features(settings: TrainSettings, run: Path) -> str | None:
    """The folder of the features of training photos: that of the run if its whole network was trained, else the cache.

    Args:
        settings: of the run.
        run: its folder.
    """
    return settings.cache if settings.tune == "head" else str(run)


def similar_of_training(known: TrainingFeatures, rows: list[int]) -> Similar:
    """Similar photos by features that are in memory.

    Args:
        known: the features.
        rows: which of the judged photos are asked about.
    """
    asked: Matrix = known.judged.fine[rows].numpy()
    best, which = _none(len(rows))
    others = known.trained.fine.numpy()
    for start in range(0, len(others), _ROWS):
        part = others[start : start + _ROWS]
        best, which = _nearest(best, which, asked, part, np.arange(start, start + len(part), dtype=np.int32))
    return Similar(which, np.where(which < 0, np.float32(np.nan), best))


def similar_of_photos(
    classifier: PhotoClassifier,
    samples: Samples,
    gallery: list[int],
    train: Samples,
    *,
    box: bool,
    notes: list[str],
    settings: FeatureSettings,
) -> Similar | None:
    """Similar photos by features that are stored, or computed now.

    Args:
        classifier: whose features are compared.
        samples: the photos that were evaluated.
        gallery: the numbers of those that are asked about.
        train: the photos that were trained on.
        box: whether the evaluated photos were cut to their boxes.
        notes: takes in what could not be found.
        settings: where features are stored, and how they are computed.

    Returns:
        None if no photo could be read.
    """
    if not gallery or not len(train):
        return None
    total = len(gallery) + len(train)

    def features(photos: Samples, views: ViewSettings, start: int) -> tuple[NDArray[np.int32], Matrix]:
        extracted = extract_features(
            classifier.network,
            photos,
            views,
            coarse=False,
            cache=settings.cache,
            threads=settings.threads,
            engine=settings.engine,
            on_bad_file="skip",
            progress=JoinedProgress(settings.progress, total).part(start),
        )
        return np.array(extracted.numbers, dtype=np.int32), extracted.fine.numpy()

    chosen = Samples([samples[number] for number in sorted(gallery)], samples.source)  # which is in this order anyway
    read, query_features = features(chosen, replace(classifier.views, box=box), 0)
    asked = np.argsort(gallery, kind="stable")[read]
    best, which = _none(len(asked))
    seen = 0
    for start in range(0, len(train), _ROWS):
        numbers, others = features(train[start : start + _ROWS], classifier.views, len(gallery) + start)
        seen += len(numbers)
        best, which = _nearest(best, which, query_features, others, numbers + np.int32(start))
    if not len(asked) or not seen:
        what = "training photos" if len(asked) else "evaluated photos"
        notes.append(f"Similar training photos are left out: the {what} cannot be read any more.")
        return None
    if seen < len(train):
        notes.append(f"Similar photos were looked for among {seen:,} of the {len(train):,} training photos.")
    far, nothing = _none(len(gallery))  # a photo that cannot be read any more has none
    far[asked], nothing[asked] = best, which
    return Similar(nothing, np.where(nothing < 0, np.float32(np.nan), far))


def _none(count: int) -> tuple[Matrix, NDArray[np.int32]]:
    """The result before any photo is found: number -1, infinitely far."""
    return np.full((count, SIMILAR), np.inf, dtype=np.float32), np.full((count, SIMILAR), -1, dtype=np.int32)


def _nearest(
    best: Matrix, which: NDArray[np.int32], features: Matrix, others: Matrix, numbers: NDArray[np.int32]
) -> tuple[Matrix, NDArray[np.int32]]:
    """The nearest photos so far, updated by some more; the first among equals."""
    squares = _squares(features)[:, None] + _squares(others)
    distance = np.sqrt(np.maximum(squares - 2.0 * (features @ others.T), 0.0)).astype(np.float32)
    all_distances = np.concatenate([best, distance], axis=1)
    all_numbers = np.concatenate([which, np.broadcast_to(numbers, distance.shape)], axis=1)
    order = np.argsort(all_distances, axis=1, kind="stable")[:, :SIMILAR]
    return np.take_along_axis(all_distances, order, axis=1), np.take_along_axis(all_numbers, order, axis=1)


def _squares(rows: Matrix) -> NDArray[np.float64]:
    """The squared length of each row."""
    lengths: NDArray[np.float64] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return lengths
