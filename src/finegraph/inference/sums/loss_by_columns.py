"""The steps of the loss with labels as columns, as scores come; see `marginal_loss.py` and `columns.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from finegraph.inference.loss.formulas import Job
    from finegraph.inference.sums.by_columns import ListedKind


class LossByColumns:
    """The probabilities of one batch and the sums that the loss needs of them."""

    def __init__(self, job: Job, probs: Tensor, group_memory: Tensor | None) -> None:
        """Begin.

        Args:
            job: what to compute.
            probs: (batch, fine) the fine probabilities; they become the gradient.
            group_memory: where to put the gradients for the scores of groups; None where it does not matter.
        """
        self.job, self.plan, self.columns = job, job.plan, job.plan.columns
        self.slots = self.columns.divide_slots(tuple(job.targets.kind))
        self.probs, self.group_memory = probs, group_memory
        self.shares: list[tuple[Tensor, Tensor]] = []
        self.mixing_grad: Tensor | None = None
        self.block_grads: Tensor | None = None

    def target_probs(self) -> Tensor:
        """(batch, 1 + slot) the probability of the true fine label and of the label of each slot."""
        targets = self.job.targets
        out = self.probs.new_empty(len(self.probs), 1 + targets.column.shape[1])
        self.fine_probs = self.probs.gather(1, targets.fine.unsqueeze(1))
        out[:, :1] = self.fine_probs
        for slot, listed in self.slots.listed:
            out[:, 1 + slot] = self._listed_probs(targets.column[:, slot], listed)
        if len(self.slots.others):
            self.place = self.columns.place[targets.column.index_select(1, self.slots.others)]
            out.index_copy_(1, 1 + self.slots.others, self._group_probs().gather(1, self.place))
        return out

    def _listed_probs(self, column: Tensor, listed: ListedKind) -> Tensor:
        """(batch) the probability of a label of a listed kind: the sum over its children."""
        child, valid = listed.children(column - listed.first_column)
        share = self.probs.gather(1, child).mul_(valid)
        self.shares.append((child, share))
        return share.sum(dim=1)

    def _group_probs(self) -> Tensor:
        """(batch, place) the probabilities of all labels and mixed rows of the dense and the mixed listed kinds."""
        columns, probs = self.columns, self.probs
        self.block_probs = columns.sum_to_blocks(probs) if columns.dense_kinds else probs[:, :0]
        parts = [self.block_probs @ columns.matrix_of(probs.dtype).t()] if columns.dense_kinds else []
        for listed in columns.mixed_listed:
            sums = probs.new_zeros(len(probs), listed.group_count)
            parts.append(sums.scatter_add_(1, listed.local_group.expand(len(probs), -1), probs))
        groups = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        if self.job.mixing is None:
            return groups
        self.edge_row, self.edge_column = columns.place[self.plan.edge_row], columns.place[self.plan.edge_column]
        self.edge_share = self.job.mixing.exp()
        self.edge_probs = groups.index_select(1, self.edge_row) * self.edge_share
        return groups.index_add(1, self.edge_column, self.edge_probs)

    def grad(self, pull: Tensor, weight: Tensor | None) -> Tensor:
        """dL/ds (batch, fine) from - w / p_t of the fine label and of each slot; overwrites the probabilities."""
        fine = self.job.targets.fine.unsqueeze(1)
        count = pull.new_full((1, 1), pull.shape[1]) if weight is None else weight.sum(dim=1, keepdim=True)
        total = count * self.job.scale
        if len(self.slots.others):
            grad = self.probs.mul_(self._pull(pull.index_select(1, 1 + self.slots.others), total))
        else:
            grad = self.probs.mul_(total)
        self._add(grad, fine, self.fine_probs.mul_(pull[:, :1]))
        for (slot, _), (child, share) in zip(self.slots.listed, self.shares, strict=True):
            self._add(grad, child, share.mul_(pull[:, 1 + slot : 2 + slot]))
        return grad

    def _pull(self, pull: Tensor, total: Tensor) -> Tensor:
        """(batch, fine) the total weight minus the sum over targets of w r / p_t, from - w / p_t."""
        columns, dense = self.columns, len(self.columns.dense_columns)
        back = pull.new_zeros(len(pull), columns.place_count).scatter_add_(1, self.place, pull)
        if self.job.mixing is not None:
            at_edges = back.index_select(1, self.edge_column)
            self.mixing_grad = self.edge_probs * at_edges
            back.index_add_(1, self.edge_row, self.edge_share * at_edges)
        if dense:
            total = torch.addmm(total, back[:, :dense], columns.matrix_of(pull.dtype))
            if columns.block is not None:
                # The sums over blocks of the gradient follow from those of the probabilities.
                self.block_grads = None if columns.mixed_listed else self.block_probs.mul_(total)
                total = total.gather(1, columns.block.expand(len(total), -1))
        for listed in columns.mixed_listed:
            part = back[:, dense : dense + listed.group_count]
            total = total + part.gather(1, listed.local_group.expand(len(part), -1))
            dense += listed.group_count
        return total

    def _add(self, grad: Tensor, fine: Tensor, values: Tensor) -> None:
        """Add values (batch, n) to the gradients of some fine labels (batch, n), and to those of their blocks."""
        grad.scatter_add_(1, fine, values)
        if self.block_grads is not None and self.columns.block is not None:
            self.block_grads.scatter_add_(1, self.columns.block[fine], values)

    def group_grads(self, grad: Tensor, changed: bool) -> Tensor:
        """(batch, group) dL/ds summed over the fine labels of each group.

        Args:
            grad: (batch, fine) dL/ds.
            changed: whether it is no longer what `grad` has found.
        """
        return self.columns.sum_to_groups(grad, None if changed else self.block_grads, self.group_memory)
