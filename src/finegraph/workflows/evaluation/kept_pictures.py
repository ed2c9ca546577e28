"""Which photos an evaluation keeps pictures of, and how large these are.

    photos      small ones of the evaluated photos, those answered wrongly first
    gallery     close ones of the gallery, and of photos answered wrongly: one of each confusion, then a second one
    training    of the classes that are taken for each other one photo each, then a second one, drawn by a hash
    similar     training photos that are most like those of the gallery

Cost: a few milliseconds per photo.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from finegraph.data.samples import Samples
from finegraph.evaluation.details import Details, draw_order
from finegraph.evaluation.photo_pack import (
    CLOSE_BYTES,
    CLOSE_LOOKS,
    SMALL_BYTES,
    SMALL_LOOKS,
    TRAINING_BYTES,
    TRAINING_LOOKS,
    Pack,
    fitting_look,
    pack_photos,
)
from finegraph.evaluation.sample_results import SampleResults
from finegraph.graph import LabelGraph

MAX_PICTURES = 10_000
"""The largest number of photos that are kept as small pictures; wrong answers come first."""
MAX_PER_LABEL = 4
"""How many training photos of a class are kept."""


class TrainingPictures(NamedTuple):
    """Training photos of classes that are taken for each other: their numbers, and the pictures by their place."""

    numbers: list[int]
    pack: Pack


def evaluated_pictures(
    samples: Samples, details: Details, results: SampleResults, box: bool, threads: int | None, notes: list[str]
) -> dict[str, Pack]:
    """Small pictures of the photos, and close ones of the gallery and of those answered wrongly."""
    numbers = results.sample.tolist()
    wrong = _confused_in_turns(results)
    if len(numbers) > MAX_PICTURES:
        numbers = sorted([*wrong, *sorted(set(numbers) - set(wrong))][:MAX_PICTURES])
        notes.append(f"Small pictures are kept of {MAX_PICTURES:,} of the {len(results.sample):,} photos.")
    close = fitting_look([samples[number] for number in wrong], CLOSE_LOOKS, CLOSE_BYTES, box=box)
    shown_close = wrong[: close.room]
    others = [samples[number] for number in sorted(set(numbers) - set(shown_close))]
    small = fitting_look(others, SMALL_LOOKS, SMALL_BYTES, box=box)
    wanted = {
        "photos": {number: samples[number] for number in numbers},
        "gallery": {number: samples[number] for number in dict.fromkeys([*details.gallery.tolist(), *shown_close])},
    }
    return pack_photos(wanted, looks={"photos": small.look, "gallery": close.look}, box=box, threads=threads)


def training_pictures(
    train: Samples, graph: LabelGraph, results: SampleResults, box: bool, threads: int | None
) -> TrainingPictures:
    """Pictures of training photos of the classes that are taken for each other."""
    wrong = results.right == 0
    mistakes = np.bincount(results.fine[wrong], minlength=len(graph))
    mistakes += np.bincount(results.predicted[wrong], minlength=len(graph))
    number_of = {graph.fine[label]: int(label) for label in np.flatnonzero(mistakes)}
    rows = [row for row, sample in enumerate(train) if sample.label in number_of]
    drawn = [rows[place] for place in np.argsort(draw_order([os.fspath(train[row].path) for row in rows])).tolist()]
    labels = np.array([number_of[train[row].label or ""] for row in drawn], dtype=np.int64)
    turn = _turns(labels)
    order = np.lexsort((labels, -mistakes[labels], turn))
    numbers = [drawn[place] for place in order.tolist() if turn[place] < MAX_PER_LABEL]
    fit = fitting_look([train[number] for number in numbers], TRAINING_LOOKS, TRAINING_BYTES, box=box)
    kept = numbers[: fit.room]
    chosen = {place: train[number] for place, number in enumerate(kept)}
    packs = pack_photos({"training": chosen}, looks={"training": fit.look}, box=box, threads=threads)
    return TrainingPictures(kept, packs["training"])


def _confused_in_turns(results: SampleResults) -> list[int]:
    """The numbers of the photos answered wrongly: one of each confusion, then a second one, and so on.

    Within a turn, photos whose label was least probable come first.
    """
    rows = np.flatnonzero(results.right == 0)
    rows = rows[np.argsort(results.log_prob[rows], kind="stable")]
    pairs = results.fine[rows].astype(np.int64) << 32 | results.predicted[rows]
    order = np.argsort(_turns(pairs), kind="stable")
    return [int(number) for number in results.sample[rows[order]]]


def _turns(groups: NDArray[np.integer]) -> NDArray[np.int64]:
    """For each place, how many places before it belong to the same group."""
    order = np.argsort(groups, kind="stable")
    sizes = np.unique(groups, return_counts=True)[1]
    turns = np.empty(len(groups), dtype=np.int64)
    turns[order] = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return turns
