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

from finegraph.data.samples import Samples
from finegraph.errors import InputError
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
)
from finegraph.evaluation.photo_settings import JoinedProgress, PhotoOptions, PhotoSettings, photo_features
from finegraph.model.answering.unknown import DEFAULT_SCORE
from finegraph.model.features import Features
from finegraph.model.features.engines import EngineName
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.progress_types import ShowProgress
from finegraph.training.distributed import joined_ranks
from finegraph.training.shared_features import shared_features
from finegraph.workflows.evaluation.evaluated_photos import RunPlace, photos_to_evaluate
from finegraph.workflows.evaluation.evaluation_folder import check_evaluation_name, default_name, write_evaluation
from finegraph.workflows.evaluation.report_details import FoundDetails, gather_details
from finegraph.workflows.indexing.similar_photos import FeatureSettings, place_of_features


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
    place = RunPlace.of(run)
    if save_calibration and calibrate is None:
        raise InputError("there is no calibration to save; say on which split it is to be fitted")
    if questions < 0:
        raise InputError(f"questions: expected the largest number of questions to ask, at least 0, got {questions}")
    if name is not None:
        check_evaluation_name(place.evaluations, name)
    photos = photos_to_evaluate(place, data, split, calibrate, unknown)
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
    before = None if fit is not None else classifier.about.get(CALIBRATION)
    run_settings, trained_on = photos.trained_with, photos.trained_on
    return RunEvaluation(
        folder=folder,
        result=evaluation.result,
        calibration=fit,
        saved=save_calibration,
        trained_on=sum(sample.path in trained_on for sample in photos.evaluated),
        held_out=photos.held_out,
        gone=photos.parts.gone if photos.held_out else 0,
        fitted_before=before,
        fitted_on_these=before is not None and run_settings is not None and before.get("split") == photos.split,
    )


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
    place: RunPlace,
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
