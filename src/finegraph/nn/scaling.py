"""A step between backbone and head: features are centred, whitened and normalised to one length.

    z = sqrt(size) W (x - mean) / |W (x - mean)|

In this space, classes have the same covariance in all directions, so that distances to class means give the
probabilities of classes. The matrix W alone could be folded into the weights of the head; the normalisation cannot, and
is worth about a point of accuracy. Features of several networks are blocks, each with a matrix and a length of its own.
Cost: one product with a (feature x feature) matrix per photo and block, far less than any backbone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finegraph.errors import InputError, ShapeError


class FeatureScaling(nn.Module):
    """Centre, whiten and normalise features. Mean and matrix are buffers, so no optimizer changes them.

    Example:
        >>> scaling = FeatureScaling(3)
        >>> scaling(torch.tensor([[0.0, 0.0, 2.0]])).tolist()
        [[0.0, 0.0, 1.7320507764816284]]
    """

    mean: Tensor
    matrix: Tensor

    def __init__(self, size: int) -> None:
        """Make a scaling that only normalises the length of features."""
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("matrix", torch.eye(size))

    @classmethod
    def of(cls, mean: Float[Tensor, " feature"], matrix: Float[Tensor, "feature feature"]) -> FeatureScaling:
        """A scaling with a given mean and matrix, in their precision."""
        if matrix.shape != (len(mean), len(mean)):
            raise ShapeError(f"scaling: expected a square matrix of size {len(mean)}, got {tuple(matrix.shape)}")
        scaling = cls(0)
        scaling.mean, scaling.matrix = mean, matrix
        return scaling

    def before(self, shift: Float[Tensor, " feature"], size: float) -> FeatureScaling:
        """The equivalent scaling for features before `shift` is subtracted and `size` divided out."""
        return FeatureScaling.of(shift + size * self.mean, self.matrix / size)

    @property
    def size(self) -> int:
        """The number of features, in and out."""
        return len(self.mean)

    def forward(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch feature"]:
        """The scaled features; features equal to the mean become 0."""
        # The length of half-precision features may overflow; full precision is cheap here.
        white = (features.to(self.matrix.dtype) - self.mean) @ self.matrix.t()
        length: Tensor = torch.linalg.vector_norm(white, dim=1, keepdim=True)
        scaled: Tensor = white * (math.sqrt(self.size) / length.clamp_min(torch.finfo(white.dtype).tiny))
        return scaled


class BlockScaling(nn.Module):
    """Scalings of blocks of features, side by side. All blocks get the same length, whatever their sizes.

    Example:
        >>> scaling = BlockScaling([FeatureScaling(1), FeatureScaling(3)])
        >>> scaling(torch.tensor([[5.0, 0.0, 0.0, 2.0]])).tolist()
        [[1.4142135381698608, 0.0, 0.0, 1.4142135381698608]]
    """

    def __init__(self, blocks: Sequence[FeatureScaling]) -> None:
        """Put scalings side by side.

        Args:
            blocks: the scaling of each block, in the order of their features.
        """
        super().__init__()
        if not blocks:
            raise InputError("scaling: expected at least one block of features, got none")
        self.blocks = nn.ModuleList(blocks)

    @property
    def parts(self) -> tuple[FeatureScaling, ...]:
        """The scaling of each block."""
        return tuple(block for block in self.blocks if isinstance(block, FeatureScaling))

    @property
    def sizes(self) -> list[int]:
        """The number of features of each block."""
        return [block.size for block in self.parts]

    @property
    def factors(self) -> list[float]:
        """The factor of each block, such that all have the same length and together the square root of `size`."""
        return [math.sqrt(self.size / (len(self.blocks) * size)) for size in self.sizes]

    @property
    def size(self) -> int:
        """The number of features, in and out."""
        return sum(self.sizes)

    def before(self, shift: Float[Tensor, " feature"], size: float) -> BlockScaling:
        """As for `FeatureScaling`."""
        shifts = torch.split(shift, self.sizes)
        return BlockScaling([block.before(own, size) for block, own in zip(self.parts, shifts, strict=True)])

    def forward(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch feature"]:
        """The scaled features."""
        blocks = torch.split(features, self.sizes, dim=1)
        triples = zip(self.parts, blocks, self.factors, strict=True)
        return torch.cat([scaling(own) * factor for scaling, own, factor in triples], dim=1)


Scaling = FeatureScaling | BlockScaling
"""The step between backbone and head."""
