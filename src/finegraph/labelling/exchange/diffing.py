"""Differences between two states: of one store at two versions, or of two graphs.

Two versions of a store are compared by the log alone: for each thing edited in between, the snapshot before its first
edit and the one after its last. Two graphs are compared by names. Cost: linear in the edits, or in the cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.graph import LabelGraph
from finegraph.labelling.edits.undo import key_of, numbers_in_key
from finegraph.labelling.questions.history import readable
from finegraph.labelling.store.catalogue import Catalogue
from finegraph.labelling.store.current_rows import fine_names
from finegraph.labelling.store.graph_columns import store_columns
from finegraph.labelling.store.records import Change, Diff
from finegraph.labelling.store.sql_tables import edits
from finegraph.labelling.store.values import value_text


def diff_versions(connection: Connection, catalogue: Catalogue, from_version: int, to_version: int) -> Diff:
    """What differs from one version of a store to another, which may be an earlier one."""
    early, late = min(from_version, to_version), max(from_version, to_version)
    query = sa.select(edits).where(edits.c.number > early, edits.c.number <= late).order_by(edits.c.number)
    first: dict[Any, Any] = {}
    last: dict[Any, Any] = {}
    for row in connection.execute(query):
        first.setdefault(key_of(row), row)
        last[key_of(row)] = row
    names = fine_names(connection, {number for key in first for number in numbers_in_key(key)})
    changes = []
    for key, row in first.items():
        before = readable(catalogue, names, row, row.before)
        after = readable(catalogue, names, last[key], last[key].after)
        if from_version > to_version:
            before, after = after, before
        if before == after and (key.target not in ("fine", "kind", "label") or before is not None):
            continue
        if before is None and after is None:
            continue
        kind = catalogue.by_id.get(key.kind_id)
        label = kind.by_id[key.label_id].name if kind and key.label_id in kind.by_id else None
        photo = None if key.target == "comparison" else key.photo
        place = {"fine": names.get(key.fine_id) or photo, "kind": kind.name if kind else None, "label": label}
        changes.append(_change(key.target, SimpleNamespace(**place), before, after))
    return _diff(changes)


def _change(what: str, place: Any, before: Any, after: Any) -> Change:
    where = ", ".join(repr(part) for part in (place.fine, place.kind, place.label) if part is not None)
    texts = [value_text(v) or "unknown" if what in ("cell", "photo") else v or "nothing" for v in (before, after)]
    return Change(
        what=what,
        fine=place.fine,
        kind=place.kind,
        label=place.label,
        before=before,
        after=after,
        text=f"{what} {where}: {texts[0]} -> {texts[1]}",
    )


def _diff(changes: Iterable[Change]) -> Diff:
    listed = tuple(changes)
    return Diff(changes=listed, counts=dict(Counter(change.what for change in listed)))


def diff_graphs(one: LabelGraph, two: LabelGraph) -> Diff:
    """What differs from one graph to another, by names."""
    changes: list[Change] = []
    changes += _names("fine", one.fine, two.fine)
    old, new = ({column.name: column for column in store_columns(graph)} for graph in (one, two))
    changes += _names("kind", list(old), list(new))
    rows = [{name: row for row, name in enumerate(graph.fine)} for graph in (one, two)]
    shared = [name for name in two.fine if name in rows[0]]
    for name in new:
        if name in old:
            changes += _names("label", old[name].labels, new[name].labels, name)
        for fine in two.fine if name in old else ():
            before = old[name].value(rows[0][fine]) if fine in rows[0] else None
            after = new[name].value(rows[1][fine])
            if before != after:
                changes.append(_change("cell", SimpleNamespace(fine=fine, kind=name, label=None), before, after))
    if shared != [name for name in one.fine if name in rows[1]]:
        text = "the classes stand in another order"
        changes.append(Change(what="order", before=None, after=None, text=text))
    return _diff(changes)


def _names(what: str, one: Iterable[str], two: Iterable[str], kind: str | None = None) -> list[Change]:
    """Names that are only in one of two lists."""
    old, new = dict.fromkeys(one), dict.fromkeys(two)
    changes = []
    for name in [*(n for n in old if n not in new), *(n for n in new if n not in old)]:
        place = SimpleNamespace(
            fine=name if what == "fine" else None,
            kind=name if what == "kind" else kind,
            label=name if what == "label" else None,
        )
        changes.append(_change(what, place, name if name in old else None, name if name in new else None))
    return changes
