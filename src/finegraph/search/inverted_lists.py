"""Making the lists of the approximate search and its small codes, and choosing how many lists a search looks through.

Centres are found by k-means on the sphere, from a sample of the vectors; about as many as the square root of the number
of photos. Photos of the index are then tried as queries: their ten nearest are found by comparing all, and the number
of lists grows by half until they hold enough of these. The measured share is stored and shown, and so is that of a
search by small codes.

Cost for n vectors: about n^1.5 products of vectors; a minute for a million of 256 dimensions on one core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray

from finegraph.search.index_state import forget
from finegraph.search.nearest import VECTORS_PER_BLOCK, Lists, Numbers, Vectors, load_faiss, reader_of, widened
from finegraph.search.small_codes import CODE_SAMPLE, Codebook, CodeLists, Codes, NearestCodes, PackedCodes, pack

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


class Trial(NamedTuple):
    """Photos of an index as queries, and their nearest photos but themselves, by comparing all."""

    queries: Float[Vectors, "sample axis"]
    cosines: Float[Vectors, "sample place"]
    numbers: Int[Numbers, "sample place"]


def draw_trial(parts: Sequence[Float[NDArray[np.float16], "_ axis"]], seed: int = 0) -> Trial:
    """Queries drawn from vectors in parts, with the truth about them."""
    count = sum(len(part) for part in parts)
    queries = _some(parts, min(count, QUERIES), np.random.default_rng(seed + 1))
    cosines, numbers = _compared(parts, queries, min(count, NEIGHBOURS + 1))
    return Trial(queries, cosines[:, 1:], numbers[:, 1:])


def make_lists(
    parts: Sequence[Float[NDArray[np.float16], "_ axis"]], trial: Trial | None = None, seed: int = 0
) -> tuple[Lists, float]:
    """Lists for vectors, and the share of the ten nearest that a search in them finds.

    Args:
        parts: the vectors, in parts; at least one in all.
        trial: what searches are tried with; by default it is drawn.
        seed: the seed of random choices.
    """
    count = sum(len(part) for part in parts)
    random = np.random.default_rng(seed)
    number = 2 ** max(0, round(math.log2(math.sqrt(count))))
    centres = _centres(_some(parts, min(count, _SAMPLE * number), random), number, seed)
    of_parts = [assign(centres, part) for part in parts]
    probes, recall = _choose(centres, np.concatenate(of_parts), trial or draw_trial(parts, seed))
    return Lists(centres, probes, of_parts), recall


def make_codes(
    parts: Sequence[Float[NDArray[np.float16], "_ axis"]],
    lists: Lists,
    ids: Int[Numbers, " photo"] | None = None,
    seed: int = 0,
) -> tuple[Codebook, PackedCodes]:
    """Small codes for vectors in lists.

    Args:
        parts: the vectors, in parts; at least one in all.
        lists: that they are in.
        ids: ascending numbers that the vectors are to have in the packed codes; by default from 0.
        seed: the seed of random choices.
    """
    count = sum(len(part) for part in parts)
    chosen = np.sort(np.random.default_rng(seed + 2).choice(count, min(count, CODE_SAMPLE), replace=False))
    of_photos = np.concatenate(lists.of_parts)
    book = Codebook.learn(lists.centres, _read(parts, chosen), of_photos[chosen], seed)
    given = np.arange(count) if ids is None else ids
    return book, pack(_encoded(book, parts, lists.of_parts), of_photos, given, len(lists.centres))


def recall_of_codes(
    book: Codebook,
    codes: CodeLists,
    parts: Sequence[Float[NDArray[np.float16], "_ axis"]],
    probes: int,
    trial: Trial,
) -> float:
    """The share of the ten nearest photos that a search by small codes finds."""
    nearest = NearestCodes(book, [codes], sum(len(part) for part in parts), probes, partial(_read, parts))
    return recall_of(trial.cosines, nearest.search(trial.queries, trial.cosines.shape[1] + 1)[0][:, 1:])


def _encoded(
    book: Codebook, parts: Sequence[NDArray[np.float16]], of_parts: Sequence[NDArray[np.int32]]
) -> Iterator[Codes]:
    """The codes of vectors, block after block."""
    for part, lists in zip(parts, of_parts, strict=True):
        for start in range(0, len(part), VECTORS_PER_BLOCK):
            block = slice(start, start + VECTORS_PER_BLOCK)
            yield book.encode(part[block], lists[block])
        forget(part)


def assign(
    centres: Float[Vectors, "list axis"], vectors: Float[NDArray[np.float16], "photo axis"]
) -> Int[NDArray[np.int32], " photo"]:
    """The list of each vector: that of the nearest centre."""
    index = load_faiss().IndexFlatIP(centres.shape[1])
    index.add(centres)
    nearest = [
        index.search(widened(vectors[start : start + VECTORS_PER_BLOCK]), 1)[1][:, 0].astype(np.int32)
        for start in range(0, len(vectors), VECTORS_PER_BLOCK)
    ]
    forget(vectors)
    return np.concatenate(nearest) if nearest else np.zeros(0, np.int32)


def _centres(sample: Vectors, number: int, seed: int) -> Vectors:
    faiss = load_faiss()
    # FAISS warns if there are few vectors per centre; that is not a fault here.
    means = faiss.Kmeans(
        sample.shape[1], number, niter=_ROUNDS, spherical=True, seed=seed + 1, min_points_per_centroid=1
    )
    means.train(sample)
    centres: Vectors = np.ascontiguousarray(means.centroids, np.float32)
    return centres


def _some(parts: Sequence[NDArray[np.float16]], count: int, random: np.random.Generator) -> Vectors:
    """Vectors drawn from all parts."""
    total = sum(len(part) for part in parts)
    return widened(_read(parts, np.sort(random.choice(total, count, replace=False))))


def _read(parts: Sequence[NDArray[np.float16]], numbers: Numbers) -> NDArray[np.float16]:
    """Vectors of parts that are numbered through; what else it brought into memory is let go."""
    vectors = reader_of(parts)(numbers)
    for part in parts:
        forget(part)
    return vectors


def _compared(parts: Sequence[NDArray[np.float16]], queries: Vectors, count: int) -> tuple[Vectors, Numbers]:
    """The nearest vectors of each query, by comparing all, block after block."""
    wanted = torch.from_numpy(queries)
    best, numbers = torch.zeros(len(queries), 0), torch.zeros(len(queries), 0, dtype=torch.int64)
    first = 0
    for part in parts:
        for start in range(0, len(part), VECTORS_PER_BLOCK):
            cosines = wanted @ torch.from_numpy(widened(part[start : start + VECTORS_PER_BLOCK])).T
            own = cosines.topk(min(count, cosines.shape[1]), dim=1)
            both = torch.cat([best, own.values], dim=1)
            best, places = both.topk(min(count, both.shape[1]), dim=1)
            numbers = torch.cat([numbers, own.indices + first], dim=1).gather(1, places)
            first += cosines.shape[1]
        forget(part)
    return best.numpy(), numbers.numpy()


def _choose(centres: Vectors, of_photos: NDArray[np.int32], trial: Trial) -> tuple[int, float]:
    """How many lists to look through, and the share of the nearest photos that are in these."""
    order = np.argsort(-(trial.queries @ centres.T), axis=1, kind="stable")
    place_of_list = np.argsort(order, axis=1)
    places = np.take_along_axis(place_of_list, of_photos[trial.numbers], axis=1)
    return grown_probes(len(centres), lambda probes: float((places < probes).mean()) if places.size else 1.0)


def grown_probes(lists: int, recall_with: Callable[[int], float]) -> tuple[int, float]:
    """How many lists are enough for the wanted recall, growing by half, and the recall of that.

    Args:
        lists: how many there are.
        recall_with: measures the recall of searching this many.
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
