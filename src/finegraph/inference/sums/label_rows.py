"""Sums over fine labels as rows, computed from features, with one matrix for the scores of all labels of a batch.

The exponentials of the joint scores (2) of docs/idea.md are computed for some rows at a time, while these are in the
caches: a product of weights and features, plus the scores of the groups, relative to a reference per sample. They stay
unscaled, and the gradient (6) overwrites them. The labels may be all of a graph or those of one process; then the sums
of all processes are added before the gradient is computed.

There are two sorts of kinds. Small kinds are merged into composite kinds, which are summed for all labels, as in
`by_rows.py`. For a kind whose labels have few children each, only the children of the true labels are touched.

Answers need the logs of very small probabilities, which exponentials lose: in float32 everything below exp(-104) is 0.
So `joint_score_chunks` gives the joint scores themselves, in float64, and nothing of the size (fine, batch) is held.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.inference.numbers.number_rows import NumberSums
from finegraph.inference.numerics import Constants, largest_size
from finegraph.inference.processes import ONE_PROCESS, Processes
from finegraph.inference.sums.by_rows import RowLists, adding_steps, composites_of
from finegraph.inference.sums.groups import GroupLayout, KindGroups
from finegraph.inference.sums.interface import GroupShares
from finegraph.inference.sums.strategy import Strategy
from finegraph.inference.sums.targets import Targets

_CHUNK = 1 << 20
"""About how many scores are computed at a time."""
_MIN_ROWS = 256
_MAX_MODERATE = 30.0
"""Exponentials of joint scores of at most this size need no reference."""
_MAX_ABOVE_REFERENCE = 60.0
"""How far a score may exceed the reference of its sample, so that sums of exponentials stay finite in float32."""
_LISTED = 16
"""A kind is listed if none of its labels has more than one in this many fine labels."""


class _ListedRows(Constants):
    """A kind with one known parent per fine label, and few children per label; how to sum over all its children."""

    def __init__(self, kind: KindGroups, strategy: Strategy) -> None:
        self.number, self.first, self.count = kind.number, int(kind.columns[0]), kind.count
        self.steps = adding_steps(kind.order, kind.sizes, strategy)


class _TargetPlaces(NamedTuple):
    """The places of targets by how their sums are computed.

    Attributes:
        listed: the targets of listed kinds.
        dense: the targets of other kinds.
        dense_kind: the numbers of their kinds.
    """

    listed: Int[Tensor, " target"]
    dense: Int[Tensor, " target"]
    dense_kind: Int[Tensor, " target"]


class LabelRows(Constants):
    """The lists of rows to add for some fine labels, made once.

    Attributes:
        layout: the groups of these fine labels.
        listed: the kinds for which only the children of the true labels are touched.
        listed_place: for each group column, its place among the labels of these kinds, or one past the last label.
        child: the fine labels of each of these labels, one label after the other.
        child_start: the start of the children of each label, twice the end of the last.
        dense_column: the group columns of all other kinds.
        place: the place of each group column among these; 0 for listed kinds.
        fine_item: for each fine label, the rows of the score table that it adds up.
        dense_item: the same for composite kinds alone, counted among their groups.
        first_groups: the number of groups of the first kind that is not listed; 0 if there is none.
        first_composite_groups: the number of groups of the first composite kind; 0 if there is none.
    """

    listed_place: Tensor
    child: Tensor
    child_start: Tensor
    dense_column: Tensor
    place: Tensor
    fine_item: Tensor
    dense_item: Tensor

    def __init__(self, layout: GroupLayout, strategy: Strategy | None = None) -> None:
        strategy = Strategy() if strategy is None else strategy
        self.layout, count = layout, layout.fine_count
        few = [kind.plain and int(kind.sizes.max(initial=0)) * _LISTED <= count for kind in layout.kinds]
        listed = [kind for kind, own in zip(layout.kinds, few, strict=True) if own]
        self._store_listed(listed, strategy)
        dense = [kind for kind, own in zip(layout.kinds, few, strict=True) if not own]
        composites = composites_of(dense, count, math.inf) if dense else []
        column = np.concatenate([np.zeros(0, np.int64), *(kind.columns for kind in dense)])
        place = np.zeros(layout.group_count, np.int64)
        place[column] = np.arange(len(column))
        self.store_arrays({"dense_column": column, "place": place})
        group = [one.groups.columns[one.groups.group] for one in composites]
        self._to_composites = [adding_steps(one.groups.order, one.groups.sizes, strategy) for one in composites]
        sizes = np.concatenate([np.zeros(0, np.int64), *(np.full(*one.member_columns.shape) for one in composites)])
        member = np.concatenate([column[:0], *(one.member_columns.reshape(-1) for one in composites)])
        owner = np.repeat(np.arange(len(sizes)), sizes)
        order = np.argsort(place[member], kind="stable")
        self._to_dense = adding_steps(owner[order], np.bincount(place[member], minlength=len(column)), strategy)
        self._from_groups = RowLists(member, sizes)
        self._from_dense = RowLists(place[member], sizes)
        self.first_groups = dense[0].count if dense else 0
        self.first_composite_groups = composites[0].groups.count if composites else 0
        items = [*(kind.columns[kind.group] for kind in listed), *(own + layout.group_count for own in group)]
        for name, parts in (("fine_item", items), ("dense_item", group)):
            side_by_side = np.stack(parts, axis=1) if parts else np.zeros((count, 0))
            self.store_arrays({name: side_by_side.astype(np.int32)})

    def _store_listed(self, listed: Sequence[KindGroups], strategy: Strategy) -> None:
        """Store the children of the labels of all listed kinds side by side."""
        none = np.zeros(0, np.int64)
        self.listed = [_ListedRows(kind, strategy) for kind in listed]
        columns = np.concatenate([none, *(kind.columns for kind in listed)])
        place = np.full(self.layout.group_count, len(columns))
        place[columns] = np.arange(len(columns))
        ends = np.cumsum(np.concatenate([none, *(kind.sizes for kind in listed)]))
        child = np.concatenate([none, *(kind.order for kind in listed)]).astype(np.int32)
        self.store_arrays({"child": child, "child_start": np.concatenate([[0], ends, ends[-1:] if len(ends) else [0]])})
        self.store_arrays({"listed_place": place})
        self._divided: dict[tuple[tuple[int, ...], torch.device], _TargetPlaces] = {}

    def divide_targets(self, kinds: tuple[int, ...]) -> _TargetPlaces:
        """Divide targets; `kinds` holds the number of the kind of each."""
        key = kinds, self.child.device
        if key not in self._divided:
            numbers = {kind.number for kind in self.listed}
            listed = [place for place, number in enumerate(kinds) if number in numbers]
            dense = [place for place, number in enumerate(kinds) if number not in numbers]
            parts = (listed, dense, [kinds[place] for place in dense])
            tensors = (torch.tensor(part, dtype=torch.int64, device=self.child.device) for part in parts)
            self._divided[key] = _TargetPlaces(*tensors)
        return self._divided[key]

    def score_table(self, groups: Float[Tensor, "group batch"]) -> Float[Tensor, "row batch"]:
        """The scores of the groups, and below them those of the groups of composite kinds."""
        return torch.cat([groups, self._from_groups.sums(groups)]) if len(self._from_groups.start) else groups

    def composite_factors(self, dense: Float[Tensor, "column batch"]) -> Float[Tensor, "row batch"]:
        """The sum over the members of each group of a composite kind."""
        return self._from_dense.sums(dense)

    def to_dense(self, fine: Float[Tensor, "fine batch"]) -> Float[Tensor, "column batch"]:
        """The sum over the fine labels of each group of the kinds that are not listed."""
        if not self._to_composites:
            return fine.new_zeros(0, fine.shape[1])
        rows = torch.cat([_summed(steps, fine) for steps in self._to_composites])
        return _summed(self._to_dense, rows)

    def to_groups(self, fine: Float[Tensor, "fine batch"]) -> Float[Tensor, "group batch"]:
        """The sum over the fine labels of each group."""
        groups = fine.new_empty(self.layout.group_count, fine.shape[1])
        if len(self.dense_column):
            groups.index_copy_(0, self.dense_column, self.to_dense(fine))
        for kind in self.listed:
            groups[kind.first : kind.first + kind.count] = _summed(kind.steps, fine)
        return groups


def _summed(steps: list[RowLists], rows: Float[Tensor, "_ batch"]) -> Float[Tensor, "_ batch"]:
    for step in steps:
        rows = step.sums(rows)
    return rows


class _Children(NamedTuple):
    """The children of the true labels of all listed kinds.

    Attributes:
        owner: for each child, the flat index of its sample and target.
        position: the flat index of its exponential.
        value: its exponential.
    """

    owner: Int[Tensor, " child"]
    position: Int[Tensor, " child"]
    value: Float[Tensor, " child"]


class LabelSums(GroupShares):
    """The sums of one batch over some fine labels.

    Attributes:
        values: the exponentials of the joint scores, relative to the reference; then the gradient for these scores.
        reference: what was subtracted from the joint scores of each sample; 0 if all scores are moderate.
        largest: the largest absolute joint score.
    """

    def __init__(
        self,
        rows: LabelRows,
        groups: Float[Tensor, "batch group"] | None,
        mixing: Float[Tensor, "batch edge"] | None,
        targets: Targets,
        dtype: torch.dtype,
        numbers: NumberSums | None = None,
        exchange: Processes = ONE_PROCESS,
    ) -> None:
        """Set the scores of a batch.

        Args:
            rows: the lists of rows to add.
            groups: the scores of the groups; None if all are 0, as in softmax.
            mixing: log r of the edges of mixed rows; None if there are none.
            targets: the targets of the batch; -1 for a fine label or column of another process.
            dtype: float32 or float64.
            numbers: the terms of numbers in the same dtype; None if the graph has none.
            exchange: the communication between the processes that share the fine labels.
        """
        self.numbers, self.exchange = numbers, exchange
        self.rows, self.layout, self.targets, self.dtype = rows, rows.layout, targets, dtype
        self.groups, self.mixing = groups, mixing
        self.mixing_grad = None
        self.largest = 0.0
        self._divided = rows.divide_targets(tuple(targets.kind))

    def find_exponentials(
        self,
        features: Float[Tensor, "batch feature"],
        weight: Float[Tensor, "fine feature"],
        bias: Float[Tensor, " fine"] | None,
    ) -> None:
        """Compute the exponentials of the joint scores in chunks of fine labels.

        Args:
            features: the features of the batch.
            weight: the weights of the fine labels.
            bias: the biases of the fine labels; None if there are none.
        """
        batch, count = len(features), len(weight)
        table = None
        if self.groups is not None and self.rows.fine_item.shape[1]:
            table = self.rows.score_table(self.groups.t().to(self.dtype).contiguous())
        columns = features.t()
        self.values = features.new_empty(count, batch, dtype=self.dtype)
        self.reference = features.new_zeros(batch, dtype=self.dtype)
        step = chunk_rows(batch)
        for start in range(0, count if batch else 0, step):
            part = self.values[start : start + step]
            own = weight[start : start + step].to(columns.dtype)
            more = None if table is None else self._added_scores(table, slice(start, start + step))
            if more is not None and self.dtype == columns.dtype:
                torch.addmm(more, own, columns, out=part)
            elif more is not None:
                torch.add(more, own @ columns, out=part)
            else:
                part.copy_(own @ columns) if self.dtype != columns.dtype else torch.mm(own, columns, out=part)
            if bias is not None:
                part.add_(bias[start : start + step, None])
            if self.numbers is not None:
                self.numbers.add_terms(slice(start, start + step), part)
            self.largest = max(self.largest, largest_size(part))
            if self.largest > _MAX_MODERATE:
                self._move_reference(start, part.amax(dim=0))
                part.sub_(self.reference)
            part.exp_()

    def _added_scores(self, table: Float[Tensor, "row batch"], part: slice) -> Float[Tensor, "_ batch"]:
        """The scores that groups add to some fine labels."""
        return side_by_side(table, self.rows.fine_item[part])

    def _move_reference(self, done: int, high: Float[Tensor, " batch"]) -> None:
        """Raise the reference to the largest score of a chunk if it is the first chunk, or far above the reference."""
        high = torch.where(high.isfinite(), high, self.reference)
        if done == 0:
            self.reference = high
        elif bool((high - self.reference > _MAX_ABOVE_REFERENCE).any()):
            higher = torch.maximum(high, self.reference)
            factor = (self.reference - higher).exp()
            self.values[:done].mul_(factor)
            self.reference = higher

    @property
    def has_readings(self) -> bool:
        """Whether values of numbers are read."""
        return self.numbers is not None and self.numbers.readings is not None

    def sums(self) -> Float[Tensor, "batch _"]:
        """The sums of exponentials of all fine labels, of the true one, of each target and of each number that is read.

        They are in float64.
        """
        found = self._label_sums()
        if self.numbers is None or not self.has_readings:
            return found
        return torch.cat([found, self.numbers.reading_sums(self.values, chunk_rows(self.values.shape[1]))], dim=1)

    def _label_sums(self) -> Float[Tensor, "batch _"]:
        targets, batch = self.targets, self.values.shape[1]
        sample = torch.arange(batch, device=self.values.device)
        self._fine_position = targets.fine.clamp_min(0) * batch + sample
        found = self.values.new_zeros(batch, 2 + targets.column.shape[1], dtype=torch.float64)
        listed, dense, _ = self._divided
        if len(self.values):
            found[:, 1] = self.values.view(-1)[self._fine_position].masked_fill(targets.fine < 0, 0.0)
        if self.rows.first_groups:
            by_group = self.rows.to_dense(self.values)
            found[:, 0] = by_group[: self.rows.first_groups].sum(dim=0)
            if self.mixing is not None:
                self.edge_share = self.mixing.t().exp().to(self.dtype)
                self.edge_sums = by_group.index_select(0, self._edge_row) * self.edge_share
                by_group.index_add_(0, self._edge_column, self.edge_sums)
            column = targets.column.index_select(1, dense)
            at_target = by_group.gather(0, self.rows.place[column.clamp_min(0)].t()).t()
            found.index_copy_(1, 2 + dense, at_target.masked_fill(column < 0, 0.0).double())
        else:
            found[:, 0] = self.values.sum(dim=0)
        if len(listed):
            self._children = self._children_of(targets.column.index_select(1, listed))
            by_target = found.new_zeros(batch * len(listed))
            by_target.index_add_(0, self._children.owner, self._children.value.double())
            found.index_copy_(1, 2 + listed, by_target.view(batch, -1))
        return found

    @property
    def _edge_row(self) -> Int[Tensor, " edge"]:
        return self.rows.place[self.layout.edge_row]

    @property
    def _edge_column(self) -> Int[Tensor, " edge"]:
        return self.rows.place[self.layout.edge_column]

    def _children_of(self, column: Int[Tensor, "batch target"]) -> _Children:
        """The children of targets of listed kinds, and their exponentials."""
        rows, (batch, width) = self.rows, column.shape
        # A label whose children are all in another process has none here.
        label = rows.listed_place[column.clamp_min(0)].masked_fill_(column < 0, len(rows.child_start) - 2).view(-1)
        start = rows.child_start[label]
        sizes = rows.child_start[label + 1] - start
        owner = torch.repeat_interleave(sizes)
        place = torch.arange(len(owner), device=owner.device) + (start - (sizes.cumsum(0) - sizes))[owner]
        position = rows.child[place].long() * batch + owner // width
        return _Children(owner, position, self.values.view(-1)[position])

    def find_gradient(
        self,
        prob_grads: Float[Tensor, "batch term"],
        weight: Float[Tensor, "_ term"],
        scale: Float[Tensor, " batch"],
        factor: float | Float[Tensor, ""],
    ) -> None:
        """Overwrite the exponentials with the gradient (6) for the joint scores.

        Args:
            prob_grads: - weight factor / sum of exponentials, of the fine label, of each target and of each number that
                is read; 0 for one that underflowed.
            weight: the weights of these.
            scale: the factor of the loss, over the sum of the exponentials of all fine labels.
            factor: the factor of the loss alone.
        """
        batch, listed = self.values.shape[1], self._divided.listed
        weight, labels = weight.expand(batch, -1), 1 + len(self.targets.kind)
        # Each dense kind adds w (1 / total - r / sum) at its true label; for good predictions these nearly cancel.
        own = (weight[:, 0] + weight.index_select(1, 1 + listed).sum(dim=1)) * scale
        if self.has_readings:
            own += weight[:, labels:].sum(dim=1) * scale
        factors = None
        if self.rows.first_composite_groups:
            factors = self.rows.composite_factors(self._dense_factors(prob_grads, weight, scale))
            factors[: self.rows.first_composite_groups] += own
        step = chunk_rows(batch)
        for start in range(0, len(self.values) if batch else 0, step):
            part = self.values[start : start + step]
            scaled = own if factors is None else side_by_side(factors, self.rows.dense_item[start : start + step])
            if self.numbers is not None and self.has_readings:
                read = self.numbers.reading_factors(slice(start, start + step), part, prob_grads[:, labels:])
                scaled = read.add_(scaled)
            part.mul_(scaled)
        flat = self.values.view(-1)
        if len(listed):
            grads = prob_grads.index_select(1, 1 + listed).view(-1)
            flat.index_add_(0, self._children.position, self._children.value * grads[self._children.owner])
        if len(self.values):
            known = (self.targets.fine >= 0) & (prob_grads[:, 0] != 0)
            flat.index_add_(0, self._fine_position, (-weight[:, 0] * factor * known).to(self.dtype))

    def _dense_factors(
        self,
        prob_grads: Float[Tensor, "batch term"],
        weight: Float[Tensor, "batch term"],
        scale: Float[Tensor, " batch"],
    ) -> Float[Tensor, "column batch"]:
        """What each group of the kinds that are not listed adds to the factors of its fine labels."""
        rows, (_, dense, dense_kind) = self.rows, self._divided
        factors = prob_grads.new_zeros(len(rows.dense_column), len(prob_grads))
        column = self.targets.column.index_select(1, dense)
        grads = prob_grads.index_select(1, 1 + dense).masked_fill(column < 0, 0.0)
        factors.scatter_add_(0, rows.place[column.clamp_min(0)].t(), grads.t())
        if self.mixing is not None:
            at_edges = factors.index_select(0, self._edge_column)
            self.mixing_grad = (self.edge_sums * at_edges).t()
            factors.index_add_(0, self._edge_row, self.edge_share * at_edges)
        kinds = prob_grads.new_zeros(1 + max(self.layout.numbers), len(prob_grads))
        kinds.index_add_(0, dense_kind, (weight.index_select(1, 1 + dense) * scale.unsqueeze(1)).t())
        return factors.add_(kinds.index_select(0, self.layout.kind_of_column[rows.dense_column]))

    def coarse_gradient(self) -> Float[Tensor, "batch coarse"]:
        """The gradient (7) for the coarse scores, after `find_gradient`."""
        groups = self.rows.to_groups(self.values).t()
        if self.mixing is None:
            return groups
        return self.layout.coarse_gradient(groups, self.mixing, self.mixing_grad)

    def number_gradient(self) -> Float[Tensor, "batch number 2"]:
        """The gradient for the scores of numbers, after `find_gradient`."""
        assert self.numbers is not None
        return self.numbers.gradient(self.values, chunk_rows(self.values.shape[1]))

    def log_sum(self, log_terms: Float[Tensor, "sample fine"]) -> Float[Tensor, "sample 1"]:
        """The log of the sum of the terms of the fine labels of all processes."""
        top = log_terms.amax(dim=1, keepdim=True)
        self.exchange.largest(top)
        top = top.masked_fill(~top.isfinite(), 0.0)
        total = (log_terms - top).exp().sum(dim=1, keepdim=True)
        self.exchange.sum([total])
        return top + total.log()

    def log_shares(self, sample: Int[Tensor, " sample"], target: int) -> Float[Tensor, "sample fine"]:
        """Log r of a target; behind the targets come the numbers that are read, with the logs of likelihoods (n3)."""
        place = target - len(self.targets.kind)
        if place < 0:
            return super().log_shares(sample, target)
        assert self.numbers is not None
        return self.numbers.of_samples(sample).log_likelihoods(slice(None), place).t()

    def add_shares(self, sample: Int[Tensor, " sample"], target: int, share: Float[Tensor, "sample fine"]) -> None:
        """Shares of fine labels are a gradient for log r, and for the scores of a number."""
        place = target - len(self.targets.kind)
        if place < 0:
            super().add_shares(sample, target, share)
        elif self.numbers is not None:
            self.numbers.subtract_shares(sample, place, share)


def joint_score_chunks(
    rows: LabelRows,
    groups: Float[Tensor, "batch group"] | None,
    features: Float[Tensor, "batch feature"],
    weight: Float[Tensor, "fine feature"],
    bias: Float[Tensor, " fine"] | None,
    numbers: NumberSums | None = None,
) -> Iterator[tuple[slice, Float[Tensor, "_ batch"]]]:
    """The joint scores of some fine labels after the other, with their places.

    Args:
        rows: the fine labels.
        groups: the scores of the groups; None if all are 0, as in softmax.
        features: the features of the batch.
        weight: the weights of the fine labels.
        bias: the biases of the fine labels; None if there are none.
        numbers: the terms of numbers, in float64; None if the graph has none.
    """
    table = None
    if groups is not None and rows.fine_item.shape[1]:
        table = rows.score_table(groups.t().double().contiguous())
    columns, step = features.t(), chunk_rows(len(features))
    for start in range(0, len(weight), step):
        part = slice(start, min(start + step, len(weight)))
        scores = (weight[part].to(features.dtype) @ columns).double()
        if bias is not None:
            scores += bias[part, None]
        if table is not None:
            scores += side_by_side(table, rows.fine_item[part])
        if numbers is not None:
            numbers.add_terms(part, scores)
        yield part, scores


def chunk_rows(batch: int) -> int:
    """How many rows of fine labels are computed at a time."""
    return max(_MIN_ROWS, _CHUNK // max(batch, 1))


def side_by_side(rows: Float[Tensor, "row batch"], item: Int[Tensor, "_ list"]) -> Float[Tensor, "_ batch"]:
    """The sum of the rows of each list, all lists of one length."""
    if item.shape[1] == 1:
        return rows.index_select(0, item[:, 0])
    start = torch.arange(0, item.numel(), item.shape[1], dtype=item.dtype, device=item.device)
    return torch.embedding_bag(rows, item.reshape(-1), start, mode=0)[0]
