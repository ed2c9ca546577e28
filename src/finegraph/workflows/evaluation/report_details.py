"""What an evaluation keeps for a report: answers to single photos, small pictures, and facts of the training data.

    RUN/evaluations/NAME/graph.json                the label graph
                         details.json              the model, versions, how many photos it was trained with, notes
                         details.safetensors       arrays of single photos
                         thumbnails.safetensors    small pictures

So a report needs no photo, no model and no network. Pictures are kept in four sets:

    photos      small ones of the evaluated photos, those answered wrongly first
    gallery     close ones of the gallery, and of photos answered wrongly: one of each confusion, then a second one
    training    of the classes that are taken for each other one photo each, then a second one, drawn by a hash
    similar     training photos that are most like those of the gallery

Cost: a few milliseconds per photo for its small pictures, and the search for similar training photos; see
indexing/similar_photos.py.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped
from numpy.typing import NDArray

from finegraph._version import __version__
from finegraph.data.dataset import MISSING, targets_of
from finegraph.data.samples import Sample, Samples
from finegraph.data.splits import DEFAULT_VAL
from finegraph.errors import FinegraphError
from finegraph.evaluation.details import Details, draw_order
from finegraph.evaluation.photo_evaluation import CALIBRATION
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
from finegraph.files.durable import synced_file, write_all
from finegraph.graph import LabelGraph
from finegraph.graph.formats.text_file import write_text
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.training.settings import TrainSettings
from finegraph.workflows.indexing.similar_photos import (
    FeatureSettings,
    Similar,
    TrainingFeatures,
    similar_of_photos,
    similar_of_training,
)
from finegraph.workflows.labels.graph_sources import is_store, labels_of_run, source_folder
from finegraph.workflows.training.held_out import parts_of_run
from finegraph.workflows.training.training_data import TrainingData, photos_digest, read_training_data

FORMAT, VERSION = "finegraph.evaluation.details", 1
BAD_TRAINING = "bad_training_photos"
"""Among the facts of a model: the training photos that could not be read, each with the reason."""
PHOTOS_DIGEST = "photos_digest"
"""Among the facts of a model: what identifies the list of its training photos; see `photos_digest`."""
MAX_PICTURES = 10_000
"""The largest number of photos that are kept as small pictures; wrong answers come first."""
MAX_PER_LABEL = 4
"""How many training photos of a class are kept."""


@dataclass(frozen=True, kw_only=True)
class FoundDetails:
    """The details that are written beside the metrics: JSON values, arrays, and sets of pictures by name."""

    about: dict[str, Any]
    arrays: dict[str, Shaped[NDArray[Any], " ..."]]
    pictures: dict[str, Pack]


def gather_details(
    classifier: PhotoClassifier,
    details: Details,
    results: SampleResults,
    samples: Samples,
    *,
    settings: TrainSettings | None,
    features: FeatureSettings | None,
    box: bool,
    source: str | None = None,
    threads: int | None = None,
    run: Path | None = None,
    data: TrainingData | None = None,
    known: TrainingFeatures | None = None,
) -> FoundDetails:
    """Everything that a report needs beside the metrics.

    Args:
        classifier: what was evaluated.
        details: what was collected of single photos.
        results: what was answered.
        samples: the photos that were evaluated.
        settings: of the run; None if the model is in none.
        features: where the features of training photos come from; None if they are known.
        box: whether photos were cut to their boxes.
        source: where the photos that were evaluated come from.
        threads: how many threads make pictures.
        run: the folder of the run, with its own copy of what a label store said.
        data: the photos that the model was trained and validated on; by default they are listed again, as the settings
            say. Those that could not be read then are left out.
        known: the features of both, where training has just computed them.
    """
    notes: list[str] = []
    if data is None:
        data = run_photos(settings, run, notes)
        if data is not None:
            notes += _changed(classifier.about, data.train)
    bad = classifier.about.get(BAD_TRAINING, {})
    train = None if data is None else data.train.only(lambda sample: os.fspath(sample.path) not in bad)
    if known is not None:
        train = known.trained.samples
    if settings is not None and data is not None and data.val is not None:
        notes += _chosen_by(settings, classifier.about, samples, data.val)
    arrays = {**results.arrays(), **details.arrays()}
    similar = _similar(
        classifier, details, results, samples, train, features=features, known=known, box=box, notes=notes
    )
    used: list[int] = []
    if similar is not None:
        used = sorted(set(similar.numbers[similar.numbers >= 0].tolist()))
        places = np.full(max(used, default=0) + 2, -1, dtype=np.int32)  # the last one is for "no photo", -1
        places[used] = np.arange(len(used), dtype=np.int32)
        arrays |= {"similar": places[similar.numbers], "similar_distances": similar.distances}
    pictures = evaluated_pictures(samples, details, results, box, threads, notes)
    shown: list[int] = []
    if train is not None:
        chosen = {place: train[number] for place, number in enumerate(used)}
        pictures |= pack_photos({"similar": chosen}, box=classifier.views.box, threads=threads)
        shown, pictures["training"] = training_pictures(train, classifier.graph, results, classifier.views.box, threads)
    about = {
        "format": FORMAT,
        "version": VERSION,
        "model": _model_parts(classifier),
        **_variances(classifier),
        "versions": _versions(),
        "training": None if train is None else _training_counts(train, classifier.graph, notes),
        "source_folder": None if source is None else os.fspath(source_folder(source).absolute()),
        "photos": [os.fspath(sample.path) for sample in samples],
        "bad_training_photos": [{"path": path, "reason": reason} for path, reason in bad.items()],
        "similar": None if train is None else [_named(train[number]) for number in used],
        "training_photos": [_named(train[number]) for number in shown] if train is not None else [],
        "notes": notes,
    }
    return FoundDetails(about=about, arrays=arrays, pictures=pictures)


def _similar(
    classifier: PhotoClassifier,
    details: Details,
    results: SampleResults,
    samples: Samples,
    train: Samples | None,
    *,
    features: FeatureSettings | None,
    known: TrainingFeatures | None,
    box: bool,
    notes: list[str],
) -> Similar | None:
    """The training photos most like those of the gallery; None if nothing is known of their features.

    Args:
        classifier: what was evaluated.
        details: what was collected of single photos.
        results: what was answered.
        samples: the photos that were evaluated.
        train: the photos that the model was trained on; None if they are not known.
        features: where the features of training photos come from.
        known: these features, where training has just computed them.
        box: whether photos were cut to their boxes.
        notes: what the report says about missing parts; it may get more.
    """
    gallery = details.gallery.tolist()
    if known is not None:
        rows = {number: row for row, number in enumerate(results.sample.tolist())}
        return similar_of_training(known, [rows[number] for number in gallery])
    if train is None or features is None:
        return None
    try:
        return similar_of_photos(classifier, samples, gallery, train, box=box, notes=notes, settings=features)
    except KeyboardInterrupt:  # Ctrl-C: this may take long, and everything else is done
        notes.append("Similar training photos are left out: looking for them was stopped.")
        return None


def _model_parts(classifier: PhotoClassifier) -> dict[str, Any]:
    """What the model consists of."""
    design = classifier.network.design
    return {
        "network": design.network,
        "coarse_network": design.coarse_network,
        "head": design.head,
        "temperature": classifier.temperature,
    }


def _variances(classifier: PhotoClassifier) -> dict[str, Any]:
    """By how much class means differ along each kind and number, and by themselves; nothing of heads without them."""
    if classifier.statistics is None:
        return {}
    variances = classifier.statistics.variances
    numbers = {"numbers": dict(variances.numbers)} if variances.numbers else {}
    return {"variances": {"kinds": dict(variances.kinds), "own": variances.own, **numbers}}


def write_details(folder: Path, details: FoundDetails, graph: LabelGraph) -> None:
    """Write all of it into the folder of an evaluation.

    Raises:
        OSError: a file cannot be written.
        GraphFileError: the same of the graph or the JSON file.
    """
    from safetensors.numpy import save

    graph.write(folder / "graph.json")
    text = json.dumps(details.about, allow_nan=False, ensure_ascii=False) + "\n"
    write_text(str(folder / "details.json"), text.encode("utf-8", "backslashreplace").decode("utf-8"))
    pictures = {f"{name}.{part}": array for name, parts in details.pictures.items() for part, array in parts.items()}
    for name, arrays in (("details.safetensors", details.arrays), ("thumbnails.safetensors", pictures)):
        with synced_file(folder / name) as handle:
            write_all(handle, save({key: np.ascontiguousarray(array) for key, array in arrays.items()}))


def _versions() -> dict[str, str]:
    """The versions of the packages that computed it."""
    names = ("torch", "numpy", "pillow")
    return {
        "finegraph": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in names},
    }


def _named(sample: Sample) -> dict[str, str | None]:
    return {"path": os.fspath(sample.path), "label": sample.label}


def run_photos(settings: TrainSettings | None, run: Path | None, notes: list[str]) -> TrainingData | None:
    """The photos that the run was trained with; None, and a note, if they are not known any more."""
    if settings is None or not settings.data:
        notes.append("The model is in no run folder, so it is not known which photos it was trained with.")
        return None
    stored = None
    try:
        if run is not None and settings.graph is not None and is_store(settings.graph):
            stored = labels_of_run(run, settings.graph)
        # The model has the numbers that comparisons made; here only the photos are asked for.
        return read_training_data(replace(settings, comparisons=None), stored, parts_of_run(run))
    except (FinegraphError, OSError) as error:
        notes.append(f"The list of training photos can no longer be read: {error}")
        return None


def _changed(about: Mapping[str, Any], train: Samples) -> list[str]:
    """A note if the list of training photos has changed."""
    known = about.get(PHOTOS_DIGEST)
    if known == photos_digest(train) or (known is None and about.get("photos", len(train)) == len(train)):
        return []
    return [
        f"The list of training photos has changed: the model was trained with {about['photos']:,}, and {len(train):,} "
        "are listed now. What is said of training photos here is of those."
    ]


def _chosen_by(settings: TrainSettings, about: Mapping[str, Any], samples: Samples, val: Samples) -> list[str]:
    """A note if the evaluated photos took part in choosing or calibrating the model."""
    what = ""
    if settings.tune == "all" and settings.numbers().epochs > 1:
        what = "the best epoch"
    elif settings.tune == "head" and settings.choose:
        what = "the strengths of the priors"
    validated = {sample.path for sample in val}
    count = sum(sample.path in validated for sample in samples)
    if not count:
        return []
    which = "These photos" if count == len(samples) else f"{count:,} of these photos"
    notes = []
    if what:
        notes.append(
            f"{which} also chose {what} in training, so the metrics may be better than on photos that had no part "
            "in it."
        )
    if about.get(CALIBRATION, {}).get("split") == (settings.val_split or DEFAULT_VAL):
        notes.append(
            f"{which} also set the temperature, so likelihood and calibration may be a little better than on others."
        )
    return notes


def _training_counts(train: Samples, graph: LabelGraph, notes: list[str]) -> dict[str, Any] | None:
    """How many training photos each label has; if a fine label has several parents, each gets its share."""
    try:
        fine, seen = targets_of(train, graph)
    except FinegraphError as error:
        notes.append(f"The training photos have labels that the graph of the model does not have: {error}")
        return None
    numbers = fine.numpy()
    counts = np.bincount(numbers[numbers != MISSING], minlength=len(graph))
    kinds: dict[str, list[float]] = {}
    for name in graph.kinds:
        label_counts = np.zeros(len(graph.labels(name)))
        class_counts = counts
        if name in seen:  # what is seen on a photo comes before what holds for its class
            labels = seen[name].numpy()
            np.add.at(label_counts, labels[labels != MISSING], 1.0)
            rest = numbers[(labels == MISSING) & (numbers != MISSING)]
            class_counts = np.bincount(rest, minlength=len(graph))
        index, coarse, weight = graph.edges(name)
        np.add.at(label_counts, coarse, class_counts[index] * weight)
        kinds[name] = np.round(label_counts, 3).tolist()
    return {"photos": len(train), "fine": counts.tolist(), "kinds": kinds}


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
