"""The interface of the sums over a graph, and what its implementations by rows and by columns share.

One object carries out the sums of one batch, in the order of the formulas of docs/idea.md, whose numbers stand here:

    joint_scores       (2)   s, from fine and coarse scores
    begin              (3)   takes p = softmax(s)
    target_probs       (4)   p_y and p^j[t_j] of the targets
    gradient           (6)   dL/ds
    coarse_gradient    (7)   dL/df^j

There are three implementations: `by_rows.py`, `by_columns.py` and `by_weights.py`; `graph_tensors.py` chooses.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from copy import copy

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.inference.sums.layout import GroupLayout
from finegraph.inference.sums.targets import Targets

_SMALLEST = {torch.float32: 1e-30, torch.float64: 1e-290}
"""Of a probability below this, terms may have underflowed."""
_MAX_ERROR, _FEW_KINDS = 1e-5, 16
"""The estimated error up to which a plain float32 sum is used; less with more kinds, since gradients add errors up."""
ROUNDING = torch.finfo(torch.float32).eps / 2
"""The relative error of one float32 operation."""


class GraphSums(ABC):
    """The sums over a graph for one batch of scores.

    Attributes:
        dtype: the number format of joint scores, probabilities and gradients.
        smallest: probabilities below this must be found in log space.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype, self.smallest = dtype, _SMALLEST[dtype]

    @abstractmethod
    def joint_scores(
        self, fine: Float[Tensor, "batch fine"], out: Float[Tensor, "batch fine"] | None = None
    ) -> Float[Tensor, "batch fine"]:
        """The joint scores (2), up to a constant per sample; the fine scores themselves if there is nothing to add.

        Args:
            fine: the fine scores, in float32 or wider.
            out: memory for the result, which may be used or not.
        """

    @abstractmethod
    def begin(self, probs: Float[Tensor, "batch fine"], targets: Targets) -> None:
        """Take the fine probabilities (3), whose memory may be overwritten, and the targets of the batch."""

    @abstractmethod
    def target_probs(self) -> Float[Tensor, "batch term"]:
        """The probabilities (4) of the fine label and of each target; inexact below `smallest`."""

    @abstractmethod
    def gradient(
        self,
        prob_grads: Float[Tensor, "batch term"],
        weight: Float[Tensor, "_ term"] | None,
        scale: float | Float[Tensor, ""],
    ) -> Float[Tensor, "batch fine"]:
        """The gradient (6) for the joint scores; overwrites the probabilities.

        Args:
            prob_grads: the gradient for the probabilities of `target_probs`, - weight scale / probability.
            weight: the weights of the fine label and of each target; None if all are 1.
            scale: the factor of the loss.
        """

    @abstractmethod
    def coarse_gradient(
        self,
        grad: Float[Tensor, "batch fine"],
        as_returned: bool = False,
        out: Float[Tensor, "batch coarse"] | None = None,
    ) -> Float[Tensor, "batch coarse"]:
        """The gradient (7) for the coarse scores.

        Args:
            grad: the gradient for the joint scores.
            as_returned: whether it is what `gradient` has returned, unchanged, so that its sums can be used again.
            out: memory for the result, which may be used or not.
        """

    @abstractmethod
    def of_samples(self, sample: Int[Tensor, " sample"]) -> GraphSums:
        """Sums of some of the samples, for their joint scores."""

    @abstractmethod
    def log_shares(self, sample: Int[Tensor, " sample"], target: int) -> Float[Tensor, "sample fine"]:
        """Log r of a target, in float64: the log probability of its label given each fine label."""

    @abstractmethod
    def add_shares(self, sample: Int[Tensor, " sample"], target: int, share: Float[Tensor, "sample fine"]) -> None:
        """Add to the coarse gradient what a target found in log space contributes.

        Args:
            sample: some samples.
            target: the target.
            share: weight scale p_i r / p_t for each fine label i.
        """


class GroupedSums(GraphSums):
    """What sums by rows and by columns share: the scores of groups, and mixed rows.

    Attributes:
        groups: the scores of the groups; None without coarse scores.
        mixing: log r of the edges of mixed rows; None if there are none.
        mixing_grad: the gradient for log r.
        targets: those of the batch, once `begin` has them.
    """

    targets: Targets

    def __init__(
        self, layout: GroupLayout, coarse: Float[Tensor, "batch coarse"] | None, batch: int, dtype: torch.dtype
    ) -> None:
        super().__init__(dtype)
        self.layout = layout
        self.groups: Tensor | None = None
        self.mixing: Tensor | None = None
        self.mixing_grad: Tensor | None = None
        if coarse is None and len(layout.edge_row):
            self.mixing = layout.edge_log_weight.expand(batch, -1)
        elif coarse is not None and layout.kinds:
            self.groups, self.mixing = layout.group_scores(coarse)

    def joint_scores(
        self, fine: Float[Tensor, "batch fine"], out: Float[Tensor, "batch fine"] | None = None
    ) -> Float[Tensor, "batch fine"]:
        """The sum in the cheapest way that is exact enough for these scores.

        With many kinds or large scores a plain float32 sum loses digits, though the posterior depends on small
        differences of it. So unless its estimated error is small the sum is more precise: centred at the largest score
        of each sample, which changes no posterior, and narrowed again.
        """
        if self.groups is None:
            return fine.to(self.dtype)
        largest = largest_size(self.groups)
        if self.dtype == self.groups.dtype == fine.dtype == torch.float32 and largest < math.inf and fine.numel():
            total = self._narrow_sum(fine, self.groups, largest, out)
            if total is not None:
                return total
        total = self._precise_sum(fine, self.groups, largest)
        return total.to(self.dtype) if out is None else out.copy_(total)

    def wide_joint_scores(self, fine: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch fine"]:
        """The same in float64, whatever the number format of the batch."""
        if self.groups is None:
            return fine.double()
        return self._precise_sum(fine, self.groups, largest_size(self.groups))

    def _precise_sum(
        self, fine: Float[Tensor, "batch fine"], groups: Float[Tensor, "batch group"], largest: float
    ) -> Float[Tensor, "batch fine"]:
        """The sum in float64, of group scores that are at most `largest`, which may be infinite."""
        return self._wide_sum(fine, groups) if largest < math.inf else gathered_sum(self.layout, fine, groups)

    @abstractmethod
    def _narrow_sum(
        self,
        fine: Float[Tensor, "batch fine"],
        groups: Float[Tensor, "batch group"],
        largest: float,
        out: Float[Tensor, "batch fine"] | None,
    ) -> Float[Tensor, "batch fine"] | None:
        """The sum in float32, of group scores that are at most `largest`; None if that is not exact enough."""

    @abstractmethod
    def _wide_sum(
        self, fine: Float[Tensor, "batch fine"], groups: Float[Tensor, "batch group"]
    ) -> Float[Tensor, "batch fine"]:
        """The sum in float64, of group scores that are finite."""

    def float32_suffices(self, largest_sum: float, largest_group: float) -> bool:
        """Whether float32 sums are exact enough, by an estimate: a rounding per kind, of numbers as large as these."""
        terms = math.sqrt(len(self.layout.kinds))
        error = terms * max(largest_sum, terms * largest_group) * ROUNDING
        return error <= self.max_error

    @property
    def max_error(self) -> float:
        """The largest error of a joint score that is allowed."""
        return _MAX_ERROR / max(1.0, (1 + len(self.layout.kinds)) / _FEW_KINDS)

    def coarse_gradient(
        self,
        grad: Float[Tensor, "batch fine"],
        as_returned: bool = False,
        out: Float[Tensor, "batch coarse"] | None = None,
    ) -> Float[Tensor, "batch coarse"]:
        """Sums over the fine labels of each group, and from mixed rows to their labels."""
        if self.mixing is None:
            return self._group_gradient(grad, as_returned, out)
        groups = self._group_gradient(grad, as_returned, None)
        return self.layout.coarse_gradient(groups, self.mixing, self.mixing_grad)

    @abstractmethod
    def _group_gradient(
        self, grad: Float[Tensor, "batch fine"], as_returned: bool, out: Float[Tensor, "batch coarse"] | None
    ) -> Float[Tensor, "batch group"]:
        """The gradient for the scores of the groups."""

    def of_samples(self, sample: Int[Tensor, " sample"]) -> GroupedSums:
        """The same with the group scores of these samples."""
        twin = copy(self)
        twin.groups = None if self.groups is None else self.groups[sample]
        return twin

    def without_scores(self) -> GroupedSums:
        """The same without the group scores, which coarse gradients do not need."""
        twin = copy(self)
        twin.groups = None
        return twin

    def log_shares(self, sample: Int[Tensor, " sample"], target: int) -> Float[Tensor, "sample fine"]:
        """0 for fine labels in the group of the label itself, log r for those in mixed rows, minus infinity else."""
        layout, count = self.layout, len(sample)
        column = self.targets.column[sample, target].unsqueeze(1)
        of_group = torch.full((count, layout.group_count), -torch.inf, dtype=torch.float64, device=column.device)
        of_group.scatter_(1, column, 0.0)
        if self.mixing is not None:
            mixing = self.mixing[sample].double().masked_fill(layout.edge_column != column, -torch.inf)
            of_group = of_group.scatter_reduce(1, layout.edge_row.expand(count, -1), mixing, reduce="amax")
        return of_group.index_select(1, layout.group_columns_of(self.targets.kind[target]))

    def add_shares(self, sample: Int[Tensor, " sample"], target: int, share: Float[Tensor, "sample fine"]) -> None:
        """Shares of fine labels in mixed rows are a gradient for log r."""
        if self.mixing_grad is None:
            return
        layout = self.layout
        group = layout.group_columns_of(self.targets.kind[target]).expand_as(share)
        by_group = share.new_zeros(len(sample), layout.group_count).scatter_add_(1, group, share)
        other = layout.edge_column != self.targets.column[sample, target].unsqueeze(1)
        edges = by_group.index_select(1, layout.edge_row).masked_fill_(other, 0.0)
        self.mixing_grad.index_add_(0, sample, -edges.to(self.mixing_grad.dtype))


def largest_size(values: Float[Tensor, "batch _"]) -> float:
    """The largest absolute value; infinite if there is no such number."""
    if not values.numel():
        return 0.0
    low, high = torch.aminmax(values)
    largest = max(-low.item(), high.item())
    return largest if largest == largest else math.inf


def top_score(scores: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch 1"]:
    """The largest score of each sample, to be subtracted; 0 if it is minus infinity or not a number."""
    top = scores.detach().amax(dim=1, keepdim=True)
    return top.masked_fill(~top.isfinite(), 0.0)


def gathered_sum(
    layout: GroupLayout, fine: Float[Tensor, "batch fine"], groups: Float[Tensor, "batch group"]
) -> Float[Tensor, "batch fine"]:
    """The joint scores in float64 by gathers alone: no branch on values, and minus infinity stays what it is.

    Differences and products with 0 would make it NaN.
    """
    total, groups = fine.double(), groups.double()
    for column in layout.group_columns:
        total = total + groups.index_select(1, column)
    return total - top_score(total)
