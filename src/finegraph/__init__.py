"""finegraph: image classifiers whose labels form a graph.

The public names are listed here and loaded when first used, so that importing finegraph is quick and silent.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from finegraph._version import __version__

if TYPE_CHECKING:
    from finegraph.graph import Kind, LabelGraph, Number
    from finegraph.inference import (
        Answer,
        Around,
        Explanation,
        Part,
        Posterior,
        Statement,
        ValueDistribution,
        joint_loss,
        ranking_loss,
    )
    from finegraph.model import BipartiteClassifier, PhotoClassifier, load
    from finegraph.nn import BipartiteHead, SoftmaxHead, laplacian_prior

_HOME = {
    "finegraph.graph": ["Kind", "LabelGraph", "Number"],
    "finegraph.inference": [
        "Answer",
        "Around",
        "Explanation",
        "Part",
        "Posterior",
        "Statement",
        "ValueDistribution",
        "joint_loss",
        "ranking_loss",
    ],
    "finegraph.model": ["BipartiteClassifier", "PhotoClassifier", "load"],
    "finegraph.nn": ["BipartiteHead", "SoftmaxHead", "laplacian_prior"],
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Answer",
    "Around",
    "BipartiteClassifier",
    "BipartiteHead",
    "Explanation",
    "Kind",
    "LabelGraph",
    "Number",
    "Part",
    "PhotoClassifier",
    "Posterior",
    "SoftmaxHead",
    "Statement",
    "ValueDistribution",
    "__version__",
    "joint_loss",
    "laplacian_prior",
    "load",
    "ranking_loss",
]


def __getattr__(name: str) -> object:
    if name in _MODULE:
        return getattr(import_module(_MODULE[name]), name)
    raise AttributeError(f"module 'finegraph' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
