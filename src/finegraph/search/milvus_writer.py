"""Changing an index whose photos Milvus holds; the same interface as that of an index of files.

The folder of the index has its state, label graph and projection, as ever; photos go to the server. A photo is known
there by its path and box, so storing it again replaces it, and a job that was interrupted continues. Jobs see what was
stored before them; searches, which are made at the consistency "Bounded", may find photos some seconds after they were
stored. Cost: one request for a thousand photos.
"""

from __future__ import annotations

import math
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from finegraph.graph import LabelGraph
from finegraph.search.index_state import EngineEntry, ModelEntry, read_state
from finegraph.search.index_writer import Identity, IndexedPlace, IndexWriter, Stored, is_at
from finegraph.search.inverted_lists import NEIGHBOURS, QUERIES, grown_probes, recall_of
from finegraph.search.milvus_photos import MilvusCollection, Row, below, box_of, id_of, path_of, with_labels
from finegraph.search.nearest import Vectors
from finegraph.search.photo_index import read_index_graph
from finegraph.search.segments import Columns

_MIN_LISTS, _MAX_LISTS = 128, 65_536
"""Milvus makes 128 lists by default, of each part of its photos, and takes up to 65,536."""


class MilvusWriter(IndexWriter):
    """An index in Milvus that this process changes; see `IndexWriter`.

    Attributes:
        collection: the photos there.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Take the lock of an index, and connect; the collection is made if there are no photos yet.

        Raises:
            IndexFolderError: there is no index, it is damaged, or another process changes it.
            SearchEngineError: the server cannot be reached.
        """
        super().__init__(folder)
        try:
            assert self.state.engine is not None
            self.collection = self._connected()
            self._is_made = self.state.complete or self.collection.exists()
            if self._is_made:
                self.collection.load()
        except BaseException:
            self.close()
            raise

    @property
    def photos(self) -> int:
        """How many photos there are."""
        return self.collection.count() if self._is_made else 0

    def stored(self, identities: Sequence[Identity]) -> dict[Identity, Stored]:
        """Those of some photos that are there."""
        ids = {id_of(*identity): identity for identity in identities}
        return (
            {ids[row["id"]]: stored_row(self.collection, row) for row in self.collection.get(list(ids))}
            if self._is_made
            else {}
        )

    def listed(self, labels: Sequence[str] | None = None, path: str | None = None) -> Iterator[Stored]:
        """All photos; or those of some fine labels, or those at a path and below it."""
        parts = [with_labels(labels)] if labels is not None else []
        parts += [below(path)] if path is not None else []
        if self._is_made:
            for row in self.collection.listed(" and ".join(f"({part})" for part in parts)):
                if path is None or is_at(path_of(row["path"]), path):
                    yield stored_row(self.collection, row)

    def labels(self) -> list[str]:
        """The fine labels of the graph; those that photos have beside them are not listed."""
        return sorted(self.collection.graph.fine)

    def add(self, columns: Columns, instead_of: Sequence[IndexedPlace] = ()) -> None:
        """Store photos; the same photos are replaced, whatever `instead_of` says."""
        if not self._is_made:  # only now, because a projection decides how large vectors are
            self.collection = self._connected()
            self.collection.create()
            self._is_made = True
        self.collection.put(columns)

    def remove(self, places: Sequence[IndexedPlace]) -> None:
        """Remove photos."""
        self.collection.take_out([place.segment for place in places])

    def finish(self) -> None:
        """All photos are in: say so, and make lists if the search is to be approximate."""
        assert self.state.engine is not None
        if self.wants_lists() and not self.state.engine.lists:
            self._divide()
        if not self.state.complete:
            self.commit(complete=True)

    def compact(self) -> None:
        """Have Milvus forget what was removed, and make new lists."""
        self.collection.compact()
        if self.wants_lists():
            self._divide()

    def _divide(self) -> None:
        """Make lists, and find how many of them a search has to look through."""
        assert self.state.engine is not None
        photos = self.photos
        lists = min(_MAX_LISTS, max(_MIN_LISTS, 2 ** round(math.log2(math.sqrt(photos)))))
        if self.collection.is_embedded:
            lists = _MIN_LISTS  # it makes this many, whatever it is told
        self.collection.make_lists(lists)
        queries = self._some(QUERIES)

        def cosines(probes: int) -> Float[Vectors, "sample place"]:
            found = self.collection.nearest(queries, NEIGHBOURS + 1, "", probes, [])
            table = np.full((len(queries), NEIGHBOURS), -np.inf, np.float32)
            for row, hits in enumerate(found):
                table[row, : len(hits) - 1] = [hit["distance"] for hit in hits[1:]]
            return table

        truth = cosines(lists)
        probes, recall = grown_probes(lists, lambda number: recall_of(truth, cosines(number)))
        entry = replace(self.state.engine, lists=lists, probes=probes, recall=recall, photos=photos)
        self.commit(engine=entry)

    def _some(self, count: int) -> Float[Vectors, "sample axis"]:
        """The vectors of the first photos by id, which is a hash: as good as drawn by chance."""
        # Ids begin with 8 hexadecimal digits that are spread evenly; a little more than needed lie below this one.
        share = min(1.0, 4 * count / max(self.photos, 1))
        end = f"{round(share * 0xFFFFFFFF):08x}g"
        rows = self.collection.listed(f'id < "{end}"', ["vector"])
        vectors = [row["vector"] for row, _ in zip(rows, range(count), strict=False)]
        return np.array(vectors, np.float32)

    def _connected(self) -> MilvusCollection:
        assert self.state.engine is not None
        return MilvusCollection(self.state.engine, self.state.dimensions, read_index_graph(self.folder, self.state))


def stored_row(collection: MilvusCollection, row: Row) -> Stored:
    """A photo of a collection."""
    return Stored(
        path_of(row["path"]),
        box_of(row),
        IndexedPlace(row["id"], 0),
        bytes.fromhex(row["key"]),
        row["label"] or None,
        collection.codes.labels_in(row["seen"]),
    )


def new_writer(
    folder: str | os.PathLike[str],
    *,
    model: ModelEntry,
    graph: LabelGraph,
    feature_size: int,
    method: str = "auto",
    uri: str | None = None,
) -> IndexWriter:
    """Make an index without photos; see `IndexWriter.create`.

    Args:
        folder: where.
        model: what makes the vectors.
        graph: its label graph.
        feature_size: the size of its feature.
        method: how it is searched.
        uri: the server of Milvus that is to hold the photos, or a file for its embedded form; None for files of the
            index itself.

    Raises:
        IndexFolderError: something is there already, or it cannot be written.
        SearchEngineError: the server cannot be reached.
    """
    if uri is None:
        return IndexWriter.create(folder, model=model, graph=graph, feature_size=feature_size, method=method)
    name = re.sub(r"[^a-z0-9]+", "_", Path(folder).name.lower()).strip("_")[:40]
    place = uri if "://" in uri else os.path.abspath(uri)
    entry = EngineEntry(name="milvus", uri=place, collection=f"finegraph_{name}_{secrets.token_hex(6)}")
    MilvusCollection(entry, feature_size, graph)  # a server that is not there shows before anything is written
    return MilvusWriter.create(folder, model=model, graph=graph, feature_size=feature_size, method=method, engine=entry)


def open_writer(folder: str | os.PathLike[str]) -> IndexWriter:
    """Open an index to change it, whatever holds its photos; see `IndexWriter` and `MilvusWriter`."""
    state = read_state(Path(folder))
    return IndexWriter(folder) if state.engine is None else MilvusWriter(folder)
