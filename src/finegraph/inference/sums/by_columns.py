"""Sums with labels as columns, the layout of scores: matrix products, gathers and scatters.

Kinds with few labels are *dense*: together they take one product with a 0/1 matrix. Fine labels with the same label in
every dense kind form a *block*. If there are far fewer blocks than fine labels, the product runs over blocks, and one
gather or scatter converts between blocks and fine labels. The other kinds are *listed*: each takes a gather or scatter
of its own, and training touches only the children of the true label.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from finegraph.inference.numerics import Constants, compact_indices, largest_size, whole_tiles
from finegraph.inference.sums.groups import GroupLayout, KindGroups
from finegraph.inference.sums.interface import GroupedSums, OtherFactors, gathered_sum, top_score
from finegraph.inference.sums.strategy import Strategy, cheapest_columns
from finegraph.inference.sums.targets import Targets


class ListedColumns(Constants):
    """The children of each group of one kind with many labels, as one sorted list with starts."""

    group: Tensor
    local_group: Tensor
    order: Tensor
    padded_children: Tensor
    padded_valid: Tensor
    starts: Tensor
    sizes: Tensor
    columns: Tensor

    def __init__(self, kind: KindGroups, max_padding: int) -> None:
        self.number, self.plain = kind.number, kind.plain
        self.label_count, self.group_count = kind.label_count, kind.count
        self.first_column = int(kind.columns[0])
        labels = kind.sizes[: kind.label_count]
        starts = np.cumsum(kind.sizes) - kind.sizes
        self.store_arrays({"group": kind.columns[kind.group], "columns": kind.columns})
        if not self.plain:
            self.store_arrays({"local_group": kind.group})
        self.store_arrays({"order": compact_indices(kind.order), "starts": starts, "sizes": kind.sizes})
        width = int(labels.max())
        self.padded = self.label_count * width <= max_padding * len(kind.group)
        if self.padded:
            step = np.arange(width)
            position = np.minimum(starts[: self.label_count, None] + step, len(kind.order) - 1)
            valid = step < labels[:, None]
            self.store_arrays({"padded_children": compact_indices(kind.order[position]), "padded_valid": valid})

    def children(
        self, label: Int[Tensor, " batch"]
    ) -> tuple[Int[Tensor, "batch child"], Shaped[Tensor, "batch child"]]:
        """The children of one label per sample, and which of them are real rather than padding."""
        if self.padded:
            return self.padded_children.index_select(0, label).long(), self.padded_valid.index_select(0, label)
        size = self.sizes.index_select(0, label).unsqueeze(1)
        step = torch.arange(int(size.amax()) if len(label) else 0, device=label.device)
        position = self.starts.index_select(0, label).unsqueeze(1) + step
        valid = step < size
        child = self.order.index_select(0, position.clamp_max_(len(self.order) - 1).reshape(-1))
        return child.long().view_as(position), valid


class _ColumnTargets(NamedTuple):
    """Targets by how their probabilities are computed.

    Attributes:
        listed: the targets of listed kinds without mixed rows, summed over the children of the true label.
        others: the indices of the other targets.
    """

    listed: list[tuple[int, ListedColumns]]
    others: Int[Tensor, " target"]


class ColumnTables(Constants):
    """The dense and the listed kinds of a layout.

    Attributes:
        matrix: (dense group, block) 0/1: which blocks are in each group of the dense kinds.
        dense_columns: the group column of each row of `matrix`.
        block: the block of each fine label; None if every fine label is a block of its own.
        place: for each group column, its index among the `place_count` groups whose probabilities the loss computes:
            those of dense kinds, then of listed kinds with mixed rows; -1 for others.
    """

    matrix: Tensor
    dense_columns: Tensor
    place: Tensor

    def __init__(self, layout: GroupLayout, strategy: Strategy) -> None:
        self.group_count = layout.group_count
        choice = cheapest_columns(strategy, layout.kinds, layout.fine_count)
        dense = [layout.kinds[place] for place in choice.dense]
        self.has_dense = bool(dense)
        self.listed = [
            ListedColumns(kind, strategy.max_padding)
            for place, kind in enumerate(layout.kinds)
            if place not in choice.dense
        ]
        block = np.arange(layout.fine_count) if choice.block is None else choice.block
        self.block = None if choice.block is None else torch.from_numpy(block)
        columns = np.concatenate([np.zeros(0, np.int64), *(kind.columns for kind in dense)])
        starts = np.cumsum([0, *(kind.count for kind in dense)])
        self.block_count = int(block.max()) + 1
        matrix = np.zeros((len(columns), self.block_count), np.float32)
        for start, kind in zip(starts, dense, strict=False):
            matrix[start + kind.group, block] = 1.0
        self.store_arrays({"matrix": matrix, "dense_columns": columns})
        self._store_places(columns)
        self._wide_matrix: Tensor | None = None
        self._divided: dict[tuple[int, ...], _ColumnTargets] = {}

    def _store_places(self, columns: NDArray[np.int64]) -> None:
        self.mixed_listed = [listed for listed in self.listed if not listed.plain]
        column = np.concatenate([columns, *(listed.columns.numpy() for listed in self.mixed_listed)])
        place = np.full(self.group_count, -1, np.int64)
        place[column] = np.arange(len(column))
        self.place_count = len(column)
        self.store_arrays({"place": place})

    def divide_targets(self, kinds: tuple[int, ...]) -> _ColumnTargets:
        """Divide targets; `kinds` holds the number of the kind of each."""
        if kinds not in self._divided:
            plain = {kind.number: kind for kind in self.listed if kind.plain}
            listed = [(target, plain[kind]) for target, kind in enumerate(kinds) if kind in plain]
            others = [target for target, kind in enumerate(kinds) if kind not in plain]
            place = torch.tensor(others, dtype=torch.int64, device=self.place.device)
            self._divided[kinds] = _ColumnTargets(listed, place)
        return self._divided[kinds]

    def matrix_of(self, dtype: torch.dtype) -> Float[Tensor, "dense block"]:
        """The 0/1 matrix of the dense kinds in a dtype."""
        if dtype != torch.float64:
            return self.matrix
        if self._wide_matrix is None:
            with torch.inference_mode(False):
                self._wide_matrix = self.matrix.double()
        return self._wide_matrix

    def add_groups(
        self,
        fine: Float[Tensor, "batch fine"],
        groups: Float[Tensor, "batch group"],
        out: Float[Tensor, "batch fine"] | None = None,
    ) -> Float[Tensor, "batch fine"]:
        """The fine scores plus those of their groups, written to `out` or to new memory."""
        parts = [(groups, listed.group) for listed in self.listed]
        total = fine
        if self.has_dense:
            chosen, matrix = groups.index_select(1, self.dense_columns), self.matrix_of(fine.dtype)
            whole = whole_tiles(chosen)
            if self.block is not None:
                parts.append(((whole @ matrix)[: len(chosen)], self.block))
            elif whole is chosen:
                total = out = torch.addmm(fine, chosen, matrix, out=out)
            else:
                total = torch.addmm(whole_tiles(fine), whole, matrix)[: len(fine)]
                total = out = total if out is None else out.copy_(total)
        scratch = torch.empty_like(fine) if parts else None
        for scores, place in parts:
            # gather runs on all threads, index_select on one
            gathered = torch.gather(scores, 1, place.expand(len(scores), -1), out=scratch)
            total = out = torch.add(total, gathered, out=out)
        return total

    def to_groups(
        self,
        fine: Float[Tensor, "batch fine"],
        blocks: Float[Tensor, "batch block"] | None = None,
        out: Float[Tensor, "batch group"] | None = None,
    ) -> Float[Tensor, "batch group"]:
        """The sum over the children of each group.

        Args:
            fine: the values of the fine labels.
            blocks: the sums over blocks, if already computed.
            out: memory for the result.
        """
        out = fine.new_zeros(len(fine), self.group_count) if out is None else out.zero_()
        if self.has_dense:
            blocks = self.to_blocks(fine) if blocks is None else blocks
            out.index_copy_(1, self.dense_columns, blocks @ self.matrix_of(out.dtype).t())
        for listed in self.listed:
            out.scatter_add_(1, listed.group.expand(len(fine), -1), fine)
        return out

    def to_blocks(self, fine: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch block"]:
        """The sum over the fine labels of each block."""
        if self.block is None:
            return fine
        blocks = fine.new_zeros(len(fine), self.block_count)
        return blocks.scatter_add_(1, self.block.expand(len(fine), -1), fine)


class ColumnSums(GroupedSums):
    """The sums of one batch."""

    def __init__(
        self,
        layout: GroupLayout,
        columns: ColumnTables,
        groups: Float[Tensor, "batch group"] | None,
        mixing: Float[Tensor, "batch edge"] | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(layout, groups, mixing, dtype)
        self.columns = columns
        self.shares: list[tuple[Tensor, Tensor]] = []
        self.block_grads: Tensor | None = None

    def joint_scores(
        self, fine: Float[Tensor, "batch fine"], out: Float[Tensor, "batch fine"] | None = None
    ) -> Float[Tensor, "batch fine"]:
        """A float32 sum if that is precise enough for these scores, else a float64 sum."""
        if self.groups is None:
            return fine.to(self.dtype)
        if self.may_use_float32(fine) and self.float32_suffices(0.0):
            total = self.columns.add_groups(fine, self.groups, out)
            if self.float32_suffices(largest_size(total)):
                return total
        total = self.wide_joint_scores(fine)
        return total.to(self.dtype) if out is None else out.copy_(total)

    def wide_joint_scores(self, fine: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch fine"]:
        """A float64 sum, by gathers alone if a score is infinite."""
        if self.groups is None:
            return fine.double()
        if self.largest_group == math.inf:
            return gathered_sum(self.layout, fine, self.groups)
        total = self.columns.add_groups(fine.double(), self.groups.double())
        return total.sub_(top_score(total))

    def set_probs(self, probs: Float[Tensor, "batch fine"], targets: Targets) -> None:
        """Keep the probabilities; the gradient will overwrite them."""
        self.probs, self.targets = probs, targets
        self.divided = self.columns.divide_targets(tuple(targets.kind))

    def target_probs(self, others: Float[Tensor, "batch _"] | None = None) -> Float[Tensor, "batch term"]:
        """Products and scatters for dense kinds; sums over the children of the true label for listed kinds."""
        column = self.targets.column
        count = 1 + column.shape[1]
        out = self.probs.new_empty(len(self.probs), count + (0 if others is None else others.shape[1]))
        if others is not None:
            out[:, count:] = others
        self.fine_probs = self.probs.gather(1, self.targets.fine.unsqueeze(1))
        out[:, :1] = self.fine_probs
        for target, listed in self.divided.listed:
            child, valid = listed.children(column[:, target] - listed.first_column)
            share = self.probs.gather(1, child).mul_(valid)
            self.shares.append((child, share))
            out[:, 1 + target] = share.sum(dim=1)
        if len(self.divided.others):
            self.place = self.columns.place[column.index_select(1, self.divided.others)]
            out.index_copy_(1, 1 + self.divided.others, self._group_probs().gather(1, self.place))
        return out

    def _group_probs(self) -> Float[Tensor, "batch place"]:
        """The probabilities of all labels and mixed rows of the dense and the mixed listed kinds."""
        columns, probs = self.columns, self.probs
        self.block_probs = columns.to_blocks(probs) if columns.has_dense else probs[:, :0]
        parts = [self.block_probs @ columns.matrix_of(probs.dtype).t()] if columns.has_dense else []
        for listed in columns.mixed_listed:
            sums = probs.new_zeros(len(probs), listed.group_count)
            parts.append(sums.scatter_add_(1, listed.local_group.expand(len(probs), -1), probs))
        groups = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        if self.mixing is None:
            return groups
        self.edge_row = columns.place[self.layout.edge_row]
        self.edge_column = columns.place[self.layout.edge_column]
        self.edge_share = self.mixing.exp().to(self.dtype)
        self.edge_probs = groups.index_select(1, self.edge_row) * self.edge_share
        return groups.index_add(1, self.edge_column, self.edge_probs)

    def gradient(
        self,
        prob_grads: Float[Tensor, "batch term"],
        weight: Float[Tensor, "_ term"] | None,
        scale: float | Float[Tensor, ""],
        others: OtherFactors | None = None,
    ) -> Float[Tensor, "batch fine"]:
        """Each probability times the factors of its groups, and the terms of single fine labels."""
        count = prob_grads.new_full((1, 1), prob_grads.shape[1]) if weight is None else weight.sum(dim=1, keepdim=True)
        total, summed = (count if others is None else count + others.weight) * scale, self.divided.others
        if len(summed):
            total = self._factors(prob_grads.index_select(1, 1 + summed), total)
        if others is not None:
            total, self.block_grads = others.sums.add_(total), None
        grad = self.probs.mul_(total)
        del total  # as large as the probabilities
        self._add_to_fine(grad, self.targets.fine.unsqueeze(1), self.fine_probs.mul_(prob_grads[:, :1]))
        for (target, _), (child, share) in zip(self.divided.listed, self.shares, strict=True):
            self._add_to_fine(grad, child, share.mul_(prob_grads[:, 1 + target : 2 + target]))
        return grad

    def _factors(
        self, prob_grads: Float[Tensor, "batch target"], total: Float[Tensor, "_ 1"]
    ) -> Float[Tensor, "batch fine"]:
        """The total weight minus the sum over targets of w r / p_t, for each fine label."""
        columns, dense = self.columns, len(self.columns.dense_columns)
        factors = prob_grads.new_zeros(len(prob_grads), columns.place_count).scatter_add_(1, self.place, prob_grads)
        if self.mixing is not None:
            at_edges = factors.index_select(1, self.edge_column)
            self.mixing_grad = self.edge_probs * at_edges
            factors.index_add_(1, self.edge_row, self.edge_share * at_edges)
        if dense:
            total = torch.addmm(total, factors[:, :dense], columns.matrix_of(prob_grads.dtype))
            if columns.block is not None:
                # The block sums of the gradient follow from those of the probabilities.
                self.block_grads = None if columns.mixed_listed else self.block_probs.mul_(total)
                total = total.gather(1, columns.block.expand(len(total), -1))
        for listed in columns.mixed_listed:
            part = factors[:, dense : dense + listed.group_count]
            total = total + part.gather(1, listed.local_group.expand(len(part), -1))
            dense += listed.group_count
        return total

    def _add_to_fine(
        self,
        grad: Float[Tensor, "batch fine"],
        fine: Int[Tensor, "batch child"],
        values: Float[Tensor, "batch child"],
    ) -> None:
        """Add values to the gradients of some fine labels, and to those of their blocks."""
        grad.scatter_add_(1, fine, values)
        if self.block_grads is not None and self.columns.block is not None:
            self.block_grads.scatter_add_(1, self.columns.block[fine], values)

    def coarse_gradient(
        self,
        grad: Float[Tensor, "batch fine"],
        unchanged: bool = False,
        out: Float[Tensor, "batch coarse"] | None = None,
    ) -> Float[Tensor, "batch coarse"]:
        """Sums over the fine labels of each group, and from mixed rows to their labels."""
        blocks = self.block_grads if unchanged else None
        if self.mixing is None:
            return self.columns.to_groups(grad, blocks, out)
        return self.layout.coarse_gradient(self.columns.to_groups(grad, blocks), self.mixing, self.mixing_grad)
