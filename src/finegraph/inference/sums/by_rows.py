"""Sums with labels as rows and samples as columns: each sum adds whole rows.

    to_fine      row of fine label i  =  sum over kinds of the row of i's group             for joint scores, gradient
    to_groups    row of group g       =  sum over the fine labels i of g of the row of i    for the other sums

Each is one `embedding_bag` over the rows of all kinds, which adds whole rows of the batch: O(fine x kinds) row
additions, however many labels the kinds have. Small kinds are merged into composite kinds, which need far fewer
additions. Transposing the scores costs two passes over them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from finegraph.inference.numerics import Constants, largest_size
from finegraph.inference.sums.by_columns import ColumnTables
from finegraph.inference.sums.groups import GroupLayout, KindGroups
from finegraph.inference.sums.interface import (
    MANY_KINDS,
    ROUNDING,
    GroupedSums,
    OtherFactors,
    gathered_sum,
    max_error,
    top_score,
)
from finegraph.inference.sums.strategy import Strategy
from finegraph.inference.sums.targets import Targets

_SUM = 0
"""The mode of `torch.embedding_bag` for sums."""
_SPLITTER = 1.5 * 2**13
"""Adding and subtracting this rounds a float32 number to a multiple of 2**-10. Sums of such multiples below 2**13 are
exact."""
_MAX_SPLIT_SUM = 2**12
"""Sums are split only if they are certain to stay below this."""


def contiguous_transpose(table: Float[Tensor, "row column"]) -> Float[Tensor, "column row"]:
    """The transpose, in contiguous memory of its own.

    Shuffling channels transposes the matrix (group, channel of the group), and torch has vectorised code for it if
    channels are contiguous. It is about four times as fast as a copy of `table.t()`, which copies one value at a time.
    """
    rows, columns = table.shape
    size = rows * columns
    if not size or table.device.type != "cpu" or not table.is_contiguous():
        return table.t().clone(memory_format=torch.contiguous_format)
    channels = table.as_strided((1, size, 1, 1), (size, 1, size, size))
    return torch.native_channel_shuffle(channels, rows).as_strided((columns, rows), (rows, 1))


class RowLists(Constants):
    """Lists of row indices, concatenated.

    Attributes:
        item: the row indices of all lists.
        start: the start of each list.
    """

    item: Tensor
    start: Tensor

    def __init__(self, item: Int[NDArray[np.int64], " item"], sizes: Int[NDArray[np.int64], " list"]) -> None:
        self.store_arrays({"item": item.astype(np.int32), "start": (np.cumsum(sizes) - sizes).astype(np.int32)})

    def sums(self, rows: Float[Tensor, "row batch"]) -> Float[Tensor, "list batch"]:
        """The sum of the rows of each list; 0 for an empty one."""
        if not rows.shape[1]:
            return rows.new_zeros(len(self.start), 0)
        return torch.embedding_bag(rows, self.item, self.start, mode=_SUM)[0]


def adding_steps(
    item: Int[NDArray[np.int64], " item"], sizes: Int[NDArray[np.int64], " list"], strategy: Strategy
) -> list[RowLists]:
    """The steps that sum lists of rows: one step, or more if long lists are summed in pieces first."""
    longest = int(sizes.max(initial=0))
    if longest <= strategy.max_list:
        return [RowLists(item, sizes)]
    length = max(strategy.list_piece, int(np.sqrt(longest)))
    counts = -(-sizes // length)
    piece_sizes = np.full(counts.sum(), length)
    last = np.cumsum(counts)[sizes > 0] - 1
    piece_sizes[last] = (sizes - (counts - 1) * length)[sizes > 0]
    return [*adding_steps(item, piece_sizes, strategy), RowLists(np.arange(len(piece_sizes)), counts)]


class RowTables(Constants):
    """The lists of rows to add, for all kinds of a layout.

    Attributes:
        rows_to_groups, rows_to_fine: the number of rows held at a time by `to_groups` and `to_fine`.
    """

    def __init__(self, layout: GroupLayout, strategy: Strategy) -> None:
        composites = composites_of(layout.kinds, layout.fine_count, strategy.max_composite_cost)
        if not composites:
            stages = [_groups_and_fine(layout.kinds, layout.group_count, strategy)]
        else:
            stages = [_groups_and_fine([composite.groups for composite in composites], 0, strategy)]
            members = [composite.member_columns for composite in composites]
            stages.append(_composite_members(members, layout.group_count, strategy))
        sizes = [layout.fine_count, *(len(to_groups[-1].start) for to_groups, _ in stages)]
        self.rows_to_groups = sum(sizes[1:])
        self.rows_to_fine = max(source + target for source, target in itertools.pairwise(sizes))
        self._to_groups = [step for to_groups, _ in stages for step in to_groups]
        self._to_fine = [step for _, to_fine in reversed(stages) for step in to_fine]

    def to_fine(self, groups: Float[Tensor, "group batch"]) -> Float[Tensor, "fine batch"]:
        """The sum over the groups of each fine label."""
        for step in self._to_fine:
            groups = step.sums(groups)
        return groups

    def to_groups(self, fine: Float[Tensor, "fine batch"]) -> Float[Tensor, "group batch"]:
        """The sum over the fine labels of each group."""
        for step in self._to_groups:
            fine = step.sums(fine)
        return fine


def _groups_and_fine(
    kinds: Sequence[KindGroups], group_count: int, strategy: Strategy
) -> tuple[list[RowLists], list[RowLists]]:
    """The lists of fine labels of each group column, and of group columns of each fine label."""
    columns = np.stack([kind.columns[kind.group] for kind in kinds], axis=1)
    to_fine = adding_steps(columns.reshape(-1), np.full(len(columns), len(kinds)), strategy)
    sizes = np.zeros(max(group_count, 1 + int(columns.max())), np.int64)
    pieces: list[tuple[int, NDArray[np.int64]]] = []
    for kind in kinds:
        sizes[kind.columns] = kind.sizes
        labels = int(kind.sizes[: kind.label_count].sum())
        pieces.append((int(kind.columns[0]), kind.order[:labels]))
        if not kind.plain:
            pieces.append((int(kind.columns[kind.label_count]), kind.order[labels:]))
    pieces.sort(key=lambda piece: piece[0])
    return adding_steps(np.concatenate([fine for _, fine in pieces]), sizes, strategy), to_fine


def _composite_members(
    member_columns: Sequence[NDArray[np.int64]], group_count: int, strategy: Strategy
) -> tuple[list[RowLists], list[RowLists]]:
    """The lists of composite groups of each group column, and of group columns of each composite group."""
    sizes = np.concatenate([np.full(*columns.shape) for columns in member_columns])
    column = np.concatenate([columns.reshape(-1) for columns in member_columns])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    composite_counts = np.bincount(column, minlength=group_count)
    to_groups = adding_steps(owner[np.argsort(column, kind="stable")], composite_counts, strategy)
    return to_groups, adding_steps(column, sizes, strategy)


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


class RowSums(GroupedSums):
    """The sums of one batch.

    The weights of the targets are spread over the kinds, so that each kind adds  w (1 - r / p_t)  to the factor of a
    fine label. If the prediction is nearly right, these terms are small, and so are their rounding errors.
    """

    def __init__(
        self,
        layout: GroupLayout,
        rows: RowTables,
        columns: ColumnTables,
        strategy: Strategy,
        groups: Float[Tensor, "batch group"] | None,
        mixing: Float[Tensor, "batch edge"] | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(layout, groups, mixing, dtype)
        self.rows, self.columns, self.strategy = rows, columns, strategy

    def joint_scores(
        self, fine: Float[Tensor, "batch fine"], out: Float[Tensor, "batch fine"] | None = None
    ) -> Float[Tensor, "batch fine"]:
        """One float32 sum, two if one is not precise enough for these scores, or a float64 sum."""
        groups = self.groups
        if groups is None:
            return fine.to(self.dtype)
        if self.may_use_float32(fine):
            if self.float32_suffices(0.0):
                total = contiguous_transpose(self.rows.to_fine(contiguous_transpose(groups))).add_(fine)
                if self.float32_suffices(largest_size(total)):
                    return total
            largest_fine = largest_size(fine)
            if largest_fine + len(self.layout.kinds) * self.largest_group < _MAX_SPLIT_SUM:
                return self._split_sum(
                    fine, groups, split_fine=2 * largest_fine * ROUNDING > max_error(len(self.layout.kinds))
                )
        total = self.wide_joint_scores(fine)
        return total.to(self.dtype) if out is None else out.copy_(total)

    def wide_joint_scores(self, fine: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch fine"]:
        """A float64 sum by columns, since torch adds rows of float64 slowly, unless the strategy asks for rows."""
        groups = self.groups
        if groups is None:
            return fine.double()
        if self.largest_group == math.inf:
            return gathered_sum(self.layout, fine, groups)
        if self.dtype == torch.float64:
            total = contiguous_transpose(self.rows.to_fine(contiguous_transpose(groups.double()))).add_(fine)
        else:
            total = self.columns.add_groups(fine.double(), groups.double())
        return total.sub_(top_score(total))

    def _split_sum(
        self, fine: Float[Tensor, "batch fine"], groups: Float[Tensor, "batch group"], split_fine: bool
    ) -> Float[Tensor, "batch fine"]:
        """The sum in two float32 parts: multiples of 2**-10, whose sum is exact, and the small remainders.

        Args:
            fine: the fine scores.
            groups: the scores of the groups.
            split_fine: whether the fine scores are large enough to need splitting too.
        """
        low_groups = contiguous_transpose(groups)
        high_groups = (low_groups + _SPLITTER).sub_(_SPLITTER)
        low_groups -= high_groups
        high = contiguous_transpose(self.rows.to_fine(high_groups))
        del high_groups
        if split_fine:
            high_fine = (fine + _SPLITTER).sub_(_SPLITTER)
            high += high_fine
            fine = fine - high_fine
        high -= high.amax(dim=1, keepdim=True)
        return high.add_(contiguous_transpose(self.rows.to_fine(low_groups))).add_(fine)

    def set_probs(self, probs: Float[Tensor, "batch fine"], targets: Targets) -> None:
        """Transpose the probabilities."""
        self.targets = targets
        # By rounding, the probabilities do not sum to exactly 1. This error is common to all kinds and would add up in
        # the gradient, so probabilities are divided by the actual sum.
        many = len(self.layout.kinds) > MANY_KINDS
        self.total = probs.sum(dim=1, dtype=torch.float64) if many else None
        self.probs = contiguous_transpose(probs)

    def target_probs(self, others: Float[Tensor, "batch _"] | None = None) -> Float[Tensor, "batch term"]:
        """Sums over all groups, from which those of the targets are gathered."""
        self.fine_probs = self.probs.gather(0, self.targets.fine.unsqueeze(0))
        parts = [
            self._label_probs(probs).gather(0, column)
            for probs, column in self._split_batch(self.rows.rows_to_groups, self.probs, self.targets.column.t())
        ]
        terms = [self.fine_probs, parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)]
        out = torch.cat(terms if others is None else [*terms, others.t()])
        if self.total is not None:
            out.div_(self.total)
        return out.t()

    def _label_probs(self, probs: Float[Tensor, "fine batch"]) -> Float[Tensor, "group batch"]:
        """The probabilities of all labels and mixed rows."""
        groups = self.rows.to_groups(probs.contiguous())
        if self.mixing is not None:
            self.edge_share = self.mixing.t().exp().to(self.dtype)
            self.edge_probs = groups.index_select(0, self.layout.edge_row) * self.edge_share
            groups.index_add_(0, self.layout.edge_column, self.edge_probs)
        return groups

    def _split_batch(self, rows: int, *tables: Shaped[Tensor, "_ batch"]) -> list[tuple[Tensor, ...]]:
        """Split tables along the batch, so that `rows` rows of a part fit in little memory."""
        if self.mixing is not None or self.probs.shape[1] < self.strategy.min_samples:
            return [tables]
        parts = -(-rows // int(self.strategy.max_rows * self.layout.fine_count))
        return [tables] if parts == 1 else list(zip(*(table.chunk(parts, dim=1) for table in tables), strict=True))

    def gradient(
        self,
        prob_grads: Float[Tensor, "batch term"],
        weight: Float[Tensor, "_ term"] | None,
        scale: float | Float[Tensor, ""],
        others: OtherFactors | None = None,
    ) -> Float[Tensor, "batch fine"]:
        """Each probability times the factors of its groups, and the term of the true fine label."""
        grads, fine = prob_grads.t(), self.targets.fine.unsqueeze(0)
        at_target = self.fine_probs.mul_(grads[:1])
        if (weight is None or len(weight) == 1) and self.mixing is None and isinstance(scale, float):
            self._multiply_by_shared_weights(grads[1:], weight, scale, others)
        else:
            own = self.rows.to_fine(self._group_factors(grads, weight, scale))
            if others is not None:
                own.add_(contiguous_transpose(others.sums.add_(others.weight * scale)))
            self.probs.mul_(own)
        return contiguous_transpose(self.probs.scatter_add_(0, fine, at_target))

    def _multiply_by_shared_weights(
        self,
        grads: Float[Tensor, "target batch"],
        weight: Float[Tensor, "1 term"] | None,
        scale: float,
        others: OtherFactors | None,
    ) -> None:
        """Multiply the probabilities by their factors if all samples have the same weights."""
        own, kinds = scale, None
        if weight is not None:
            own = float(weight[0, 0]) * scale
            kinds = self._kind_weights(weight.t()[1:], self.targets.kind, scale)[self.layout.kind_of_column]
        tables = [self.probs, self.targets.column.t(), grads]
        if others is not None:
            tables.append(contiguous_transpose(others.sums.add_(others.weight * scale + own)))
        for probs, columns, part, *more in self._split_batch(self.rows.rows_to_fine, *tables):
            # The argument of `to_fine` has no other reference, so that its memory is freed early.
            added = more[0] if more else own
            probs.mul_(self.rows.to_fine(self._shared_weight_factors(columns, part, kinds, scale)).add_(added))

    def _shared_weight_factors(
        self,
        columns: Int[Tensor, "target batch"],
        grads: Float[Tensor, "target batch"],
        kinds: Float[Tensor, "group 1"] | None,
        scale: float,
    ) -> Float[Tensor, "group batch"]:
        """What each group adds to the factors of its fine labels; `kinds` holds weights, None if all are 1."""
        shape = self.layout.group_count, grads.shape[1]
        first = grads.new_full(shape, scale) if kinds is None else kinds.repeat(1, grads.shape[1])
        return first.scatter_add_(0, columns, grads)

    def _group_factors(
        self,
        grads: Float[Tensor, "term batch"],
        weight: Float[Tensor, "_ term"] | None,
        scale: float | Float[Tensor, ""],
    ) -> Float[Tensor, "group batch"]:
        """What each group adds to the factors of its fine labels, for any weights and mixed rows."""
        layout = self.layout
        factors = grads.new_zeros(layout.group_count, grads.shape[1])
        factors.scatter_add_(0, self.targets.column.t(), grads[1:])
        if self.mixing is not None:
            at_edges = factors.index_select(0, layout.edge_column)
            self.mixing_grad = (self.edge_probs * at_edges).t()
            factors.index_add_(0, layout.edge_row, self.edge_share * at_edges)
        part = torch.ones_like(grads) if weight is None else weight.t()
        # The weight of the fine label goes to the first kind.
        kinds = self._kind_weights(part, [layout.numbers[0], *self.targets.kind], scale)
        return factors.add_(kinds.index_select(0, layout.kind_of_column))

    def _kind_weights(
        self, weight: Float[Tensor, "target _"], kinds: list[int], scale: float | Float[Tensor, ""]
    ) -> Float[Tensor, "kind _"]:
        """The summed weight of the targets of each kind, times the scale."""
        total = weight.new_zeros(1 + max(self.layout.numbers), weight.shape[1])
        return total.index_add_(0, torch.tensor(kinds, device=weight.device), weight * scale)

    def coarse_gradient(
        self,
        grad: Float[Tensor, "batch fine"],
        unchanged: bool = False,
        out: Float[Tensor, "batch coarse"] | None = None,
    ) -> Float[Tensor, "batch coarse"]:
        """Sums over the fine labels of each group, and from mixed rows to their labels."""
        # The result of `gradient` is still here, with labels as rows.
        groups = contiguous_transpose(self.rows.to_groups(self.probs if unchanged else contiguous_transpose(grad)))
        return groups if self.mixing is None else self.layout.coarse_gradient(groups, self.mixing, self.mixing_grad)
