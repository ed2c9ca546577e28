"""The steps of the loss with labels as rows and samples as columns; see `marginal_loss.py` and `bags.py`.

The weights of the targets are spread over the kinds, so that each kind adds  w (1 - r / p_t)  to what pulls at a fine
label. Near the truth these terms are small, and so are their rounding errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from finegraph.inference.sums.turned import turned

if TYPE_CHECKING:
    from finegraph.inference.loss.formulas import Job

_SOME_KINDS = 32
"""With more kinds, what rounding does to all of them alike must be corrected."""
_MORE_ROWS, _MANY_SAMPLES = 2.7, 16
"""Tables with more rows than so many times the fine labels are made for a part of the samples at a time, if many."""


class LossByBags:
    """The probabilities of one batch and the sums that the loss needs of them."""

    def __init__(self, job: Job, probs: Tensor) -> None:
        """Begin, from the fine probabilities (batch, fine)."""
        self.job, self.plan, self.bags = job, job.plan, job.plan.bags
        # Rounding makes the sum of all probabilities a little more or less than 1. An error that all kinds have in
        # common would add up in the gradient, so they are related to that very sum.
        many = self.plan.kind_count > _SOME_KINDS
        self.total = probs.sum(dim=1, dtype=torch.float64) if many else None
        self.probs = turned(probs)
        self.mixing_grad: Tensor | None = None

    def target_probs(self) -> Tensor:
        """(batch, 1 + slot) the probability of the true fine label and of the label of each slot."""
        targets = self.job.targets
        self.fine_probs = self.probs.gather(0, targets.fine.unsqueeze(0))
        parts = self._parts(self.bags.up_rows)
        if parts == 1:
            kinds = self._label_probs().gather(0, targets.column.t())
        else:
            pieces = zip(self.probs.chunk(parts, dim=1), targets.column.t().chunk(parts, dim=1), strict=True)
            kinds = torch.cat([self.bags.up(own.contiguous()).gather(0, column) for own, column in pieces], dim=1)
        probs = torch.cat([self.fine_probs, kinds])
        if self.total is not None:
            probs.div_(self.total)
        return probs.t()

    def _label_probs(self) -> Tensor:
        """(group, batch) the probabilities of all labels and mixed rows."""
        groups = self.bags.up(self.probs)
        if self.job.mixing is not None:
            self.edge_share = self.job.mixing.t().exp()
            self.edge_probs = groups.index_select(0, self.plan.edge_row) * self.edge_share
            groups.index_add_(0, self.plan.edge_column, self.edge_probs)
        return groups

    def _parts(self, rows: int) -> int:
        """How many parts of the batch to do apart, so that tables of so many rows take little memory."""
        if self.job.mixing is not None or self.probs.shape[1] < _MANY_SAMPLES:
            return 1
        return -(-rows // int(_MORE_ROWS * self.plan.fine_count))

    def grad(self, pull: Tensor, weight: Tensor | None) -> Tensor:
        """dL/ds (batch, fine) from - w / p_t of the fine label and of each slot; overwrites the probabilities."""
        targets, pull = self.job.targets, pull.t()
        at_target = self.fine_probs.mul_(pull[:1])
        if (weight is None or len(weight) == 1) and self.job.mixing is None and isinstance(self.job.scale, float):
            self._multiply(targets.column.t(), pull[1:], weight, self.job.scale)
        else:
            self.probs.mul_(self.bags.down(self._any_back(targets.column.t(), pull, weight)))
        return turned(self.probs.scatter_add_(0, targets.fine.unsqueeze(0), at_target))

    def _multiply(self, column: Tensor, pull: Tensor, weight: Tensor | None, scale: float) -> None:
        """Multiply the probabilities by what pulls at them, where all samples have the same weights."""
        own, kinds = scale, None
        if weight is not None:
            own = float(weight[0, 0]) * scale
            kinds = self._weight_of_kinds(weight.t()[1:], self.job.targets.kind)[self.plan.kind_of_column]

        def back(columns: Tensor, part: Tensor) -> Tensor:
            shape = self.plan.group_count, part.shape[1]
            first = part.new_full(shape, scale) if kinds is None else kinds.repeat(1, part.shape[1])
            return first.scatter_add_(0, columns, part)

        # Nobody keeps what is given to `down`, so that its memory is free soon.
        parts = self._parts(self.bags.down_rows)
        if parts == 1:
            self.probs.mul_(self.bags.down(back(column, pull)).add_(own))
            return
        for probs, columns, part in zip(*(table.chunk(parts, 1) for table in (self.probs, column, pull)), strict=True):
            probs.mul_(self.bags.down(back(columns, part)).add_(own))

    def _any_back(self, column: Tensor, pull: Tensor, weight: Tensor | None) -> Tensor:
        """(group, batch) what each group adds to what pulls at its fine labels, for any weights and mixed rows."""
        back = pull.new_zeros(self.plan.group_count, pull.shape[1]).scatter_add_(0, column, pull[1:])
        self._mix_back(back)
        part = torch.ones_like(pull) if weight is None else weight.t()
        # The weight of the fine label goes to the first kind.
        kinds = self._weight_of_kinds(part, [0, *self.job.targets.kind])
        return back.add_(kinds.index_select(0, self.plan.kind_of_column))

    def _mix_back(self, back: Tensor) -> None:
        """Give mixed rows what their labels have, and find the gradient for log r."""
        if self.job.mixing is not None:
            at_edges = back.index_select(0, self.plan.edge_column)
            self.mixing_grad = (self.edge_probs * at_edges).t()
            back.index_add_(0, self.plan.edge_row, self.edge_share * at_edges)

    def _weight_of_kinds(self, weight: Tensor, kinds: list[int]) -> Tensor:
        """(kind, batch or 1) the weight of each kind times the scale, from that of each slot."""
        total = weight.new_zeros(self.plan.kind_count, weight.shape[1])
        return total.index_add_(0, torch.tensor(kinds, device=weight.device), weight * self.job.scale)

    def group_grads(self, grad: Tensor, changed: bool) -> Tensor:
        """(batch, group) dL/ds summed over the fine labels of each group.

        Args:
            grad: (batch, fine) dL/ds.
            changed: whether it is no longer what `grad` has found.
        """
        return turned(self.bags.up(turned(grad) if changed else self.probs))
