"""Making an index of photos and changing it.

Plain functions from names to a dataclass; nothing is printed here. Photos are stored in parts, each in one step, so an
interrupted job continues where it stopped when it is started again. Adding is the same as making: a photo that is there
unchanged is passed over, one whose file or label changed takes the place of the old one. A photo that is named without
any label says nothing about those it has: they stay for as long as its content does.

The cost is that of the network; the share of the time that computing features took is in the result.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from finegraph.data.photo_decoding import read_photo
from finegraph.data.samples import Sample, Samples
from finegraph.errors import IndexFolderError, ModelFolderError, PhotoFileError
from finegraph.model.features import Features, extract_features
from finegraph.model.features.engines import EngineName
from finegraph.model.features.keys import photo_key
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.progress_types import ShowProgress
from finegraph.search.embeddings import model_entry, stored_columns
from finegraph.search.index_state import STATE, IndexState, read_state
from finegraph.search.index_writer import Identity, IndexWriter, Stored
from finegraph.search.milvus_writer import new_writer, open_writer
from finegraph.search.nearest import load_faiss, unit_rows
from finegraph.search.photo_index import read_directions, refuse_other_model
from finegraph.search.projection import SAMPLE, check_projection, fit_projection
from finegraph.training.distributed import joined_ranks
from finegraph.training.shared_features import FeatureCrew
from finegraph.workflows.indexing.index_photos import identity_of, read_photos, roots_of, stored_features

PART, FIRST_PART = 2048, 256
"""The largest number of photos that are stored at a time, and the number at first."""
PART_SECONDS = 30.0
"""About how long a part takes, in seconds; an interruption loses at most this much work."""
OnBadFile = Literal["error", "skip"]


@dataclass(frozen=True, kw_only=True)
class IndexReport:
    """The changes to an index.

    Attributes:
        folder: where it is.
        photos: how many photos are in it now.
        added: how many are new.
        replaced: how many took the place of an older version of the same photo.
        relabelled: how many of these had another fine label before.
        unchanged: how many were there already.
        foreign: how many of the new ones have a fine label that the model does not know.
        bad: the photos that could not be read.
        dimensions: the size of the stored vectors.
        projection_recall: the share of the ten nearest photos that the projection keeps; None without one.
        approximate_recall: the share of them that the approximate search finds; None if the search is exact.
        seconds: how long it took.
        feature_seconds: how long of that features were computed.
    """

    folder: str
    photos: int
    added: int
    replaced: int
    relabelled: int
    unchanged: int
    foreign: int
    bad: tuple[PhotoFileError, ...]
    dimensions: int
    projection_recall: float | None
    approximate_recall: float | None
    seconds: float
    feature_seconds: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        plain = asdict(replace(self, bad=()))
        return {**plain, "bad": [{"photo": error.path, "reason": error.reason} for error in self.bad]}


def make_index(
    model: str | os.PathLike[str],
    photos: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    method: str = "auto",
    project: int | None = None,
    uri: str | None = None,
    split: str | None = None,
    on_bad_file: OnBadFile = "error",
    workers: int | None = None,
    engine: EngineName = "auto",
    device: str | None = None,
    progress: ShowProgress | None = None,
) -> IndexReport | None:
    """Make an index, or continue one whose making was interrupted.

    In a job of several processes, such as torchrun starts, each computes the features of its share of the photos and
    sends them to the first, which makes the index; the others get None.

    Args:
        model: a model folder or a run folder.
        photos: files, folders, or sources of data; see `read_photos`.
        output: the folder of the index.
        method: "exact", "approximate", or "auto" for exact up to 200,000 photos.
        project: to how many dimensions vectors are projected; None for those of the feature.
        uri: the server of Milvus that is to hold the photos, or a file for its embedded form; None for files of the
            index itself. An index whose making was interrupted continues where it was begun.
        split: only photos of this part of the data; None for all.
        on_bad_file: whether a photo that cannot be read ends it all ("error") or is left out and named ("skip").
        workers: how many threads work on photos.
        engine: what computes features; see `extract_features`.
        device: where the network computes; by default on a GPU if there is one.
        progress: called with the number of photos done and the total.

    Raises:
        IndexFolderError: there is an index already, or it cannot be written.
        ModelFolderError: there is no model, or it is damaged.
        DataError: photos cannot be read.
        InputError: an argument is wrong.
        SearchEngineError: the server cannot be reached.
        MissingExtraError: what searches the index is not installed.
    """
    if uri is None:
        load_faiss()
    began = time.perf_counter()
    classifier = PhotoClassifier.load(model, device)
    samples = read_photos(photos, split=split, boxes=classifier.views.box)
    extract = _extracting(classifier, on_bad_file, workers, engine, stored_features(model))
    with joined_ranks() as ranks, FeatureCrew(ranks, extract) as crew:
        if not ranks.first:
            crew.help()
            return None
        entry = model_entry(classifier, model)
        if (Path(output) / STATE).exists():
            _refuse_finished(Path(output), method, project)
            writer = open_writer(output)
        else:
            size = classifier.network.backbone.feature_size
            if project is not None:
                check_projection(min(len(samples), SAMPLE), size, project)
            writer = new_writer(output, model=entry, graph=classifier.graph, feature_size=size, method=method, uri=uri)
        with writer:
            refuse_other_model(writer.folder, writer.state, entry)
            writer.add_roots(roots_of(photos))
            job = _Job(writer, classifier, on_bad_file, crew, progress)
            job.store(samples, project)
            writer.finish()
            return job.report(began)


def _extracting(
    classifier: PhotoClassifier,
    on_bad_file: OnBadFile,
    workers: int | None,
    engine: EngineName,
    cache: str | Literal[False] | None,
) -> Callable[[Samples, ShowProgress | None], Features]:
    """What computes the features of photos."""

    def extract(samples: Samples, progress: ShowProgress | None) -> Features:
        return extract_features(
            classifier.network,
            samples,
            classifier.views,
            on_bad_file=on_bad_file,
            threads=workers,
            engine=engine,
            cache=cache,
            progress=progress,
        )

    return extract


def model_of_index(
    state: IndexState, model: str | os.PathLike[str] | None, device: str | None = None
) -> PhotoClassifier:
    """The model to use with an index: the one that is named, else the one that made it, in its former place.

    Raises:
        ModelFolderError: there is none, or it is damaged.
    """
    if model is not None:
        return PhotoClassifier.load(model, device)
    try:
        return PhotoClassifier.load(state.model.path, device)
    except ModelFolderError as error:
        raise ModelFolderError(
            f"{error}\nThis is where the model was when the index was made; say where it is now"
        ) from error


def add_photos(
    folder: str | os.PathLike[str],
    photos: Sequence[str | os.PathLike[str]],
    *,
    model: str | os.PathLike[str] | None = None,
    split: str | None = None,
    on_bad_file: OnBadFile = "error",
    workers: int | None = None,
    engine: EngineName = "auto",
    device: str | None = None,
    progress: ShowProgress | None = None,
) -> IndexReport | None:
    """Add photos to an index; those that have not changed are skipped.

    In a job of several processes each computes the features of its share of the new photos and sends them to the first,
    which alone writes the index; the others get None.

    Args:
        folder: the index.
        photos: see `read_photos`.
        model: the model that made the index; by default it is looked for where it was.
        split: see `make_index`, as for the arguments below.
        on_bad_file: what happens if a photo cannot be read.
        workers: how many threads work on photos.
        engine: what computes features.
        device: where the network computes.
        progress: called with the number of photos done and the total.

    Raises:
        IndexFolderError: there is no index, another model made it, or it cannot be written.
    """
    began = time.perf_counter()
    state = read_state(Path(folder))
    if state.engine is None:
        load_faiss()
    place = state.model.path if model is None else model
    classifier = model_of_index(state, model, device)
    refuse_other_model(Path(folder), state, model_entry(classifier, place))
    samples = read_photos(photos, split=split, boxes=classifier.views.box)
    extract = _extracting(classifier, on_bad_file, workers, engine, stored_features(place))
    with joined_ranks() as ranks, FeatureCrew(ranks, extract) as crew:
        if not ranks.first:
            crew.help()
            return None
        with open_writer(folder) as writer:
            writer.add_roots(roots_of(photos))
            job = _Job(writer, classifier, on_bad_file, crew, progress)
            job.store(samples, None)
            if writer.state.complete:
                writer.finish()
            return job.report(began)


class _Job:
    """Storing photos in an index."""

    def __init__(
        self,
        writer: IndexWriter,
        classifier: PhotoClassifier,
        on_bad_file: OnBadFile,
        crew: FeatureCrew,
        progress: ShowProgress | None,
    ) -> None:
        self.writer, self.classifier, self.progress = writer, classifier, progress
        self.on_bad_file, self.crew = on_bad_file, crew
        self.boxes = classifier.views.box
        self.added = self.replaced = self.relabelled = self.unchanged = self.foreign = self.done = 0
        self.total = 0
        self.seconds = 0.0
        self.bad: list[PhotoFileError] = []

    def store(self, samples: Samples, project: int | None) -> None:
        """Store all photos, part after part."""
        self.total = len(samples)
        places = self.writer.stored([identity_of(sample, self.boxes) for sample in samples])
        waiting = [sample for sample in samples if not self._is_stored(sample, places)]
        self.done = self.unchanged = len(samples) - len(waiting)
        if project is not None and self.writer.state.projection is None:
            waiting = self._fit(waiting, project, places)
        size = min(FIRST_PART, PART)
        while waiting:
            began = time.perf_counter()
            self._keep(self._features(waiting[:size]), places)
            waiting = waiting[size:]
            rate = size / max(time.perf_counter() - began, 1e-3)
            size = min(max(1, round(rate * PART_SECONDS)), PART)

    def _is_stored(self, sample: Sample, places: dict[Identity, Stored]) -> bool:
        """Whether a photo is in the index as it is now, by its content and its labels."""
        stored = places.get(identity_of(sample, self.boxes))
        if stored is None:
            return False
        try:
            key = photo_key(read_photo(sample.path), sample.box if self.boxes else None)
        except PhotoFileError:
            if self.on_bad_file == "error":
                raise
            return False
        if stored.key != key:
            return False
        if sample.label is None and not sample.kinds:
            return True
        graph = self.classifier.graph
        seen = {kind: graph.labels(kind)[number] for kind, number in stored.kinds.items()}
        known = {
            kind: label for kind, label in sample.kinds.items() if kind in graph.kinds and label in graph.labels(kind)
        }
        return stored.label == sample.label and seen == known

    def _fit(self, waiting: list[Sample], project: int, places: dict[Identity, Stored]) -> list[Sample]:
        """Fit the projection to some of the photos, and store these; returns the other photos."""
        if places:
            raise IndexFolderError(
                f"{self.writer.folder}: this index was made without a projection; make another index to have one"
            )
        chosen = set(np.linspace(0, len(waiting) - 1, min(SAMPLE, len(waiting))).astype(int).tolist())
        features = self._features([waiting[number] for number in sorted(chosen)])
        directions, recall = fit_projection(unit_rows(features.fine.numpy()), project)
        self.writer.set_projection(directions, recall)
        self._keep(features, places)
        return [sample for number, sample in enumerate(waiting) if number not in chosen]

    def _features(self, samples: list[Sample]) -> Features:
        """The features of some photos."""
        began, before = time.perf_counter(), self.done

        def note_progress(done: int, _: int) -> None:
            if self.progress is not None:
                self.progress(before + done, self.total)

        features = self.crew.of(samples, note_progress)
        self.seconds += time.perf_counter() - began
        self.done += len(samples)
        self.bad += features.bad
        return features

    def _keep(self, features: Features, places: dict[Identity, Stored]) -> None:
        """Store photos whose features are computed."""
        if not len(features.samples):
            return
        directions = read_directions(self.writer.folder, self.writer.state)
        earlier = [(sample, places.get(identity_of(sample, self.boxes))) for sample in features.samples]
        old = [stored.place for _, stored in earlier if stored is not None]
        self.relabelled += sum(
            stored is not None and stored.label not in (None, sample.label) for sample, stored in earlier
        )
        self.writer.add(stored_columns(self.classifier, features, directions), old)
        self.replaced += len(old)
        self.added += len(features.samples) - len(old)
        known = set(self.classifier.graph.fine)
        self.foreign += sum(sample.label is not None and sample.label not in known for sample in features.samples)

    def report(self, began: float) -> IndexReport:
        """The report of the whole job."""
        state = self.writer.state
        lists = state.lists if state.engine is None else state.engine
        return IndexReport(
            folder=str(self.writer.folder),
            photos=self.writer.photos,
            added=self.added,
            replaced=self.replaced,
            relabelled=self.relabelled,
            unchanged=self.unchanged,
            foreign=self.foreign,
            bad=tuple(self.bad),
            dimensions=state.dimensions,
            projection_recall=None if state.projection is None else state.projection.recall,
            approximate_recall=None if lists is None else lists.recall,
            seconds=time.perf_counter() - began,
            feature_seconds=self.seconds,
        )


def _refuse_finished(folder: Path, method: str, project: int | None) -> None:
    """Raise if an index cannot be continued: it is complete, or was begun with other settings."""
    state: IndexState = read_state(folder)
    if state.complete:
        raise IndexFolderError(f"{folder}: there is an index already; add photos to it, or choose another folder")
    wanted = state.dimensions if state.projection is not None else None
    if state.method != method or ((state.segments or state.projection) and wanted != project):
        raise IndexFolderError(
            f"{folder}: making this index was interrupted, and it was begun with other settings (method "
            f"{state.method!r}, projection to {wanted or 'no fewer'} dimensions); continue with these, or remove the "
            "folder and begin again"
        )
