"""An index that is open, ready to be searched.

It is a snapshot of the folder at the time of opening: changing an index (`index_writer.py`) does not affect open ones,
and `is_current` tells when to open it again. Photos that another engine holds (`milvus_photos.py`) are searched as they
are there. Safe to search from several threads. Cost: opening reads and checks all files once.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from finegraph.errors import IndexFolderError, InputError, ShapeError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.graph.graph_files import graph_from_json
from finegraph.model.features.keys import PhotoKeys
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.search.conditions import Factors
from finegraph.search.embeddings import model_entry
from finegraph.search.filters import Where
from finegraph.search.hits import Hit, StoredPhoto
from finegraph.search.index_state import (
    AGAIN,
    STATE,
    IndexState,
    ModelEntry,
    mapped_bytes,
    read_index_arrays,
    read_state,
)
from finegraph.search.milvus_photos import MilvusPhotos
from finegraph.search.nearest import Vectors, load_faiss, unit_rows
from finegraph.search.photo_engine import Ask, BuiltInPhotos, PhotoEngine
from finegraph.search.projection import project

_TRIES = 3


class Index:
    """Photos that can be searched.

    Attributes:
        folder: where it is.
        state: what it consists of.
        graph: the label graph of the model that made it.
        directions: the projection (feature, dimension); None if there is none.
        small: whether an approximate search goes by small codes; None for where they are stored.
        engine: what holds the photos and finds them.
    """

    def __init__(self, folder: Path, state: IndexState, small: bool | None = False) -> None:
        """Open an index in a certain state; `open` does that for the state it is in."""
        self.folder, self.state, self.small = folder, state, small
        self._stamp: tuple[int, int, int] | None = None
        self.graph = read_index_graph(folder, state)
        self.directions = read_directions(folder, state)
        self.engine: PhotoEngine = (
            BuiltInPhotos(folder, state, self.graph, small)
            if state.engine is None
            else MilvusPhotos(state.engine, state.dimensions, self.graph)
        )

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, small: bool | None = False) -> Index:
        """Open an index.

        Args:
            folder: where it is.
            small: whether an approximate search looks through small codes, which lie on the disk, and reads only the
                best vectors; the cosines are the same, and a little more is missed. None for where the index has such
                codes; one of an earlier version has not, and True makes them now. An exact search stays as it is.

        Raises:
            IndexFolderError: there is none, it is damaged, or another version made it.
            SearchEngineError: the server that holds its photos cannot be reached.
            MissingExtraError: what searches it is not installed.
        """
        path = Path(folder)
        for _ in range(_TRIES):
            stamp = state_stamp(path)
            state = read_state(path)
            if state.engine is None:
                load_faiss()
            try:
                index = cls(path, state, small)
                index._stamp = stamp
                return index
            except FileNotFoundError as error:
                # Segments may have been merged between the two reads; then the state has changed.
                if read_state(path).is_same(state):
                    raise IndexFolderError(f"{error.filename}: the file is missing; {AGAIN}") from error
        raise IndexFolderError(f"{path}: the index changes all the time; try again when nothing writes to it")

    def __len__(self) -> int:
        return len(self.engine)

    def __repr__(self) -> str:
        return f"Index({str(self.folder)!r}, {len(self)} photos, {self.state.dimensions} dimensions, {self.method})"

    @property
    def method(self) -> str:
        """How it is searched: "exact" or "approximate"."""
        return self.engine.method

    @property
    def way(self) -> str:
        """The former name of `method`."""
        warnings.warn("Index.way is called Index.method now", DeprecationWarning, stacklevel=2)
        return self.method

    def is_current(self) -> bool:
        """Whether nothing has changed since it was opened; usually one `stat` of a file."""
        stamp = state_stamp(self.folder)
        if stamp is not None and stamp == self._stamp:
            return True
        if not read_state(self.folder).is_same(self.state):
            return False
        self._stamp = stamp  # written again with the same content
        return True

    def refuse_other(self, model: PhotoClassifier, path: str | os.PathLike[str] = "") -> None:
        """Raise if another model made this index.

        Args:
            model: the model whose features are to be compared with those of the index.
            path: where it is, for the message.

        Raises:
            IndexFolderError: naming both models.
        """
        refuse_other_model(self.folder, self.state, model_entry(model, path))

    def is_of(self, model: PhotoClassifier) -> bool:
        """Whether a model made this index."""
        return bool(self.state.model.digest == model_entry(model).digest)

    # ---- queries ----------------------------------------------------------------------------------------------------

    def search(
        self,
        vectors: ArrayLike,
        count: int = 10,
        *,
        where: Where | None = None,
        where_not: Where | None = None,
        per_label: int | None = None,
        guessed: bool = False,
        factors: Float[Factors, "batch fine"] | None = None,
        without: Sequence[bytes | PhotoKeys | None] | None = None,
    ) -> list[list[Hit]]:
        """The most similar photos.

        Args:
            vectors: (batch, feature) features of the model, of any length; one row may come alone.
            count: how many photos at most.
            where: what the labels of the photos are to be, such as `{"restaurant": "B"}`; a set means one of these, and
                `"fine"` is the fine label. Exactly the photos that pass are searched.
            where_not: what their labels are not to be.
            per_label: how many photos of each fine label at most.
            guessed: whether photos without a fine label pass filters by what the model takes them for.
            factors: (batch, fine) from `condition_factors`: photos are ordered by these and their similarity together.
            without: per query, the fingerprint of a photo that is not to be found, see `photo_key`; or those of any
                part of it; or None.

        Returns:
            For each query the hits, best first; fewer than `count` only if no more photos pass.

        Raises:
            ShapeError: the vectors are not of this model's size.
            InputError: an argument is wrong.
        """
        for name, number in (("count", count), ("per_label", per_label)):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise InputError(f"{name}: expected a whole number of at least 1, got {number!r}")
        queries = project(self._features(vectors), self.directions)
        if factors is not None and factors.shape != (len(queries), len(self.graph)):
            raise ShapeError(f"factors: expected shape {(len(queries), len(self.graph))}, got {factors.shape}")
        ask = Ask(count=count, where=where, where_not=where_not, per_label=per_label, guessed=guessed)
        return self.engine.search(queries, ask, factors, without)

    def centroid(self, label: str) -> Float[Vectors, "1 axis"]:
        """The mean direction of the photos of a fine label, in the dimensions of the index; see `search_centroid`.

        Raises:
            UnknownNameError: no such label.
            InputError: no photo of it.
        """
        if not self.engine.has_label(label):
            raise unknown_name("fine label", label, self.engine.names)
        vectors = self.engine.vectors_of(label)
        if not len(vectors):
            raise InputError(f"{label!r}: no photo of this fine label is in the index, so it cannot be searched for")
        return unit_rows(vectors.mean(axis=0, keepdims=True))

    def search_label(
        self,
        label: str,
        count: int = 10,
        *,
        where: Where | None = None,
        where_not: Where | None = None,
        per_label: int | None = None,
        guessed: bool = False,
        factors: Float[Factors, " fine"] | None = None,
    ) -> list[Hit]:
        """The photos that are most similar to the mean of the photos of a fine label; see `search`.

        Its own photos are among them, the most typical first; filter by `where_not={"fine": label}` for others.
        """
        ask = Ask(count=count, where=where, where_not=where_not, per_label=per_label, guessed=guessed)
        rows = None if factors is None else factors[np.newaxis]
        return self.engine.search(self.centroid(label), ask, rows, None)[0]

    def copies(self, keys: bytes | PhotoKeys) -> list[StoredPhoto]:
        """The photos of the index with the content of a photo, whatever part of it they are of.

        Args:
            keys: its fingerprint, see `photo_key`; or those of any part of it.
        """
        return self.engine.copies(keys)

    def _features(self, vectors: ArrayLike) -> Vectors:
        features = np.asarray(vectors, dtype=np.float32)
        features = features[np.newaxis] if features.ndim == 1 else features
        if features.ndim != 2 or features.shape[1] != self.state.feature_size:
            raise ShapeError(
                f"vectors: expected features of shape (batch, {self.state.feature_size}), got {features.shape}"
            )
        if not np.isfinite(features).all():
            raise InputError("vectors: expected finite numbers, got NaN or infinity")
        return features


def state_stamp(folder: Path) -> tuple[int, int, int] | None:
    """A stamp that changes with the state file, found without reading it; None if there is no file."""
    try:
        status = os.stat(folder / STATE)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def refuse_other_model(folder: Path, state: IndexState, model: ModelEntry) -> None:
    """Raise if another model made an index; see `Index.refuse_other`."""
    made = state.model
    if made.digest != model.digest:
        raise IndexFolderError(
            f"{folder}: expected the model that made this index, {_name(made)}, got {_name(model)}; features of two "
            "models cannot be compared: use that model, or make a new index with this one"
        )


def read_index_graph(folder: Path, state: IndexState) -> LabelGraph:
    """The label graph of an index."""
    return graph_from_json(bytes(mapped_bytes(folder, state.graph)).decode("utf-8"), str(folder / state.graph.name))


def read_directions(folder: Path, state: IndexState) -> Float[Vectors, "feature axis"] | None:
    """The projection of an index."""
    if state.projection is None:
        return None
    return np.array(read_index_arrays(folder, state.projection.file)[0]["directions"])


def _name(model: ModelEntry) -> str:
    place = repr(model.path) if model.path else "a model"
    return f"{place} ({model.network}, fingerprint {model.digest[:12]})"
