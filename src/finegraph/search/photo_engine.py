"""What holds the photos of an index and finds them: the interface of all engines, and the one that is built in.

An index (`photo_index.py`) knows the model, the label graph and the projection, and asks its engine for photos. The
built-in engine reads them from the files of the index: labels are in memory, and vectors are, or stay there.
Another engine holds them in its own server (`milvus_photos.py`). Both give the same answers to the same questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from jaxtyping import Float

from finegraph.graph import LabelGraph
from finegraph.model.features.keys import PhotoKeys
from finegraph.search.conditions import Factors
from finegraph.search.filters import Where, selection
from finegraph.search.hits import Hit, StoredPhoto, rank, stored_photo
from finegraph.search.index_state import IndexState
from finegraph.search.list_files import open_codes, read_lists
from finegraph.search.nearest import Nearest, NearestVectors, Only, Vectors, is_numbers, widened
from finegraph.search.photo_table import Table
from finegraph.search.segments import Segment


@dataclass(frozen=True, kw_only=True)
class Ask:
    """The options of a query; see `Index.search`."""

    count: int
    where: Where | None = None
    where_not: Where | None = None
    per_label: int | None = None
    guessed: bool = False


class PhotoEngine(Protocol):
    """What an index asks of whatever holds its photos."""

    @property
    def method(self) -> str:
        """How it is searched: "exact" or "approximate"."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """Fine labels to name in messages: those of the graph, and others that photos have as far as they are known."""
        ...

    def __len__(self) -> int: ...

    def has_label(self, label: str) -> bool:
        """Whether the graph or a photo has a fine label."""
        ...

    def search(
        self,
        queries: Float[Vectors, "sample axis"],
        ask: Ask,
        factors: Float[Factors, "sample fine"] | None,
        without: Sequence[bytes | PhotoKeys | None] | None,
    ) -> list[list[Hit]]:
        """The best photos for each query of length 1, in the dimensions of the index."""
        ...

    def vectors_of(self, label: str) -> Float[Vectors, "photo axis"]:
        """The vectors of the photos of a fine label."""
        ...

    def copies(self, keys: bytes | PhotoKeys) -> list[StoredPhoto]:
        """The photos with the content of a photo."""
        ...


class BuiltInPhotos:
    """The photos in the files of an index.

    Attributes:
        table: their labels.
        nearest: their vectors.
    """

    def __init__(self, folder: Path, state: IndexState, graph: LabelGraph, small: bool | None = False) -> None:
        """Open and check the files; see `read_index_arrays` for what may be wrong."""
        segments = [Segment(folder, entry) for entry in state.segments]
        self.table = Table(segments, graph)
        self.nearest: Nearest
        codes = None
        if state.lists is not None and small is not False:
            codes = open_codes(folder, state.lists, segments, self.table.vectors, must=small is True)
        if codes is not None:
            self.nearest = codes
            for segment in segments:
                segment.keep_open()
        else:
            parts = [segment.vectors for segment in segments]
            lists = None if state.lists is None else read_lists(folder, state.lists, segments)
            self.nearest = NearestVectors(parts, state.dimensions, lists, self.table.vectors)
            self.table.forget()

    def __len__(self) -> int:
        return len(self.table)

    @property
    def method(self) -> str:
        """See `PhotoEngine`, as for the others."""
        return "approximate" if self.nearest.lists else "exact"

    @property
    def names(self) -> Sequence[str]:
        """The fine labels of the graph, and others that photos have."""
        return self.table.names

    def has_label(self, label: str) -> bool:
        """Whether the graph or a photo has a fine label."""
        return label in self.table.names

    def search(
        self,
        queries: Float[Vectors, "sample axis"],
        ask: Ask,
        factors: Float[Factors, "sample fine"] | None,
        without: Sequence[bytes | PhotoKeys | None] | None,
    ) -> list[list[Hit]]:
        """The best photos for each query."""
        only = selection(self.table, ask.where, ask.where_not, ask.guessed)
        return [
            rank(
                self.table,
                self.nearest,
                queries[row : row + 1],
                ask.count,
                self._others(only, None if without is None else without[row]),
                None if factors is None else factors[row],
                ask.per_label,
            )
            for row in range(len(queries))
        ]

    def vectors_of(self, label: str) -> Float[Vectors, "photo axis"]:
        """The vectors of the photos of a fine label."""
        number = self.table.names.index(label)
        photos = np.unique(self.table.by_label.of([number])[0]).astype(np.int64)
        return widened(self.table.vectors(photos[self.table.labels[photos] == number]))

    def copies(self, keys: bytes | PhotoKeys) -> list[StoredPhoto]:
        """The photos with the content of a photo."""
        return [stored_photo(self.table, photo) for photo in self.table.copies(keys).tolist()]

    def _others(self, only: Only | None, keys: bytes | PhotoKeys | None) -> Only | None:
        """The photos that count, without those of a certain content."""
        copies = self.table.copies(keys) if keys is not None else ()
        if not len(copies):
            return only
        if is_numbers(only):
            return np.setdiff1d(only, copies, assume_unique=True)
        others = np.ones(len(self.table), np.bool_) if only is None else only.copy()
        others[copies] = False
        return others
