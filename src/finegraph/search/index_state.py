"""The state of an index: one small file, replaced in one step.

    INDEX/index.json                 this: the model, the settings, the files with their checksums, what was removed
          graph.json                 the label graph of the model
          segment-*.safetensors      photos, in the order in which they came; never changed
          projection-*.safetensors   the projection to fewer dimensions, if there is one
          lists-*.safetensors        what the approximate search needs, if it is used

Whatever changes an index writes new files first and then replaces `index.json`; that is the moment at which the change
has happened. Files that the state does not name are what is left of a process that died, and the next writer removes
them. Photos that are removed stay in their segment and are marked here, one bit each.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray

from finegraph._version import __version__
from finegraph.errors import IndexFolderError, near_paths
from finegraph.files.checked_file import FileEntry
from finegraph.files.durable import reason_of, write_over
from finegraph.files.sealed_json import seal, unseal
from finegraph.search.index_files import AGAIN

STATE, GRAPH = "index.json", "graph.json"
FORMAT, VERSION = "finegraph.index", 1
METHODS = ("auto", "exact", "approximate")


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
        file: the centres, and the list of each photo.
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

    @property
    def photos(self) -> int:
        """How many photos there are, without the removed ones."""
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
        for name in ("model", "graph", "projection", "lists"):
            plain[name] = None if plain[name] is None else asdict(plain[name])
        plain["segments"] = [segment.to_dict() for segment in self.segments]
        plain["roots"] = list(self.roots)
        plain["way"] = plain.pop("method")  # its name in the file, which stays
        return {"format": FORMAT, "version": VERSION, "finegraph": __version__, **plain}

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
    if content.get("version") != VERSION:
        raise IndexFolderError(
            f"{path}: made by finegraph {content.get('finegraph')!r} in version {content.get('version')!r} of the "
            f"format; this finegraph reads version {VERSION}; use that one, or make the index again"
        )
    return IndexState.from_dict(content)


def write_state(folder: Path, state: IndexState) -> None:
    """Replace the state of an index, in one step.

    Raises:
        OSError: it cannot be written; the index is as it was.
    """
    write_over(folder / STATE, seal(state.to_dict()))


def _near(folder: Path) -> str:
    """What may have been meant by a folder that is no index."""
    if not folder.exists():
        return f", got nothing: there is no such folder{near_paths(folder)}"
    return ", got another folder" if folder.is_dir() else ", got a file"
