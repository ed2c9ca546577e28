"""Which coarse labels the loss looks at, for each fine label: its target slots.

A kind gives one slot per parent that a fine label can have, so one in the paper's case. The labels and weights of the
slots are kept as a table (fine, slot), but for kinds in which a few fine labels have far more parents than the others:
their slots are read from lists, as many as a batch needs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from finegraph.graph import Kind
from finegraph.inference.constants import Constants

_TABLE = 4
"""A kind's slots are kept as a table if it has at most this many places per edge or fine label."""


class SlotsOfBatch(NamedTuple):
    """The slots of a batch.

    Attributes:
        column: (batch, slot) the coarse column of the label of each slot.
        weight: (batch, slot) the weight of its link in float64, 0 for an empty slot; None where all are 1.
        kind: per slot, the number of its kind.
        of_kind: per kind, which slots are its own.
    """

    column: Tensor
    weight: Tensor | None
    kind: list[int]
    of_kind: list[slice]


class _ListedSlots(Constants):
    """The slots of one kind as lists."""

    def __init__(self, kind: Kind, first_column: int) -> None:
        self.width = int(kind.row_sizes.max())
        self.starts = torch.from_numpy(kind.starts.copy())
        self.column = torch.from_numpy(kind.coarse + first_column)
        self.weight = torch.from_numpy(kind.weight.copy())

    def of_batch(self, fine: Tensor) -> tuple[Tensor, Tensor]:
        start = self.starts.index_select(0, fine).unsqueeze(1)
        size = self.starts.index_select(0, fine + 1).unsqueeze(1) - start
        # A compiled program needs widths that depend on the graph alone.
        width = self.width if torch.compiler.is_compiling() or not len(fine) else max(int(size.amax()), 1)
        step = torch.arange(width, device=fine.device)
        edge = (start + step).clamp_max(len(self.column) - 1)
        return self.column[edge], self.weight[edge] * (step < size)


class Slots(Constants):
    """The target slots of all fine labels."""

    column: Tensor
    weight: Tensor

    def __init__(self, fine_count: int, kinds: list[Kind], starts: list[int]) -> None:
        """Find the slots.

        Args:
            fine_count: how many fine labels there are.
            kinds: the kinds of the plan.
            starts: the first coarse column of each.
        """
        super().__init__()
        columns, weights = [np.zeros((fine_count, 0), np.int64)], [np.zeros((fine_count, 0))]
        self.kind: list[int] = []
        self.of_kind = [slice(0, 0)] * len(kinds)
        self.listed: list[_ListedSlots] = []
        self.listed_kinds: list[int] = []
        for index, kind in enumerate(kinds):
            width = max(int(kind.row_sizes.max()), 1)
            if width > 1 and width * fine_count > _TABLE * (fine_count + len(kind.coarse)):
                self.listed.append(_ListedSlots(kind, starts[index]))
                self.listed_kinds.append(index)
                continue
            column, weight = _table(kind, width)
            self.of_kind[index] = slice(len(self.kind), len(self.kind) + width)
            columns.append(column + starts[index])
            weights.append(weight)
            self.kind += [index] * width
        weight = np.concatenate(weights, axis=1)
        self.full = not self.listed and bool((weight == 1).all())
        self.keep({"column": np.concatenate(columns, axis=1), "weight": weight})

    def of_batch(self, fine: Tensor, weighted: bool) -> SlotsOfBatch:
        """The slots of fine labels (batch); without weights where all are 1 and none are asked for."""
        column = self.column.index_select(0, fine)
        if self.full and not weighted:
            return SlotsOfBatch(column, None, self.kind, self.of_kind)
        columns, weights = [column], [self.weight.index_select(0, fine)]
        kinds, of_kind = list(self.kind), list(self.of_kind)
        for index, listed in zip(self.listed_kinds, self.listed, strict=True):
            column, weight = listed.of_batch(fine)
            of_kind[index] = slice(len(kinds), len(kinds) + column.shape[1])
            columns.append(column)
            weights.append(weight)
            kinds += [index] * column.shape[1]
        return SlotsOfBatch(torch.cat(columns, dim=1), torch.cat(weights, dim=1), kinds, of_kind)

    def all_kinds(self) -> list[int]:
        """Per slot of a batch that needs them all, the number of its kind."""
        widths = zip(self.listed_kinds, self.listed, strict=True)
        return self.kind + [index for index, listed in widths for _ in range(listed.width)]


def _table(kind: Kind, width: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The labels and weights of the slots of one kind, both (fine, slots of the kind)."""
    label = np.zeros((kind.fine_count, width), np.int64)
    weight = np.zeros((kind.fine_count, width))
    fine, coarse, link = kind.edges
    slot = np.arange(len(fine)) - np.repeat(kind.starts[:-1], kind.row_sizes)
    label[fine, slot] = coarse
    weight[fine, slot] = link
    return label, weight
