"""The metrics of a cell: one value per photo first, so that means, intervals and pairs all come from the same numbers.

top1, top5        1 if the true fine label is the first, or among the first five, else 0
nll               minus the log probability of the true fine label
kind:NAME         1 if the label of the kind is right; of a group of kinds, the share of its members that are right
steps:KIND        of an ordered kind, how many steps the median label is from the true one
error:NUMBER      how far the expected value is from the true one, in the unit of the number
coverage:NUMBER   1 if the true value is in the shortest interval that holds 90 %, else 0
spearman:NUMBER   the correlation of the ranks of expected and true values: of all photos, not of each

The true value of a photo is the one that was measured on it, else that of its fine label, as in an evaluation. Photos
are taken some at a time, fewer the more labels there are, so that memory does not grow with photos x labels.

Cost: linear in photos x labels. Only the search for shortest intervals costs far more, where values have spreads: some
40 microseconds per photo and label. So of many photos and labels some are searched, taken evenly, the same ones for all
heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.evaluation.judgements import UNJUDGED, Judgements, judge_interval, judge_kind
from finegraph.evaluation.metrics import truth_rank
from finegraph.evaluation.number_metrics import SHOWN_LEVEL, ordered_kinds, spearman
from finegraph.evaluation.study_metrics import COVERAGE, ERROR, KIND, SPEARMAN, STEPS
from finegraph.evaluation.sure import true_values
from finegraph.graph import LabelGraph
from finegraph.inference import ValueDistribution
from finegraph.inference.numbers.potential import Components
from finegraph.model.fitting.target_log_probs import max_rows
from finegraph.workflows.studies.fitted_head import HeadAnswer, Model
from finegraph.workflows.studies.photo_sets import PhotoMatrices, kind_groups

_MAX_ROWS = 2048
_MAX_SEARCHES = 200_000
"""The largest number of photos x labels whose intervals are searched for each number with spreads."""
_EXPECTED, _TRUE = "expected:", "true:"
"""Values that are no metrics: rank correlations are made of them."""

PerPhoto = dict[str, Float[NDArray[np.float64], " _"]]
"""By metric, a value for each photo; NaN if it cannot be judged. Also the expected and true values of each number."""


def measure(model: Model, part: PhotoMatrices, graph: LabelGraph, views: int) -> PerPhoto:
    """The metrics of a model on each photo."""
    parts = []
    searched = searched_photos(graph, len(part))
    step = max(1, min(_MAX_ROWS, max_rows(graph)) // views)
    with torch.inference_mode():
        for start in range(0, len(part), step):
            rows = slice(start, start + step)
            features, coarse = (None if one is None else _rows(one[rows], views) for one in (part.fine, part.coarse))
            assert features is not None
            measured = {name: values[rows] for name, values in part.measured.items()}
            wanted = {name: photos[rows] for name, photos in searched.items()}
            parts.append(judged(model.answer(features, coarse, views), part.target[rows], graph, measured, wanted))
    return joined(parts)


def searched_photos(graph: LabelGraph, photos: int) -> dict[str, Bool[NDArray[np.bool_], " photo"]]:
    """Per number, which photos of a split are judged by the interval of their value."""
    steps = {name: -(-photos * len(graph) // _MAX_SEARCHES) for name in graph.numbers}
    points = {name for name in graph.numbers if not graph.number(name).spreads.any()}
    return {name: np.arange(photos) % (1 if name in points else max(1, step)) == 0 for name, step in steps.items()}


def judged(
    answer: HeadAnswer,
    target: Int[Tensor, " batch"],
    graph: LabelGraph,
    measured: Mapping[str, Float[NDArray[np.float64], " batch"]] | None = None,
    searched: Mapping[str, Bool[NDArray[np.bool_], " batch"]] | None = None,
) -> PerPhoto:
    """The metrics of an answer to each photo.

    Args:
        answer: what is judged.
        target: the true fine labels.
        graph: with all kinds and numbers that are measured.
        measured: per number the values measured on the photos, NaN where there is none.
        searched: per number which photos are judged by the interval of their value; None for all.
    """
    fine = target.numpy()
    rank = truth_rank(answer.log_probs, target).numpy()
    truth = answer.log_probs.gather(1, target[:, None])[:, 0].double().numpy()
    values: PerPhoto = {"top1": (rank == 1).astype(float), "top5": (rank <= 5).astype(float), "nll": -truth}
    for name in graph.kinds:
        values[KIND + name] = _judgements(judge_kind(graph.kind(name), answer.labels[name].numpy(), fine))
    for group, members in kind_groups(graph).items():
        values[KIND + group] = _mean_of([values[KIND + name] for name in members])
    for name in ordered_kinds(graph):
        parents = graph.kind(name).parents[fine]
        values[STEPS + name] = np.where(parents < 0, np.nan, np.abs(answer.medians[name] - parents))
    for name in graph.numbers:
        true = true_values(graph.number(name), fine, None if measured is None else measured.get(name))
        value = answer.values[name]
        expected = value.mean.numpy()
        values[ERROR + name] = np.abs(expected - true)
        values[COVERAGE + name] = _covered(value, true, None if searched is None else searched[name])
        values[_EXPECTED + name], values[_TRUE + name] = expected, true
    return values


def joined(parts: Iterable[PerPhoto]) -> PerPhoto:
    """The values of several batches one after the other."""
    listed = list(parts)
    return {name: np.concatenate([part[name] for part in listed]) for name in (listed[0] if listed else {})}


def metrics_of_photos(values: PerPhoto) -> PerPhoto:
    """The values of each photo that are metrics, with a mean over photos that says something."""
    return {name: own for name, own in values.items() if not name.startswith((_EXPECTED, _TRUE))}


def photo_metrics(values: PerPhoto) -> dict[str, float]:
    """The metrics of all photos that can be judged: means, and rank correlations; metrics of no photo are left out."""
    found = {}
    for name, own in metrics_of_photos(values).items():
        known = ~np.isnan(own)
        if not known.any():
            continue
        found[name] = float(own[known].mean())
        if name.startswith(COVERAGE):
            number = name.removeprefix(COVERAGE)
            correlation = spearman(values[_EXPECTED + number][known], values[_TRUE + number][known])
            if correlation is not None:
                found[SPEARMAN + number] = correlation
    return found


def _covered(
    value: ValueDistribution,
    true: Float[NDArray[np.float64], " batch"],
    searched: Bool[NDArray[np.bool_], " batch"] | None,
) -> Float[NDArray[np.float64], " batch"]:
    """Whether the true value of each photo is in its interval; NaN if it is not judged. There is no evidence."""
    places = np.flatnonzero(~np.isnan(true) if searched is None else searched & ~np.isnan(true))
    covered = np.full(len(true), np.nan)
    if len(places):
        term, mean, variance = (part if len(part) == 1 else part[places] for part in value.components[:3])
        some = replace(value, weights=value.weights[places], components=Components(term, mean, variance))
        low, high = (end.numpy() for end in some.interval(SHOWN_LEVEL))
        covered[places] = _judgements(judge_interval(true[places], low, high))
    return covered


def _judgements(right: Int[Judgements, " photo"]) -> Float[NDArray[np.float64], " photo"]:
    """Judgements as numbers, NaN for those that cannot be made."""
    return np.where(right == UNJUDGED, np.nan, right.astype(float))


def _rows(features: Tensor, views: int) -> Tensor:
    return features if views == 1 else features.flatten(0, 1)


def _mean_of(columns: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The mean over columns, of those that are known; NaN if none is."""
    stacked = np.stack(columns)
    count = (~np.isnan(stacked)).sum(axis=0)
    mean: NDArray[np.float64] = np.where(count > 0, np.nansum(stacked, axis=0) / np.maximum(count, 1), np.nan)
    return mean
