"""The state of an index, one small file that is replaced in one step, and the files that it names.

    INDEX/index.json                 this: the model, the settings, the files with their checksums, what was removed
          graph.json                 the label graph of the model
          segment-*.safetensors      photos, in the order in which they came; never changed
          projection-*.safetensors   the projection to fewer dimensions, if there is one
          lists-*.safetensors        what the approximate search needs, if it is used: lists and small codes

If another engine holds the photos (`milvus_photos.py`), there are no segments and lists: the state names the server and
the collection there instead.

Whatever changes an index writes new files first and then replaces `index.json`; that is the moment at which the change
has happened. Files that the state does not name are what is left of a process that died, and the next writer removes
them. Photos that are removed stay in their segment and are marked here, one bit each.

All other files appear whole or not at all and never change. Their sizes and SHA-256 stand in the state and are checked
when a file is opened. Arrays are views of the mapped file: only the parts that are used take memory. Cost: one read of
a file to check it.
"""

from __future__ import annotations

import base64
import json
import mmap
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Shaped
from numpy.typing import NDArray
from safetensors.numpy import save

from finegraph._version import __version__
from finegraph.errors import IndexFolderError, near_paths
from finegraph.files import tensor_frame
from finegraph.files.checked_file import FileEntry, damage_of, map_file, write_checked
from finegraph.files.durable import reason_of, write_over
from finegraph.files.sealed_json import seal, unseal

STATE, GRAPH = "index.json", "graph.json"
FORMAT, VERSION, VERSION_OF_ENGINES = "finegraph.index", 1, 2
METHODS = ("auto", "exact", "approximate")
ENDING = ".safetensors"
AGAIN = "copy the index again from where it was made, or make it again"
"""What to do about a damaged index."""
Arrays = dict[str, Shaped[NDArray[Any], " ..."]]


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """The model that an index was made with: where it was, what it is, and its fingerprint."""

    path: str
    network: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class ProjectionEntry:
    """The projection: its file, and the share of the ten nearest photos that it keeps among the ten nearest."""

    file: FileEntry
    recall: float


@dataclass(frozen=True, kw_only=True)
class ListsEntry:
    """The lists of the approximate search.

    Attributes:
        file: the centres, the list of each photo, and the small codes.
        count: how many lists there are.
        probes: how many lists a search looks through.
        recall: the share of the ten nearest photos that it then finds, measured on photos of the index.
        photos: how many photos there were when they were made.
    """

    file: FileEntry
    count: int
    probes: int
    recall: float
    photos: int


@dataclass(frozen=True, kw_only=True)
class EngineEntry:
    """Where another engine holds the photos of an index.

    Attributes:
        name: of the engine, "milvus".
        uri: the address of its server, or the file of an embedded one.
        collection: the name of the photos there.
        lists: into how many lists each part of the collection is divided; 0 if the search is exact.
        probes: how many of them a search looks through.
        recall: the share of the ten nearest photos that it then finds; None if the search is exact.
        photos: how many photos there were when that was measured.
    """

    name: str
    uri: str
    collection: str
    lists: int = 0
    probes: int = 0
    recall: float | None = None
    photos: int = 0


@dataclass(frozen=True, kw_only=True)
class SegmentEntry:
    """Some photos: their file, how many there are, and which of them were removed."""

    file: FileEntry
    rows: int
    removed: Bool[NDArray[np.bool_], " photo"] | None = None

    @property
    def live(self) -> Bool[NDArray[np.bool_], " photo"]:
        """Which photos are there."""
        return np.ones(self.rows, np.bool_) if self.removed is None else ~self.removed

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        bits = b"" if self.removed is None else zlib.compress(np.packbits(self.removed).tobytes())
        return {"file": asdict(self.file), "rows": self.rows, "removed": base64.b64encode(bits).decode("ascii")}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SegmentEntry:
        """From the form of `to_dict`."""
        bits, rows = base64.b64decode(values["removed"]), values["rows"]
        removed = None
        if bits:
            packed = np.frombuffer(zlib.decompress(bits), np.uint8)
            removed = np.unpackbits(packed, count=rows).astype(np.bool_)
        return cls(file=FileEntry(**values["file"]), rows=rows, removed=removed)


@dataclass(frozen=True, kw_only=True)
class IndexState:
    """What an index consists of.

    Attributes:
        generation: how many changes there were before.
        complete: whether all photos that it was made of are in; an index whose making was interrupted is not.
        model: what made the vectors.
        graph: the file of the label graph.
        feature_size: the size of the model's feature.
        dimensions: the size of the stored vectors.
        method: how it is searched: exactly, approximately, or by how many photos there are.
        projection: to fewer dimensions.
        lists: of the approximate search.
        segments: the photos.
        roots: the folders that photos were named by, which links must not lead out of where others see the photos;
            older indexes have none.
        engine: where the photos are if not in segments.
    """

    generation: int = 0
    complete: bool = False
    model: ModelEntry
    graph: FileEntry
    feature_size: int
    dimensions: int
    method: str = "auto"
    projection: ProjectionEntry | None = None
    lists: ListsEntry | None = None
    segments: tuple[SegmentEntry, ...] = ()
    roots: tuple[str, ...] = ()
    engine: EngineEntry | None = None

    @property
    def photos(self) -> int:
        """How many photos there are in segments, without the removed ones."""
        return sum(int(segment.live.sum()) for segment in self.segments)

    @property
    def removed(self) -> int:
        """How many removed photos still take space."""
        return sum(segment.rows for segment in self.segments) - self.photos

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """All files but the state itself."""
        extra = [part.file for part in (self.projection, self.lists) if part is not None]
        return (self.graph, *extra, *(segment.file for segment in self.segments))

    def next(self, **changes: Any) -> IndexState:
        """The state after a change."""
        return replace(self, generation=self.generation + 1, **changes)

    def is_same(self, other: IndexState) -> bool:
        """Whether this is the very same index, by the checksums of its files and what was removed.

        The generation alone does not tell: an index that was rebuilt may have had as many changes as the old one.
        """
        return self.to_dict() == other.to_dict()

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("model", "graph", "projection", "lists", "engine"):
            plain[name] = None if plain[name] is None else asdict(plain[name])
        if self.engine is None:
            del plain["engine"]  # so that earlier versions read it
        plain["segments"] = [segment.to_dict() for segment in self.segments]
        plain["roots"] = list(self.roots)
        plain["way"] = plain.pop("method")  # its name in the file, which stays
        version = VERSION if self.engine is None else VERSION_OF_ENGINES
        return {"format": FORMAT, "version": version, "finegraph": __version__, **plain}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> IndexState:
        """From the form of `to_dict`."""
        values = {name: value for name, value in content.items() if name not in ("format", "version", "finegraph")}
        values["method"] = values.pop("way")
        values["model"] = ModelEntry(**values["model"])
        values["graph"] = FileEntry(**values["graph"])
        for name, kind in (("projection", ProjectionEntry), ("lists", ListsEntry)):
            if values[name] is not None:
                values[name] = kind(**{**values[name], "file": FileEntry(**values[name]["file"])})
        values["segments"] = tuple(SegmentEntry.from_dict(one) for one in values["segments"])
        values["roots"] = tuple(values.get("roots", ()))
        if values.get("engine") is not None:
            values["engine"] = EngineEntry(**values["engine"])
        return cls(**values)


def read_state(folder: Path) -> IndexState:
    """The state of an index.

    Raises:
        IndexFolderError: there is no index, it is damaged, or another version made it.
    """
    path = folder / STATE
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise IndexFolderError(f"{folder}: expected an index, which has a file {STATE}{_near(folder)}") from None
    except OSError as error:
        raise IndexFolderError(f"{path}: the file cannot be read: {reason_of(error)}; check its rights") from error
    try:
        content = unseal(data)
    except ValueError as error:
        raise IndexFolderError(f"{path}: the file is damaged ({error}); {AGAIN}") from error
    if content.get("format") != FORMAT:
        raise IndexFolderError(f"{path}: expected the format {FORMAT!r}, got {content.get('format')!r}")
    if content.get("version") not in (VERSION, VERSION_OF_ENGINES):
        raise IndexFolderError(
            f"{path}: made by finegraph {content.get('finegraph')!r} in version {content.get('version')!r} of the "
            f"format; this finegraph reads versions {VERSION} and {VERSION_OF_ENGINES}; use that one, or make the "
            "index again"
        )
    return IndexState.from_dict(content)


def write_state(folder: Path, state: IndexState) -> None:
    """Replace the state of an index, in one step.

    Raises:
        OSError: it cannot be written; the index is as it was.
    """
    write_over(folder / STATE, seal(state.to_dict()))


def _near(folder: Path) -> str:
    """What may have been meant by a folder that is not an index."""
    if not folder.exists():
        return f", got nothing: there is no such folder{near_paths(folder)}"
    return ", got another folder" if folder.is_dir() else ", got a file"


def write_arrays(
    path: Path, arrays: Mapping[str, Shaped[NDArray[Any], " ..."]], about: Mapping[str, object]
) -> FileEntry:
    """Write arrays and a few facts, as JSON data, to a new file."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return write_checked(path, save(whole, {"about": json.dumps(dict(about))}))


def mapped_bytes(folder: Path, entry: FileEntry) -> mmap.mmap | bytes:
    """The bytes of a file, mapped and checked.

    Raises:
        IndexFolderError: it is damaged or cannot be read.
        FileNotFoundError: it is not there.
    """
    path = folder / entry.name
    try:
        data = map_file(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise IndexFolderError(f"{path}: the file cannot be read: {reason_of(error)}; check its rights") from error
    if damage := damage_of(data, size=entry.bytes, sha256=entry.sha256):
        raise IndexFolderError(f"{path}: {damage}; {AGAIN}")
    _let_go(data)
    return data


def forget(array: Shaped[NDArray[Any], " ..."]) -> None:
    """Let the memory go that parts of a mapped file take; they are read again where they are asked for.

    Args:
        array: of that file, as `read_index_arrays` returns it.
    """
    _let_go(array.base)


def _let_go(data: object) -> None:
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.madvise(mmap.MADV_DONTNEED)


def read_index_arrays(folder: Path, entry: FileEntry) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and the facts of a file, after its checksum was found right."""
    arrays, texts = tensor_frame.read_arrays(mapped_bytes(folder, entry))
    return arrays, json.loads(texts["about"])
