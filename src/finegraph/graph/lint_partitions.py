"""How kinds divide the fine labels: which kinds do it in the same way, and what no kind divides.

A kind puts fine labels with the same parents into one class. Classes are numbered, and the numbers of several kinds are
combined pair by pair, so the cost is one sort of the fine labels per kind.
"""

from __future__ import annotations

import hashlib

import numpy as np

from finegraph.graph.kind import IntArray, Kind
from finegraph.graph.label_graph import LabelGraph


def partition_key(kind: Kind) -> object:
    """A key that two kinds share if they differ in the names and the order of their labels only."""
    if kind.one_parent:
        _, first, classes = np.unique(kind.parents, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))  # classes in order of appearance, whatever their labels
        return hashlib.sha256(rank[classes].tobytes() + kind.unknown.tobytes()).digest()
    fine, coarse, weight = kind.edges
    order = np.lexsort((fine, coarse))
    ends = np.flatnonzero(np.diff(coarse[order])) + 1
    children = zip(np.split(fine[order], ends), np.split(weight[order], ends), strict=True)
    return tuple(sorted(hashlib.sha256(rows.tobytes() + parts.tobytes()).digest() for rows, parts in children))


def indistinct_groups(graph: LabelGraph) -> list[list[int]]:
    """The fine labels that have the same parents in every kind, in groups of two or more, in order of appearance."""
    classes = np.zeros(len(graph), dtype=np.int64)
    for name in graph.kinds:
        rows = _row_classes(graph.kind(name))
        classes = np.unique(classes * (int(rows.max()) + 1) + rows, return_inverse=True)[1]
        if classes.max() + 1 == len(graph):
            return []
    order = np.argsort(classes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(classes[order])) + 1)
    return sorted([int(index) for index in group] for group in groups if len(group) > 1)


def _row_classes(kind: Kind) -> IntArray:
    """A number from 0 on for each fine label, the same for the same parents and weights; 0 is unknown."""
    classes = np.zeros(kind.fine_count, dtype=np.int64)
    sizes = kind.row_sizes
    classes[sizes == 1] = kind.coarse[kind.starts[:-1][sizes == 1]] + 1
    seen: dict[tuple[bytes, bytes], int] = {}
    for row in np.flatnonzero(sizes > 1).tolist():
        part = slice(kind.starts[row], kind.starts[row + 1])
        key = (kind.coarse[part].tobytes(), kind.weight[part].tobytes())
        classes[row] = seen.setdefault(key, len(kind.labels) + 1 + len(seen))
    return classes
