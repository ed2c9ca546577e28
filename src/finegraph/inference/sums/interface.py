"""The interface of the sums over a graph, and what the implementations by rows and by columns share.

One object computes the sums of one batch, in the order of the formulas of docs/idea.md:

    joint_scores       (2)   s, from fine and coarse scores
    set_probs          (3)   takes p = softmax(s)
    target_probs       (4)   p_y and p^j[t_j] of the targets
    gradient           (6)   dL/ds
    coarse_gradient    (7)   dL/df^j

There are three implementations: `by_rows.py`, `by_columns.py` and `by_weights.py`. They give the same results and
differ in time and memory only; `strategy.py` chooses between them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from copy import copy
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.inference.numerics import largest_size
from finegraph.inference.sums.groups import GroupLayout
from finegraph.inference.sums.targets import Targets

_MIN_PROBABILITY = {torch.float32: 1e-30, torch.float64: 1e-290}
"""Terms of a probability below this may have underflowed."""
MANY_KINDS = 32
"""With more kinds, the rounding error that they have in common must be corrected in float32."""
_MAX_ERROR, _FEW_KINDS = 1e-5, 16
"""A plain float32 sum is used up to this estimated error, which is lowered above few kinds, since gradients add up the
errors of all kinds."""
ROUNDING = torch.finfo(torch.float32).eps / 2
"""The relative error of one float32 operation."""


class LogSpaceSums(ABC):
    """What the loss needs of targets whose probabilities underflowed."""

    @abstractmethod
    def log_shares(self, sample: Int[Tensor, " sample"], target: int) -> Float[Tensor, "sample fine"]:
        """Log r of a target, in float64: the log probability of its label given each fine label."""

    @abstractmethod
    def add_shares(self, sample: Int[Tensor, " sample"], target: int, share: Float[Tensor, "sample fine"]) -> None:
        """Add the contribution of a target computed in log space to the coarse gradient.

        Args:
            sample: the samples.
            target: the target.
            share: weight scale p_i r / p_t for each fine label i.
        """

    def log_sum(self, log_terms: Float[Tensor, "sample fine"]) -> Float[Tensor, "sample 1"]:
        """The log of the sum of the terms of all fine labels."""
        return torch.logsumexp(log_terms, dim=1, keepdim=True)


class OtherFactors(NamedTuple):
    """What terms of the loss that are not about labels add to the factors of the fine probabilities in (6).

    Attributes:
        weight: the summed weight of these terms.
        sums: the sum over these terms of likelihood times the gradient for their probability; it is overwritten.
    """

    weight: float | Float[Tensor, "_ 1"]
    sums: Float[Tensor, "batch fine"]

    def to(self, dtype: torch.dtype) -> OtherFactors:
        """The same in a dtype."""
        weight = self.weight if isinstance(self.weight, float) else self.weight.to(dtype)
        return OtherFactors(weight, self.sums.to(dtype))


class GraphSums(LogSpaceSums):
    """The sums over a graph for one batch of scores.

    Attributes:
        dtype: the dtype of joint scores, probabilities and gradients.
        smallest: probabilities below this must be computed in log space.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype, self.smallest = dtype, min_probability(dtype)

    @abstractmethod
    def joint_scores(
        self, fine: Float[Tensor, "batch fine"], out: Float[Tensor, "batch fine"] | None = None
    ) -> Float[Tensor, "batch fine"]:
        """The joint scores (2), up to a constant per sample; the fine scores themselves if there is nothing to add.

        Args:
            fine: the fine scores, in float32 or wider.
            out: memory that the result may be written to.
        """

    @abstractmethod
    def set_probs(self, probs: Float[Tensor, "batch fine"], targets: Targets) -> None:
        """Set the fine probabilities (3), which may be overwritten, and the targets of the batch."""

    @abstractmethod
    def target_probs(self, others: Float[Tensor, "batch _"] | None = None) -> Float[Tensor, "batch term"]:
        """The probabilities (4) of the fine label and of each target; inexact below `smallest`.

        Args:
            others: the probabilities of other terms of the loss, to be put behind these; None if there are none.
        """

    @abstractmethod
    def gradient(
        self,
        prob_grads: Float[Tensor, "batch term"],
        weight: Float[Tensor, "_ term"] | None,
        scale: float | Float[Tensor, ""],
        others: OtherFactors | None = None,
    ) -> Float[Tensor, "batch fine"]:
        """The gradient (6) for the joint scores; overwrites the probabilities.

        Args:
            prob_grads: the gradient for the probabilities of `target_probs`, - weight scale / probability.
            weight: the weights of the fine label and of each target; None if all are 1.
            scale: the factor of the loss.
            others: what other terms of the loss add to the factors of the probabilities; None if there are none.
        """

    @abstractmethod
    def coarse_gradient(
        self,
        grad: Float[Tensor, "batch fine"],
        unchanged: bool = False,
        out: Float[Tensor, "batch coarse"] | None = None,
    ) -> Float[Tensor, "batch coarse"]:
        """The gradient (7) for the coarse scores.

        Args:
            grad: the gradient for the joint scores.
            unchanged: whether `grad` is the unchanged result of `gradient`, so that its intermediate sums are valid.
            out: memory that the result may be written to.
        """

    @abstractmethod
    def of_samples(self, sample: Int[Tensor, " sample"]) -> GraphSums:
        """Sums of some of the samples, for their joint scores."""


class GroupShares(LogSpaceSums):
    """The shares of targets in the groups of a layout.

    Attributes:
        layout: the groups.
        mixing: log r of the edges of mixed rows; None if there are none.
        mixing_grad: the gradient for log r.
        targets: the targets of the batch.
    """

    layout: GroupLayout
    mixing: Float[Tensor, "batch edge"] | None
    mixing_grad: Float[Tensor, "batch edge"] | None
    targets: Targets

    def log_shares(self, sample: Int[Tensor, " sample"], target: int) -> Float[Tensor, "sample fine"]:
        """0 for fine labels in the group of the label itself, log r for those in mixed rows, minus infinity else."""
        layout, count = self.layout, len(sample)
        column = self.targets.column[sample, target].unsqueeze(1)
        of_group = torch.full((count, layout.group_count), -torch.inf, dtype=torch.float64, device=column.device)
        # The label of another process has no group here.
        own = torch.where(column >= 0, 0.0, -torch.inf).double()
        of_group.scatter_(1, column.clamp_min(0), own)
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


class GroupedSums(GroupShares, GraphSums):
    """The common part of sums by rows and by columns: the scores of groups, and mixed rows.

    Attributes:
        groups: the scores of the groups; None without coarse scores.
        largest_group: the largest absolute score of a group; infinite if a score is NaN.
    """

    def __init__(
        self,
        layout: GroupLayout,
        groups: Float[Tensor, "batch group"] | None,
        mixing: Float[Tensor, "batch edge"] | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(dtype)
        self.layout, self.groups, self.mixing = layout, groups, mixing
        self.largest_group = 0.0 if groups is None else largest_size(groups)
        self.mixing_grad = None

    @abstractmethod
    def wide_joint_scores(self, fine: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch fine"]:
        """The joint scores in float64, whatever the dtype of the batch.

        The largest score of each sample is subtracted, which changes no posterior. With many kinds or large scores, a
        plain float32 sum would lose the small differences that the posterior depends on.
        """

    def may_use_float32(self, fine: Float[Tensor, "batch fine"]) -> bool:
        """Whether all scores are finite float32 values, so that a float32 sum may suffice."""
        group_dtype = self.dtype if self.groups is None else self.groups.dtype
        dtypes = {self.dtype, fine.dtype, group_dtype}
        return dtypes == {torch.float32} and self.largest_group < math.inf and fine.numel() > 0

    def float32_suffices(self, largest_sum: float) -> bool:
        """Whether float32 sums of this magnitude are precise enough."""
        return float32_suffices(len(self.layout.kinds), largest_sum, self.largest_group)

    def of_samples(self, sample: Int[Tensor, " sample"]) -> GroupedSums:
        """A copy with the group scores of these samples."""
        part = copy(self)
        part.groups = None if self.groups is None else self.groups[sample]
        return part

    def without_scores(self) -> GroupedSums:
        """A copy without the group scores, which coarse gradients do not need."""
        part = copy(self)
        part.groups = None
        return part


def min_probability(dtype: torch.dtype) -> float:
    """Probabilities below this must be computed in log space."""
    return _MIN_PROBABILITY[dtype]


def max_error(kinds: int) -> float:
    """The largest allowed error of a joint score, with this many kinds."""
    return _MAX_ERROR / max(1.0, (1 + kinds) / _FEW_KINDS)


def float32_suffices(kinds: int, largest_sum: float, largest_group: float) -> bool:
    """Whether float32 sums are precise enough, estimated as one rounding error per kind at their magnitude.

    Args:
        kinds: the number of kinds.
        largest_sum: the largest absolute joint score.
        largest_group: the largest absolute score of a group.
    """
    terms = math.sqrt(kinds)
    return terms * max(largest_sum, terms * largest_group) * ROUNDING <= max_error(kinds)


def top_score(scores: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch 1"]:
    """The largest score of each sample, to be subtracted; 0 if it is not finite."""
    top = scores.detach().amax(dim=1, keepdim=True)
    return top.masked_fill(~top.isfinite(), 0.0)


def gathered_sum(
    layout: GroupLayout, fine: Float[Tensor, "batch fine"], groups: Float[Tensor, "batch group"]
) -> Float[Tensor, "batch fine"]:
    """The joint scores in float64 by gathers alone, without a branch on values and correct for minus infinity.

    Products with 0 would turn minus infinity into NaN.
    """
    total, groups = fine.double(), groups.double()
    for column in layout.group_columns:
        total = total + groups.index_select(1, column)
    return total - top_score(total)
