"""A tree over fine labels, learnt in alternation with the weights.

Given the tree, its groups are kinds of the graph, and class means follow in closed form from the effects of all kinds.
The effects of the other kinds are then subtracted, and fine labels move one at a time to the parent, or to a new
one, that is most probable under a nested Chinese-restaurant prior (label_groups.py), as Srivastava and Salakhutdinov
did in 2013. The two steps alternate until nothing moves. While a network is trained, this is repeated every few
epochs, starting from the current tree.

The number of weights must not change during training. So each level has room for more groups than it has
(`LabelTree.on`); unused room is left out in the end (`LabelTree.named_on`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.graph.group_names import TREE, group_kind
from finegraph.graph.kind import Kind
from finegraph.model.structure.graph_statistics import statistics_for
from finegraph.model.structure.label_groups import group_labels, shared_members
from finegraph.model.structure.suggested_groups import LEVELS, independent_share, shown_means
from finegraph.model.teaching.class_statistics import ClassStatistics

NAME = TREE
"""The name of the kinds of the tree: `tree 1` has the largest groups."""
MIN_GAIN = 3.0
"""The gain in log posterior that a move needs when a tree is learnt again: photos that a network was trained on look
more like their class than others would, so small gains are no news."""
_ROUNDS = 5
"""The maximum number of rounds of tree and effects."""
_MIN_ROOM = 8


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeMove:
    """A fine label that moved.

    Attributes:
        fine: its name.
        to: a member of its new group; itself if it is alone.
        gain: the gain in log posterior; None if it is not known.
    """

    fine: str
    to: str
    gain: float | None

    @property
    def words(self) -> str:
        """The move in words."""
        where = "to a group of its own" if self.to == self.fine else f"to the group of {self.to}"
        return f"{self.fine} moved {where}" + ("" if self.gain is None else f" (log odds {self.gain:.1f})")


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelTree:
    """Groups of fine labels, and groups of these.

    Attributes:
        levels: the group of each fine label, the smallest groups first.
        room: how many groups each level can have while weights are trained.
        moves: the moves when it was last learnt.
        rounds: the number of rounds of tree and effects.
    """

    levels: tuple[Int[NDArray[np.int64], " fine"], ...]
    room: tuple[int, ...]
    moves: tuple[TreeMove, ...] = ()
    rounds: int = 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of its kinds, the smallest groups first."""
        return tuple(f"{NAME} {len(self.levels) - number}" for number in range(len(self.levels)))

    def on(self, graph: LabelGraph) -> LabelGraph:
        """The graph with a kind for each level that has room for more groups."""
        for name, groups, room in reversed(list(zip(self.kinds, self.levels, self.room, strict=True))):
            labels = [f"group {number + 1}" for number in range(room)]
            graph = graph.with_kind(Kind.from_parents(name, labels, groups))
        return graph

    def named_on(self, graph: LabelGraph) -> LabelGraph:
        """The graph with a kind for each level, with groups named after what their members share."""
        for name, groups in reversed(list(zip(self.kinds, self.levels, strict=True))):
            graph = graph.with_kind(group_kind(graph, groups, name))
        return graph

    def same_as(self, other: LabelTree) -> bool:
        """Whether both have the same groups."""
        return len(self.levels) == len(other.levels) and all(
            np.array_equal(one, two) for one, two in zip(self.levels, other.levels, strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        """The tree as JSON-compatible values, without its moves."""
        return {"levels": [level.tolist() for level in self.levels], "room": list(self.room)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LabelTree:
        """The tree from the values of `to_dict`."""
        levels = tuple(np.array(level, dtype=np.int64) for level in values["levels"])
        return cls(levels=levels, room=tuple(values["room"]))


def learn_tree(
    graph: LabelGraph, statistics: ClassStatistics, *, start: LabelTree | None = None, levels: int = LEVELS
) -> LabelTree:
    """Learn the tree of a graph from class statistics.

    Args:
        graph: the label graph without the tree.
        statistics: the class statistics of its fine labels.
        start: the initial tree, whose number of levels is kept; by default groups are merged from single labels.
        levels: the maximum number of levels.

    Raises:
        InputError: there are too many fine labels with photos, or the graph already has a tree.
    """
    if any(kind.startswith(f"{NAME} ") for kind in graph.kinds):
        raise InputError(f"the graph has a kind {NAME} already; leave it out, or give it another name")
    tree, moves = start, []
    rounds = 0
    for _ in range(_ROUNDS):
        rounds += 1
        found, moved = _next(graph, statistics, tree, levels, start)
        moves += moved
        if tree is not None and found.same_as(tree):
            break
        tree = found
    assert tree is not None
    return LabelTree(levels=tree.levels, room=tree.room, moves=tuple(moves), rounds=rounds)


def moves_between(graph: LabelGraph, before: LabelTree, after: LabelTree) -> tuple[TreeMove, ...]:
    """What moved from one tree to another at the level of the smallest groups, whatever way it took.

    A group continues in the one that has most of its members; who is elsewhere has moved.
    """
    if not before.levels or not after.levels:
        return ()
    one, two = before.levels[0], after.levels[0]
    both = np.flatnonzero((one >= 0) & (two >= 0))
    old, new, counts = shared_members(one[both], two[both])
    goes_on = _largest(new, old, counts)  # for each new group, the old one that most of it comes from
    continues = _largest(old, new, counts)  # for each old group, the new one that most of it goes to
    stays = goes_on[two[both]] == one[both]
    kept = both[stays][np.argsort(two[both[stays]], kind="stable")]  # group by group
    groups, starts = np.unique(two[kept], return_index=True)
    first = dict(zip(groups.tolist(), kept[starts].tolist(), strict=True))  # of those who stay in a group
    found = [(row, first[group]) for row, group in zip(both[~stays].tolist(), two[both[~stays]].tolist(), strict=True)]
    split = (
        continues[goes_on[two[kept]]] != two[kept]
    )  # in a new group that split off from one which continues elsewhere
    found += [(row, first[int(two[row])]) for row in kept[split].tolist()]
    return tuple(TreeMove(fine=graph.fine[row], to=graph.fine[to], gain=None) for row, to in found)


def _largest(groups: NDArray[np.int64], others: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each group, the one of the others with the largest count; the first of several."""
    order = np.lexsort((others, -counts, groups))
    present, starts = np.unique(groups[order], return_index=True)
    found = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int64)
    found[present] = others[order[starts]]
    return found


def _next(
    graph: LabelGraph, statistics: ClassStatistics, tree: LabelTree | None, levels: int, start: LabelTree | None
) -> tuple[LabelTree, list[TreeMove]]:
    """The tree after one round, and the moves."""
    kept: tuple[str, ...] = ()
    whole = graph
    if tree is not None and tree.levels:
        whole, kept = tree.on(graph), tree.kinds
    own = statistics_for(whole, graph, statistics)
    means, noise, seen = shown_means(whole, own, kept)
    first = None if tree is None or not tree.levels else tree.levels[0][seen]
    found = group_labels(
        means,
        noise,
        share=independent_share(own),
        levels=levels,
        start=first,
        min_gain=0.0 if start is None else MIN_GAIN,
    )
    all_levels = [_for_all(level.groups, seen, len(graph)) for level in found]
    moved = [
        TreeMove(fine=graph.fine[int(seen[move.item])], to=graph.fine[int(seen[move.to])], gain=move.gain)
        for move in (found[0].moves if found else ())
    ]
    if start is not None:
        all_levels = _fitted(all_levels, start)
        room = start.room
    else:
        room = tuple(min(len(graph), 2 * (int(one.max()) + 1) + _MIN_ROOM) for one in all_levels)
    return LabelTree(levels=tuple(all_levels), room=room), moved


def _fitted(levels: list[NDArray[np.int64]], start: LabelTree) -> list[NDArray[np.int64]]:
    """The new levels if they are as many as before and fit into the room; otherwise the old ones."""
    fitted = []
    for number, before in enumerate(start.levels):
        if number < len(levels) and int(levels[number].max()) < start.room[number]:
            fitted.append(levels[number])
        else:
            fitted.append(before)
    return fitted


def _for_all(groups: NDArray[np.int64], seen: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Groups of all fine labels; those without photos are in no group."""
    found = np.full(count, -1, dtype=np.int64)
    found[seen] = groups
    return found
