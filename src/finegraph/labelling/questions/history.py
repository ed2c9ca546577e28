"""The log as people read it: edits and actions, newest first, the result of an action, and what has changed recently.

Values are shown with the current names of classes, kinds and labels. Cost: linear in the edits returned.

Recent changes are asked for by all open pages, so each edit is read and formatted once, however many people ask. The
last edits and the current state of the cells that they changed are cached as JSON. A request costs one small query, and
reading what is new. When names change or something is undone, everything is read again, since that changes the text of
older edits.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from finegraph.errors import InputError
from finegraph.labelling.edits.undo import comparison_words, key_of, numbers_in_key
from finegraph.labelling.questions.queries import cell_states, store_version
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.current_rows import check_number, chunks, fine_ids, fine_names
from finegraph.labelling.store.log import ActionRecord
from finegraph.labelling.store.plan import Plan, Snapshot
from finegraph.labelling.store.records import Batch, CellState, CellValue, Edit, EditResult, Target
from finegraph.labelling.store.sql_tables import batches, comparisons, edits, fine, undone
from finegraph.labelling.store.values import value_text

_MAX_CELLS = 1000
_MAX_LINES = 10_000
MAX_RECENT = 100
"""How many edits are cached; a page that is further behind must reload everything."""


@dataclass(frozen=True, kw_only=True)
class EditFilter:
    """Which edits a history has, by what they changed, who did it, and their numbers; None for any."""

    fine: str | None = None
    kind: str | None = None
    target: Target | None = None
    photo: str | Collection[str] | None = None
    person: str | None = None
    batch: int | None = None
    before: int | None = None
    after: int | None = None


def read_history(connection: Connection, catalogue: Catalogue, wanted: EditFilter, limit: int) -> list[Edit]:
    """Edits, newest first; see `LabelStore.history`."""
    if not 0 < limit <= _MAX_LINES:
        raise InputError(f"limit: expected 1 to {_MAX_LINES} edits, got {limit}")
    for what, number in (("before", wanted.before), ("batch", wanted.batch)):
        if number is not None:
            check_number(what, number)
    query = sa.select(edits, batches.c.person, batches.c.at, batches.c.action, undone.c.edit.label("gone")).select_from(
        edits.join(batches, edits.c.batch == batches.c.number).outerjoin(undone, undone.c.edit == edits.c.number)
    )
    if wanted.fine is not None:
        number = fine_ids(connection, [wanted.fine])[wanted.fine]
        involves = sa.or_(comparisons.c.one_id == number, comparisons.c.two_id == number)
        pairs = sa.select(comparisons.c.pair).where(involves)
        of_pairs = (edits.c.target == "comparison") & edits.c.photo.in_(pairs)
        query = query.where(
            edits.c.fine_id == number
            if wanted.target not in (None, "comparison")
            else sa.or_(edits.c.fine_id == number, of_pairs)
        )
    if wanted.kind is not None:
        query = query.where(edits.c.kind_id == catalogue.kind(wanted.kind).id)
    if wanted.photo is not None:
        query = query.where(edits.c.photo.in_([wanted.photo] if isinstance(wanted.photo, str) else list(wanted.photo)))
    equal = ((edits.c.target, wanted.target), (batches.c.person, wanted.person), (edits.c.batch, wanted.batch))
    query = query.where(*(column == value for column, value in equal if value is not None))
    if wanted.before is not None:
        query = query.where(edits.c.number < wanted.before)
    if wanted.after is not None:
        query = query.where(edits.c.number > wanted.after)
    rows = list(connection.execute(query.order_by(edits.c.number.desc()).limit(limit)))
    names = fine_names(connection, {number for row in rows for number in numbers_in_key(key_of(row))})
    return [_edit(catalogue, names, row) for row in rows]


def _edit(catalogue: Catalogue, names: Mapping[int, str], row: Row[Any]) -> Edit:
    kind = catalogue.by_id.get(row.kind_id)
    label = kind.by_id.get(row.label_id) if kind else None
    before, after = (readable(catalogue, names, row, text) for text in (row.before, row.after))
    fine_label, photo = names.get(row.fine_id), None if row.target == "comparison" else row.photo
    place = ", ".join(
        repr(part) for part in (fine_label, kind and kind.name, label and label.name, photo) if part is not None
    )
    return Edit(
        number=row.number,
        batch=row.batch,
        action=row.action,
        person=row.person,
        at=row.at,
        target=row.target,
        fine=fine_label,
        kind=kind.name if kind else None,
        label=label.name if label else None,
        photo=photo,
        before=before,
        after=after,
        text=f"{row.target} {place}: {_short(row.target, before)} -> {_short(row.target, after)}",
        undoes=row.undoes,
        undone=row.gone is not None,
    )


def _short(target: str, value: Any) -> str:
    if target in ("cell", "photo"):
        return value_text(value) or "unknown"
    return "nothing" if value is None or value == "" else str(value)


def readable(catalogue: Catalogue, names: Mapping[int, str], row: Row[Any], text: str | None) -> Any:
    """The content of a snapshot: the value of a cell, a name, a note or a comparison; None if it is empty."""
    if text is None:
        return None
    snapshot = json.loads(text)
    if row.target == "comparison":
        return comparison_words(key_of(row), names, snapshot["value"])
    if row.target in ("cell", "photo"):
        return catalogue.by_id[row.kind_id].value(snapshot["value"])
    if row.target == "note":
        return snapshot["text"]
    if row.target == "graph":
        return f"{snapshot['fine']} classes, {snapshot['kinds']} kinds"
    return None if snapshot["removed"] else snapshot["name"]


def read_actions(connection: Connection, *, person: str | None, before: int | None, limit: int) -> list[Batch]:
    """Actions, newest first."""
    if not 0 < limit <= _MAX_LINES:
        raise InputError(f"limit: expected 1 to {_MAX_LINES} actions, got {limit}")
    if before is not None:
        check_number("before", before)
    query = sa.select(batches).order_by(batches.c.number.desc()).limit(limit)
    if person is not None:
        query = query.where(batches.c.person == person)
    if before is not None:
        query = query.where(batches.c.number < before)
    return [_batch(connection, row) for row in connection.execute(query)]


def _batch(connection: Connection, row: Row[Any]) -> Batch:
    all_undone = is_undone(connection, row)
    return Batch(
        number=row.number,
        action=row.action,
        person=row.person,
        at=row.at,
        count=row.size,
        text=row.text,
        undoes=row.undoes,
        undone=all_undone,
        can_undo=not all_undone and not _is_first(row) and row.size > 0,
        is_undo=row.action == "undo" and row.text.startswith("undid"),
        version=row.last,
    )


def _is_first(row: Row[Any]) -> bool:
    """Whether an action is the first import, which is final."""
    return bool(row.number == 1 and row.action == "import")


def is_undone(connection: Connection, row: Row[Any]) -> bool:
    """Whether all edits of an action are undone."""
    of_action = sa.select(edits.c.number).where(edits.c.batch == row.number)
    not_undone = of_action.where(edits.c.number.not_in(sa.select(undone.c.edit)))
    return row.size > 0 and connection.scalar(not_undone.limit(1)) is None


def last_undoable(connection: Connection, person: str) -> int | None:
    """The newest action of a person that is neither undone nor an undo."""
    query = sa.select(batches).where(batches.c.person == person, batches.c.action != "undo", batches.c.size > 0)
    for row in connection.execute(query.order_by(batches.c.number.desc())):
        if not is_undone(connection, row):
            return None if _is_first(row) else int(row.number)
    return None


# ---- the result of an action -----------------------------------------------------------------------------------------


def result_of(connection: Connection, catalogue: Catalogue, batch: int, *, repeated: bool = False) -> EditResult:
    """The result of an action, read from the log; always the same, except for other people's votes."""
    row = connection.execute(sa.select(batches).where(batches.c.number == batch)).one()
    query = sa.select(edits).where(edits.c.batch == batch, edits.c.target.in_(["cell", "photo", "note"]))
    changed = list(connection.execute(query.order_by(edits.c.number).limit(_MAX_CELLS)))
    noted = [edit.number for edit in changed if edit.target == "note"]
    return EditResult(
        batch=batch,
        edits=row.size,
        version=row.last,
        person=row.person,
        at=row.at,
        action=row.action,
        text=row.text,
        cells=tuple(_cells_after(connection, catalogue, [edit for edit in changed if edit.target != "note"])),
        note_version=noted[0] if len(noted) == 1 else None,
        repeated=repeated,
    )


def result_of_record(connection: Connection, plan: Plan, record: ActionRecord) -> EditResult:
    """The result of the action just carried out; equals `result_of`, without reading the log."""
    changed = plan.of("cell", "photo", "note")[:_MAX_CELLS]
    ids = {c.key.fine_id for c in changed if c.key.target == "cell" and c.key.fine_id is not None}
    names = plan.names if ids <= plan.names.keys() else fine_names(connection, ids)
    noted = [record.numbered[change.key] for change in changed if change.key.target == "note"]
    cells = []
    for change in changed:
        key = change.key
        if key.target != "note":
            kind, (cell_votes, sure) = record.catalogue.by_id[key.kind_id or 0], record.cells.get(key, ({}, None))
            votes = {person: kind.value(vote) for person, vote in sorted(cell_votes.items())}
            name = names[key.fine_id or 0] if key.target == "cell" else key.photo or ""
            cells.append(_state(kind, name, record.numbered[key], change.after, votes, sure))
    return EditResult(
        batch=record.batch["number"],
        edits=record.batch["size"],
        version=record.batch["last"],
        person=record.batch["person"],
        at=record.batch["at"],
        action=record.batch["action"],
        text=record.batch["text"],
        cells=tuple(cells),
        note_version=noted[0] if len(noted) == 1 else None,
    )


def _state(
    kind: KindEntry, name: str, number: int, snapshot: Snapshot | None, votes: dict[str, CellValue], sure: float | None
) -> CellState:
    """A cell as an edit left it."""
    after = snapshot or {"value": None}
    value = kind.value(after["value"])
    return CellState(
        fine=name,
        kind=kind.name,
        value=value,
        text=value_text(value),
        version=number,
        by=after.get("by"),
        at=after.get("at"),
        votes=votes,
        disagreement=bool(after.get("disagreement")),
        resolved=bool(after.get("resolved")),
        confidence=sure,
    )


def _cells_after(connection: Connection, catalogue: Catalogue, changed: Sequence[Row[Any]]) -> list[CellState]:
    """The cells of edits, as they were right after them."""
    names = fine_names(connection, {edit.fine_id for edit in changed if edit.target == "cell"})
    states: dict[int, dict[int, CellState]] = {}
    for kind_id in {edit.kind_id for edit in changed if edit.target == "cell"}:
        class_names = {
            edit.fine_id: names[edit.fine_id] for edit in changed if edit.kind_id == kind_id and edit.target == "cell"
        }
        states[kind_id] = cell_states(connection, catalogue.by_id[kind_id], class_names)
    cells = []
    for edit in changed:
        current = states[edit.kind_id][edit.fine_id] if edit.target == "cell" else None
        sure = current.confidence if current and current.version == edit.number else None
        name = names[edit.fine_id] if edit.target == "cell" else edit.photo
        snapshot = json.loads(edit.after) if edit.after else None
        votes = current.votes if current else {}
        cells.append(_state(catalogue.by_id[edit.kind_id], name, edit.number, snapshot, votes, sure))
    return cells


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The edits after a version, newest first, and the current state of the cells that they changed, all as JSON.

    Attributes:
        version: the current version.
        edits: the edits, as `Edit.to_dict` gives them.
        cells: the cells, as `CellState.to_dict` gives them, without those of removed classes and kinds.
        more: whether there are more edits than are cached.
    """

    version: int
    edits: tuple[dict[str, Any], ...]
    cells: tuple[dict[str, Any], ...]
    more: bool

    def to_dict(self) -> dict[str, Any]:
        """The changes as plain JSON data."""
        return {"version": self.version, "edits": list(self.edits), "cells": list(self.cells), "more": self.more}


class Recent:
    """The recent edits of one store; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._structure: str | None = None
        self._version = 0
        self._edits: list[dict[str, Any]] = []
        self._cells: dict[tuple[str, str], dict[str, Any]] = {}

    def since(self, connection: Connection, catalogue: Catalogue, version: int) -> Changes:
        """What has changed after a version."""
        with self._lock:
            self._read(connection, catalogue)
            edits = tuple(edit for edit in self._edits if edit["number"] > version)
            places = dict.fromkeys((edit["fine"], edit["kind"]) for edit in edits if edit["target"] == "cell")
            cells = tuple(self._cells[place] for place in places if place in self._cells)
            more = len(edits) == len(self._edits) and self._version - version > len(edits)
            return Changes(version=self._version, edits=edits, cells=cells, more=more)

    def _read(self, connection: Connection, catalogue: Catalogue) -> None:
        """Read what is new."""
        version = store_version(connection)
        reread = self._structure != catalogue.structure
        if version <= self._version and not reread:
            return
        edits = _edits_after(connection, catalogue, None if reread else self._version)
        if not reread and (len(edits) == MAX_RECENT or any(edit.undoes is not None for edit in edits)):
            reread, edits = True, _edits_after(connection, catalogue, None)
        if reread:
            self._edits, self._cells = [], {}
        self._edits = [*(edit.to_dict() for edit in edits), *self._edits][:MAX_RECENT]
        self._cells.update(_cells_of(connection, catalogue, edits))
        if len(self._cells) > 2 * MAX_RECENT:
            kept = {(edit["fine"], edit["kind"]) for edit in self._edits}
            self._cells = {place: cell for place, cell in self._cells.items() if place in kept}
        self._structure, self._version = catalogue.structure, version


def _edits_after(connection: Connection, catalogue: Catalogue, version: int | None) -> list[Edit]:
    return read_history(connection, catalogue, EditFilter(after=version), MAX_RECENT)


def _cells_of(
    connection: Connection, catalogue: Catalogue, edits: Iterable[Edit]
) -> dict[tuple[str, str], dict[str, Any]]:
    """The present state of the cells that edits have changed."""
    by_kind: dict[str, set[str]] = {}
    for edit in edits:
        if edit.target == "cell" and edit.fine is not None and edit.kind is not None:
            by_kind.setdefault(edit.kind, set()).add(edit.fine)
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for kind, names in by_kind.items():
        living: dict[int, str] = {}
        for part in chunks(names):
            query = sa.select(fine.c.id, fine.c.name).where(fine.c.name.in_(part), fine.c.removed == 0)
            living.update((row.id, row.name) for row in connection.execute(query))
        if kind in catalogue.by_name and living:
            states = cell_states(connection, catalogue.by_name[kind], living)
            cells.update(((state.fine, kind), state.to_dict()) for state in states.values())
    return cells
