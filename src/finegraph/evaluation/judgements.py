"""Whether labels fit the graph, for many samples at once.

Right, wrong and "is unknown" are three answers, so they are small numbers: 1, 0 and `UNJUDGED`. The cost of each
function is the number of parents of the fine labels that are asked about; nothing is laid out for the whole graph.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from finegraph.data.dataset import MISSING
from finegraph.graph import Kind

UNJUDGED = -1
"""Neither right nor wrong: the truth is not known."""
Indices = NDArray[np.integer]
Judgements = NDArray[np.int8]


def has_label(
    kind: Kind, fine: Int[Indices, " photo"], label: Int[Indices, " photo"]
) -> Bool[NDArray[np.bool_], " photo"]:
    """Whether each fine label has a coarse label as a parent; no where its parent is unknown."""
    owner, coarse = _parents(kind, fine)
    has_parent = np.zeros(len(fine), dtype=np.bool_)
    has_parent[owner[coarse == label[owner]]] = True
    return has_parent


def shares_label(kind: Kind, one: Int[Indices, " photo"], two: Int[Indices, " photo"]) -> Int[Judgements, " photo"]:
    """Whether two fine labels have a parent in common; unjudged where the parent of either is unknown."""
    owner, coarse = _parents(kind, one)
    shared = np.zeros(len(one), dtype=np.int8)
    shared[owner[has_label(kind, two[owner], coarse)]] = 1
    return np.where(_known(kind, one) & _known(kind, two), shared, np.int8(UNJUDGED))


def judge_kind(
    kind: Kind, label: Int[Indices, " photo"], fine: Int[Indices, " photo"], seen: Int[Indices, " photo"] | None = None
) -> Int[Judgements, " photo"]:
    """Whether a label of a kind is right for each sample.

    Args:
        kind: the kind.
        label: what was answered.
        fine: the true fine label, `MISSING` where it is not known. Any of its parents is right.
        seen: the label seen on each photo, `MISSING` where none was; if there is one, it alone is right.
    """
    known = fine != MISSING
    known_fine = fine[known]
    right = np.full(len(label), UNJUDGED, dtype=np.int8)
    right[known] = np.where(_known(kind, known_fine), has_label(kind, known_fine, label[known]), UNJUDGED)
    return right if seen is None else np.where(seen != MISSING, (label == seen).astype(np.int8), right)


def judge_fine(label: Int[Indices, " photo"], fine: Int[Indices, " photo"]) -> Int[Judgements, " photo"]:
    """Whether a fine label is right for each sample."""
    right = np.asarray(label == fine).astype(np.int8)
    return np.where(fine == MISSING, np.int8(UNJUDGED), right)


def judge_interval(
    values: Float[NDArray[np.floating], " ..."],
    low: Float[NDArray[np.floating], " ..."],
    high: Float[NDArray[np.floating], " ..."],
) -> Int[Judgements, " ..."]:
    """Whether values are in intervals, ends included, which a search has found; unjudged where a value is not known."""
    slack = 1e-9 * (1.0 + np.abs(values))
    inside = (values >= low - slack) & (values <= high + slack)
    return np.where(np.isnan(values), UNJUDGED, inside).astype(np.int8)


def contradicts(
    kind: Kind, fine: Int[Indices, " photo"], label: Int[Indices, " photo"]
) -> Bool[NDArray[np.bool_], " photo"]:
    """Whether each fine label excludes a coarse label: it has other parents. An unknown parent excludes nothing."""
    return _known(kind, fine) & ~has_label(kind, fine, label)


def _known(kind: Kind, fine: Indices) -> NDArray[np.bool_]:
    """Which of many fine labels have a parent that is known."""
    return np.asarray(kind.starts[fine + 1] > kind.starts[fine])


def _parents(kind: Kind, fine: Indices) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The parents of many fine labels: the position in `fine`, and the coarse label."""
    start = kind.starts[fine]
    sizes = kind.starts[fine + 1] - start
    owner = np.repeat(np.arange(len(fine)), sizes)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return owner, kind.coarse[start[owner] + offset]
