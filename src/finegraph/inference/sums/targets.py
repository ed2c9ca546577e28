"""The targets of the loss: for each fine label, the coarse labels whose probabilities the loss contains.

A kind has one target per parent of a fine label; in the paper, that is one. The columns and weights of the targets are
a table (fine, target), except for kinds in which a few fine labels have far more parents than the others: their targets
are read from lists, as many as a batch needs. A kind that is summed by weights has one target per label, and these come
last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.graph import Kind
from finegraph.inference.numerics import Constants, compact_indices

_MAX_PLACES = 4
"""The targets of a kind are a table if it has at most this many entries per edge or fine label."""


class Targets(NamedTuple):
    """The labels of each sample in the loss: its fine label, and some coarse labels.

    Attributes:
        fine: the fine label; arbitrary if it was not observed.
        column: the coarse column of the label of each target.
        weight: the weight of the fine label, then of each target; 0 if it was not observed. One row if all samples have
            the same weights, None if all are 1.
        kind: the number of the kind of each target.
    """

    fine: Int[Tensor, " batch"]
    column: Int[Tensor, "batch target"]
    weight: Float[Tensor, "_ term"] | None
    kind: list[int]

    def part(self, samples: slice) -> Targets:
        """The targets of some of the samples."""
        weight = self.weight if self.weight is None or len(self.weight) == 1 else self.weight[samples]
        return Targets(self.fine[samples], self.column[samples], weight, self.kind)

    def first(self, count: int) -> Targets:
        """The first targets of all samples."""
        weight = None if self.weight is None else self.weight[:, : 1 + count]
        return Targets(self.fine, self.column[:, :count], weight, self.kind[:count])

    def places_of(self, kind: int) -> slice:
        """The targets of a kind, which are contiguous."""
        start = self.kind.index(kind)
        return slice(start, start + self.kind.count(kind))


class KindColumns(NamedTuple):
    """A kind of the graph, its number, and its first coarse column."""

    kind: Kind
    number: int
    start: int


class TargetTable(Constants):
    """The targets of all fine labels.

    Attributes:
        column: the columns of the targets in the table.
        weighted: which of the targets in the table do not have the weight 1 for all fine labels.
        weight: the weights of the links of these in float64; 0 if a fine label has fewer parents.
        label_column: the columns of kinds that have one target per label.
        label_weight: the weights of their links in float64.
        label_kinds: the number of the kind of each such target.
    """

    column: Tensor
    weighted: Tensor
    weight: Tensor
    label_column: Tensor
    label_weight: Tensor

    def __init__(
        self, fine_count: int, kinds: Sequence[KindColumns], by_label: Sequence[tuple[KindColumns, int]]
    ) -> None:
        """Make the table.

        Args:
            fine_count: the number of fine labels.
            kinds: the kinds with one target per parent.
            by_label: the kinds with one target per label, each with its number of targets, padding included.
        """
        columns, weights = [np.zeros((fine_count, 0), np.int64)], [np.zeros((fine_count, 0))]
        weighted: list[int] = []
        self.kind: list[int] = []
        self.listed: list[_ListedTargets] = []
        for kind, number, start in kinds:
            width = max(int(kind.row_sizes.max()), 1)
            if width > 1 and width * fine_count > _MAX_PLACES * (fine_count + len(kind.coarse)):
                self.listed.append(_ListedTargets(kind, number, start))
                continue
            label, weight = _parent_table(kind, width)
            columns.append(label + start)
            if (weight != 1).any():
                weighted += range(len(self.kind), len(self.kind) + width)
                weights.append(weight)
            self.kind += [number] * width
        self.store_arrays({"column": compact_indices(np.concatenate(columns, axis=1))})
        self.store_arrays({"weighted": np.array(weighted, np.int64), "weight": np.concatenate(weights, axis=1)})
        self._store_label_targets(fine_count, by_label)
        self.all_one = not self.listed and not by_label and not weighted

    def _store_label_targets(self, fine_count: int, by_label: Sequence[tuple[KindColumns, int]]) -> None:
        """Store the targets of kinds with one per label; padding repeats the first column with weight 0."""
        self.label_kinds = [entry.number for entry, width in by_label for _ in range(width)]
        column, weight = np.zeros(len(self.label_kinds), np.int64), np.zeros((fine_count, len(self.label_kinds)))
        stop = 0
        for (kind, _, first_column), width in by_label:
            start, stop = stop, stop + width
            column[start:stop] = first_column
            column[start : start + len(kind.labels)] += np.arange(len(kind.labels))
            weight[:, start : start + len(kind.labels)] = kind.matrix()
        self.store_arrays({"label_column": column, "label_weight": weight})

    def of_batch(self, fine: Int[Tensor, " batch"], weighted: bool) -> Targets:
        """The targets of fine labels; the first column of the weights is 1, for the fine label itself.

        Args:
            fine: the fine labels.
            weighted: whether weights are needed even if all are 1.
        """
        column = self.column.index_select(0, fine).long()
        if self.all_one and not weighted:
            return Targets(fine, column, None, self.kind)
        table = self.weight.new_ones(len(fine), 1 + len(self.kind))
        if len(self.weighted):
            table = table.index_copy(1, 1 + self.weighted, self.weight.index_select(0, fine))
        columns, weights, kind = [column], [table], list(self.kind)
        for listed in self.listed:
            column, weight = listed.of_batch(fine)
            columns.append(column)
            weights.append(weight)
            kind += [listed.number] * column.shape[1]
        if self.label_kinds:
            columns.append(self.label_column.expand(len(fine), -1))
            weights.append(self.label_weight.index_select(0, fine))
            kind += self.label_kinds
        return Targets(fine, torch.cat(columns, dim=1), torch.cat(weights, dim=1), kind)

    def max_kinds(self) -> list[int]:
        """The number of the kind of each target, in a batch that needs as many targets as possible."""
        return [*self.kind, *(kind.number for kind in self.listed for _ in range(kind.width)), *self.label_kinds]


class _ListedTargets(Constants):
    """The targets of one kind as lists."""

    def __init__(self, kind: Kind, number: int, first_column: int) -> None:
        self.number, self.width = number, int(kind.row_sizes.max())
        self.starts = torch.from_numpy(kind.starts.copy())
        self.column = torch.from_numpy(kind.coarse + first_column)
        self.weight = torch.from_numpy(kind.weight.copy())

    def of_batch(
        self, fine: Int[Tensor, " batch"]
    ) -> tuple[Int[Tensor, "batch target"], Float[Tensor, "batch target"]]:
        """The columns and weights of the targets of fine labels."""
        start = self.starts.index_select(0, fine).unsqueeze(1)
        size = self.starts.index_select(0, fine + 1).unsqueeze(1) - start
        # In a compiled program, widths may depend on the graph only.
        width = self.width if torch.compiler.is_compiling() or not len(fine) else max(int(size.amax()), 1)
        step = torch.arange(width, device=fine.device)
        edge = (start + step).clamp_max(len(self.column) - 1)
        return self.column[edge], self.weight[edge] * (step < size)


def _parent_table(kind: Kind, width: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The labels and weights of the parents of each fine label, both (fine, parent)."""
    label = np.zeros((kind.fine_count, width), np.int64)
    weight = np.zeros((kind.fine_count, width))
    fine, coarse, link = kind.edges
    place = np.arange(len(fine)) - np.repeat(kind.starts[:-1], kind.row_sizes)
    label[fine, place] = coarse
    weight[fine, place] = link
    return label, weight
