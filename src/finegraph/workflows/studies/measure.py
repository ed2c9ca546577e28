"""The metrics of a cell: one value per photo first, so that means, intervals and pairs all come from the same numbers.

top1, top5      1 if the true fine label is the first, or among the first five, else 0
nll             minus the log probability of the true fine label
kind:NAME       1 if the label of the kind is right; of a group of kinds, the share of its members that are right

Photos are taken some at a time, fewer the more labels there are, so that memory does not grow with photos x labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.evaluation.judgements import UNJUDGED, judge_kind
from finegraph.evaluation.metrics import truth_rank
from finegraph.graph import LabelGraph
from finegraph.model.fitting.target_log_probs import max_rows
from finegraph.workflows.studies.fitted_head import Answer, Model
from finegraph.workflows.studies.photo_sets import Part, kind_groups

KIND = "kind:"
TIMES = ("seconds_fit", "ms_forward", "ms_backward")
LESS_IS_BETTER = ("nll", *TIMES)
_MAX_ROWS = 2048

PerPhoto = dict[str, Float[NDArray[np.float64], " _"]]
"""By metric, a value for each photo; NaN if it cannot be judged."""


def measure(model: Model, part: Part, graph: LabelGraph, views: int) -> PerPhoto:
    """The metrics of a model on each photo."""
    parts = []
    step = max(1, min(_MAX_ROWS, max_rows(graph)) // views)
    with torch.inference_mode():
        for start in range(0, len(part), step):
            rows = slice(start, start + step)
            features, coarse = (None if one is None else _rows(one[rows], views) for one in (part.fine, part.coarse))
            assert features is not None
            parts.append(judged(model.answer(features, coarse, views), part.target[rows], graph))
    return joined(parts)


def judged(answer: Answer, target: Int[Tensor, " batch"], graph: LabelGraph) -> PerPhoto:
    """The metrics of an answer to each photo."""
    log_probs, labels = answer
    rank = truth_rank(log_probs, target).numpy()
    truth = log_probs.gather(1, target[:, None])[:, 0].double().numpy()
    values: PerPhoto = {"top1": (rank == 1).astype(float), "top5": (rank <= 5).astype(float), "nll": -truth}
    for name in graph.kinds:
        right = judge_kind(graph.kind(name), labels[name].numpy(), target.numpy()).astype(float)
        values[KIND + name] = np.where(right == UNJUDGED, np.nan, right)
    for group, members in kind_groups(graph).items():
        values[KIND + group] = _mean_of([values[KIND + name] for name in members])
    return values


def joined(parts: Iterable[PerPhoto]) -> PerPhoto:
    """The values of several batches one after the other."""
    listed = list(parts)
    return {name: np.concatenate([part[name] for part in listed]) for name in (listed[0] if listed else {})}


def means(values: Mapping[str, Float[NDArray[np.float64], " photo"]]) -> dict[str, float]:
    """The mean of each metric over the photos that can be judged; metrics of no photo are left out."""
    known = {name: values_of_metric[~np.isnan(values_of_metric)] for name, values_of_metric in values.items()}
    return {name: float(values_of_metric.mean()) for name, values_of_metric in known.items() if len(values_of_metric)}


def _rows(features: Tensor, views: int) -> Tensor:
    return features if views == 1 else features.flatten(0, 1)


def _mean_of(columns: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The mean over columns, of those that are known; NaN if none is."""
    stacked = np.stack(columns)
    count = (~np.isnan(stacked)).sum(axis=0)
    mean: NDArray[np.float64] = np.where(count > 0, np.nansum(stacked, axis=0) / np.maximum(count, 1), np.nan)
    return mean
