"""Finding damage: every row against its seal, every table against its sums, the log from its first action to its last.

SQLite also compares its indexes with its tables, since a damaged index would hide rows that are whole. What cannot be
read is damage too, so nothing here fails on a broken page. Cost: linear in the rows, about three seconds for a million.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.labelling.store.database import reason_of
from finegraph.labelling.store.seals import DERIVED, LOG_ROW, SEALED, VIEW, link, part_of, seal_of, start_of
from finegraph.labelling.store.sql_tables import batches, cells, edits, fine, kinds, metadata, seals

VIEW_NAMES = frozenset(table.name for table in VIEW)
"""What the present labels are read from."""
LOG_NAMES = frozenset({"batches", "edits", "undone"})
DERIVED_NAMES = frozenset(table.name for table in DERIVED)
DECIDED_NAMES = VIEW_NAMES | LOG_NAMES
"""What people decided, now and before."""
_AT_ONCE = 5000


@dataclass(frozen=True)
class Damage:
    """One thing that is not as it was written.

    Attributes:
        table: where it is.
        what: what is wrong with it, as the end of a sentence that begins with its name.
        row: its sealed columns, if they can be read.
        index: whether all rows may be whole and only the order that they are found by is not.
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
        broken = {one.table for one in damage}
        for name in sorted(tables | {"seals"}):
            damage += _check_structure(connection, name, known=name in broken)
    return Check(tuple(damage), log.edits, log.whole_edits)


def _check_structure(connection: Connection, name: str, *, known: bool) -> list[Damage]:
    """What SQLite says of the pages and indexes of a table; `known`: that rows of it are damaged is known already."""
    try:
        found = [str(row[0]) for row in connection.exec_driver_sql(f"PRAGMA integrity_check('{name}')")]
    except sa.exc.DBAPIError as error:
        return [Damage(name, f"cannot be checked: {reason_of(error)}")]
    if found == ["ok"] or known:
        return []
    lines = " ".join(found[0].split())
    return [Damage(name, f"has a fault in its pages or indexes: {lines}", index=all("index" in one for one in found))]


# ---- rows ------------------------------------------------------------------------------------------------------------


def _read(connection: Connection, table: sa.Table, order: str | None = None) -> Iterator[tuple[Any, ...]]:
    """The sealed columns and the seal of all rows, as the database gives them."""
    columns = ", ".join(f'"{name}"' for name in (*SEALED[table.name], "seal"))
    query = f'SELECT {columns} FROM "{table.name}"' + (f' ORDER BY "{order}"' if order else "")
    cursor = connection.exec_driver_sql(query).cursor
    assert cursor is not None, "a SELECT has a cursor"
    while part := cursor.fetchmany(_AT_ONCE):
        yield from part


@contextlib.contextmanager
def any_text(connection: Connection) -> Iterator[None]:
    """Texts that are no UTF-8 are read too, so that their rows can be named."""
    driver = connection.connection.driver_connection
    assert driver is not None, "a connection that is open has a driver"
    before = driver.text_factory
    driver.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    try:
        yield
    finally:
        driver.text_factory = before


def driver_errors(connection: Connection) -> tuple[type[BaseException], ...]:
    """What reading may raise: rows come from the driver itself, which is twice as fast."""
    # SQLite may not even be able to say what is wrong: its message may quote broken text.
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
        first = error
    try:
        with any_text(connection):
            found = _compare(connection, table, totals)
    except errors as error:
        return [Damage(table.name, f"cannot be read to its end: {reason_of(error)}")]
    return found or [Damage(table.name, f"cannot be read to its end: {reason_of(first)}")]


def _compare(
    connection: Connection, table: sa.Table, totals: Mapping[tuple[str, int], tuple[int, int]]
) -> list[Damage]:
    name, start = table.name, start_of(table.name)
    names = SEALED[name]
    place = names.index("kind_id") if part_of(table, {"kind_id": 1}) else None
    bad: list[Damage] = []
    found: dict[Any, list[int]] = {}
    crc32 = zlib.crc32
    for row in _read(connection, table):
        seal = row[-1]
        if crc32(ascii(row[:-1]).encode("ascii"), start) != seal:  # `seal_of`, written out: this is the whole cost
            bad.append(Damage(name, _unlike(seal), dict(zip(names, row, strict=False))))
            continue
        counted = found.setdefault(row[place] if place is not None else 0, [0, 0])
        counted[0] += 1
        counted[1] += seal
    expected = {part: total for (own, part), total in totals.items() if own == name}
    for part in {*expected, *found}:
        count, total = found.get(part, (0, 0))
        wanted = expected.get(part, (0, 0))
        if (count, total) != wanted and not bad:
            bad.append(Damage(name, _miscounted(count, wanted[0]), {"kind_id": part} if place is not None else None))
    return bad


def _unlike(seal: object) -> str:
    if seal is None:
        return "has no seal: it was written by an older finegraph, or by something else"
    return "is not as it was written"


def _miscounted(count: int, expected: int) -> str:
    if count == expected:
        return f"has {count} rows as it should, but others than were written"
    return f"has {count} rows, and {expected} were written"


def _totals(connection: Connection, damage: list[Damage]) -> dict[tuple[str, int], tuple[int, int]]:
    """How many rows each part should have and the sum of their seals."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    errors = driver_errors(connection)
    try:
        for row in _read(connection, seals):
            name, part, count, total = row[:-1]
            if seal_of("seals", row[:-1]) == row[-1]:
                found[name, part] = (count, total)
            else:
                damage.append(
                    Damage("seals", "is not as it was written", dict(zip(SEALED["seals"], row, strict=False)))
                )
    except errors as error:
        if connection.dialect.name != "sqlite":
            raise
        damage.append(Damage("seals", f"cannot be read to its end: {reason_of(error)}"))
    return found


def _check_counts(connection: Connection) -> list[Damage]:
    """The two columns without a seal: how many cells of a class are known, and how sure a model is of a cell."""
    living = sa.select(kinds.c.id).where(kinds.c.removed == 0)
    known = sa.select(cells.c.fine_id, sa.func.count().label("known"))
    known = known.where(cells.c.value.is_not(None), cells.c.kind_id.in_(living)).group_by(cells.c.fine_id)
    counted = known.subquery()
    miscounted = sa.select(fine.c.id).outerjoin(counted, counted.c.fine_id == fine.c.id)
    miscounted = miscounted.where(fine.c.known != sa.func.coalesce(counted.c.known, 0)).limit(1)
    odd = sa.select(cells.c.fine_id).where(sa.or_(cells.c.confidence < 0, cells.c.confidence > 1)).limit(1)
    what = "has a class whose known cells are miscounted", "has a confidence that is no probability"
    found = []
    for query, wrong in zip((miscounted, odd), what, strict=True):
        try:
            if connection.scalar(query) is not None:
                found.append(Damage("beliefs", wrong))
        except sa.exc.DBAPIError as error:
            found.append(Damage("beliefs", f"cannot be compared with the cells: {reason_of(error)}"))
    return found


# ---- the log ---------------------------------------------------------------------------------------------------------


def _check_log(connection: Connection, totals: Mapping[tuple[str, int], tuple[int, int]]) -> Check:
    """Follow the chain of actions; what is undone now is sealed like the current state, and looked at here too."""
    actions, last = totals.get((LOG_ROW, 0), (0, 0))
    errors = driver_errors(connection)
    chain = _Chain()
    try:
        chain.follow(connection)
    except errors as error:
        if connection.dialect.name != "sqlite":
            raise
        chain = _Chain()
        try:
            with any_text(connection):
                chain.follow(connection)
        except errors:
            chain.miss(Damage("edits", f"cannot be read to its end: {reason_of(error)}"), chain.edit)
    if (chain.batch, chain.edit) != (actions, last):
        gone = f"ends at action {chain.batch} and edit {chain.edit}, and was written to action {actions}, edit {last}"
        chain.miss(Damage("batches", gone), min(chain.edit, last))
    whole = chain.edit if chain.whole is None else chain.whole
    return Check(tuple(chain.damage), max(last, chain.edit), whole)


class _Chain:
    """The log, followed from its first action on."""

    def __init__(self) -> None:
        self.damage: list[Damage] = []
        self.whole: int | None = None
        """The last edit before the first damage, if there is some."""
        self.batch = self.edit = 0
        """The last action and edit that were found."""

    def miss(self, damage: Damage, whole: int) -> None:
        """Note damage; the log is whole up to an edit."""
        self.damage.append(damage)
        self.whole = whole if self.whole is None else min(self.whole, whole)

    def follow(self, connection: Connection) -> None:
        """Compare all actions and edits with their seals."""
        previous = ""
        numbered = _read(connection, edits, order="number")
        waiting = next(numbered, None)
        for row in _read(connection, batches, order="number"):
            action = dict(zip(SEALED["batches"], row, strict=False))
            own: list[int] = []
            before = self.edit
            while waiting is not None and _belongs(waiting, action):
                self._edit(waiting)
                own.append(seal_of("edits", waiting[:-1]))
                waiting = next(numbered, None)
            if action["number"] != self.batch + 1:
                gone = f"lacks the actions {self.batch + 1} to {_before(action['number'])}"
                self.miss(Damage("batches", gone), before)
            elif link(previous, action, own) != row[-1] and not self._bad_since(before):
                self.miss(Damage("batches", _unlike(row[-1]), action), before)
            self.batch = action["number"] if isinstance(action["number"], int) else self.batch + 1
            previous = row[-1] or ""
        if waiting is not None:
            self.miss(
                Damage("edits", "belongs to no action", dict(zip(SEALED["edits"], waiting, strict=False))), self.edit
            )

    def _edit(self, row: Sequence[Any]) -> None:
        values = dict(zip(SEALED["edits"], row, strict=False))
        if seal_of("edits", row[:-1]) != row[-1]:
            self.miss(Damage("edits", _unlike(row[-1]), values), self.edit)
        elif values["number"] != self.edit + 1:
            gone = f"lacks the edits {self.edit + 1} to {_before(values['number'])}"
            self.miss(Damage("edits", gone), self.edit)
        self.edit = values["number"] if isinstance(values["number"], int) else self.edit + 1

    def _bad_since(self, edit: int) -> bool:
        """Whether an edit after this one is damaged: then the action is not named a second time."""
        return self.whole is not None and self.whole >= edit


def _belongs(edit: Sequence[Any], action: Mapping[str, Any]) -> bool:
    """Whether an edit belongs to an action, even if the number of its action is damaged."""
    number, last = edit[0], action["last"]
    return isinstance(number, int) and isinstance(last, int) and number <= last


def _before(number: object) -> object:
    return number - 1 if isinstance(number, int) else number
