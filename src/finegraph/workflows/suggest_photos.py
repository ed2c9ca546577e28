"""Which unlabelled photos to label next, so that a model gets better soonest."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from finegraph.errors import InputError
from finegraph.files.durable import reason_of, write_over
from finegraph.graph.formats.cells import text_only
from finegraph.model import PhotoClassifier
from finegraph.model.features.photos import photo_inputs
from finegraph.model.teaching.next_photos import next_photos
from finegraph.model.teaching.taught_photos import scaled_features
from finegraph.workflows.predict import photos_of

_AT_ONCE = 32


@dataclass(frozen=True)
class SuggestedPhoto:
    """A photo to label.

    Attributes:
        path: the file.
        guess: what the model holds it for.
        probability: how probable that is.
        gain: the share of the doubt about class means that labelling it, after those before it, is expected to remove.
        alike: the photo before it that it looks nearly like; None for the first of its like.
    """

    path: str
    guess: str
    probability: float
    gain: float
    alike: str | None

    def to_dict(self) -> dict[str, Any]:
        """The suggestion as JSON can hold it."""
        return dict(vars(self))


def suggest_photos(
    model: str | os.PathLike[str],
    photos: Sequence[str | os.PathLike[str]],
    *,
    count: int = 20,
    progress: Callable[[int, int], None] | None = None,
) -> list[SuggestedPhoto]:
    """The photos to label next, the most telling first.

    Args:
        model: a model folder or a run folder; its head must have been fitted in closed form.
        photos: unlabelled photos, or folders of them.
        count: how many to suggest.
        progress: called with how many of how many photos are done.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        InputError: the model has no statistics, or the count is wrong.
        DataError: a photo cannot be read, or there is none.
    """
    if count < 1:
        raise InputError(f"count: expected at least 1, got {count}")
    files = photos_of(photos)
    classifier = PhotoClassifier.load(model)
    statistics = classifier.teaching.current_statistics()
    pipeline, rows = classifier.current_pipeline(), []
    for batch in pipeline.extractor.batches(photo_inputs(files, None), _AT_ONCE):
        rows.append(torch.from_numpy(scaled_features(classifier.network, batch.fine[:, 0])))
        if progress is not None:
            progress(sum(map(len, rows)), len(files))
    features = torch.cat(rows)
    head = classifier.network.head
    with torch.no_grad():
        posterior = head(features.to(head.fine.weight)).tempered(classifier.temperature)
    probs = posterior.log_probs().exp().cpu()
    best = posterior.top(1)
    return [
        SuggestedPhoto(
            files[one.number],
            best[one.number][0].label,
            best[one.number][0].probability,
            one.gain,
            None if one.alike is None else files[one.alike],
        )
        for one in next_photos(classifier.graph, statistics, features, probs, count)
    ]


def write_suggestions(path: Path, suggestions: Sequence[SuggestedPhoto]) -> None:
    """Write suggestions as a CSV file with an empty column for labels.

    Raises:
        InputError: the file cannot be written.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["path", "label", "guess", "probability", "gain", "alike"])
    for one in suggestions:
        names = [text_only(name) for name in (one.path, one.guess, one.alike or "")]
        table.writerow([names[0], "", names[1], f"{one.probability:.4f}", f"{one.gain:.6f}", names[2]])
    try:
        write_over(path, text.getvalue().encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {reason_of(error)}") from error
