"""A step between backbone and head: features are compressed, centred, whitened and normalised to one length.

    y = sign(x) log(1 + c |x|) / c                     c, the compression; without one y = x
    z = sqrt(size) W (y - mean) / |W (y - mean)|

In this space, classes have the same covariance in all directions, so that distances to class means give the
probabilities of classes. Most features of a network are small and few are large; their logarithms are nearer to a
normal distribution. The matrix W alone could be folded into the weights of the head; the compression and the
normalisation cannot, and each is worth about a point of accuracy. Features of several networks are blocks, each with a
compression, a matrix and a length of its own.
Cost: one product with a (feature x feature) matrix per photo and block, far less than any backbone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finegraph.errors import InputError, ShapeError


def compress(
    features: Float[Tensor, "*batch feature"], compression: float | Float[Tensor, ""]
) -> Float[Tensor, "*batch feature"]:
    """sign(x) log(1 + c |x|) / c: features near 0 as they are, large ones reduced.

    Args:
        features: one row per photo or view.
        compression: c, above 0; features far beyond 1 / c grow with their logarithm only.
    """
    compressed: Tensor = torch.sign(features) * torch.log1p(features.abs() * compression) / compression
    return compressed


def compress_blocks(
    features: Float[Tensor, "*batch feature"], block_sizes: Sequence[int], compressions: Sequence[float]
) -> Float[Tensor, "*batch feature"]:
    """Blocks of features, each with its compression; see `compress`."""
    blocks = torch.split(features, list(block_sizes), dim=-1)
    return torch.cat([compress(block, own) for block, own in zip(blocks, compressions, strict=True)], dim=-1)


def to_one_length(
    white: Float[Tensor, "batch axis"], length: Float[Tensor, "batch 1"], size: int
) -> Float[Tensor, "batch axis"]:
    """Whitened features of the length sqrt(size); those of the length 0 stay 0.

    Args:
        white: one row per photo.
        length: the length of each, in all directions.
        size: the number of features.
    """
    target = math.sqrt(size)
    # The factor of a row of zeros must be finite too: 0 times infinity is not a number.
    scaled: Tensor = white * (target / length.clamp_min(target * torch.finfo(white.dtype).tiny))
    return scaled


class FeatureScaling(nn.Module):
    """Compress, centre, whiten and normalise features. All numbers are buffers, so no optimizer changes them.

    Example:
        >>> scaling = FeatureScaling(3)
        >>> scaling(torch.tensor([[0.0, 0.0, 2.0]])).tolist()
        [[0.0, 0.0, 1.7320507764816284]]
    """

    mean: Tensor
    matrix: Tensor
    compression: Tensor | None

    def __init__(self, size: int, *, compressed: bool = False) -> None:
        """Make a scaling that only normalises the length of features, and compresses them by 1 if asked."""
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("matrix", torch.eye(size))
        self.register_buffer("compression", torch.ones(()) if compressed else None)

    @classmethod
    def of(
        cls, mean: Float[Tensor, " feature"], matrix: Float[Tensor, "feature feature"], compression: float = 0.0
    ) -> FeatureScaling:
        """A scaling with a given mean and matrix, in their precision, and a compression; 0 for none."""
        if matrix.shape != (len(mean), len(mean)):
            raise ShapeError(f"scaling: expected a square matrix of size {len(mean)}, got {tuple(matrix.shape)}")
        scaling = cls(0)
        scaling.mean, scaling.matrix = mean, matrix
        scaling.compression = torch.tensor(compression).to(mean) if compression else None
        return scaling

    def before(self, shift: Float[Tensor, " feature"], size: float) -> FeatureScaling:
        """The equivalent scaling for features before `shift` is subtracted and `size` divided out."""
        assert self.compression is None  # it comes first
        return FeatureScaling.of(shift + size * self.mean, self.matrix / size)

    def after(self, compressions: Sequence[float]) -> FeatureScaling:
        """The same scaling of features that are compressed first, by the only one of these numbers; 0 for none."""
        (compression,) = compressions
        return FeatureScaling.of(self.mean, self.matrix, compression)

    @property
    def compressed(self) -> bool:
        """Whether features are compressed."""
        return self.compression is not None

    @property
    def size(self) -> int:
        """The number of features, in and out."""
        return len(self.mean)

    def forward(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch feature"]:
        """The scaled features; features equal to the mean become 0."""
        # The length of half-precision features may overflow; full precision is cheap here.
        features = features.to(self.matrix.dtype)
        if self.compression is not None:
            features = compress(features, self.compression)
        white = (features - self.mean) @ self.matrix.t()
        return to_one_length(white, torch.linalg.vector_norm(white, dim=1, keepdim=True), self.size)


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

    def after(self, compressions: Sequence[float]) -> BlockScaling:
        """As for `FeatureScaling`, with a number for each block."""
        return BlockScaling([block.after([own]) for block, own in zip(self.parts, compressions, strict=True)])

    @property
    def compressed(self) -> bool:
        """Whether features are compressed; those of either all blocks are, or of none."""
        return self.parts[0].compressed

    def forward(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch feature"]:
        """The scaled features."""
        blocks = torch.split(features, self.sizes, dim=1)
        triples = zip(self.parts, blocks, self.factors, strict=True)
        return torch.cat([scaling(own) * factor for scaling, own, factor in triples], dim=1)


Scaling = FeatureScaling | BlockScaling
"""The step between backbone and head."""
