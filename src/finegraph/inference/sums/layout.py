"""How sums over the graph are carried out: by bags of rows, or by matrix products and lists.

Every step of inference and training is one of two sums: from groups down to fine labels (scores) and from fine labels
up to groups (marginals, gradients). There are two ways to carry them out:

    bags       turn the matrices so that labels are rows and samples are columns; then a sum adds whole rows, for all
               kinds at once. Turning costs two passes over the scores, and each kind very little. See `bags.py`.
    columns    leave scores as they come. Few labels: one matrix product; many: one gather and one scatter per kind,
               and training touches only the children of the true label. See `columns.py`.

The choice depends on sizes alone, by a cost model that was measured on an ordinary CPU; a wrong guess costs time, never
exactness. Bags add float32 only, so float64 always goes by columns.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from finegraph.inference.constants import CPU, Constants
from finegraph.inference.sums.by_columns import Columns
from finegraph.inference.sums.by_rows import Bags
from finegraph.inference.sums.kind_groups import KindGroups
from finegraph.inference.sums.kind_tensors import KindTensors
from finegraph.inference.sums.segments import Segments
from finegraph.inference.sums.strategy import bags_are_cheaper

BAG_TYPES: tuple[torch.dtype, ...] = (torch.float32,)
"""The number formats that bags are quick in."""


class Plan(Constants):
    """The groups of all kinds, the edges of all mixed rows, and the two ways of summing over them.

    A *group column* counts the groups of all kinds: first all coarse labels, kind after kind, then all mixed rows.

    Attributes:
        fine_groups: per kind, the group column of each fine label.
        edge_column: for each edge of a mixed row: the group column of its label.
        edge_row: for each edge of a mixed row: the group column of the row.
        edge_log_weight: for each edge of a mixed row: the log of its weight.
        mixed_rows: the edges of each mixed row, as segments.
        kind_of_column: the kind of each group column.
    """

    edge_column: Tensor
    edge_row: Tensor
    edge_log_weight: Tensor
    kind_of_column: Tensor

    def __init__(self, kinds: list[KindTensors], fine_count: int, coarse_count: int) -> None:
        super().__init__()
        self.device = CPU
        self.fine_count, self.kind_count, self.coarse_count = fine_count, len(kinds), coarse_count
        mixed = np.cumsum([0, *(kind.group_count - kind.label_count for kind in kinds)])
        starts = (self.coarse_count + mixed).tolist()
        self.group_count = int(starts[-1])
        self.layout = tuple(_groups(kind, start) for kind, start in zip(kinds, starts, strict=False))
        self.fine_groups = [torch.from_numpy(kind.columns[kind.group]) for kind in self.layout]
        owner = np.zeros(self.group_count, np.int64)
        for index, kind_groups in enumerate(self.layout):
            owner[kind_groups.columns] = index
        self.keep({"kind_of_column": owner})
        self._by_bags = {
            coarse_scores: bool(kinds) and bags_are_cheaper(self.layout, fine_count, coarse_scores)
            for coarse_scores in (False, True)
        }
        self._set_edges(kinds, starts)

    def goes_by_bags(self, dtype: torch.dtype, coarse_scores: bool = True) -> bool:
        """Whether sums of this number format go by bags, with coarse scores or without; by columns otherwise."""
        return self._by_bags[coarse_scores] and dtype in BAG_TYPES

    @cached_property
    def bags(self) -> Bags:
        """The sums by bags."""
        with torch.inference_mode(False), CPU:
            return Bags(self.layout, self.fine_count, self.group_count).on(self.device)

    @cached_property
    def columns(self) -> Columns:
        """The sums by columns."""
        with torch.inference_mode(False), CPU:
            return Columns(self.layout, self.fine_count, self.group_count).on(self.device)

    def on(self, device: torch.device) -> Plan:
        """The same on a device."""
        twin = super().on(device)
        twin.device = device
        return twin

    def _set_edges(self, kinds: list[KindTensors], starts: list[int]) -> None:
        """Fill the edges of the mixed rows of all kinds."""
        column = [kind.columns.start + kind.edge_label.numpy() for kind in kinds]
        row = [start + kind.edge_group.numpy() for kind, start in zip(kinds, starts, strict=False)]
        log_weight = [kind.edge_log_weight.numpy() for kind in kinds]
        self.keep({"edge_log_weight": np.concatenate([*log_weight, np.zeros(0)])})
        self.keep({"edge_column": np.concatenate([*column, np.zeros(0, np.int64)]).astype(np.int64)})
        edge_row: NDArray[np.int64] = np.concatenate([*row, np.zeros(0, np.int64)]).astype(np.int64)
        self.keep({"edge_row": edge_row})
        self.mixed_rows = Segments(edge_row - self.coarse_count, self.group_count - self.coarse_count)


def _groups(kind: KindTensors, mixed_start: int) -> KindGroups:
    """The groups of a kind, with the group column of each."""
    labels = np.arange(kind.columns.start, kind.columns.stop)
    mixed = mixed_start + np.arange(kind.group_count - kind.label_count)
    columns = np.concatenate([labels, mixed]).astype(np.int64)
    return KindGroups(kind.label_count, columns, kind.group.numpy())
