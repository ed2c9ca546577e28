"""Projecting features to fewer dimensions: fitting the directions, and measuring what is lost.

The directions are the first eigenvectors of X^T X, for features X of length 1. They keep inner products better than any
other directions of their number; the means are not taken out, because cosines are about zero and not about the mean.
What is lost is measured on photos that the directions were not fitted to: the share of the ten nearest photos that are
still among the ten nearest.

Cost: one pass over the sample and an eigenvalue problem of the size of the feature; about a second for 1280.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from finegraph.errors import InputError
from finegraph.search.nearest import Vectors, unit_rows

SAMPLE = 6_000
"""The largest number of photos that directions are fitted to."""
_NEIGHBOURS = 10
_QUERIES = 500


def fit_projection(
    features: Float[Vectors, "photo feature"], dimensions: int
) -> tuple[Float[Vectors, "feature axis"], float]:
    """Directions (feature, dimension), and the share of the ten nearest photos that they keep.

    Args:
        features: of a sample of photos, of length 1.
        dimensions: how many directions.

    Raises:
        InputError: too few photos, or not fewer dimensions than the feature has.
    """
    count, size = features.shape
    check_projection(count, size, dimensions)
    recall = _kept(features[1::2], project(features[1::2], _directions(features[::2], dimensions)))
    return _directions(features, dimensions), recall


def check_projection(count: int, size: int, dimensions: int) -> None:
    """Raise if features cannot be projected to a number of dimensions.

    Raises:
        InputError: too few photos, or not fewer dimensions than the feature has.
    """
    if not 1 <= dimensions < size:
        raise InputError(
            f"expected a projection to 1 to {size - 1} dimensions, fewer than the feature has, got {dimensions}"
        )
    if count < 2 * dimensions:
        raise InputError(
            f"expected at least {2 * dimensions} photos to fit a projection to {dimensions} dimensions, got {count}; "
            "project to fewer dimensions, or leave the projection out"
        )


def project(
    features: Float[Vectors, "photo feature"], directions: Float[Vectors, "feature axis"] | None
) -> Float[Vectors, "photo _"]:
    """Features in fewer dimensions, of length 1; without directions, only that."""
    return unit_rows(features if directions is None else features @ directions)


def _directions(features: Vectors, dimensions: int) -> Vectors:
    products = features.T.astype(np.float64) @ features.astype(np.float64)
    vectors = np.linalg.eigh(products)[1]
    directions: Vectors = np.ascontiguousarray(vectors[:, ::-1][:, :dimensions], dtype=np.float32)
    return directions


def _kept(features: Vectors, projected: Vectors) -> float:
    """The share of the nearest photos by all dimensions that are also the nearest by fewer."""
    neighbours = min(_NEIGHBOURS, len(features) - 1)
    queries = np.linspace(0, len(features) - 1, min(_QUERIES, len(features))).astype(np.int64)
    shares = []
    for vectors in (features, projected):
        cosines = vectors[queries] @ vectors.T
        cosines[np.arange(len(queries)), queries] = -np.inf  # a photo is not its own neighbour
        shares.append(np.argpartition(-cosines, neighbours - 1, axis=1)[:, :neighbours])
    shared = [len(set(one) & set(two)) for one, two in zip(shares[0].tolist(), shares[1].tolist(), strict=True)]
    return float(np.mean(shared) / neighbours)
