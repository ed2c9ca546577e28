"""A step between backbone and head: features are centred, whitened and brought to one length.

    z = sqrt(size) W (x - mean) / |W (x - mean)|

In this space classes scatter alike in all directions, so that distances to class means say how probable a class is. The
matrix W alone would fold into the weights of the head; the length does not, and is worth about a point of accuracy.
Cost: one product with a (feature x feature) matrix per photo, little beside any backbone.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finegraph.errors import ShapeError


class FeatureScaling(nn.Module):
    """Centre, whiten and normalise features. Its numbers are buffers: no optimizer changes them.

    Example:
        >>> scaling = FeatureScaling(3)
        >>> scaling(torch.tensor([[0.0, 0.0, 2.0]])).tolist()
        [[0.0, 0.0, 1.7320507764816284]]
    """

    mean: Tensor
    matrix: Tensor

    def __init__(self, size: int) -> None:
        """Make a scaling that brings features of a size to one length and does nothing else."""
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("matrix", torch.eye(size))

    @classmethod
    def of(cls, mean: Float[Tensor, " feature"], matrix: Float[Tensor, "feature feature"]) -> FeatureScaling:
        """The scaling with a mean and a matrix, in their precision."""
        if matrix.shape != (len(mean), len(mean)):
            raise ShapeError(f"scaling: expected a square matrix of size {len(mean)}, got {tuple(matrix.shape)}")
        scaling = cls(0)
        scaling.mean, scaling.matrix = mean, matrix
        return scaling

    def before(self, shift: Float[Tensor, " feature"], size: float) -> FeatureScaling:
        """The scaling that takes features as they were before a shift was taken off and a size divided out."""
        return FeatureScaling.of(shift + size * self.mean, self.matrix / size)

    @property
    def size(self) -> int:
        """How many features it takes and gives."""
        return len(self.mean)

    def forward(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch feature"]:
        """The scaled features; those at the mean itself stay 0."""
        # The length of half-precision features overflows; the step is cheap in full precision.
        white = (features.to(self.matrix.dtype) - self.mean) @ self.matrix.t()
        length: Tensor = torch.linalg.vector_norm(white, dim=1, keepdim=True)
        scaled: Tensor = white * (math.sqrt(self.size) / length.clamp_min(torch.finfo(white.dtype).tiny))
        return scaled
