"""Choose strengths by held-out samples: the settings under which their fine labels are most likely.

Every setting of a grid is fitted on each training part, along a path from the strongest prior to the weakest, each fit
starting where the last one ended. The score of a setting is the mean log probability of the fine label over all
held-out samples; the first of equal settings wins, and the strongest prior comes first.

Both heads get the same number of settings (`default_grid`), so that comparing them is fair: softmax spends all of them
on its one strength.

Folds are dealt class by class in the order of the samples: photos that follow each other are often taken together, and
so they stay in one fold. A class of one sample can never be held out and is always trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.errors import InputError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.model.fitting.descent import FitSettings, fit_head, graph_of
from finegraph.model.fitting.fit_samples import NOT_OBSERVED, check_coarse_features
from finegraph.model.fitting.span import spans_of

Fold = tuple[Int[NDArray[np.int64], " _"], Int[NDArray[np.int64], " _"]]
"""The training and the held-out samples."""
Grid = Mapping[str, Sequence[float]]

GRID_NAMES = ("l2", "coarse_ratio", "laplacian", "kind_weight")
_L2 = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
FOLDS = 5
"""How many folds cross-validation takes unless told otherwise."""
_WEAKEST = 0.0001
"""For softmax, which did best with weaker priors than the bipartite head."""


class LabelledFeatures(NamedTuple):
    """The features of samples and their labels, as `fit_head` takes them."""

    features: Float[Tensor, "batch feature"]
    targets: Int[Tensor, " batch"]
    coarse_features: Float[Tensor, "batch coarse_feature"] | None = None
    kind_targets: Mapping[str, Int[Tensor, " batch"]] | None = None


@dataclass(frozen=True, kw_only=True)
class Search:
    """What cross-validation found.

    Attributes:
        settings: every setting that was tried.
        scores: (setting, fold) the mean log probability of the held-out fine labels.
        sizes: (fold) the summed weight of the held-out samples.
        best: the number of the best setting.
    """

    settings: tuple[FitSettings, ...]
    scores: Float[NDArray[np.float64], "row column"]
    sizes: Float[NDArray[np.float64], " column"]
    best: int

    @property
    def mean_scores(self) -> Float[NDArray[np.float64], " row"]:
        """(setting) the mean over all held-out samples."""
        mean: NDArray[np.float64] = self.scores @ self.sizes / self.sizes.sum()
        return mean


def default_grid(head: str, graph: LabelGraph) -> dict[str, Sequence[float]]:
    """The strengths to choose from for a head and a graph: 28 settings for either head.

    The Laplacian prior is not among them: on photo features it was never chosen over plain L2 with its own strength for
    coarse labels. Name it in a grid of your own to have it tried.
    """
    kinds = len(graph.kinds)
    if head == "softmax" or not kinds:
        return {"l2": tuple(float(l2) for l2 in np.geomspace(_L2[0], _WEAKEST, 4 * len(_L2)))}
    return {"l2": _L2, "coarse_ratio": (kinds / 32, kinds / 8), "kind_weight": (0.2 / kinds, 1.0 / kinds)}


def grid_settings(base: FitSettings, grid: Grid) -> list[FitSettings]:
    """All settings of a grid, those that differ only in `l2` next to each other and the strongest first."""
    for name, values in grid.items():
        if name not in GRID_NAMES:
            raise unknown_name("strength", name, GRID_NAMES, "in the grid")
        if len(values) == 0:
            raise InputError(f"grid: {name!r} has no values; give at least one, or leave it out")
    names = [name for name in GRID_NAMES if name in grid and name != "l2"]
    path = sorted(grid.get("l2", [base.l2]), reverse=True)
    others: list[dict[str, Any]] = [
        dict(zip(names, values, strict=True)) for values in product(*(grid[name] for name in names))
    ]
    return [replace(base, l2=l2, **other) for other in others for l2 in path]


def deal_folds(targets: Int[NDArray[np.int64], " batch"], count: int) -> list[Fold]:
    """Cut samples into folds, class by class; empty where no class has two samples.

    Args:
        targets: the fine label of each sample; samples of which it was not observed are always trained on.
        count: how many folds; fewer come back where the classes are too small for that many.
    """
    if count < 2:
        raise InputError(f"cross-validation needs at least 2 folds, got {count}")
    fold = np.full(len(targets), -1)
    first = 0
    for label in np.unique(targets[targets != NOT_OBSERVED]):
        samples = np.flatnonzero(targets == label)
        if len(samples) < 2:
            continue
        fold[samples] = (first + np.arange(len(samples)) * count // len(samples)) % count
        first += min(len(samples), count)  # small classes take turns, so that the folds stay even
    held_out = [held for held in range(count) if (fold == held).any()]
    return [(np.flatnonzero(fold != held), np.flatnonzero(fold == held)) for held in held_out]


def choose_settings(
    settings: Sequence[FitSettings], graph: LabelGraph, train: LabelledFeatures, val: LabelledFeatures | None = None
) -> FitSettings | None:
    """The settings under which the fine labels of validation samples are most likely.

    Args:
        settings: what to try, in the order of the path; see `grid_settings`.
        graph: the label graph.
        train: what to fit to.
        val: what to choose by; None for cross-validation on `train`. Its `kind_targets` are not used.

    Returns:
        None if there is nothing to choose by: no validation samples, and no class with two samples.
    """
    features, targets, coarse, kinds = train
    if val is None:
        folds = deal_folds(targets.numpy(), FOLDS)
    else:
        count = len(targets)
        features, targets = torch.cat([features, val.features]), torch.cat([targets, val.targets])
        if coarse is not None and val.coarse_features is not None:
            coarse = torch.cat([coarse, val.coarse_features])
        kinds = {
            name: torch.cat([labels, torch.full_like(val.targets, NOT_OBSERVED)])
            for name, labels in (kinds or {}).items()
        }
        folds = [(np.arange(count), np.arange(count, len(targets)))]
    if not folds:
        return None
    found = search(features, targets, graph, settings, folds, kind_targets=kinds or None, coarse_features=coarse)
    return found.settings[found.best]


def search(
    features: Float[Tensor, "batch feature"],
    targets: Int[Tensor, " batch"],
    graph: LabelGraph,
    settings: Sequence[FitSettings],
    folds: Sequence[Fold],
    *,
    coarse_features: Float[Tensor, "batch coarse_feature"] | None = None,
    kind_targets: Mapping[str, Int[Tensor, " batch"]] | None = None,
    sample_weight: Float[Tensor, " batch"] | None = None,
) -> Search:
    """Score settings by cross-validation.

    Args:
        features: one row per sample.
        targets: the fine label of each sample, -100 where it was not observed.
        graph: the label graph.
        settings: what to try, in the order of the path; see `grid_settings`.
        folds: the training and the held-out samples of each fold.
        coarse_features: as for `fit_head`.
        kind_targets: as for `fit_head`; used in training only.
        sample_weight: how much each sample counts, in training and in scores.
    """
    seen = torch.unique(targets)
    if not kind_targets and int(seen[0]) != NOT_OBSERVED and len(seen) < len(graph):
        # Labels without any sample are left out once and for all: they would only be put back after every fit.
        graph, targets = graph_of(graph, seen), torch.searchsorted(seen, targets)
    weight = features.new_ones(len(features)) if sample_weight is None else sample_weight.to(features)
    matrices = (features,) if coarse_features is None else (features, coarse_features)
    if coarse_features is not None:
        check_coarse_features(coarse_features, features)
    spans = spans_of(matrices, weight / weight.sum(), tied=any(setting.laplacian > 0 for setting in settings))
    inside = [span.inside(matrix) for span, matrix in zip(spans, matrices, strict=True)]
    scores, sizes = np.zeros((len(settings), len(folds))), np.zeros(len(folds))
    for number, (train, held) in enumerate(folds):
        chosen, held_out = torch.from_numpy(train), torch.from_numpy(held)
        held_out = held_out[targets[held_out] != NOT_OBSERVED]
        share = weight[held_out].double()
        sizes[number] = float(share.sum())
        own = {name: labels[chosen] for name, labels in (kind_targets or {}).items()}
        fit = None
        for index, setting in enumerate(settings):
            on_path = fit is not None and setting.l2 <= settings[index - 1].l2
            fit = fit_head(
                inside[0][chosen],
                targets[chosen],
                graph,
                setting,
                coarse_features=inside[1][chosen] if len(inside) == 2 else None,
                kind_targets=own or None,
                sample_weight=weight[chosen],
                start=fit.head if fit is not None and on_path else None,
                spans=tuple(span.of_inside() for span in spans),
            )
            scores[index, number] = float(
                share @ _log_likelihood(fit.head, [x[held_out] for x in inside], targets[held_out])
            )
    scores /= np.where(sizes > 0, sizes, 1.0)
    return Search(settings=tuple(settings), scores=scores, sizes=sizes, best=int(np.argmax(scores @ sizes)))


def _log_likelihood(head: torch.nn.Module, features: Sequence[Tensor], targets: Tensor) -> Float[Tensor, " batch"]:
    """The log probability of the fine label of each sample."""
    with torch.no_grad():
        log_probs: Tensor = head(*features).log_probs()
    return log_probs.gather(1, targets.unsqueeze(1)).squeeze(1).double()
