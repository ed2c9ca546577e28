"""The terms of the loss of weighted kinds, and their gradients; see `weighted.py` for the letters.

With p = fine probabilities, t = target weights of the labels, P = probabilities of the labels, g = dL/ds of all terms:

    P_c       =  E_c sum_i p_i U_i W_ci
    V_i       =  U_i sum_c W_ci E_c t_c / P_c                        what pulls at fine label i
    dL/ds_i  +=  p_i (sum_c t_c - V_i)
    dL/de_c   =  - t_c + E_c sum_i W_ci U_i (g_i + p_i V_i)
"""

from __future__ import annotations

import torch
from torch import Tensor

from finegraph.inference.sums.by_weights import WeightedBatch, put_columns

_TINY = 1e-290


class TooSmallError(ArithmeticError):
    """A target has a probability below what float64 holds; the sums by edges can do it in log space."""


class WeightedLoss:
    """The terms of the weighted kinds of some samples."""

    def __init__(self, batch: WeightedBatch, targets: list[Tensor], probs: Tensor) -> None:
        """Find the loss of each sample and what it adds to dL/ds.

        Args:
            batch: the sums of the samples.
            targets: per stack, (kind, batch, label) the weight of each label.
            probs: (batch, fine) the fine probabilities in float64.
        """
        self.batch, self.targets, self.probs = batch, targets, probs
        self.loss = probs.new_zeros(len(probs))
        self.pulls: list[Tensor] = []
        pull, total = torch.zeros_like(probs), probs.new_zeros(len(probs))
        stacks = zip(batch.weighted.stacks, batch.share, batch.inverse, batch.to_labels(probs), targets, strict=True)
        for stack, share, inverse, label_probs, target in stacks:
            observed = target > 0
            label_probs = torch.where(observed, label_probs, 1.0)
            if label_probs.numel() and float(label_probs.amin()) < _TINY:
                raise TooSmallError
            self.loss -= (target * label_probs.log()).sum(dim=(0, 2))
            self.pulls.append(stack.spread(target * share / label_probs).mul_(inverse))
            pull += self.pulls[-1].sum(dim=0)
            total += target.sum(dim=(0, 2))
        self.grad = probs * (total.unsqueeze(1) - pull)

    def coarse_grads(self, grad: Tensor, scale: float | Tensor, count: int) -> Tensor:
        """(batch, coarse) the gradient for the coarse scores.

        Args:
            grad: (batch, fine) dL/ds of all terms of the loss, in float64, times `scale`.
            scale: the factor of all gradients.
            count: how many coarse columns there are.
        """
        found = []
        probs = self.probs * scale
        stacks = zip(self.batch.weighted.stacks, self.batch.share, self.batch.inverse, self.pulls, strict=True)
        for (stack, share, inverse, pull), target in zip(stacks, self.targets, strict=True):
            values = pull.mul_(probs).add_(grad).mul_(inverse)
            found.append(stack.collect(values).mul_(share) - target * scale)
        return put_columns(self.batch.weighted, found, count)
