"""Making the lists of the approximate search, and choosing how many of them a search looks through.

Centres are found by k-means on the sphere, from a sample of the vectors; about as many as the square root of the number
of photos. Then searches are tried, with photos of the index as queries, and the number of lists grows by half until
they find enough of the ten nearest photos. The measured share is stored and shown.

Cost for n vectors: about n^1.5 products of vectors; a minute for a million of 256 dimensions on one core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from finegraph.search.nearest import Lists, Nearest, Vectors, load_faiss, widened

MAX_EXACT = 200_000
"""The number of photos above which a search is approximate by default."""
WANTED_RECALL = 0.97
"""The share of the ten nearest photos that a search should find."""
NEIGHBOURS = 10
_ROUNDS = 10
_SAMPLE = 64
"""The number of vectors per centre in the sample for k-means."""
QUERIES = 128
"""The number of photos that searches are tried with."""
_MIN_PROBES = 8
"""Fewer lists are not looked through: it would save nothing, and queries may be less like the photos than they are
like each other."""
_AT_ONCE = 65536


def make_lists(parts: Sequence[Float[NDArray[np.float16], "_ axis"]], seed: int = 0) -> tuple[Lists, float]:
    """Lists for vectors, and the share of the ten nearest that a search in them finds.

    Args:
        parts: the vectors, in parts; at least one in all.
        seed: the seed of random choices.
    """
    count = sum(len(part) for part in parts)
    random = np.random.default_rng(seed)
    number = 2 ** max(0, round(math.log2(math.sqrt(count))))
    centres = _centres(_some(parts, min(count, _SAMPLE * number), random), number, seed)
    of_parts = [assign(centres, part) for part in parts]
    nearest = Nearest(parts, centres.shape[1], Lists(centres, 1, of_parts))
    probes, recall = _choose(nearest, _some(parts, min(count, QUERIES), random))
    return Lists(centres, probes, of_parts), recall


def assign(
    centres: Float[Vectors, "list axis"], vectors: Float[NDArray[np.float16], "photo axis"]
) -> Int[NDArray[np.int32], " photo"]:
    """The list of each vector: that of the nearest centre."""
    index = load_faiss().IndexFlatIP(centres.shape[1])
    index.add(centres)
    nearest = [
        index.search(widened(vectors[start : start + _AT_ONCE]), 1)[1][:, 0].astype(np.int32)
        for start in range(0, len(vectors), _AT_ONCE)
    ]
    return np.concatenate(nearest) if nearest else np.zeros(0, np.int32)


def _centres(sample: Vectors, number: int, seed: int) -> Vectors:
    faiss = load_faiss()
    # FAISS warns if there are few vectors per centre; that is no fault here.
    means = faiss.Kmeans(
        sample.shape[1], number, niter=_ROUNDS, spherical=True, seed=seed + 1, min_points_per_centroid=1
    )
    means.train(sample)
    centres: Vectors = np.ascontiguousarray(means.centroids, np.float32)
    return centres


def _some(parts: Sequence[NDArray[np.float16]], count: int, random: np.random.Generator) -> Vectors:
    """Vectors drawn from all parts."""
    sizes = np.array([len(part) for part in parts])
    chosen = np.sort(random.choice(int(sizes.sum()), count, replace=False))
    starts = np.cumsum(sizes) - sizes
    drawn = [
        part[chosen[(chosen >= start) & (chosen < start + len(part))] - start]
        for part, start in zip(parts, starts, strict=True)
    ]
    return widened(np.concatenate(drawn))


def _choose(nearest: Nearest, queries: Vectors) -> tuple[int, float]:
    """How many lists to look through, and the recall of that. The query is a photo of the index and finds itself."""
    count = NEIGHBOURS + 1
    truth = nearest.search(queries, count, probes=nearest.lists)[0][:, 1:]
    return grown_probes(
        nearest.lists, lambda probes: recall_of(truth, nearest.search(queries, count, probes=probes)[0][:, 1:])
    )


def grown_probes(lists: int, recall_with: Callable[[int], float]) -> tuple[int, float]:
    """How many lists are enough for the wanted recall, growing by half, and the recall of that.

    Args:
        lists: how many there are.
        recall_with: measures the recall of looking through so many.
    """
    probes, recall = 0, 0.0
    while recall < WANTED_RECALL and probes < lists:
        probes = min(max(_MIN_PROBES, probes * 3 // 2), lists)
        recall = recall_with(probes)
    return probes, recall


def recall_of(truth: Float[Vectors, "sample place"], found_cosines: Float[Vectors, "sample _"]) -> float:
    """The share of the nearest photos that were found, judged by their cosines, so that equal photos are equal."""
    if not truth.size:
        return 1.0
    reached = found_cosines >= truth[:, -1:] - 1e-6
    return float(reached.mean()) if found_cosines.shape == truth.shape else float(reached.sum() / truth.size)
