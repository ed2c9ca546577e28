"""Graphs in and out of a store.

The first import fills an empty store row by row and is one entry of the log. Later imports edit only what differs, so
they can be previewed and undone. `read_graph` gives the current graph, or that of an earlier version (see `past`).
Cost: linear in the cells.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import EmptyGraphError
from finegraph.graph import LabelGraph
from finegraph.labelling.questions.past import Past
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.current_rows import name_form, search_form
from finegraph.labelling.store.graph_columns import Part, StoreColumn, stored_graph
from finegraph.labelling.store.log import new_structure, now
from finegraph.labelling.store.plan import Key, Plan, Snapshot
from finegraph.labelling.store.records import Mode, Target
from finegraph.labelling.store.sealed_rows import add_action, add_rows, write_rows
from finegraph.labelling.store.sql_tables import batches, cells, fine, kinds, labels, meta
from finegraph.labelling.store.values import encode_parts, parts_of

_ROWS_PER_INSERT = 20_000


def is_empty(connection: Connection) -> bool:
    """Whether no graph was imported yet."""
    return connection.scalar(sa.select(batches.c.number).limit(1)) is None


def first_import(
    connection: Connection,
    classes: Sequence[str],
    columns: Sequence[StoreColumn],
    *,
    person: str,
    edit_id: str,
    digest: str,
) -> int:
    """Fill an empty store with classes and columns, which must make a graph; returns the number of the batch."""
    at, number = now(), 0
    graph = stored_graph(classes, columns)
    known = [0] * len(graph)
    for place, column in enumerate(columns):
        kind = {"id": place + 1, "name": column.name, "position": place, "mode": column.mode, "prior": column.prior}
        add_rows(connection, kinds, [{**kind, "removed": 0, "version": 0}])
        rows = [
            {
                "id": number + order + 1,
                "kind_id": place + 1,
                "name": name,
                "position": order,
                "removed": 0,
                "version": 0,
            }
            for order, name in enumerate(column.labels)
        ]
        add_rows(connection, labels, rows)
        _insert_cells(connection, column, place + 1, number + 1, known, person, at)
        number += len(column.labels)
    for start in range(0, len(graph), _ROWS_PER_INSERT):
        part = enumerate(graph.fine[start : start + _ROWS_PER_INSERT], start)
        add_rows(connection, fine, [_fine_row(order, name, known[order]) for order, name in part])
    write_rows(connection, meta, [{"key": "graph", "value": graph.digest}])
    new_structure(connection)
    text = f"imported a graph of {len(graph)} classes and {len(graph.kinds)} kinds"
    after = json.dumps({"fine": len(graph), "kinds": len(graph.kinds), "digest": graph.digest})
    log = {"number": 1, "edit_id": edit_id, "digest": digest, "person": person, "at": at, "action": "import"}
    action = {**log, "text": text, "size": 1, "last": 1, "undoes": None}
    add_action(connection, "", action, [{"number": 1, "batch": 1, "target": "graph", "after": after}])
    return 1


def _fine_row(order: int, name: str, known: int) -> dict[str, Any]:
    forms = {"form": name_form(name), "folded": search_form(name)}
    return {"id": order + 1, "name": name, **forms, "position": order, "removed": 0, "known": known, "version": 0}


def _insert_cells(
    connection: Connection, column: StoreColumn, kind_id: int, first: int, known: list[int], person: str, at: str
) -> None:
    """Insert the known cells of a column, whose labels are numbered from `first` on."""
    texts: dict[Part, str | None] = {}
    shared = {
        "kind_id": kind_id,
        "by": person,
        "at": at,
        "resolved": 0,
        "disagreement": 0,
        "confidence": None,
        "version": 0,
    }
    rows: list[dict[str, Any]] = []
    for order, cell in enumerate(column.cells):
        if cell is None:
            continue
        if cell not in texts:
            texts[cell] = encode_parts([(first + label, weight) for label, weight in cell], column.mode)
        known[order] += 1
        rows.append({**shared, "fine_id": order + 1, "value": texts[cell]})
        if len(rows) >= _ROWS_PER_INSERT:
            add_rows(connection, cells, rows)
            rows = []
    if rows:
        add_rows(connection, cells, rows)


# ---- out -------------------------------------------------------------------------------------------------------------


def read_graph(connection: Connection, catalogue: Catalogue, version: int | None = None) -> LabelGraph:
    """The graph of the store, now or at an earlier version.

    Raises:
        EmptyGraphError: the store holds no graph.
    """
    names, columns = read_columns(connection, catalogue, version)
    return stored_graph(names, columns)


def read_columns(
    connection: Connection, catalogue: Catalogue, version: int | None = None
) -> tuple[tuple[str, ...], list[StoreColumn]]:
    """The classes and the kinds with their cells, in order, now or at an earlier version.

    Raises:
        EmptyGraphError: the store holds no graph.
    """
    past = Past.read(connection, catalogue, version)
    living = sorted(entry for entry in past.fine(connection).values() if not entry[3])
    if not living:
        raise EmptyGraphError("the store holds no graph yet; import one")
    place = {number: order for order, (_, number, _, _) in enumerate(living)}
    return tuple(name for _, _, name, _ in living), list(_columns(connection, past, place))


def _columns(connection: Connection, past: Past, place: Mapping[int, int]) -> Iterator[StoreColumn]:
    """The columns of a state in order."""
    for kind in past.catalogue.kinds:
        order = {label.id: position for position, label in enumerate(kind.labels)}
        column_cells = _cells(connection, kind.id, place, order, past.snapshots)
        yield StoreColumn(name=kind.name, mode=kind.mode, prior=kind.prior, labels=kind.names, cells=column_cells)


def read_column(connection: Connection, kind: KindEntry, place: Mapping[int, int]) -> StoreColumn:
    """One kind with its current cells, by the position of each class."""
    order = {label.id: position for position, label in enumerate(kind.labels)}
    column_cells = _cells(connection, kind.id, place, order, {})
    return StoreColumn(name=kind.name, mode=kind.mode, prior=kind.prior, labels=kind.names, cells=column_cells)


def _cells(
    connection: Connection,
    kind_id: int,
    place: Mapping[int, int],
    order: Mapping[int, int],
    earlier: Mapping[Key, Snapshot],
) -> list[Part | None]:
    """The cells of a kind by the position of their class, with labels by their position in the kind."""
    column_cells: list[Part | None] = [None] * len(place)
    parsed: dict[str, Part] = {}

    def part(text: str) -> Part:
        if text not in parsed:
            parsed[text] = tuple(sorted((order[label], weight) for label, weight in parts_of(text)))
        return parsed[text]

    query = sa.select(cells.c.fine_id, cells.c.value).where(cells.c.kind_id == kind_id, cells.c.value.is_not(None))
    for number, value in connection.execute(query):
        key = Key("cell", fine_id=number, kind_id=kind_id)
        if number in place and not (earlier and key in earlier):
            column_cells[place[number]] = part(value)
    for key, snapshot in earlier.items():
        if (
            key.target == "cell"
            and key.kind_id == kind_id
            and (key.fine_id or 0) in place
            and snapshot["value"] is not None
        ):
            column_cells[place[key.fine_id or 0]] = part(snapshot["value"])
    return column_cells


# ---- in, again -------------------------------------------------------------------------------------------------------


def encoded_cells(column: StoreColumn, ids: Sequence[int], mode: Mode) -> list[str | None]:
    """The stored values of a column, given the numbers of its labels."""
    texts: dict[Part, str | None] = {}
    encoded: list[str | None] = []
    for cell in column.cells:
        if cell is None:
            encoded.append(None)
            continue
        if cell not in texts:
            texts[cell] = encode_parts([(ids[label], weight) for label, weight in cell], mode)
        encoded.append(texts[cell])
    return encoded


def plan_text(plan: Plan) -> str:
    """A later import in a sentence."""
    words: dict[Target, tuple[str, str]] = {
        "fine": ("class", "classes"),
        "kind": ("kind", "kinds"),
        "label": ("label", "labels"),
        "cell": ("cell", "cells"),
        "note": ("note", "notes"),
        "photo": ("photo label", "photo labels"),
    }
    counts = {what: len(plan.of(what)) for what in words}
    changed = ", ".join(f"{count} {words[what][count != 1]}" for what, count in counts.items() if count)
    return f"imported a graph: {changed or 'nothing'} changed"
