"""The groups of all kinds side by side, and the scores and gradients of mixed rows.

In every kind each fine label is in one group; see `kind_tensors.py`. A *group column* counts the groups of all kinds:
first all coarse labels, kind after kind, then all mixed rows. With e the scores of the groups, r the probability of a
label given its mixed row, and G = dL/de:

    e_row       =  log sum_c g[row, c] exp(f_c)                          r[row, c] = g[row, c] exp(f_c) / exp(e_row)
    dL/df_c     =  G_c + sum over mixed rows of  r[row, c] G_row         plus the contribution of dL/dlog r
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.inference.numerics import Constants
from finegraph.inference.sums.kind_tensors import KindTensors, Segments


@dataclass(frozen=True, eq=False)
class KindGroups:
    """The groups of one kind.

    Attributes:
        number: the number of the kind in the graph.
        label_count: the number of labels of the kind, which are its first groups.
        columns: the group column of each group.
        group: the group of each fine label, counted within the kind.
    """

    number: int
    label_count: int
    columns: Int[NDArray[np.int64], " group"]
    group: Int[NDArray[np.int64], " fine"]

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self.columns)

    @property
    def plain(self) -> bool:
        """Whether every fine label has one known parent."""
        return self.count == self.label_count

    @cached_property
    def sizes(self) -> Int[NDArray[np.int64], " group"]:
        """The number of fine labels of each group."""
        return np.bincount(self.group, minlength=self.count)

    @cached_property
    def order(self) -> Int[NDArray[np.int64], " fine"]:
        """The fine labels sorted by group."""
        # NumPy sorts 16-bit integers in linear time.
        narrow = self.group.astype(np.uint16) if self.count <= 1 << 16 else self.group
        return np.argsort(narrow, kind="stable")


class GroupLayout(Constants):
    """The groups of some kinds of a graph, and the edges of all their mixed rows.

    Attributes:
        kinds: the groups of each kind.
        numbers: the number of each kind in the graph.
        group_columns: for each kind, the group column of each fine label.
        kind_of_column: the number of the kind of each group column.
        edge_column: for each edge of a mixed row, the group column of its label.
        edge_row: for each edge of a mixed row, the group column of the row.
        edge_log_weight: for each edge of a mixed row, the log of its weight.
        mixed_rows: the edges of each mixed row, as segments.
    """

    kind_of_column: Tensor
    edge_column: Tensor
    edge_row: Tensor
    edge_log_weight: Tensor

    def __init__(self, kinds: Sequence[KindTensors], fine_count: int, coarse_count: int) -> None:
        self.fine_count, self.coarse_count = fine_count, coarse_count
        mixed = np.cumsum([0, *(kind.group_count - kind.label_count for kind in kinds)])
        starts = (coarse_count + mixed).tolist()
        self.group_count = int(starts[-1])
        self.kinds = tuple(_groups(kind, start) for kind, start in zip(kinds, starts, strict=False))
        self.numbers = [kind.number for kind in self.kinds]
        self.group_columns = [torch.from_numpy(kind.columns[kind.group]) for kind in self.kinds]
        owner = np.zeros(self.group_count, np.int64)
        for groups in self.kinds:
            owner[groups.columns] = groups.number
        self.store_arrays({"kind_of_column": owner})
        self._store_edges(kinds, starts)

    def _store_edges(self, kinds: Sequence[KindTensors], starts: list[int]) -> None:
        """Store the edges of the mixed rows of all kinds."""
        none = np.zeros(0, np.int64)
        column = [kind.columns.start + kind.edge_label.numpy() for kind in kinds]
        row = [start + kind.edge_group.numpy() for kind, start in zip(kinds, starts, strict=False)]
        log_weight = [kind.edge_log_weight.numpy() for kind in kinds]
        edge_row = np.concatenate([none, *row])
        self.store_arrays({"edge_log_weight": np.concatenate([np.zeros(0), *log_weight])})
        self.store_arrays({"edge_column": np.concatenate([none, *column]), "edge_row": edge_row})
        self.mixed_rows = Segments(edge_row - self.coarse_count, self.group_count - self.coarse_count)

    def part(
        self, fine: Int[NDArray[np.int64], " _"], coarse: Int[NDArray[np.int64], " _"]
    ) -> tuple[GroupLayout, Int[NDArray[np.int64], " group"]]:
        """The layout of some fine and coarse labels, and the new column of each column, -1 if it is left out.

        Args:
            fine: the fine labels.
            coarse: the coarse columns, in rising order. Columns that are left out must have no child among the fine
                labels and be in no mixed row.
        """
        column = np.full(self.group_count, -1)
        kept = np.concatenate([coarse, np.arange(self.coarse_count, self.group_count)])
        column[kept] = np.arange(len(kept))
        part: GroupLayout = object.__new__(GroupLayout)
        part.fine_count, part.coarse_count, part.group_count = len(fine), len(coarse), len(kept)
        kinds = []
        for kind in self.kinds:
            own = column[kind.columns]
            place = np.cumsum(own >= 0) - 1
            labels = int((own[: kind.label_count] >= 0).sum())
            kinds.append(KindGroups(kind.number, labels, own[own >= 0], place[kind.group[fine]]))
        part.kinds, part.numbers = tuple(kinds), self.numbers
        part.group_columns = [torch.from_numpy(kind.columns[kind.group]) for kind in kinds]
        edges = {"edge_column": column[self.edge_column.numpy()], "edge_row": column[self.edge_row.numpy()]}
        part.store_arrays({"kind_of_column": self.kind_of_column.numpy()[kept], **edges})
        part.edge_log_weight, part.mixed_rows = self.edge_log_weight, self.mixed_rows
        return part, column

    def group_columns_of(self, number: int) -> Int[Tensor, " fine"]:
        """The group column of each fine label in the kind with this number."""
        return self.group_columns[self.numbers.index(number)]

    def group_scores(
        self, coarse: Float[Tensor, "batch coarse"]
    ) -> tuple[Float[Tensor, "batch group"], Float[Tensor, "batch edge"] | None]:
        """The score of every group, and log r of the edges of mixed rows; None if there are none.

        With mixed rows both are in float64: small differences of large scores decide between parents.
        """
        if not len(self.edge_row):
            return coarse, None
        coarse = coarse.double()
        edges = coarse.index_select(1, self.edge_column) + self.edge_log_weight
        rows = self.mixed_rows.logsumexp(edges)
        # The total of a row that evidence has ruled out is minus infinity; subtracting it would give NaN.
        total = rows.masked_fill(rows.isneginf(), 0.0).index_select(1, self.edge_row - self.coarse_count)
        return torch.cat([coarse, rows], dim=1), edges - total

    def coarse_gradient(
        self,
        groups: Float[Tensor, "batch group"],
        mixing: Float[Tensor, "batch edge"],
        mixing_grad: Float[Tensor, "batch edge"] | None,
    ) -> Float[Tensor, "batch coarse"]:
        """The gradient for the coarse scores.

        Args:
            groups: the gradient for the scores of the groups.
            mixing: log r.
            mixing_grad: the gradient for log r; None if the loss depends on it through the scores alone.
        """
        share = mixing.exp()
        edges = groups.double().index_select(1, self.edge_row)
        if mixing_grad is not None:
            # log r_c depends on all scores of its row: d log r_c / d f_b = [b = c] - r_b.
            row = self.edge_row - self.coarse_count
            rows = share.new_zeros(len(share), self.group_count - self.coarse_count)
            edges -= rows.index_add_(1, row, mixing_grad.double()).index_select(1, row)
        edges *= share
        if mixing_grad is not None:
            edges += mixing_grad
        return groups[:, : self.coarse_count].double().index_add_(1, self.edge_column, edges)


def _groups(kind: KindTensors, mixed_start: int) -> KindGroups:
    """The groups of a kind, with the group column of each."""
    labels = np.arange(kind.columns.start, kind.columns.stop)
    mixed = mixed_start + np.arange(kind.group_count - kind.label_count)
    return KindGroups(kind.number, kind.label_count, np.concatenate([labels, mixed]), kind.group.numpy())


@dataclass(frozen=True, eq=False)
class Composite:
    """Several kinds merged into one, with one group per combination of groups that occurs.

    With many fine labels and a few small kinds, most combinations occur often. It is then cheaper to sum over the fine
    labels once, to the groups of the composite kind, and from these few groups to those of its members. Six binary
    kinds become one kind with at most 64 groups. The result is exact, and sums of sums have smaller rounding errors.

    Attributes:
        groups: the groups of the composite kind.
        member_columns: (group, member) the group column of each member.
    """

    groups: KindGroups
    member_columns: Int[NDArray[np.int64], "group kind"]


def composites_of(kinds: Sequence[KindGroups], fine_count: int, max_cost: float) -> list[Composite]:
    """Merge kinds into composites, in order of their group columns.

    Args:
        kinds: the kinds.
        fine_count: the number of fine labels.
        max_cost: the largest share of the row additions that may remain; if more remain, the result is empty.
    """
    composites: list[Composite] = []
    open_members: list[KindGroups] = []
    key, count, start, cost = np.zeros(fine_count, np.int64), 1, 0, 0
    for kind in sorted(kinds, key=lambda kind: kind.count):
        new_key = np.unique(key * kind.count + kind.group, return_inverse=True)[1]
        new_count, members = int(new_key.max()) + 1, len(open_members)
        if members and (fine_count + new_count * (members + 1)) * members >= (fine_count + count * members) * (
            members + 1
        ):
            composites.append(_composite(open_members, key, start))
            start += count
            cost += fine_count + count * members
            open_members = []
            new_key = np.unique(kind.group, return_inverse=True)[1]
            new_count = int(new_key.max()) + 1
        open_members.append(kind)
        key, count = new_key, new_count
    cost += fine_count + count * len(open_members)
    composites.append(_composite(open_members, key, start))
    return composites if cost <= max_cost * fine_count * len(kinds) else []


def _composite(members: list[KindGroups], group: NDArray[np.int64], start: int) -> Composite:
    """The composite of some kinds; `group` numbers the combinations of their groups."""
    example = np.unique(group, return_index=True)[1]
    columns = np.stack([kind.columns[kind.group[example]] for kind in members], axis=1)
    return Composite(KindGroups(-1, len(example), start + np.arange(len(example)), group), columns)
