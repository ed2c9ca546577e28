"""Seals, and the writing of sealed rows: every row is written with its seal, and the totals of its table with it.

A seal is a checksum, so that damage is found when rows are read. A row of the current state has one of its table and
its content. For each part of a table (a kind, or all of it) `seals` keeps the number of rows and the sum of their
checksums, so that a lost or foreign row is found too. The log is a chain: an edit has a checksum like any row, and an
action has a digest of the action before it, of itself and of its edits. This protects against failing disks and
accidents, not against people who can compute a checksum. The formulas must never change: stores that were sealed by
them are checked later. Cost: about a microsecond per row.

A row that is replaced is read first, so that the totals stay right and damage is never overwritten: a row that does not
match its seal is refused before it can enter the log as the state before an edit. Cost: one more query for each table
that an action writes to.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from finegraph.errors import DamagedStoreError
from finegraph.labelling.store.current_rows import chunks, upsert
from finegraph.labelling.store.database import shown_place
from finegraph.labelling.store.sql_tables import (
    batches,
    beliefs,
    cells,
    comparisons,
    edits,
    fine,
    kinds,
    labels,
    meta,
    metadata,
    notes,
    photo_labels,
    seals,
    suggestions,
    undone,
    votes,
)

Key = tuple[Any, ...]
_WHOLE_KIND_ROWS = 4000
"""Above this number of rows of a kind, the whole kind is read."""
VIEW = (meta, kinds, labels, fine, notes, cells, votes, photo_labels, comparisons)
"""The tables of the current state."""
DERIVED = (beliefs, suggestions)
"""The tables that follow from photos, models and names, and can be rebuilt."""
LOG = (batches, edits)
"""The tables of the chain. `undone` follows from them and is sealed like the current state."""
LOG_ROW = "log"
"""The row of `seals` that says where the chain ends: the numbers of the last action and of the last edit."""
_NOT_SEALED = frozenset({"seal", "known", "confidence"})
_BY_KIND = frozenset(table.name for table in (labels, cells, votes, photo_labels, comparisons, beliefs))

SEALED: Mapping[str, tuple[str, ...]] = {
    table.name: tuple(column.name for column in table.columns if column.name not in _NOT_SEALED)
    for table in (*VIEW, *DERIVED, *LOG, undone, seals)
}
"""The sealed columns of each table, in order. A new column needs a new version of the store."""
_START = {name: zlib.crc32(name.encode("ascii")) for name in SEALED}
_KEYS = {name: tuple(column.name for column in metadata.tables[name].primary_key) for name in SEALED}


def _select_sealed(name: str) -> sa.Select[Any]:
    columns = metadata.tables[name].c
    return sa.select(*(columns[column] for column in SEALED[name]), columns.seal)


# The statements of a single decision, built once: building them costs more than executing them.
_BY_KEY = {
    name: _select_sealed(name).where(*(metadata.tables[name].c[key] == sa.bindparam(f"the_{key}") for key in keys))
    for name, keys in _KEYS.items()
}
_LAST_ACTION = sa.select(batches.c.number, batches.c.last, batches.c.seal).order_by(batches.c.number.desc()).limit(1)


def add_rows(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write new rows."""
    if rows:
        new = [sealed(table, row) for row in rows]
        connection.execute(sa.insert(table), new)
        _update_totals(connection, table, new, [])


def write_rows(
    connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]], keep: Collection[str] = ()
) -> None:
    """Write rows; those with the same primary key are replaced, but for the columns to keep.

    Raises:
        DamagedStoreError: a row that would be replaced does not match its seal.
    """
    if not rows:
        return
    names, keys = SEALED[table.name], _KEYS[table.name]
    wanted = {tuple(row[key] for key in keys): row for row in rows}
    present = _existing_rows(connection, table, wanted)
    new = []
    for key, row in wanted.items():
        assert row.keys() >= set(names), "a row that may replace another has all that is sealed"
        kept = {name: present[key][name] for name in keep if name in names} if key in present else {}
        new.append(sealed(table, {**row, **kept}))
    upsert(connection, table, new, keep=[name for name in keep if name not in names])
    _update_totals(connection, table, new, present.values())


def remove_rows(connection: Connection, table: sa.Table, keys: Collection[Key]) -> None:
    """Delete the rows with these primary keys, if they exist."""
    present = _existing_rows(connection, table, keys) if keys else {}
    if present:
        where = [table.c[name] == sa.bindparam(f"the_{name}") for name in _KEYS[table.name]]
        removed = [{f"the_{name}": row[name] for name in _KEYS[table.name]} for row in present.values()]
        connection.execute(sa.delete(table).where(*where), removed)
        _update_totals(connection, table, [], present.values())


def forget_rows(connection: Connection, table: sa.Table, where: sa.ColumnElement[bool]) -> None:
    """Delete the rows that satisfy a condition without checking their seals; for what can be rebuilt."""
    part = table.c.kind_id if is_by_kind(table) else sa.literal(0)
    counts = sa.select(part.label("part"), sa.func.count(), sa.func.sum(table.c.seal)).where(where).group_by("part")
    changed = {row[0]: (-row[1], -int(row[2] or 0)) for row in connection.execute(counts)}
    connection.execute(sa.delete(table).where(where))
    _add_to_totals(connection, table, changed)


def refuse_altered(connection: Connection, table: sa.Table, rows: Iterable[Row[Any]]) -> None:
    """Raise if a row, read with all its columns, does not match its seal.

    Raises:
        DamagedStoreError: naming the first such row.
    """
    for row in rows:
        values = row._asdict()
        if sealed(table, values)["seal"] != row.seal:
            raise _not_as_written(connection, table, values)


def last_action(connection: Connection) -> tuple[int, int, str]:
    """The numbers of the last action and the last edit, and the seal of the action; zeros if the log is empty."""
    row = connection.execute(_LAST_ACTION).first()
    return (0, 0, "") if row is None else (row.number, row.last, row.seal or "")


def add_action(
    connection: Connection, previous: str, batch: Mapping[str, Any], edit_rows: Sequence[Mapping[str, Any]]
) -> None:
    """Add an action and its edits to the log.

    Args:
        connection: a connection to the store.
        previous: the seal of the action before it; empty for the first.
        batch: the row of the action.
        edit_rows: the rows of its edits in order.
    """
    new = [sealed(edits, row) for row in edit_rows]
    if new:
        connection.execute(sa.insert(edits), new)
    connection.execute(sa.insert(batches), {**batch, "seal": link(previous, batch, (row["seal"] for row in new))})
    put_total(connection, LOG_ROW, 0, batch["number"], batch["last"])


def put_total(connection: Connection, name: str, part: int, count: int, total: int) -> None:
    """Record the number of rows of a part and the sum of their seals."""
    row = {"name": name, "part": part, "count": count, "total": total}
    upsert(connection, seals, [sealed(seals, row)])


# ---- existing rows ---------------------------------------------------------------------------------------------------


def _existing_rows(connection: Connection, table: sa.Table, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
    """The existing rows with some primary keys, each checked against its seal."""
    names, wanted = _KEYS[table.name], set(keys)
    existing: dict[Key, dict[str, Any]] = {}
    for row in _candidate_rows(connection, table, keys):
        values = dict(zip((*SEALED[table.name], "seal"), row, strict=True))
        key = tuple(values[name] for name in names)
        if key in wanted:
            if seal_of(table.name, row[:-1]) != row[-1]:
                raise _not_as_written(connection, table, values)
            existing[key] = values
    return existing


def _candidate_rows(connection: Connection, table: sa.Table, keys: Collection[Key]) -> Iterable[Sequence[Any]]:
    """Rows that include all those with the given keys."""
    names = _KEYS[table.name]
    if len(keys) == 1:
        [key] = keys
        yield from connection.execute(_BY_KEY[table.name], {f"the_{n}": v for n, v in zip(names, key, strict=True)})
        return
    query = _select_sealed(table.name)
    if len(names) == 1:
        for part in chunks({key[0] for key in keys}):
            yield from connection.execute(query.where(table.c[names[0]].in_(part)))
        return
    second: dict[Any, set[Any]] = {}
    for key in keys:
        second.setdefault(key[0], set()).add(key[1])
    for first, values in second.items():
        with_first = query.where(table.c[names[0]] == first)
        if len(values) > _WHOLE_KIND_ROWS:
            yield from connection.execute(with_first)
        else:
            for part in chunks(values):
                yield from connection.execute(with_first.where(table.c[names[1]].in_(part)))


def _not_as_written(connection: Connection, table: sa.Table, values: Mapping[str, Any]) -> DamagedStoreError:
    key = ", ".join(f"{name} {values[name]!r}" for name in _KEYS[table.name])
    what = f"the row of {table.name} with {key} is not as it was written"
    return DamagedStoreError(
        f"{shown_place(connection.engine.url)}: the store is damaged: {what}; nothing was changed. "
        "Stop editing it, keep a copy of the file, and let it be checked",
        [what],
    )


def _update_totals(
    connection: Connection, table: sa.Table, new: Iterable[Mapping[str, Any]], old: Iterable[Mapping[str, Any]]
) -> None:
    """Update the totals of a table for added and removed rows."""
    changed: dict[int, tuple[int, int]] = {}
    for rows, sign in ((new, 1), (old, -1)):
        for row in rows:
            part = table_part(table, row)
            count, total = changed.get(part, (0, 0))
            changed[part] = count + sign, total + sign * row["seal"]
    _add_to_totals(connection, table, changed)


def _add_to_totals(connection: Connection, table: sa.Table, changed: Mapping[int, tuple[int, int]]) -> None:
    keys = [(table.name, part) for part in changed]
    present = _existing_rows(connection, seals, keys) if keys else {}
    written = []
    for key in keys:
        count, total = changed[key[1]]
        if key in present:
            count, total = count + present[key]["count"], total + present[key]["total"]
        written.append(sealed(seals, {"name": key[0], "part": key[1], "count": count, "total": total}))
    upsert(connection, seals, written)


# ---- sealing an older store ------------------------------------------------------------------------------------------


def seal_all(connection: Connection) -> None:
    """Seal all rows of a store as they are."""
    connection.execute(sa.delete(seals))
    for table in (*VIEW, *DERIVED, undone):
        rows = sa.select(table)
        if is_by_kind(table):
            for kind in list(connection.scalars(sa.select(table.c.kind_id).distinct())):
                _seal_part(connection, table, rows.where(table.c.kind_id == kind), kind)
        else:
            _seal_part(connection, table, rows, 0)
    batch, last, previous = 0, 0, ""
    for row in connection.execute(sa.select(batches).order_by(batches.c.number)).all():
        of_action = sa.select(edits).where(edits.c.number > last, edits.c.number <= row.last).order_by(edits.c.number)
        previous = link(previous, row._asdict(), _seal_rows(connection, edits, of_action))
        connection.execute(sa.update(batches).where(batches.c.number == row.number).values(seal=previous))
        batch, last = row.number, row.last
    put_total(connection, LOG_ROW, 0, batch, last)


def _seal_part(connection: Connection, table: sa.Table, query: sa.Select[Any], part: int) -> None:
    """Seal the rows of a query, which must be a whole part, and record their total."""
    row_seals = _seal_rows(connection, table, query)
    put_total(connection, table.name, part, len(row_seals), sum(row_seals))


def _seal_rows(connection: Connection, table: sa.Table, query: sa.Select[Any]) -> list[int]:
    """Seal the rows of a query; their seals in order."""
    keys = _KEYS[table.name]
    written = []
    for row in connection.execute(query):
        values = row._asdict()
        row_key = {f"the_{key}": values[key] for key in keys}
        written.append({**row_key, "its_seal": sealed(table, values)["seal"]})
    same_key = [table.c[key] == sa.bindparam(f"the_{key}") for key in keys]
    if written:
        connection.execute(sa.update(table).where(*same_key).values(seal=sa.bindparam("its_seal")), written)
    return [row["its_seal"] for row in written]


def start_of(table: str) -> int:
    """The initial checksum of the rows of a table, so that equal rows of two tables have different seals."""
    return _START[table]


def seal_of(table: str, values: Sequence[Any]) -> int:
    """The checksum of a row: of the name of its table and the values of its sealed columns."""
    # Not `repr`: which characters it escapes depends on the version of Python.
    return zlib.crc32(ascii(tuple(values)).encode("ascii"), _START[table])


def sealed(table: sa.Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its seal; columns that it does not have are empty."""
    values = [row.get(name) for name in SEALED[table.name]]
    return {**row, "seal": seal_of(table.name, values)}


def is_by_kind(table: sa.Table) -> bool:
    """Whether the rows of a table are counted kind by kind."""
    return table.name in _BY_KIND


def table_part(table: sa.Table, row: Mapping[str, Any]) -> int:
    """The part of its table in which a row is counted: its kind, if it has one."""
    return int(row["kind_id"]) if is_by_kind(table) else 0


def link(previous: str, batch: Mapping[str, Any], edit_seals: Iterable[int]) -> str:
    """The seal of an action: of the seal before it (empty for the first), its row, and its edits in order."""
    values = tuple(batch.get(name) for name in SEALED["batches"])
    content = ascii((previous, values, tuple(edit_seals)))
    return hashlib.blake2b(content.encode("ascii"), digest_size=16).hexdigest()
