"""Whitening of features: the principal axes of their scatter, and features along these axes.

The covariance of few samples is poorly known in most directions. It is shrunk towards a multiple of the identity:

    C + shrinkage * mean(eigenvalues of C) * I

Whitening by it is a scale per axis. With fewer samples than features, the axes span only the samples; outside of them
all directions are alike, so only the length of the rest of a feature vector matters. Cost: one eigenvalue problem
of the smaller of samples and features, however many shrinkages are tried.

Features of several networks are blocks side by side. Each is whitened by its own covariance and scaled to its own
length; correlations between blocks would take many more samples to learn than those within.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.model.fitting.class_sums import ClassSums
from finegraph.nn.scaling import BlockScaling, FeatureScaling, Scaling, to_one_length

Covariance = Literal["within", "total"]
"""Around the means of the classes, or around the mean of all samples."""


@dataclass(frozen=True, kw_only=True)
class Axes:
    """The principal axes of one block of features.

    Attributes:
        mean: the mean of all samples.
        axes: orthonormal columns.
        values: the variance along each.
    """

    mean: Float[Tensor, " feature"]
    axes: Float[Tensor, "feature axis"]
    values: Float[Tensor, " axis"]

    @property
    def feature_count(self) -> int:
        """How many features there are."""
        return len(self.mean)

    def coordinates(self, features: Float[Tensor, "batch feature"]) -> Coordinates:
        """Features along the axes."""
        centred = features.to(self.axes) - self.mean
        along = centred @ self.axes
        rest = (centred.square().sum(dim=1) - along.square().sum(dim=1)).clamp_min(0.0)
        return Coordinates(along, rest)

    def floor(self, shrinkage: float) -> float:
        """What shrinkage adds to each variance; 1 if nothing varies."""
        return shrinkage * float(self.values.sum()) / self.feature_count or 1.0

    def white(self, places: Coordinates, shrinkage: float) -> Float[Tensor, "batch axis"]:
        """Whitened features of one length, seen along the axes."""
        floor = self.floor(shrinkage)
        white = places.along / (self.values + floor).sqrt()
        length = (white.square().sum(dim=1) + places.rest / floor).sqrt()
        return to_one_length(white, length.unsqueeze(1), self.feature_count)

    def scaling(self, shrinkage: float) -> FeatureScaling:
        """The same as a module that takes raw features."""
        floor = self.floor(shrinkage)
        beyond = floor**-0.5
        inside = (self.values + floor).rsqrt() - beyond
        matrix = (self.axes * inside) @ self.axes.t()
        matrix.diagonal().add_(beyond)
        return FeatureScaling.of(self.mean, matrix)


@dataclass(frozen=True)
class BlockAxes:
    """The axes of blocks of features that stand side by side."""

    blocks: tuple[Axes, ...]

    @property
    def feature_count(self) -> int:
        """How many features there are in all blocks."""
        return sum(self._sizes)

    @property
    def axis_count(self) -> int:
        """How many axes there are in all blocks."""
        return sum(one.axes.shape[1] for one in self.blocks)

    def coordinates(self, features: Float[Tensor, "batch feature"]) -> tuple[Coordinates, ...]:
        """Features along the axes of each block."""
        return tuple(
            one.coordinates(own)
            for one, own in zip(self.blocks, torch.split(features, self._sizes, dim=1), strict=True)
        )

    def white(self, places: Sequence[Coordinates], shrinkage: float) -> Float[Tensor, "batch axis"]:
        """Whitened features, all blocks of the same length, along the axes of one block after the other."""
        size, count = self.feature_count, len(self.blocks)
        return torch.cat(
            [
                one.white(own, shrinkage) * math.sqrt(size / (count * one.feature_count))
                for one, own in zip(self.blocks, places, strict=True)
            ],
            dim=1,
        )

    def scaling(self, shrinkage: float) -> Scaling:
        """The same as a module that takes raw features."""
        scalings = [one.scaling(shrinkage) for one in self.blocks]
        return scalings[0] if len(scalings) == 1 else BlockScaling(scalings)

    def to_features(self, rows: Float[Tensor, "row axis"]) -> Float[Tensor, "row feature"]:
        """Vectors along the axes as vectors of scaled features."""
        parts = torch.split(rows, [one.axes.shape[1] for one in self.blocks], dim=1)
        return torch.cat([part @ one.axes.t() for one, part in zip(self.blocks, parts, strict=True)], dim=1)

    @property
    def _sizes(self) -> list[int]:
        return [one.feature_count for one in self.blocks]


@dataclass(frozen=True)
class Coordinates:
    """Features along axes, and the squared length of the rest."""

    along: Float[Tensor, "batch axis"]
    rest: Float[Tensor, " batch"]


def axes_of(
    features: Float[Tensor, "batch feature"],
    targets: Int[Tensor, " batch"],
    weight: Float[Tensor, " batch"],
    covariance: Covariance,
) -> Axes:
    """The axes of features.

    Args:
        features: one row per sample.
        targets: the fine label of each sample.
        weight: how much each sample counts.
        covariance: which covariance to use.
    """
    labels, place = torch.unique(targets, return_inverse=True)
    if len(features) >= features.shape[1]:
        return principal_axes(ClassSums.of(features, place, len(labels), weight, scatter=True), covariance)
    # With fewer samples than features, everything varies in their span, where matrices are smaller.
    mean = (weight / weight.sum()) @ features.double()
    centred = features.double() - mean
    basis = torch.linalg.qr(centred.t()).Q
    inside = principal_axes(ClassSums.of(centred @ basis, place, len(labels), weight, scatter=True), covariance)
    return Axes(mean=mean, axes=basis @ inside.axes, values=inside.values)


def principal_axes(statistics: ClassSums, covariance: Covariance) -> Axes:
    """The principal axes of the samples of these statistics, which have a scatter matrix."""
    matrix = statistics.within_covariance() if covariance == "within" else statistics.total_covariance()
    values, vectors = torch.linalg.eigh(matrix)
    return Axes(mean=statistics.mean(), axes=vectors, values=values.clamp_min(0.0))


def block_axes_of(
    features: Float[Tensor, "batch feature"],
    targets: Int[Tensor, " batch"],
    weight: Float[Tensor, " batch"],
    covariance: Covariance,
    block_sizes: Sequence[int],
) -> BlockAxes:
    """The axes of features that consist of blocks of these sizes; see `axes_of`."""
    blocks = torch.split(features, list(block_sizes), dim=1)
    return BlockAxes(tuple(axes_of(one, targets, weight, covariance) for one in blocks))
