"""How sums over the graph are carried out: which kinds by matrix product and which by lists.

Every step of inference and training is one of two sums: from groups down to fine labels (scores) and from fine labels
up to groups (marginals, gradients). For a kind with few labels both are one matrix product with its 0/1 child matrix,
shared by all such kinds ("dense" kinds). For a kind with many labels a gather and a scatter are cheaper, and training
need touch only the children of the true label ("listed" kinds). The choice depends on sizes alone, by a cost model in
nanoseconds that was measured on an ordinary CPU; a wrong guess costs time, never exactness.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from finegraph.inference.constants import Constants
from finegraph.inference.kind_tensors import KindTensors
from finegraph.inference.segments import Segments

_PRODUCT = 4.3
"""Nanoseconds per fine label and group of a kind, for both products and 128 samples."""
_LIST, _LIST_ITEM = 80_000.0, 500.0
"""Nanoseconds per listed kind, and per child of its largest label, for 128 samples."""


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

    def __init__(self, kind: KindTensors, mixed_start: int) -> None:
        super().__init__()
        self.columns, self.plain, self.label_count = kind.columns, kind.plain, kind.label_count
        self.group_count = kind.group_count
        group = kind.group.numpy()
        sizes = np.bincount(group, minlength=kind.group_count)
        self.width = int(sizes[: kind.label_count].max())
        self.group_columns = _global_groups(kind, mixed_start)
        self.keep({"group": self.group_columns[group], "local_group": group})
        order, starts = np.argsort(group, kind="stable"), np.cumsum(sizes) - sizes
        self.keep({"order": order, "starts": starts, "sizes": sizes})
        self.padded = self.label_count * self.width <= _PADDING * len(group)
        if self.padded:
            step = np.arange(self.width)
            position = np.minimum(starts[: self.label_count, None] + step, len(order) - 1)
            valid = step < sizes[: self.label_count, None]
            self.keep({"padded_children": order[position], "padded_valid": valid.astype(np.float32)})


class Plan(Constants):
    """The dense and the listed kinds of a graph, and the edges of all mixed rows.

    A *group column* counts the groups of all kinds: first all coarse labels, kind after kind, then all mixed rows.

    Attributes:
        child_matrix: (dense groups, fine) 0/1: which fine labels are in each group of the dense kinds.
        dense_columns: the group column of each row of `child_matrix`.
        score_matrix: (score columns, fine) the rows that scores need: of a binary kind only `yes`.
        score_columns: the group column of each row of `score_matrix`; the last ones are those of binary kinds.
        wide_score_matrix: the same in float64.
        score_children, score_starts: the same rows as lists of fine labels.
        reference_columns: the group columns of `no` of these binary kinds.
        edge_column: for each edge of a mixed row: the group column of its label.
        edge_row: for each edge of a mixed row: the group column of the row.
        edge_log_weight: for each edge of a mixed row: the log of its weight.
        mixed_rows: the edges of each mixed row, as segments.
    """

    child_matrix: Tensor
    dense_columns: Tensor
    score_matrix: Tensor
    wide_score_matrix: Tensor
    score_children: Tensor
    score_starts: Tensor
    score_columns: Tensor
    reference_columns: Tensor
    edge_column: Tensor
    edge_row: Tensor
    edge_log_weight: Tensor
    marginal_place: Tensor
    place_column: Tensor
    edge_column_place: Tensor
    edge_row_place: Tensor

    def __init__(self, kinds: list[KindTensors], fine_count: int) -> None:
        super().__init__()
        self.fine_count, self.kind_count = fine_count, len(kinds)
        self.coarse_count = kinds[-1].columns.stop if kinds else 0
        mixed_counts = np.array([kind.group_count - kind.label_count for kind in kinds], dtype=np.int64)
        mixed_starts = self.coarse_count + np.concatenate([np.zeros(1, np.int64), np.cumsum(mixed_counts)])
        self.group_count = int(mixed_starts[-1])
        dense = [_is_dense(kind) for kind in kinds]
        self.dense_kinds = tuple(index for index, yes in enumerate(dense) if yes)
        self.listed = nn.ModuleList(
            ListedKind(kind, int(start))
            for kind, start, yes in zip(kinds, mixed_starts, dense, strict=False)
            if not yes
        )
        self.listed_kinds = tuple(index for index, yes in enumerate(dense) if not yes)
        self._set_dense([(kinds[i], int(mixed_starts[i])) for i in self.dense_kinds])
        self._set_edges(kinds, mixed_starts)
        self._set_places()
        for index, (kind, start) in enumerate(zip(kinds, mixed_starts, strict=False)):
            self.keep({f"fine_group_{index}": _global_groups(kind, int(start))[kind.group.numpy()]})

    def _set_dense(self, kinds: list[tuple[KindTensors, int]]) -> None:
        """Fill the matrices of the dense kinds."""
        columns, blocks, score_columns, references = [], [], [], []
        binary_columns: list[int] = []
        for kind, mixed_start in kinds:
            groups = _global_groups(kind, mixed_start)
            block = np.zeros((self.fine_count, kind.group_count), np.float32)
            block[np.arange(self.fine_count), kind.group.numpy()] = 1.0
            columns.append(groups)
            blocks.append(block)
            if kind.plain and kind.label_count == 2:
                references.append(int(groups[0]))
                binary_columns.append(int(groups[1]))
            else:
                score_columns += groups.tolist()
        matrix = np.concatenate(blocks, axis=1) if blocks else np.zeros((self.fine_count, 0), np.float32)
        column = np.concatenate(columns) if columns else np.zeros(0, np.int64)
        place = np.full(self.group_count, -1, np.int64)
        place[column] = np.arange(len(column))
        score_columns += binary_columns
        # Sums of the few rows that count beat products with all rows where kinds have more than two labels.
        self.bags = len(column) > 3 * len(kinds)
        self.all_dense = np.array_equal(np.array(score_columns), np.arange(self.group_count))
        self.keep({"child_matrix": matrix.T})
        scores = np.ascontiguousarray(matrix[:, place[score_columns]].T)
        sizes = scores.sum(axis=1).astype(np.int64)
        self.keep({"score_matrix": scores, "wide_score_matrix": scores.astype(np.float64)})
        self.keep({"score_children": np.nonzero(scores)[1], "score_starts": np.cumsum(sizes) - sizes})
        self.keep({"dense_columns": column})
        self.keep({"score_columns": np.array(score_columns, np.int64)})
        self.keep({"reference_columns": np.array(references, np.int64)})

    def _set_places(self) -> None:
        """Where each group stands among those whose probabilities the loss computes: dense kinds, then mixed listed."""
        columns = [self.dense_columns.numpy(), *(listed.group_columns for listed in self.listed_part(plain=False))]
        column = np.concatenate(columns)
        place = np.full(self.group_count, -1, np.int64)
        place[column] = np.arange(len(column))
        self.place_count = len(column)
        self.keep({"marginal_place": place})
        self.keep({"place_column": column})
        self.keep({"edge_column_place": place[self.edge_column.numpy()]})
        self.keep({"edge_row_place": place[self.edge_row.numpy()]})

    def listed_plain(self, kind: int) -> bool:
        """Whether a listed kind has no mixed rows."""
        return cast(ListedKind, self.listed[self.listed_kinds.index(kind)]).plain

    def listed_part(self, plain: bool) -> list[ListedKind]:
        """The listed kinds with (False) or without (True) mixed rows."""
        return [listed for listed in cast(list[ListedKind], self.listed) if listed.plain == plain]

    def fine_groups(self) -> list[Tensor]:
        """Per kind, the group column of each fine label."""
        return [getattr(self, f"fine_group_{index}") for index in range(self.kind_count)]

    def _set_edges(self, kinds: list[KindTensors], mixed_starts: NDArray[np.int64]) -> None:
        """Fill the edges of the mixed rows of all kinds."""
        column = [kind.columns.start + kind.edge_label.numpy() for kind in kinds]
        row = [int(start) + kind.edge_group.numpy() for kind, start in zip(kinds, mixed_starts, strict=False)]
        log_weight = [kind.edge_log_weight.numpy() for kind in kinds]
        self.keep({"edge_log_weight": np.concatenate([*log_weight, np.zeros(0)])})
        self.keep({"edge_column": np.concatenate([*column, np.zeros(0, np.int64)]).astype(np.int64)})
        edge_row = np.concatenate([*row, np.zeros(0, np.int64)]).astype(np.int64)
        self.keep({"edge_row": edge_row})
        self.mixed_rows = Segments(edge_row - self.coarse_count, self.group_count - self.coarse_count)


def _global_groups(kind: KindTensors, mixed_start: int) -> NDArray[np.int64]:
    """The group column of each group of a kind."""
    labels = np.arange(kind.columns.start, kind.columns.stop)
    return np.concatenate([labels, mixed_start + np.arange(kind.group_count - kind.label_count)]).astype(np.int64)


def _is_dense(kind: KindTensors) -> bool:
    """Whether a kind is cheaper by matrix product than by lists."""
    widest = int(np.bincount(kind.group.numpy()).max())
    return _PRODUCT * len(kind.group) * kind.group_count <= _LIST + _LIST_ITEM * widest
