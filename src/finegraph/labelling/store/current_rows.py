"""Reading and writing rows of the current state, many at a time.

A few rows are selected by number; for many, the whole kind is read once. Cost: linear in the rows.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Row

from finegraph.errors import InputError, UnknownNameError, unknown_name
from finegraph.labelling.store.plan import NO_VOTE, Key, Snapshot
from finegraph.labelling.store.sql_tables import (
    beliefs,
    cells,
    comparisons,
    fine,
    kinds,
    labels,
    notes,
    photo_labels,
    votes,
)

_MAX_PARAMETERS = 400
"""The largest number of values in one query."""
_WHOLE_KIND_ROWS = 4000
"""Above this number of rows of a kind, the whole kind is read."""
# The statements of a single decision, built once: building them costs more than executing them.
_ONE_CELL = {
    table: sa.select(table).where(
        table.c.kind_id == sa.bindparam("the_kind"), table.c.fine_id == sa.bindparam("the_fine")
    )
    for table in (cells, votes, beliefs)
}
_FEW_CELLS = {
    table: sa.select(table).where(
        table.c.kind_id.in_(sa.bindparam("the_kinds", expanding=True)),
        table.c.fine_id.in_(sa.bindparam("the_fines", expanding=True)),
    )
    for table in (cells, votes)
}
_ONE_FINE = sa.select(fine.c.id).where(fine.c.name == sa.bindparam("the_name"), fine.c.removed == 0)
_ONE_NAME = sa.select(fine.c.name).where(fine.c.id == sa.bindparam("the_id"))
_MAX_NUMBER = 2**53
"""The largest number accepted in a request; the numbers in a store are far smaller."""
_MAX_NEAR_NAMES = 20_000
"""How many names are searched for near matches of an unknown one."""


def chunks(items: Collection[Any]) -> Iterator[list[Any]]:
    """Items in lists that are short enough for one query."""
    listed = list(items)
    for start in range(0, len(listed), _MAX_PARAMETERS):
        yield listed[start : start + _MAX_PARAMETERS]


def upsert(
    connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]], keep: Collection[str] = ()
) -> None:
    """Write rows; those with the same primary key are replaced, but for the columns to keep."""
    if not rows:
        return
    statement = _upsert_statement(connection.dialect.name == "sqlite", table, tuple(rows[0]), frozenset(keep))
    connection.execute(statement, list(rows))


@cache
def _upsert_statement(on_sqlite: bool, table: sa.Table, names: tuple[str, ...], keep: frozenset[str]) -> sa.Insert:
    """The statement that writes rows with these columns; cached, since building it costs more than executing it."""
    insert = sqlite.insert(table) if on_sqlite else postgresql.insert(table)
    keys = [column.name for column in table.primary_key]
    changed = {name: insert.excluded[name] for name in names if name not in (*keys, *keep)}
    return insert.on_conflict_do_update(index_elements=keys, set_=changed)


def check_number(what: str, number: int) -> None:
    """Raise if a number is larger than any database could hold.

    Raises:
        InputError: it is too large, or negative; the message begins with `what`.
    """
    if not 0 <= number <= _MAX_NUMBER:
        raise InputError(f"{what}: expected a number of 0 to {_MAX_NUMBER}, got {short(number)}")


def short(number: int) -> str:
    """A number for a message, however large."""
    return str(number) if abs(number) < 10**20 else "one of more than 20 digits"


def next_number(connection: Connection, column: sa.Column[int]) -> int:
    """The next number of a table; only the writer may ask."""
    return int(connection.scalar(sa.select(sa.func.max(column))) or 0) + 1


def search_form(name: str) -> str:
    """A name in the form that is searched: without case, accents and doubled white space."""
    plain = (
        name
        if name.isascii()
        else "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    )
    return " ".join(plain.casefold().split())


def name_form(name: str) -> str:
    """A name in the form that is compared with others: in one Unicode form."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def fine_ids(connection: Connection, names: Collection[str]) -> dict[str, int]:
    """The numbers of fine labels.

    Raises:
        UnknownNameError: a name is unknown.
    """
    ids: dict[str, int] = {}
    if len(names) == 1:
        [name] = names
        number = connection.scalar(_ONE_FINE, {"the_name": name})
        ids = {} if number is None else {name: number}
    for part in chunks(set(names) - set(ids)):
        query = sa.select(fine.c.name, fine.c.id).where(fine.c.name.in_(part), fine.c.removed == 0)
        ids.update((row.name, row.id) for row in connection.execute(query))
    for name in names:
        if name not in ids:
            raise unknown_fine(connection, name)
    return ids


def unknown_fine(connection: Connection, name: str) -> UnknownNameError:
    """The error for an unknown class, with near matches."""
    known = sa.select(fine.c.name).where(fine.c.removed == 0).order_by(fine.c.position).limit(_MAX_NEAR_NAMES)
    return unknown_name("class", name, tuple(connection.scalars(known)))


def fine_names(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """The names of fine labels by number, also of removed ones."""
    if len(ids) == 1:
        [number] = ids
        name = connection.scalar(_ONE_NAME, {"the_id": number})
        return {} if name is None else {number: name}
    names: dict[int, str] = {}
    for part in chunks(set(ids)):
        query = sa.select(fine.c.id, fine.c.name).where(fine.c.id.in_(part))
        names.update((row.id, row.name) for row in connection.execute(query))
    return names


def _kind_rows(
    connection: Connection, table: sa.Table, kind_id: int, ids: Collection[int] | None
) -> Iterator[Row[Any]]:
    """The rows of a kind, of some fine labels or of all."""
    if ids is not None and len(ids) == 1:
        yield from connection.execute(_ONE_CELL[table], {"the_kind": kind_id, "the_fine": next(iter(ids))})
        return
    query = sa.select(table).where(table.c.kind_id == kind_id)
    if ids is None or len(ids) > _WHOLE_KIND_ROWS:
        wanted = None if ids is None else set(ids)
        for row in connection.execute(query):
            if wanted is None or row.fine_id in wanted:
                yield row
        return
    for part in chunks(ids):
        yield from connection.execute(query.where(table.c.fine_id.in_(part)))


def load_cells(connection: Connection, kind_id: int, ids: Collection[int] | None = None) -> dict[int, Row[Any]]:
    """The cells of a kind by fine label; those that were never set are missing."""
    return {row.fine_id: row for row in _kind_rows(connection, cells, kind_id, ids)}


def load_votes(
    connection: Connection, kind_id: int, ids: Collection[int] | None = None
) -> dict[int, dict[str, str | None]]:
    """The votes on cells of a kind: by fine label, then by person."""
    by_class: dict[int, dict[str, str | None]] = {}
    for row in _kind_rows(connection, votes, kind_id, ids):
        by_class.setdefault(row.fine_id, {})[row.person] = row.value
    return by_class


def load_few(
    connection: Connection, kind_ids: Collection[int], ids: Collection[int]
) -> tuple[dict[tuple[int, int], Row[Any]], dict[tuple[int, int], dict[str, str | None]]]:
    """Cells and votes of a few classes in several kinds, by the numbers of kind and class, in two queries."""
    parameters = {"the_kinds": list(kind_ids), "the_fines": list(ids)}
    rows = {(row.kind_id, row.fine_id): row for row in connection.execute(_FEW_CELLS[cells], parameters)}
    votes_by_cell: dict[tuple[int, int], dict[str, str | None]] = {}
    for vote in connection.execute(_FEW_CELLS[votes], parameters):
        votes_by_cell.setdefault((vote.kind_id, vote.fine_id), {})[vote.person] = vote.value
    return rows, votes_by_cell


def load_beliefs(connection: Connection, kind_id: int, ids: Collection[int] | None = None) -> dict[int, str]:
    """The stored beliefs of the model about the cells of a kind."""
    return {row.fine_id: row.probabilities for row in _kind_rows(connection, beliefs, kind_id, ids)}


# ---- snapshots -------------------------------------------------------------------------------------------------------


def cell_snapshot(row: Row[Any] | None, changed: Mapping[str, Any]) -> Snapshot:
    """The snapshot of a cell, with the given votes."""
    if row is None:
        return {"value": None, "by": None, "at": None, "resolved": 0, "disagreement": 0, "votes": dict(changed)}
    return {
        "value": row.value,
        "by": row.by,
        "at": row.at,
        "resolved": row.resolved,
        "disagreement": row.disagreement,
        "votes": dict(changed),
    }


def row_snapshot(row: Row[Any], *names: str) -> Snapshot:
    """The snapshot of a row with some of its columns."""
    return {name: getattr(row, name) for name in names}


FINE_FIELDS = ("name", "position", "removed")
KIND_FIELDS = ("name", "position", "mode", "prior", "removed")
LABEL_FIELDS = ("name", "position", "removed")


def current_snapshots(
    connection: Connection, keys: Iterable[Key], voters: Mapping[Key, Collection[str]]
) -> dict[Key, Snapshot | None]:
    """The current snapshots of things; those of cells have the votes of the given people."""
    snapshots: dict[Key, Snapshot | None] = {}
    by_kind: dict[int, list[Key]] = {}
    for key in keys:
        if key.target == "cell":
            by_kind.setdefault(key.kind_id or 0, []).append(key)
        else:
            snapshots[key] = _current_row(connection, key)
    for kind_id, cell_keys in by_kind.items():
        ids = [key.fine_id or 0 for key in cell_keys]
        rows, votes_by_class = load_cells(connection, kind_id, ids), load_votes(connection, kind_id, ids)
        for key in cell_keys:
            cell_votes = votes_by_class.get(key.fine_id or 0, {})
            snapshots[key] = cell_snapshot(
                rows.get(key.fine_id or 0), {person: cell_votes.get(person, NO_VOTE) for person in voters.get(key, ())}
            )
    return snapshots


def _current_row(connection: Connection, key: Key) -> Snapshot | None:
    """The present snapshot of anything but a cell."""
    if key.target == "photo":
        condition = (photo_labels.c.kind_id == key.kind_id) & (photo_labels.c.photo == key.photo)
        row = connection.execute(sa.select(photo_labels).where(condition)).first()
        return None if row is None else photo_snapshot(row)
    if key.target == "comparison":
        condition = (comparisons.c.kind_id == key.kind_id) & (comparisons.c.pair == key.photo)
        row = connection.execute(sa.select(comparisons).where(condition)).first()
        return None if row is None else comparison_snapshot(row)
    table, number, names = {
        "fine": (fine, key.fine_id, FINE_FIELDS),
        "kind": (kinds, key.kind_id, KIND_FIELDS),
        "label": (labels, key.label_id, LABEL_FIELDS),
        "note": (notes, key.fine_id, ("text", "by", "at")),
    }[key.target]
    row = connection.execute(sa.select(table).where(next(iter(table.primary_key)) == number)).first()
    return None if row is None else row_snapshot(row, *names)


def photo_snapshot(row: Row[Any]) -> Snapshot:
    """The snapshot of a photo label."""
    return {"value": row.value, "fine": row.fine_id, "by": row.by, "at": row.at}


def comparison_snapshot(row: Row[Any]) -> Snapshot:
    """The snapshot of a comparison."""
    return {"value": row.value, "one": row.one_id, "two": row.two_id, "at": row.at}
