"""The file of the lists of an index: the centres, the list of each photo, and the small codes list by list.

    centres          (list, axis)
    segment-...      per segment the list of each row
    code_rotation, code_pieces, code_entries, code_sizes    see `Codebook` and `PackedCodes`

Codes are numbered by the rows of the segments that there were, one segment after the other. Photos that come later are
put into the lists when they are stored: their segment holds the list and the code of each (`segments.py`). What an
earlier version has stored lacks one or the other, which is then made when the index is opened.

Cost: opening reads the file once, to check it; codes stay on the disk until they are looked through.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from finegraph.search.index_state import Arrays, ListsEntry, read_index_arrays, write_arrays
from finegraph.search.inverted_lists import assign, draw_trial, make_codes, make_lists, recall_of_codes
from finegraph.search.nearest import Lists, Read
from finegraph.search.segments import InLists, Segment
from finegraph.search.small_codes import Codebook, CodeLists, CodeSpan, NearestCodes, PackedCodes, pack


def write_lists(path: Path, segments: Sequence[Segment]) -> ListsEntry:
    """Make lists and small codes of photos, and write them to a new file; photos that were removed are in none.

    Raises:
        OSError: it cannot be written; nothing of it is left.
    """
    parts = [segment.vectors for segment in segments]
    trial = draw_trial(parts)
    lists, recall = make_lists(parts, trial)
    rows = [segment.entry.rows for segment in segments]
    firsts = np.cumsum([0, *rows])
    ids = np.concatenate([first + segment.live for first, segment in zip(firsts, segments, strict=False)])
    book, packed = make_codes(parts, lists, ids)
    spans = [CodeSpan(0, int(firsts[-1]), 0, None if len(ids) == firsts[-1] else ids)]
    code_recall = recall_of_codes(book, CodeLists(book, packed, spans), parts, lists.probes, trial)
    arrays: dict[str, NDArray[Any]] = {
        "centres": lists.centres,
        "code_rotation": book.rotation.astype("<f4"),
        "code_pieces": book.pieces.astype("<f4"),
        "code_entries": packed.entries.astype("<i8", copy=False),
        "code_sizes": packed.sizes.astype("<i8"),
    }
    for segment, segment_lists in zip(segments, lists.of_parts, strict=True):
        of_rows = np.zeros(segment.entry.rows, "<i4")
        of_rows[segment.live] = segment_lists
        arrays[segment.entry.file.name] = of_rows
    names = [segment.entry.file.name for segment in segments]
    about = {"segments": names, "rows": rows, "code_recall": code_recall}
    file = write_arrays(path, arrays, about)
    return ListsEntry(file=file, count=len(lists.centres), probes=lists.probes, recall=recall, photos=len(ids))


def read_lists(folder: Path, entry: ListsEntry, segments: Sequence[Segment]) -> Lists:
    """The lists of an index, with the photos that came after they were made; see `read_index_arrays` for errors."""
    arrays, _ = read_index_arrays(folder, entry.file)
    return _lists_of(arrays, entry, segments)


def read_code_recall(folder: Path, entry: ListsEntry) -> float | None:
    """The share of the ten nearest photos that a search by small codes finds; None if there are none."""
    recall = read_index_arrays(folder, entry.file)[1].get("code_recall")
    return None if recall is None else float(recall)


class ListPlaces:
    """Puts new photos into the lists of an index.

    Attributes:
        file: the name of the file of the lists.
    """

    def __init__(self, folder: Path, entry: ListsEntry) -> None:
        """Read the lists; see `read_index_arrays` for errors."""
        arrays, _ = read_index_arrays(folder, entry.file)
        self.file = entry.file.name
        self._centres, self._book = np.array(arrays["centres"]), _codebook_of(arrays)

    def of(self, vectors: Float[NDArray[np.float16], "photo axis"]) -> InLists:
        """The list and the small code of each of some photos; no codes if an earlier version made the lists."""
        lists = assign(self._centres, vectors)
        return InLists(self.file, lists, None if self._book is None else self._book.encode(vectors, lists))


def open_codes(
    folder: Path, entry: ListsEntry, segments: Sequence[Segment], read: Read, must: bool = True
) -> NearestCodes | None:
    """The photos of an index, to be searched by their small codes.

    Args:
        folder: of the index.
        entry: of its lists.
        segments: its photos.
        read: reads their vectors.
        must: whether codes are made now if an earlier version made the lists; else it returns None.

    Raises:
        IndexFolderError: the file of the lists is damaged or cannot be read.
        FileNotFoundError: it is not there.
    """
    arrays, about = read_index_arrays(folder, entry.file)
    starts = np.cumsum([0, *(len(segment.live) for segment in segments)]).tolist()
    book = _codebook_of(arrays)
    if book is None and not must:
        return None
    if book is None:
        lists = _lists_of(arrays, entry, segments)
        book, packed = make_codes([segment.vectors for segment in segments], lists)
        groups = [CodeLists(book, packed, [CodeSpan(0, starts[-1], 0)])]
        return NearestCodes(book, groups, starts[-1], entry.probes, read)
    places = {segment.entry.file.name: place for place, segment in enumerate(segments)}
    spans, first = [], 0
    for name, rows in zip(about["segments"], about["rows"], strict=True):
        place = places.pop(name, None)
        if place is None:  # all its photos were removed
            spans.append(CodeSpan(first, rows, 0, np.zeros(0, np.int64)))
        else:
            live = segments[place].live
            spans.append(CodeSpan(first, rows, starts[place], None if len(live) == rows else live))
        first += rows
    groups = [CodeLists(book, PackedCodes(arrays["code_entries"], np.array(arrays["code_sizes"])), spans)]
    if places:
        groups.append(_late_codes(book, entry, segments, starts, sorted(places.values())))
    return NearestCodes(book, groups, starts[-1], entry.probes, read)


def _late_codes(
    book: Codebook, entry: ListsEntry, segments: Sequence[Segment], starts: Sequence[int], late: Sequence[int]
) -> CodeLists:
    """The codes of photos that came after the lists were made, packed in memory."""
    of_photos, codes, spans, first = [], [], [], 0
    for place in late:
        segment = segments[place]
        if segment.lists == entry.file.name and "codes" in segment.arrays:
            of_segment, own = segment.arrays["lists"][segment.live], segment.arrays["codes"][segment.live]
        else:  # added by an earlier version
            of_segment = assign(book.centres, segment.vectors)
            own = book.encode(segment.vectors, of_segment)
        of_photos.append(of_segment)
        codes.append(own)
        spans.append(CodeSpan(first, len(own), starts[place]))
        first += len(own)
    packed = pack(codes, np.concatenate(of_photos), np.arange(first), len(book.centres))
    return CodeLists(book, packed, spans)


def _lists_of(arrays: Arrays, entry: ListsEntry, segments: Sequence[Segment]) -> Lists:
    centres = np.array(arrays["centres"])
    of_parts = []
    for segment in segments:
        if segment.entry.file.name in arrays:
            of_parts.append(arrays[segment.entry.file.name][segment.live])
        elif segment.lists == entry.file.name:
            of_parts.append(segment.arrays["lists"][segment.live])
        else:  # added by an earlier version
            of_parts.append(assign(centres, segment.vectors))
    return Lists(centres, entry.probes, of_parts)


def _codebook_of(arrays: Arrays) -> Codebook | None:
    if "code_pieces" not in arrays:
        return None
    return Codebook(np.array(arrays["centres"]), np.array(arrays["code_rotation"]), np.array(arrays["code_pieces"]))
