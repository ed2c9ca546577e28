"""The photos of an evaluation: which of a source are evaluated, and on which a calibration is fitted.

By default these are test photos, else the photos that training was validated on. No photo serves both to fit and to
judge, and a calibration is never fitted on photos that the model was trained on. Cost: the lists are read, and no photo
is opened.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from finegraph.data.dataset import targets_of
from finegraph.data.samples import Samples
from finegraph.data.sources import parse_source, photo_layout, read_samples
from finegraph.data.splits import DEFAULT_VAL
from finegraph.errors import DataError, InputError
from finegraph.evaluation.photo_evaluation import refuse_known
from finegraph.model.folder.find_model import MODEL_OF_RUN, find_model
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.workflows.evaluation.report_details import PHOTOS_DIGEST
from finegraph.workflows.labels.graph_sources import is_store, labels_of_run
from finegraph.workflows.training.held_out import Parts, parts_of_run
from finegraph.workflows.training.training_data import photos_digest, uses_photo_labels

ALL = "all"
"""Takes the place of a split: every photo."""
HELD_OUT = "held-out"
"""In place of a split: what training was validated on, a split of the source or photos that it held out."""
TEST = "test"
_ELSE = (
    "train again with some held out, evaluate on a source of other photos, or on 'all', which flatters the model with "
    "photos that it was trained on"
)


@dataclass(frozen=True)
class RunPlace:
    """The paths of the parts of a run, or of a model folder outside a run."""

    model: Path
    evaluations: Path
    settings: TrainSettings | None

    @classmethod
    def of(cls, run: str | os.PathLike[str]) -> RunPlace:
        """The parts of a run folder or a model folder."""
        model = find_model(run)
        folder = RunFolder(model.absolute().parent)
        if model.name == MODEL_OF_RUN and folder.config_file.is_file():
            settings = TrainSettings.from_dict(folder.read_config(), str(folder.config_file))
            return cls(model, folder.evaluations, settings)
        # Saving a model replaces its folder, so nothing may be kept in there.
        return cls(model, model.absolute().with_name(f"{model.absolute().name}-evaluations"), None)

    @property
    def cache(self) -> str | Literal[False] | None:
        """Where features are stored; those of a trained network are not stored, since nothing else can use them."""
        if self.settings is None or self.settings.tune != "head":
            return False
        return self.settings.cache


@dataclass(frozen=True, kw_only=True)
class EvaluatedPhotos:
    """The photos of an evaluation, and what the model was trained on.

    Attributes:
        source: where they come from.
        samples: all photos of the source.
        split: the name of the evaluated photos.
        evaluated: the photos to evaluate on.
        calibrate: the name of the photos to fit a calibration on; None for no fit.
        fitted_on: these photos.
        foreign: photos of none of the classes; None if there are none.
        trained_with: the settings of the run, if the source is its own.
        parts: the photos that the model was trained and validated on.
    """

    source: str
    samples: Samples
    split: str
    evaluated: Samples
    calibrate: str | None
    fitted_on: Samples | None
    foreign: Samples | None
    trained_with: TrainSettings | None
    parts: Parts

    @property
    def held_out(self) -> bool:
        """Whether the evaluated photos are those that training held out of a source without splits."""
        return self.parts.held_out and self.split == DEFAULT_VAL

    @property
    def trained_on(self) -> set[Path]:
        """The photos that the model was trained on."""
        return {sample.path for sample in self.parts.train}

    def read(self) -> tuple[Samples | None, Samples, Samples | None]:
        """The photos that the network reads, in the order of the work."""
        return self.fitted_on, self.evaluated, self.foreign

    def check(self, classifier: PhotoClassifier) -> None:
        """Raise if these photos do not fit a model: before the first is read, not after the calibration."""
        if self.held_out or (self.parts.held_out and self.calibrate == DEFAULT_VAL):
            _refuse_changed(classifier, self.parts, self.samples)
        targets_of(self.evaluated, classifier.graph)
        if self.foreign is not None:
            refuse_known(self.foreign, classifier)


def photos_to_evaluate(
    place: RunPlace, data: str | None, split: str | None, calibrate: str | None, unknown: str | None
) -> EvaluatedPhotos:
    """Choose the photos of an evaluation; arguments are those of `evaluate_run`."""
    source = _source(place, data)
    samples = read_samples(source)
    trained_with = place.settings if data is None or _is_source_of(data, place.settings) else None
    if trained_with is not None:
        if trained_with.graph is not None and is_store(trained_with.graph):
            samples = labels_of_run(place.model.absolute().parent, trained_with.graph).on(samples, source)
        if not uses_photo_labels(trained_with):
            samples = samples.without_kinds()
    parts = _parts_of(place, samples, trained_with)
    split, evaluated = _chosen(samples, split, trained_with, parts)
    fitted_on = None
    if calibrate is not None:
        calibrate, fitted_on = _chosen(samples, calibrate, trained_with, parts)
        _refuse_overlap(fitted_on, evaluated)
        _refuse_trained(fitted_on, {sample.path for sample in parts.train})
    return EvaluatedPhotos(
        source=source,
        samples=samples,
        split=split,
        evaluated=evaluated,
        calibrate=calibrate,
        fitted_on=fitted_on,
        foreign=None if unknown is None else read_samples(unknown),
        trained_with=trained_with,
        parts=parts,
    )


def _refuse_overlap(fitted_on: Samples, evaluated: Samples) -> None:
    """Raise if a photo would serve both to fit and to judge what was fitted."""
    both = {sample.path for sample in fitted_on} & {sample.path for sample in evaluated}
    if both:
        raise InputError(
            f"{len(both)} photos would serve both to fit the calibration and to evaluate it, which would then look "
            f"better than it is; the first is {min(both)}; choose another split for one of them"
        )


def _is_source_of(data: str, settings: TrainSettings | None) -> bool:
    """Whether a source is the one that a run was trained with, even if it is spelled differently."""
    if settings is None or not settings.data:
        return False
    (layout, path), (own_layout, own_path) = parse_source(data), parse_source(settings.data)
    return photo_layout(layout) == photo_layout(own_layout) and path.resolve() == own_path.resolve()


def _parts_of(place: RunPlace, samples: Samples, settings: TrainSettings | None) -> Parts:
    """The photos that the model was trained and validated on, if known."""
    if settings is None or (samples.splits and settings.train_split not in samples.splits):
        return Parts(train=Samples(()), val=None)
    return parts_of_run(place.model.absolute().parent)(samples, settings)


def _refuse_changed(classifier: PhotoClassifier, parts: Parts, samples: Samples) -> None:
    """Raise if it is no longer known which photos training held out: earlier versions kept no list of them."""
    known = classifier.about.get(PHOTOS_DIGEST)
    if not parts.listed and known is not None and known != photos_digest(parts.train):
        raise DataError(
            f"{samples.source}: the list of photos is not the one that the model was trained with, so it is not known "
            "which of them were held out; bring that list back, or evaluate on a source of other photos"
        )


def _refuse_trained(fitted_on: Samples, trained_on: set[Path]) -> None:
    """Raise if a calibration would be fitted on photos that the model knows."""
    both = {sample.path for sample in fitted_on} & trained_on
    if both:
        raise InputError(
            f"{len(both)} photos to fit the calibration on were trained on, and there the model is too sure of itself; "
            f"the first is {min(both)}; choose a split that was held out"
        )


def _source(place: RunPlace, data: str | None) -> str:
    """The source of the photos."""
    if data is not None:
        return data
    if place.settings is None or not place.settings.data:
        raise InputError(
            f"{place.model}: this model is not in a run folder, so it is not known which photos to evaluate on; "
            "name a source of photos"
        )
    return place.settings.data


def _chosen(samples: Samples, split: str | None, settings: TrainSettings | None, parts: Parts) -> tuple[str, Samples]:
    """The name of a split and its photos.

    Args:
        samples: all photos of the source.
        split: what was asked for; None for the photos that are the best to judge the model on.
        settings: of the run, if the source is its own.
        parts: what the run was trained and validated on.
    """
    validated = DEFAULT_VAL if settings is None else settings.val_split or DEFAULT_VAL
    if split is None:
        split = _best_to_judge(samples, settings, parts, validated)
    if split == HELD_OUT and split not in samples.splits:
        split = validated
        if parts.val is None:
            raise DataError(f"{samples.source}: training held no photos out; {_ELSE}")
    if split in samples.splits:
        return split, samples.split(split)
    if split == ALL:
        return split, samples
    if split == DEFAULT_VAL and parts.held_out and parts.val is not None:
        if not len(parts.val):
            raise DataError(f"{samples.source}: none of the {parts.gone:,} photos that were held out is there any more")
        return split, parts.val
    if not samples.splits:
        which = f"{HELD_OUT!r}, the photos that training held out" if parts.val is not None else f"{ALL!r} of them"
        raise DataError(f"{samples.source}: the photos are in no splits, so there is no {split!r}; evaluate on {which}")
    return split, samples.split(split)


def _best_to_judge(samples: Samples, settings: TrainSettings | None, parts: Parts, validated: str) -> str:
    """Test photos; else those that training was validated on; else all of a source that training did not use."""
    if TEST in samples.splits:
        return TEST
    if parts.val is not None:
        return validated
    if settings is None and not samples.splits:
        return ALL
    if settings is None:
        return TEST  # which the source does not have, and says so
    raise DataError(f"{samples.source}: there are no {TEST} photos, and training held none out; {_ELSE}")
