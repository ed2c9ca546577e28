"""Sums over the graph with labels as columns, as scores come: matrix products, gathers and scatters.

Kinds with few labels are *dense*: all of them together take one matrix product with a 0/1 matrix. Fine labels with the
same label in every dense kind form a *block*; where there are far fewer blocks than fine labels the product runs over
blocks, and one gather or scatter leads from blocks to fine labels. The other kinds are *listed*: each takes a gather or
a scatter of its own, and training touches only the children of the true label.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from finegraph.inference.constants import Constants
from finegraph.inference.sums.kind_groups import KindGroups
from finegraph.inference.sums.strategy import best_columns

_PADDING = 8
"""The children of a listed kind are also kept as a padded table if that has at most this many places per fine label."""


class ListedKind(Constants):
    """The children of each group of one kind with many labels, as one sorted list with starts."""

    group: Tensor
    local_group: Tensor
    order: Tensor
    padded_children: Tensor
    padded_valid: Tensor
    starts: Tensor
    sizes: Tensor
    columns: Tensor

    def __init__(self, kind: KindGroups) -> None:
        super().__init__()
        self.plain, self.label_count, self.group_count = kind.plain, kind.label_count, kind.count
        self.first_column = int(kind.columns[0])
        labels = kind.sizes[: kind.label_count]
        starts = np.cumsum(kind.sizes) - kind.sizes
        self.keep({"group": kind.columns[kind.group], "local_group": kind.group, "columns": kind.columns})
        self.keep({"order": kind.order, "starts": starts, "sizes": kind.sizes})
        width = int(labels.max())
        self.padded = self.label_count * width <= _PADDING * len(kind.group)
        if self.padded:
            step = np.arange(width)
            position = np.minimum(starts[: self.label_count, None] + step, len(kind.order) - 1)
            valid = (step < labels[:, None]).astype(np.float32)
            self.keep({"padded_children": kind.order[position], "padded_valid": valid})

    def children(self, label: Tensor) -> tuple[Tensor, Tensor]:
        """The children of one label per sample (batch, width), and which of them are real rather than padding."""
        if self.padded:
            return self.padded_children.index_select(0, label), self.padded_valid.index_select(0, label)
        size = self.sizes.index_select(0, label).unsqueeze(1)
        step = torch.arange(int(size.amax()) if len(label) else 0, device=label.device)
        position = self.starts.index_select(0, label).unsqueeze(1) + step
        valid = step < size
        child = self.order.index_select(0, position.clamp_max_(len(self.order) - 1).reshape(-1)).view_as(position)
        return child, valid


class DividedSlots(NamedTuple):
    """Target slots by how their probabilities are found.

    Attributes:
        listed: the slots of listed kinds without mixed rows, whose true label's children are summed.
        others: the numbers of the other slots.
    """

    listed: list[tuple[int, ListedKind]]
    others: Tensor


class Columns(Constants):
    """The dense and the listed kinds of a graph.

    Attributes:
        dense_kinds, listed_kinds: the numbers of the kinds.
        matrix: (dense group, block) 0/1: which blocks are in each group of the dense kinds.
        dense_columns: the group column of each row of `matrix`.
        block: the block of each fine label; None where every fine label is a block of its own.
        place: for each group column its place among `place_count` groups whose probabilities the loss computes: those
            of dense kinds, then of listed kinds with mixed rows; -1 for others.
    """

    matrix: Tensor
    dense_columns: Tensor
    place: Tensor

    def __init__(self, kinds: tuple[KindGroups, ...], fine_count: int, group_count: int) -> None:
        super().__init__()
        self.group_count = group_count
        choice = best_columns(kinds, fine_count)
        self.dense_kinds = choice.dense
        self.listed_kinds = tuple(index for index in range(len(kinds)) if index not in choice.dense)
        self.listed = [ListedKind(kinds[index]) for index in self.listed_kinds]
        block = np.arange(fine_count) if choice.block is None else choice.block
        self.block = None if choice.block is None else torch.from_numpy(block)
        dense = [kinds[index] for index in choice.dense]
        columns = np.concatenate([np.zeros(0, np.int64), *(kind.columns for kind in dense)])
        starts = np.cumsum([0, *(kind.count for kind in dense)])
        self.block_count = int(block.max()) + 1
        matrix = np.zeros((len(columns), self.block_count), np.float32)
        for start, kind in zip(starts, dense, strict=False):
            matrix[start + kind.group, block] = 1.0
        self.keep({"matrix": matrix, "dense_columns": columns})
        self._set_places(columns)
        self._divided: dict[tuple[int, ...], DividedSlots] = {}

    def _set_places(self, columns: NDArray[np.int64]) -> None:
        self.mixed_listed = [listed for listed in self.listed if not listed.plain]
        column = np.concatenate([columns, *(listed.columns.numpy() for listed in self.mixed_listed)])
        place = np.full(self.group_count, -1, np.int64)
        place[column] = np.arange(len(column))
        self.place_count = len(column)
        self.keep({"place": place})

    def divide_slots(self, kinds: tuple[int, ...]) -> DividedSlots:
        """Divide slots, of which `kinds` says the kind of each."""
        if kinds not in self._divided:
            plain = {kind: one for kind, one in zip(self.listed_kinds, self.listed, strict=True) if one.plain}
            listed = [(slot, plain[kind]) for slot, kind in enumerate(kinds) if kind in plain]
            others = [slot for slot, kind in enumerate(kinds) if kind not in plain]
            place = torch.tensor(others, dtype=torch.int64, device=self.place.device)
            self._divided[kinds] = DividedSlots(listed, place)
        return self._divided[kinds]

    def matrix_of(self, dtype: torch.dtype) -> Tensor:
        """The 0/1 matrix of the dense kinds in a number format."""
        return self._wide_matrix if dtype == torch.float64 else self.matrix

    @cached_property
    def _wide_matrix(self) -> Tensor:
        with torch.inference_mode(False):
            return self.matrix.double()

    def scores(
        self, fine: Float[Tensor, "batch fine"], groups: Float[Tensor, "batch group"], out: Tensor | None = None
    ) -> Float[Tensor, "batch fine"]:
        """Fine scores plus those of their groups, in memory of its own or in that given."""
        parts = [(groups, listed.group) for listed in self.listed]
        total = fine
        if self.dense_kinds:
            chosen = groups.index_select(1, self.dense_columns)
            if self.block is None:
                total = out = torch.addmm(fine, chosen, self.matrix_of(fine.dtype), out=out)
            else:
                parts.append((chosen @ self.matrix_of(fine.dtype), self.block))
        scratch = torch.empty_like(fine) if parts else None
        for scores, place in parts:
            # gather runs on all threads, index_select on one
            found = torch.gather(scores, 1, place.expand(len(scores), -1), out=scratch)
            total = out = torch.add(total, found, out=out)
        return total

    def sum_to_groups(
        self, fine: Float[Tensor, "batch fine"], blocks: Tensor | None = None, out: Tensor | None = None
    ) -> Float[Tensor, "batch group"]:
        """For every group the sum over its children.

        Args:
            fine: what to sum.
            blocks: the sums over blocks where they are known.
            out: memory for the result.
        """
        out = fine.new_zeros(len(fine), self.group_count) if out is None else out.zero_()
        if self.dense_kinds:
            blocks = self.sum_to_blocks(fine) if blocks is None else blocks
            out.index_copy_(1, self.dense_columns, blocks @ self.matrix_of(out.dtype).t())
        for listed in self.listed:
            out.scatter_add_(1, listed.group.expand(len(fine), -1), fine)
        return out

    def sum_to_blocks(self, fine: Tensor) -> Tensor:
        """For every block the sum over its fine labels."""
        if self.block is None:
            return fine
        blocks = fine.new_zeros(len(fine), self.block_count)
        return blocks.scatter_add_(1, self.block.expand(len(fine), -1), fine)
