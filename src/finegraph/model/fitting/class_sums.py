"""Sufficient statistics for class means: the count and the sum of the samples of each fine label, and their scatter.

Statistics are values. They are computed in one pass over chunks of samples, samples can be removed again, and those of
several processes add up to those of all samples (`of_all`), however the samples were divided.

Sums and scatter are taken around an origin near the samples: squares of numbers far from 0 would lose precision. Cost:
8 bytes for each fine label and feature; while they are added up over processes, twice that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.errors import InputError, ShapeError
from finegraph.inference.processes import Processes

_CHUNK = 8192
_MAX_SENT = 1 << 22
"""About how many numbers are exchanged at a time."""
Chunk = tuple[Float[Tensor, "batch feature"], Int[Tensor, " batch"], Float[Tensor, " batch"]]
"""Features, fine labels and weights of some samples."""


@dataclass(frozen=True, kw_only=True)
class ClassSums:
    """Sums over labelled samples, in float64.

    Attributes:
        counts: how many samples each fine label has; weights count as numbers of samples.
        sums: per fine label, the sum of its samples minus the origin.
        origin: the point that samples are measured from.
        scatter: the sum over all samples of the outer product of the sample minus the origin; None if only
            class means are needed.

    Example:
        >>> one = ClassSums.of(torch.tensor([[1.0], [3.0]]), torch.tensor([0, 0]), 2)
        >>> both = one.add(torch.tensor([[8.0]]), torch.tensor([1]))
        >>> both.counts.tolist(), both.means().tolist()
        ([2.0, 1.0], [[2.0], [8.0]])
    """

    counts: Float[Tensor, " fine"]
    sums: Float[Tensor, "fine feature"]
    origin: Float[Tensor, " feature"]
    scatter: Float[Tensor, "feature feature"] | None = None

    @classmethod
    def empty(cls, fine_count: int, feature_count: int, *, scatter: bool = False) -> ClassSums:
        """The statistics of no samples."""
        return cls(
            counts=torch.zeros(fine_count, dtype=torch.float64),
            sums=torch.zeros(fine_count, feature_count, dtype=torch.float64),
            origin=torch.zeros(feature_count, dtype=torch.float64),
            scatter=torch.zeros(feature_count, feature_count, dtype=torch.float64) if scatter else None,
        )

    @classmethod
    def of_chunks(
        cls, chunks: Iterable[Chunk], fine_count: int, feature_count: int, *, scatter: bool = False
    ) -> ClassSums:
        """The statistics of samples that come some at a time, around 0.

        Args:
            chunks: features, fine labels and weights of some samples each.
            fine_count: how many fine labels there are.
            feature_count: how many features there are.
            scatter: whether to compute the scatter matrix.
        """
        found = cls.empty(fine_count, feature_count, scatter=scatter)
        found._include(chunks)
        return found

    @classmethod
    def of(
        cls,
        features: Float[Tensor, "batch feature"],
        targets: Int[Tensor, " batch"],
        fine_count: int,
        weight: Float[Tensor, " batch"] | None = None,
        *,
        scatter: bool = False,
    ) -> ClassSums:
        """The statistics of labelled samples, whose mean becomes the origin.

        Args:
            features: one row per sample.
            targets: the fine label of each.
            fine_count: how many fine labels there are.
            weight: how many samples each counts as; 1 by default.
            scatter: whether to compute the scatter matrix.
        """
        found = cls.empty(fine_count, features.shape[1], scatter=scatter)
        if len(features):
            share = torch.ones(len(features), dtype=torch.float64) if weight is None else weight.double()
            found = replace(found, origin=_weighted_mean(features, share))
        return found.add(features, targets, weight)

    def add(
        self,
        features: Float[Tensor, "batch feature"],
        targets: Int[Tensor, " batch"],
        weight: Float[Tensor, " batch"] | None = None,
    ) -> ClassSums:
        """The statistics with more samples; a negative weight removes samples."""
        if features.ndim != 2 or features.shape[1] != self.sums.shape[1] or len(targets) != len(features):
            raise ShapeError(
                f"samples: expected rows of {self.sums.shape[1]} features and a label each, got features of shape "
                f"{tuple(features.shape)} and {len(targets)} labels"
            )
        share = torch.ones(len(features), dtype=torch.float64) if weight is None else weight.double()
        found = replace(
            self,
            counts=self.counts.clone(),
            sums=self.sums.clone(),
            scatter=None if self.scatter is None else self.scatter.clone(),
        )
        parts = (slice(start, start + _CHUNK) for start in range(0, len(features), _CHUNK))
        found._include((features[part], targets[part], share[part]) for part in parts)
        if bool((found.counts < -1e-9).any()):
            label = int(found.counts.argmin())
            raise InputError(f"samples: label {label} has {float(found.counts[label]):g}, cannot remove more")
        return replace(found, counts=found.counts.clamp_min(0.0))

    def _include(self, chunks: Iterable[Chunk]) -> None:
        """Add samples in place, to statistics that nobody else has yet."""
        for features, targets, weight in chunks:
            rows = features.double() - self.origin
            weighted = rows * weight[:, None]
            self.counts.index_add_(0, targets, weight)
            self.sums.index_add_(0, targets, weighted)
            if self.scatter is not None:
                self.scatter.addmm_(weighted.t(), rows)

    def remove(
        self,
        features: Float[Tensor, "batch feature"],
        targets: Int[Tensor, " batch"],
        weight: Float[Tensor, " batch"] | None = None,
    ) -> ClassSums:
        """The statistics without some samples that were added before."""
        share = torch.ones(len(features), dtype=torch.float64) if weight is None else weight.double()
        return self.add(features, targets, -share)

    def of_all(self, processes: Processes) -> ClassSums:
        """The statistics of the samples of all processes, in each of them.

        All of them call this, with statistics of the same labels and features.
        """
        origin = self.origin.clone()
        processes.copy_first([origin])
        found = self.around(origin)
        step = max(1, _MAX_SENT // max(1, self.sums.shape[1]))
        for rows in torch.split(found.sums, step):
            processes.sum([rows])
        processes.sum([found.counts] if found.scatter is None else [found.counts, found.scatter])
        return found

    def around(self, origin: Float[Tensor, " feature"]) -> ClassSums:
        """The same statistics around another origin."""
        step = self.origin - origin
        scatter = self.scatter
        if scatter is not None:
            total = self.sums.sum(dim=0)
            scatter = scatter + torch.outer(step, total) + torch.outer(total, step)  # a tensor of its own
            scatter += float(self.counts.sum()) * torch.outer(step, step)
        sums = torch.addcmul(self.sums, self.counts[:, None], step)
        return ClassSums(counts=self.counts.clone(), sums=sums, origin=origin, scatter=scatter)

    def means(self) -> Float[Tensor, "fine feature"]:
        """The mean of each fine label; the origin if it has no sample."""
        means = self.sums / self.counts.clamp_min(torch.finfo(torch.float64).tiny)[:, None]
        return means.add_(self.origin)

    def mean(self) -> Float[Tensor, " feature"]:
        """The mean of all samples."""
        return self.origin + self.sums.sum(dim=0) / self.counts.sum()

    def total_covariance(self) -> Float[Tensor, "feature feature"]:
        """The covariance around the mean of all samples."""
        count, total = self.counts.sum(), self.sums.sum(dim=0)
        return (self._scatter() - torch.outer(total, total / count)) / count

    def within_covariance(self) -> Float[Tensor, "feature feature"]:
        """The unbiased covariance around the means of the classes."""
        seen = self.counts > 0
        sums, counts = self.sums[seen], self.counts[seen]
        freedom = (counts.sum() - len(counts)).clamp_min(1.0)
        return (self._scatter() - (sums / counts[:, None]).t() @ sums) / freedom

    def _scatter(self) -> Tensor:
        if self.scatter is None:
            raise InputError("statistics: made without a scatter matrix; make them with scatter=True")
        return self.scatter


def _weighted_mean(features: Tensor, weight: Tensor) -> Tensor:
    total = torch.zeros(features.shape[1], dtype=torch.float64)
    for start in range(0, len(features), _CHUNK):
        part = slice(start, start + _CHUNK)
        total += weight[part] @ features[part].double()
    return total / weight.sum()
