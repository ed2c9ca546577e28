"""How to sum over a graph: the strategies, and the cost model that chooses where a strategy leaves something open.

All strategies give the same results; they differ in time and memory only. Costs are in nanoseconds per fine label and
sample of a training step, measured on an ordinary CPU with 128 samples; only their ratios matter. A step from fine and
coarse scores makes four sums: joint scores, target probabilities, gradient and coarse gradient. A step from joint
scores makes only the second and third. The choice depends on the sizes of a graph alone, and is made once per graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from finegraph.inference.sums.groups import KindGroups

_BATCH = 128
_ROWS = ((750_000, 3.0), (3_000_000, 5.0), (np.inf, 7.5))
"""Rows: a step without sums, by the size of the scores in bytes: matrices are transposed and may not fit in caches."""
_ROWS_COARSE = 2.5
"""Rows: per fine and coarse label, added if there are coarse scores."""
_ADD_ROW = 0.04
"""Rows: per row to add."""
_COLUMNS = 1.7
"""Columns: a step without sums."""
_PRODUCT, _MIN_PRODUCT = 0.037, 1.1
"""Columns: a matrix product per row of the matrix, and its minimum, since it reads and writes all scores."""
_TO_BLOCKS, _FROM_BLOCKS = 0.9, 1.0
"""Columns: scattering into blocks, and gathering from them."""
_LIST, _CHILD, _LIST_CALL = 2.2, 4.0, 80_000.0
"""Columns: a listed kind if there are coarse scores; each child of the true label; and the fixed cost of a kind."""
_WEIGHT_EDGE, _WEIGHT_PASS, _WEIGHT_PRODUCT = 30.0, 10.0, 0.2
"""Weights: an edge, if summed by lists; a fine label and a weight, if summed by products."""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """How to sum over a graph. The cost model decides fields that are None."""

    by: Literal["rows", "columns"] | None = None
    """Labels as rows or as columns. The cost model chooses rows for float32 only, which torch adds quickly."""
    weights: bool | None = None
    """Whether kinds with mixed rows are summed by products with all their weights."""
    dense_kinds: int | None = None
    """Columns: the number of kinds summed by matrix product, starting with those with the fewest groups."""
    blocks: bool | None = None
    """Columns: whether these products run over blocks of fine labels rather than over all of them."""
    max_padding: int = 8
    """Columns: children are stored as a padded table if it has at most this many entries per fine label."""
    max_composite_cost: float = 0.7
    """Rows: composite kinds are used if at most this share of the row additions remains."""
    max_list: int = 64
    """Rows: longer lists are summed in pieces first, which keeps rounding errors small."""
    list_piece: int = 32
    """Rows: the approximate number of rows in a piece."""
    max_rows: float = 2.7
    """Rows: a table with more than this many rows per fine label is made for part of the batch at a time."""
    min_samples: int = 16
    """Rows: smaller batches are never split."""
    chunk: int = 1 << 21
    """Columns and weights: batches are split into chunks of about this many joint scores per thread."""


@dataclass(frozen=True, eq=False)
class ColumnChoice:
    """The kinds that are summed by matrix product, and whether over all fine labels or over blocks.

    Attributes:
        dense: the positions of the kinds summed by product; the others are summed by lists.
        block: the block of each fine label; labels with the same group in all dense kinds share one. None if there are
            enough blocks that the product runs over all fine labels.
    """

    dense: tuple[int, ...]
    block: Int[NDArray[np.int64], " fine"] | None


def rows_are_used(strategy: Strategy, kinds: Sequence[KindGroups], fine_count: int, coarse_scores: bool) -> bool:
    """Whether to sum by rows, with coarse scores or from joint scores alone."""
    if not kinds or strategy.by is not None:
        return bool(kinds) and strategy.by == "rows"
    base = next(cost for size, cost in _ROWS if 4 * _BATCH * fine_count <= size)
    sums = 2 * _ADD_ROW * _row_additions(kinds, fine_count)
    rows = _BATCH * (base * fine_count + sums)
    if coarse_scores:
        groups = sum(kind.count for kind in kinds)
        rows += _BATCH * (_ROWS_COARSE * (fine_count + groups) + sums)
    choice = cheapest_columns(strategy, kinds, fine_count)
    return rows <= _columns_cost(kinds, fine_count, choice, coarse_scores)


def weights_are_used(strategy: Strategy, fine_count: int, label_count: int, mixed_edges: int) -> bool:
    """Whether a kind is summed by products with all its weights rather than by the edges of its mixed rows."""
    if strategy.weights is not None:
        return strategy.weights and mixed_edges > 0
    products = _WEIGHT_PASS * fine_count + _WEIGHT_PRODUCT * fine_count * label_count
    return products < _WEIGHT_EDGE * mixed_edges


def cheapest_columns(strategy: Strategy, kinds: Sequence[KindGroups], fine_count: int) -> ColumnChoice:
    """The cheapest choice that the strategy allows; kinds with the fewest groups are summed by product first."""
    order = sorted(range(len(kinds)), key=lambda place: kinds[place].count)
    candidates = [ColumnChoice((), None)]
    block: NDArray[np.int64] | None = np.zeros(fine_count, np.int64)
    for number, place in enumerate(order, start=1):
        if block is not None:
            _, block = np.unique(block * kinds[place].count + kinds[place].group, return_inverse=True)
            block = block if _blocks_are_used(strategy, block, fine_count) else None
        candidates.append(ColumnChoice(tuple(sorted(order[:number])), block))
    if strategy.dense_kinds is not None:
        return candidates[min(strategy.dense_kinds, len(kinds))]
    return min(candidates, key=lambda choice: _columns_cost(kinds, fine_count, choice, coarse_scores=True))


def _blocks_are_used(strategy: Strategy, block: NDArray[np.int64], fine_count: int) -> bool:
    """Whether there are few enough blocks for products over blocks."""
    return 4 * (int(block.max()) + 1) <= fine_count if strategy.blocks is None else strategy.blocks


def _row_additions(kinds: Sequence[KindGroups], fine_count: int) -> int:
    """The approximate number of rows that a sum by rows adds; follows `composites_of`."""
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


def _columns_cost(kinds: Sequence[KindGroups], fine_count: int, choice: ColumnChoice, coarse_scores: bool) -> float:
    """The cost of sums by columns for a batch, in nanoseconds."""
    groups = sum(kinds[place].count for place in choice.dense)
    cost, sums = _COLUMNS * fine_count, 4 if coarse_scores else 2
    if choice.block is not None:
        blocks = int(choice.block.max() + 1)
        cost += (_TO_BLOCKS + _FROM_BLOCKS * sums / 2) * fine_count + sums * blocks * _PRODUCT * groups
    elif choice.dense:
        cost += sums * fine_count * max(_MIN_PRODUCT, _PRODUCT * groups)
    calls = 0.0
    for place in set(range(len(kinds))) - set(choice.dense):
        cost += _CHILD * int(kinds[place].sizes.max()) + (_LIST * fine_count if coarse_scores else 0.0)
        calls += _LIST_CALL
    return _BATCH * cost + calls
