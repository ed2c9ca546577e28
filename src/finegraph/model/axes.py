"""Features seen along their principal axes.

Both priors on the weights are the same in every direction of the feature space, so the features may be rotated freely
and the weights rotated back: an exact change of coordinates. Two things come of it. With fewer samples than features the
best weights lie in the span of the samples, so the work per step falls from `features` to `samples` columns. And along
principal axes the curvature of the loss is nearly diagonal and known beforehand, which is what makes fitting quick.

Features are also centred; the biases, which no prior touches, take that up exactly. Cost: one product of the features
with themselves and one eigendecomposition of size min(samples, features), left out above `MOST_AXES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

MOST_AXES = 2500
"""Above this size the eigendecomposition would take longer than it saves: features are then only centred."""
_NOTHING = 1e-10
"""Axes whose variance is below this share of the largest hold nothing but rounding."""
_PART = 4096


@dataclass(frozen=True, kw_only=True)
class Axes:
    """A rotation of the feature space about the mean.

    Attributes:
        mean: the mean of the features.
        basis: the axes as orthonormal columns; None where the features are taken as they are.
        variance: the mean square of the centred features along each axis.
    """

    mean: Float[Tensor, " feature"]
    basis: Float[Tensor, "feature axis"] | None
    variance: Float[Tensor, " axis"]

    def rotate(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch axis"]:
        """The coordinates of features along the axes."""
        centred = features - self.mean
        return centred if self.basis is None else centred @ self.basis

    def rotate_weights(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """The weights and biases on rotated features that act like the given ones on features."""
        return weight if self.basis is None else weight @ self.basis, bias + weight @ self.mean

    def restore_weights(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """The weights and biases on features that act like the given ones on rotated features."""
        full = weight if self.basis is None else weight @ self.basis.t()
        return full, bias - full @ self.mean

    def rotated(self) -> Axes:
        """The axes of features that have been rotated already: nothing is left to do but their variances are known."""
        return Axes(mean=torch.zeros_like(self.variance), basis=None, variance=self.variance)


def principal_axes(features: Float[Tensor, "batch feature"], sample_weight: Float[Tensor, " batch"]) -> Axes:
    """The principal axes of features, in the number format of the features.

    Args:
        features: one row per sample.
        sample_weight: the weight of each sample; they sum to 1.
    """
    samples, count = features.shape
    mean = sum(
        (weight @ part for part, weight in _parts(features, sample_weight)),
        features.new_zeros(count, dtype=torch.float64),
    )
    if min(samples, count) > MOST_AXES:
        squares = (weight @ (part - mean).square() for part, weight in _parts(features, sample_weight))
        return _axes_like(features, mean, None, sum(squares, torch.zeros_like(mean)))
    if count <= samples:
        moment = mean.new_zeros(count, count)
        for part, weight in _parts(features, sample_weight):
            centred = (part - mean) * weight.sqrt().unsqueeze(1)
            moment.addmm_(centred.t(), centred)
        variance, basis = torch.linalg.eigh(moment)
        return _axes_like(features, mean, basis, variance.clamp_min(0.0))
    centred = (features.double() - mean) * sample_weight.double().sqrt().unsqueeze(1)
    variance, directions = torch.linalg.eigh(centred @ centred.t())
    kept = variance > _NOTHING * variance[-1].clamp_min(torch.finfo(torch.float64).tiny)
    variance = variance[kept]
    return _axes_like(features, mean, centred.t() @ directions[:, kept] / variance.sqrt(), variance)


def _parts(features: Tensor, sample_weight: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The features and weights some rows at a time, in float64: moments need the digits, and the copy stays small."""
    for part, weight in zip(features.split(_PART), sample_weight.split(_PART), strict=True):
        yield part.double(), weight.double()


def _axes_like(features: Tensor, mean: Tensor, basis: Tensor | None, variance: Tensor) -> Axes:
    return Axes(
        mean=mean.to(features), basis=None if basis is None else basis.to(features), variance=variance.to(features)
    )
