"""How strongly features are compressed before they are whitened.

Most features of a network are small and some are large: they are averages of activations that are never below 0. Class
means and covariances suit a normal distribution, so large features count for too much. Compression (nn/scaling.py)
brings them nearer to one.

Its strength is a multiple of 1 / (root mean square of the features), for each block of features by itself. It is chosen
by the likelihood of normally distributed features around class means (Box and Cox 1964), so what is normally
distributed stays as it is. By that, features of networks ask for far more than suits validation photos, so there is a
limit, which they reach. A constant added to all features changes it: 0 has to mean that nothing is there.

Cost: some passes over a few hundred samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.model.fitting.labelled_samples import LabelledSamples
from finegraph.model.fitting.prototype_strengths import golden_maximum
from finegraph.nn.scaling import compress, compress_blocks

MAX_COMPRESSION = 0.5
"""The limit, where the slope at features of the usual size is two thirds. Validation photos of groceries with 2, 5 and
all photos of a class liked 0.5 to 1 best; drawn dishes with 2, 3 and 10 gained likewise with 0.5."""
_MIN_COMPRESSION = 0.1
"""Less is none: it changes next to nothing."""
MAX_LABELS, MAX_SAMPLES = 128, 512
"""How many fine labels and samples it is chosen on."""


def likely_compression(samples: LabelledSamples) -> float:
    """The most likely compression of samples, relative to the size of their features; 0 for none.

    If no class has two samples it is 0: features are then whitened around one mean, where it lost as much as it gained.
    """
    labels, place = torch.unique(samples.targets, return_inverse=True)
    if len(labels) == len(place):
        return 0.0
    sizes = feature_sizes(samples)
    blocks = [
        _varying(features.double() / size, place)
        for features, size in zip(torch.split(samples.features, list(samples.block_sizes), dim=1), sizes, strict=True)
        if size
    ]

    def log_likelihood(compression: float) -> float:
        return sum(_log_likelihood(features, place, compression) for features in blocks if features.numel())

    found = golden_maximum(log_likelihood, 0.0, MAX_COMPRESSION, tolerance=_MIN_COMPRESSION)
    best = max(0.0, found, MAX_COMPRESSION, key=log_likelihood)
    return best if best >= _MIN_COMPRESSION else 0.0


def feature_sizes(samples: LabelledSamples) -> list[float]:
    """The root mean square of the features of each block."""
    return [_root_mean_square(block) for block in torch.split(samples.features, list(samples.block_sizes), dim=1)]


def compressions_of(samples: LabelledSamples, relative: float) -> list[float]:
    """The compression of each block of features, in the precision that a scaling keeps; 0 for none in any block.

    Args:
        samples: the samples that a head is fitted to.
        relative: the compression relative to the size of their features.
    """
    found = torch.tensor([relative / size if size else 1.0 for size in feature_sizes(samples)], dtype=torch.float32)
    usable = relative > 0.0 and bool(((found > 0.0) & found.isfinite()).all())
    return found.tolist() if usable else [0.0] * len(found)


def compressed(samples: LabelledSamples, compressions: Sequence[float]) -> LabelledSamples:
    """Samples with compressed features; see `compressions_of`."""
    if not all(compressions):
        return samples
    sizes = samples.block_sizes
    views = None if samples.views is None else compress_blocks(samples.views.double(), sizes, compressions)
    return replace(samples, features=compress_blocks(samples.features.double(), sizes, compressions), views=views)


def _root_mean_square(features: Float[Tensor, "batch feature"]) -> float:
    """The root of the mean square, also where squares would overflow or vanish."""
    largest = float(features.abs().max())
    return largest * math.sqrt(float((features.double() / largest).square().mean())) if largest else 0.0


def _varying(features: Float[Tensor, "batch feature"], place: Int[Tensor, " batch"]) -> Float[Tensor, "batch _"]:
    """The features that vary within classes."""
    return features[:, _variances(features, place) > 0.0]


def _variances(features: Float[Tensor, "batch feature"], place: Int[Tensor, " batch"]) -> Float[Tensor, " feature"]:
    """The variance of each feature within classes, but for a factor that all have."""
    counts = torch.bincount(place)
    means = features.new_zeros(len(counts), features.shape[1]).index_add_(0, place, features) / counts[:, None]
    return (features - means[place]).square().mean(dim=0)


def _log_likelihood(
    features: Float[Tensor, "batch feature"], place: Int[Tensor, " batch"], compression: float
) -> float:
    """The mean log density of features whose compressed values are normally distributed around class means."""
    if not compression:
        return -0.5 * float(_variances(features, place).log().mean())
    variances = _variances(compress(features, compression), place)
    slopes = torch.log1p(compression * features.abs())
    return -0.5 * float(variances.log().mean()) - float(slopes.mean())
