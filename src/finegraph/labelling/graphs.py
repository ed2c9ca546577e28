"""Graphs in and out of a store.

The first import fills an empty store row by row and is one line of the log. Later ones change only what differs, as
edits like any others, so they can be looked at and undone. `read_graph` gives the graph of now, or of an earlier
version: things that were edited since are taken as they were before their first edit after it. Cost: linear in the
cells.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import EmptyGraphError
from finegraph.graph import LabelGraph
from finegraph.labelling.catalogue import Catalogue
from finegraph.labelling.columns import Column, Part, graph_of
from finegraph.labelling.log import new_structure, now
from finegraph.labelling.plan import Image, Key, Plan
from finegraph.labelling.records import Mode
from finegraph.labelling.rewriting import kind_image
from finegraph.labelling.rows import name_form, search_form
from finegraph.labelling.tables import batches, cells, edits, fine, kinds, labels, meta
from finegraph.labelling.undoing import key_of
from finegraph.labelling.values import encode_parts, parts_of

_AT_ONCE = 20_000


def is_empty(connection: Connection) -> bool:
    """Whether no graph was imported yet."""
    return connection.scalar(sa.select(batches.c.number).limit(1)) is None


def first_import(
    connection: Connection,
    classes: Sequence[str],
    columns: Sequence[Column],
    *,
    person: str,
    edit_id: str,
    digest: str,
) -> int:
    """Fill an empty store with classes and columns, which must make a graph; the number of the batch."""
    at, number = now(), 0
    graph = graph_of(classes, columns)
    known = [0] * len(graph)
    for place, column in enumerate(columns):
        kind = {"id": place + 1, "name": column.name, "position": place, "mode": column.mode, "prior": column.prior}
        connection.execute(sa.insert(kinds), {**kind, "removed": 0, "version": 0})
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
        connection.execute(sa.insert(labels), rows)
        _insert_cells(connection, column, place + 1, number + 1, known, person, at)
        number += len(column.labels)
    for start in range(0, len(graph), _AT_ONCE):
        part = enumerate(graph.fine[start : start + _AT_ONCE], start)
        connection.execute(sa.insert(fine), [_fine_row(order, name, known[order]) for order, name in part])
    connection.execute(sa.delete(meta).where(meta.c.key == "graph"))
    connection.execute(sa.insert(meta), {"key": "graph", "value": graph.digest})
    new_structure(connection)
    text = f"imported a graph of {len(graph)} classes and {len(graph.kinds)} kinds"
    after = json.dumps({"fine": len(graph), "kinds": len(graph.kinds), "digest": graph.digest})
    connection.execute(sa.insert(edits), {"number": 1, "batch": 1, "target": "graph", "after": after})
    log = {"number": 1, "edit_id": edit_id, "digest": digest, "person": person, "at": at, "action": "import"}
    connection.execute(sa.insert(batches), {**log, "text": text, "size": 1, "last": 1, "undoes": None})
    return 1


def _fine_row(order: int, name: str, known: int) -> dict[str, Any]:
    forms = {"form": name_form(name), "folded": search_form(name)}
    return {"id": order + 1, "name": name, **forms, "position": order, "removed": 0, "known": known, "version": 0}


def _insert_cells(
    connection: Connection, column: Column, kind_id: int, first: int, known: list[int], person: str, at: str
) -> None:
    """Insert the known cells of a column, whose labels are numbered from `first` on."""
    texts: dict[Part, str | None] = {}
    same = {
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
        rows.append({**same, "fine_id": order + 1, "value": texts[cell]})
        if len(rows) >= _AT_ONCE:
            connection.execute(sa.insert(cells), rows)
            rows = []
    if rows:
        connection.execute(sa.insert(cells), rows)


# ---- out -------------------------------------------------------------------------------------------------------------


def read_graph(connection: Connection, catalogue: Catalogue, version: int | None = None) -> LabelGraph:
    """The graph of the store, now or at an earlier version.

    Raises:
        EmptyGraphError: the store holds no graph.
    """
    names, columns = read_columns(connection, catalogue, version)
    return graph_of(names, columns)


def read_columns(
    connection: Connection, catalogue: Catalogue, version: int | None = None
) -> tuple[tuple[str, ...], list[Column]]:
    """The classes and the kinds with their cells, in order, now or at an earlier version.

    Raises:
        EmptyGraphError: the store holds no graph.
    """
    earlier = {} if version is None else first_pictures(connection, version)
    names = {row.id: (row.position, row.id, row.name, row.removed) for row in connection.execute(sa.select(fine))}
    for key, image in earlier.items():
        if key.target == "fine" and key.fine_id is not None:
            names[key.fine_id] = (image["position"], key.fine_id, image["name"], image["removed"])
    living = sorted(entry for entry in names.values() if not entry[3])
    if not living:
        raise EmptyGraphError("the store holds no graph yet; import one")
    place = {number: order for order, (_, number, _, _) in enumerate(living)}
    return tuple(name for _, _, name, _ in living), list(_columns(connection, catalogue, place, earlier))


def first_pictures(connection: Connection, version: int, upto: int | None = None) -> dict[Key, Image]:
    """What things that were edited after a version were before that; nothing at all is an empty picture."""
    query = sa.select(edits).where(edits.c.number > version, edits.c.target != "graph").order_by(edits.c.number)
    if upto is not None:
        query = query.where(edits.c.number <= upto)
    found: dict[Key, Image] = {}
    for row in connection.execute(query):
        key = key_of(row)
        if key not in found:
            found[key] = {"value": None} if row.before is None else json.loads(row.before)
    return found


def _columns(
    connection: Connection, catalogue: Catalogue, place: Mapping[int, int], earlier: Mapping[Key, Image]
) -> Iterator[Column]:
    """The columns of the store in order."""
    described = []
    for kind in catalogue.all_kinds:
        own = earlier.get(Key("kind", kind_id=kind.id), kind_image(kind))
        if not own["removed"]:
            described.append((own["position"], kind.id, own, kind))
    for _, _, own, kind in sorted(described, key=lambda entry: entry[:2]):
        entries = []
        for label in kind.all_labels:
            image = earlier.get(Key("label", kind_id=kind.id, label_id=label.id))
            now_is = (label.position, label.id, label.name, label.removed)
            entries.append(now_is if image is None else (image["position"], label.id, image["name"], image["removed"]))
        entries = sorted(entry for entry in entries if not entry[3])
        order = {number: position for position, (_, number, _, _) in enumerate(entries)}
        found = _cells(connection, kind.id, place, order, earlier)
        names = tuple(name for _, _, name, _ in entries)
        yield Column(name=own["name"], mode=own["mode"], prior=own["prior"], labels=names, cells=found)


def _cells(
    connection: Connection,
    kind_id: int,
    place: Mapping[int, int],
    order: Mapping[int, int],
    earlier: Mapping[Key, Image],
) -> list[Part | None]:
    """The cells of a kind by the place of their class, their labels by the place of the label."""
    found: list[Part | None] = [None] * len(place)
    read: dict[str, Part] = {}

    def part(text: str) -> Part:
        if text not in read:
            read[text] = tuple(sorted((order[label], weight) for label, weight in parts_of(text)))
        return read[text]

    query = sa.select(cells.c.fine_id, cells.c.value).where(cells.c.kind_id == kind_id, cells.c.value.is_not(None))
    for number, value in connection.execute(query):
        key = Key("cell", fine_id=number, kind_id=kind_id)
        if number in place and not (earlier and key in earlier):
            found[place[number]] = part(value)
    for key, image in earlier.items():
        if (
            key.target == "cell"
            and key.kind_id == kind_id
            and (key.fine_id or 0) in place
            and image["value"] is not None
        ):
            found[place[key.fine_id or 0]] = part(image["value"])
    return found


# ---- in, again -------------------------------------------------------------------------------------------------------


def encoded_cells(column: Column, ids: Sequence[int], mode: Mode) -> list[str | None]:
    """The kept values of a column, given the numbers of its labels."""
    texts: dict[Part, str | None] = {}
    found: list[str | None] = []
    for cell in column.cells:
        if cell is None:
            found.append(None)
            continue
        if cell not in texts:
            texts[cell] = encode_parts([(ids[label], weight) for label, weight in cell], mode)
        found.append(texts[cell])
    return found


def plan_text(plan: Plan) -> str:
    """What a later import does, in a sentence."""
    counts = {what: len(plan.of(what)) for what in ("fine", "kind", "label", "cell")}
    words = {"fine": "classes", "kind": "kinds", "label": "labels", "cell": "cells"}
    changed = ", ".join(f"{count} {words[what]}" for what, count in counts.items() if count)
    return f"imported a graph: {changed or 'nothing'} changed"
