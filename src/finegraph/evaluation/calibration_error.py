"""Calibration error: of the answers given with 80 %, 80 % should be right.

Answers are sorted by confidence and cut into bins of nearly equally many photos. Each bin has a mean confidence and an
accuracy; the calibration error is the mean of their absolute difference over photos. It costs one sort. Bins of equal
width would put nearly all photos of a good network into the last one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from finegraph.evaluation.judgements import UNJUDGED, Judgements

MAX_BINS = 15
MIN_IN_A_BIN = 20
"""The smallest number of photos in a bin: the error of a smaller one would be mostly chance, and never below 0."""


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
