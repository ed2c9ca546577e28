"""The tensors of one kind: its groups, their children, and the edges of its mixed rows.

A kind in which every fine label has one known parent is *plain*, as in the paper. In other kinds, a fine label can have
several parents or an unknown one: a *mixed* row. Fine labels with the same row form a *group*. The first groups of a
kind are its labels, the others its distinct mixed rows. With the log-sum-exp of a row as the score of its group, every
fine label again has one parent, its group. So the cost is linear in the distinct edges, even if thousands of fine
labels share the unknown row.

Lists of different lengths, such as the fine labels of each group, are `Segments`. They are padded to powers of two and
summed size by size, so the work is at most twice the number of items. Only gathers and reductions are used: they are
exact, have no branch on values, and are easy to export.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.graph import Kind
from finegraph.inference.numerics import Constants, compact_indices, refuse_second_derivatives


class Segments(Constants):
    """A partition of `items` positions into `count` lists; a list may be empty, a position may be in none (-1)."""

    owner: Tensor
    restore: Tensor

    def __init__(self, owner: Int[NDArray[np.int64], " item"], count: int) -> None:
        """Partition the positions.

        Args:
            owner: the list of each position, -1 for none.
            count: the number of lists.
        """
        super().__init__()
        self.count = count
        sizes = np.bincount(owner[owner >= 0], minlength=count)
        order = np.argsort(owner, kind="stable")[(owner < 0).sum() :]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        widths = np.where(sizes > 0, 2 ** np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64), 0)
        chosen: list[NDArray[np.int64]] = []
        self.tables: list[Tensor] = []
        for width in np.unique(widths):
            lists = np.flatnonzero(widths == width)
            chosen.append(lists)
            position = np.arange(width)
            # Padding points one past the last item, where `reduce` appends a column of minus infinity.
            table = np.where(
                position < sizes[lists, None],
                order[np.minimum(starts[lists, None] + position, max(len(order) - 1, 0))] if len(order) else len(owner),
                len(owner),
            ).astype(np.int64)
            self.tables.append(torch.from_numpy(compact_indices(table)))
        restore = np.argsort(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)
        self.store_arrays({"owner": compact_indices(owner), "restore": compact_indices(restore)})

    def logsumexp(self, values: Float[Tensor, "batch item"]) -> Float[Tensor, "batch list"]:
        """The logsumexp of each list; minus infinity for an empty list."""
        result: Tensor = _SegmentLogSumExp.apply(values, self)  # type: ignore[no-untyped-call]
        return result

    def reduce(self, values: Float[Tensor, "batch item"]) -> Float[Tensor, "batch list"]:
        """`logsumexp` without its closed-form gradient."""
        batch = values.shape[0]
        empty = values.new_full((batch, 1), -torch.inf)
        padded = torch.cat([values, empty], dim=1)
        parts = []
        for table in self.tables:
            lists, width = table.shape
            if width == 0:
                parts.append(empty.expand(batch, lists))
            elif width == 1:
                parts.append(padded.index_select(1, table.reshape(-1)))
            else:
                gathered = padded.index_select(1, table.reshape(-1)).reshape(batch, lists, width)
                parts.append(torch.logsumexp(gathered, dim=2))
        return torch.cat(parts, dim=1).index_select(1, self.restore)


class _SegmentLogSumExp(torch.autograd.Function):
    """d out[list] / d value[item] = exp(value - out) for the list that owns the item: one gather, no scatter."""

    @staticmethod
    def forward(ctx: Any, values: Float[Tensor, "batch item"], segments: Segments) -> Float[Tensor, "batch list"]:
        out = segments.reduce(values)
        ctx.save_for_backward(values, out)
        ctx.segments = segments
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        refuse_second_derivatives()
        values, out = ctx.saved_tensors
        owner: Int[Tensor, " item"] = ctx.segments.owner
        place = owner.clamp_min(0)
        share = (values - out.index_select(1, place)).exp_()
        # Minus infinity minus itself is NaN, but such an item has no share; nor has an item without an owner.
        share = share.masked_fill_(values.isneginf() | (owner < 0), 0.0)
        return grads[0].index_select(1, place) * share, None


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
        union = torch.zeros(len(fine), self.group_count, dtype=torch.int64, device=fine.device)
        union.scatter_add_(1, self.group.expand_as(fine), fine.long())
        edges = union.index_select(1, self.label_count + self.edge_group)
        labels = union[:, : self.label_count].index_add(1, self.edge_label, edges) > 0
        return labels & ~(fine & self.unknown).any(dim=1, keepdim=True)

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
