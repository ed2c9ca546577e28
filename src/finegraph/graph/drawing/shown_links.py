"""The content of a drawing of a graph: which fine labels, kinds and links, in which order.

A picture of everything is readable only for small graphs. So a proportional sample of fine labels and the first kinds
are drawn, and the picture says how many are left out. Fine labels are ordered by their parents in the first kind, then
the second, and so on; the labels of a kind by the mean position of their children (the barycentre), which keeps
crossings few, unless the kind is ordered. Cost: a sort of the fine labels.

If there is no room for all fine labels, `sample_fine` chooses some: the kind with the fewest labels divides them, each
part first gets one place, then places go to the part with the most fine labels per place (the method of
Sainte-Lague). Within a part, places are spread evenly over the fine labels in the order of their other parents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from finegraph.graph.describe import YES, Column
from finegraph.graph.kind import FloatArray, IntArray, Kind
from finegraph.graph.label_graph import LabelGraph


@dataclass(frozen=True)
class Node:
    """A coarse label of the picture.

    Attributes:
        name: the label, or the text of the box for the remaining labels or for unknown.
        real: whether it is a label of the kind, rather than one of these two.
        rows: the positions of its fine labels in the picture.
        weights: the weight of each of these links; 0 for a link that is unknown.
    """

    name: str
    real: bool
    rows: Int[IntArray, " edge"]
    weights: Float[FloatArray, " edge"]


@dataclass(frozen=True)
class ColumnLinks:
    """The links of one column of the picture.

    Attributes:
        column: the kind or group.
        label_count: how many labels it has in the whole graph.
        undrawn: how many of its labels have no link to the fine labels of the picture.
        nodes: its boxes from top to bottom.
    """

    column: Column
    label_count: int
    undrawn: int
    nodes: tuple[Node, ...]

    @property
    def link_count(self) -> int:
        """The number of links of all boxes."""
        return sum(len(node.rows) for node in self.nodes)


def order_fine(graph: LabelGraph, columns: Sequence[Column], count: int) -> Int[IntArray, " sample"]:
    """A representative sample of at most `count` fine labels, ordered by their parents in the columns."""
    parents = {column.name: _first_parents(graph, column) for column in columns}
    chosen = sample_fine([parents[column.name] for column in by_size(graph, columns)], len(graph), count)
    keys = [parents[column.name][chosen] for column in columns]
    return chosen[np.lexsort([chosen, *reversed(keys)])] if keys else chosen


def by_size(graph: LabelGraph, columns: Sequence[Column]) -> list[Column]:
    """Columns by their number of labels, the fewest first; groups, in which several labels hold, come last."""
    return sorted(columns, key=lambda column: (column.group, len(column.labels(graph))))


def _first_parents(graph: LabelGraph, column: Column) -> IntArray:
    """The first parent of each fine label; the number of labels if there is none."""
    rows, labels, _ = _edges([graph.kind(name) for name in column.kinds], column.group)
    found = np.full(len(graph), len(column.labels(graph)))
    np.minimum.at(found, rows, labels)
    return found


def column_links(graph: LabelGraph, column: Column, fine: Int[IntArray, " sample"], max_labels: int) -> ColumnLinks:
    """The links between some fine labels and one column.

    Args:
        graph: the graph.
        column: the kind or group.
        fine: the fine labels, in the order in which they are drawn.
        max_labels: how many labels get a box of their own; the less frequent ones share one.
    """
    names = column.labels(graph)
    kinds = [graph.kind(name).rows(fine) for name in column.kinds]
    rows, labels, weights = _edges(kinds, column.group)
    nameless, doubtful = _unknown(kinds)
    rows = np.concatenate([rows, [row for row, _ in doubtful]]).astype(np.int64)
    labels = np.concatenate([labels, [label for _, label in doubtful]]).astype(np.int64)
    weights = np.concatenate([weights, np.zeros(len(doubtful))])
    counts = np.bincount(labels, minlength=len(names))
    present = np.flatnonzero(counts)
    own = np.sort(present[np.argsort(-counts[present], kind="stable")][:max_labels])
    nodes = [Node(names[label], True, rows[labels == label], weights[labels == label]) for label in own]
    if column.group or not kinds[0].ordered:  # an ordered kind keeps its order
        nodes.sort(key=lambda node: float(node.rows.mean()))
    if len(present) > len(own):
        shared = ~np.isin(labels, own)
        mass = np.bincount(rows[shared], weights=weights[shared], minlength=len(fine))
        some = np.unique(rows[shared])
        nodes.append(Node(f"{len(present) - len(own)} other labels", False, some, np.minimum(mass[some], 1.0)))
    if len(nameless):
        nodes.append(Node("unknown", False, nameless, np.zeros(len(nameless))))
    return ColumnLinks(column, len(names), len(names) - len(present), tuple(nodes))


def _edges(kinds: Sequence[Kind], group: bool) -> tuple[IntArray, IntArray, FloatArray]:
    """The edges of a column as (row, label, weight); of a group, one for each `yes`."""
    if not group:
        return kinds[0].edges
    rows, labels, weights = [], [], []
    for label, kind in enumerate(kinds):
        fine, coarse, weight = kind.edges
        rows.append(fine[coarse == YES])
        labels.append(np.full(len(rows[-1]), label))
        weights.append(weight[coarse == YES])
    return np.concatenate(rows), np.concatenate(labels), np.concatenate(weights)


def _unknown(kinds: Sequence[Kind]) -> tuple[IntArray, list[tuple[int, int]]]:
    """The rows that are unknown in all kinds of a column, and the pairs (row, kind) of those unknown in some."""
    unknown = np.stack([kind.unknown for kind in kinds], axis=1)
    everywhere = np.asarray(unknown.all(axis=1))
    rows, members = np.nonzero(unknown & ~everywhere[:, None])
    return np.flatnonzero(everywhere), list(zip(rows.tolist(), members.tolist(), strict=True))


def sample_fine(parents: Sequence[Int[IntArray, " fine"]], fine: int, count: int) -> Int[IntArray, " sample"]:
    """The numbers of at most `count` fine labels, in the order of the graph.

    Args:
        parents: per kind, the parent of each fine label; the kind that divides the fine labels comes first.
        fine: how many fine labels there are.
        count: how many are wanted.
    """
    if count >= fine:
        return np.arange(fine)
    order = np.lexsort(tuple(reversed(parents))) if parents else np.arange(fine)
    first = parents[0][order] if parents else np.zeros(fine, dtype=np.int64)
    _, sizes = np.unique(first, return_counts=True)
    if len(sizes) > count:  # not even one per part
        sizes = np.array([fine])
    chosen = []
    for start, size, places in zip(np.cumsum(sizes) - sizes, sizes, _places(sizes, count), strict=True):
        spread = ((np.arange(places) + 0.5) * size / places).astype(np.int64)
        chosen.append(order[start + spread])
    return np.sort(np.concatenate(chosen))


def _places(sizes: IntArray, count: int) -> IntArray:
    """How many of `count` places each part gets: at least one, and no more than it has fine labels."""
    part = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(part)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    claim = np.where(place == 0, np.inf, sizes[part] / (2.0 * place + 1.0))
    taken = np.lexsort((part, -claim))[:count]
    return np.bincount(part[taken], minlength=len(sizes))
