"""Calibrating a model at the end of its training, on the photos that it was validated on.

So probabilities, and the rule for photos of none of the classes, are right without a further command. Cost: if the
head alone was tuned all features are there already, and it takes a moment; if the whole network was trained, the
network once more on the validation photos, whose features the report then takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from finegraph.errors import InputError
from finegraph.evaluation.photo_evaluation import CalibrationFit, calibrate_photos, calibrated
from finegraph.model.features import Features, extract_features
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.progress_types import ShowStage
from finegraph.training.settings import TrainSettings
from finegraph.workflows.training.training_data import TrainingData


@dataclass(frozen=True, kw_only=True)
class CalibratedModel:
    """A model at the end of its training.

    Attributes:
        classifier: the model, calibrated if that could be done.
        fit: what was fitted; None if nothing was.
        fault: why nothing could be fitted, if there are validation photos.
        judged: the features of the validation photos, as they are; None if there are no such photos.
    """

    classifier: PhotoClassifier
    fit: CalibrationFit | None = None
    fault: str | None = None
    judged: Features | None = None


def calibrate_trained(
    classifier: PhotoClassifier,
    data: TrainingData,
    settings: TrainSettings,
    split: str | None,
    judged: Features | None,
    device: torch.device,
    stage: ShowStage,
    held_out: int = 0,
) -> CalibratedModel:
    """Fit a temperature and a threshold for unknown photos on the validation photos.

    Args:
        classifier: the new model.
        data: the photos.
        settings: of the training.
        split: what the validation photos are called; None if there are none.
        judged: their features, if they are known.
        device: where the network computes.
        stage: called with the number of photos done and the total, by the name of the stage.
        held_out: as for `calibrate_photos`.

    Raises:
        PhotoFileError: a validation photo cannot be read any more, if that is an error.
    """
    if split is None or data.val is None or not len(data.val):
        return CalibratedModel(classifier=classifier)
    classifier.network.to(device).eval()
    if judged is None:
        judged = extract_features(
            classifier.network,
            data.val,
            classifier.views,
            cache=False,
            threads=settings.workers,
            on_bad_file=settings.on_bad_file,
            progress=stage(f"photos of {split}"),
        )
    try:
        fit = calibrate_photos(classifier, data.val, known=judged, held_out=held_out)
    except InputError as error:  # none of them has a fine label, or one that the model holds for impossible
        return CalibratedModel(classifier=classifier, fault=str(error), judged=judged)
    return CalibratedModel(classifier=calibrated(classifier, fit, split), fit=fit, judged=judged)
