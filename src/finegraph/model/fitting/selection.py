"""Choose strengths on held-out samples: the settings under which their fine labels are most likely.

Settings of a grid are fitted on each training part along a path from the strongest prior to the weakest, each fit
starting where the last one ended. The score of a setting is the mean log probability of the fine label over all
held-out samples; the first of equal settings wins, and the strongest prior comes first.

Hopeless settings are abandoned early: one that is behind the best so far by far more than chance is not fitted to the
remaining folds, and a path ends where weaker priors fall behind like that. Their scores there are NaN.

Both heads get the same number of settings (`default_grid`), so that a comparison is fair: softmax spends all of them
on its one strength, and a bipartite head has softmax among its settings.

Folds are dealt class by class in the order of the samples: consecutive photos are often taken together, and
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
from finegraph.model.fitting.descent import SOFTMAX_RATIO, FitSettings, fit_head, graph_of
from finegraph.model.fitting.fit_samples import NOT_OBSERVED, check_coarse_features
from finegraph.model.fitting.span import spans_of
from finegraph.model.fitting.target_log_probs import target_log_probs

Fold = tuple[Int[NDArray[np.int64], " _"], Int[NDArray[np.int64], " _"]]
"""The training and the held-out samples."""
Grid = Mapping[str, Sequence[float]]

GRID_NAMES = ("l2", "coarse_ratio", "laplacian", "kind_weight")
_L2 = tuple(float(l2) for l2 in np.geomspace(0.3, 0.0001, 7))
"""Candidates for the strength of the prior, the same range for both heads: softmax likes weaker ones."""
FOLDS = 5
"""The default number of folds of cross-validation."""
_MAX_ERRORS_BEHIND = 3.0
_MIN_CLASSES = 8
"""A setting this many standard errors behind is abandoned, if at least this many classes determine the error."""


class LabelledFeatures(NamedTuple):
    """The features of samples and their labels.

    Attributes:
        features: one row per sample.
        targets: the fine label of each, -100 if not observed.
        coarse_features: the features of the coarse labels, if they have their own.
        kind_targets: for some kinds the photo labels, and for some numbers the measured values, as for `fit_head`.
        sample_weight: how much each sample counts; by default all are equal.
        views: the features of single views of each sample, as for `fit_prototypes`.
        block_sizes: the sizes of the blocks of the features, as for `fit_prototypes`.
    """

    features: Float[Tensor, "batch feature"]
    targets: Int[Tensor, " batch"]
    coarse_features: Float[Tensor, "batch coarse_feature"] | None = None
    kind_targets: Mapping[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]] | None = None
    sample_weight: Float[Tensor, " batch"] | None = None
    views: Float[Tensor, "batch view feature"] | None = None
    block_sizes: Sequence[int] | None = None


@dataclass(frozen=True, kw_only=True)
class GridSearch:
    """What cross-validation found.

    Attributes:
        settings: every setting that was tried.
        scores: (setting, fold) the mean log probability of the held-out fine labels; NaN if a hopeless setting was
            not tried.
        sizes: (fold) the summed weight of the held-out samples.
        best: the number of the best setting.
    """

    settings: tuple[FitSettings, ...]
    scores: Float[NDArray[np.float64], "row column"]
    sizes: Float[NDArray[np.float64], " column"]
    best: int

    @property
    def mean_scores(self) -> Float[NDArray[np.float64], " row"]:
        """(setting) the mean over all held-out samples; NaN for abandoned settings."""
        mean: NDArray[np.float64] = self.scores @ self.sizes / self.sizes.sum()
        return mean


def default_grid(head: str, graph: LabelGraph) -> dict[str, Sequence[float]]:
    """The strengths to choose from for a head and a graph: 28 settings for either head.

    A quarter of those of a bipartite head are softmax (`SOFTMAX_RATIO`), in case the graph does not help.

    The Laplacian prior is not among them: on photo features it was never chosen over plain L2 with its own strength for
    coarse labels. Name it in a grid of your own to have it tried.
    """
    kinds = len(graph.kinds)
    if head == "softmax" or not kinds:
        return {"l2": tuple(float(l2) for l2 in np.geomspace(_L2[0], _L2[-1], 4 * len(_L2)))}
    return {
        "l2": _L2,
        "coarse_ratio": (kinds / 16, SOFTMAX_RATIO),
        "kind_weight": (0.1 / kinds, 0.3 / kinds, 1.0 / kinds),
    }


def grid_settings(base: FitSettings, grid: Grid) -> list[FitSettings]:
    """All settings of a grid, those that differ only in `l2` next to each other and the strongest first.

    If the ratio of coarse strengths is `SOFTMAX_RATIO`, kinds have no weight whatever the grid says, so that these
    settings are softmax; each of them occurs once. With a Laplacian prior, which softmax cannot have, there are none.
    """
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
    for other in others:
        if other.get("coarse_ratio") == SOFTMAX_RATIO:
            other["kind_weight"] = 0.0
    if len(grid.get("coarse_ratio", ())) > 1:
        others = [
            other
            for other in others
            if other["coarse_ratio"] != SOFTMAX_RATIO or not other.get("laplacian", base.laplacian)
        ]
    different = [other for place, other in enumerate(others) if other not in others[:place]]
    return [replace(base, l2=l2, **other) for other in different for l2 in path]


def deal_folds(targets: Int[NDArray[np.int64], " batch"], count: int) -> list[Fold]:
    """Cut samples into folds, class by class; empty if no class has two samples.

    Args:
        targets: the fine label of each sample; samples without one are always trained on.
        count: the number of folds; fewer are returned if the classes are too small.
    """
    if count < 2:
        raise InputError(f"cross-validation needs at least 2 folds, got {count}")
    fold = np.full(len(targets), -1)
    observed = np.flatnonzero(targets != NOT_OBSERVED)
    samples = observed[np.argsort(targets[observed], kind="stable")]  # class by class, each in the order of the samples
    _, starts, sizes = np.unique(targets[samples], return_index=True, return_counts=True)
    # Small classes start at different folds, which keeps the folds even.
    taken = np.where(sizes < 2, 0, np.minimum(sizes, count))
    first, size = np.repeat(np.cumsum(taken) - taken, sizes), np.repeat(sizes, sizes)
    place = np.arange(len(samples)) - np.repeat(starts, sizes)
    fold[samples] = np.where(size < 2, -1, (first + place * count // size) % count)
    held_out = [number for number in range(count) if (fold == number).any()]
    return [(np.flatnonzero(fold != held), np.flatnonzero(fold == held)) for held in held_out]


def compare_settings(
    settings: Sequence[FitSettings],
    graph: LabelGraph,
    train: LabelledFeatures,
    val: LabelledFeatures | None = None,
    folds: Sequence[Fold] | None = None,
) -> GridSearch | None:
    """How likely the fine labels of validation samples are under each of several settings.

    Args:
        settings: the candidates, in the order of the path; see `grid_settings`.
        graph: the label graph.
        train: the samples to fit.
        val: the samples to choose on; None for cross-validation on `train`. Its `kind_targets` are not used.
        folds: those of cross-validation; by default they are dealt.

    Returns:
        None if there is nothing to choose on: no validation samples, and no class with two samples.
    """
    joined = train
    if val is not None:
        joined, folds = _with_validation(train, val)
    elif folds is None:
        folds = deal_folds(train.targets.numpy(), FOLDS)
    if not folds:
        return None
    return search(
        joined.features,
        joined.targets,
        graph,
        settings,
        folds,
        coarse_features=joined.coarse_features,
        kind_targets=joined.kind_targets or None,
        sample_weight=joined.sample_weight,
    )


def _with_validation(train: LabelledFeatures, val: LabelledFeatures) -> tuple[LabelledFeatures, list[Fold]]:
    """Validation samples after those to fit, and the one fold that holds them out."""
    count, total = len(train.targets), len(train.targets) + len(val.targets)
    coarse, weight = train.coarse_features, train.sample_weight
    if coarse is not None and val.coarse_features is not None:
        coarse = torch.cat([coarse, val.coarse_features])
    if weight is not None:
        weight = torch.cat([weight, weight.new_ones(len(val.targets))])
    joined = LabelledFeatures(
        features=torch.cat([train.features, val.features]),
        targets=torch.cat([train.targets, val.targets]),
        coarse_features=coarse,
        kind_targets={
            name: torch.cat([labels, torch.full_like(val.targets, NOT_OBSERVED)])
            for name, labels in (train.kind_targets or {}).items()
        },
        sample_weight=weight,
    )
    return joined, [(np.arange(count), np.arange(count, total))]


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
) -> GridSearch:
    """Score settings by cross-validation.

    Args:
        features: one row per sample.
        targets: the fine label of each sample, -100 if not observed.
        graph: the label graph.
        settings: the candidates, in the order of the path; see `grid_settings`.
        folds: the training and the held-out samples of each fold.
        coarse_features: as for `fit_head`.
        kind_targets: as for `fit_head`; used in training only.
        sample_weight: how much each sample counts, in training and in scores.
    """
    seen = torch.unique(targets)
    if not kind_targets and int(seen[0]) != NOT_OBSERVED and len(seen) < len(graph):
        # Labels without samples are left out once here, rather than restored after every fit.
        graph, targets = graph_of(graph, seen), torch.searchsorted(seen, targets)
    weight = features.new_ones(len(features)) if sample_weight is None else sample_weight.to(features)
    matrices = (features,) if coarse_features is None else (features, coarse_features)
    if coarse_features is not None:
        check_coarse_features(coarse_features, features)
    spans = spans_of(matrices, weight / weight.sum(), tied=any(setting.laplacian > 0 for setting in settings))
    inside = [span.inside(matrix) for span, matrix in zip(spans, matrices, strict=True)]
    race = _Race(len(settings), targets, weight.double())
    for train, held in folds:
        chosen, held_out = torch.from_numpy(train), torch.from_numpy(held)
        race.next_fold(held_out[targets[held_out] != NOT_OBSERVED])
        own = {name: labels[chosen] for name, labels in (kind_targets or {}).items()}
        last: FitSettings | None = None
        fit, left = None, False
        for index, setting in enumerate(settings):
            left &= _on_path(settings[index - 1], setting)
            # Softmax learns from fine labels alone.
            if left or (setting.is_softmax and not bool((targets[chosen] != NOT_OBSERVED).any())):
                race.give_up(index)
            if not race.is_running(index):
                continue
            fit = fit_head(
                inside[0][chosen],
                targets[chosen],
                graph,
                setting,
                coarse_features=inside[1][chosen] if len(inside) == 2 else None,
                kind_targets=own or None,
                sample_weight=weight[chosen],
                start=None if fit is None or last is None or last.l2 < setting.l2 else fit.head,
                spans=tuple(span.of_inside() for span in spans),
            )
            held_features = [x[race.held] for x in inside]
            race.note(index, target_log_probs(fit.head, graph, held_features, targets[race.held]))
            left = (
                index > 0
                and last is settings[index - 1]
                and _on_path(last, setting)
                and race.is_behind(index, index - 1)
            )
            last = setting
    return GridSearch(settings=tuple(settings), scores=race.scores(), sizes=race.sizes(), best=race.best())


def _on_path(last: FitSettings, setting: FitSettings) -> bool:
    """Whether a setting differs from the last one only in a weaker prior."""
    return setting.l2 <= last.l2 and replace(last, l2=setting.l2) == setting


class _Race:
    """The scores of settings, sample by sample, and which settings are still worth fitting."""

    def __init__(self, count: int, targets: Int[Tensor, " batch"], weight: Float[Tensor, " batch"]) -> None:
        self._targets, self._weight = targets, weight
        self._running = [True] * count
        self._held: list[Tensor] = []
        self._found: list[list[Tensor]] = [[] for _ in range(count)]

    @property
    def held(self) -> Int[Tensor, " sample"]:
        """The held-out samples of the current fold."""
        return self._held[-1]

    def next_fold(self, held: Int[Tensor, " sample"]) -> None:
        """Begin a fold, and abandon settings that are behind the best by far more than chance."""
        if self._held:
            best = self.best()
            self._running = [running and not self.is_behind(index, best) for index, running in enumerate(self._running)]
        self._held.append(held)

    def is_running(self, index: int) -> bool:
        """Whether a setting is still worth fitting."""
        return self._running[index]

    def give_up(self, index: int) -> None:
        """Abandon a setting."""
        self._running[index] = False

    def note(self, index: int, log_likelihood: Float[Tensor, " sample"]) -> None:
        """The log probabilities of the fine labels of the samples held out in this fold."""
        self._found[index].append(log_likelihood)

    def best(self) -> int:
        """The setting with the highest mean score, of those that were tried on all folds so far."""
        return max((one for one, own in enumerate(self._found) if len(own) == len(self._held)), key=self._mean)

    def scores(self) -> NDArray[np.float64]:
        """(setting, fold) the mean scores."""
        found = np.full((len(self._found), len(self._held)), np.nan)
        for index, own in enumerate(self._found):
            for fold, (log_likelihood, held) in enumerate(zip(own, self._held, strict=False)):
                weight = self._weight[held]
                found[index, fold] = float(weight @ log_likelihood) / (float(weight.sum()) or 1.0)
        return found

    def sizes(self) -> NDArray[np.float64]:
        """(fold) the summed weight of the held-out samples."""
        return np.array([float(self._weight[held].sum()) for held in self._held])

    def _mean(self, index: int) -> float:
        weight = torch.cat([self._weight[held] for held in self._held[: len(self._found[index])]])
        return float(weight @ torch.cat(self._found[index])) / (float(weight.sum()) or 1.0)

    def is_behind(self, index: int, other: int) -> bool:
        """Whether a setting is behind another by far more than chance, with standard errors over classes."""
        held = torch.cat(self._held)
        classes, place = torch.unique(self._targets[held], return_inverse=True)
        if len(classes) < _MIN_CLASSES:
            return False
        behind = torch.cat(self._found[other]) - torch.cat(self._found[index])
        share = self._weight[held] / self._weight[held].sum()
        lag = float(share @ behind)
        by_class = behind.new_zeros(len(classes)).index_add_(0, place, share * (behind - lag))
        return lag > _MAX_ERRORS_BEHIND * float(by_class.norm())
