"""What the ways of summing over a graph cost: the model by which `plan.py` and `columns.py` choose.

All figures are nanoseconds per fine label and sample of a training step, measured on an ordinary CPU with 128 samples;
only their ratios matter. A step from fine and coarse scores makes four sums: scores, marginals, gradient, gradients of
coarse scores. A step from joint scores makes the two in the middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from finegraph.inference.sums.kind_groups import KindGroups

_BATCH = 128
_BAGS = ((750_000, 3.0), (3_000_000, 5.0), (np.inf, 7.5))
"""Bags: up to so many bytes of scores, a step without sums: the matrices are turned, and no longer fit in caches."""
_COARSE = 2.5
"""Bags: per fine and coarse label more where there are coarse scores."""
_ADD_ROW = 0.04
"""Bags: per row to add."""
_COLUMNS = 1.7
"""Columns: a step without sums."""
_PRODUCT, _LEAST_PRODUCT = 0.037, 1.1
"""Columns: a matrix product per row of the matrix, and at least, since it reads and writes all scores."""
_TO_BLOCKS, _FROM_BLOCKS = 0.9, 1.0
"""Columns: to scatter into blocks, and to gather from them."""
_LIST, _CHILD, _LIST_CALL = 2.2, 4.0, 80_000.0
"""Columns: a listed kind where there are coarse scores; per child of the true label; and by itself, in all."""


def bags_are_cheaper(kinds: Sequence[KindGroups], fine_count: int, coarse_scores: bool) -> bool:
    """Whether bags cost less than columns, with coarse scores or from joint scores alone."""
    base = next(cost for size, cost in _BAGS if 4 * _BATCH * fine_count <= size)
    sums = 2 * _ADD_ROW * _row_additions(kinds, fine_count)
    bags = _BATCH * (base * fine_count + sums)
    if coarse_scores:
        groups = sum(kind.count for kind in kinds)
        bags += _BATCH * (_COARSE * (fine_count + groups) + sums)
    choice = best_columns(kinds, fine_count)
    return bags <= _columns_cost(kinds, fine_count, choice.dense, choice.block, coarse_scores)


def _row_additions(kinds: Sequence[KindGroups], fine_count: int) -> int:
    """About how many rows a sum by bags adds; see `composites.py`."""
    total, members, combinations = 0, 0, 1
    for count in sorted(kind.count for kind in kinds):
        merged = min(combinations * count, fine_count)
        if members and (fine_count + merged * (members + 1)) * members > (fine_count + combinations * members) * (
            members + 1
        ):
            total += fine_count + combinations * members
            members, merged = 0, count
        members, combinations = members + 1, merged
    total += fine_count + combinations * members
    return min(total, fine_count * len(kinds))


@dataclass(frozen=True, eq=False)
class ColumnChoice:
    """Which kinds go by matrix product, over all fine labels or over blocks of them.

    Attributes:
        dense: the kinds that go by product; the others by lists.
        block: the block of each fine label: those with the same group in all dense kinds; None where the blocks are so
            many that the product runs over all fine labels.
    """

    dense: tuple[int, ...]
    block: NDArray[np.int64] | None


def best_columns(kinds: Sequence[KindGroups], fine_count: int) -> ColumnChoice:
    """The cheapest choice: the kinds with the fewest groups go by product, as many as pays."""
    order = sorted(range(len(kinds)), key=lambda index: kinds[index].count)
    best, lowest = ColumnChoice((), None), _columns_cost(kinds, fine_count, (), None, True)
    block: NDArray[np.int64] | None = np.zeros(fine_count, np.int64)
    for number, index in enumerate(order, start=1):
        if block is not None:
            _, block = np.unique(block * kinds[index].count + kinds[index].group, return_inverse=True)
            block = block if 4 * (block.max() + 1) <= fine_count else None
        dense = tuple(sorted(order[:number]))
        cost = _columns_cost(kinds, fine_count, dense, block, True)
        if cost < lowest:
            best, lowest = ColumnChoice(dense, block), cost
    return best


def _columns_cost(
    kinds: Sequence[KindGroups],
    fine_count: int,
    dense: tuple[int, ...],
    block: NDArray[np.int64] | None,
    coarse_scores: bool,
) -> float:
    """The cost of columns in nanoseconds for a batch."""
    groups = sum(kinds[index].count for index in dense)
    cost, sums = _COLUMNS * fine_count, 4 if coarse_scores else 2
    if dense and block is None:
        cost += sums * fine_count * max(_LEAST_PRODUCT, _PRODUCT * groups)
    elif dense and block is not None:
        cost += (_TO_BLOCKS + _FROM_BLOCKS * sums / 2) * fine_count + sums * int(block.max() + 1) * _PRODUCT * groups
    calls = 0.0
    for index in set(range(len(kinds))) - set(dense):
        cost += _CHILD * int(kinds[index].sizes.max()) + (_LIST * fine_count if coarse_scores else 0.0)
        calls += _LIST_CALL
    return _BATCH * cost + calls
