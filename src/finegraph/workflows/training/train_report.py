"""The report that training ends with: the new model on its validation photos, never on test photos.

The photos are judged as `evaluate_run` does it, and the evaluation is kept with the run. But nothing is read or
computed twice: the list of photos, the network and, if the head alone was tuned, the features of all photos are
still there. Cost: the small pictures, and a second for the rest; if the whole network was trained also the network
on the training photos, to find similar ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from finegraph.evaluation.asking import DEFAULT_QUESTIONS
from finegraph.evaluation.details import DetailCollector, draw_order
from finegraph.evaluation.photo_evaluation import evaluate_photos
from finegraph.model.features import Features
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.progress_types import ShowStage
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.workflows.evaluation.evaluation_folder import default_name, write_evaluation
from finegraph.workflows.evaluation.report_details import gather_details
from finegraph.workflows.indexing.similar_photos import FeatureSettings, TrainingFeatures, place_of_features
from finegraph.workflows.report import DEFAULT_NAME, write_report
from finegraph.workflows.training.training_data import TrainingData

_GALLERY = 80
"""How many photos of each sort are explained; fewer than an evaluation explains, as people wait for the end here."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A trained model with what training leaves in memory.

    Attributes:
        folder: the run, with the model in it.
        settings: of the training.
        classifier: the model, where this training made it; None if it was there already when the run was resumed.
        data: the photos.
        split: what the validation photos are called.
        known: the features of the photos, if the head alone was tuned.
        judged: those of the validation photos, as they are, if the model is new.
    """

    folder: RunFolder
    settings: TrainSettings
    classifier: PhotoClassifier | None
    data: TrainingData
    split: str
    known: TrainingFeatures | None
    judged: Features | None


def report_trained(trained: Trained, device: torch.device, stage: ShowStage) -> str | None:
    """Judge a trained model on its validation photos and write the report of that.

    An existing report is kept if nothing new was trained: it may show more.

    Args:
        trained: the model.
        device: where the network computes.
        stage: called with the number of photos done and the total, by the name of the stage.

    Returns:
        The page; None if there are no validation photos.

    Raises:
        RunFolderError: the evaluation or the page cannot be written.
        PhotoFileError: a validation photo cannot be read any more.
    """
    page = trained.folder.path / DEFAULT_NAME
    if trained.classifier is None and page.is_file():
        return str(page)
    if trained.data.val is None or not len(trained.data.val):
        return None
    samples, known = trained.data.val, trained.known
    classifier = trained.classifier or PhotoClassifier.load(trained.folder.model)
    classifier.network.to(device).eval()
    collector = DetailCollector(classifier.graph, draw_order(samples), _GALLERY)
    evaluation = evaluate_photos(
        classifier,
        samples,
        details=collector,
        questions=DEFAULT_QUESTIONS,
        progress=stage(f"photos of {trained.split}"),
        known=trained.judged,
        workers=trained.settings.workers,
        on_bad_file=trained.settings.on_bad_file,
    )
    about = {"model": str(trained.folder.path), "data": trained.settings.data, "split": trained.split}
    evaluation = evaluation._replace(result=replace(evaluation.result, **about))  # type: ignore[arg-type]
    details = gather_details(
        classifier,
        collector.details(),
        evaluation.samples,
        samples,
        settings=trained.settings,
        features=None if known is not None else _features(trained, stage("training photos")),
        box=evaluation.result.box,
        source=trained.settings.data,
        threads=trained.settings.workers,
        data=trained.data,
        known=known,
    )
    stem = default_name(trained.split, 1, None, False)
    folder = write_evaluation(trained.folder.evaluations, None, stem, evaluation, samples, classifier, None, details)
    return write_report([trained.folder.path], page, evaluation=folder.name).path


def _features(trained: Trained, progress: Callable[[int, int], None]) -> FeatureSettings:
    """Where the features of training photos come from when they are not in memory."""
    where = place_of_features(trained.settings, trained.folder.path)
    return FeatureSettings(cache=where, threads=trained.settings.workers, progress=progress)
