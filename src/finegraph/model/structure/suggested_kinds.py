"""Suggestions of new kinds for a graph: from names, from similar looks, and from confusions.

    names        parts, words and numbers of the names of fine labels (graph/name_kinds.py); no photo is needed
    looks        groups of fine labels that look alike, at up to three levels (suggested_groups.py)
    confusions   sets of fine labels that are confused on held-out photos: a sure answer may name the set if no label
                 of it is sure

Kinds that the graph already has under another name are left out. Groups and sets come with their stability when
photos are resampled. Cost: linear in the letters of names, and that of grouping, once per draw.

The confusion of a with b is the mean probability of b on held-out photos of a. The two sets with the most confusion
between their labels are merged, until little is left between any two or the sets would become too large to be
an answer. Cost: fine^2 per merge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.graph import LabelGraph, Number
from finegraph.graph.group_names import CONFUSED, LOOK, group_kind, is_found
from finegraph.graph.kind import Kind
from finegraph.graph.name_kinds import NameKind, is_label, kinds_from_names
from finegraph.model.structure.label_groups import adjusted_rand
from finegraph.model.structure.suggested_groups import (
    DRAWS,
    LEVELS,
    MIN_STABILITY,
    groups_of,
    shared_part,
    stability_of,
)
from finegraph.model.teaching.class_statistics import ClassStatistics

Source = Literal["names", "looks", "confusions"]
_SAME_PARTITION = 0.99
"""Two kinds with at least this adjusted Rand index count as the same."""
_NEAR = 0.7
"""The same for a kind of groups that photos gave before: a near copy of these is no news."""
MAX_SET = 6
"""How many fine labels a set may have."""
MIN_CONFUSION = 0.02
"""Two sets with a lower mean probability between their labels are not merged."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SuggestedKind:
    """A kind, a group of binary kinds or a kind of numbers that the graph might have.

    Attributes:
        name: a proposed name.
        source: where it comes from.
        reason: the source in words.
        kinds: the kinds; several for a group of binary kinds, none for a number.
        number: the kind of numbers, if it is one.
        stability: how much of its groups is found again when photos are resampled, from 0 to 1; None for names.
        label_stability: the same for each label; empty for names.
    """

    name: str
    source: Source
    reason: str
    kinds: tuple[Kind, ...] = ()
    number: Number | None = None
    stability: float | None = None
    label_stability: tuple[float, ...] = ()

    @property
    def stable(self) -> bool:
        """Whether at least half of its groups are found again when photos are resampled; names are."""
        return self.stability is None or self.stability >= MIN_STABILITY

    @property
    def columns(self) -> tuple[str, ...]:
        """The kinds and numbers that it adds, by name."""
        return tuple(kind.name for kind in self.kinds) + (() if self.number is None else (self.number.name,))

    def on(self, graph: LabelGraph) -> LabelGraph:
        """The graph with this kind."""
        for kind in self.kinds:
            graph = graph.with_kind(kind)
        return graph if self.number is None else graph.with_number(self.number)


def kinds_by_names(graph: LabelGraph) -> list[SuggestedKind]:
    """The kinds suggested by the names of the fine labels, without those the graph already has.

    Example:
        >>> graph = LabelGraph.from_table({name: {} for name in ("ramen @ A", "ramen @ B", "udon @ A", "udon @ B")})
        >>> [(one.name, one.kinds[0].labels) for one in kinds_by_names(graph)]
        [('before @', ('ramen', 'udon')), ('after @', ('A', 'B'))]
    """
    taken = {*graph.kinds, *graph.numbers}
    found = []
    for one in (_without_known(graph, one) for one in kinds_from_names(graph.fine)):
        if _is_known(graph, one) or any(name in taken for name in _columns(one)):
            continue
        found.append(
            SuggestedKind(name=one.name, source="names", reason=one.reason, kinds=one.kinds, number=one.number)
        )
    return found


def _without_known(graph: LabelGraph, one: NameKind) -> NameKind:
    """The same without words that a label of the graph explains."""
    if len(one.kinds) < 2:
        return one
    others = [kind for kind in map(graph.kind, graph.kinds) if kind.one_parent]
    words = ((word, np.flatnonzero(word.parents)) for word in one.kinds)
    return replace(one, kinds=tuple(word for word, rows in words if not any(is_label(kind, rows) for kind in others)))


def _columns(one: NameKind) -> tuple[str, ...]:
    return tuple(kind.name for kind in one.kinds) + (() if one.number is None else (one.number.name,))


def _is_known(graph: LabelGraph, one: NameKind) -> bool:
    """Whether a kind or a number of the graph says the same."""
    if one.number is not None:
        return any(_same_values(graph.values(name), one.number.values) for name in graph.numbers)
    return not one.kinds or (len(one.kinds) == 1 and has_groups(graph, one.kinds[0].parents))


def _same_values(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    both = ~np.isnan(one) & ~np.isnan(other)
    return bool(both.sum() >= 0.5 * (~np.isnan(other)).sum()) and bool(np.allclose(one[both], other[both]))


def has_groups(graph: LabelGraph, groups: Int[NDArray[np.int64], " fine"]) -> bool:
    """Whether a kind of the graph already groups the fine labels like this; -1 is no group."""
    return any(
        _likeness(kind, groups) >= (_NEAR if is_found(kind.name) else _SAME_PARTITION)
        for kind in map(graph.kind, graph.kinds)
    )


def _likeness(kind: Kind, groups: NDArray[np.int64]) -> float:
    """The adjusted Rand index of groups and a kind; 0 if it is unknown for most of them."""
    if not kind.one_parent:
        return 0.0
    both = (kind.parents >= 0) & (groups >= 0)
    if both.sum() < 0.5 * (groups >= 0).sum():
        return 0.0
    return adjusted_rand(kind.parents[both], groups[both])


def kinds_by_looks(
    graph: LabelGraph,
    statistics: ClassStatistics,
    *,
    levels: int = LEVELS,
    photos: tuple[Float[Tensor, "photo feature"], Int[Tensor, " photo"]] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[SuggestedKind]:
    """Groups of fine labels that look alike, the largest groups first.

    Args:
        graph: the label graph; the effects of its kinds are subtracted first.
        statistics: the class statistics of its fine labels.
        levels: the maximum number of levels.
        photos: the scaled features and fine labels of the photos of the statistics, to resample; by default means are.
        draws: the number of resamplings for the stability.
        seed: the seed of the draws.

    Raises:
        InputError: there are too many fine labels with photos.
    """
    found = groups_of(graph, statistics, levels)
    stable = stability_of(graph, statistics, found, photos=photos, draws=draws, seed=seed)
    suggested: list[SuggestedKind] = []
    for level, own in zip(reversed(found), reversed(stable), strict=True):
        if has_groups(graph, level.groups):
            continue
        name = _free_name(graph, f"{LOOK} {len(suggested) + 1}")
        suggested.append(
            SuggestedKind(
                name=name,
                source="looks",
                reason="fine labels that look alike",
                kinds=(group_kind(graph, level.groups, name),),
                stability=own.mean,
                label_stability=tuple(own.groups.tolist()),
            )
        )
    if len(suggested) == 1:
        only = replace(suggested[0], name=_free_name(graph, LOOK))
        return [replace(only, kinds=(replace(only.kinds[0], name=only.name),))]
    return suggested


def kind_by_confusions(
    graph: LabelGraph,
    probs: Float[Tensor, "batch fine"],
    targets: Int[Tensor, " batch"],
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[SuggestedKind]:
    """The sets of fine labels that are confused with each other, as one kind; none if little is confused.

    Args:
        graph: the label graph.
        probs: the probabilities of the fine labels on held-out photos.
        targets: their fine labels.
        draws: the number of resamplings for the stability.
        seed: the seed of the draws.
    """
    sets = confused_sets(probs, targets)
    if len(targets) == 0 or int(sets.max(initial=-1)) + 1 >= len(graph) or has_groups(graph, sets):
        return []
    random = np.random.default_rng(seed)
    shared = []
    for _ in range(draws):
        rows = torch.from_numpy(random.integers(0, len(targets), len(targets)))
        shared.append(shared_part(sets, confused_sets(probs[rows], targets[rows])))
    stable = np.mean(shared, axis=0) if shared else np.ones(int(sets.max()) + 1)
    sizes = np.bincount(sets)
    joined = sizes > 1
    name = _free_name(graph, CONFUSED)
    return [
        SuggestedKind(
            name=name,
            source="confusions",
            reason="fine labels that are confused on held-out photos",
            kinds=(group_kind(graph, sets, name),),
            stability=float((stable * sizes)[joined].sum() / sizes[joined].sum()),
            label_stability=tuple(stable.tolist()),
        )
    ]


def news(suggested: Sequence[SuggestedKind]) -> list[SuggestedKind]:
    """The suggestions without groups that are those of one before them.

    Args:
        suggested: the suggestions, those that people understand best first.
    """
    kept: list[SuggestedKind] = []
    for one in suggested:
        known = [kind for other in kept if len(other.kinds) == 1 for kind in other.kinds]
        if one.source == "names" or all(_likeness(kind, one.kinds[0].parents) < _SAME_PARTITION for kind in known):
            kept.append(one)
    return kept


def with_suggested(graph: LabelGraph, suggested: Sequence[SuggestedKind]) -> LabelGraph:
    """The graph with all of these kinds."""
    for one in suggested:
        graph = one.on(graph)
    return graph


def _free_name(graph: LabelGraph, name: str) -> str:
    """A name that no kind or number of the graph has."""
    taken, free, number = {*graph.kinds, *graph.numbers}, name, 2
    while free in taken:
        free, number = f"{name} ({number})", number + 1
    return free


def confused_sets(
    probs: Float[Tensor, "batch fine"],
    targets: Int[Tensor, " batch"],
    *,
    max_size: int = MAX_SET,
    least: float = MIN_CONFUSION,
) -> Int[NDArray[np.int64], " fine"]:
    """The set of each fine label, numbered in the order of their first members.

    Args:
        probs: the probabilities of the fine labels on held-out photos.
        targets: the fine labels of these photos.
        max_size: how many fine labels a set may have.
        least: the confusion from which two sets are merged.

    Example:
        >>> probs = torch.tensor([[0.6, 0.4, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
        >>> confused_sets(probs, torch.tensor([0, 1, 2])).tolist()
        [0, 0, 1]
    """
    count = probs.shape[1]
    sums = torch.zeros(count, count, dtype=torch.float64).index_add_(0, targets, probs.double())
    seen = torch.bincount(targets, minlength=count).clamp_min(1)[:, None]
    mixed = sums / seen
    between = (0.5 * (mixed + mixed.t())).fill_diagonal_(-math.inf)
    sizes = torch.ones(count, dtype=torch.float64)
    member = np.arange(count)
    while count > 1:
        allowed = between.masked_fill(sizes[:, None] + sizes > max_size, -math.inf)
        first, second = divmod(int(allowed.argmax()), count)
        if not float(allowed[first, second]) >= least:
            break
        joined = (sizes[first] * between[first] + sizes[second] * between[second]) / (sizes[first] + sizes[second])
        between[first], between[:, first] = joined, joined
        between[first, first] = -math.inf
        between[second], between[:, second] = -math.inf, -math.inf
        sizes[first] += sizes[second]
        member[member == second] = first
    _, place = np.unique(member, return_inverse=True)
    return place.reshape(-1)
