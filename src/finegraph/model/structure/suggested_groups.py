"""Groups of similar fine labels as kinds of a graph: found in class statistics, named, and tested for stability.

What the kinds of the graph explain is subtracted from the class means, and the rest is grouped: dishes are not grouped
by restaurant again. Groups that arose by chance fall apart when photos are resampled. Resampling uses only the
class statistics: class means are drawn around their values with the variance that their number of photos implies.
Cost: that of grouping, once per draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.graph.group_names import LOOK, group_kind
from finegraph.model.fitting.class_means import solve_effects
from finegraph.model.structure.label_groups import Level, group_labels
from finegraph.model.teaching.class_statistics import ClassStatistics

LEVELS = 3
DRAWS = 10
"""The number of resamplings."""


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupStability:
    """How stable groups are when photos are resampled.

    Attributes:
        mean: the mean over all groups with two or more members, weighted by members.
        groups: for each group, its mean overlap with the most similar group of a draw.
    """

    mean: float
    groups: Float[NDArray[np.float64], " group"]


def shown_means(
    graph: LabelGraph, statistics: ClassStatistics, kept: Sequence[str] = ()
) -> tuple[Float[Tensor, "row feature"], Float[Tensor, " row"], Int[NDArray[np.int64], " row"]]:
    """The class means without the effects of the kinds, their variances, and which fine labels have photos.

    Args:
        graph: the label graph.
        statistics: the class statistics of its fine labels.
        kept: kinds that are estimated together with the others but not subtracted.
    """
    seen = statistics.counts.nonzero()[:, 0]
    means = statistics.means
    links = statistics.links(graph)
    if set(links.names) - set(kept):
        effects = solve_effects(links, statistics.variances, statistics.counts, means)
        off = {kind: rows * (kind not in kept) for kind, rows in effects.coarse.items()}
        means = means - links.down(off)
    noise = statistics.variances.noise / statistics.counts[seen]
    return means[seen], noise, seen.numpy()


def independent_share(statistics: ClassStatistics) -> float:
    """The share of effectively independent directions, from the scale that suits scores on held-out photos."""
    return min(1.0, statistics.strength * statistics.variances.noise)


def groups_of(
    graph: LabelGraph,
    statistics: ClassStatistics,
    levels: int = LEVELS,
    *,
    start: Int[NDArray[np.int64], " fine"] | None = None,
) -> list[Level]:
    """Groups of all fine labels at several levels, the smallest first; labels without photos are alone.

    Args:
        graph: the label graph.
        statistics: the class statistics of its fine labels.
        levels: the maximum number of levels.
        start: initial groups of the first level; by default groups are merged from single labels.
    """
    means, noise, seen = shown_means(graph, statistics)
    first = None if start is None else start[seen]
    found = group_labels(means, noise, share=independent_share(statistics), levels=levels, start=first)
    return [_for_all(level, seen, len(graph)) for level in found]


def _for_all(level: Level, seen: NDArray[np.int64], count: int) -> Level:
    """The level with a group of its own for each fine label without photos."""
    groups = np.full(count, -1, dtype=np.int64)
    groups[seen] = level.groups
    missing = groups < 0
    groups[missing] = level.count + np.arange(int(missing.sum()))
    return replace(level, groups=groups)


def stability_of(
    graph: LabelGraph, statistics: ClassStatistics, levels: Sequence[Level], *, draws: int = DRAWS, seed: int = 0
) -> list[GroupStability]:
    """How stable each level is.

    Args:
        graph: the label graph.
        statistics: the class statistics of its fine labels.
        levels: the result of `groups_of`.
        draws: the number of resamplings.
        seed: the seed of the draws.
    """
    means, noise, seen = shown_means(graph, statistics)
    random = torch.Generator().manual_seed(seed)
    overlaps: list[list[NDArray[np.float64]]] = [[] for _ in levels]
    for _ in range(draws):
        moved = means + noise.sqrt()[:, None] * torch.randn(means.shape, generator=random, dtype=torch.float64)
        again = group_labels(moved, 2.0 * noise, share=independent_share(statistics), levels=len(levels))
        for number, level in enumerate(levels):
            own = level.groups[seen]
            # The levels of a draw may be cut elsewhere, so the most similar one is compared.
            tried = [shared_part(own, other.groups) for other in again] or [np.zeros(int(own.max()) + 1)]
            overlaps[number].append(max(tried, key=lambda one: float(one[own].mean())))
    found = []
    for level, drawn in zip(levels, overlaps, strict=True):
        mean = np.mean(drawn, axis=0) if drawn else np.zeros(0)
        groups = np.ones(level.count)
        groups[: len(mean)] = mean
        sizes = np.bincount(level.groups, minlength=level.count)
        joined = sizes > 1
        weight = sizes[joined].sum()
        found.append(
            GroupStability(mean=float((groups * sizes)[joined].sum() / weight) if weight else 1.0, groups=groups)
        )
    return found


def shared_part(
    own: Int[NDArray[np.int64], " fine"], other: Int[NDArray[np.int64], " fine"]
) -> Float[NDArray[np.float64], " group"]:
    """For each group, its overlap with the most similar group: intersection over union."""
    table = np.zeros((int(own.max()) + 1, int(other.max()) + 1))
    np.add.at(table, (own, other), 1.0)
    union = table.sum(axis=1, keepdims=True) + table.sum(axis=0, keepdims=True) - table
    return np.asarray((table / union).max(axis=1))


def with_groups(graph: LabelGraph, levels: Sequence[Level], name: str = LOOK) -> LabelGraph:
    """The graph with a kind for each level, the smallest groups last."""
    for number, level in enumerate(reversed(levels), start=1):
        graph = graph.with_kind(group_kind(graph, level.groups, f"{name} {number}"))
    return graph
