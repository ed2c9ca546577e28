"""Evaluating a classifier: metrics as pure functions, gathered batch by batch from photos."""

from finegraph.evaluation.collect import Collector
from finegraph.evaluation.photo_evaluation import (
    CalibrationFit,
    Evaluation,
    calibrate_photos,
    calibrated,
    evaluate_photos,
)
from finegraph.evaluation.results import EvaluationResult
from finegraph.evaluation.temperature import TemperatureFit, fit_temperature

__all__ = [
    "CalibrationFit",
    "Collector",
    "Evaluation",
    "EvaluationResult",
    "TemperatureFit",
    "calibrate_photos",
    "calibrated",
    "evaluate_photos",
    "fit_temperature",
]
