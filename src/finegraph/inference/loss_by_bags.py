"""The steps of the loss with labels as rows and samples as columns; see `marginal_loss.py` and `bags.py`.

The weights of the targets are spread over the kinds, so that each kind adds  w (1 - r / p_t)  to what pulls at a fine
label. Near the truth these terms are small, and so are their rounding errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from finegraph.inference.marginal_loss import Grads, Job


class LossByBags:
    """The probabilities of one batch and the sums that the loss needs of them."""

    def __init__(self, job: Job, scores: Tensor, memory: Grads) -> None:
        self.job, self.plan, self.bags = job, job.tensors.plan, job.tensors.plan.bags
        table = scores.t()
        if memory.scores is not scores or not table.is_contiguous():
            table = torch.empty_like(table, memory_format=torch.contiguous_format).copy_(table)
        self.probs = torch.softmax(table, dim=0, out=table)
        self.mixing_grad: Tensor | None = None

    def target_probs(self) -> Tensor:
        """(batch, slot) the probability of the label of each slot."""
        groups, targets = self.bags.up(self.probs), self.job.targets
        if self.job.mixing is not None:
            self.edge_share = self.job.mixing.t().exp()
            self.edge_probs = groups.index_select(0, self.plan.edge_row) * self.edge_share
            groups.index_add_(0, self.plan.edge_column, self.edge_probs)
        self.fine_probs = self.probs.gather(0, targets.fine.unsqueeze(0))
        probs = torch.cat([self.fine_probs, groups.gather(0, targets.column.t()[1:])])
        # Rounding makes the sum of all probabilities a little more or less than 1. An error that all kinds have in
        # common would add up in the gradient, so they are related to that very sum.
        return probs.div_(self.probs.sum(dim=0, dtype=torch.float64)).t()

    def grad(self, pull: Tensor, weight: Tensor | None) -> Tensor:
        """dL/ds (batch, fine) from - w / p_t of each slot; overwrites the probabilities."""
        targets, scale, pull = self.job.targets, self.job.scale, pull.t()
        shape = self.plan.group_count, pull.shape[1]
        if weight is None and self.job.mixing is None and isinstance(scale, float):
            back = pull.new_full(shape, scale).scatter_add_(0, targets.column.t()[1:], pull[1:])
            back[: self.plan.layout[0].count].add_(scale)  # the weight of the fine label
        else:
            back = pull.new_zeros(shape).scatter_add_(0, targets.column.t()[1:], pull[1:])
            self._mix_back(back)
            back += self._weight_of_kinds(pull, weight).index_select(0, self.plan.kind_of_column)
        at_target = self.fine_probs.mul_(pull[:1])
        grad = self.probs.mul_(self.bags.down(back))
        return grad.scatter_add_(0, targets.fine.unsqueeze(0), at_target).t()

    def _mix_back(self, back: Tensor) -> None:
        """Give mixed rows what their labels have, and find the gradient for log r."""
        if self.job.mixing is not None:
            at_edges = back.index_select(0, self.plan.edge_column)
            self.mixing_grad = (self.edge_probs * at_edges).t()
            back.index_add_(0, self.plan.edge_row, self.edge_share * at_edges)

    def _weight_of_kinds(self, pull: Tensor, weight: Tensor | None) -> Tensor:
        """(kind, batch) the weight of each kind's targets; that of the fine label goes to the first kind."""
        kinds = torch.tensor([kind % self.plan.kind_count for kind in self.job.targets.kind], device=pull.device)
        part = torch.ones_like(pull) if weight is None else weight.t()
        total = pull.new_zeros(self.plan.kind_count, pull.shape[1])
        return total.index_add_(0, kinds, part * self.job.scale)

    def group_grads(self, exact: bool) -> Tensor:
        """(batch, group) dL/ds summed over the fine labels of each group."""
        return self.bags.up(self.probs).t()
