"""Importing and exporting files of a label store, and comparing states."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Literal

from finegraph.errors import InputError, near_paths
from finegraph.graph import LabelGraph
from finegraph.graph.comparisons import is_comparisons
from finegraph.graph.faults import FaultList
from finegraph.graph.formats.text_file import decode, read_bytes, write_text
from finegraph.labelling import Diff, EditResult, LabelStore
from finegraph.labelling.class_order import Counted
from finegraph.labelling.exchange.diffing import diff_graphs
from finegraph.labelling.exchange.label_studio import parse_tasks
from finegraph.labelling.store_questions import Format
from finegraph.workflows.labels.graph_sources import is_store, read_graph_of, split_version
from finegraph.workflows.labels.label_stores import has_store, new_store, open_store, refuse_two

FileFormat = Literal["graph", "label-studio", "photos", "comparisons"]


def format_of(path: str | os.PathLike[str]) -> FileFormat:
    """The format of a file to import, by its content: Label Studio files and graphs both end in .json."""
    text = _text_of(path)
    if os.fspath(path).lower().endswith(".json"):
        try:
            return "label-studio" if isinstance(json.loads(text), list) else "graph"
        except (ValueError, RecursionError):
            return "graph"  # whose reader says what is wrong
    if is_comparisons(text):
        return "comparisons"
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
    """Import a file into the store of a graph, which is created if needed.

    Args:
        graph: a graph file or a store; see `open_store`.
        path: the file to import.
        person: the name of the person who imports.
        database: the URL of the database to use in place of the file beside the graph.

    Returns:
        The result in words, and notes about the store.
    """
    place = os.fspath(graph)
    if is_store(place) and split_version(place)[1] is None and not has_store(place):
        refuse_two(database)
        store, result = new_store(place, lambda new: import_file(new, path, person=person))
        with store:
            return result, (f"made the store {store.place}",)
    store, notes = open_store(graph, database)
    with store:
        return import_file(store, path, person=person), notes


def import_file(
    store: LabelStore, path: str | os.PathLike[str], *, person: str, edit_id: str | None = None
) -> EditResult:
    """Import a file into a store: a graph, a Label Studio export, photo labels, or comparisons.

    Args:
        store: the store.
        path: the file.
        person: the name of the person who imports.
        edit_id: what the import is known by when it is repeated.

    Raises:
        GraphFileError: the file has faults; nothing is changed then.
    """
    text = os.fspath(path)
    number = edit_id or uuid.uuid4().hex
    if not os.path.exists(text):
        raise InputError(f"{text}: there is no such file to import{near_paths(text)}")
    kind = format_of(text)
    if kind == "graph":
        return store.import_graph(LabelGraph.read(text), person=person, edit_id=number)
    content = _text_of(text)
    if kind == "label-studio":
        return store.import_content(parse_tasks(content, text), person=person, edit_id=number)
    if kind == "comparisons":
        return store.import_comparisons(store.parse_comparisons(content, text), person=person, edit_id=number)
    return store.import_photos(store.parse_photos(content, text), person=person, edit_id=number)


def export_file(
    store: LabelStore,
    path: str | os.PathLike[str],
    format: Format | None = None,
    *,
    safe: bool = True,
    version: int | None = None,
    compared: Counted | None = None,
) -> Path:
    """Write a store to a file, in one step; a file of that name is replaced.

    Args:
        store: what to write.
        path: the file.
        format: `csv`, `json`, `label-studio`, `photos` or `comparisons`; by default as the ending of the name says.
        safe: whether CSV cells that a spreadsheet could run are defused.
        version: the edit after which the state was; by default the present one.
        compared: of graph files, which comparisons give values where there are none; see `LabelStore.graph`.
    """
    target = Path(path)
    if format is None:
        endings: dict[str, Format] = {".csv": "csv", ".json": "json"}
        if target.suffix.lower() not in endings:
            raise InputError(f"{target}: expected a name that ends in .csv or .json, or the format to write")
        format = endings[target.suffix.lower()]
    write_text(os.fspath(target), store.export_text(format, safe=safe, version=version, compared=compared))
    return target


def diff_from(graph: str, other: str, database: str | None = None) -> Diff:
    """What differs from another graph to the one that people work on.

    Args:
        graph: a graph file, whose store counts, or a store, perhaps at a version (`menu.db@120`).
        other: a graph file, a store, or a store at a version.
        database: the URL of the database to use in place of the file beside the graph.
    """
    if is_store(graph):
        return diff_places(other, graph)
    store, _ = open_store(graph, database, write=False)
    with store:
        return diff_graphs(read_graph_of(other), store.graph())


def diff_places(one: str, two: str) -> Diff:
    """What differs between two graphs: each a graph file, a store, or a store at a version (`menu.db@120`)."""
    return diff_graphs(read_graph_of(one), read_graph_of(two))
