"""The groups of kinds: of one kind, and of all kinds side by side with the edges of their mixed rows.

A kind in which every fine label has one known parent is *plain*, as in the paper. In other kinds, a fine label can have
several parents or an unknown one: a *mixed* row. Fine labels with the same row form a *group*. The first groups of a
kind are its labels, the others its distinct mixed rows. With the log-sum-exp of a row as the score of its group, every
fine label again has one parent, its group. So the cost is linear in the distinct edges, even if thousands of fine
labels share the unknown row.

A *group column* counts the groups of all kinds: first all coarse labels, kind after kind, then all mixed rows. With e
the scores of the groups, r the probability of a label given its mixed row, and G = dL/de:

    e_row       =  log sum_c g[row, c] exp(f_c)                          r[row, c] = g[row, c] exp(f_c) / exp(e_row)
    dL/df_c     =  G_c + sum over mixed rows of  r[row, c] G_row         plus the contribution of dL/dlog r
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.graph import Kind
from finegraph.inference.numerics import Constants, Segments

_FEW_IN_SETS = 8
"""Sets with at most one in this many fine labels are read from lists."""


class KindTensors(Constants):
    """The tensors of one kind.

    Attributes:
        group: the group of each fine label.
        unknown: whether the parent of each fine label is unknown.
        children: the number of fine labels that can have each label.
        members: the fine labels of each group, as segments.
        edge_label: for the edges of mixed rows: the coarse label.
        edge_group: for the edges of mixed rows: the mixed row, counted from 0.
        edge_log_weight: for the edges of mixed rows: the log of the weight, in float64.
        mixed_rows: the edges of each mixed row, as segments.
        into_labels: for each label, its own group and the edges of mixed rows that lead to it, as segments.
    """

    group: Tensor
    unknown: Tensor
    children: Tensor
    edge_label: Tensor
    edge_group: Tensor
    edge_log_weight: Tensor

    def __init__(self, kind: Kind, number: int, columns: slice) -> None:
        self.name, self.number, self.columns, self.label_count = kind.name, number, columns, len(kind.labels)
        rows = _distinct_rows(kind)
        self.group_count = self.label_count + rows.count
        self.plain = rows.count == 0
        self.members = Segments(rows.group, self.group_count)
        self.store_arrays({"group": rows.group, "unknown": kind.unknown})
        self.store_arrays({"edge_label": rows.label, "edge_group": rows.owner, "edge_log_weight": np.log(rows.weight)})
        self.store_arrays({"children": _children(rows, self.label_count)})
        if not self.plain:
            self.mixed_rows = Segments(rows.owner, rows.count)
            self.into_labels = Segments(np.concatenate([np.arange(self.label_count), rows.label]), self.label_count)

    @property
    def possible(self) -> Bool[Tensor, " label"]:
        """Whether some fine label can have each label."""
        possible = torch.zeros(self.group_count, dtype=torch.bool, device=self.group.device)
        possible[self.group] = True
        possible[self.edge_label[possible[self.label_count + self.edge_group]]] = True
        return possible[: self.label_count]

    def compatible(self, possible: Bool[Tensor, "batch fine"] | None = None) -> Int[Tensor, "_ label"]:
        """The number of fine labels that can have each label; an unknown parent may be any label of the prior.

        Args:
            possible: the fine labels to count; None for all, which gives one row.
        """
        if possible is None:
            return self.children.unsqueeze(0)
        sizes = torch.zeros(len(possible), self.group_count, dtype=torch.int64, device=possible.device)
        sizes.scatter_add_(1, self.group.expand_as(possible), possible.long())
        mixed = sizes.index_select(1, self.label_count + self.edge_group)
        return sizes[:, : self.label_count].index_add(1, self.edge_label, mixed)

    def union_of_parents(self, fine: Bool[Tensor, "batch fine"]) -> Bool[Tensor, "batch label"]:
        """The labels of each set of fine labels; no label if a parent is unknown."""
        if torch.compiler.is_compiling() or int(fine.count_nonzero()) * _FEW_IN_SETS > fine.numel():
            union = torch.zeros(len(fine), self.group_count, dtype=torch.int64, device=fine.device)
            union.scatter_add_(1, self.group.expand_as(fine), fine.long())
            not_known = (fine & self.unknown).any(dim=1)
        else:  # in small sets, only their fine labels are touched
            sample, member = fine.nonzero().unbind(dim=1)
            union = torch.zeros(len(fine), self.group_count, dtype=torch.bool, device=fine.device)
            union[sample, self.group[member]] = True
            not_known = torch.zeros(len(fine), dtype=torch.bool, device=fine.device)
            not_known[sample[self.unknown[member]]] = True
        labels = union[:, : self.label_count] > 0
        if not self.plain:
            edges = union.index_select(1, self.label_count + self.edge_group)
            labels = labels.long().index_add(1, self.edge_label, edges.long()) > 0
        return labels & ~not_known.unsqueeze(1)

    def group_scores(self, scores: Float[Tensor, "batch label"]) -> Float[Tensor, "batch group"]:
        """The scores of the groups from those of the labels."""
        if self.plain:
            return scores
        return torch.cat([scores.double(), self.mixed_rows.logsumexp(self._edge_scores(scores))], dim=1)

    def label_log_probs(
        self, group_log_probs: Float[Tensor, "batch group"], scores: Float[Tensor, "_ label"] | None
    ) -> Float[Tensor, "batch label"]:
        """The log probabilities of the labels from those of the groups."""
        if self.plain:
            return group_log_probs
        edges = self.edge_log_probs(group_log_probs.new_zeros(1, self.label_count) if scores is None else scores)
        mixed = group_log_probs.index_select(1, self.label_count + self.edge_group) + edges
        return self.into_labels.logsumexp(torch.cat([group_log_probs[:, : self.label_count], mixed], dim=1))

    def edge_log_probs(self, scores: Float[Tensor, "_ label"]) -> Float[Tensor, "_ edge"]:
        """For each edge of a mixed row, the log probability of its label given the row: r of docs/idea.md."""
        edges = self._edge_scores(scores)
        total = self.mixed_rows.logsumexp(edges)
        # The total of a row that evidence has ruled out is minus infinity; subtracting it would give NaN.
        given = edges - total.masked_fill(total.isneginf(), 0.0).index_select(1, self.edge_group)
        return given.to(scores.dtype)

    def group_likelihoods(
        self, likelihoods: Float[Tensor, "_ label"], scores: Float[Tensor, "_ label"]
    ) -> Float[Tensor, "_ group"]:
        """The log likelihoods of the groups: the mean likelihood over each row."""
        if self.plain:
            return likelihoods
        edges = self.edge_log_probs(scores) + likelihoods.index_select(1, self.edge_label)
        rows = self.mixed_rows.logsumexp(edges)
        return torch.cat([likelihoods.expand(len(rows), -1), rows], dim=1)

    def sample_labels(
        self,
        group: Int[Tensor, "draw batch"],
        scores: Float[Tensor, "batch label"],
        generator: torch.Generator | None,
    ) -> Int[Tensor, "draw batch"]:
        """Draw a label for each group, by its probability given the group."""
        if self.plain:
            return group
        # Each mixed row is a stretch of the cumulative sum over all edges; a point in it is drawn and looked up.
        sums = self.edge_log_probs(scores.double()).exp().cumsum(dim=1)
        sums = torch.cat([sums.new_zeros(len(sums), 1), sums], dim=1)
        row = (group - self.label_count).clamp_min(0).t()
        sizes = torch.bincount(self.edge_group)
        ends = sizes.cumsum(dim=0)[row]
        starts = ends - sizes[row]
        low, high = sums.gather(1, starts), sums.gather(1, ends)
        drawn = torch.rand(row.shape, dtype=sums.dtype, device=sums.device, generator=generator)
        point = torch.minimum(low + drawn * (high - low), high.nextafter(low))
        edge = torch.searchsorted(sums[:, 1:].contiguous(), point.contiguous(), right=True)
        label = self.edge_label[edge.clamp_max(len(self.edge_label) - 1)].t()
        return torch.where(group < self.label_count, group, label)

    def choices(
        self, fine: Int[Tensor, " state"], scores: Float[Tensor, "batch label"]
    ) -> tuple[Int[Tensor, " choice"], Int[Tensor, " choice"], Float[Tensor, "batch choice"]]:
        """Each fine label with each label that it can have.

        Returns:
            The position in `fine`, the label, and the log probability of the label given the fine label.
        """
        group = self.group[fine]
        mixed = group >= self.label_count
        row = (group - self.label_count).clamp_min(0)
        sizes = torch.bincount(self.edge_group, minlength=max(self.group_count - self.label_count, 1))
        counts = torch.where(mixed, sizes[row], 1)
        position = torch.repeat_interleave(torch.arange(len(fine), device=fine.device), counts)
        step = torch.arange(len(position), device=fine.device) - (counts.cumsum(0) - counts)[position]
        if self.plain:
            return position, group, scores.new_zeros(len(scores), len(position))
        edge = torch.where(mixed[position], (sizes.cumsum(0) - sizes)[row[position]] + step, 0)
        label = torch.where(mixed[position], self.edge_label[edge], group[position])
        given = torch.where(mixed[position], self.edge_log_probs(scores)[:, edge], 0.0)
        return position, label, given

    def _edge_scores(self, scores: Float[Tensor, "_ label"]) -> Float[Tensor, "_ edge"]:
        # In float64: small differences of large scores decide between parents.
        return scores.double().index_select(1, self.edge_label) + self.edge_log_weight


@dataclass(frozen=True)
class _Rows:
    """The distinct rows of a kind.

    Attributes:
        group: the group of each fine label.
        label: for each edge of a mixed row, its coarse label.
        owner: for each edge of a mixed row, the row.
        weight: for each edge of a mixed row, its weight.
        count: the number of mixed rows.
    """

    group: NDArray[np.int64]
    label: NDArray[np.int64]
    owner: NDArray[np.int64]
    weight: NDArray[np.float64]
    count: int


def _children(rows: _Rows, label_count: int) -> NDArray[np.int64]:
    """The number of fine labels that can have each label; one with several or unknown parents counts for each."""
    sizes = np.bincount(rows.group, minlength=label_count + rows.count)
    children = sizes[:label_count].astype(np.int64)
    np.add.at(children, rows.label, sizes[label_count + rows.owner])
    return children


def _distinct_rows(kind: Kind) -> _Rows:
    """The group of each fine label, and the edges of the mixed rows."""
    group = np.full(kind.fine_count, -1, dtype=np.int64)
    single = kind.row_sizes == 1
    group[single] = kind.coarse[kind.starts[:-1][single]]
    numbers: dict[bytes, int] = {}
    labels: list[NDArray[np.int64]] = []
    weights: list[NDArray[np.float64]] = []
    for fine in np.flatnonzero(~single):
        edges = slice(kind.starts[fine], kind.starts[fine + 1])
        key = kind.coarse[edges].tobytes() + kind.weight[edges].tobytes()
        if key not in numbers:
            numbers[key] = len(numbers)
            if edges.start == edges.stop:
                labels.append(np.flatnonzero(kind.prior))
                weights.append(kind.prior[labels[-1]])
            else:
                labels.append(kind.coarse[edges])
                weights.append(kind.weight[edges])
        group[fine] = len(kind.labels) + numbers[key]
    owner = np.repeat(np.arange(len(labels)), [len(row) for row in labels]) if labels else np.zeros(0, np.int64)
    label = np.concatenate(labels) if labels else np.zeros(0, np.int64)
    weight = np.concatenate(weights) if weights else np.zeros(0)
    return _Rows(group, label.copy(), owner.astype(np.int64), weight.copy(), len(labels))


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
