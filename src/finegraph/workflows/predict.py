"""Asking a trained model about photos.

A plain function from names to a dataclass; nothing is printed here. What is known beside the photos may be given as
text, `kind=label`, the same kind several times for "one of these".
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from finegraph.data.photo_decoding import open_photo
from finegraph.errors import DataError, InputError, PhotoFileError, UnknownNameError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.graph.builders.folders import is_photo, passed_over
from finegraph.graph.formats.cells import text_only
from finegraph.graph.formats.text_file import write_text
from finegraph.graph.group_names import is_found
from finegraph.inference.evidence import FINE, is_label_range, log_likelihood
from finegraph.inference.numbers.known_values import known_values
from finegraph.model import PhotoClassifier, Prediction
from finegraph.model.answering.predictions import QUANTILES
from finegraph.training.distributed import Ranks, joined_ranks

_CONDITION = re.compile("<=|>=|[<>≤≥=]")
_OF_ORDER = re.compile("[<>≤≥]=? *(?!this$)")


@dataclass(frozen=True, kw_only=True)
class PredictionResult:
    """The predictions of some photos.

    Attributes:
        model: the folder, as it was given.
        given: what was known beside the photos: per kind, the labels one of which it is.
        views: how many views of each photo were averaged.
        predictions: of the photos that could be read, in the order in which they were named.
        bad: the photos that could not be read.
        groups: the fine labels of those sure answers that are groups which photos gave, by kind and label.
    """

    model: str
    given: dict[str, tuple[str, ...]]
    views: int
    predictions: tuple[Prediction, ...]
    bad: tuple[PhotoFileError, ...]
    groups: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON data."""
        return {
            "model": self.model,
            "given": {kind: list(labels) for kind, labels in self.given.items()},
            "views": self.views,
            "photos": [prediction.to_dict() for prediction in self.predictions],
            "bad": [{"photo": error.path, "reason": error.reason} for error in self.bad],
            "groups": [
                {"kind": kind, "label": label, "fine": list(fine)} for (kind, label), fine in self.groups.items()
            ],
        }


def predict_photos(
    model: str | os.PathLike[str],
    photos: Sequence[str | os.PathLike[str]],
    *,
    given: Sequence[str] = (),
    views: Literal[1, 10] = 1,
    top: int = 5,
    risk: float = 0.05,
    questions: int = 3,
    on_bad_file: Literal["error", "skip"] = "error",
    progress: Callable[[int, int], None] | None = None,
) -> PredictionResult | None:
    """Ask a model about photos.

    In a job of several processes, such as torchrun starts, each asks about its share of the photos; the first has all
    answers, and the others get None.

    Args:
        model: a model folder or a run folder.
        photos: files; of a folder, all photos in it are taken.
        given: what is known of all of them, as `kind=label`; see `parse_given`.
        views: 1 for the centre of each photo, 10 for the average over ten views.
        top: how many labels to list.
        risk: how often the sure answer may be wrong.
        questions: how many questions to offer that would help most; 0 for none.
        on_bad_file: whether a photo that cannot be read ends it all ("error") or is left out and listed ("skip").
        progress: called with the number of photos done and the total.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        DataError: a photo that cannot be read, or no photo at all.
        InputError: an argument is wrong.
    """
    files = photos_of(photos)
    with joined_ranks() as ranks:
        shared = {files[number]: number for number in reversed(ranks.share(range(len(files))))}
        local_files = [files[number] for number in ranks.share(range(len(files)))]
        if on_bad_file == "error":
            _raise_first(_missing(local_files), shared, ranks)  # a mistyped name shows at once
        classifier = PhotoClassifier.load(model)
        evidence = parse_given(classifier.graph, given)
        answers: Sequence[Prediction | PhotoFileError] = ()
        fault = None
        try:
            answers = classifier.predict(
                local_files,
                given=evidence_of(classifier.graph, evidence),
                views=views,
                top=top,
                risk=risk,
                questions=questions,
                on_bad_file=on_bad_file,
                progress=_progress_of_all(progress, len(files), ranks),
            )
        except PhotoFileError as error:
            fault = error
        _raise_first(fault, shared, ranks)
        parts = ranks.gather_first(answers)
    if parts is None:
        return None
    in_order = [parts[number % len(parts)][number // len(parts)] for number in range(len(files))]
    predictions = tuple(answer for answer in in_order if isinstance(answer, Prediction))
    bad = tuple(answer for answer in in_order if isinstance(answer, PhotoFileError))
    if not predictions:
        raise DataError(
            f"none of {len(bad)} photos could be read; the first is {bad[0]}" if len(bad) > 1 else str(bad[0])
        )
    return PredictionResult(
        model=os.fspath(model),
        given=evidence,
        views=views,
        predictions=predictions,
        bad=bad,
        groups=_sure_groups(classifier.graph, predictions),
    )


def _sure_groups(graph: LabelGraph, predictions: Sequence[Prediction]) -> dict[tuple[str, str], tuple[str, ...]]:
    """The fine labels of sure answers that are groups which photos gave."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for sure in (prediction.sure for prediction in predictions):
        if sure is None or sure.kind not in graph.kinds or not is_found(sure.kind):
            continue
        kind = graph.kind(sure.kind)
        if (kind.name, sure.label) not in found and sure.label in kind.labels:
            rows = np.flatnonzero(kind.matrix()[:, kind.labels.index(sure.label)])
            found[kind.name, sure.label] = tuple(graph.fine[row] for row in rows.tolist())
    return found


def _missing(files: Sequence[str]) -> PhotoFileError | None:
    """The error of the first file that cannot be opened."""
    for file in files:
        try:
            open_photo(file).close()
        except PhotoFileError as error:
            return error
    return None


def _raise_first(fault: PhotoFileError | None, numbers: Mapping[str, int], ranks: Ranks) -> None:
    """Raise in all processes the error of the first photo that cannot be read in any of them.

    Args:
        fault: the error of this process.
        numbers: the place of each of its photos among all.
        ranks: this process among the others.
    """
    found = ranks.gather(None if fault is None else (numbers[fault.path], fault))
    faults = dict(one for one in found if one is not None)
    if faults:
        raise faults[min(faults)]


def _progress_of_all(
    progress: Callable[[int, int], None] | None, count: int, ranks: Ranks
) -> Callable[[int, int], None] | None:
    """The progress in the first process; the others are about as far."""
    if progress is None or not ranks.first:
        return None
    return lambda done, _: progress(min(done * ranks.size, count), count)


def write_predictions(result: PredictionResult, path: str | os.PathLike[str]) -> None:
    """Write predictions as a CSV file with a row per photo; see `predictions_csv`.

    Args:
        result: the predictions.
        path: the file; an existing one is replaced.

    Raises:
        GraphFileError: the file cannot be written.
    """
    write_text(os.fspath(path), predictions_csv(result))


def predictions_csv(result: PredictionResult) -> str:
    """Predictions as CSV text with a row per photo.

    It has the best fine label and its probability, the sure answer with its own, then for each kind the best label and
    its probability, and for each number the mean, the spread and the quantiles of 5, 50 and 95 %.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    first = result.predictions[0]
    header = ["photo", "label", "probability", "sure", "sure probability"]
    header += [column for kind in first.kinds for column in (kind, f"{kind} probability")]
    for name, number in first.numbers.items():
        unit = f" [{number.unit}]" if number.unit else ""
        header += [f"{name}{unit}", f"{name} spread", *(f"{name} {100 * q:g} %" for q in QUANTILES)]
    writer.writerow([text_only(cell) for cell in header])
    for one in result.predictions:
        sure = one.sure
        row: list[str | float] = [one.photo, one.top[0].label, one.top[0].probability]
        row += ["", ""] if sure is None else [str(sure), sure.probability]
        row += [cell for answers in one.kinds.values() for cell in answers[0]]
        for number in one.numbers.values():
            row += [number.mean, number.spread, *number.quantiles]
        writer.writerow([f"{cell:.6g}" if isinstance(cell, float) else text_only(cell) for cell in row])
    return text.getvalue().encode("utf-8", "backslashreplace").decode("utf-8")


def photos_of(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The photos that are named: files as they are, and of each folder the photos in it, in the order of their names.

    Raises:
        DataError: a folder without photos, or nothing at all.
    """
    photos = []
    for path in paths:
        if not os.path.isdir(path):
            photos.append(os.fspath(path))
            continue
        with os.scandir(path) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
        names = sorted(entry.name for entry in visible if is_photo(entry))
        if not names:
            others = "".join(f"; {note}" for note in passed_over(entry.name for entry in visible if not entry.is_dir()))
            raise DataError(
                f"{os.fspath(path)}: expected a photo or a folder of photos, got a folder without photos{others}"
            )
        photos += [os.path.join(path, name) for name in names]
    if not photos:
        raise DataError("expected at least one photo, got none")
    return photos


def parse_given(graph: LabelGraph, texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What is known, from texts like `restaurant=B`; `fine=...` is the fine label itself.

    The same kind several times means one of its labels; of several limits of one kind or number all hold. Everything
    after the kind belongs to the label, also commas and further equals signs. Of a number a value, a range or a limit
    is known, as in `price=10..15`, `year=2012 +- 2` and `price<=15`; of an ordered kind also a limit or a range,
    `heat>=medium` and `heat=mild..medium`, which stands for the labels that it leaves.

    Raises:
        InputError: a text that is not of this form, or can be read in two ways; all such texts at once.
        UnknownNameError: a kind or a label that the graph does not have.
    """
    labels_by_kind: dict[str, tuple[str, ...]] = {}
    faults: list[InputError] = []
    for text in joined_limits(graph, texts):
        try:
            _add_given(graph, text, labels_by_kind)
        except InputError as error:
            faults.append(error)
    if len(faults) > 1:
        raise InputError("\n".join(map(str, faults)))
    if faults:
        raise faults[0]
    return labels_by_kind


def _add_given(graph: LabelGraph, text: str, labels_by_kind: dict[str, tuple[str, ...]]) -> None:
    """Add what one text says to what the texts before it said."""
    limit = name_and_condition(graph, text)
    if limit is not None and limit[0] in graph.numbers:
        name, condition = limit
        condition = " and ".join(dict.fromkeys((*labels_by_kind.get(name, ()), condition)))
        known_values(graph.number(name), condition, 1)  # raises for what is not a value
        labels_by_kind[name] = (condition,)
        return
    if limit is None:
        kind, label = _kind_and_label(graph, text)
        labels: tuple[str, ...] = (label,)
    else:
        kind, labels = limit[0], labels_of_range(graph, *limit)
    labels_by_kind[kind] = tuple(dict.fromkeys((*labels_by_kind.get(kind, ()), *labels)))


def evidence_of(graph: LabelGraph, given: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """What `parse_given` found as `Posterior.given` takes it: one of several labels, and the text of a number."""
    return {name: labels[0] if name in graph.numbers else set(labels) for name, labels in given.items()}


def name_and_condition(graph: LabelGraph, text: str) -> tuple[str, str] | None:
    """A number or an ordered kind and what is known of it; None if the text is of neither."""
    for match in _CONDITION.finditer(text):
        name, sign, rest = text[: match.start()].rstrip(), match[0], text[match.end() :].strip()
        if name in graph.numbers:
            return name, rest if sign == "=" else f"{sign} {rest}"
        if name in graph.kinds and graph.kind(name).ordered:
            if sign != "=":
                return name, f"{sign} {rest}"
            if is_label_range(graph.labels(name), rest) or (rest[:1] in "<>≤≥" and rest not in graph.labels(name)):
                return name, rest
    return None


def joined_limits(graph: LabelGraph, texts: Sequence[str]) -> list[str]:
    """The texts, with all limits of one ordered kind as one range: `heat>=medium` and `heat<=medium` as `heat=medium`.

    Raises:
        InputError: no label is within all limits of a kind.
    """
    limits: dict[str, list[str]] = {}
    others: list[str] = []
    for text in texts:
        found = name_and_condition(graph, text)
        is_limit = found is not None and found[0] in graph.kinds and _OF_ORDER.match(found[1]) is not None
        (limits.setdefault(found[0], []) if found is not None and is_limit else others).append(text)
    for kind, own in limits.items():
        if len(own) == 1:
            others += own
            continue
        conditions = [found[1] for text in own if (found := name_and_condition(graph, text)) is not None]
        left = [labels_of_range(graph, kind, condition) for condition in conditions]
        labels = [label for label in graph.labels(kind) if all(label in part for part in left)]
        if not labels:
            raise InputError(f"{' and '.join(map(repr, own))}: no label of {kind!r} is within both limits")
        others += [f"{kind}={label}" for label in labels]
    return others


def labels_of_range(graph: LabelGraph, kind: str, condition: str) -> tuple[str, ...]:
    """The labels of an ordered kind that a limit or a range leaves."""
    possible = log_likelihood(graph, kind, condition, 1)[0].isfinite().tolist()
    labels = graph.labels(kind)
    return tuple(label for label, is_left in zip(labels, possible, strict=True) if is_left)


def _kind_and_label(graph: LabelGraph, text: str) -> tuple[str, str]:
    """The kind and the label of one text. Both may hold equals signs, so every place to part it is tried."""
    places = [place for place, character in enumerate(text) if character == "="]
    sign = _CONDITION.search(text)
    if not places and sign is not None:
        raise _unknown_kind(graph, text[: sign.start()].strip(), text[sign.end() :].strip())
    if not places:
        example = f"{graph.kinds[0]}={graph.labels(graph.kinds[0])[0]}" if graph.kinds else f"fine={graph.fine[0]}"
        condition = f", or a condition on a number, such as '{graph.numbers[0]}<=15'" if graph.numbers else ""
        raise InputError(f"given {text!r}: expected kind=label, such as {example!r}{condition}")
    parts = [(text[:place], text[place + 1 :]) for place in places]
    known = [(kind, label) for kind, label in parts if kind == FINE or kind in graph.kinds]
    good = [(kind, label) for kind, label in known if label in _labels(graph, kind)]
    if len(good) == 1:
        return good[0]
    if good:
        ways = " or ".join(f"kind {kind!r}, label {label!r}" for kind, label in good)
        raise InputError(f"given {text!r}: it can be read in two ways, {ways}; ask in Python, where there is no doubt")
    if known:
        kind, label = known[-1]
        raise _unknown_label(graph, kind, label)
    raise _unknown_kind(graph, parts[0][0].rstrip("<>≤≥ "), parts[0][1])


def without_order(graph: LabelGraph, kind: str) -> InputError:
    """The error of a limit of a kind whose labels have no order."""
    example = f"{kind}={_labels(graph, kind)[0]}"
    return InputError(f"the labels of {kind!r} have no order, so there is no limit of them; write {example!r}")


def _labels(graph: LabelGraph, kind: str) -> tuple[str, ...]:
    return graph.fine if kind == FINE else graph.labels(kind)


def _unknown_label(graph: LabelGraph, kind: str, label: str) -> UnknownNameError:
    labels = _labels(graph, kind)
    several = [part.strip() for part in label.split(",")]
    if len(several) > 1 and all(part in labels for part in several):
        each = " and ".join(repr(f"{kind}={part}") for part in several)
        return UnknownNameError(f"unknown label {label!r} of kind {kind!r}; for one of several labels, give {each}")
    return (
        unknown_name("fine label", label, labels)
        if kind == FINE
        else unknown_name("label", label, labels, f"of kind {kind!r}")
    )


def _unknown_kind(graph: LabelGraph, kind: str, label: str) -> InputError:
    inner = f"{kind}: {label}"
    if inner in graph.kinds:  # a part of a group, such as an ingredient
        return UnknownNameError(f"unknown kind {kind!r}; did you mean {inner + '=yes'!r}?")
    if kind in graph.kinds or kind == FINE:
        return without_order(graph, kind)
    return unknown_name("kind", kind, (*graph.kinds, *graph.numbers, FINE))
