"""The nearest of the stored vectors: all of them or some, exactly or approximately.

Exactly, every vector is compared. Approximately, vectors lie in lists around centres, and only the lists whose centres
are nearest to the query are looked through. FAISS does both (`NearestVectors`), with the same half-precision numbers,
so looking through all lists is exact again: that is how a selective filter gets the right answers. If only a few
vectors count, they are read and compared one by one, whatever the method. Searching is safe from several threads.

Cost: 2 bytes per dimension and vector in memory; per query one pass over the vectors, or over a share. `small_codes.py`
searches with less memory.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from finegraph.errors import MissingExtraError

Vectors = NDArray[np.float32]
Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Only = Bool[Mask, " photo"] | Int[Numbers, " item"]
"""Which vectors count: one bit each, or the ascending numbers of those that do."""
Read = Callable[[Int[Numbers, " item"]], Float[NDArray[np.float16], "item axis"]]
"""Reads the vectors with some ascending numbers."""
_MAX_COMPARED = 4_000_000
"""Up to this many numbers, the vectors that count are read and compared one by one."""
VECTORS_PER_BLOCK = 65536
"""How many vectors are widened to single precision at a time."""


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of near vectors: their centres, how many of them to look through, and the list of each vector by part."""

    centres: Float[Vectors, "list axis"]
    probes: int
    of_parts: Sequence[Int[NDArray[np.int32], " _"]]


class Nearest(ABC):
    """Vectors to search in.

    Attributes:
        count: how many there are.
        lists: into how many lists they are divided; 0 if all are compared.
        probes: how many lists a search looks through if nothing else is asked for.
    """

    def __init__(self, count: int, dimensions: int, lists: int, probes: int, read: Read) -> None:
        self.count, self.lists, self.probes = count, lists, probes
        self._dimensions, self._read = dimensions, read

    def search(
        self, queries: Float[Vectors, "sample axis"], count: int, only: Only | None = None, probes: int | None = None
    ) -> tuple[Float[Vectors, "sample place"], Int[Numbers, "sample place"]]:
        """The nearest vectors of each query, best first: their cosines, and their numbers.

        Args:
            queries: of length 1.
            count: how many to find; fewer come out if there are fewer.
            only: which vectors count; None for all.
            probes: how many lists to look through; by default as many as were found to be enough, more where `only`
                leaves fewer vectors in each list, and all if that finds fewer than there are.
        """
        possible = self.count if only is None else count_of(only)
        wanted = min(count, possible)
        if not wanted or not len(queries):
            return np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64)
        if is_numbers(only) and possible * self._dimensions <= _MAX_COMPARED:
            return self._compare(queries, wanted, only)
        mask = mask_of(only, self.count) if is_numbers(only) else cast("Mask | None", only)
        looked = self._probes(possible) if probes is None else min(probes, self.lists)
        cosines, numbers = self._ask(queries, wanted, mask, looked)
        if probes is None and looked < self.lists and bool((numbers < 0).any()):
            cosines, numbers = self._ask(queries, wanted, mask, self.lists)
        return cosines, numbers

    def _compare(self, queries: Vectors, wanted: int, numbers: Numbers) -> tuple[Vectors, Numbers]:
        """The nearest of a few vectors."""
        cosines = queries @ widened(self._read(numbers)).T
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :wanted]
        return np.take_along_axis(cosines, order, 1), numbers[order]

    def _probes(self, possible: int) -> int:
        """Enough lists to hold as many of the vectors that count as it takes without a filter."""
        return min(self.lists, math.ceil(self.probes * self.count / possible)) if self.lists else 0

    @abstractmethod
    def _ask(self, queries: Vectors, wanted: int, only: Mask | None, probes: int) -> tuple[Vectors, Numbers]:
        """Cosines and numbers of the best vectors of some lists, -1 in place of a number where there are no more."""


class NearestVectors(Nearest):
    """Vectors held in memory in half precision.

    Args:
        parts: the vectors, in parts; they are numbered through.
        dimensions: their size.
        lists: for the approximate search; None to compare all.
        read: reads vectors from where they lie; by default from the parts.
    """

    def __init__(
        self,
        parts: Sequence[Float[NDArray[np.float16], "_ _"]],
        dimensions: int,
        lists: Lists | None = None,
        read: Read | None = None,
    ) -> None:
        number, probes = (0, 0) if lists is None else (len(lists.centres), lists.probes)
        super().__init__(sum(len(part) for part in parts), dimensions, number, probes, read or reader_of(parts))
        self._faiss = faiss = load_faiss()
        half = faiss.ScalarQuantizer.QT_fp16
        if lists is None:
            self._index = faiss.IndexScalarQuantizer(dimensions, half, faiss.METRIC_INNER_PRODUCT)
            for part in parts:
                self._index.add_sa_codes(np.ascontiguousarray(part).view(np.uint8))
            return
        self._centres = faiss.IndexFlatIP(dimensions)
        self._centres.add(lists.centres)
        self._index = faiss.IndexIVFScalarQuantizer(
            self._centres, dimensions, self.lists, half, faiss.METRIC_INNER_PRODUCT, False
        )
        self._index.is_trained = True  # half precision needs no training
        start = 0
        for part, part_lists in zip(parts, lists.of_parts, strict=True):
            for first in range(0, len(part), VECTORS_PER_BLOCK):
                some, numbers = (
                    widened(part[first : first + VECTORS_PER_BLOCK]),
                    part_lists[first : first + VECTORS_PER_BLOCK].astype(np.int64),
                )
                ids = np.arange(start, start + len(some))
                start += len(some)
                self._index.add_core(len(some), faiss.swig_ptr(some), faiss.swig_ptr(ids), faiss.swig_ptr(numbers))

    def _ask(self, queries: Vectors, wanted: int, only: Mask | None, probes: int) -> tuple[Vectors, Numbers]:
        faiss = self._faiss
        bits = None if only is None else np.packbits(only, bitorder="little")  # must live as long as the search
        options = {} if bits is None else {"sel": faiss.IDSelectorBitmap(bits)}
        settings = faiss.SearchParametersIVF(nprobe=probes, **options) if self.lists else None
        if not self.lists and options:
            settings = faiss.SearchParameters(**options)
        cosines, numbers = self._index.search(np.ascontiguousarray(queries, np.float32), wanted, params=settings)
        return cosines, numbers


def is_numbers(only: Only | None) -> TypeGuard[Int[Numbers, " item"]]:
    """Whether the numbers of some vectors are given, and not one bit for each."""
    return only is not None and only.dtype != np.bool_


def count_of(only: Only) -> int:
    """How many vectors count."""
    return len(only) if is_numbers(only) else int(np.count_nonzero(only))


def mask_of(numbers: Int[Numbers, " place"], count: int) -> Bool[Mask, " photo"]:
    """One bit for each of `count` vectors: whether its number is among some."""
    mask = np.zeros(count, np.bool_)
    mask[numbers] = True
    return mask


def reader_of(parts: Sequence[Float[NDArray[np.float16], "_ _"]]) -> Read:
    """Reads vectors from parts that are numbered through."""
    starts = np.cumsum([0, *(len(part) for part in parts)])

    def read(numbers: Numbers) -> NDArray[np.float16]:
        bounds = np.searchsorted(numbers, starts)
        found = [
            part[numbers[first:last] - start]
            for part, start, first, last in zip(parts, starts, bounds, bounds[1:], strict=False)
            if last > first
        ]
        return np.concatenate(found) if found else np.zeros((0, 0), np.float16)

    return read


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
