"""The interface of the sums over a graph, what the implementations by rows and by columns share, and the strategies.

One object computes the sums of one batch, in the order of the formulas of docs/idea.md:

    joint_scores       (2)   s, from fine and coarse scores
    set_probs          (3)   takes p = softmax(s)
    target_probs       (4)   p_y and p^j[t_j] of the targets
    gradient           (6)   dL/ds
    coarse_gradient    (7)   dL/df^j

There are three implementations: `by_rows.py`, `by_columns.py` and `by_weights.py`; `graph_tensors.py` chooses by the
strategy, and by the cost model where the strategy leaves something open. All strategies give the same results; they
differ in time and memory only. Costs are in nanoseconds per fine label and sample of a training step, measured on an
ordinary CPU with 128 samples; only their ratios matter. A step from fine and coarse scores makes four sums: joint
scores, target probabilities, gradient and coarse gradient. A step from joint scores makes only the second and third.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.inference.numerics import largest_size
from finegraph.inference.sums.groups import GroupLayout, KindGroups
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


# ---- strategies ---------------------------------------------------------------------------------------------------

_BATCH = 128
_ROWS = ((750_000, 3.0), (3_000_000, 5.0), (np.inf, 7.5))
"""Rows: a step without sums, by the size of the scores in bytes: matrices are transposed and may not fit in caches."""
_ROWS_COARSE = 2.5
"""Rows: per fine and coarse label, added if there are coarse scores."""
_ADD_ROW = 0.04
"""Rows: per row to add."""
_COLUMNS = 1.7
"""Columns: a step without sums."""
_PRODUCT, _MIN_PRODUCT = 0.037, 1.1
"""Columns: a matrix product per row of the matrix, and its minimum, since it reads and writes all scores."""
_TO_BLOCKS, _FROM_BLOCKS = 0.9, 1.0
"""Columns: scattering into blocks, and gathering from them."""
_LIST, _CHILD, _LIST_CALL = 2.2, 4.0, 80_000.0
"""Columns: a listed kind if there are coarse scores; each child of the true label; and the fixed cost of a kind."""
_WEIGHT_EDGE, _WEIGHT_PASS, _WEIGHT_PRODUCT = 30.0, 10.0, 0.2
"""Weights: an edge, if summed by lists; a fine label and a weight, if summed by products."""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """How to sum over a graph. The cost model decides fields that are None."""

    by: Literal["rows", "columns"] | None = None
    """Labels as rows or as columns. The cost model chooses rows for float32 only, which torch adds quickly."""
    weights: bool | None = None
    """Whether kinds with mixed rows are summed by products with all their weights."""
    dense_kinds: int | None = None
    """Columns: the number of kinds summed by matrix product, starting with those with the fewest groups."""
    blocks: bool | None = None
    """Columns: whether these products run over blocks of fine labels rather than over all of them."""
    max_padding: int = 8
    """Columns: children are stored as a padded table if it has at most this many entries per fine label."""
    max_composite_cost: float = 0.7
    """Rows: composite kinds are used if at most this share of the row additions remains."""
    max_list: int = 64
    """Rows: longer lists are summed in pieces first, which keeps rounding errors small."""
    list_piece: int = 32
    """Rows: the approximate number of rows in a piece."""
    max_rows: float = 2.7
    """Rows: a table with more than this many rows per fine label is made for part of the batch at a time."""
    min_samples: int = 16
    """Rows: smaller batches are never split."""
    chunk: int = 1 << 21
    """Columns and weights: batches are split into chunks of about this many joint scores per thread."""


@dataclass(frozen=True, eq=False)
class ColumnChoice:
    """The kinds that are summed by matrix product, and whether over all fine labels or over blocks.

    Attributes:
        dense: the positions of the kinds summed by product; the others are summed by lists.
        block: the block of each fine label; labels with the same group in all dense kinds share one. None if there are
            enough blocks that the product runs over all fine labels.
    """

    dense: tuple[int, ...]
    block: Int[NDArray[np.int64], " fine"] | None


def rows_are_used(strategy: Strategy, kinds: Sequence[KindGroups], fine_count: int, coarse_scores: bool) -> bool:
    """Whether to sum by rows, with coarse scores or from joint scores alone."""
    if not kinds or strategy.by is not None:
        return bool(kinds) and strategy.by == "rows"
    base = next(cost for size, cost in _ROWS if 4 * _BATCH * fine_count <= size)
    sums = 2 * _ADD_ROW * _row_additions(kinds, fine_count)
    rows = _BATCH * (base * fine_count + sums)
    if coarse_scores:
        groups = sum(kind.count for kind in kinds)
        rows += _BATCH * (_ROWS_COARSE * (fine_count + groups) + sums)
    choice = choose_columns(strategy, kinds, fine_count)
    return rows <= _columns_cost(kinds, fine_count, choice, coarse_scores)


def weights_are_used(strategy: Strategy, fine_count: int, label_count: int, mixed_edges: int) -> bool:
    """Whether a kind is summed by products with all its weights rather than by the edges of its mixed rows."""
    if strategy.weights is not None:
        return strategy.weights and mixed_edges > 0
    products = _WEIGHT_PASS * fine_count + _WEIGHT_PRODUCT * fine_count * label_count
    return products < _WEIGHT_EDGE * mixed_edges


def choose_columns(strategy: Strategy, kinds: Sequence[KindGroups], fine_count: int) -> ColumnChoice:
    """The cheapest choice that the strategy allows; kinds with the fewest groups are summed by product first."""
    order = sorted(range(len(kinds)), key=lambda place: kinds[place].count)
    candidates = [ColumnChoice((), None)]
    block: NDArray[np.int64] | None = np.zeros(fine_count, np.int64)
    for number, place in enumerate(order, start=1):
        if block is not None:
            _, block = np.unique(block * kinds[place].count + kinds[place].group, return_inverse=True)
            block = block if _blocks_are_used(strategy, block, fine_count) else None
        candidates.append(ColumnChoice(tuple(sorted(order[:number])), block))
    if strategy.dense_kinds is not None:
        return candidates[min(strategy.dense_kinds, len(kinds))]
    return min(candidates, key=lambda choice: _columns_cost(kinds, fine_count, choice, coarse_scores=True))


def _blocks_are_used(strategy: Strategy, block: NDArray[np.int64], fine_count: int) -> bool:
    """Whether there are few enough blocks for products over blocks."""
    return 4 * (int(block.max()) + 1) <= fine_count if strategy.blocks is None else strategy.blocks


def _row_additions(kinds: Sequence[KindGroups], fine_count: int) -> int:
    """The approximate number of rows that a sum by rows adds; follows `composites_of`."""
    total, members, combinations = 0, 0, 1
    for count in sorted(kind.count for kind in kinds):
        merged = min(combinations * count, fine_count)
        if members and (fine_count + merged * (members + 1)) * members > (fine_count + combinations * members) * (
            members + 1
        ):
            total += fine_count + combinations * members
            members, merged = 0, count
        members, combinations = members + 1, merged
    total += fine_count + combinations * members
    return min(total, fine_count * len(kinds))


def _columns_cost(kinds: Sequence[KindGroups], fine_count: int, choice: ColumnChoice, coarse_scores: bool) -> float:
    """The cost of sums by columns for a batch, in nanoseconds."""
    groups = sum(kinds[place].count for place in choice.dense)
    cost, sums = _COLUMNS * fine_count, 4 if coarse_scores else 2
    if choice.block is not None:
        blocks = int(choice.block.max() + 1)
        cost += (_TO_BLOCKS + _FROM_BLOCKS * sums / 2) * fine_count + sums * blocks * _PRODUCT * groups
    elif choice.dense:
        cost += sums * fine_count * max(_MIN_PRODUCT, _PRODUCT * groups)
    calls = 0.0
    for place in set(range(len(kinds))) - set(choice.dense):
        cost += _CHILD * int(kinds[place].sizes.max()) + (_LIST * fine_count if coarse_scores else 0.0)
        calls += _LIST_CALL
    return _BATCH * cost + calls
