"""The report of damage: what is damaged, what is still whole, and how to restore it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from finegraph.errors import DamagedStoreError
from finegraph.labelling.store.damage import (
    DERIVED_NAMES,
    LOG_NAMES,
    VIEW_NAMES,
    Check,
    Damage,
    any_text,
    driver_errors,
)

_MAX_NAMED = 3


def damaged(connection: Connection, shown: str, found: Check) -> DamagedStoreError:
    """The error that reports damage.

    Args:
        connection: where the store is.
        shown: what to call it.
        found: what a check of the whole store found.
    """
    names = Names.read(connection)
    named = list(dict.fromkeys(names.of(one) for one in found.damage))
    more = f"; and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
    first = "; ".join(named[:_MAX_NAMED])
    return DamagedStoreError(
        f"{shown}: the store is damaged: {first}{more}. {_whole(found, names)} {_restoring(found, shown)}", named
    )


def _whole(found: Check, names: Names) -> str:
    """What is not damaged."""
    if all(one.index for one in found.damage):
        return "Still whole: all rows."
    log = f"the log of {found.edits} edit{'s' if found.edits != 1 else ''}"
    if any(one.table in LOG_NAMES for one in found.damage):
        log = f"the log up to edit {found.whole_edits} of {found.edits}"
    touched = [one for one in found.damage if one.table in VIEW_NAMES]
    if not touched:
        return f"Still whole: {log}; all labels of now."
    kinds = _kinds_of(touched)
    if kinds is None:
        return f"Still whole: {log}."
    others = [name for number, name in names.kinds.items() if number not in kinds]
    listed = ", ".join(repr(name) for name in others[:20]) + (", ..." if len(others) > 20 else "")
    return f"Still whole: {log}; of the kinds: {listed or 'none'}."


def _kinds_of(touched: Iterable[Damage]) -> set[int] | None:
    """The kinds that damage is confined to; None if it concerns classes, or is unknown."""
    found = set()
    for one in touched:
        number = (one.row or {}).get("id" if one.table == "kinds" else "kind_id")
        if not isinstance(number, int):
            return None
        found.add(number)
    return found


def _restoring(found: Check, shown: str) -> str:
    """How to get back what is damaged."""
    if all(one.table in DERIVED_NAMES for one in found.damage):
        return "Only suggestions are damaged, which are made anew at the next start."
    log = any(one.table in LOG_NAMES for one in found.damage)
    view = any(one.table in VIEW_NAMES for one in found.damage)
    if all(one.index for one in found.damage):
        return f"Only an index is damaged: keep a copy of the file, then `sqlite3 {shown} REINDEX` makes it anew."
    if not view:
        return "Export the labels and make a new store from that file, or put a backup in its place."
    if not log:
        return (
            "Keep a copy of the file and put a backup in its place; what was decided since the backup stands in the "
            "history, which can still be read."
        )
    return "Keep a copy of the file and put a backup in its place."


@dataclass(frozen=True)
class Names:
    """The names of classes and kinds, if they can be read."""

    fine: Mapping[int, str]
    kinds: Mapping[int, str]

    @classmethod
    def read(cls, connection: Connection) -> Names:
        """All that can be read."""
        return cls(_names(connection, "fine"), _names(connection, "kinds"))

    def of(self, damage: Damage) -> str:
        """What is damaged, and how."""
        row = damage.row
        if row is None or damage.table == "seals":
            name = "the log" if damage.table in LOG_NAMES else f"the table {damage.table}"
            return f"{name} {damage.what}"
        return f"{self._place(damage.table, row)} {damage.what}"

    def _place(self, table: str, row: Mapping[str, Any]) -> str:
        fine = _called("class", row.get("fine_id"), self.fine)
        kind = _called("kind", row.get("kind_id"), self.kinds)
        if set(row) == {"kind_id"}:
            return f"the table {table} in {kind}"
        return {
            "cells": f"the cell of {fine} in {kind}",
            "votes": f"the vote of {row.get('person')!r} on {fine} in {kind}",
            "photo_labels": f"the label of photo {row.get('photo')!r} in {kind}",
            "comparisons": f"the comparison of {row.get('person')!r} in {kind}",
            "notes": f"the note of {fine}",
            "fine": f"class {row.get('name')!r} (number {row.get('id')})",
            "kinds": f"kind {row.get('name')!r} (number {row.get('id')})",
            "labels": f"label {row.get('name')!r} (number {row.get('id')}) of {kind}",
            "meta": f"the entry {row.get('key')!r} of the table meta",
            "undone": f"the mark that edit {row.get('edit')} is undone",
            "suggestions": f"suggestion {row.get('number')}",
            "beliefs": f"the model's belief of {fine} in {kind}",
            "edits": f"edit {row.get('number')} of the log",
            "batches": f"action {row.get('number')} of the log",
        }[table]


def _called(noun: str, number: object, names: Mapping[int, str]) -> str:
    known = names.get(number) if isinstance(number, int) else None
    return f"{noun} number {number}" if known is None else f"{noun} {known!r}"


def _names(connection: Connection, table: str) -> dict[int, str]:
    query = f'SELECT "id", "name" FROM "{table}"'
    with contextlib.suppress(*driver_errors(connection)), contextlib.ExitStack() as stack:
        if connection.dialect.name == "sqlite":
            stack.enter_context(any_text(connection))
        return {number: str(name) for number, name in connection.exec_driver_sql(query)}
    return {}
