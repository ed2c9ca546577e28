"""Sums by products with all weights, for kinds in which most fine labels have their own weights, such as percentages.

Legend, for one kind: e = scores of the labels, E = exp(e - max e), W = weights (label, fine), S = E W, U = 1 / S,
p = fine probabilities, P = probabilities of the labels, t = weights of the targets, one per label, g = dL/ds.

    log sum_c W_ci exp(e_c)  =  log S_i + max e            the last term is the same for all fine labels and left out
    r_ic                     =  W_ci E_c U_i               which parent, given the fine label
    P_c                      =  E_c sum_i p_i U_i W_ci
    V_i                      =  U_i sum_c W_ci E_c t_c / P_c                           the share of the targets in i
    dL/ds_i                 +=  p_i (sum_c t_c - V_i)
    dL/de_c                  =  E_c sum_i W_ci U_i (g_i + p_i V_i) - t_c

Distinct rows cannot be grouped, so this is far faster than lists of edges: a few passes over (kind, batch, fine)
instead of dozens over (batch, edge). Kinds with similar numbers of labels are stacked. Everything is float64. The other
kinds of the graph are summed by rows or by columns, by the *inner* sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.graph import Kind
from finegraph.inference.numerics import Constants, whole_tiles
from finegraph.inference.sums.interface import GraphSums, GroupedSums, OtherFactors
from finegraph.inference.sums.targets import KindColumns, Targets

_FEW_LABELS = 4
"""Up to this many labels are summed one by one."""
_WIDTH_STEP = 4
"""Kinds are padded to a multiple of this many labels before they are stacked."""
_MAX_SPREAD = 600.0
"""The largest difference of scores within a kind for which products of exponentials stay within float64."""


def stack_width(label_count: int) -> int:
    """The number of labels of a kind in its stack, with padding."""
    return 2 if label_count == 2 else -(-label_count // _WIDTH_STEP) * _WIDTH_STEP


class WeightStack(Constants):
    """Kinds with similar numbers of labels, side by side.

    Attributes:
        columns: (kind, label) the coarse column of each label; padding repeats the first one.
        weight: (kind, label, fine) the weights W; 0 for padding.
    """

    columns: Tensor
    weight: Tensor

    def __init__(self, kinds: Sequence[KindColumns], width: int) -> None:
        self.numbers, self.width = [one.number for one in kinds], width
        columns = np.zeros((len(kinds), width), np.int64)
        weight = np.zeros((kinds[0].kind.fine_count, len(kinds), width))
        for place, (kind, _, start) in enumerate(kinds):
            columns[place] = start
            columns[place, : len(kind.labels)] += np.arange(len(kind.labels))
            weight[:, place, : len(kind.labels)] = _weights_with_prior(kind)
        self.store_arrays({"columns": columns, "weight": weight.transpose(1, 2, 0)})

    @property
    def target_count(self) -> int:
        """The number of targets of the kinds: one per label, with padding."""
        return self.columns.numel()

    def scores(self, coarse: Float[Tensor, "batch coarse"]) -> Float[Tensor, "kind batch label"]:
        """The scores of the labels in float64."""
        return self.by_kind(coarse.double().index_select(1, self.columns.reshape(-1)))

    def by_kind(self, targets: Float[Tensor, "batch target"]) -> Float[Tensor, "kind batch label"]:
        """The values of the targets of these kinds, kind by kind."""
        return targets.view(len(targets), len(self.numbers), self.width).transpose(0, 1)

    def by_target(self, labels: Float[Tensor, "kind batch label"]) -> Float[Tensor, "batch target"]:
        """The values of the labels in the order of the targets."""
        return labels.transpose(0, 1).reshape(labels.shape[1], self.target_count)

    def to_fine(self, labels: Float[Tensor, "kind batch label"]) -> Float[Tensor, "kind batch fine"]:
        """The weighted sum over the labels of each fine label."""
        if self.width > _FEW_LABELS:
            return torch.bmm(whole_tiles(labels), self.weight)[:, : labels.shape[1]]
        # With so few labels, matrix products are slower than sums.
        out = labels[:, :, :1] * self.weight[:, :1]
        for label in range(1, self.width):
            out.addcmul_(labels[:, :, label, None], self.weight[:, label, None])
        return out

    def to_labels(self, fine: Float[Tensor, "kind batch fine"]) -> Float[Tensor, "kind batch label"]:
        """The weighted sum over the fine labels of each label."""
        return torch.bmm(fine, self.weight.mT)


def _weights_with_prior(kind: Kind) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The weights (fine, label) of a kind; the rows of unknown parents are the prior of its labels."""
    weight = kind.matrix()
    weight[kind.unknown] = kind.prior
    return weight


class WeightTables(Constants):
    """All kinds of a graph that are summed by weights, in stacks."""

    def __init__(self, kinds: Sequence[KindColumns]) -> None:
        self.kind_count = len(kinds)
        self.fine_count = kinds[0].kind.fine_count
        widths = [stack_width(len(one.kind.labels)) for one in kinds]
        self.stacks = [
            WeightStack([one for one, own in zip(kinds, widths, strict=True) if own == width], width)
            for width in sorted(set(widths))
        ]

    @property
    def target_count(self) -> int:
        """The number of targets of all kinds."""
        return sum(stack.target_count for stack in self.stacks)

    def are_exact_for(self, coarse: Float[Tensor, "batch coarse"]) -> bool:
        """Whether the scores of each kind are close enough for products of exponentials; False if one is NaN."""
        spread = 0.0
        for stack in self.stacks if coarse.numel() else []:
            scores = stack.scores(coarse.detach())
            spread = max(spread, float((scores.amax(dim=2) - scores.amin(dim=2)).amax().nan_to_num(nan=torch.inf)))
        return spread <= _MAX_SPREAD


class WeightSums(GraphSums):
    """The sums of one batch.

    Attributes:
        share: per stack, E.
        inverse: per stack, U.
        log_sums: the sum of log S over all kinds.
        taken: per stack, V times the factor of the loss, once `gradient` has computed it.
        taken_in_log_space: the parts of p V from targets computed in log space: stack, kind, samples and values.
    """

    def __init__(
        self, tables: WeightTables, inner: GroupedSums, coarse: Float[Tensor, "batch coarse"] | None, batch: int
    ) -> None:
        super().__init__(inner.dtype)
        self.tables, self.inner = tables, inner
        self.share: list[Tensor] = []
        self.inverse: list[Tensor] = []
        self.taken: list[Tensor] = []
        self.taken_in_log_space: list[tuple[int, int, Tensor, Tensor]] = []
        device = tables.stacks[0].weight.device
        self.log_sums = torch.zeros(batch, tables.fine_count, dtype=torch.float64, device=device)
        for stack in tables.stacks:
            scores = self.log_sums.new_zeros(len(stack.numbers), batch, stack.width)
            if coarse is not None:
                scores = stack.scores(coarse)
                scores = scores - scores.amax(dim=2, keepdim=True)
            lowest = float(scores.amin()) if scores.numel() else 0.0
            share = scores.exp().contiguous()
            sums = stack.to_fine(share)
            self.log_sums += _sum_of_logs(sums, lowest)
            self.share.append(share)
            self.inverse.append(sums.reciprocal_())

    def joint_scores(
        self, fine: Float[Tensor, "batch fine"], out: Float[Tensor, "batch fine"] | None = None
    ) -> Float[Tensor, "batch fine"]:
        """The sums of logs plus the scores of the other kinds; in float64 whatever the dtype."""
        return self.inner.wide_joint_scores(fine.double() + self.log_sums)

    def set_probs(self, probs: Float[Tensor, "batch fine"], targets: Targets) -> None:
        """Keep the probabilities in float64; the other kinds get them in their own dtype."""
        self.probs = probs
        self.inner_count = targets.column.shape[1] - self.tables.target_count
        self.inner.set_probs(probs.to(self.dtype, copy=True), targets.first(self.inner_count))

    def target_probs(self, others: Float[Tensor, "batch _"] | None = None) -> Float[Tensor, "batch term"]:
        """P of all labels, after the targets of the other kinds."""
        parts = [self.inner.target_probs().double()]
        for stack, share, inverse in zip(self.tables.stacks, self.share, self.inverse, strict=True):
            parts.append(stack.by_target(stack.to_labels(self.probs * inverse).mul_(share)))
        if others is not None:
            parts.append(others.double())
        return torch.cat(parts, dim=1)

    def gradient(
        self,
        prob_grads: Float[Tensor, "batch term"],
        weight: Float[Tensor, "_ term"] | None,
        scale: float | Float[Tensor, ""],
        others: OtherFactors | None = None,
    ) -> Float[Tensor, "batch fine"]:
        """The gradient of the other kinds, and p (sum t - V) of these."""
        assert weight is not None  # kinds summed by weights have a target weight for each label
        terms = 1 + self.inner_count
        others = None if others is None else others.to(self.dtype)
        grad = self.inner.gradient(prob_grads[:, :terms].to(self.dtype), weight[:, :terms], scale, others)
        # The weights of targets that underflowed are included here; their part of V is 0.
        self.target_weight = weight[:, terms:].double() * scale
        own_factors = self.target_weight.sum(dim=1, keepdim=True)
        parts = self._by_stack(prob_grads[:, terms:])
        for stack, part, share, inverse in zip(self.tables.stacks, parts, self.share, self.inverse, strict=True):
            self.taken.append(stack.to_fine(share * stack.by_kind(-part.double())).mul_(inverse))
            own_factors = own_factors - self.taken[-1].sum(dim=0)
        return grad.add_(self.probs * own_factors)

    def _by_stack(self, targets: Float[Tensor, "_ target"]) -> tuple[Float[Tensor, "_ _"], ...]:
        """The targets of these kinds, stack by stack."""
        return torch.split(targets, [stack.target_count for stack in self.tables.stacks], dim=1)

    def coarse_gradient(
        self,
        grad: Float[Tensor, "batch fine"],
        unchanged: bool = False,
        out: Float[Tensor, "batch coarse"] | None = None,
    ) -> Float[Tensor, "batch coarse"]:
        """The gradient of the other kinds, and dL/de of these."""
        coarse_grad = self.inner.coarse_gradient(grad).double()
        wide = grad.double()
        for values in self.taken:
            values.mul_(self.probs).add_(wide)
        for place, kind, sample, more in self.taken_in_log_space:
            self.taken[place][kind].index_add_(0, sample, more)
        for place, (stack, inverse) in enumerate(zip(self.tables.stacks, self.inverse, strict=True)):
            values = self.taken[place].mul_(inverse) if self.taken else wide * inverse
            labels = stack.by_target(stack.to_labels(values).mul_(self.share[place]))
            if self.taken:
                labels = labels - self._by_stack(self.target_weight)[place]
            coarse_grad.index_add_(1, stack.columns.reshape(-1), labels)
        return coarse_grad

    def of_samples(self, sample: Int[Tensor, " sample"]) -> WeightSums:
        """A copy with the sums of logs of these samples."""
        part = copy(self)
        part.log_sums, part.inner = self.log_sums[sample], self.inner.of_samples(sample)
        return part

    def _place_of(self, target: int) -> tuple[int, int, int]:
        """The stack of a target, its kind within the stack, and its label."""
        target -= self.inner_count
        for place, stack in enumerate(self.tables.stacks):
            if target < stack.target_count:
                return place, *divmod(target, stack.width)
            target -= stack.target_count
        raise IndexError(target)

    def log_shares(self, sample: Int[Tensor, " sample"], target: int) -> Float[Tensor, "sample fine"]:
        """Log r = log W + log E + log U."""
        if target < self.inner_count:
            return self.inner.log_shares(sample, target)
        stack, kind, label = self._place_of(target)
        weight = self.tables.stacks[stack].weight[kind, label].log()
        share = self.share[stack][kind].index_select(0, sample)[:, label, None].log()
        return weight + share + self.inverse[stack][kind].index_select(0, sample).log()

    def add_shares(self, sample: Int[Tensor, " sample"], target: int, share: Float[Tensor, "sample fine"]) -> None:
        """Remember the shares of a target; `coarse_gradient` adds them."""
        if target < self.inner_count:
            self.inner.add_shares(sample, target, share)
            return
        stack, kind, _ = self._place_of(target)
        self.taken_in_log_space.append((stack, kind, sample, share))


def _sum_of_logs(values: Float[Tensor, "kind batch fine"], lowest: float) -> Float[Tensor, "batch fine"]:
    """The sum over the kinds of log values. Logarithms are slow, so some values are multiplied first.

    Args:
        values: positive values, none of them much below exp(lowest).
        lowest: at most 0.
    """
    factors = 1
    while len(values) > 1 and (2 * factors + 1) * (10.0 - lowest) <= _MAX_SPREAD + 10.0 and factors < 8:
        half = len(values) // 2
        product = values[:half] * values[half : 2 * half]
        if len(values) % 2:
            product[0] *= values[-1]
        values, factors = product, 2 * factors + 1
    return values.log().sum(dim=0)
