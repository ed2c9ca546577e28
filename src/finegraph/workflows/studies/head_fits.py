"""Fitting the heads of a study on features, each with the same number of settings tried on the validation photos.

    softmax            N strengths of the prior
    softmax-marginal   N / 2 strengths x 2 weights of the kinds in the loss
    bipartite(-two)    N / 4 strengths x 2 strengths of coarse weights x 2 weights of the kinds
    independent        N strengths; each of its layers keeps the one that suits it
    ensemble           N strengths; each of its two heads keeps the one that suits it
    the closed form    N shrinkages (closed_form_heads.py)
    scikit-learn's     N strengths, or N / 4 shrinkages x 4 temperatures (sklearn_heads.py)

With N = 28 the grids are those of `finegraph.model.fitting.selection`. The setting under which the validation photos'
fine labels are most likely wins, then the head is fitted once more from nothing, and only that is timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from finegraph.data.dataset import MISSING
from finegraph.evaluation.number_metrics import median_labels, ordered_kinds
from finegraph.graph import Kind, LabelGraph
from finegraph.model.fitting import FitSettings
from finegraph.model.fitting.head_solver import SolvedHead, SolverSettings, choose_strengths, solve_head
from finegraph.model.fitting.selection import Grid, LabelledFeatures, default_grid
from finegraph.nn import SoftmaxHead
from finegraph.workflows.studies.closed_form_heads import fit_automatically, fit_closed_form
from finegraph.workflows.studies.fitted_head import (
    TOLERANCE,
    Fitted,
    HeadAnswer,
    JointAnswers,
    batch_of,
    middles,
    softmax_loss,
    step_milliseconds,
    with_implied,
)
from finegraph.workflows.studies.photo_sets import PhotoMatrices
from finegraph.workflows.studies.sklearn_heads import DISCRIMINANT, LOGISTIC, fit_discriminant, fit_logistic

_USUAL = 28
_STRONGEST, _WEAKEST = 0.3, 0.0003
_WEAKEST_SOFTMAX = 0.0001


def fit_study_head(
    head: str, graph: LabelGraph, kinds: Sequence[str], train: PhotoMatrices, val: PhotoMatrices, settings: int
) -> Fitted:
    """Choose the settings of a head and fit it.

    Args:
        head: see `finegraph.workflows.studies.spec.HEADS`.
        graph: with all kinds that are measured.
        kinds: those that the head learns from.
        train: what to fit.
        val: what to choose settings on.
        settings: how many to try.
    """
    if head == "ensemble":
        assert train.coarse is not None
        assert val.coarse is not None
        fitted = Fitted(_Mean(graph), settings)
        pairs = ((train.fine, val.fine), (train.coarse, val.coarse))
        for number, (part, held) in enumerate(pairs):
            own, other = LabelledFeatures(part, train.target), LabelledFeatures(held, val.target)
            layer = _layer(fitted, f"network {number + 1}", graph, own, other, settings)
            fitted.model.heads.append(layer)  # type: ignore[attr-defined]
        return fitted
    if head == "independent":
        return _independent(graph, kinds, train, val, settings)
    if head == LOGISTIC:
        return fit_logistic(graph, train, val, grid_of("softmax", graph, settings)["l2"])
    if head == DISCRIMINANT:
        return fit_discriminant(graph, train, val, settings)
    if head.startswith("prototypes"):
        return fit_closed_form(head, graph, graph.only(kinds), train, val, settings)
    if head == "auto":
        return fit_automatically(graph, graph.only(kinds), train)
    own_graph = graph if head == "softmax" else graph.only(kinds)
    two = head == "bipartite-two"
    tried = _descent("softmax" if head.startswith("softmax") else "bipartite", grid_of(head, own_graph, settings))
    solved, count, seconds = _fit(own_graph, tried, train.labelled(two=two), val.labelled(two=two))
    fitted = Fitted(JointAnswers(graph, solved.head, two=two, kinds_count=head != "softmax"), count)
    fitted.add_descent(head, solved, seconds)
    return fitted


def grid_of(head: str, graph: LabelGraph, settings: int) -> dict[str, Sequence[float]]:
    """The strengths that a head tries: as many settings for each."""
    kinds = max(len(graph.kinds), 1)
    if head == "softmax-marginal":
        return {"l2": _path(settings // 2, _WEAKEST_SOFTMAX), "kind_weight": (0.2 / kinds, 1.0 / kinds)}
    if settings == _USUAL:
        return default_grid("bipartite" if head.startswith("bipartite") else "softmax", graph)
    if not head.startswith("bipartite"):
        return {"l2": _path(settings, _WEAKEST_SOFTMAX)}
    usual = default_grid("bipartite", graph)
    return {**usual, "l2": _path(settings // 4, _WEAKEST)}


def _path(count: int, weakest: float) -> tuple[float, ...]:
    """Strengths from strong to weak."""
    return middles(_STRONGEST, weakest, count)


def _descent(head: Literal["bipartite", "softmax"], grid: Grid) -> SolverSettings:
    """Descent with the best strengths of a grid."""
    return SolverSettings(solver="descent", descent=FitSettings(head=head, tolerance=TOLERANCE), grid=grid)


def _fit(
    graph: LabelGraph, tried: SolverSettings, train: LabelledFeatures, val: LabelledFeatures
) -> tuple[SolvedHead, int, float]:
    """Choose among settings on the validation photos, and fit with the best; how many there were, and the seconds."""
    best, found = choose_strengths(train, graph, tried, val)
    assert found is not None  # there are validation photos
    began = perf_counter()
    solved = solve_head(train, graph, tried, chosen=best)
    return solved, len(found.settings), perf_counter() - began


def _layer(
    fitted: Fitted, name: str, graph: LabelGraph, train: LabelledFeatures, val: LabelledFeatures, settings: int
) -> SoftmaxHead:
    """A softmax that is fitted on its own."""
    solved, _, seconds = _fit(graph, _descent("softmax", grid_of("softmax", graph, settings)), train, val)
    fitted.add_descent(name, solved, seconds)
    assert isinstance(solved.head, SoftmaxHead)
    return solved.head.requires_grad_(False)


def _independent(
    graph: LabelGraph, kinds: Sequence[str], train: PhotoMatrices, val: PhotoMatrices, settings: int
) -> Fitted:
    """One softmax for the fine labels and one for each kind, independent of each other; numbers have none."""
    model = _Separate(graph)
    fitted = Fitted(model, settings)
    plain = LabelGraph(graph.fine)
    model.fine = _layer(fitted, "fine", plain, train.labelled(), val.labelled(), settings)
    for name in (one for one in kinds if one in graph.kinds):
        kind = graph.kind(name)
        target, val_target = only_parent(kind, train.target), only_parent(kind, val.target)
        known = target != MISSING
        seen = torch.unique(target[known])
        if len(seen) < 2:  # there is only one answer to learn
            model.kinds[name] = (seen, None)
            continue
        number = torch.full((len(kind.labels) + 1,), MISSING)
        number[seen] = torch.arange(len(seen))
        held = number[torch.where(val_target == MISSING, len(kind.labels), val_target)]
        labels = LabelGraph([kind.labels[int(label)] for label in seen])
        own, other = LabelledFeatures(train.fine[known], number[target[known]]), LabelledFeatures(val.fine, held)
        layer = _layer(fitted, name, labels, own, other, settings)
        model.kinds[name] = (seen, layer)
    return fitted


def only_parent(kind: Kind, fine: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
    """The label of a kind that a fine label has for certain; `MISSING` where it has several, or none is known."""
    starts = torch.from_numpy(np.array(kind.starts))
    single = (starts[fine + 1] - starts[fine]) == 1
    coarse = torch.from_numpy(np.append(kind.coarse, 0).astype(np.int64))
    return torch.where(single, coarse[starts[fine]], MISSING)


# ---- what answers ---------------------------------------------------------------------------------------------------


class _Mean:
    """Softmax heads on several networks, whose probabilities are averaged."""

    def __init__(self, graph: LabelGraph) -> None:
        self.graph = graph
        self.heads: list[SoftmaxHead] = []

    def answer(self, features: Tensor, coarse: Tensor | None, views: int) -> HeadAnswer:
        assert coarse is not None
        each = [
            head(inputs).mean_views(views).log_probs()
            for head, inputs in zip(self.heads, (features, coarse), strict=True)
        ]
        mean = torch.logsumexp(torch.stack(each), dim=0) - np.log(len(each))
        return with_implied(self.graph, HeadAnswer(mean, {}, {}, {}))

    def step(self, part: PhotoMatrices) -> tuple[float, float]:
        batch = batch_of(part)
        assert batch.coarse is not None
        pairs = list(zip(self.heads, (batch.fine, batch.coarse), strict=True))
        return step_milliseconds(
            self.heads,
            lambda: torch.stack([softmax_loss(head, inputs, batch.target) for head, inputs in pairs]).sum(),
        )


class _Separate:
    """A softmax for the fine labels and one for each kind."""

    def __init__(self, graph: LabelGraph) -> None:
        self.graph = graph
        self.fine: SoftmaxHead | None = None
        self.kinds: dict[str, tuple[Tensor, SoftmaxHead | None]] = {}

    def answer(self, features: Tensor, coarse: Tensor | None, views: int) -> HeadAnswer:
        assert self.fine is not None
        log_probs = self.fine(features).mean_views(views).log_probs()
        ordered, labels, medians = ordered_kinds(self.graph), {}, {}
        for name, (seen, layer) in self.kinds.items():
            if layer is None:
                only = seen[:1].repeat(len(log_probs)) if len(seen) else torch.full((len(log_probs),), 0)
                labels[name], median = only, only
            else:
                kind_log_probs = layer(features).mean_views(views).log_probs()
                labels[name] = seen[kind_log_probs.argmax(dim=1)]
                median = seen[torch.from_numpy(median_labels(kind_log_probs.double().exp().numpy()))]
            if name in ordered:
                medians[name] = median.numpy()
        return with_implied(self.graph, HeadAnswer(log_probs, labels, medians, {}))

    def step(self, part: PhotoMatrices) -> tuple[float, float]:
        assert self.fine is not None
        batch = batch_of(part)
        layers = [(self.fine, batch.target)]
        for name, (seen, layer) in self.kinds.items():
            if layer is not None:
                place = torch.searchsorted(seen, only_parent(self.graph.kind(name), batch.target))
                layers.append((layer, place.clamp_max(len(seen) - 1)))  # any target costs the same
        return step_milliseconds(
            [layer for layer, _ in layers],
            lambda: torch.stack([softmax_loss(layer, batch.fine, target) for layer, target in layers]).sum(),
        )
