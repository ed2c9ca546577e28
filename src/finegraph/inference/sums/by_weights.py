"""Kinds in which most fine labels have weights of their own, such as percentages: sums by products with all weights.

Legend, for one kind: e = scores of the labels, E = exp(e - max e), W = weights (label, fine), S = E W, U = 1 / S.

    log sum_c W_ci exp(e_c)  =  log S_i + max e         the last term is the same for all fine labels and left out
    r_ic                     =  W_ci E_c U_i            which parent, given the fine label

With distinct rows there is nothing to share, so this beats the lists of edges of `kind_tensors.py` by far: a few passes
over (kind, batch, fine) instead of dozens over (batch, edge). Kinds with about as many labels are stacked. All is
float64, and scores too far apart for it, or ruled out, go by the edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.graph import Kind
from finegraph.inference.constants import Constants
from finegraph.inference.derivatives import first_derivatives_only
from finegraph.inference.sums.kind_tensors import KindTensors

_FEW_LABELS = 4
"""Up to so many labels are summed one by one."""
_STACK = 4
"""Kinds are padded to a multiple of so many labels before they are stacked."""
_WIDEST = 600.0
"""How far apart the scores of a kind may be: products of exponentials stay within float64."""
_EDGE, _PASS, _PRODUCT = 30.0, 10.0, 0.2
"""Costs per sample: of an edge by lists; of a fine label, and of one weight, by products."""


def pays(kind: KindTensors) -> bool:
    """Whether a kind is cheaper by products with all its weights than by the edges of its mixed rows."""
    fine = len(kind.group)
    return _PASS * fine + _PRODUCT * fine * kind.label_count < _EDGE * len(kind.edge_label)


class Stack(Constants):
    """Some kinds with about as many labels, side by side.

    Attributes:
        numbers: which kinds they are.
        columns: (kind, label) the coarse column of each label; for padding the first one again.
        weight: (kind, label, fine) the weights W; 0 for padding.
        target: (fine, kind * label) the weights of the links, so 0 where the parent is unknown.
    """

    columns: Tensor
    weight: Tensor
    target: Tensor

    def __init__(self, numbers: list[int], kinds: Sequence[Kind], starts: Sequence[int], width: int) -> None:
        self.numbers, self.width = numbers, width
        fine = kinds[0].fine_count
        columns = np.zeros((len(kinds), width), np.int64)
        target = np.zeros((fine, len(kinds), width))
        for place, (kind, start) in enumerate(zip(kinds, starts, strict=True)):
            columns[place] = start
            columns[place, : len(kind.labels)] += np.arange(len(kind.labels))
            target[:, place, : len(kind.labels)] = kind.matrix()
        weight = target.copy()
        for place, kind in enumerate(kinds):
            weight[kind.unknown, place, : len(kind.labels)] = kind.prior
        self.keep({"columns": columns, "weight": weight.transpose(1, 2, 0), "target": target.reshape(fine, -1)})

    def scores(self, coarse: Tensor) -> Tensor:
        """(kind, batch, label) the scores of the labels in float64."""
        chosen = coarse.double().index_select(1, self.columns.reshape(-1))
        return chosen.view(len(coarse), len(self.numbers), self.width).transpose(0, 1)

    def spread(self, labels: Float[Tensor, "kind batch label"]) -> Float[Tensor, "kind batch fine"]:
        """For each fine label the weighted sum over the labels."""
        if self.width > _FEW_LABELS:
            return torch.bmm(labels, self.weight)
        # Matrix products over so few labels are slower than sums.
        out = labels[:, :, :1] * self.weight[:, :1]
        for label in range(1, self.width):
            out.addcmul_(labels[:, :, label, None], self.weight[:, label, None])
        return out

    def collect(self, fine: Float[Tensor, "kind batch fine"]) -> Float[Tensor, "kind batch label"]:
        """For each label the weighted sum over the fine labels."""
        return torch.bmm(fine, self.weight.mT)

    def targets(self, fine: Tensor) -> Tensor:
        """(kind, batch, label) the weights of the links of fine labels."""
        return self.target.index_select(0, fine).view(len(fine), len(self.numbers), self.width).transpose(0, 1)


class Weighted(Constants):
    """All weighted kinds of a graph, in stacks."""

    def __init__(self, kinds: dict[int, Kind], starts: Sequence[int], fine_count: int) -> None:
        """Stack some kinds.

        Args:
            kinds: the weighted kinds by number.
            starts: the first coarse column of each kind of the graph.
            fine_count: how many fine labels there are.
        """
        widths = {number: -(-len(kind.labels) // _STACK) * _STACK for number, kind in kinds.items()}
        widths = {number: 2 if len(kinds[number].labels) == 2 else width for number, width in widths.items()}
        self.fine_count, self.kind_count = fine_count, len(kinds)
        self.stacks = []
        for width in sorted(set(widths.values())):
            numbers = [number for number in kinds if widths[number] == width]
            stack = Stack(numbers, [kinds[n] for n in numbers], [starts[n] for n in numbers], width)
            self.stacks.append(stack)

    def place_of(self, number: int) -> tuple[int, int]:
        """The stack that a kind is in, and its place there."""
        for place, stack in enumerate(self.stacks):
            if number in stack.numbers:
                return place, stack.numbers.index(number)
        raise KeyError(number)

    def widest(self, coarse: Float[Tensor, "batch coarse"]) -> float:
        """The largest difference of two scores of a kind; infinite where there is no such number."""
        widest = 0.0
        for stack in self.stacks if coarse.numel() else []:
            scores = stack.scores(coarse)
            widest = max(widest, float((scores.amax(dim=2) - scores.amin(dim=2)).amax()))
            if widest != widest:
                return torch.inf
        return widest

    def takes(self, coarse: Tensor | None) -> bool:
        """Whether scores are close enough together for these sums."""
        return coarse is None or self.widest(coarse.detach()) <= _WIDEST


class WeightedBatch:
    """E and U of a batch, and the sum over the kinds of log S.

    Attributes:
        share: per stack, (kind, batch, label) E.
        inverse: per stack, (kind, batch, fine) U.
        log_sums: (batch, fine) the sum of log S over all kinds.
    """

    def __init__(self, weighted: Weighted, coarse: Tensor | None, batch: int) -> None:
        self.weighted = weighted
        self.share: list[Tensor] = []
        self.inverse: list[Tensor] = []
        device = weighted.stacks[0].weight.device
        self.log_sums = torch.zeros(batch, weighted.fine_count, dtype=torch.float64, device=device)
        for stack in weighted.stacks:
            scores = self.log_sums.new_zeros(len(stack.numbers), batch, stack.width)
            if coarse is not None:
                scores = stack.scores(coarse)
                scores = scores - scores.amax(dim=2, keepdim=True)
            lowest = float(scores.amin()) if scores.numel() else 0.0
            share = scores.exp().contiguous()
            sums = stack.spread(share)
            self.log_sums += _sum_of_logs(sums, lowest)
            self.share.append(share)
            self.inverse.append(sums.reciprocal_())

    def to_labels(self, values: Float[Tensor, "batch fine"]) -> list[Tensor]:
        """Per stack, (kind, batch, label) the sum over fine labels of values r."""
        stacks = zip(self.weighted.stacks, self.share, self.inverse, strict=True)
        return [stack.collect(values * inverse).mul_(share) for stack, share, inverse in stacks]


def _sum_of_logs(values: Tensor, lowest: float) -> Tensor:
    """The sum over the first axis of log values; a logarithm is dear, so some values are multiplied first.

    Args:
        values: (kind, batch, fine) positive, of which none is much below exp(lowest).
        lowest: at most 0.
    """
    factors = 1
    while len(values) > 1 and (2 * factors + 1) * (10.0 - lowest) <= _WIDEST + 10.0 and factors < 8:
        half = len(values) // 2
        product = values[:half] * values[half : 2 * half]
        if len(values) % 2:
            product[0] *= values[-1]
        values, factors = product, 2 * factors + 1
    return values.log().sum(dim=0)


def weighted_sum(weighted: Weighted, coarse: Float[Tensor, "batch coarse"]) -> Float[Tensor, "batch fine"]:
    """The sum of log S over all weighted kinds, differentiable."""
    result: Tensor = _WeightedSum.apply(coarse, weighted)  # type: ignore[no-untyped-call]
    return result


class _WeightedSum(torch.autograd.Function):
    """d log S_i / d e_c = r_ic."""

    @staticmethod
    def forward(ctx: Any, coarse: Tensor, weighted: Weighted) -> Tensor:
        ctx.weighted = weighted
        ctx.save_for_backward(coarse)
        return WeightedBatch(weighted, coarse, len(coarse)).log_sums

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        first_derivatives_only()
        (coarse,) = ctx.saved_tensors
        found = WeightedBatch(ctx.weighted, coarse, len(coarse)).to_labels(grads[0].double())
        return put_columns(ctx.weighted, found, coarse.shape[1]).to(coarse.dtype), None


def put_columns(weighted: Weighted, values: list[Tensor], count: int) -> Float[Tensor, "batch coarse"]:
    """Values per stack (kind, batch, label) as columns of coarse labels; 0 for those of other kinds."""
    out = values[0].new_zeros(values[0].shape[1], count)
    for stack, value in zip(weighted.stacks, values, strict=True):
        out.index_add_(1, stack.columns.reshape(-1), value.transpose(0, 1).reshape(len(out), stack.columns.numel()))
    return out
