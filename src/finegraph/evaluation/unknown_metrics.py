"""Photos of none of the classes: choosing the threshold, and how well it works.

The threshold is chosen on photos of known classes alone, since future foreign photos are not available. So the share of
known photos that it keeps is guaranteed for photos like those it was chosen on. The share of foreign photos that it
finds is not: it is measured on the available foreign photos, and holds for such photos.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from finegraph.errors import InputError
from finegraph.model.answering.unknown import UnknownRule

Scores = NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """How well photos of none of the classes are found.

    Attributes:
        score: the name of the score.
        threshold: a photo with a score above it is called unknown; None if none has been chosen.
        kept: the share of known photos that the threshold was chosen to keep.
        known_kept: the share of the evaluated photos, all of known classes, that it keeps.
        photos: how many foreign photos there were.
        detected: the share of the foreign photos that are called unknown.
        false_positive_rate: the share of the foreign photos that pass for known, 1 - `detected`.
        auroc: how probably a foreign photo has a higher score than a known one, ties counting half; needs no threshold.
        fpr_at_kept: `false_positive_rate` had the threshold been chosen on the evaluated photos themselves, as papers
            do; with `kept` 0.95 it is their FPR95.
        auroc_by_score: the same area for every score that can be chosen.
    """

    score: str
    threshold: float | None
    kept: float
    known_kept: float | None
    photos: int
    detected: float | None
    false_positive_rate: float | None
    auroc: float | None
    fpr_at_kept: float | None
    auroc_by_score: dict[str, float]


def choose_threshold(scores: Float[Scores, " photo"], kept: float) -> float:
    """The threshold that keeps a share of known photos.

    It is the score at place ceil(kept * (n + 1)) of the n sorted ones. The one more makes the promise hold for new
    photos: on the average at least the share `kept` of them has no higher score. With fewer than kept / (1 - kept)
    photos, 19 for 95 %, no threshold can promise that much; then it is the highest score, which is the best there is.
    """
    if not 0.0 < kept <= 1.0:
        raise InputError(f"unknown: the share of known photos to keep must be above 0 and at most 1, got {kept!r}")
    if not len(scores) or not np.isfinite(scores).all():
        raise InputError("unknown: choosing a threshold needs finite scores of at least one photo of a known class")
    place = min(len(scores), math.ceil(kept * (len(scores) + 1) - 1e-9))
    return float(np.sort(scores)[place - 1])


def area_under_curve(known: Float[Scores, " photo"], foreign: Float[Scores, " sample"]) -> float | None:
    """The area under the ROC curve: how probably a foreign photo scores higher than a known one, ties counting half."""
    if not len(known) or not len(foreign):
        return None
    ordered = np.sort(known)
    below = np.searchsorted(ordered, foreign, side="left")
    upto = np.searchsorted(ordered, foreign, side="right")
    return float((below + upto).mean() / (2 * len(known)))


def unknown_metrics(
    rule: UnknownRule | None,
    score: str,
    kept: float,
    known: Mapping[str, Float[Scores, " photo"]],
    foreign: Mapping[str, Float[Scores, " sample"]] | None,
) -> Unknown:
    """The metrics of a rule.

    Args:
        rule: the rule; None if no threshold has been chosen, and then only areas can be given.
        score: the name of the score, if there is no rule.
        kept: the share of known photos to keep, if there is no rule.
        known: per score, those of the evaluated photos.
        foreign: per score, those of photos of none of the classes; None if there are none.
    """
    score, kept = (score, kept) if rule is None else (rule.score, rule.kept)
    known_scores = known[score]
    other = np.zeros(0) if foreign is None else foreign[score]
    detected = float((other > rule.threshold).mean()) if rule is not None and len(other) else None
    standard = float((other <= _quantile(known_scores, kept)).mean()) if len(other) and len(known_scores) else None
    areas = {} if foreign is None else {name: area_under_curve(known[name], foreign[name]) for name in known}
    return Unknown(
        score=score,
        threshold=None if rule is None else rule.threshold,
        kept=kept,
        known_kept=float((known_scores <= rule.threshold).mean()) if rule is not None and len(known_scores) else None,
        photos=len(other),
        detected=detected,
        false_positive_rate=None if detected is None else 1.0 - detected,
        auroc=area_under_curve(known_scores, other),
        fpr_at_kept=standard,
        auroc_by_score={name: area for name, area in areas.items() if area is not None},
    )


def _quantile(scores: Scores, kept: float) -> float:
    """The lowest score that keeps the share of these very photos."""
    return float(np.sort(scores)[max(1, math.ceil(kept * len(scores) - 1e-9)) - 1])
