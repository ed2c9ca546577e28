"""Small codes of vectors, from which an approximate search finds candidates, and the search itself.

A vector is rotated by a random rotation; the centre of its list is subtracted, and what is left is cut into pieces of
four numbers. Each piece is one byte: the number of the nearest of 256 pieces that were learnt from a sample (product
quantisation). The rotation spreads what vectors differ by evenly over the pieces. A search estimates cosines from the
codes of the nearest lists, reads the vectors of the best few hundred from the disk, and compares these exactly. So
cosines are true, and a search misses a little more; how much is measured when the codes are made.

Codes lie in a file list by list, each with the numbers of its vectors, and FAISS looks through them where the file is
mapped into memory: opening costs nothing, and processes that have the same index open share the memory.

Cost: a byte for four dimensions and 8 bytes per vector; making them, half a minute for a million vectors of 256
dimensions, of which a third is learning the pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8
from numpy.typing import NDArray

from finegraph.search.nearest import Mask, Nearest, Numbers, Read, Vectors, load_faiss, widened

CODE_SAMPLE = 16384
"""The number of vectors that pieces are learnt from."""
_PIECE, _PIECES, _BITS = 4, 256, 8
_ALIGNMENT = 8
_EXTRA, _FACTOR, _MAX_EXTRA = 190, 3, 8_000
"""How many more candidates than wanted vectors are compared: a constant, a multiple of the wanted number, a limit."""
Codes = UInt8[NDArray[np.uint8], "photo column"]


@dataclass(frozen=True, eq=False)
class Codebook:
    """What turns vectors into codes.

    Attributes:
        centres: (list, axis) of the lists.
        rotation: (axis, turned axis); a few more axes than before where the number is not a multiple of four.
        pieces: (place, 256, 4) the pieces that a code can name, for each of its places.
    """

    centres: Float[Vectors, "list axis"]
    rotation: Float[Vectors, "axis column"]
    pieces: Float[Vectors, "place 256 4"]

    def encode(
        self, vectors: Float[NDArray[np.float16], "photo axis"], lists: Int[NDArray[np.int32], " photo"]
    ) -> Codes:
        """The codes of some vectors that are in these lists."""
        codes: Codes = self._quantiser().compute_codes(self._rests(vectors, lists))
        return codes

    @classmethod
    def learn(
        cls,
        centres: Float[Vectors, "list axis"],
        vectors: Float[NDArray[np.float16], "photo axis"],
        lists: Int[NDArray[np.int32], " photo"],
        seed: int = 0,
    ) -> Codebook:
        """The codebook of a sample of vectors; at least one."""
        axes = centres.shape[1]
        places = -(-axes // _PIECE)
        square = np.random.default_rng(seed).standard_normal((places * _PIECE, places * _PIECE))
        rotation = np.ascontiguousarray(np.linalg.qr(square)[0][:axes], np.float32)
        book = cls(centres, rotation, np.zeros((places, _PIECES, _PIECE), np.float32))
        rests = book._rests(vectors, lists)
        if len(rests) < _PIECES:  # FAISS wants as many vectors as pieces
            rests = np.resize(rests, (_PIECES, rests.shape[1]))
        quantiser = book._quantiser()
        quantiser.cp.min_points_per_centroid = 1  # FAISS warns if there are few; that is not a fault here
        quantiser.cp.seed = seed + 1
        quantiser.train(rests)
        pieces = load_faiss().vector_to_array(quantiser.centroids).reshape(book.pieces.shape)
        return cls(centres, rotation, np.array(pieces, np.float32))

    def _rests(self, vectors: NDArray[np.float16], lists: NDArray[np.int32]) -> Vectors:
        """The rotated rest of vectors without their centres."""
        rests: Vectors = np.ascontiguousarray((widened(vectors) - self.centres[lists]) @ self.rotation)
        return rests

    def _quantiser(self) -> Any:
        faiss = load_faiss()
        places = len(self.pieces)
        quantiser = faiss.ProductQuantizer(places * _PIECE, places, _BITS)
        faiss.copy_array_to_vector(self.pieces.ravel(), quantiser.centroids)
        return quantiser


@dataclass(frozen=True, eq=False)
class PackedCodes:
    """Codes list by list, as FAISS looks through them.

    Attributes:
        entries: for each list the bytes of its codes, filled up to whole numbers, and then the numbers of its vectors.
        sizes: how many vectors each list has.
    """

    entries: Int[NDArray[np.int64], " item"]
    sizes: Int[NDArray[np.int64], " list"]


def pack(
    blocks: Iterable[Codes], of_photos: Int[NDArray[np.int32], " photo"], ids: Int[Numbers, " photo"], lists: int
) -> PackedCodes:
    """Pack codes.

    Args:
        blocks: the codes, in the order of the vectors, in blocks.
        of_photos: the list of each vector.
        ids: the number of each vector.
        lists: how many lists there are.
    """
    sizes = np.bincount(of_photos, minlength=lists)
    packed: NDArray[np.uint8] | None = None
    offsets = rooms = filled = np.zeros(lists, np.int64)
    first = 0
    for codes in blocks:
        if packed is None:
            rooms, offsets, total = _layout(sizes, codes.shape[1])
            packed, filled = np.zeros(total, np.uint8), np.zeros(lists, np.int64)
        own, own_ids = of_photos[first : first + len(codes)], ids[first : first + len(codes)]
        first += len(codes)
        order = np.argsort(own, kind="stable")
        new = np.bincount(own, minlength=lists)
        own = own[order]
        places = filled[own] + np.arange(len(own)) - (np.cumsum(new) - new)[own]
        filled += new
        width = codes.shape[1]
        packed[(offsets[own] + places * width)[:, None] + np.arange(width)] = codes[order]
        packed.view(np.int64)[(offsets[own] + rooms[own] * width) // _ALIGNMENT + places] = own_ids[order]
    entries = np.zeros(0, np.int64) if packed is None else packed.view(np.int64)
    return PackedCodes(entries, sizes)


def _layout(sizes: NDArray[np.int64], width: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """For how many vectors each list has room, where it begins, and how many bytes there are in all."""
    rooms = -(-sizes // _ALIGNMENT) * _ALIGNMENT
    ends = np.cumsum(rooms * (width + _ALIGNMENT))
    return rooms, np.concatenate([[0], ends[:-1]]).astype(np.int64), int(ends[-1])


class CodeSpan(NamedTuple):
    """Codes of vectors with successive ids, and the numbers that these vectors have now.

    Attributes:
        first: the first id.
        size: how many ids there are.
        start: the number of the first vector that is present.
        live: which of the ids, counted from the first, are still there; None for all.
    """

    first: int
    size: int
    start: int
    live: Int[Numbers, " place"] | None = None


class CodeLists:
    """Packed codes that can be searched, where they lie.

    Args:
        book: made the codes.
        packed: the codes; they must not change.
        spans: of all ids, in ascending order.
    """

    def __init__(self, book: Codebook, packed: PackedCodes, spans: Sequence[CodeSpan]) -> None:
        faiss = load_faiss()
        self._faiss, self._packed, self._spans = faiss, packed, tuple(spans)
        self._firsts = np.array([span.first for span in spans], np.int64)
        self._shifts = np.array([span.start - span.first for span in spans], np.int64)
        self._gaps = [place for place, span in enumerate(spans) if span.live is not None]
        lists, (places, _, _) = len(book.centres), book.pieces.shape
        self._centres = faiss.IndexFlatIP(places * _PIECE)
        self._centres.add(np.ascontiguousarray(book.centres @ book.rotation))
        self._index = faiss.IndexIVFPQ(self._centres, places * _PIECE, lists, places, _BITS, faiss.METRIC_INNER_PRODUCT)
        faiss.copy_array_to_vector(book.pieces.ravel(), self._index.pq.centroids)
        self._index.is_trained = True
        rooms, offsets, _ = _layout(packed.sizes, places)
        layout = np.ascontiguousarray(np.stack([packed.sizes, rooms, offsets], axis=1).astype(np.uint64))
        self._lists = faiss.OnDiskInvertedLists()
        self._lists.nlist, self._lists.code_size, self._lists.read_only = lists, places, True
        self._lists.prefetch_nthread = 0  # threads that would be started for each query
        self._lists.lists.resize(lists)
        faiss.memcpy(self._lists.lists.data(), faiss.swig_ptr(layout), layout.nbytes)
        # The memory stays ours: FAISS neither maps nor frees it, see `__del__`.
        self._lists.ptr = faiss.swig_ptr(packed.entries.view(np.uint8)) if len(packed.entries) else None
        self._index.replace_invlists(self._lists, False)
        self._index.ntotal = int(packed.sizes.sum())
        self._all = self._bits(None) if self._gaps else None

    def __del__(self) -> None:
        lists = getattr(self, "_lists", None)
        if lists is not None:
            lists.ptr = None  # else FAISS unmaps it

    def candidates(
        self, queries: Float[Vectors, "sample column"], count: int, only: Bool[Mask, " photo"] | None, probes: int
    ) -> Int[Numbers, "sample place"]:
        """The numbers of the vectors that seem nearest to turned queries, -1 where there are no more."""
        faiss = self._faiss
        bits = self._all if only is None else self._bits(only)  # must live as long as the search
        options = {} if bits is None else {"sel": faiss.IDSelectorBitmap(bits)}
        ids = self._index.search(queries, count, params=faiss.SearchParametersIVF(nprobe=probes, **options))[1]
        places = np.searchsorted(self._firsts, ids, side="right") - 1
        numbers: Numbers = np.where(ids < 0, -1, ids + self._shifts[places])
        for place in self._gaps:
            span, here = self._spans[place], (places == place) & (ids >= 0)
            if here.any():
                assert span.live is not None
                numbers[here] = span.start + np.searchsorted(span.live, ids[here] - span.first)
        return numbers

    def _bits(self, only: Mask | None) -> NDArray[np.uint8]:
        """One bit for each id: whether its vector is there and counts."""
        last = self._spans[-1]
        mask = np.zeros(last.first + last.size, np.bool_)
        for first, size, start, live in self._spans:
            if live is None:
                mask[first : first + size] = True if only is None else only[start : start + size]
            else:
                mask[first + live] = True if only is None else only[start : start + len(live)]
        return np.packbits(mask, bitorder="little")


class NearestCodes(Nearest):
    """Vectors that stay on the disk, found by their codes.

    Args:
        book: made the codes.
        groups: the codes; together of all vectors.
        count: how many vectors there are.
        probes: how many lists a search looks through.
        read: reads vectors.
    """

    def __init__(self, book: Codebook, groups: Sequence[CodeLists], count: int, probes: int, read: Read) -> None:
        super().__init__(count, book.centres.shape[1], len(book.centres), probes, read)
        self._groups, self._rotation = tuple(groups), book.rotation

    def _ask(self, queries: Vectors, wanted: int, only: Mask | None, probes: int) -> tuple[Vectors, Numbers]:
        rows = np.ascontiguousarray(queries @ self._rotation, np.float32)
        asked = min(self.count, wanted + min(_EXTRA + _FACTOR * wanted, _MAX_EXTRA))
        candidates = [group.candidates(rows, asked, only, probes) for group in self._groups]
        cosines = np.full((len(queries), wanted), -np.inf, np.float32)
        numbers = np.full((len(queries), wanted), -1, np.int64)
        for row, found in enumerate(np.concatenate(candidates, axis=1)):
            some = np.sort(found[found >= 0])
            if not len(some):
                continue
            best, chosen = self._compare(queries[row : row + 1], min(wanted, len(some)), some)
            cosines[row, : chosen.shape[1]], numbers[row, : chosen.shape[1]] = best[0], chosen[0]
        return cosines, numbers
