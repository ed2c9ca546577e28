"""Photos of an index as columns, and a segment: the file that holds some of them.

A photo is known by its path (and its box, if the model looks at boxes). Its vector is kept in half precision: the
cosine of two photos changes by less than 0.001, and the index is half as large and twice as quick. What the model holds
it for is kept too, as its few most probable fine labels; a known label is assumed with certainty. Photos that are
added to an index that has lists come with their lists and their small codes.

Cost: 2 bytes per dimension, about 100 bytes and the path per photo.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8
from numpy.typing import NDArray

from finegraph.data.samples import Box
from finegraph.model.features.keys import PhotoKeys
from finegraph.search.index_state import Arrays, SegmentEntry, forget, read_index_arrays, write_arrays

GUESSES = 5
"""How many predicted fine labels are kept of a photo without a label."""
NONE = -1
"""In place of the number of a label: not known."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Columns:
    """Some photos.

    Attributes:
        vectors: (photo, dimension) of length 1, in half precision.
        keys: (photo, 16) the fingerprint of the content of the file; see `photo_key`.
        paths: where the photos are; absolute.
        labels: their fine labels, None if not known.
        guess_labels: (photo, guess) numbers of fine labels of the graph, `NONE` for no more.
        guess_probs: (photo, guess) their probabilities.
        kinds: per kind of the graph, the number of the label that was seen on each photo, `NONE` for none; kinds of
            which no photo has one may be left out.
        boxes: the part of each photo that is used; None for all of it.
    """

    vectors: Float[NDArray[np.float16], "photo axis"]
    keys: UInt8[NDArray[np.uint8], "photo _"]
    paths: Sequence[str]
    labels: Sequence[str | None]
    guess_labels: Int[NDArray[np.int32], "photo place"]
    guess_probs: Float[NDArray[np.float32], "photo place"]
    kinds: Mapping[str, Int[NDArray[np.int32], " photo"]]
    boxes: Sequence[Box | None]

    def __len__(self) -> int:
        return len(self.vectors)


class InLists(NamedTuple):
    """Photos in the lists of an index: the name of their file, the list of each photo, and its small code."""

    file: str
    lists: Int[NDArray[np.int32], " photo"]
    codes: UInt8[NDArray[np.uint8], "photo column"] | None


def write_segment(path: Path, columns: Columns, in_lists: InLists | None = None) -> SegmentEntry:
    """Write photos to a new segment.

    Args:
        path: of the file.
        columns: the photos.
        in_lists: their places in the lists of the index; None if it has none.

    Raises:
        OSError: it cannot be written; nothing of it is left.
    """
    names = sorted({label for label in columns.labels if label is not None})
    number_of: dict[str | None, int] = {None: NONE, **{name: number for number, name in enumerate(names)}}
    paths = [os.fsencode(one) for one in columns.paths]
    arrays: dict[str, NDArray[Any]] = {
        "vectors": columns.vectors.astype("<f2"),
        "keys": columns.keys,
        "paths": np.frombuffer(b"".join(paths), np.uint8),
        "path_ends": np.cumsum([len(one) for one in paths], dtype="<i8"),
        "labels": np.array([number_of[label] for label in columns.labels], "<i4"),
        "guess_labels": columns.guess_labels.astype("<i4"),
        "guess_probs": columns.guess_probs.astype("<f4"),
        "boxes": np.array([box or (np.nan,) * 4 for box in columns.boxes], "<f8").reshape(-1, 4),
    }
    arrays |= {f"kind:{name}": labels.astype("<i4") for name, labels in columns.kinds.items()}
    about: dict[str, object] = {"names": names}
    if in_lists is not None:
        about["lists"], arrays["lists"] = in_lists.file, in_lists.lists.astype("<i4")
        if in_lists.codes is not None:
            arrays["codes"] = in_lists.codes
    return SegmentEntry(file=write_arrays(path, arrays, about), rows=len(columns))


class Segment:
    """A segment that is open: its photos by row.

    Attributes:
        entry: its entry in the state.
        names: the fine labels that occur in it; `labels` are numbers of these.
        live: the rows of the photos that are present.
        lists: the name of the file of lists that its photos were put into when they came; None for none.
    """

    def __init__(self, folder: Path, entry: SegmentEntry) -> None:
        """Open and check it; see `read_index_arrays` for what may be wrong."""
        self.entry = entry
        self.arrays: Arrays
        self.arrays, about = read_index_arrays(folder, entry.file)
        self.names: list[str] = about["names"]
        self.lists: str | None = about.get("lists")
        self.live = live_rows(entry)
        self._path = folder / entry.file.name
        self._descriptor: int | None = None

    @property
    def kinds(self) -> list[str]:
        """The kinds that labels were seen of."""
        return [name.removeprefix("kind:") for name in self.arrays if name.startswith("kind:")]

    @property
    def vectors(self) -> Float[NDArray[np.float16], "photo axis"]:
        """The vectors of the photos that are present; if none was removed, as they lie in the file."""
        vectors = self.arrays["vectors"]
        return vectors if len(self.live) == len(vectors) else vectors[self.live]

    def path(self, row: int) -> str:
        """The path of a photo."""
        ends = self.arrays["path_ends"]
        start = int(ends[row - 1]) if row else 0
        return os.fsdecode(self.arrays["paths"][start : int(ends[row])].tobytes())

    def box(self, row: int) -> Box | None:
        """The box of a photo."""
        values = self.arrays["boxes"][row].tolist()
        return None if values[0] != values[0] else Box(*values)

    @cached_property
    def _boxed(self) -> Int[NDArray[np.int64], " place"]:
        """The rows of photos with boxes."""
        return np.flatnonzero(~np.isnan(self.arrays["boxes"][:, 0]))

    def boxed_copies(self, keys: PhotoKeys) -> list[int]:
        """Which of the photos that are present, counted without the removed ones, are copies of a part of a photo.

        Cost: a microsecond for each photo with a box.
        """
        if not len(self._boxed):
            return []
        stored, boxes = self.arrays["keys"], self.arrays["boxes"]
        return [
            int(np.searchsorted(self.live, row))
            for row in np.intersect1d(self._boxed, self.live, assume_unique=True).tolist()
            if stored[row].tobytes() == keys.of(Box(*boxes[row].tolist()))
        ]

    def label(self, row: int) -> str | None:
        """The fine label of a photo."""
        number = int(self.arrays["labels"][row])
        return None if number == NONE else self.names[number]

    def keep_open(self) -> None:
        """Read vectors from the file from now on, and not from its mapping.

        A mapped vector brings its surroundings into memory, up to megabytes, which a vector that is read does not.

        Raises:
            FileNotFoundError: it is not there any more.
        """
        if self._descriptor is None and hasattr(os, "pread") and len(self.arrays["vectors"]):
            self._descriptor = os.open(self._path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            weakref.finalize(self, os.close, self._descriptor)

    def expect(self, rows: Int[NDArray[np.int64], " place"]) -> None:
        """Have the vectors of some rows read from the disk, all at the same time, before they are asked for."""
        if self._descriptor is not None and hasattr(os, "posix_fadvise"):
            for place in self._places(rows):
                os.posix_fadvise(self._descriptor, place, self._vector_bytes, os.POSIX_FADV_WILLNEED)

    def read(self, rows: Int[NDArray[np.int64], " place"]) -> Float[NDArray[np.float16], "place axis"]:
        """The vectors of some rows."""
        vectors = self.arrays["vectors"]
        if self._descriptor is None:
            return vectors[rows]
        size = self._vector_bytes
        data = b"".join([os.pread(self._descriptor, size, place) for place in self._places(rows)])
        return np.frombuffer(data, vectors.dtype).reshape(len(rows), -1)

    @property
    def _vector_bytes(self) -> int:
        return int(self.arrays["vectors"].strides[0])

    def _places(self, rows: NDArray[np.int64]) -> list[int]:
        """Where the vectors of some rows begin in the file."""
        vectors = self.arrays["vectors"]
        assert vectors.base is not None
        begin = int(vectors.ctypes.data) - int(np.frombuffer(vectors.base, np.uint8, 1).ctypes.data)
        places: list[int] = (begin + rows * self._vector_bytes).tolist()
        return places

    def forget(self) -> None:
        """Let the memory go that parts of the mapped file take; they are read again where they are asked for."""
        forget(self.arrays["vectors"])

    def columns(self, rows: Int[NDArray[np.int64], " place"]) -> Columns:
        """Some of its photos."""
        chosen = rows.tolist()
        return Columns(
            vectors=self.arrays["vectors"][rows],
            keys=self.arrays["keys"][rows],
            paths=[self.path(row) for row in chosen],
            labels=[self.label(row) for row in chosen],
            guess_labels=self.arrays["guess_labels"][rows],
            guess_probs=self.arrays["guess_probs"][rows],
            kinds={name: self.arrays[f"kind:{name}"][rows] for name in self.kinds},
            boxes=[self.box(row) for row in chosen],
        )


def live_rows(entry: SegmentEntry) -> Int[NDArray[np.int64], " photo"]:
    """The rows of a segment whose photos are there."""
    return _all_rows(entry.rows) if entry.removed is None else np.flatnonzero(~entry.removed)


@lru_cache(maxsize=16)
def _all_rows(count: int) -> NDArray[np.int64]:
    """The numbers up to a count; segments of the same size share them."""
    rows = np.arange(count)
    rows.flags.writeable = False
    return rows


def join(parts: Sequence[Columns]) -> Columns:
    """Photos one after the other."""
    kinds = {name: None for part in parts for name in part.kinds}
    return Columns(
        vectors=np.concatenate([part.vectors for part in parts]),
        keys=np.concatenate([part.keys for part in parts]),
        paths=[path for part in parts for path in part.paths],
        labels=[label for part in parts for label in part.labels],
        guess_labels=np.concatenate([part.guess_labels for part in parts]),
        guess_probs=np.concatenate([part.guess_probs for part in parts]),
        kinds={
            name: np.concatenate([part.kinds.get(name, np.full(len(part), NONE, np.int32)) for part in parts])
            for name in kinds
        },
        boxes=[box for part in parts for box in part.boxes],
    )
