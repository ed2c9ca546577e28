"""Classifiers: a head fitted to features, and what is made of it.

`BipartiteClassifier` needs scikit-learn, so it is loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from finegraph.model.fitting import Fit, FitSettings, fit_head

if TYPE_CHECKING:
    from finegraph.model.classifier import BipartiteClassifier

__all__ = ["BipartiteClassifier", "Fit", "FitSettings", "fit_head"]


def __getattr__(name: str) -> object:
    if name == "BipartiteClassifier":
        from finegraph.model.classifier import BipartiteClassifier

        return BipartiteClassifier
    raise AttributeError(f"module 'finegraph.model' has no attribute {name!r}")
