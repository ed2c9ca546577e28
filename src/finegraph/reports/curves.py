"""Curves and shares of a report that follow from the answers to single photos.

The curve of the sure answers asks at many risks what was asked at one when the photos were evaluated. Below a risk of
one half only the most probable label of each kind can be sure, and that is kept; so the curve of single labels is
exact. Ranges of ordered kinds and of numbers, which are sure answers too, are kept at one risk only and are not in the
curve: where a graph has these, it shows how far labels alone reach. Cost: photos x kinds x risks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from finegraph.data.dataset import MISSING
from finegraph.evaluation.judgements import shares_label
from finegraph.graph import Kind, LabelGraph
from finegraph.reports.run_results import RunResults

RISKS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
_ROUNDING = 1e-6
_POINTS = 60


@dataclass(frozen=True)
class SurePoint:
    """The sure answers at one risk.

    Attributes:
        risk: the share of wrong ones that was allowed.
        coverage: the share of photos with an answer.
        wrong: the share of wrong ones among those that can be judged; None if there are none.
        levels: the share of photos answered with the fine label, then with each kind.
    """

    risk: float
    coverage: float
    wrong: float | None
    levels: tuple[float, ...]


def sure_curve(run: RunResults) -> list[SurePoint]:
    """The sure answers of a run at many risks."""
    arrays, graph = run.arrays, run.graph
    fine_right = np.where(arrays["fine"] == MISSING, -1, run.right.astype(np.int8))
    probability = np.column_stack([arrays["probability"], arrays["kinds_probability"]]).astype(np.float64)
    right = np.column_stack([fine_right, arrays["kinds_right"]])
    labels = [compatible(graph, kind)[arrays["kinds_predicted"][:, place]] for place, kind in enumerate(graph.kinds)]
    still_open = np.column_stack([np.ones(len(probability)), *labels])
    return [_point(risk, probability, right, still_open) for risk in RISKS]


def _point(
    risk: float, probability: NDArray[np.float64], right: NDArray[np.int8], still_open: NDArray[np.float64]
) -> SurePoint:
    """The most specific answer of each photo that is sure enough; among equals the most probable."""
    sure = probability >= 1.0 - risk - _ROUNDING
    left_open = np.where(sure, still_open, np.inf)
    best = np.where(sure & (left_open == left_open.min(axis=1, keepdims=True)), probability, -1.0).argmax(axis=1)
    answered = sure.any(axis=1)
    best_right = np.take_along_axis(right, best[:, None], axis=1)[:, 0]
    judged = answered & (best_right >= 0)
    levels = np.bincount(best[answered], minlength=probability.shape[1]) / max(1, len(best))
    wrong = float((best_right[judged] == 0).mean()) if judged.any() else None
    return SurePoint(risk, float(answered.mean()), wrong, tuple(levels.tolist()))


def compatible(graph: LabelGraph, kind: str) -> Int[NDArray[np.int64], " label"]:
    """With how many fine labels each label of a kind goes; an unknown parent may be any."""
    _, coarse, _ = graph.edges(kind)
    unknown = int((graph.kind(kind).row_sizes == 0).sum())
    return np.bincount(coarse, minlength=len(graph.labels(kind))).astype(np.int64) + unknown


def fine_curve(run: RunResults) -> list[tuple[float, float]]:
    """Coverage and share of wrong answers if only the most confident photos are answered."""
    known = run.arrays["fine"] != MISSING
    order = np.argsort(-run.arrays["probability"][known], kind="stable")
    wrong = np.cumsum(~run.right[known][order])
    count = len(order)
    if not count:
        return []
    ends = np.unique(np.linspace(max(1, count // _POINTS), count, _POINTS).round().astype(int))
    return [(end / count, float(wrong[end - 1] / end)) for end in ends.tolist()]


@dataclass(frozen=True)
class Inside:
    """Mistakes that stay inside a coarse label.

    Attributes:
        kind: the kind.
        share: of the mistakes that can be compared, those whose answer has a coarse label in common with the truth.
        chance: what the share would be were each wrong label drawn evenly from the others that can be compared.
        mistakes: how many mistakes can be compared.
    """

    kind: str
    share: float
    chance: float
    mistakes: int


def inside_shares(run: RunResults) -> list[Inside]:
    """For each kind, how many mistakes stay inside."""
    true, answered = run.arrays["fine"], run.arrays["predicted"]
    wrong = (true != MISSING) & (true != answered)
    shares = []
    for name in run.graph.kinds:
        kind = run.graph.kind(name)
        shared = shares_label(kind, true[wrong], answered[wrong])
        judged = shared >= 0
        if not judged.any():
            continue
        labels, counts = np.unique(true[wrong][judged], return_counts=True)
        chance = float(np.average(_inside_by_chance(kind, labels), weights=counts))
        shares.append(Inside(name, float(shared[judged].mean()), chance, int(judged.sum())))
    return shares


def _inside_by_chance(kind: Kind, fine: NDArray[np.integer]) -> list[float]:
    """For fine labels with parents, the share of the others with parents that have a parent in common with them.

    Fine labels with the same parents have the same share, so each set of parents is counted once. Cost: a sort of the
    links, and the links of the sets of parents.
    """
    owner = np.repeat(np.arange(len(kind.row_sizes)), kind.row_sizes)[np.argsort(kind.coarse, kind="stable")]
    children = np.split(owner, np.cumsum(np.bincount(kind.coarse, minlength=len(kind.labels)))[:-1])
    others = max(1, int((kind.row_sizes > 0).sum()) - 1)
    shares: dict[tuple[int, ...], float] = {}
    chances = []
    for number in fine.tolist():
        parents = tuple(kind.coarse[kind.starts[number] : kind.starts[number + 1]].tolist())
        if parents not in shares:
            same = np.unique(np.concatenate([children[label] for label in parents]))
            shares[parents] = (len(same) - 1) / others
        chances.append(shares[parents])
    return chances


def mean_parts(run: RunResults) -> list[tuple[str, float]]:
    """How much each source decides between first and second answer: the mean size of its part, over the gallery."""
    parts = np.abs(run.arrays["parts"])
    parts = parts[~np.isnan(parts).any(axis=1)]
    if not len(parts):
        return []
    return list(zip(run.sources, parts.mean(axis=0).tolist(), strict=True))
