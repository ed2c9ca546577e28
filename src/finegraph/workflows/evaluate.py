"""Evaluating a trained model on photos, and keeping the result with its run.

A plain function from names to a dataclass; nothing is printed here. Arguments and labels are checked before the first
photo is opened. Calibration is fitted on other photos than those it is evaluated on. The cost is that of the network,
or if the run has stored features already, that of reading the files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from finegraph.data.dataset import targets_of
from finegraph.data.samples import Samples
from finegraph.data.sources import parse_source, photo_layout, read_samples
from finegraph.data.splits import DEFAULT_VAL
from finegraph.errors import DataError, InputError
from finegraph.evaluation import CalibrationFit, Evaluation, EvaluationResult
from finegraph.evaluation.asking import DEFAULT_QUESTIONS
from finegraph.evaluation.details import DetailCollector, draw_order
from finegraph.evaluation.photo_evaluation import (
    CALIBRATION,
    DEFAULT_KEPT,
    calibrate_photos,
    calibrated,
    evaluate_photos,
    judged_retrieval,
    refuse_known,
)
from finegraph.evaluation.photo_settings import JoinedProgress, PhotoOptions, PhotoSettings, photo_features
from finegraph.model.answering.unknown import DEFAULT_SCORE
from finegraph.model.features import Features
from finegraph.model.features.engines import EngineName
from finegraph.model.folder.find_model import MODEL_OF_RUN, find_model
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.progress_types import ShowProgress
from finegraph.training.distributed import joined_ranks
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.training.shared_features import shared_features
from finegraph.workflows.evaluation.evaluation_folder import check_evaluation_name, default_name, write_evaluation
from finegraph.workflows.evaluation.report_details import PHOTOS_DIGEST, FoundDetails, gather_details
from finegraph.workflows.indexing.similar_photos import FeatureSettings, place_of_features
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


@dataclass(frozen=True, kw_only=True)
class RunEvaluation:
    """The result of evaluating a run, and its folder.

    Attributes:
        folder: the folder of the evaluation.
        result: the metrics.
        calibration: what was fitted, if something was.
        saved: whether the model was saved with it.
        trained_on: how many of the photos the model was trained on; these make the metrics too good.
        held_out: whether these are photos that training held out of a source without splits.
        gone: how many of the held-out photos no longer exist.
        fitted_before: what the model's temperature and threshold were fitted on before, as the model says; None if
            they were not, or were fitted now.
        fitted_on_these: whether that was on these very photos.
    """

    folder: Path
    result: EvaluationResult
    calibration: CalibrationFit | None
    saved: bool
    trained_on: int = 0
    held_out: bool = False
    gone: int = 0
    fitted_before: dict[str, Any] | None = None
    fitted_on_these: bool = False


def evaluate_run(
    run: str | os.PathLike[str],
    *,
    data: str | None = None,
    split: str | None = None,
    views: Literal[1, 10] = 1,
    box: bool | None = None,
    name: str | None = None,
    risk: float = 0.05,
    questions: int = DEFAULT_QUESTIONS,
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
    progress: ShowProgress | None = None,
) -> RunEvaluation | None:
    """Evaluate the model of a run, or of a model folder, and write the result.

    In a job of several processes, such as torchrun starts, each computes the features of its share of the photos and
    stores them; the first evaluates, and the others get None.

    Args:
        run: a run folder or a model folder.
        data: the source of the photos; by default the one that the run was trained with.
        split: the photos to evaluate on; `held-out` for those that training was validated on, `all` for every photo. By
            default `test`, else what training was validated on; of another source without splits, every photo.
        views: 1 for the centre of each photo, 10 for the average over ten views.
        box: whether photos are cut to their boxes; by default as in training.
        name: of the evaluation; by default made of the split and what is special.
        risk: the share of sure answers that may be wrong.
        questions: how many questions to ask about a photo at most, to see how many settle it; 0 for none.
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
        progress: called with the number of photos done and the total.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        RunFolderError: there is an evaluation of that name already, or it cannot be written.
        DataError: the photos cannot be read, or no such split.
        InputError: an argument is wrong.
    """
    place = _Place.of(run)
    if save_calibration and calibrate is None:
        raise InputError("there is no calibration to save; say on which split it is to be fitted")
    if questions < 0:
        raise InputError(f"questions: expected the largest number of questions to ask, at least 0, got {questions}")
    if name is not None:
        check_evaluation_name(place.evaluations, name)
    photos = _photos(place, data, split, calibrate, unknown)
    if box or (box is None and place.settings is not None and place.settings.box):
        photos.evaluated.require_boxes()
    classifier = PhotoClassifier.load(place.model, device)
    photos.check(classifier)
    joined = JoinedProgress(progress, sum(len(part) for part in photos.read() if part is not None))
    options = PhotoOptions(
        views=views, box=box, workers=workers, on_bad_file=on_bad_file, engine=engine, cache=place.cache
    )
    first, known = _shared(classifier, photos.read(), options)
    if not first:
        return None
    judged = judged_retrieval(classifier, photos.evaluated, options, known.evaluated) if retrieval else None
    fit = None
    if photos.fitted_on is not None:
        fit = calibrate_photos(
            classifier,
            photos.fitted_on,
            score=score,
            kept=kept,
            progress=joined.part(0),
            known=known.fitted_on,
            **options,
        )
        classifier = calibrated(classifier, fit, str(photos.calibrate))
    collector = DetailCollector(classifier.graph, draw_order(photos.evaluated)) if details else None
    evaluation = evaluate_photos(
        classifier,
        photos.evaluated,
        risk=risk,
        foreign=photos.foreign,
        details=collector,
        questions=questions,
        progress=joined.part(0 if photos.fitted_on is None else len(photos.fitted_on)),
        known=known.evaluated,
        known_foreign=known.foreign,
        **options,
    )
    about = {"model": os.fspath(run), "data": photos.source, "split": photos.split}
    result = _completed(evaluation.result, about, photos.calibrate, fit)
    evaluation = evaluation._replace(result=replace(result, retrieval=judged))
    kept_details = None
    if collector is not None:
        more = joined.more()
        kept_details = _details(place, classifier, collector, evaluation, photos.evaluated, workers, engine, more)
    stem = default_name(photos.split, views, box, fit is not None)
    folder = write_evaluation(
        place.evaluations, name, stem, evaluation, photos.evaluated, classifier, fit, kept_details
    )
    if save_calibration:
        classifier.save(place.model)
    return photos.described(folder, classifier, evaluation.result, fit, saved=save_calibration)


@dataclass(frozen=True, kw_only=True)
class _Photos:
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

    def described(
        self,
        folder: Path,
        classifier: PhotoClassifier,
        result: EvaluationResult,
        fit: CalibrationFit | None,
        *,
        saved: bool,
    ) -> RunEvaluation:
        """The result of a run, with the facts about its photos."""
        before = None if fit is not None else classifier.about.get(CALIBRATION)
        trained_on = self.trained_on
        return RunEvaluation(
            folder=folder,
            result=result,
            calibration=fit,
            saved=saved,
            trained_on=sum(sample.path in trained_on for sample in self.evaluated),
            held_out=self.held_out,
            gone=self.parts.gone if self.held_out else 0,
            fitted_before=before,
            fitted_on_these=before is not None and self.trained_with is not None and before.get("split") == self.split,
        )


def _photos(place: _Place, data: str | None, split: str | None, calibrate: str | None, unknown: str | None) -> _Photos:
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
    return _Photos(
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


@dataclass(frozen=True)
class _Place:
    """The paths of the parts of a run, or of a model folder outside a run."""

    model: Path
    evaluations: Path
    settings: TrainSettings | None

    @classmethod
    def of(cls, run: str | os.PathLike[str]) -> _Place:
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


class _Known(NamedTuple):
    """The features of photos that several processes computed; None each if this process computes them as it goes."""

    fitted_on: Features | None = None
    evaluated: Features | None = None
    foreign: Features | None = None


def _shared(classifier: PhotoClassifier, parts: Sequence[Samples | None], options: PhotoOptions) -> tuple[bool, _Known]:
    """In a job of several processes, compute features together; returns whether this is the first, and what it got."""
    settings = PhotoSettings(**options)
    with joined_ranks() as ranks:
        if ranks.size == 1:
            return True, _Known()
        compute = partial(photo_features, classifier, settings=settings)
        found = [None if part is None else shared_features(ranks, part, compute) for part in parts]
        return ranks.first, _Known(*found)


def _details(
    place: _Place,
    classifier: PhotoClassifier,
    collector: DetailCollector,
    evaluation: Evaluation,
    evaluated: Samples,
    workers: int | None,
    engine: EngineName,
    progress: ShowProgress | None,
) -> FoundDetails:
    """The details that a report needs of an evaluation."""
    run, features = None, None
    if place.settings is not None:
        run = place.model.absolute().parent
        cache = place_of_features(place.settings, run)
        features = FeatureSettings(cache=cache, threads=workers, engine=engine, progress=progress)
    return gather_details(
        classifier,
        collector.details(),
        evaluation.samples,
        evaluated,
        settings=place.settings,
        features=features,
        box=evaluation.result.box,
        source=evaluation.result.data,
        threads=workers,
        run=run,
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


def _parts_of(place: _Place, samples: Samples, settings: TrainSettings | None) -> Parts:
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


def _completed(
    result: EvaluationResult, about: dict[str, str], calibrate: str | None, fit: CalibrationFit | None
) -> EvaluationResult:
    """The result, completed with its model, data and split."""
    result = replace(result, **about)  # type: ignore[arg-type]
    if fit is None:
        return result
    return replace(
        result,
        calibrated_on=calibrate,
        temperature_fit=fit.temperature,
        bad_photos=(*fit.bad_photos, *result.bad_photos),
    )
