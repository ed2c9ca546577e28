"""The metrics of an evaluation, each a pure function of small arrays with one row per photo.

Right is 1, wrong is 0 and unknown is `UNJUDGED`; photos that cannot be judged are left out, and a
metric over no photo at all is None. Linear in photos x kinds, but for the rank, which looks at every fine label.

Calibration: of the answers given with 80 %, 80 % should be right. Answers are sorted by confidence and cut into bins of
nearly equally many photos. Each bin has a mean confidence and an accuracy; the calibration error is the mean of their
absolute difference over photos. It costs one sort. Bins of equal width would put nearly all photos of a good network
into the last one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.data.dataset import MISSING
from finegraph.evaluation.judgements import UNJUDGED, Indices, Judgements, contradicts, shares_label
from finegraph.graph import LabelGraph

Numbers = NDArray[np.floating]
MAX_BINS = 15
MIN_IN_A_BIN = 20
"""The smallest number of photos in a bin: the error of a smaller one would be mostly chance, and never below 0."""


def truth_rank(log_probs: Float[Tensor, "batch fine"], fine: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
    """At which place, counted from 1, the true fine label stands; 0 where it is not known.

    Of equally probable labels, the one that stands first in the graph comes first; so place 1 is the argmax.
    """
    known = fine != MISSING
    place = fine.clamp_min(0).unsqueeze(1)
    truth = log_probs.gather(1, place)
    before = torch.arange(log_probs.shape[1], device=fine.device) < place
    ahead = (log_probs > truth) | ((log_probs == truth) & before)
    return torch.where(known, ahead.sum(dim=1) + 1, 0)


def top_accuracy(rank: Int[Indices, " photo"], count: int) -> float | None:
    """The share of photos whose true fine label is among the `count` most probable ones."""
    known = rank[rank > 0]
    return float((known <= count).mean()) if len(known) else None


def accuracy(right: Int[Judgements, " photo"]) -> float | None:
    """The share of right answers among those that can be judged."""
    judged = right[right != UNJUDGED]
    return float(judged.mean()) if len(judged) else None


def full_path_accuracy(
    fine_right: Int[Judgements, " photo"], kinds_right: Int[Judgements, "photo kind"]
) -> float | None:
    """The share of photos whose fine label and labels of all kinds are right.

    Args:
        fine_right: of the most probable fine label; photos for which it cannot be judged are left out.
        kinds_right: (photo, kind) of the most probable label of each kind; those that cannot be judged do not count.
    """
    judged = fine_right != UNJUDGED
    whole = (fine_right == 1) & (kinds_right != 0).all(axis=1)
    return float(whole[judged].mean()) if judged.any() else None


def inconsistent(
    graph: LabelGraph, predicted: Int[Indices, " photo"], kinds_predicted: Int[Indices, "photo kind"]
) -> Bool[NDArray[np.bool_], " photo"]:
    """Which photos get answers that contradict each other.

    That is so if the most probable label of some kind is no parent of the most probable fine label. A parent that is
    unknown contradicts nothing. The truth plays no part in this.
    """
    contradicts_fine = np.zeros(len(predicted), dtype=np.bool_)
    for number, name in enumerate(graph.kinds):
        contradicts_fine |= contradicts(graph.kind(name), predicted, kinds_predicted[:, number])
    return contradicts_fine


@dataclass(frozen=True, kw_only=True)
class Mistakes:
    """How bad the mistakes are: in how many kinds the answered class differs from the true one, by the graph alone.

    Attributes:
        count: how many photos got a wrong fine label.
        differing: the number of kinds in which the two fine labels have no parent in common; mean over mistakes.
        shared: the number of kinds in which they have one; mean over mistakes.
        unknown: the number of kinds that cannot be compared, as a parent is unknown; mean over mistakes.
        share: `differing` / (`differing` + `shared`) of each mistake; mean over those with a kind to compare.
        by_kind: for each kind, the share of the mistakes that can be compared in which it differs.
    """

    count: int
    differing: float | None
    shared: float | None
    unknown: float | None
    share: float | None
    by_kind: dict[str, float | None]


def mistakes(graph: LabelGraph, predicted: Int[Indices, " photo"], fine: Int[Indices, " photo"]) -> Mistakes:
    """The mistakes among photos whose true fine label is known; means over none are None."""
    wrong = (fine != MISSING) & (predicted != fine)
    answered, truth = predicted[wrong], fine[wrong]
    count = len(truth)
    differing, shared = np.zeros(count), np.zeros(count)
    by_kind: dict[str, float | None] = {}
    for name in graph.kinds:
        judged = shares_label(graph.kind(name), answered, truth)
        differing += judged == 0
        shared += judged == 1
        same = accuracy(judged)
        by_kind[name] = None if same is None else 1.0 - same
    comparable = differing + shared
    some = comparable > 0
    return Mistakes(
        count=count,
        differing=_mean(differing),
        shared=_mean(shared),
        unknown=_mean(len(graph.kinds) - comparable),
        share=_mean(differing[some] / comparable[some]),
        by_kind=by_kind,
    )


def per_class_accuracy(
    graph: LabelGraph, predicted: Int[Indices, " photo"], fine: Int[Indices, " photo"]
) -> dict[str, tuple[float, int]]:
    """For each fine label that photos are of, in the order of the graph: the share of them that is right, and how many.

    The mean over these labels weighs rare and frequent ones alike.
    """
    known = fine != MISSING
    truth = fine[known]
    labels, counts = np.unique(truth, return_counts=True)
    hits = np.bincount(truth[predicted[known] == truth], minlength=len(graph))[labels]
    rows = zip(labels.tolist(), hits.tolist(), counts.tolist(), strict=True)
    return {graph.fine[label]: (hit / count, count) for label, hit, count in rows}


def negative_log_likelihood(log_prob: Float[Numbers, " photo"]) -> float | None:
    """Minus the log probability of the true fine label, in nats; mean over photos for which it is known.

    Args:
        log_prob: of the true fine label; NaN where it is not known.
    """
    known = log_prob[~np.isnan(log_prob)]
    mean = _mean(-known)
    return mean if mean is not None and math.isfinite(mean) else None


def _mean(values: Numbers) -> float | None:
    return float(values.mean()) if len(values) else None


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Answers of nearly the same confidence.

    Attributes:
        count: how many there are.
        confidence: the mean of the probabilities they were given with.
        accuracy: the share of them that is right.
        low: the lowest of these probabilities.
        high: the highest.
    """

    count: int
    confidence: float
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How far confidences are from what they say.

    Attributes:
        error: the mean over photos of |accuracy - mean confidence| of their bin; 0 is best.
        overconfidence: the mean confidence minus the accuracy; above 0 where answers are surer than they should be.
        count: how many photos could be judged.
        bins: from the lowest confidence to the highest.
    """

    error: float | None
    overconfidence: float | None
    count: int
    bins: tuple[Bin, ...]


def calibration(
    confidence: Float[NDArray[np.floating], " photo"], right: Int[Judgements, " photo"], max_bins: int = MAX_BINS
) -> Calibration:
    """How well the confidences of answers agree with how many of them are right.

    Args:
        confidence: the probability of each answer.
        right: whether it is right; those that cannot be judged are left out.
        max_bins: how many bins there are at most. Equal confidences are never parted, so the order of the photos
            does not matter and bins may differ in size.
    """
    judged = right != UNJUDGED
    count = int(judged.sum())
    if not count:
        return Calibration(error=None, overconfidence=None, count=0, bins=())
    order = np.argsort(confidence[judged], kind="stable")
    sure, hits = confidence[judged][order].astype(np.float64), right[judged][order].astype(np.float64)
    bins = [
        Bin(
            count=int(end - start),
            confidence=float(sure[start:end].mean()),
            accuracy=float(hits[start:end].mean()),
            low=float(sure[start]),
            high=float(sure[end - 1]),
        )
        for start, end in _cuts(sure, max(1, min(max_bins, count // MIN_IN_A_BIN)))
    ]
    error = sum(bin_.count * abs(bin_.accuracy - bin_.confidence) for bin_ in bins) / count
    return Calibration(error=error, overconfidence=float(sure.mean() - hits.mean()), count=count, bins=tuple(bins))


def _cuts(confidence: NDArray[np.float64], bins: int) -> list[tuple[int, int]]:
    """Where bins of sorted confidences start and end."""
    wanted = np.round(np.arange(1, bins + 1) * len(confidence) / bins).astype(np.int64)
    ends = np.unique(np.searchsorted(confidence, confidence[wanted - 1], side="right"))
    starts = np.concatenate([[0], ends[:-1]])
    return list(zip(starts.tolist(), ends.tolist(), strict=True))
