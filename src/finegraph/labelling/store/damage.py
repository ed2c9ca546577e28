"""Finding damage: checks every row against its seal, every table against its totals, and the log from first to last.

SQLite also compares its indexes with its tables, since a damaged index would hide intact rows. Unreadable pages count
as damage and raise no error here. Cost: linear in the rows, about three seconds per million.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.labelling.store.database import driver_reason
from finegraph.labelling.store.sealed_rows import DERIVED, LOG_ROW, SEALED, VIEW, link, seal_of, start_of, table_part
from finegraph.labelling.store.sql_tables import batches, cells, edits, fine, kinds, metadata, seals

VIEW_NAMES = frozenset(table.name for table in VIEW)
"""The tables of the current labels."""
LOG_NAMES = frozenset({"batches", "edits", "undone"})
DERIVED_NAMES = frozenset(table.name for table in DERIVED)
DECIDED_NAMES = VIEW_NAMES | LOG_NAMES
"""The tables of decisions, present and past."""
_ROWS_PER_FETCH = 5000


@dataclass(frozen=True)
class Damage:
    """One thing that is not as it was written.

    Attributes:
        table: its table.
        what: what is wrong, as the end of a sentence that begins with its name.
        row: its sealed columns, if they can be read.
        index: whether only an index is damaged and all rows may be intact.
    """

    table: str
    what: str
    row: Mapping[str, Any] | None = None
    index: bool = False


@dataclass(frozen=True)
class Check:
    """What a check found.

    Attributes:
        damage: all that is not as it was written.
        edits: how many edits the log has, or should have.
        whole_edits: up to which edit the log is whole.
    """

    damage: tuple[Damage, ...]
    edits: int = 0
    whole_edits: int = 0


def find_damage(connection: Connection, tables: Set[str] = DECIDED_NAMES | DERIVED_NAMES) -> Check:
    """Compare tables with their seals; the log is checked as a whole if one of its tables is named."""
    damage: list[Damage] = []
    totals = _totals(connection, damage)
    for name in sorted(tables - {"batches", "edits"}):
        damage += _check_rows(connection, metadata.tables[name], totals)
    if tables >= DERIVED_NAMES:
        damage += _check_counts(connection)
    log = _check_log(connection, totals) if tables & LOG_NAMES else Check(())
    damage += log.damage
    if connection.dialect.name == "sqlite":
        broken = {part.table for part in damage}
        for name in sorted(tables | {"seals"}):
            damage += _check_structure(connection, name, known=name in broken)
    return Check(tuple(damage), log.edits, log.whole_edits)


def _check_structure(connection: Connection, name: str, *, known: bool) -> list[Damage]:
    """SQLite's check of the pages and indexes of a table; ignored if rows are already `known` to be damaged."""
    try:
        messages = [str(row[0]) for row in connection.exec_driver_sql(f"PRAGMA integrity_check('{name}')")]
    except sa.exc.DBAPIError as error:
        return [Damage(name, f"cannot be checked: {driver_reason(error)}")]
    if messages == ["ok"] or known:
        return []
    lines = " ".join(messages[0].split())
    return [
        Damage(
            name, f"has a fault in its pages or indexes: {lines}", index=all("index" in message for message in messages)
        )
    ]


# ---- rows ------------------------------------------------------------------------------------------------------------


def _read(connection: Connection, table: sa.Table, order: str | None = None) -> Iterator[tuple[Any, ...]]:
    """The sealed columns and the seal of all rows, as the database gives them."""
    columns = ", ".join(f'"{name}"' for name in (*SEALED[table.name], "seal"))
    query = f'SELECT {columns} FROM "{table.name}"' + (f' ORDER BY "{order}"' if order else "")
    cursor = connection.exec_driver_sql(query).cursor
    assert cursor is not None, "a SELECT has a cursor"
    while part := cursor.fetchmany(_ROWS_PER_FETCH):
        yield from part


@contextlib.contextmanager
def any_text(connection: Connection) -> Iterator[None]:
    """Read text that is not UTF-8 as well, so that its row can be named."""
    driver = connection.connection.driver_connection
    assert driver is not None, "a connection that is open has a driver"
    before = driver.text_factory
    driver.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    try:
        yield
    finally:
        driver.text_factory = before


def driver_errors(connection: Connection) -> tuple[type[BaseException], ...]:
    """The errors that reading may raise: rows are read from the driver directly, which is twice as fast."""
    # UnicodeDecodeError: SQLite's own error message may quote broken text.
    return (sa.exc.DBAPIError, connection.dialect.loaded_dbapi.Error, UnicodeDecodeError)


def _check_rows(
    connection: Connection, table: sa.Table, totals: Mapping[tuple[str, int], tuple[int, int]]
) -> list[Damage]:
    """Compare the rows of a table with their seals and sums."""
    errors = driver_errors(connection)
    try:
        return _compare(connection, table, totals)
    except errors as error:
        if connection.dialect.name != "sqlite":
            raise
        first_error = error
    try:
        with any_text(connection):
            damage = _compare(connection, table, totals)
    except errors as error:
        return [Damage(table.name, f"cannot be read to its end: {driver_reason(error)}")]
    return damage or [Damage(table.name, f"cannot be read to its end: {driver_reason(first_error)}")]


def _compare(
    connection: Connection, table: sa.Table, totals: Mapping[tuple[str, int], tuple[int, int]]
) -> list[Damage]:
    name, start = table.name, start_of(table.name)
    names = SEALED[name]
    kind_column = names.index("kind_id") if table_part(table, {"kind_id": 1}) else None
    bad: list[Damage] = []
    counts: dict[Any, list[int]] = {}
    crc32 = zlib.crc32
    for row in _read(connection, table):
        seal = row[-1]
        if crc32(ascii(row[:-1]).encode("ascii"), start) != seal:  # `seal_of` inlined: this line is the whole cost
            bad.append(Damage(name, _seal_fault(seal), dict(zip(names, row, strict=False))))
            continue
        part_counts = counts.setdefault(row[kind_column] if kind_column is not None else 0, [0, 0])
        part_counts[0] += 1
        part_counts[1] += seal
    expected = {part: total for (table_name, part), total in totals.items() if table_name == name}
    for part in {*expected, *counts}:
        count, total = counts.get(part, (0, 0))
        expected_total = expected.get(part, (0, 0))
        if (count, total) != expected_total and not bad:
            bad.append(
                Damage(
                    name, _count_fault(count, expected_total[0]), {"kind_id": part} if kind_column is not None else None
                )
            )
    return bad


def _seal_fault(seal: object) -> str:
    if seal is None:
        return "has no seal: it was written by an older finegraph, or by something else"
    return "is not as it was written"


def _count_fault(count: int, expected: int) -> str:
    if count == expected:
        return f"has {count} rows as it should, but others than were written"
    return f"has {count} rows, and {expected} were written"


def _totals(connection: Connection, damage: list[Damage]) -> dict[tuple[str, int], tuple[int, int]]:
    """How many rows each part should have and the sum of their seals."""
    totals: dict[tuple[str, int], tuple[int, int]] = {}
    errors = driver_errors(connection)
    try:
        for row in _read(connection, seals):
            name, part, count, total = row[:-1]
            if seal_of("seals", row[:-1]) == row[-1]:
                totals[name, part] = (count, total)
            else:
                damage.append(
                    Damage("seals", "is not as it was written", dict(zip(SEALED["seals"], row, strict=False)))
                )
    except errors as error:
        if connection.dialect.name != "sqlite":
            raise
        damage.append(Damage("seals", f"cannot be read to its end: {driver_reason(error)}"))
    return totals


def _check_counts(connection: Connection) -> list[Damage]:
    """Check the two columns without a seal: the number of known cells of a class, and the confidence of a cell."""
    living = sa.select(kinds.c.id).where(kinds.c.removed == 0)
    known = sa.select(cells.c.fine_id, sa.func.count().label("known"))
    known = known.where(cells.c.value.is_not(None), cells.c.kind_id.in_(living)).group_by(cells.c.fine_id)
    counted = known.subquery()
    miscounted = sa.select(fine.c.id).outerjoin(counted, counted.c.fine_id == fine.c.id)
    miscounted = miscounted.where(fine.c.known != sa.func.coalesce(counted.c.known, 0)).limit(1)
    impossible = sa.select(cells.c.fine_id).where(sa.or_(cells.c.confidence < 0, cells.c.confidence > 1)).limit(1)
    faults = "has a class whose known cells are miscounted", "has a confidence that is not a probability"
    damage = []
    for query, fault in zip((miscounted, impossible), faults, strict=True):
        try:
            if connection.scalar(query) is not None:
                damage.append(Damage("beliefs", fault))
        except sa.exc.DBAPIError as error:
            damage.append(Damage("beliefs", f"cannot be compared with the cells: {driver_reason(error)}"))
    return damage


# ---- the log ---------------------------------------------------------------------------------------------------------


def _check_log(connection: Connection, totals: Mapping[tuple[str, int], tuple[int, int]]) -> Check:
    """Check the chain of actions."""
    actions, last = totals.get((LOG_ROW, 0), (0, 0))
    errors = driver_errors(connection)
    chain = _Chain()
    try:
        chain.check(connection)
    except errors as error:
        if connection.dialect.name != "sqlite":
            raise
        chain = _Chain()
        try:
            with any_text(connection):
                chain.check(connection)
        except errors:
            chain.add_damage(Damage("edits", f"cannot be read to its end: {driver_reason(error)}"), chain.edit)
    if (chain.batch, chain.edit) != (actions, last):
        fault = f"ends at action {chain.batch} and edit {chain.edit}, and was written to action {actions}, edit {last}"
        chain.add_damage(Damage("batches", fault), min(chain.edit, last))
    whole_to = chain.edit if chain.whole_to is None else chain.whole_to
    return Check(tuple(chain.damage), max(last, chain.edit), whole_to)


class _Chain:
    """The chain of the log, checked from its first action on."""

    def __init__(self) -> None:
        self.damage: list[Damage] = []
        self.whole_to: int | None = None
        """The last edit before the first damage, if there is some."""
        self.batch = self.edit = 0
        """The last action and edit that were found."""

    def add_damage(self, damage: Damage, whole_to: int) -> None:
        """Note damage; the log is whole up to an edit."""
        self.damage.append(damage)
        self.whole_to = whole_to if self.whole_to is None else min(self.whole_to, whole_to)

    def check(self, connection: Connection) -> None:
        """Compare all actions and edits with their seals."""
        previous = ""
        numbered = _read(connection, edits, order="number")
        waiting = next(numbered, None)
        for row in _read(connection, batches, order="number"):
            action = dict(zip(SEALED["batches"], row, strict=False))
            edit_seals: list[int] = []
            before = self.edit
            while waiting is not None and _belongs(waiting, action):
                self._edit(waiting)
                edit_seals.append(seal_of("edits", waiting[:-1]))
                waiting = next(numbered, None)
            if action["number"] != self.batch + 1:
                fault = f"lacks the actions {self.batch + 1} to {_previous(action['number'])}"
                self.add_damage(Damage("batches", fault), before)
            elif link(previous, action, edit_seals) != row[-1] and not self._damaged_since(before):
                self.add_damage(Damage("batches", _seal_fault(row[-1]), action), before)
            self.batch = action["number"] if isinstance(action["number"], int) else self.batch + 1
            previous = row[-1] or ""
        if waiting is not None:
            self.add_damage(
                Damage("edits", "belongs to no action", dict(zip(SEALED["edits"], waiting, strict=False))), self.edit
            )

    def _edit(self, row: Sequence[Any]) -> None:
        values = dict(zip(SEALED["edits"], row, strict=False))
        if seal_of("edits", row[:-1]) != row[-1]:
            self.add_damage(Damage("edits", _seal_fault(row[-1]), values), self.edit)
        elif values["number"] != self.edit + 1:
            fault = f"lacks the edits {self.edit + 1} to {_previous(values['number'])}"
            self.add_damage(Damage("edits", fault), self.edit)
        self.edit = values["number"] if isinstance(values["number"], int) else self.edit + 1

    def _damaged_since(self, edit: int) -> bool:
        """Whether an edit after this one is damaged; then its action is not reported as well."""
        return self.whole_to is not None and self.whole_to >= edit


def _belongs(edit: Sequence[Any], action: Mapping[str, Any]) -> bool:
    """Whether an edit belongs to an action, even if the number of its action is damaged."""
    number, last = edit[0], action["last"]
    return isinstance(number, int) and isinstance(last, int) and number <= last


def _previous(number: object) -> object:
    return number - 1 if isinstance(number, int) else number
