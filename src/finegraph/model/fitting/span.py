"""Features as columns that are easy to fit: centred, rotated into the span of the samples, with a column for the bias.

Both priors on the weights are isotropic in feature space, so the best weights lie in the span of
the samples. With fewer samples than features it is enough to fit in that span: an exact change of coordinates that
reduces the work per step from `features` to `samples` columns. Centring is exact too, because the biases, which have
no prior, absorb it.

The bias is the weight of one constant column. Its size does not change the result but how fast biases are learnt; about
the spread of the features along their widest direction is good, and a sixteenth of their variance estimates it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

_ROTATION_SHARE = 0.75
"""With fewer samples than this share of the features, rotating saves time."""
_WIDEST_SHARE = 1 / 16


@dataclass(frozen=True, kw_only=True)
class Span:
    """The mapping from features to columns, and from weights to rows.

    Attributes:
        mean: the mean of the features.
        basis: orthonormal columns that span the centred samples; None if features are not rotated.
        constant: the number in the column of the bias.
    """

    mean: Float[Tensor, " feature"]
    basis: Float[Tensor, "feature axis"] | None
    constant: float

    @property
    def feature_count(self) -> int:
        """The number of columns of the features."""
        return len(self.mean)

    def inside(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch axis"]:
        """Features, centred, in the coordinates of the span."""
        centred = features - self.mean
        return centred if self.basis is None else centred @ self.basis

    def columns(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch column"]:
        """The same with the column of the bias."""
        inside = self.inside(features)
        return torch.cat([inside, inside.new_full((len(inside), 1), self.constant)], dim=1)

    def rows(self, weight: Float[Tensor, "row feature"], bias: Float[Tensor, " row"]) -> Float[Tensor, "row column"]:
        """The rows that act on columns as weights and biases do on features."""
        inside = weight if self.basis is None else weight @ self.basis
        return torch.cat([inside, ((bias + weight @ self.mean) / self.constant).unsqueeze(1)], dim=1)

    def weights(self, rows: Float[Tensor, "row column"]) -> tuple[Float[Tensor, "row feature"], Float[Tensor, " row"]]:
        """The weights and biases that act on features as the rows do on columns."""
        weight = rows[:, :-1] if self.basis is None else rows[:, :-1] @ self.basis.t()
        return weight, rows[:, -1] * self.constant - weight @ self.mean

    def of_inside(self) -> Span:
        """The span of features that are already in its coordinates."""
        size = len(self.mean) if self.basis is None else self.basis.shape[1]
        return Span(mean=self.mean.new_zeros(size), basis=None, constant=self.constant)


def span_of(
    features: Float[Tensor, "batch feature"], sample_weight: Float[Tensor, " batch"], *, rotate: bool = True
) -> Span:
    """The span of features.

    Args:
        features: one row per sample.
        sample_weight: the weight of each sample; they sum to 1.
        rotate: whether features may be rotated if that takes less time.
    """
    weight = sample_weight.to(features.dtype)
    mean = weight @ features
    centred = features - mean
    variance = float(weight @ centred.square().sum(dim=1))
    few = rotate and len(features) < _ROTATION_SHARE * features.shape[1]
    basis = torch.linalg.qr(centred.t()).Q if few else None
    return Span(mean=mean, basis=basis, constant=math.sqrt(_WIDEST_SHARE * variance) or 1.0)


def spans_of(
    matrices: Sequence[Float[Tensor, "batch _"]], sample_weight: Float[Tensor, " batch"], *, tied: bool
) -> tuple[Span, ...]:
    """The span of each matrix of features.

    Args:
        matrices: the features, and those of the coarse labels if they have their own.
        sample_weight: the weight of each sample; they sum to 1.
        tied: whether a prior compares weights on the first with weights on the second; then both keep their axes.
    """
    return tuple(span_of(matrix, sample_weight, rotate=len(matrices) == 1 or not tied) for matrix in matrices)
