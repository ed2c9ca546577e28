"""The report of damage: what is damaged, what is still intact, and how to restore it."""

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


def damaged(connection: Connection, shown: str, check: Check) -> DamagedStoreError:
    """The error that reports damage.

    Args:
        connection: a connection to the store.
        shown: the name of the store in messages.
        check: the result of checking the whole store.
    """
    names = Names.read(connection)
    named = list(dict.fromkeys(names.of(damage) for damage in check.damage))
    more = f"; and {len(named) - _MAX_NAMED} more" if len(named) > _MAX_NAMED else ""
    first = "; ".join(named[:_MAX_NAMED])
    return DamagedStoreError(
        f"{shown}: the store is damaged: {first}{more}. {_intact_text(check, names)} {_restore_text(check, shown)}",
        named,
    )


def _intact_text(check: Check, names: Names) -> str:
    """The sentence that names what is intact."""
    if all(damage.index for damage in check.damage):
        return "Still whole: all rows."
    log = f"the log of {check.edits} edit{'s' if check.edits != 1 else ''}"
    if any(damage.table in LOG_NAMES for damage in check.damage):
        log = f"the log up to edit {check.whole_edits} of {check.edits}"
    touched = [damage for damage in check.damage if damage.table in VIEW_NAMES]
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
    numbers = set()
    for damage in touched:
        number = (damage.row or {}).get("id" if damage.table == "kinds" else "kind_id")
        if not isinstance(number, int):
            return None
        numbers.add(number)
    return numbers


def _restore_text(check: Check, shown: str) -> str:
    """The sentence that says how to restore what is damaged."""
    if all(damage.table in DERIVED_NAMES for damage in check.damage):
        return "Only suggestions are damaged, which are made again at the next start."
    log = any(damage.table in LOG_NAMES for damage in check.damage)
    view = any(damage.table in VIEW_NAMES for damage in check.damage)
    if all(damage.index for damage in check.damage):
        return f"Only an index is damaged: keep a copy of the file, then `sqlite3 {shown} REINDEX` makes it again."
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
        """The damaged parts, and how each is damaged."""
        row = damage.row
        if row is None or damage.table == "seals":
            name = "the log" if damage.table in LOG_NAMES else f"the table {damage.table}"
            return f"{name} {damage.what}"
        return f"{self._place(damage.table, row)} {damage.what}"

    def _place(self, table: str, row: Mapping[str, Any]) -> str:
        fine = _name_text("class", row.get("fine_id"), self.fine)
        kind = _name_text("kind", row.get("kind_id"), self.kinds)
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


def _name_text(noun: str, number: object, names: Mapping[int, str]) -> str:
    known = names.get(number) if isinstance(number, int) else None
    return f"{noun} number {number}" if known is None else f"{noun} {known!r}"


def _names(connection: Connection, table: str) -> dict[int, str]:
    query = f'SELECT "id", "name" FROM "{table}"'
    with contextlib.suppress(*driver_errors(connection)), contextlib.ExitStack() as stack:
        if connection.dialect.name == "sqlite":
            stack.enter_context(any_text(connection))
        return {number: str(name) for number, name in connection.exec_driver_sql(query)}
    return {}
