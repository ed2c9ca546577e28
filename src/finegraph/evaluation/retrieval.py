"""Retrieval metrics: every photo is a query for the others, and their order is judged.

    average precision        over all others in order of their cosine, the mean of the precision at each relevant one;
                             relevant are those of the same fine label, or for a kind those that share a label of it
    hierarchical precision   of the first k: how much they agree with the query, as a share of how much the k photos
                             that agree most would; two photos agree by the share of {fine label, each kind} they have
                             in common, kinds that are unknown for one of them left out

Both are means over the photos that can be judged. Photos without a fine label take no part. Of very many photos, 2,000
that are spread over them ask, and all are found. Cost: photos x queries, with a sort per query.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from finegraph.data.dataset import MISSING
from finegraph.errors import ShapeError
from finegraph.evaluation.judgements import UNJUDGED, Indices, shares_label
from finegraph.evaluation.metrics import Numbers
from finegraph.graph import LabelGraph

MAX_QUERIES = 2000
"""The largest number of queries."""
DEPTHS = (1, 10, 50)
"""How many photos the hierarchical precision looks at."""
_QUERIES_PER_BLOCK = 64
_MAX_KEPT = 1 << 22
"""How many pairs of labels are kept compared: all of some thousand labels, few of a hundred thousand."""
Shares = NDArray[np.int8]


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """How good features are for search.

    Attributes:
        photos: how many photos have a fine label, and are found.
        queries: how many of them asked.
        mean_average_precision: with photos of the same fine label as relevant; over queries that have another.
        kinds: per kind the same, with photos that share a label of the kind as relevant.
        hierarchical_precision: by the number of photos that are considered.
    """

    photos: int
    queries: int
    mean_average_precision: float | None
    kinds: dict[str, float | None]
    hierarchical_precision: dict[str, float | None]


def judge_retrieval(
    graph: LabelGraph, features: Float[Numbers, "photo feature"], fine: Int[Indices, " photo"]
) -> Retrieval:
    """Let every photo ask for the others.

    Args:
        graph: the label graph.
        features: (photo, feature) of any length.
        fine: the true fine label of each photo, `MISSING` where it is not known.

    Raises:
        ShapeError: there is not one fine label per photo.
    """
    if features.ndim != 2 or fine.shape != (len(features),):
        raise ShapeError(f"expected one fine label for each of {len(features)} photos, got shape {fine.shape}")
    known = fine != MISSING
    labels, place = np.unique(fine[known], return_inverse=True)
    vectors = features[known].astype(np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    count = len(vectors)
    queries = np.unique(np.linspace(0, max(0, count - 1), min(count, MAX_QUERIES)).astype(np.int64))
    judge = _Judge(graph, labels, place)
    if count > 1:
        for start in range(0, len(queries), _QUERIES_PER_BLOCK):
            block = queries[start : start + _QUERIES_PER_BLOCK]
            cosines = vectors[block] @ vectors.T
            for row, query in zip(cosines, block.tolist(), strict=True):
                order = np.argsort(-row, kind="stable")
                judge.add(query, order[order != query])
    return Retrieval(
        photos=count,
        queries=len(queries) if count > 1 else 0,
        mean_average_precision=_mean(judge.fine),
        kinds={name: _mean(precisions) for name, precisions in judge.kinds.items()},
        hierarchical_precision={str(depth): _mean(precisions) for depth, precisions in judge.depths.items()},
    )


def average_precision(relevant: Bool[NDArray[np.bool_], " photo"]) -> float | None:
    """The mean of the precision at each relevant photo, in the order in which they were found; None without any."""
    places = np.flatnonzero(relevant)
    return float((np.arange(1, len(places) + 1) / (places + 1)).mean()) if len(places) else None


class _Judge:
    """The metrics so far."""

    def __init__(self, graph: LabelGraph, labels: Indices, place: Indices) -> None:
        self.graph, self.labels, self.place = graph, labels, place
        self.fine: list[float] = []
        self.kinds: dict[str, list[float]] = {name: [] for name in graph.kinds}
        self.depths: dict[int, list[float]] = {depth: [] for depth in DEPTHS}
        self._known: dict[int, tuple[dict[str, Shares], Numbers]] = {}

    def add(self, query: int, order: Indices) -> None:
        """Judge the order in which the other photos come."""
        query_label, ranked_labels = int(self.place[query]), self.place[order]
        shares, agreement = self._related(query_label)
        _append(self.fine, average_precision(ranked_labels == query_label))
        for name, column in shares.items():
            shared = column[ranked_labels]
            # What cannot be judged is neither right nor wrong: it is not there.
            _append(self.kinds[name], average_precision(shared[shared != UNJUDGED] == 1))
        gained = agreement[ranked_labels]
        best = -np.sort(-gained)
        for depth, values in self.depths.items():
            best_total = float(best[:depth].sum())
            if best_total > 0:
                values.append(float(gained[:depth].sum()) / best_total)

    def _related(self, place: int) -> tuple[dict[str, Shares], Numbers]:
        """For a label against each label that occurs: whether they share a label of each kind, and how much in all."""
        if place not in self._known:
            # Queries come in the order of the photos, of which those of a label often stand together.
            while self._known and (len(self._known) + 1) * len(self.labels) > _MAX_KEPT:
                del self._known[next(iter(self._known))]
            repeated = np.full(len(self.labels), self.labels[place])
            shares = {name: shares_label(self.graph.kind(name), repeated, self.labels) for name in self.graph.kinds}
            equal = [(repeated == self.labels).astype(np.int8), *shares.values()]
            judged = np.sum([column != UNJUDGED for column in equal], axis=0)
            self._known[place] = shares, np.sum([column == 1 for column in equal], axis=0) / judged
        return self._known[place]


def _append(values: list[float], value: float | None) -> None:
    if value is not None:
        values.append(value)


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None
