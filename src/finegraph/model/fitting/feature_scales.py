"""One scale for all features, so that the strengths of priors mean the same for any network.

It is one number for all columns: the relative sizes of columns carry information, and scaling each to variance 1 made
validation photos less likely (docs/training.md). A head fitted to scaled features takes unscaled ones after
`undo`. Cost: one pass over the features.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finegraph.nn import BipartiteHead, SoftmaxHead


class FeatureScales(NamedTuple):
    """The sizes of the features of fine and of coarse labels; the same number if both have the same features."""

    fine: float
    coarse: float

    @classmethod
    def of(
        cls, fine: Float[Tensor, "batch feature"], coarse: Float[Tensor, "batch coarse_feature"] | None = None
    ) -> FeatureScales:
        """The sizes of training features.

        Args:
            fine: the features of the fine labels.
            coarse: those of the coarse labels, if they have their own.
        """
        size = _size(fine)
        return cls(size, size if coarse is None else _size(coarse))

    def undo(self, head: BipartiteHead | SoftmaxHead) -> None:
        """Make a head that was fitted to scaled features take unscaled ones."""
        with torch.no_grad():
            head.fine.weight /= self.fine
            if isinstance(head, BipartiteHead):
                assert isinstance(head.coarse, nn.Linear)
                head.coarse.weight /= self.coarse
                if isinstance(head.numbers, nn.Linear):
                    head.numbers.weight /= self.coarse


def _size(features: Tensor) -> float:
    """The root of the mean variance of the columns; 1 if nothing varies."""
    return float(features.var(dim=0, correction=0).mean().sqrt()) or 1.0
