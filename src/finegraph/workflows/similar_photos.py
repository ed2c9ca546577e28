"""The training photos that are most like a photo: those whose features are nearest to its own.

Distances are Euclidean. Features come from where they are already: from the training that has just ended, or from the
folder of stored features. They are never computed here; where there are none, a note says so. Cost: one product of the
two matrices; with stored features also one pass over the files of the training photos, by whose content they are found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache as cache_once
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from finegraph.data.samples import Sample, Samples
from finegraph.data.transforms import ViewSettings
from finegraph.model.features import Features
from finegraph.model.features.cache import FeatureCache, default_cache_folder
from finegraph.model.features.keys import photo_key
from finegraph.model.features.work import Source
from finegraph.model.photo_classifier import PhotoClassifier

SIMILAR = 4
"""How many similar training photos are kept of each photo."""
_ROWS = 4096
Cache = str | Literal[False] | None
Matrix = NDArray[np.float32]


class Similar(NamedTuple):
    """For each photo the numbers of the nearest training photos, -1 for none, and how far they are."""

    numbers: NDArray[np.int32]
    distances: Matrix


class TrainingFeatures(NamedTuple):
    """What training has computed.

    Attributes:
        trained: the features of the photos that were trained on, divided by `scale`.
        judged: those of the photos to validate on, as they are.
        scale: by what the features were divided to fit the head.
    """

    trained: Features
    judged: Features
    scale: float


def similar_of_training(known: TrainingFeatures, rows: list[int]) -> Similar:
    """Similar photos by features that are in memory.

    Args:
        known: the features.
        rows: which of the judged photos are asked about.
    """
    asked: Matrix = known.judged.fine[rows].div(known.scale).numpy()
    best, which = _none(len(rows))
    others = known.trained.fine.numpy()
    for start in range(0, len(others), _ROWS):
        part = others[start : start + _ROWS]
        best, which = _nearest(best, which, asked, part, np.arange(start, start + len(part), dtype=np.int32))
    return Similar(which, np.where(which < 0, np.float32(np.nan), best * np.float32(known.scale)))


def similar_of_stored(
    classifier: PhotoClassifier,
    samples: Samples,
    gallery: list[int],
    train: Samples,
    cache: Cache,
    box: bool,
    notes: list[str],
) -> Similar | None:
    """Similar photos by stored features.

    Args:
        classifier: whose features are looked for.
        samples: the photos that were evaluated.
        gallery: the numbers of those that are asked about.
        train: the photos that were trained on.
        cache: where features are stored; None for the folder of the user, False for nowhere.
        box: whether the evaluated photos were cut to their boxes.
        notes: takes in what could not be found.

    Returns:
        None where no features are stored.
    """
    if cache is False:
        notes.append("Similar training photos are left out: the features of this run are not stored.")
        return None
    root = default_cache_folder() if cache is None else Path(cache)
    views = classifier.views
    stored = Source(classifier.network.backbone, views, "centre", root, "auto").cache

    @cache_once
    def of_ten() -> FeatureCache:
        return Source(classifier.network.backbone, views, "ten", root, "auto").cache

    def row_of(key: bytes) -> Matrix | None:
        row = stored.get(key)
        if row is None and (ten := of_ten().get(key)) is not None:
            row = ten[: stored.size]  # the first of ten views is the centre
        return row

    def rows(photos: Mapping[int, Sample], how: ViewSettings) -> tuple[list[int], Matrix]:
        found = {}
        for number, sample in photos.items():
            try:
                row = row_of(photo_key(sample.path.read_bytes(), sample.box if how.box else None))
            except (OSError, ValueError):
                continue
            if row is not None:
                found[number] = row
        return list(found), np.stack(list(found.values())) if found else np.zeros((0, stored.size), np.float32)

    asked, features = rows({number: samples[number] for number in gallery}, replace(views, box=box))
    best, which = _none(len(asked))
    seen = 0
    for start in range(0, len(train) if asked else 0, _ROWS):
        numbers, others = rows(dict(enumerate(train[start : start + _ROWS], start=start)), views)
        seen += len(numbers)
        best, which = _nearest(best, which, features, others, np.array(numbers, dtype=np.int32))
    if not asked:
        notes.append("Similar training photos are left out: the features of the evaluated photos are not stored.")
        return None
    if not seen:
        notes.append("Similar training photos are left out: their features are not stored any more.")
        return None
    if seen < len(train):
        notes.append(f"Similar photos were looked for among {seen:,} of the {len(train):,} training photos.")
    place = {number: row for row, number in enumerate(asked)}
    chosen = [place.get(number, -1) for number in gallery]
    far, nothing = _none(1)
    which, best = np.concatenate([which, nothing]), np.concatenate([best, far])
    return Similar(which[chosen], np.where(which < 0, np.nan, best)[chosen])


def _none(count: int) -> tuple[Matrix, NDArray[np.int32]]:
    """No photo found yet, endlessly far."""
    return np.full((count, SIMILAR), np.inf, dtype=np.float32), np.full((count, SIMILAR), -1, dtype=np.int32)


def _nearest(
    best: Matrix, which: NDArray[np.int32], features: Matrix, others: Matrix, numbers: NDArray[np.int32]
) -> tuple[Matrix, NDArray[np.int32]]:
    """The nearest so far, with some more photos looked at; among equals the first."""
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
