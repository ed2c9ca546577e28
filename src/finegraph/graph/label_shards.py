"""Fine labels divided among processes, so that each holds the rows of its own labels.

The fine labels of one coarse label of the largest kind stay together: the rows of that kind are then divided too,
and every sum over its children is computed in one process. It must be a kind in which every fine label has one known
parent; without such a kind, the fine labels are cut into equal parts. Every process holds the labels of all other
kinds. The division depends on the graph and the number of processes alone. Cost: linear in the fine labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from finegraph.errors import InputError
from finegraph.graph.kind import IntArray
from finegraph.graph.label_graph import LabelGraph


@dataclass(frozen=True, eq=False)
class LabelShard:
    """The labels that one process holds.

    Attributes:
        rank: the number of the process, from 0.
        size: how many processes there are.
        fine: its fine labels, rising.
        kind: the kind whose labels are divided with them; None if there is none.
        labels: its labels of that kind, rising.
    """

    rank: int
    size: int
    fine: Int[IntArray, " fine"]
    kind: str | None
    labels: Int[IntArray, " label"]

    def coarse(self, graph: LabelGraph) -> Int[IntArray, " coarse"]:
        """Its coarse labels, counted over all kinds in their order."""
        parts, start = [np.zeros(0, np.int64)], 0
        for name in graph.kinds:
            count = len(graph.labels(name))
            parts.append(start + (self.labels if name == self.kind else np.arange(count)))
            start += count
        return np.concatenate(parts)


def label_shard(graph: LabelGraph, rank: int, size: int) -> LabelShard:
    """The labels that one process holds.

    See the module docstring for how labels are divided.

    Args:
        graph: the label graph.
        rank: the number of the process, from 0.
        size: how many processes there are.

    Raises:
        InputError: there are too few labels for this number of processes.
    """
    kind = _local_kind(graph, size)
    if kind is None:
        own = np.arange(rank * len(graph) // size, (rank + 1) * len(graph) // size)
        labels = np.zeros(0, np.int64)
    else:
        parents = graph.parents(kind)
        sizes = np.bincount(parents, minlength=len(graph.labels(kind)))
        # A label belongs to the part that contains the middle of its children.
        middle = np.cumsum(sizes) - sizes / 2
        owner = np.minimum((middle * size / max(len(graph), 1)).astype(np.int64), size - 1)
        labels, own = np.flatnonzero(owner == rank), np.flatnonzero(owner[parents] == rank)
    if not len(own):
        raise InputError(
            f"process {rank + 1} of {size} would hold none of the {len(graph):,} fine labels; use fewer processes"
        )
    return LabelShard(rank, size, own, kind, labels)


def _local_kind(graph: LabelGraph, size: int) -> str | None:
    """The kind with the most labels among those in which every fine label has one known parent, and no order.

    The weight prior links the labels of an ordered kind to each other.
    """
    kinds = [graph.kind(name) for name in graph.kinds]
    plain = [kind.name for kind in kinds if not kind.ordered and bool((kind.row_sizes == 1).all())]
    best = max(plain, key=lambda name: len(graph.labels(name)), default=None)
    return None if best is None or len(graph.labels(best)) < 4 * size else best
