"""Classifiers: a head fitted to features, and a whole network that is asked about photos.

`BipartiteClassifier` needs scikit-learn, so it is loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from finegraph.model.answering.predictions import Prediction
from finegraph.model.answering.unknown import UnknownRule
from finegraph.model.fitting import Fit, FitSettings, fit_head
from finegraph.model.photo_classifier import PhotoClassifier, load

if TYPE_CHECKING:
    from finegraph.model.classifier import BipartiteClassifier

__all__ = [
    "BipartiteClassifier",
    "Fit",
    "FitSettings",
    "PhotoClassifier",
    "Prediction",
    "UnknownRule",
    "fit_head",
    "load",
]


def __getattr__(name: str) -> object:
    if name == "BipartiteClassifier":
        from finegraph.model.classifier import BipartiteClassifier

        return BipartiteClassifier
    raise AttributeError(f"module 'finegraph.model' has no attribute {name!r}")
