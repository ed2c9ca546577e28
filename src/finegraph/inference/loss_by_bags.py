"""The steps of the loss with labels as rows and samples as columns; see `marginal_loss.py` and `bags.py`.

The weights of the targets are spread over the kinds, so that each kind adds  w (1 - r / p_t)  to what pulls at a fine
label. Near the truth these terms are small, and so are their rounding errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from finegraph.inference.marginal_loss import Job


class LossByBags:
    """The probabilities of one batch and the sums that the loss needs of them."""

    def __init__(self, job: Job, scores: Tensor, own: bool) -> None:
        self.job, self.plan, self.bags = job, job.tensors.plan, job.tensors.plan.bags
        table = scores.t()
        if not (own and table.is_contiguous()):
            table = torch.empty_like(table, memory_format=torch.contiguous_format).copy_(table)
        self.probs = torch.softmax(table, dim=0, out=table)
        # Softmax over rows sums them one by one, so its result is off by a common factor; this one is not.
        self.norm = self.probs.sum(dim=0)
        self.mixing_grad: Tensor | None = None

    def target_probs(self) -> Tensor:
        """(batch, slot) the probability of the label of each slot."""
        probs = self.bags.up(self.probs)
        if self.job.mixing is not None:
            self.edge_share = self.job.mixing.t().exp()
            self.edge_probs = probs.index_select(0, self.plan.edge_row) * self.edge_share
            probs.index_add_(0, self.plan.edge_column, self.edge_probs)
        return probs.gather(0, self.job.targets.column.t()).div_(self.norm).t()

    def grad(self, factor: Tensor, weight: Tensor | None) -> Tensor:
        """dL/ds (batch, fine) from w / p_t of each slot; overwrites the probabilities."""
        rows = self.plan.group_count + self.plan.fine_count
        pull = factor.t().div_(-self.norm)
        if weight is None and self.job.mixing is None:
            back = (self.job.scale / self.norm).repeat(rows, 1)
            back.scatter_add_(0, self.job.targets.column.t(), pull)
        else:
            back = factor.new_zeros(rows, len(factor)).scatter_add_(0, self.job.targets.column.t(), pull)
            self._mix_back(back)
            back += self._weight_of_kinds(factor, weight).index_select(0, self.plan.kind_of_row)
        return self.probs.mul_(self.bags.down(back)).t()

    def _mix_back(self, back: Tensor) -> None:
        """Give mixed rows what their labels have, and find the gradient for log r."""
        if self.job.mixing is not None:
            at_edges = back.index_select(0, self.plan.edge_column)
            self.mixing_grad = (self.edge_probs * at_edges).t()
            back.index_add_(0, self.plan.edge_row, self.edge_share * at_edges)

    def _weight_of_kinds(self, factor: Tensor, weight: Tensor | None) -> Tensor:
        """(kind, batch) the weight of each kind's targets, the fine labels last."""
        kinds = torch.tensor(self.job.targets.kind, device=factor.device)
        total = factor.new_zeros(self.plan.kind_count + 1, len(factor))
        part = torch.ones_like(factor) if weight is None else weight
        return total.index_add_(0, kinds, (part * self.job.scale).t()).div_(self.norm)

    def group_grads(self, exact: bool) -> Tensor:
        """(batch, group) dL/ds summed over the fine labels of each group."""
        return self.bags.up_grads(self.probs).t()
