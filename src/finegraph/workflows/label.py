"""Labelling: open a store for a graph, bring files in and out, compare states.

Plain functions from names to dataclasses; nothing is printed here. A graph file has its store beside it, `menu.csv` in
`menu.db`, which is made by importing the graph the first time. The graph file itself is never written unless asked for.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from finegraph.data.roots import paths_outside, root_of
from finegraph.data.samples import Box, Samples
from finegraph.data.sources import read_samples
from finegraph.errors import GraphError, InputError, UnknownNameError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.graph.faults import FaultList
from finegraph.graph.text_file import decode, read_bytes, write_text
from finegraph.labelling import Diff, EditResult, LabelStore
from finegraph.labelling.checks import photo_fault
from finegraph.labelling.diffing import diff_graphs
from finegraph.labelling.label_studio import parse_tasks
from finegraph.labelling.reading import Format
from finegraph.labelling.renames import Rename, present_names
from finegraph.workflows.label_suggestions import SuggestionCounts, make_suggestions
from finegraph.workflows.stored_labels import (
    is_store,
    photo_key,
    read_graph_of,
    shown_place,
    source_folder,
    split_version,
    with_present_names,
)

Progress = Callable[[int, int], None]
GRAPH_ENDINGS = (".csv", ".json")
IMPORTER = "import"
"""Who the cells of the first import are by."""
_MOST_BAD = 3


@dataclass(frozen=True, kw_only=True)
class SessionPhoto:
    """A photo that may be shown.

    Attributes:
        key: what it is called in the store and on the page.
        path: the file.
        root: the folder that it must lie in, wherever links lead.
        fine: its class, where it is known.
        box: where the object is; None for the whole photo.
    """

    key: str
    path: Path
    root: str
    fine: str | None
    box: Box | None


@dataclass
class LabelSession:
    """A store with the photos of its classes.

    Attributes:
        store: the decisions.
        name: what to call it.
        samples: the photos, if there are any.
        source: where they came from.
        notes: what to tell once.
        suggested: how many suggestions were made.
        began: the edit up to which the photos have the present names of their classes.
        outside: the files of photos that are links out of their folder; they are not shown.
    """

    store: LabelStore
    name: str
    samples: Samples | None = None
    source: str | None = None
    notes: tuple[str, ...] = ()
    suggested: SuggestionCounts = field(default_factory=SuggestionCounts)
    began: int = 0
    outside: frozenset[Path] = frozenset()
    _renames: list[Rename] = field(default_factory=list)
    _renaming: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def _folder(self) -> Path:
        """Within which photos are named."""
        return source_folder(self.source or "")

    @cached_property
    def _photos(self) -> tuple[dict[str, SessionPhoto], dict[str, list[SessionPhoto]]]:
        """The photos by key, and by class."""
        by_key: dict[str, SessionPhoto] = {}
        by_fine: dict[str, list[SessionPhoto]] = {}
        if self.samples is None or self.source is None:
            return by_key, by_fine
        for sample in self.samples:
            key = photo_key(sample.path, self._folder)
            if key not in by_key and photo_fault(key) is None and sample.path not in self.outside:
                root = root_of(sample.path, (self._folder,))
                photo = SessionPhoto(key=key, path=sample.path, root=root, fine=sample.label, box=sample.box)
                by_key[key] = photo
                if sample.label is not None:
                    by_fine.setdefault(sample.label, []).append(photo)
        return by_key, by_fine

    def photos(self, fine: str, limit: int | None = None) -> tuple[SessionPhoto, ...]:
        """The photos of a class, also under a name that it had when the session began; none where it has none."""
        return tuple(self._of_class(fine)[:limit])

    def photo_count(self, fine: str) -> int:
        """How many photos a class has."""
        return len(self._of_class(fine))

    def _of_class(self, fine: str) -> list[SessionPhoto]:
        by_fine = self._photos[1]
        if fine in by_fine or not by_fine:
            return by_fine.get(fine, [])
        names = {now: old for old, now in present_names(self._since(), (fine,)).items() if old in by_fine}
        return by_fine[names[fine]] if fine in names else []

    def class_of(self, photo: SessionPhoto) -> int | None:
        """The number of the class that shows a photo; None where it has none."""
        for name in (photo.fine, *(rename.new for rename in reversed(self._since()))):
            if name is not None and any(one.key == photo.key for one in self._of_class(name)):
                with contextlib.suppress(UnknownNameError):
                    return self.store.one_class(name).number
        return None

    def _since(self) -> list[Rename]:
        """What was renamed since the session began."""
        with self._renaming:
            last = self._renames[-1].number if self._renames else self.began
            self._renames += self.store.renames(last)
            return list(self._renames)

    def photo(self, key: str) -> SessionPhoto:
        """A photo by its key.

        Raises:
            UnknownNameError: no sample has it, so nothing else can be asked for.
        """
        by_key = self._photos[0]
        if key not in by_key:
            raise unknown_name("photo", key, tuple(by_key)[:1000])
        return by_key[key]

    def photo_at(self, path: Path) -> SessionPhoto | None:
        """The photo of a file, if it is one of those that can be labelled."""
        return self._photos[0].get(photo_key(path, self._folder))

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_session(
    graph: str | os.PathLike[str],
    *,
    data: str | None = None,
    model: str | os.PathLike[str] | None = None,
    database: str | None = None,
    progress: Progress | None = None,
) -> LabelSession:
    """Open the store of a graph with its photos, and make suggestions.

    Args:
        graph: a graph file (its store is beside it, or in `database`), or a store itself.
        data: a source of photos; see `finegraph.data.read_samples`.
        model: a run folder or a model folder, for suggestions; it needs photos.
        database: the URL of the database to use in place of the file beside the graph.
        progress: is told how many of how many photos are done.

    Raises:
        GraphFileError: the graph file has faults.
        LabelStoreError: the store cannot be opened, or another process writes to it.
        DataError: the photos' list has faults.
        InputError: a model without photos.
    """
    if model is not None and data is None:
        raise InputError("suggestions of a model need photos to ask it about; name a source of photos too")
    samples = None if data is None else read_samples(data)
    store, notes = open_store(graph, database)
    try:
        began, known = store.version, set(store.columns()[0])
        outside: frozenset[Path] = frozenset()
        if samples is not None:
            samples = with_present_names(samples, present_names(store.renames(version=began), known))
        suggested = make_suggestions(store, model=model, samples=samples, progress=progress)
        store.rehearse()
        if suggested.bad:
            first = "; ".join(str(error) for error in suggested.bad[:_MOST_BAD])
            notes = (*notes, f"{len(suggested.bad)} photos could not be read: {first}")
        if samples is not None:
            folder = source_folder(str(data))
            odd = sum(photo_fault(photo_key(sample.path, folder)) is not None for sample in samples)
            if odd:
                notes = (
                    *notes,
                    f"{odd} photos are left out: their file names hold control characters or are not UTF-8",
                )
            outside = paths_outside((sample.path for sample in samples), folder)
            if outside:
                notes = (*notes, f"{len(outside)} photos are left out: they are links that lead out of {folder}")
            strangers = sum(sample.label is not None and sample.label not in known for sample in samples)
            if strangers:
                notes = (*notes, f"{strangers} photos are of classes that the graph does not have")
    except BaseException:
        store.close()
        raise
    name = Path(os.fspath(graph)).stem if "://" not in os.fspath(graph) else "labels"
    return LabelSession(
        store=store,
        name=name,
        samples=samples,
        source=data,
        notes=notes,
        suggested=suggested,
        began=began,
        outside=outside,
    )


def store_beside(graph: str | os.PathLike[str]) -> Path:
    """Where the store of a graph file is."""
    return Path(graph).with_suffix(".db")


def open_store(
    graph: str | os.PathLike[str], database: str | None = None, *, write: bool = True
) -> tuple[LabelStore, tuple[str, ...]]:
    """The store of a graph, and what to tell about it; it is made where it is not there yet.

    Args:
        graph: a graph file or a store.
        database: the URL of the database to use in place of the file beside the graph.
        write: whether there will be edits.
    """
    place = os.fspath(graph)
    if is_store(place):
        _refuse_two(database)
        if split_version(place)[1] is not None:
            raise InputError(f"{shown_place(place)}: an earlier state can be looked at but not opened to work in")
        return LabelStore.open(place, write=write), ()
    _refuse_no_graph(place)
    target = database if database is not None else os.fspath(store_beside(place))
    if not has_store(target):
        graph_of_file = LabelGraph.read(place)
        store = _new_store(target, lambda new: _import_first(new, graph_of_file))[0]
        return store, (f"made the store {store.place} from {place}",)
    store = LabelStore.open(target, write=write)
    if store.version == 0:  # whoever made it was ended before the import
        store.close()
        return _filled(target, LabelGraph.read(place)), (f"made the store {store.place} from {place}",)
    if os.path.exists(place):
        with contextlib.suppress(GraphError):  # the store is what counts; a faulty file shows when it is imported
            if LabelGraph.read(place).digest not in (store.imported_digest, store.graph().digest):
                return store, (
                    f"{place} differs from both the graph that {store.place} was made from and its present state; "
                    "import it to take its changes over",
                )
    return store, ()


def _import_first(store: LabelStore, graph: LabelGraph) -> EditResult:
    """Fill a store with the graph that it is made for."""
    return store.import_graph(graph, person=IMPORTER, edit_id=f"first:{uuid.uuid4().hex}")


def _filled(target: str, graph: LabelGraph) -> LabelStore:
    """A store that was left empty, opened to write and filled."""
    store = LabelStore.open(target)
    try:
        if store.version == 0:
            _import_first(store, graph)
    except BaseException:
        store.close()
        raise
    return store


def _refuse_no_graph(place: str) -> None:
    """Refuse a name that is neither that of a graph file nor of a file that is there, such as a mistyped version.

    A graph file itself need not be there any more once its store is.
    """
    if os.path.isdir(place) or not place:
        what = f"the folder {place}" if place else "an empty name"
        raise InputError(f"expected a graph file (.csv, .json) or a store (.db), got {what}")
    if not os.path.exists(place) and not place.lower().endswith(GRAPH_ENDINGS):
        raise InputError(
            f"{place}: there is no such file; expected a graph file (.csv, .json), a store (.db), or a store at an "
            "edit, such as menu.db@12"
        )


def _refuse_two(database: str | None) -> None:
    if database is not None:
        raise InputError("a store and a database were named; name the graph file and the database, or the store alone")


def has_store(target: str) -> bool:
    """Whether there is a store in a file or a database."""
    if "://" not in target and not os.path.exists(target):
        return False
    from finegraph.labelling import schema
    from finegraph.labelling.database import Database

    database = Database(target, write=False)
    try:
        with database.reading() as connection:
            return schema.version_of(connection, database.shown) is not None
    finally:
        database.close()


def _new_store(target: str, fill: Callable[[LabelStore], EditResult]) -> tuple[LabelStore, EditResult]:
    """A new store, filled; where that fails, no file is left."""
    store = LabelStore.create(target)
    try:
        return store, fill(store)
    except BaseException:
        store.close()
        if "://" not in target:
            for name in (target, f"{target}-wal", f"{target}-shm", f"{target}.lock"):
                Path(name).unlink(missing_ok=True)
        raise


# ---- in and out ------------------------------------------------------------------------------------------------------

FileFormat = Literal["graph", "label-studio", "photos"]


def format_of(path: str | os.PathLike[str]) -> FileFormat:
    """What a file that is to be imported is: by its content, since Label Studio and graphs both end in .json."""
    text = _text_of(path)
    if os.fspath(path).lower().endswith(".json"):
        try:
            return "label-studio" if isinstance(json.loads(text), list) else "graph"
        except (ValueError, RecursionError):
            return "graph"  # whose reader says what is wrong
    return "photos" if text.startswith("path,fine") else "graph"


def _text_of(path: str | os.PathLike[str]) -> str:
    """The text of a file.

    Raises:
        GraphFileError: it cannot be read, or is not UTF-8.
    """
    faults = FaultList()
    text = decode(read_bytes(os.fspath(path)), faults)
    faults.raise_if_any(os.fspath(path))
    assert text is not None, "a text that cannot be read is a fault"
    return text


def import_into(
    graph: str | os.PathLike[str], path: str | os.PathLike[str], *, person: str, database: str | None = None
) -> tuple[EditResult, tuple[str, ...]]:
    """Take a file over into the store of a graph, which is made where it is not there yet.

    Args:
        graph: a graph file or a store; see `open_store`.
        path: the file to take over.
        person: who imports.
        database: the URL of the database to use in place of the file beside the graph.

    Returns:
        What was done, and what to tell about the store.
    """
    place = os.fspath(graph)
    if is_store(place) and split_version(place)[1] is None and not has_store(place):
        _refuse_two(database)
        store, result = _new_store(place, lambda new: import_file(new, path, person=person))
        with store:
            return result, (f"made the store {store.place}",)
    store, notes = open_store(graph, database)
    with store:
        return import_file(store, path, person=person), notes


def import_file(
    store: LabelStore, path: str | os.PathLike[str], *, person: str, edit_id: str | None = None
) -> EditResult:
    """Take a file over into a store: a graph, a Label Studio export, or image-level labels.

    Args:
        store: where to.
        path: the file.
        person: who imports.
        edit_id: what the import is known by when it is repeated.

    Raises:
        GraphFileError: the file has faults; nothing is changed then.
    """
    text = os.fspath(path)
    number = edit_id or uuid.uuid4().hex
    if not os.path.exists(text):
        raise InputError(f"{text}: there is no such file to import")
    kind = format_of(text)
    if kind == "graph":
        return store.import_graph(LabelGraph.read(text), person=person, edit_id=number)
    content = _text_of(text)
    if kind == "label-studio":
        return store.import_content(parse_tasks(content, text), person=person, edit_id=number)
    return store.import_photos(store.parse_photos(content, text), person=person, edit_id=number)


def export_file(
    store: LabelStore,
    path: str | os.PathLike[str],
    format: Format | None = None,
    *,
    safe: bool = True,
    version: int | None = None,
) -> Path:
    """Write a store to a file, in one step; a file of that name is replaced.

    Args:
        store: what to write.
        path: the file.
        format: `csv`, `json`, `label-studio` or `photos`; by default as the ending of the name says.
        safe: whether CSV cells that a spreadsheet could run are defused.
        version: the edit after which the state was; by default the present one.
    """
    target = Path(path)
    if format is None:
        endings: dict[str, Format] = {".csv": "csv", ".json": "json"}
        if target.suffix.lower() not in endings:
            raise InputError(f"{target}: expected a name that ends in .csv or .json, or the format to write")
        format = endings[target.suffix.lower()]
    write_text(os.fspath(target), store.export_text(format, safe=safe, version=version))
    return target


def diff_places(one: str, two: str) -> Diff:
    """What differs between two graphs: each a graph file, a store, or a store at a version (`menu.db@120`)."""
    return diff_graphs(read_graph_of(one), read_graph_of(two))
