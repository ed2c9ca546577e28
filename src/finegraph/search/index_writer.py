"""Changing an index: one process at a time, and each change in one step.

New files are written first, then the state that names them takes the place of the old one (`index_state.py`). A process
that dies, or a disk that is full, at any moment before that leaves the index as it was; the next process that writes
removes what was half done. Removing marks photos; merging writes those that are left to new segments and forgets the
others.

Cost: adding writes what is added; removing writes the state alone; merging writes everything.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from finegraph.data.samples import Box
from finegraph.errors import IndexFolderError, InputError
from finegraph.files.checked_file import write_checked
from finegraph.files.closing import Closing
from finegraph.files.durable import is_temporary, make_folder, reason_of, remove_stale
from finegraph.files.folder_lock import LOCK_FILE, FolderLock
from finegraph.graph import LabelGraph
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.search.index_state import (
    ENDING,
    GRAPH,
    METHODS,
    STATE,
    EngineEntry,
    IndexState,
    ListsEntry,
    ModelEntry,
    ProjectionEntry,
    SegmentEntry,
    read_state,
    write_arrays,
    write_state,
)
from finegraph.search.inverted_lists import MAX_EXACT
from finegraph.search.list_files import ListPlaces, write_lists
from finegraph.search.nearest import Vectors
from finegraph.search.segments import NONE, Columns, InLists, Segment, join, live_rows, write_segment

MERGED_ROWS = 65536
"""How many photos a merged segment holds at most."""
_FEW = 8
"""The number of small segments that are not merged yet."""
_LATE = 4
"""Photos that came after the lists were made stay in these lists while they are at most this part of the others."""
_OWN = ("segment-", "lists-", "projection-")
Identity = tuple[str, Box | None]
"""What a photo is known by."""


class IndexedPlace(NamedTuple):
    """Where a photo is: the file of its segment, and its row there; in another engine, its id there and 0."""

    segment: str
    row: int


class Stored(NamedTuple):
    """A photo as the index has it.

    Attributes:
        path: where it is.
        box: the part of it that is used; None for all.
        place: where it is in the index.
        key: the fingerprint of its content.
        label: its fine label, None if it is not known.
        kinds: the number of the label that was seen on it, by kind.
    """

    path: str
    box: Box | None
    place: IndexedPlace
    key: bytes
    label: str | None
    kinds: dict[str, int]

    @property
    def identity(self) -> Identity:
        """What it is known by."""
        return self.path, self.box


class IndexWriter(Closing):
    """An index that this process alone may change, until `close`; use it in a `with` statement.

    Attributes:
        folder: where it is.
        state: what it consists of; every method that changes the index leaves the new state here and on the disk.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Take the lock of an index, and remove what a process that died has left.

        Raises:
            IndexFolderError: there is no index, it is damaged, or another process changes it.
        """
        self.folder = Path(folder)
        read_state(self.folder)  # before anything is written into what may be no index
        self._lock = _lock(self.folder)
        try:
            self.state = read_state(self.folder)
            self._segments: dict[str, Segment] = {}
            self._lists: ListPlaces | None = None
            self._sweep()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        *,
        model: ModelEntry,
        graph: LabelGraph,
        feature_size: int,
        method: str = "auto",
        engine: EngineEntry | None = None,
    ) -> Self:
        """Make an index without photos.

        Args:
            folder: where; it must not be there, or be empty.
            model: what makes the vectors.
            graph: its label graph.
            feature_size: the size of its feature.
            method: "exact", "approximate", or "auto" for exact up to 200,000 photos.
            engine: what holds the photos; None for the files of the index.

        Raises:
            IndexFolderError: something is there already, or it cannot be written.
        """
        if method not in METHODS:
            raise InputError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
        path = Path(folder)
        with explained_write(path):
            make_folder(path)
            with _lock(path):
                _refuse_taken(path)
                remove_stale(path)
                with contextlib.suppress(FileNotFoundError):  # of a process that died before there was an index
                    (path / GRAPH).unlink()
                entry = write_checked(path / GRAPH, canonical_json(graph).encode("utf-8"))
                write_state(
                    path,
                    IndexState(
                        model=model,
                        graph=entry,
                        feature_size=feature_size,
                        dimensions=feature_size,
                        method=method,
                        engine=engine,
                    ),
                )
        return cls(path)

    def close(self) -> None:
        """Let other processes change the index."""
        self._lock.close()

    # ---- looking ----------------------------------------------------------------------------------------------------

    def segment(self, place: IndexedPlace) -> Segment:
        """The segment of a photo."""
        if place.segment not in self._segments:
            self.segments()
        return self._segments[place.segment]

    def segments(self) -> list[Segment]:
        """The segments, opened and checked once.

        Raises:
            IndexFolderError: one is damaged or missing.
        """
        for entry in self.state.segments:
            held = self._segments.get(entry.file.name)
            if held is None:
                self._segments[entry.file.name] = self._opened(entry)
            elif held.entry is not entry:
                held.entry, held.live = entry, live_rows(entry)
        return [self._segments[entry.file.name] for entry in self.state.segments]

    def places(self) -> dict[Identity, IndexedPlace]:
        """Where each photo is, by its path and its box."""
        return {
            (segment.path(row), segment.box(row)): IndexedPlace(segment.entry.file.name, row)
            for segment in self.segments()
            for row in segment.live.tolist()
        }

    def stored(self, identities: Sequence[Identity]) -> dict[Identity, Stored]:
        """Those of some photos that are present."""
        places = self.places()
        return {
            identity: stored_in(self.segment(places[identity]), places[identity].row)
            for identity in dict.fromkeys(identities)
            if identity in places
        }

    def listed(self, labels: Sequence[str] | None = None, path: str | None = None) -> Iterator[Stored]:
        """All photos; or those of some fine labels, or those at a path and below it.

        Args:
            labels: the fine labels; None for all, and for photos without one.
            path: absolute; None for everywhere.
        """
        for segment in self.segments():
            for row in segment.live.tolist():
                if (labels is None or segment.label(row) in labels) and (
                    path is None or is_at(segment.path(row), path)
                ):
                    yield stored_in(segment, row)

    def labels(self) -> list[str]:
        """The fine labels that photos have, sorted."""
        return sorted({name for segment in self.segments() for name in segment.names})

    @property
    def photos(self) -> int:
        """How many photos there are."""
        return self.state.photos

    # ---- changing ---------------------------------------------------------------------------------------------------

    def set_projection(self, directions: Float[Vectors, "feature axis"], recall: float) -> None:
        """Project all vectors that will come; only before the first of them.

        Args:
            directions: (feature, dimension).
            recall: the share of the ten nearest photos that they keep.
        """
        if self.state.segments or self.state.projection is not None:
            raise InputError("a projection is chosen before the first photo is stored, and stays")
        with explained_write(self.folder):
            file = write_arrays(self._new("projection"), {"directions": directions.astype("<f4")}, {})
            entry = ProjectionEntry(file=file, recall=recall)
            self.commit(projection=entry, dimensions=int(directions.shape[1]))

    def add_roots(self, roots: Sequence[str]) -> None:
        """Note the folders that photos are named by; see `IndexState`."""
        new = [root for root in dict.fromkeys(roots) if root not in self.state.roots]
        if new:
            with explained_write(self.folder):
                self.commit(roots=(*self.state.roots, *new))

    def add(self, columns: Columns, instead_of: Sequence[IndexedPlace] = ()) -> None:
        """Store photos, and remove others in the same step.

        Args:
            columns: the photos.
            instead_of: where the photos are that they take the place of.
        """
        if columns.vectors.shape[1:] != (self.state.dimensions,):
            raise InputError(f"expected vectors of {self.state.dimensions} numbers, got {columns.vectors.shape[1:]}")
        marked = _marked(self.state.segments, instead_of)
        with explained_write(self.folder):
            segment = write_segment(self._new("segment"), columns, self._in_lists(columns.vectors))
            self.commit(segments=(*marked, segment))

    def remove(self, places: Sequence[IndexedPlace]) -> None:
        """Remove photos."""
        if places:
            with explained_write(self.folder):
                self.commit(segments=_marked(self.state.segments, places))

    def finish(self) -> None:
        """All photos are in: say so, merge small segments, and make lists if the search is to be approximate.

        Where there are lists, only segments that came after them are merged, until their photos are many.
        """
        many = len(self.state.segments) > _FEW + 2 * (self.state.photos // MERGED_ROWS)
        late = self._late() if many else ()
        if self.state.removed > self.state.photos or (many and not late):
            self.compact()
        elif many:
            self._merge(late)
        elif self.wants_lists() and self.state.lists is None:
            with explained_write(self.folder):
                self.commit(lists=self._make_lists(self.state.segments))
        if not self.state.complete:
            with explained_write(self.folder):
                self.commit(complete=True)

    def compact(self) -> None:
        """Write the photos that are present to as few segments as possible, and make new lists of them."""
        with explained_write(self.folder):
            merged = self._merged(self.state.segments)
            segments = tuple(write_segment(self._new("segment"), columns) for columns in merged)
            lists = self._make_lists(segments) if self.wants_lists() else None
            self.commit(segments=segments, lists=lists)

    def _late(self) -> tuple[SegmentEntry, ...]:
        """The segments of photos that came after the lists were made; none if these photos are too many for them."""
        lists = self.state.lists
        if lists is None:
            return ()
        late = tuple(segment.entry for segment in self.segments() if segment.lists == lists.file.name)
        return late if sum(entry.rows for entry in late) <= lists.photos // _LATE else ()

    def _merge(self, entries: Sequence[SegmentEntry]) -> None:
        """Write the photos of some segments to as few as possible; lists stay, and these photos stay in them."""
        with explained_write(self.folder):
            merged = tuple(
                write_segment(self._new("segment"), columns, self._in_lists(columns.vectors))
                for columns in self._merged(entries)
            )
            names = {entry.file.name for entry in entries}
            others = tuple(entry for entry in self.state.segments if entry.file.name not in names)
            self.commit(segments=(*others, *merged))

    def _merged(self, entries: Sequence[SegmentEntry]) -> Iterator[Columns]:
        """The photos present in some segments, in parts of the size of a merged segment."""
        waiting: list[Columns] = []
        held = 0
        for entry in entries:
            # One after the other: each has an open file, and there may be thousands.
            segment = self._segments.get(entry.file.name) or self._opened(entry)
            live, start = live_rows(entry), 0
            while start < len(live):
                rows = live[start : start + MERGED_ROWS - held]
                waiting.append(segment.columns(rows))
                start, held = start + len(rows), held + len(rows)
                if held == MERGED_ROWS:
                    yield join(waiting)
                    waiting, held = [], 0
        if waiting:
            yield join(waiting)

    def _opened(self, entry: SegmentEntry) -> Segment:
        """A segment, opened and checked.

        Raises:
            IndexFolderError: it is damaged or missing.
        """
        try:
            return Segment(self.folder, entry)
        except FileNotFoundError as error:
            raise IndexFolderError(f"{error.filename}: the file is missing; make the index again") from error

    def wants_lists(self) -> bool:
        """Whether the search is to be approximate, with this many photos."""
        count = self.photos
        return count > 0 and (self.state.method == "approximate" or (self.state.method == "auto" and count > MAX_EXACT))

    def _make_lists(self, entries: Sequence[SegmentEntry]) -> ListsEntry:
        """Lists of the photos that are present."""
        return write_lists(self._new("lists"), [Segment(self.folder, entry) for entry in entries])

    def _in_lists(self, vectors: NDArray[np.float16]) -> InLists | None:
        """The places of new photos in the lists; None if there are no lists."""
        entry = self.state.lists
        if entry is None:
            return None
        if self._lists is None or self._lists.file != entry.file.name:
            self._lists = ListPlaces(self.folder, entry)
        return self._lists.of(vectors)

    # ---- files ------------------------------------------------------------------------------------------------------

    def _new(self, noun: str) -> Path:
        """A name for a new file."""
        return self.folder / f"{noun}-{secrets.token_hex(8)}{ENDING}"

    def commit(self, **changes: Any) -> None:
        """Replace this state by the next one, then remove files that are no longer needed."""
        state = self.state.next(**changes)
        write_state(self.folder, state)
        self.state = state
        self._sweep()

    def _sweep(self) -> None:
        """Remove the files of an index that its state does not name. What cannot be removed now goes another time."""
        named = {file.name for file in self.state.files}
        with contextlib.suppress(OSError):
            remove_stale(self.folder)
            for entry in list(os.scandir(self.folder)):
                if entry.name.startswith(_OWN) and entry.name.endswith(ENDING) and entry.name not in named:
                    os.unlink(entry.path)
        self._segments = {name: segment for name, segment in self._segments.items() if name in named}


def stored_in(segment: Segment, row: int) -> Stored:
    """A photo of a segment."""
    seen = {kind: int(segment.arrays[f"kind:{kind}"][row]) for kind in segment.kinds}
    return Stored(
        segment.path(row),
        segment.box(row),
        IndexedPlace(segment.entry.file.name, row),
        bytes(segment.arrays["keys"][row].tobytes()),
        segment.label(row),
        {kind: number for kind, number in seen.items() if number != NONE},
    )


def _marked(segments: Sequence[SegmentEntry], places: Sequence[IndexedPlace]) -> tuple[SegmentEntry, ...]:
    """The segments with photos marked as removed; a segment without any photo left is left out."""
    rows: dict[str, list[int]] = {}
    for place in places:
        rows.setdefault(place.segment, []).append(place.row)
    entries = []
    for segment in segments:
        removed_rows = rows.get(segment.file.name)
        if removed_rows is None:
            entries.append(segment)
            continue
        removed = ~segment.live
        removed[removed_rows] = True
        if not removed.all():
            entries.append(SegmentEntry(file=segment.file, rows=segment.rows, removed=removed))
    return tuple(entries)


def is_at(photo: str, path: str) -> bool:
    """Whether a photo is at a path, or in a folder of that name or below."""
    return photo == path or photo.startswith(path.rstrip(os.sep) + os.sep)


def _lock(folder: Path) -> FolderLock:
    """The lock of an index."""
    return FolderLock(folder, noun="index", purpose="writing", error=IndexFolderError)


def _refuse_taken(path: Path) -> None:
    """Raise if a folder holds anything but what is left of an index that was never made."""
    names = {entry.name for entry in os.scandir(path) if not is_temporary(entry.name)} - {LOCK_FILE}
    if STATE in names:
        raise IndexFolderError(f"{path}: there is an index already; add photos to it, or choose another folder")
    if names - {GRAPH}:
        raise IndexFolderError(
            f"{path}: expected a new or empty folder for the index, got one with {min(names)!r} in it; choose another"
        )


@contextlib.contextmanager
def explained_write(folder: Path) -> Iterator[None]:
    """Say which index could not be written, and that it is as it was."""
    try:
        yield
    except OSError as error:
        raise IndexFolderError(
            f"{folder}: the index cannot be written: {reason_of(error)}; it is as it was before this change"
        ) from error
