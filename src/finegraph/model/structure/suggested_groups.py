"""Groups of similar fine labels as kinds of a graph: found in class statistics, named, and tested for stability.

What kinds of several labels explain is subtracted from the class means, and the rest is grouped: dishes are not grouped
by restaurant again. Binary kinds are evidence beside looks (group_cells.py): what has the same ingredients may be the
same dish. Beside such evidence, looks must not count more often than they are independent: class means are turned to
the directions in which they differ, and those count as many as the participation ratio of their variances, less that of
noise: (sum v)^2 / sum v^2.

Groups that arose by chance fall apart when photos are resampled. A draw leaves a fifth of the photos out. Where photos
are not known, class means are drawn with the variance that this would add. (To draw all photos again would double the
noise of means that have it already, and break most groups.) Cost: that of grouping, once per draw.
"""

from __future__ import annotations

import math
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
from finegraph.model.structure.graph_statistics import without_photos
from finegraph.model.structure.group_cells import GroupCells, crossing_candidates, crossing_gain
from finegraph.model.structure.label_groups import Level, group_labels, shared_members
from finegraph.model.teaching.class_statistics import ClassStatistics

LEVELS = 3
DRAWS = 10
"""The number of resamplings."""
_CROSSING_ODDS = math.log(100.0)
"""The prior log odds that a kind crosses groups. A kind that follows from the groups has far smaller
odds; an unrelated kind does little harm if it counts as crossing; and a kind that crosses often shows little of it
where groups have two members."""
_LEFT_OUT = 0.2
"""The share of photos that a resampling leaves out."""
MIN_STABILITY = 0.5
"""Groups of which less is found again when photos are resampled are mostly chance."""


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
    found, seen = _found(graph, statistics, levels, start)
    return [_for_all(level, seen, len(graph)) for level in found]


def _found(
    graph: LabelGraph,
    statistics: ClassStatistics,
    levels: int,
    start: NDArray[np.int64] | None = None,
    crossing: Sequence[str] | None = None,
) -> tuple[list[Level], NDArray[np.int64]]:
    """Groups of the fine labels with photos, and which these are; which kinds cross is found if it is not given."""
    binary = [name for name in graph.kinds if graph.kind(name).binary]
    means, noise, seen = shown_means(graph, statistics, binary)
    first = None if start is None else start[seen]
    if not binary or not len(seen):
        share = independent_share(statistics)
        return group_labels(means, noise, share=share, levels=levels, start=first), seen
    looks = _directions(means, noise)
    if crossing is None:
        crossing = _crossing(graph, seen, looks, first)
    cells = GroupCells.of(graph, seen, crossing)
    return group_labels(*looks[:2], share=looks[2], levels=levels, start=first, cells=cells), seen


def _crossing(
    graph: LabelGraph,
    seen: NDArray[np.int64],
    looks: tuple[Tensor, Tensor, float],
    start: NDArray[np.int64] | None = None,
) -> tuple[str, ...]:
    """The kinds that cross groups."""
    candidates = crossing_candidates(graph)

    def found(kinds: Sequence[str]) -> list[Level]:
        cells = GroupCells.of(graph, seen, kinds)
        return group_labels(*looks[:2], share=looks[2], levels=1, start=start, cells=cells)

    without = found(()) if candidates else []
    if not without:
        return ()
    chosen = []
    for name in candidates:
        tried = found((name,))
        gain = crossing_gain(graph, name, seen, tried[0].groups) if tried else 0.0
        if tried and tried[0].log_posterior + gain + _CROSSING_ODDS > without[0].log_posterior:
            chosen.append(name)
    return tuple(chosen)


def crossing_of(graph: LabelGraph, statistics: ClassStatistics) -> tuple[str, ...]:
    """The kinds of a graph that cross groups by looks and binary kinds."""
    binary = [name for name in graph.kinds if graph.kind(name).binary]
    means, noise, seen = shown_means(graph, statistics, binary)
    return _crossing(graph, seen, _directions(means, noise)) if binary and len(seen) else ()


def _directions(
    means: Float[Tensor, "row feature"], noise: Float[Tensor, " row"]
) -> tuple[Float[Tensor, "row direction"], Float[Tensor, " row"], float]:
    """Class means in the directions in which they differ, their noise per direction, and the share of these that count.

    Of the variances along the directions that of noise is taken off; how many count is their participation ratio.
    """
    centred = (means - means.mean(dim=0)).double()
    left, lengths, _ = torch.linalg.svd(centred, full_matrices=False)
    kept = int((lengths > 1e-8 * lengths.max().clamp_min(1e-30)).sum())
    if not kept:
        return centred, noise, 1.0
    per_direction = noise.double() * means.shape[1] / kept
    variances = lengths[:kept].square() / len(means)
    signal = (variances - per_direction.mean()).clamp_min(0.0)
    if float(signal.sum()) <= 0.0:
        signal = variances
    counting = float(signal.sum() ** 2 / signal.square().sum())
    return left[:, :kept] * lengths[:kept], per_direction, min(1.0, counting / kept)


def _for_all(level: Level, seen: NDArray[np.int64], count: int) -> Level:
    """The level with a group of its own for each fine label without photos."""
    groups = np.full(count, -1, dtype=np.int64)
    groups[seen] = level.groups
    missing = groups < 0
    groups[missing] = level.count + np.arange(int(missing.sum()))
    return replace(level, groups=groups)


def stability_of(
    graph: LabelGraph,
    statistics: ClassStatistics,
    levels: Sequence[Level],
    *,
    photos: tuple[Float[Tensor, "photo feature"], Int[Tensor, " photo"]] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[GroupStability]:
    """How stable each level is.

    Args:
        graph: the label graph.
        statistics: the class statistics of its fine labels.
        levels: the result of `groups_of`.
        photos: the scaled features and fine labels of the photos of the statistics; by default class means are drawn.
        draws: the number of resamplings.
        seed: the seed of the draws.
    """
    random = torch.Generator().manual_seed(seed)
    across = crossing_of(graph, statistics) if levels else ()
    overlaps: list[list[NDArray[np.float64]]] = [[] for _ in levels]
    for _ in range(draws):
        again, seen = _found(graph, _redrawn(statistics, photos, random), len(levels), crossing=across)
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


def _redrawn(
    statistics: ClassStatistics, photos: tuple[Tensor, Tensor] | None, random: torch.Generator
) -> ClassStatistics:
    """The statistics with a fifth of the photos left out, or as that would change class means; one photo stays."""
    counts = statistics.counts
    if photos is not None:
        features, targets = photos
        order = torch.rand(len(targets), generator=random).argsort()
        order = order[targets[order].argsort(stable=True)]  # by label, in random order within each
        size = torch.bincount(targets, minlength=len(counts))
        place = torch.arange(len(order)) - (size.cumsum(0) - size)[targets[order]]
        gone = order[place < _LEFT_OUT * size[targets[order]] - torch.rand(len(order), generator=random)]
        left = without_photos(statistics, features[gone], targets[gone])
        kept = left.counts > 0
        return replace(
            left,
            counts=torch.where(kept, left.counts, counts),
            sums=torch.where(kept[:, None], left.sums, statistics.sums),
        )
    fewer = (1.0 - _LEFT_OUT) * counts
    spread = (statistics.variances.noise * (1.0 / fewer - 1.0 / counts)).nan_to_num(0.0, 0.0, 0.0).sqrt()
    means = statistics.means + spread[:, None] * torch.randn(statistics.sums.shape, generator=random).double()
    return replace(statistics, counts=fewer, sums=means * fewer[:, None])


def shared_part(
    own: Int[NDArray[np.int64], " fine"], other: Int[NDArray[np.int64], " fine"]
) -> Float[NDArray[np.float64], " group"]:
    """For each group, its overlap with the most similar group: intersection over union."""
    first, second, counts = shared_members(own, other)
    union = np.bincount(own)[first] + np.bincount(other)[second] - counts
    best = np.zeros(int(own.max()) + 1)
    np.maximum.at(best, first, counts / union)
    return best


def with_groups(graph: LabelGraph, levels: Sequence[Level], name: str = LOOK) -> LabelGraph:
    """The graph with a kind for each level, the smallest groups last."""
    for number, level in enumerate(reversed(levels), start=1):
        graph = graph.with_kind(group_kind(graph, level.groups, f"{name} {number}"))
    return graph
