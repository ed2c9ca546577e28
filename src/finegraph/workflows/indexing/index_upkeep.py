"""Maintaining an index: removing photos, merging, checking, and describing it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from finegraph.data.photo_decoding import read_photo
from finegraph.errors import IndexFolderError, InputError, PhotoFileError, unknown_name
from finegraph.model.features.keys import photo_key
from finegraph.progress_types import ShowProgress
from finegraph.search.index_state import AGAIN, IndexState, ListsEntry, mapped_bytes, read_state
from finegraph.search.index_writer import Identity, IndexedPlace, Stored, stored_in
from finegraph.search.list_files import read_code_recall
from finegraph.search.milvus_photos import MilvusCollection, MilvusPhotos
from finegraph.search.milvus_writer import open_writer, stored_row
from finegraph.search.photo_index import read_index_graph
from finegraph.search.segments import Segment


@dataclass(frozen=True, kw_only=True)
class IndexFacts:
    """The facts about an index.

    Attributes:
        folder: where it is.
        photos: how many photos are in it.
        labelled: how many of them have a fine label.
        removed: how many were removed and still take space.
        complete: whether all photos that it was made of are in.
        segments: in how many files the photos are.
        bytes: the size of all files.
        model: where the model was that made it.
        network: what network that is.
        fingerprint: of the model.
        feature_size: the size of the model's feature.
        dimensions: the size of the stored vectors.
        projection_recall: the share of the ten nearest photos that the projection keeps; None without one.
        method: what was asked for: auto, exact or approximate.
        lists: how many lists the approximate search has; 0 if the search is exact.
        probes: how many of them it looks through.
        approximate_recall: the share of the ten nearest photos that it finds; None if the search is exact.
        code_recall: the share of them that it finds by small codes; None if there are none.
        outside_lists: how many photos came after the lists were made; merging makes new ones.
        engine: what holds the photos: "built-in" for the files of the index, or "milvus".
        uri: the server that holds them; None for files.
        collection: their name there.
    """

    folder: str
    photos: int
    labelled: int
    removed: int
    complete: bool
    segments: int
    bytes: int
    model: str
    network: str
    fingerprint: str
    feature_size: int
    dimensions: int
    projection_recall: float | None
    method: str
    lists: int
    probes: int
    approximate_recall: float | None
    outside_lists: int
    engine: str = "built-in"
    uri: str | None = None
    collection: str | None = None
    code_recall: float | None = None


@dataclass(frozen=True, kw_only=True)
class IndexCheck:
    """What a check found.

    Attributes:
        folder: the index.
        files: how many of its files were checked.
        photos: how many photos are in it.
        damaged: what is wrong with its files, in words.
        missing: photos whose file is not there any more or cannot be read, with the reason.
        changed: photos whose file has another content now.
    """

    folder: str
    files: int
    photos: int
    damaged: tuple[str, ...]
    missing: tuple[str, ...]
    changed: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)


def remove_photos(
    folder: str | os.PathLike[str],
    photos: Sequence[str | os.PathLike[str]] = (),
    *,
    labels: Sequence[str] = (),
    missing: bool = False,
    force: bool = False,
) -> int:
    """Remove photos from an index; their files are not touched.

    Args:
        folder: the index.
        photos: paths of photos, or of folders: all photos below.
        labels: fine labels whose photos are all removed.
        missing: whether photos go whose file is not there any more.
        force: whether they go even if that is more than half of the photos, as when a disk is not mounted.

    Returns:
        How many were removed.

    Raises:
        IndexFolderError: there is no index, or it cannot be written.
        InputError: nothing to remove was named, a photo that is not in the index, or more than half are missing.
        UnknownNameError: a label that no photo has.
    """
    if not photos and not labels and not missing:
        raise InputError("expected photos, folders or fine labels to remove, got none")
    with open_writer(folder) as writer:
        wanted: dict[Identity, IndexedPlace] = {}
        if labels:
            of_labels = list(writer.listed(labels=list(labels)))
            for label in labels:
                if all(photo.label != label for photo in of_labels):
                    raise unknown_name("fine label", label, writer.labels(), "in the index")
            wanted.update((photo.identity, photo.place) for photo in of_labels)
        if missing:
            total, missing_photos = 0, []
            for photo in writer.listed():
                total += 1
                if not os.path.exists(photo.path):
                    missing_photos.append(photo)
            if 2 * len(missing_photos) > total and not force:
                raise InputError(
                    _mostly_missing_text(os.fspath(folder), missing_photos[0].path, len(missing_photos), total)
                )
            wanted.update((photo.identity, photo.place) for photo in missing_photos)
        for named in photos:
            at_path = list(writer.listed(path=os.path.abspath(named)))
            if not at_path:
                raise InputError(f"{os.fspath(named)}: no such photo is in the index, nor any in a folder of that name")
            wanted.update((photo.identity, photo.place) for photo in at_path)
        writer.remove(list(wanted.values()))
        return len(wanted)


def compact_index(folder: str | os.PathLike[str]) -> IndexFacts:
    """Write the remaining photos to as few files as possible and make new lists; returns the facts afterwards.

    Raises:
        IndexFolderError: there is no index, it is damaged, or cannot be written.
    """
    with open_writer(folder) as writer:
        writer.compact()
    return describe_index(folder)


def describe_index(folder: str | os.PathLike[str]) -> IndexFacts:
    """What an index is.

    Raises:
        IndexFolderError: there is no index, or it is damaged.
    """
    path = Path(folder)
    state = read_state(path)
    with_label = sum(int((segment.arrays["labels"][segment.live] >= 0).sum()) for segment in _segments(path, state))
    lists, engine, photos = state.lists, state.engine, state.photos
    collection = _collection(path, state)
    if collection is not None:
        photos, with_label = collection.count(), collection.count('label != ""')
    divided = lists if engine is None else engine if engine.lists else None
    return IndexFacts(
        folder=str(path),
        photos=photos,
        labelled=with_label,
        removed=state.removed,
        complete=state.complete,
        segments=len(state.segments),
        bytes=sum(file.bytes for file in state.files),
        model=state.model.path,
        network=state.model.network,
        fingerprint=state.model.digest,
        feature_size=state.feature_size,
        dimensions=state.dimensions,
        projection_recall=None if state.projection is None else state.projection.recall,
        method=state.method,
        lists=lists.count if lists is not None else engine.lists if engine is not None else 0,
        probes=0 if divided is None else divided.probes,
        approximate_recall=None if divided is None else divided.recall,
        outside_lists=0 if divided is None else max(0, photos - divided.photos),
        engine="built-in" if engine is None else engine.name,
        uri=None if engine is None else engine.uri,
        collection=None if engine is None else engine.collection,
        code_recall=None if lists is None else _code_recall(path, lists),
    )


def _code_recall(folder: Path, lists: ListsEntry) -> float | None:
    try:
        return read_code_recall(folder, lists)
    except FileNotFoundError as error:
        raise IndexFolderError(f"{error.filename}: the file is missing; {AGAIN}") from error


def check_index(
    folder: str | os.PathLike[str], *, photos: bool = False, progress: ShowProgress | None = None
) -> IndexCheck:
    """Check every file of an index against its checksum; and, if asked for, every photo against its fingerprint.

    Args:
        folder: the index.
        photos: whether to read the photos too.
        progress: called with the number of photos done and the total.

    Raises:
        IndexFolderError: there is no index at all.
    """
    path = Path(folder)
    state = read_state(path)
    damaged = []
    for file in state.files:
        try:
            mapped_bytes(path, file)
        except (IndexFolderError, FileNotFoundError) as error:
            damaged.append(str(error) if isinstance(error, IndexFolderError) else f"{path / file.name}: it is missing")
    missing: list[str] = []
    changed: list[str] = []
    collection = None if damaged else _collection(path, state)
    total = state.photos if collection is None else collection.count()
    if photos and not damaged:
        read_index_graph(path, state)
        _check_photos(_listed(path, state, collection), total, missing, changed, progress)
    return IndexCheck(
        folder=str(path),
        files=len(state.files) + 1,
        photos=total,
        damaged=tuple(damaged),
        missing=tuple(missing),
        changed=tuple(changed),
    )


def _check_photos(
    photos: Iterable[Stored], total: int, missing: list[str], changed: list[str], progress: ShowProgress | None
) -> None:
    """Read every photo."""
    for done, photo in enumerate(photos, 1):
        try:
            key = photo_key(read_photo(photo.path), photo.box)
        except PhotoFileError as error:
            missing.append(str(error))
        else:
            if key != photo.key:
                changed.append(photo.path)
        if progress is not None:
            progress(done, total)


def _mostly_missing_text(folder: str, photo: str, missing: int, total: int) -> str:
    return (
        f"{folder}: expected most photos of the index to be there, got {missing} of {total} whose file is missing, "
        f"such as {photo}; see whether the disk with the photos is there, or say that they are to be removed even so"
    )


def _collection(path: Path, state: IndexState) -> MilvusCollection | None:
    """The photos of an index that Milvus holds; None for files."""
    if state.engine is None:
        return None
    return MilvusPhotos(state.engine, state.dimensions, read_index_graph(path, state)).collection


def _listed(path: Path, state: IndexState, collection: MilvusCollection | None) -> Iterator[Stored]:
    """All photos of an index, without its lock."""
    if collection is not None:
        yield from (stored_row(collection, row) for row in collection.listed())
    for segment in _segments(path, state):
        yield from (stored_in(segment, row) for row in segment.live.tolist())


def _segments(path: Path, state: IndexState) -> list[Segment]:
    try:
        return [Segment(path, entry) for entry in state.segments]
    except FileNotFoundError as error:
        raise IndexFolderError(f"{error.filename}: the file is missing; make the index again") from error
