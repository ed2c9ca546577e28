"""Sums over the graph with labels as rows and samples as columns: each sum adds whole rows.

    down    row of fine label i  =  sum over kinds of the row of i's group            (scores, gradient)
    up      row of group g       =  sum over the fine labels i of g of the row of i   (marginals, gradients of scores)

Each is one `embedding_bag` over the rows of all kinds, which adds a batch of numbers at a time: O(fine x kinds) row
additions, however many labels the kinds have. Where differences will do, a kind with two labels adds only the rows of
the smaller one. For the loss the fine labels count as one more kind, in which each is its own group.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from finegraph.inference.constants import Constants
from finegraph.inference.kind_groups import KindGroups

_SUM = 0
"""The number by which `torch.embedding_bag` knows sums."""
_LONG, _PART = 24, 16
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
        spare, other: the group columns of the two labels of each plain kind with two labels, the larger one first.
    """

    spare: Tensor
    other: Tensor

    def __init__(self, kinds: tuple[KindGroups, ...], fine_count: int, group_count: int) -> None:
        super().__init__()
        pairs = [(kind.columns[kind.spare], kind.columns[1 - kind.spare]) for kind in kinds if kind.spare is not None]
        two = np.array(pairs, np.int64).reshape(-1, 2)
        self.keep({"spare": two[:, 0], "other": two[:, 1]})
        spare = np.zeros(group_count, bool)
        spare[two[:, 0]] = True
        own = KindGroups(fine_count, group_count + np.arange(fine_count), np.arange(fine_count))
        none_spare = np.zeros(group_count + fine_count, bool)
        self._down, self._up = _down_lists((*kinds, own), none_spare), _up_lists((*kinds, own), none_spare)
        self._short_down, self._short_up = _down_lists(kinds, spare), _up_lists(kinds, spare)

    def down(self, groups: Float[Tensor, "group_and_fine batch"]) -> Float[Tensor, "fine batch"]:
        """For each fine label the sum over its groups and its own row."""
        return self._down.sums(groups)

    def down_scores(self, groups: Float[Tensor, "group batch"]) -> Float[Tensor, "fine batch"]:
        """For each fine label the sum over its groups, up to a constant per sample; overwrites `groups`."""
        if len(self.spare):
            groups.index_add_(0, self.other, groups.index_select(0, self.spare), alpha=-1)
        return self._short_down.sums(groups)

    def up(self, fine: Float[Tensor, "fine batch"]) -> Float[Tensor, "group_and_fine batch"]:
        """For each group the sum over its fine labels, with all its digits; then the fine labels themselves."""
        return self._up.sums(fine)

    def up_grads(self, fine: Float[Tensor, "fine batch"]) -> Float[Tensor, "group batch"]:
        """For each group the sum over its fine labels, up to rounding of the size of the total."""
        groups = self._short_up.sums(fine)
        if len(self.spare):
            groups.index_copy_(0, self.spare, fine.sum(dim=0) - groups.index_select(0, self.other))
        return groups


def _down_lists(kinds: tuple[KindGroups, ...], left_out: NDArray[np.bool_]) -> _Lists:
    """For each fine label its group columns, but those left out."""
    columns = np.empty((len(kinds[0].group), len(kinds)), np.int64)
    for number, kind in enumerate(kinds):
        columns[:, number] = kind.columns[kind.group]
    kept = ~left_out[columns]
    return _Lists(columns[kept], kept.sum(axis=1))


def _up_lists(kinds: tuple[KindGroups, ...], left_out: NDArray[np.bool_]) -> _Lists:
    """For each group column its fine labels; none for those left out."""
    sizes = np.zeros(len(left_out), np.int64)
    pieces: list[tuple[int, NDArray[np.int64]]] = []
    for kind in kinds:
        sizes[kind.columns] = kind.sizes
        fine = kind.order[~left_out[kind.columns[kind.group[kind.order]]]]
        labels = int(np.where(left_out[kind.columns], 0, kind.sizes)[: kind.label_count].sum())
        pieces.append((int(kind.columns[0]), fine[:labels]))
        if not kind.plain:
            pieces.append((int(kind.columns[kind.label_count]), fine[labels:]))
    pieces.sort(key=lambda piece: piece[0])
    return _Lists(np.concatenate([fine for _, fine in pieces]), np.where(left_out, 0, sizes))
