"""Evaluating a trained model on photos, and keeping the result with its run.

A plain function from names to a dataclass; nothing is printed here. Arguments and labels are checked before the first
photo is looked at. What is fitted is fitted on other photos than it is judged on. The cost is that of the network, or
where the run has stored features already, that of reading the files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from finegraph.data.dataset import targets_of
from finegraph.data.samples import Samples
from finegraph.data.sources import read_samples
from finegraph.data.splits import DEFAULT_VAL, choose_splits, draw_per_class
from finegraph.errors import DataError, InputError
from finegraph.evaluation import CalibrationFit, Evaluation, EvaluationResult
from finegraph.evaluation.details import DetailCollector, draw_order
from finegraph.evaluation.photo_batches import PhotoOptions, Told
from finegraph.evaluation.photos import DEFAULT_KEPT, calibrate_photos, calibrated, evaluate_photos, refuse_known
from finegraph.model.features.engines import EngineName
from finegraph.model.find_model import MODEL_OF_RUN, find_model
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.model.unknown import DEFAULT_SCORE
from finegraph.training.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.workflows.evaluation_details import PHOTOS_DIGEST, FoundDetails, gather_details
from finegraph.workflows.evaluation_folder import check_name, default_name, write_evaluation
from finegraph.workflows.evaluation_retrieval import judged_retrieval
from finegraph.workflows.similar_photos import FeatureSettings, place_of_features
from finegraph.workflows.stored_labels import is_store, labels_of_run
from finegraph.workflows.training_data import photos_digest, uses_image_labels

ALL = "all"
"""In place of a split: every photo."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class RunEvaluation:
    """What an evaluation of a run found, and where it is kept.

    Attributes:
        folder: the folder of the evaluation.
        result: the figures.
        calibration: what was fitted, where something was.
        saved: whether the model was saved with it.
        trained_on: how many of the photos the model was trained on; the figures are that much better than they should.
    """

    folder: Path
    result: EvaluationResult
    calibration: CalibrationFit | None
    saved: bool
    trained_on: int = 0


def evaluate_run(
    run: str | os.PathLike[str],
    *,
    data: str | None = None,
    split: str = "test",
    views: Literal[1, 10] = 1,
    box: bool | None = None,
    name: str | None = None,
    risk: float = 0.05,
    calibrate: str | None = None,
    save_calibration: bool = False,
    unknown: str | None = None,
    score: str = DEFAULT_SCORE,
    kept: float = DEFAULT_KEPT,
    on_bad_file: Literal["error", "skip"] = "error",
    workers: int | None = None,
    engine: EngineName = "auto",
    device: str | None = None,
    details: bool = True,
    retrieval: bool = False,
    progress: Progress | None = None,
) -> RunEvaluation:
    """Evaluate the model of a run, or of a model folder, and write the result.

    Args:
        run: a run folder or a model folder.
        data: the source of the photos; by default the one that the run was trained with.
        split: the photos to evaluate on; `all` for every photo.
        views: 1 for the centre of each photo, 10 for the average over ten views.
        box: whether photos are cut to their boxes; by default as in training.
        name: of the evaluation; by default made of the split and what is special.
        risk: the share of sure answers that may be wrong.
        calibrate: the split to fit a temperature and a threshold for unknown photos on first. By default those that are
            saved with the model are used.
        save_calibration: whether to save what was fitted with the model.
        unknown: a source of photos of none of the classes, to see how many of them are found.
        score: the score of unknown photos that a threshold is chosen for.
        kept: the share of photos of known classes that the threshold is to keep.
        on_bad_file: whether a photo that cannot be read ends it all ("error") or is left out and named ("skip").
        workers: how many threads work on photos.
        engine: what computes features; see `extract_features`.
        device: where the network computes; by default on a GPU if there is one.
        details: whether to keep what a report shows of single photos too: labels, explanations, small pictures.
        retrieval: whether to judge how good the features are for search too; see `judge_retrieval`.
        progress: is told how many of how many photos are done.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        RunFolderError: there is an evaluation of that name already, or it cannot be written.
        DataError: the photos cannot be read, or no such split.
        InputError: an argument is wrong.
    """
    place = _Place.of(run)
    if save_calibration and calibrate is None:
        raise InputError("there is no calibration to save; say on which split it is to be fitted")
    if name is not None:
        check_name(place.evaluations, name)
    source = _source(place, data)
    samples = read_samples(source)
    trained_with = place.settings if data is None else None
    if trained_with is not None:
        if trained_with.graph is not None and is_store(trained_with.graph):
            samples = labels_of_run(place.model.absolute().parent, trained_with.graph).on(samples, source)
        if not uses_image_labels(trained_with):
            samples = samples.without_kinds()
    evaluated = _chosen(samples, split, trained_with)
    fitted_on = None if calibrate is None else _chosen(samples, calibrate, trained_with)
    train = _training_photos(samples, trained_with)
    trained_on = {sample.path for sample in train}
    if fitted_on is not None:
        _refuse_overlap(fitted_on, evaluated)
        _refuse_trained(fitted_on, trained_on)
    if box or (box is None and place.settings is not None and place.settings.box):
        evaluated.require_boxes()
    foreign = None if unknown is None else read_samples(unknown)
    classifier = PhotoClassifier.load(place.model, device)
    if trained_with is not None and any(_held_out(part, samples, trained_with) for part in (split, calibrate)):
        _refuse_changed(classifier, train, samples)
    targets_of(evaluated, classifier.graph)  # labels that the graph does not have show now, not after the calibration
    if foreign is not None:
        refuse_known(foreign, classifier)
    told = Told(progress, sum(len(part) for part in (fitted_on, evaluated, foreign) if part is not None))
    options = PhotoOptions(
        views=views, box=box, workers=workers, on_bad_file=on_bad_file, engine=engine, cache=place.cache
    )
    judged = judged_retrieval(classifier, evaluated, options) if retrieval else None
    fit = None
    if fitted_on is not None:
        fit = calibrate_photos(classifier, fitted_on, score=score, kept=kept, progress=told.part(0), **options)
        classifier = calibrated(classifier, fit)
    start = 0 if fitted_on is None else len(fitted_on)
    collector = DetailCollector(classifier.graph, draw_order(evaluated)) if details else None
    found = evaluate_photos(
        classifier, evaluated, risk=risk, foreign=foreign, details=collector, progress=told.part(start), **options
    )
    about = {"model": os.fspath(run), "data": source, "split": split}
    found = found._replace(result=replace(_completed(found.result, about, calibrate, fit), retrieval=judged))
    stem = default_name(split, views, box, fit is not None)
    kept_details = None
    if collector is not None:
        kept_details = _details(place, classifier, collector, found, evaluated, workers, engine, told.more())
    folder = write_evaluation(place.evaluations, name, stem, found, evaluated, classifier, fit, kept_details)
    if save_calibration:
        classifier.save(place.model)
    known = sum(sample.path in trained_on for sample in evaluated)
    return RunEvaluation(folder=folder, result=found.result, calibration=fit, saved=save_calibration, trained_on=known)


@dataclass(frozen=True)
class _Place:
    """Where the parts of a run, or of a model folder without one, are."""

    model: Path
    evaluations: Path
    settings: TrainSettings | None

    @classmethod
    def of(cls, run: str | os.PathLike[str]) -> _Place:
        """The parts of what the user named."""
        model = find_model(run)
        folder = RunFolder(model.absolute().parent)
        if model.name == MODEL_OF_RUN and folder.config_file.is_file():
            settings = TrainSettings.from_dict(folder.read_config(), str(folder.config_file))
            return cls(model, folder.evaluations, settings)
        # Saving a model replaces its folder, so nothing may be kept in there.
        return cls(model, model.absolute().with_name(f"{model.absolute().name}-evaluations"), None)

    @property
    def cache(self) -> str | Literal[False] | None:
        """Where features are stored: only those of a network that was not trained will ever be wanted again."""
        if self.settings is None or self.settings.tune != "head":
            return False
        return self.settings.cache


def _details(
    place: _Place,
    classifier: PhotoClassifier,
    collector: DetailCollector,
    found: Evaluation,
    evaluated: Samples,
    workers: int | None,
    engine: EngineName,
    progress: Progress | None,
) -> FoundDetails:
    """What a report needs of an evaluation."""
    run, features = None, None
    if place.settings is not None:
        run = place.model.absolute().parent
        where = place_of_features(place.settings, run)
        features = FeatureSettings(cache=where, threads=workers, engine=engine, progress=progress)
    return gather_details(
        classifier,
        collector.details(),
        found.samples,
        evaluated,
        settings=place.settings,
        features=features,
        box=found.result.box,
        source=found.result.data,
        threads=workers,
        run=run,
    )


def _refuse_overlap(fitted_on: Samples, evaluated: Samples) -> None:
    """Raise where a photo would serve both to fit and to judge what was fitted."""
    both = {sample.path for sample in fitted_on} & {sample.path for sample in evaluated}
    if both:
        raise InputError(
            f"{len(both)} photos would serve both to fit the calibration and to evaluate it, which would then look "
            f"better than it is; the first is {min(both)}; choose another split for one of them"
        )


def _training_photos(samples: Samples, settings: TrainSettings | None) -> Samples:
    """The photos that the model was trained on, as far as they are known."""
    if settings is None or (samples.splits and settings.train_split not in samples.splits):
        return Samples(())
    train = choose_splits(samples, settings.train_split, settings.val_split, settings.val_share, settings.seed)[0]
    if settings.photos_per_class is not None:
        train = draw_per_class(train, settings.photos_per_class, settings.seed)
    return train


def _held_out(split: str | None, samples: Samples, settings: TrainSettings) -> bool:
    """Whether a split is what training held out of its own photos."""
    return split == DEFAULT_VAL and split not in samples.splits and settings.val_share > 0


def _refuse_changed(classifier: PhotoClassifier, train: Samples, samples: Samples) -> None:
    """Raise where it cannot be told any more which photos training held out."""
    known = classifier.about.get(PHOTOS_DIGEST)
    if known is not None and known != photos_digest(train):
        raise DataError(
            f"{samples.source}: the list of photos is not the one that the model was trained with, so it is not known "
            "which of them were held out; bring that list back, or evaluate on a source of other photos"
        )


def _refuse_trained(fitted_on: Samples, trained_on: set[Path]) -> None:
    """Raise where a calibration would be fitted on photos that the model knows."""
    both = {sample.path for sample in fitted_on} & trained_on
    if both:
        raise InputError(
            f"{len(both)} photos to fit the calibration on were trained on, and there the model is too sure of itself; "
            f"the first is {min(both)}; choose a split that was held out"
        )


def _source(place: _Place, data: str | None) -> str:
    """The source of the photos."""
    if data is not None:
        return data
    if place.settings is None or not place.settings.data:
        raise InputError(
            f"{place.model}: this model is not in a run folder, so it is not known which photos to evaluate on; "
            "name a source of photos"
        )
    return place.settings.data


def _chosen(samples: Samples, split: str, settings: TrainSettings | None) -> Samples:
    """The photos of a split.

    What training held out of its photos to validate on is the split `val`, where the source has none of that name.
    """
    if split in samples.splits:
        return samples.split(split)
    if split == ALL:
        return samples
    if settings is not None and _held_out(split, samples, settings):
        held = choose_splits(samples, settings.train_split, settings.val_split, settings.val_share, settings.seed)[1]
        if held is not None:
            return held
    if not samples.splits:
        shared = settings is not None and settings.val_share > 0
        which = "'val', which was held out" if shared else f"{ALL!r} of them, or on a source of other photos"
        raise DataError(f"{samples.source}: the photos are in no splits, so there is no {split!r}; evaluate on {which}")
    return samples.split(split)


def _completed(
    result: EvaluationResult, about: dict[str, str], calibrate: str | None, fit: CalibrationFit | None
) -> EvaluationResult:
    """The result with where it comes from."""
    result = replace(result, **about)  # type: ignore[arg-type]
    if fit is None:
        return result
    return replace(
        result,
        calibrated_on=calibrate,
        temperature_fit=fit.temperature,
        bad_photos=(*fit.bad_photos, *result.bad_photos),
    )
