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

from finegraph.errors import DataError, InputError
from finegraph.files.durable import reason_of, write_over
from finegraph.graph.formats.cells import text_only, without_mark
from finegraph.model import PhotoClassifier
from finegraph.model.features.photos import photo_inputs
from finegraph.model.teaching.next_photos import next_photos
from finegraph.model.teaching.taught_photos import photo_digest, scaled_features
from finegraph.workflows.predict import photos_of

_AT_ONCE = 32


@dataclass(frozen=True)
class SuggestedPhoto:
    """A photo to label.

    Attributes:
        path: the file.
        guess: what the model takes it for.
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
        """The suggestion as JSON data."""
        return dict(vars(self))


def suggest_photos(
    model: str | os.PathLike[str],
    photos: Sequence[str | os.PathLike[str]],
    *,
    count: int = 20,
    progress: Callable[[int, int], None] | None = None,
) -> list[SuggestedPhoto]:
    """The photos to label next, the most telling first; those that the model was taught already are left out.

    Args:
        model: a model folder or a run folder; its head must have been fitted in closed form.
        photos: unlabelled photos, or folders of them.
        count: how many to suggest.
        progress: called with how many of how many photos are done.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        InputError: the model has no statistics, or the count is wrong.
        DataError: a photo cannot be read, or there is none that was not taught.
    """
    if count < 1:
        raise InputError(f"count: expected at least 1, got {count}")
    classifier = PhotoClassifier.load(model)
    files = _not_taught(photos_of(photos), classifier)
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


def _not_taught(files: Sequence[str], classifier: PhotoClassifier) -> list[str]:
    """The files that no lesson is about."""
    known = {photo.sha256 for lesson in classifier.lessons if not lesson.forgotten for photo in lesson.photos}
    left = [file for file in files if not known or photo_digest(file) not in known]
    if not left:
        raise DataError(f"expected photos to label, but the model was taught all {len(files)} of these already")
    return left


def read_photo_list(path: str | os.PathLike[str]) -> list[Path]:
    """The photos of a file that `write_suggestions` wrote, or of any CSV file with a column `path`, in their order.

    Args:
        path: the file. Paths in it hold from the working folder, or else from the folder of the file.

    Raises:
        DataError: it cannot be read, or names no photo.
    """
    place = Path(path)
    try:
        with place.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            rows = csv.DictReader(file)
            if "path" not in (rows.fieldnames or ()):
                raise DataError(f"{place}: expected a CSV file with a column path, as suggest-photos -o writes it")
            named = [Path(without_mark(row["path"])) for row in rows if row["path"]]
    except OSError as error:
        raise DataError(f"{place}: cannot be read: {reason_of(error)}") from error
    except csv.Error as error:
        raise DataError(f"{place}: expected a CSV file: {error}") from error
    if not named:
        raise DataError(f"{place}: expected a photo in each line, got none")
    return [path if path.exists() else place.parent / path for path in named]


def write_suggestions(path: Path, suggestions: Sequence[SuggestedPhoto]) -> None:
    """Write suggestions as a CSV file with an empty column for labels.

    Raises:
        InputError: the file cannot be written.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["path", "label", "guess", "probability", "gain", "alike"])
    for suggestion in suggestions:
        names = [text_only(name) for name in (suggestion.path, suggestion.guess, suggestion.alike or "")]
        table.writerow([names[0], "", names[1], f"{suggestion.probability:.4f}", f"{suggestion.gain:.6f}", names[2]])
    try:
        write_over(path, text.getvalue().encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {reason_of(error)}") from error
