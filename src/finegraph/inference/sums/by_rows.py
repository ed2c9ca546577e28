"""Sums over the graph with labels as rows and samples as columns: each sum adds whole rows.

    down    row of fine label i  =  sum over kinds of the row of i's group            (scores, gradient)
    up      row of group g       =  sum over the fine labels i of g of the row of i   (marginals, gradients of scores)

Each is one `embedding_bag` over the rows of all kinds, which adds a batch of numbers at a time: O(fine x kinds) row
additions, however many labels the kinds have. Many small kinds go by way of composite kinds, in two bags with far fewer
additions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from finegraph.inference.constants import Constants
from finegraph.inference.sums.composites import composites_of
from finegraph.inference.sums.kind_groups import KindGroups

_SUM = 0
"""The number by which `torch.embedding_bag` knows sums."""
_LONG, _PART = 64, 32
"""Longer lists are summed in parts, of about so many rows, and then the sums: that keeps rounding errors small."""


class _Lists(Constants):
    """Lists of row numbers, one after the other."""

    item: Tensor
    start: Tensor

    def __init__(self, item: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        self.parts: _Lists | None = None
        longest = int(sizes.max(initial=0))
        if longest > _LONG:
            length = max(_PART, int(np.sqrt(longest)))
            counts = -(-sizes // length)
            part_sizes = np.full(counts.sum(), length)
            last = np.cumsum(counts)[sizes > 0] - 1
            part_sizes[last] = (sizes - (counts - 1) * length)[sizes > 0]
            self.parts = _Lists(item, part_sizes)
            item, sizes = np.arange(len(part_sizes)), counts
        self.keep({"item": item.astype(np.int32), "start": (np.cumsum(sizes) - sizes).astype(np.int32)})

    def sums(self, rows: Tensor) -> Tensor:
        """The sum of the rows of each list; 0 for an empty one."""
        if not rows.shape[1]:
            return rows.new_zeros(len(self.start), 0)
        rows = rows if self.parts is None else self.parts.sums(rows)
        return torch.embedding_bag(rows, self.item, self.start, mode=_SUM)[0]


class Bags(Constants):
    """The lists of rows to add, for all kinds of a graph.

    Attributes:
        up_rows, down_rows: how many rows are made on the way up and on the way down, at the most at a time.
    """

    def __init__(self, kinds: Sequence[KindGroups], fine_count: int, group_count: int) -> None:
        super().__init__()
        composites = composites_of(kinds, fine_count)
        if not composites:
            steps = [_two_way(kinds, group_count)]
        else:
            steps = [_two_way([composite.groups for composite in composites], 0)]
            steps.append(_members([composite.member_columns for composite in composites], group_count))
        sizes = [fine_count, *(len(up.start) for up, _ in steps)]
        self.up_rows = sum(sizes[1:])
        self.down_rows = max(one + other for one, other in itertools.pairwise(sizes))
        self._up = [up for up, _ in steps]
        self._down = [down for _, down in reversed(steps)]

    def down(self, groups: Float[Tensor, "group batch"]) -> Float[Tensor, "fine batch"]:
        """For each fine label the sum over its groups."""
        for lists in self._down:
            groups = lists.sums(groups)
        return groups

    def up(self, fine: Float[Tensor, "fine batch"]) -> Float[Tensor, "group batch"]:
        """For each group the sum over its fine labels."""
        for lists in self._up:
            fine = lists.sums(fine)
        return fine


def _two_way(kinds: Sequence[KindGroups], group_count: int) -> tuple[_Lists, _Lists]:
    """For each group column its fine labels, and for each fine label its group columns."""
    columns = np.stack([kind.columns[kind.group] for kind in kinds], axis=1)
    down = _Lists(columns.reshape(-1), np.full(len(columns), len(kinds)))
    sizes = np.zeros(max(group_count, 1 + int(columns.max())), np.int64)
    pieces: list[tuple[int, NDArray[np.int64]]] = []
    for kind in kinds:
        sizes[kind.columns] = kind.sizes
        labels = int(kind.sizes[: kind.label_count].sum())
        pieces.append((int(kind.columns[0]), kind.order[:labels]))
        if not kind.plain:
            pieces.append((int(kind.columns[kind.label_count]), kind.order[labels:]))
    pieces.sort(key=lambda piece: piece[0])
    return _Lists(np.concatenate([fine for _, fine in pieces]), sizes), down


def _members(member_columns: Sequence[NDArray[np.int64]], group_count: int) -> tuple[_Lists, _Lists]:
    """For each group column the groups of composites that it is in, and for each of these its group columns."""
    sizes = np.concatenate([np.full(*columns.shape) for columns in member_columns])
    column = np.concatenate([columns.reshape(-1) for columns in member_columns])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    up = _Lists(owner[np.argsort(column, kind="stable")], np.bincount(column, minlength=group_count))
    return up, _Lists(column, sizes)
