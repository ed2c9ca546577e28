"""What the ways of summing over a graph cost: the model by which `plan.py` and `columns.py` choose.

All figures are nanoseconds per fine label (or block of them) and sample, measured on an ordinary CPU with 128 samples;
only their ratios matter. A training step makes four sums: scores, marginals, gradient, gradients of coarse scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from finegraph.inference.kind_groups import KindGroups

_BATCH = 128
_TURN = 1.2
"""To turn a matrix once."""
_ADD_ROW, _ADD_FAR_ROW = 0.04, 0.3
"""To add a row that is in a near cache, or in a far one."""
_NEAR = 1 << 21
"""So many bytes are in a near cache."""
_PRODUCT, _PRODUCT_PASS = 0.028, 1.1
"""A matrix product, per row of the matrix; and at least, since it reads and writes all scores."""
_GATHER, _SCATTER = 1.0, 0.9
"""To gather numbers and add them, and to scatter numbers."""
_LIST = 80_000.0
"""Nanoseconds per listed kind, for small operations."""
_CHILD = 4.0
"""Per child of the true label of a listed kind."""


def bags_are_cheaper(kinds: Sequence[KindGroups], fine_count: int) -> bool:
    """Whether bags cost less than columns."""
    group_count = sum(kind.count for kind in kinds)
    near = 4 * _BATCH * fine_count <= _NEAR
    rows = fine_count * len(kinds) * (2 * _ADD_ROW + 2 * (_ADD_ROW if near else _ADD_FAR_ROW))
    bags = _BATCH * (2 * _TURN * (fine_count + group_count) + rows)
    return bags <= best_columns(kinds, fine_count).cost


@dataclass(frozen=True, eq=False)
class ColumnChoice:
    """Which kinds go by matrix product, over all fine labels or over blocks of them.

    Attributes:
        dense: the kinds that go by product; the others by lists.
        block: the block of each fine label: those with the same group in all dense kinds; None where the blocks are so
            many that the product runs over all fine labels.
        cost: the estimate in nanoseconds.
    """

    dense: tuple[int, ...]
    block: NDArray[np.int64] | None
    cost: float


def best_columns(kinds: Sequence[KindGroups], fine_count: int) -> ColumnChoice:
    """The cheapest choice: the kinds with the fewest groups go by product, as many as pays."""
    order = sorted(range(len(kinds)), key=lambda index: kinds[index].count)
    lists = [_cost_of_list(kinds[index], fine_count) for index in order]
    best = ColumnChoice((), None, float(sum(lists)))
    block: NDArray[np.int64] | None = np.zeros(fine_count, np.int64)
    groups = 0
    for number, index in enumerate(order, start=1):
        kind = kinds[index]
        groups += kind.count
        if block is not None:
            _, block = np.unique(block * kind.count + kind.group, return_inverse=True)
            block = block if 4 * (block.max() + 1) <= fine_count else None
        cost = _cost_of_product(groups, block, fine_count) + sum(lists[number:])
        if cost < best.cost:
            best = ColumnChoice(tuple(sorted(order[:number])), block, cost)
    return best


def _cost_of_list(kind: KindGroups, fine_count: int) -> float:
    """Of a kind that goes by lists."""
    widest = int(kind.sizes.max())
    return _LIST + _BATCH * ((_GATHER + _SCATTER) * fine_count + _CHILD * widest)


def _cost_of_product(groups: int, block: NDArray[np.int64] | None, fine_count: int) -> float:
    """Of all kinds that go by product."""
    columns = fine_count if block is None else int(block.max()) + 1
    passes = 0.0 if block is None else (_GATHER + _SCATTER + _GATHER) * fine_count
    return _BATCH * (passes + 4 * columns * max(_PRODUCT_PASS, _PRODUCT * groups))
