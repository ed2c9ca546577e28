"""Orders of labels in which a confusion matrix shows blocks.

By confusion: labels that are often taken for each other are put side by side, the most frequent pair first; each step
appends one row of labels to another. By coarse labels: the kinds with the fewest labels part the fine labels first, and
inside of the parts the order by confusion holds. Cost: a sort of the confusions, linear in the labels beside that.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from finegraph.evaluation.details import NOT_KNOWN
from finegraph.graph import LabelGraph

Numbers = NDArray[np.int64]
MAX_KINDS = 3
"""How many kinds part the fine labels."""


def confusions(
    true: Int[NDArray[np.integer], " photo"], answered: Int[NDArray[np.integer], " photo"], size: int
) -> tuple[Int[Numbers, " item"], Int[Numbers, " item"], Int[Numbers, " item"]]:
    """Every pair of a true and another answered label that occurs, with how often; the most frequent first."""
    judged = (true >= 0) & (answered >= 0) & (true != answered)
    keys, counts = np.unique(true[judged].astype(np.int64) * size + answered[judged], return_counts=True)
    order = np.lexsort((keys, -counts))
    keys, counts = keys[order], counts[order]
    return keys // size, keys % size, counts.astype(np.int64)


def order_by_confusion(
    true: Int[NDArray[np.integer], " photo"], answered: Int[NDArray[np.integer], " photo"], size: int
) -> Int[Numbers, " fine"]:
    """Labels in an order in which those that are taken for each other are near each other."""
    one, two, counts = confusions(true, answered, size)
    low, high = np.minimum(one, two), np.maximum(one, two)
    keys, where = np.unique(low * size + high, return_inverse=True)
    totals = np.bincount(where, weights=counts, minlength=len(keys))
    chains: dict[int, list[int]] = {}
    chain_of = np.arange(size)
    for place in np.lexsort((keys, -totals)).tolist():
        first, second = divmod(int(keys[place]), size)
        a, b = int(chain_of[first]), int(chain_of[second])
        if a == b:
            continue
        left, right = chains.pop(a, [a]), chains.pop(b, [b])
        if len(left) < len(right):
            left, right, a, b = right, left, b, a
        chain_of[right] = a
        left.extend(
            right
        )  # the shorter to the longer one: no label moves more often than the logarithm of their number
        chains[a] = left
    rest = [label for label in range(size) if chain_of[label] == label and label not in chains]
    return np.array([label for chain in chains.values() for label in chain] + rest, dtype=np.int64)


def order_by_coarse(
    graph: LabelGraph, by_confusion: Int[Numbers, " fine"], kind_orders: dict[str, Int[Numbers, " _"]]
) -> Int[Numbers, " fine"]:
    """Fine labels parted by their coarse labels, kinds with few labels first.

    Args:
        graph: the label graph.
        by_confusion: the order inside of the parts.
        kind_orders: the order of the labels of each kind.
    """
    sizes = {kind: len(graph.labels(kind)) for kind in graph.kinds if not graph.kind(kind).binary}
    chosen = sorted((kind for kind in sizes if 1 < sizes[kind] < len(graph)), key=lambda kind: sizes[kind])[:MAX_KINDS]
    keys = [_ranks(by_confusion)]
    for kind in reversed(chosen):
        ranks = np.append(_ranks(kind_orders[kind]), len(kind_orders[kind]))
        keys.append(ranks[first_parents(graph, kind)])
    return np.lexsort(keys).astype(np.int64)


def first_parents(graph: LabelGraph, kind: str) -> Int[Numbers, " fine"]:
    """The first parent of each fine label, `NOT_KNOWN` where none is known."""
    entry = graph.kind(kind)
    first = np.full(len(graph), NOT_KNOWN, dtype=np.int64)
    some = entry.row_sizes > 0
    first[some] = entry.coarse[entry.starts[:-1][some]]
    return first


def _ranks(order: Numbers) -> Numbers:
    """At which place each label stands."""
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks
