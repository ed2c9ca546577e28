"""Finding the store of a graph file, a store or a database URL, and creating it if needed.

A graph file has its store beside it, `menu.csv` in `menu.db`, which is made by importing the graph the first time. The
graph file itself is never written.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path

from finegraph.errors import DamagedStoreError, GraphError, InputError
from finegraph.graph import LabelGraph
from finegraph.labelling import EditResult, LabelStore
from finegraph.workflows.labels.graph_sources import is_store, shown_source, split_version

GRAPH_ENDINGS = (".csv", ".json")
IMPORTER = "import"
"""The person to whom the first import is attributed."""


def store_beside(graph: str | os.PathLike[str]) -> Path:
    """Where the store of a graph file is."""
    return Path(graph).with_suffix(".db")


def open_store(
    graph: str | os.PathLike[str], database: str | None = None, *, write: bool = True
) -> tuple[LabelStore, tuple[str, ...]]:
    """The store of a graph, created if needed, and messages about it.

    Args:
        graph: a graph file or a store.
        database: the URL of the database to use in place of the file beside the graph.
        write: whether there will be edits; then the store is checked first.

    Raises:
        DamagedStoreError: the store is not as it was written.
    """
    place = os.fspath(graph)
    if is_store(place):
        refuse_two(database)
        if split_version(place)[1] is not None:
            raise InputError(f"{shown_source(place)}: an earlier state can be read but not opened to work in")
        return _opened(place, write)
    _refuse_no_graph(place)
    target = database if database is not None else os.fspath(store_beside(place))
    if not has_store(target):
        graph_of_file = LabelGraph.read(place)
        store = new_store(target, lambda new: _import_first(new, graph_of_file))[0]
        return store, (f"made the store {store.place} from {place}",)
    store, notes = _opened(target, write)
    if store.version == 0:  # whoever made it was stopped before the import
        store.close()
        return _filled(target, LabelGraph.read(place)), (f"made the store {store.place} from {place}",)
    if os.path.exists(place):
        # The store is what counts: a faulty file shows when it is imported, and damage when something is read.
        with contextlib.suppress(GraphError, DamagedStoreError):
            if LabelGraph.read(place).digest not in (store.imported_digest, store.graph().digest):
                return store, (
                    *notes,
                    f"{place} differs from both the graph that {store.place} was made from and its present state; "
                    "import it to take its changes over",
                )
    return store, notes


def _opened(place: str, write: bool) -> tuple[LabelStore, tuple[str, ...]]:
    """An existing store, checked if it is opened for edits, and messages about the check."""
    store = LabelStore.open(place, write=write)
    if not write:
        return store, ()
    try:
        store.check()
        if store.make_anew():
            return store, ("the suggestions in the store were damaged; those that can be made now are made again",)
    except BaseException:
        store.close()
        raise
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
    """Refuse a name that is neither that of a graph file nor of an existing file, such as a mistyped version.

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


def refuse_two(database: str | None) -> None:
    """Refuse a database together with a store, which is a database already."""
    if database is not None:
        raise InputError("a store and a database were named; name the graph file and the database, or the store alone")


def has_store(target: str) -> bool:
    """Whether there is a store in a file or a database."""
    if "://" not in target and not os.path.exists(target):
        return False
    from finegraph.labelling.store import schema
    from finegraph.labelling.store.database import Database

    database = Database(target, write=False)
    try:
        with database.reading() as connection:
            return schema.version_of(connection, database.shown) is not None
    finally:
        database.close()


def new_store(target: str, fill: Callable[[LabelStore], EditResult]) -> tuple[LabelStore, EditResult]:
    """A new store, filled; if that fails, no file is left."""
    store = LabelStore.create(target)
    try:
        return store, fill(store)
    except BaseException:
        store.close()
        if "://" not in target:
            for name in (target, f"{target}-wal", f"{target}-shm", f"{target}.lock"):
                Path(name).unlink(missing_ok=True)
        raise
