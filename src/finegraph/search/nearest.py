"""The stored vectors in FAISS: the nearest of them, all of them or some, exactly or approximately.

Exactly, every vector is compared. Approximately, vectors lie in lists around centres, and only the lists whose centres
are nearest to the query are looked through (`IVF`). The vectors are the same half-precision numbers in both, so looking
through all lists is exact again: that is how a selective filter gets the right answers. Searching is safe from several
threads.

With small codes, half a byte per dimension is held in memory instead, by which a few times as many vectors are found as
are wanted; these are read where they lie on the disk, compared as ever, and the best of them are the answer. So cosines
are the same, and a search misses a little more.

Cost: 2 bytes per dimension and vector in memory, or half a byte; per query one pass over the vectors, or over a share.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from finegraph.errors import MissingExtraError

Vectors = NDArray[np.float32]
Mask = NDArray[np.bool_]
_SMALL_FACTOR, _SMALL_LEAST = 20, 200
"""With small codes, how many times the vectors that are wanted are looked at closely, and how many at least."""
_VECTORS_PER_BLOCK = 65536
"""How many vectors are widened to single precision at a time."""


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of near vectors: their centres, how many of them to look through, and the list of each vector by part."""

    centres: Float[Vectors, "list axis"]
    probes: int
    of_parts: Sequence[Int[NDArray[np.int32], " _"]]


class Nearest:
    """Vectors to search in.

    Args:
        parts: the vectors in half precision, in parts; they are numbered through.
        dimensions: their size.
        lists: for the approximate search; None to compare all.
        small: whether the approximate search holds small codes in memory; the vectors must stay where they are.
    """

    def __init__(
        self,
        parts: Sequence[Float[NDArray[np.float16], "_ _"]],
        dimensions: int,
        lists: Lists | None = None,
        small: bool = False,
    ) -> None:
        self._faiss = faiss = load_faiss()
        self._parts = parts if small and lists is not None else None
        self.count = sum(len(part) for part in parts)
        self.lists = 0 if lists is None else len(lists.centres)
        self.probes = 0 if lists is None else lists.probes
        half = faiss.ScalarQuantizer.QT_fp16
        if lists is None:
            self._index = faiss.IndexScalarQuantizer(dimensions, half, faiss.METRIC_INNER_PRODUCT)
            for part in parts:
                self._index.add_sa_codes(np.ascontiguousarray(part).view(np.uint8))
            return
        self._centres = faiss.IndexFlatIP(dimensions)
        self._centres.add(lists.centres)
        codes = half if self._parts is None else faiss.ScalarQuantizer.QT_4bit
        self._index = faiss.IndexIVFScalarQuantizer(
            self._centres, dimensions, self.lists, codes, faiss.METRIC_INNER_PRODUCT, False
        )
        if self._parts is not None and self.count:
            self._index.train(_some_rows(self._parts))  # the range of each dimension; the centres are there
        self._index.is_trained = True  # half precision needs no training
        start = 0
        for part, part_lists in zip(parts, lists.of_parts, strict=True):
            for first in range(0, len(part), _VECTORS_PER_BLOCK):
                some, numbers = (
                    widened(part[first : first + _VECTORS_PER_BLOCK]),
                    part_lists[first : first + _VECTORS_PER_BLOCK].astype(np.int64),
                )
                ids = np.arange(start, start + len(some))
                start += len(some)
                self._index.add_core(len(some), faiss.swig_ptr(some), faiss.swig_ptr(ids), faiss.swig_ptr(numbers))
            if self._parts is not None and isinstance(part.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                part.base.madvise(mmap.MADV_DONTNEED)  # what was read to make the codes need not stay in memory

    def search(
        self,
        queries: Float[Vectors, "sample axis"],
        count: int,
        only: Bool[Mask, " photo"] | None = None,
        probes: int | None = None,
    ) -> tuple[Float[Vectors, "sample place"], Int[NDArray[np.int64], "sample place"]]:
        """The nearest vectors of each query, best first: their cosines, and their numbers.

        Args:
            queries: of length 1.
            count: how many to find; fewer come out if there are fewer.
            only: which vectors count; None for all.
            probes: how many lists to look through; by default as many as were found to be enough, more where `only`
                leaves fewer vectors in each list, and all if that finds fewer than there are.
        """
        possible = self.count if only is None else int(np.count_nonzero(only))
        wanted = min(count, possible)
        if not wanted or not len(queries):
            return np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64)
        looked = self._probes(possible) if probes is None else min(probes, self.lists)
        asked = wanted if self._parts is None else min(possible, max(_SMALL_FACTOR * wanted, _SMALL_LEAST))
        scores, numbers = self._ask(queries, asked, only, looked)
        if probes is None and looked < self.lists and bool((numbers[:, :wanted] < 0).any()):
            scores, numbers = self._ask(queries, asked, only, self.lists)
        return (scores, numbers) if self._parts is None else self._best(queries, numbers, wanted)

    def _best(self, queries: Vectors, numbers: NDArray[np.int64], count: int) -> tuple[Vectors, NDArray[np.int64]]:
        """The best of some vectors of each query by their true cosines."""
        assert self._parts is not None
        scores = np.full(numbers.shape, -np.inf, np.float32)
        start = 0
        for part in self._parts:
            row, place = np.nonzero((numbers >= start) & (numbers < start + len(part)))
            if len(row):
                vectors = widened(part[numbers[row, place] - start])
                scores[row, place] = np.einsum("ij,ij->i", vectors, queries[row], optimize=True)
            start += len(part)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(scores, order, 1), np.take_along_axis(numbers, order, 1)

    def _probes(self, possible: int) -> int:
        """Enough lists to hold as many of the vectors that count as it takes without a filter."""
        return min(self.lists, math.ceil(self.probes * self.count / possible)) if self.lists else 0

    def _ask(self, queries: Vectors, count: int, only: Mask | None, probes: int) -> tuple[Vectors, NDArray[np.int64]]:
        faiss = self._faiss
        bits = None if only is None else np.packbits(only, bitorder="little")  # must live as long as the search
        options = {} if bits is None else {"sel": faiss.IDSelectorBitmap(bits)}
        settings = faiss.SearchParametersIVF(nprobe=probes, **options) if self.lists else None
        if not self.lists and options:
            settings = faiss.SearchParameters(**options)
        scores, numbers = self._index.search(np.ascontiguousarray(queries, np.float32), count, params=settings)
        return scores, numbers


def _some_rows(parts: Sequence[NDArray[np.float16]]) -> Vectors:
    """Vectors spread over all parts, to find the range of each dimension."""
    step = max(1, sum(len(part) for part in parts) // _VECTORS_PER_BLOCK)
    return widened(np.concatenate([part[::step] for part in parts]))


def widened(vectors: Float[NDArray[np.float16], "*shape"]) -> Float[Vectors, "*shape"]:
    """Vectors in single precision; torch does it several times as quickly as numpy."""
    contiguous = np.ascontiguousarray(vectors)
    if not contiguous.flags.writeable:  # torch takes only arrays that could be written to
        contiguous = contiguous.copy()
    wide: Vectors = torch.from_numpy(contiguous).float().numpy()
    return wide


def unit_rows(features: Float[Vectors, "row column"]) -> Float[Vectors, "row column"]:
    """Rows of length 1; rows of zeros stay as they are."""
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    rows: Vectors = (features / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
    return rows


def load_faiss() -> Any:
    """The module `faiss`.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError(
            'searching needs faiss, which is not installed; install it with `pip install "finegraph[search]"`'
        ) from error
    return faiss
