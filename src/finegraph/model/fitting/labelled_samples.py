"""Samples with a fine label for the closed form: checked, and without duplicates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from finegraph.errors import InputError, ShapeError
from finegraph.graph import LabelGraph
from finegraph.model.fitting.fit_samples import NOT_OBSERVED, check_fine
from finegraph.model.fitting.whitening import BlockAxes, Covariance, block_axes_of

_CHUNK = 8192


@dataclass(frozen=True)
class LabelledSamples:
    """Features with a fine label and a weight each.

    Attributes:
        features: one row per sample.
        targets: the fine label of each.
        weight: how many samples each counts as.
        block_sizes: the sizes of the blocks of the features, such as those of several networks.
        views: the features of single views of each sample, of which `features` are the mean; the view that a model
            sees when it answers comes first. None if samples have one view.
    """

    features: Float[Tensor, "batch feature"]
    targets: Int[Tensor, " batch"]
    weight: Float[Tensor, " batch"]
    block_sizes: tuple[int, ...]
    views: Float[Tensor, "batch view feature"] | None = None

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def view_count(self) -> int:
        """How many views there are of each sample."""
        return 1 if self.views is None else self.views.shape[1]

    def rows(self, rows: Shaped[Tensor, " row"] | slice) -> LabelledSamples:
        """Some of the samples, by a mask, by indices or by a slice."""
        views = None if self.views is None else self.views[rows]
        return replace(
            self, features=self.features[rows], targets=self.targets[rows], weight=self.weight[rows], views=views
        )

    @property
    def asked(self) -> Float[Tensor, "batch feature"]:
        """The features that a model sees when it answers: those of the first view."""
        return self.features if self.views is None else self.views[:, 0]

    def axes(self, covariance: Covariance) -> BlockAxes:
        """The axes of the scatter of their features; of all single views, if there are several.

        Differences between views of one photo say nothing about its class, so they are scatter too.
        """
        if self.views is None:
            return block_axes_of(self.features, self.targets, self.weight, covariance, self.block_sizes)
        count = self.views.shape[1]
        targets, weight = (one.repeat_interleave(count) for one in (self.targets, self.weight / count))
        return block_axes_of(self.views.flatten(0, 1), targets, weight, covariance, self.block_sizes)


def usable_samples(
    features: Shaped[Tensor, " ..."],
    targets: Shaped[Tensor, " ..."],
    graph: LabelGraph,
    sample_weight: Shaped[Tensor, " ..."] | None,
    block_sizes: tuple[int, ...],
    views: Shaped[Tensor, " ..."] | None = None,
) -> LabelledSamples:
    """The samples with a fine label and a weight. Raises if features are not finite."""
    weight = torch.ones(len(features)) if sample_weight is None else sample_weight
    if views is not None and (views.ndim != 3 or (len(views), views.shape[2]) != tuple(features.shape)):
        raise ShapeError(
            f"views: expected ({len(features)}, views, {features.shape[1]}) features of views, got {tuple(views.shape)}"
        )
    samples = LabelledSamples(features, targets.contiguous(), weight.double(), block_sizes, views)
    used = (targets != NOT_OBSERVED) & (weight > 0)
    samples = samples if bool(used.all()) else samples.rows(used)
    check_fine(torch.unique(samples.targets), graph)
    for start in range(0, len(samples), _CHUNK):
        finite = torch.isfinite(samples.features[start : start + _CHUNK]).all(dim=1)
        if not bool(finite.all()):
            row = start + int((~finite).nonzero()[0])
            numbers = samples.features[row].tolist()[:3]
            raise InputError(f"features: expected finite numbers, got {numbers}... in row {row}")
    return samples


def without_copies(samples: LabelledSamples) -> LabelledSamples:
    """Merge copies into one sample of more weight, so that none can be held out while another stays."""
    keys = np.stack([_fingerprints(samples.features.numpy()), samples.targets.numpy()], axis=1)
    _, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(samples):
        return samples
    weight = torch.zeros(len(first), dtype=torch.float64)
    weight.index_add_(0, torch.from_numpy(place.reshape(-1)), samples.weight)
    return replace(samples.rows(torch.from_numpy(first)), weight=weight)


def _fingerprints(features: np.ndarray) -> np.ndarray:
    """A hash for each row; two rows collide with a probability of about 1 in 10^19."""
    words = np.ascontiguousarray(features).view(np.int32 if features.dtype == np.float32 else np.int64)
    factors = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, words.shape[1], dtype=np.int64) | 1
    found = [np.zeros(0, np.int64)]
    with np.errstate(over="ignore"):  # sums wrap around on purpose
        for start in range(0, len(words), _CHUNK):
            found.append((words[start : start + _CHUNK].astype(np.int64) * factors).sum(axis=1))
    return np.concatenate(found)
