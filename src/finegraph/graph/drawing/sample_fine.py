"""Some fine labels that stand for all: as many of each coarse label as it has a share.

The kind with the fewest labels parts the fine labels. Each part gets one place first, then places go where a part has
most fine labels for those it has (the method of Sainte-Lague). Inside of a part the places are spread evenly over the
fine labels in the order of their other parents. The same graph gives the same labels. Cost: a sort of the fine labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from finegraph.graph.kind import IntArray


def sample_fine(parents: Sequence[IntArray], fine: int, count: int) -> IntArray:
    """The numbers of at most `count` fine labels, in the order of the graph.

    Args:
        parents: of each fine label, in each kind; the kind that parts the fine labels first.
        fine: how many fine labels there are.
        count: how many are wanted.
    """
    if count >= fine:
        return np.arange(fine)
    order = np.lexsort(tuple(reversed(parents))) if parents else np.arange(fine)
    first = parents[0][order] if parents else np.zeros(fine, dtype=np.int64)
    _, sizes = np.unique(first, return_counts=True)
    if len(sizes) > count:  # not even one of each
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
