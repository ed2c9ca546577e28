"""Which unlabelled photos to label next, so that a model gets better soonest."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.errors import DataError, InputError, PhotoFileError
from finegraph.files.durable import reason_of, write_over
from finegraph.graph.formats.cells import text_only, without_mark
from finegraph.inference import Posterior
from finegraph.model import PhotoClassifier
from finegraph.model.features.photos import OnBadFile, photo_inputs
from finegraph.model.teaching.next_photos import doubt_of, doubtful_labels, next_photos
from finegraph.model.teaching.taught_photos import photo_digest, scaled_features
from finegraph.workflows.predict import photos_of

COLUMNS = ("path", "label", "guess", "probability", "gain", "alike")
"""The columns of a list of suggestions."""
_AT_ONCE = 32
_MAX_PROBS = 1 << 24
"""How many probabilities of photos and fine labels are held at a time."""


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


@dataclass(frozen=True, kw_only=True)
class Suggestions:
    """The photos to label next, the most telling first, and those that could not be read."""

    photos: tuple[SuggestedPhoto, ...]
    bad: tuple[PhotoFileError, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The suggestions as JSON data."""
        return {
            "photos": [suggestion.to_dict() for suggestion in self.photos],
            "bad": [{"photo": error.path, "reason": error.reason} for error in self.bad],
        }


def suggest_photos(
    model: str | os.PathLike[str],
    photos: Sequence[str | os.PathLike[str]],
    *,
    count: int = 20,
    on_bad_file: OnBadFile = "error",
    output: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Suggestions:
    """The photos to label next, the most telling first; those that the model was taught already are left out.

    Args:
        model: a model folder or a run folder; its head must have been fitted in closed form.
        photos: unlabelled photos, or folders of them.
        count: how many to suggest.
        on_bad_file: whether a photo that cannot be read ends it all ("error") or is left out and listed ("skip").
        output: the list that suggestions will be written to; photos of its `filled_rows` are left out.
        progress: called with how many of how many photos are done.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        InputError: the model has no statistics, the count is wrong, or `filled_rows` refuses the list.
        DataError: a photo cannot be read, or there is none that was not taught and has no label.
    """
    if count < 1:
        raise InputError(f"count: expected at least 1, got {count}")
    filled = filled_rows(output) if output is not None else ()
    classifier = PhotoClassifier.load(model)
    statistics = classifier.teaching.current_statistics()
    files = _not_taught(photos_of(photos), classifier)
    if output is not None and filled:
        files = _without_label(files, output, filled)
    pipeline, rows, read = classifier.current_pipeline(), [], []
    bad: list[PhotoFileError] = []
    inputs = photo_inputs(files, None)
    for batch in pipeline.extractor.batches(inputs, _AT_ONCE, on_bad_file=on_bad_file, progress=progress):
        rows.append(torch.from_numpy(scaled_features(classifier.network, batch.fine[:, 0])))
        read += [files[number] for number in batch.numbers]
        bad += batch.bad.values()
    if not read:
        raise DataError(f"expected photos to label, but none of these {len(files)} can be read; the first: {bad[0]}")
    features = torch.cat(rows)
    best, doubt = [], torch.zeros(len(classifier.graph), dtype=torch.float64)
    for posterior in _posteriors(classifier, features):
        best += [answers[0] for answers in posterior.top(1)]
        doubt += doubt_of(posterior.log_probs().exp().double().cpu())
    labels = doubtful_labels(doubt)
    columns = slice(None) if labels is None else labels
    probs = torch.cat([one.log_probs()[:, columns].exp().cpu() for one in _posteriors(classifier, features)])
    found = next_photos(classifier.graph, statistics, features, probs, count, labels)
    suggestions = [
        SuggestedPhoto(
            read[one.number],
            best[one.number].label,
            best[one.number].probability,
            one.gain,
            None if one.alike is None else read[one.alike],
        )
        for one in found
    ]
    return Suggestions(photos=tuple(suggestions), bad=tuple(bad))


def _posteriors(classifier: PhotoClassifier, features: Float[Tensor, "batch feature"]) -> Iterator[Posterior]:
    """The posteriors of photos, as many at a time as fit into memory."""
    head = classifier.network.head
    for part in torch.split(features, max(1, _MAX_PROBS // len(classifier.graph))):
        with torch.no_grad():
            posterior = head(part.to(head.fine.weight)).tempered(classifier.temperature)
        yield posterior


def _not_taught(files: Sequence[str], classifier: PhotoClassifier) -> list[str]:
    """The files that no lesson is about; one that cannot be read may be among them."""
    known = {photo.sha256 for lesson in classifier.lessons if not lesson.forgotten for photo in lesson.photos}
    left = [file for file in files if not known or _digest(file) not in known]
    if not left:
        raise DataError(f"expected photos to label, but the model was taught all {len(files)} of these already")
    return left


def _without_label(files: Sequence[str], path: Path, filled: Sequence[Sequence[str]]) -> list[str]:
    """The files that no filled row of a list is about."""
    known = {os.path.abspath(_placed(Path(without_mark(row[0])), path)) for row in filled}
    left = [file for file in files if os.path.abspath(file) not in known]
    if not left:
        raise DataError(
            f"expected photos to label, but all {len(files)} of these have a label in {path} already; teach them "
            f"with finegraph teach RUN --from {path}"
        )
    return left


def _placed(photo: Path, path: Path) -> Path:
    """Where a photo of a list is: from the working folder, or else from the folder of the list."""
    return photo if photo.exists() else path.parent / photo


def _digest(file: str) -> str | None:
    try:
        return photo_digest(file)
    except PhotoFileError:
        return None


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
    return [_placed(photo, place) for photo in named]


def filled_rows(path: Path) -> tuple[tuple[str, ...], ...]:
    """The rows of a list of suggestions in which someone has filled in a label; none if there is no such file.

    Raises:
        InputError: it cannot be read, or it has labels but other columns than a list of suggestions.
    """
    try:
        text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
        first = text.partition("\n")[0]
        sign = max((",", ";", "\t"), key=first.count)  # spreadsheets of some countries save semicolons
        header, *rows = [tuple(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=sign)] or [()]
    except FileNotFoundError:
        return ()
    except (OSError, csv.Error) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: is there already and cannot be read ({reason}); give another file") from error
    names = tuple(name.strip() for name in header)
    if "label" not in names:
        return ()
    place = names.index("label")
    filled = tuple(row for row in rows if len(row) > place and row[place].strip())
    if filled and names != COLUMNS:
        raise InputError(
            f"{path}: {len(filled)} of its rows {'has' if len(filled) == 1 else 'have'} a label, which would be lost, "
            "since its columns are not those of a list of suggestions; give another file, or rename this one"
        )
    return filled


def write_suggestions(path: Path, suggestions: Sequence[SuggestedPhoto]) -> int:
    """Write suggestions as a CSV file with an empty column for labels.

    A list that is there already is replaced, but for the rows in which someone has filled in a label: they stay, below
    the new ones.

    Returns:
        How many filled rows stayed.

    Raises:
        InputError: the file cannot be written, or `filled_rows` refuses what is there.
    """
    filled = filled_rows(path)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for suggestion in suggestions:
        names = [text_only(name) for name in (suggestion.path, suggestion.guess, suggestion.alike or "")]
        table.writerow([names[0], "", names[1], f"{suggestion.probability:.4f}", f"{suggestion.gain:.6f}", names[2]])
    table.writerows(filled)
    try:
        write_over(path, text.getvalue().encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {reason_of(error)}") from error
    return len(filled)
