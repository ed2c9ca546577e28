"""Reading and writing rows of the current state, many at a time.

Few rows are asked for by their numbers, many by reading the whole kind once. Cost: linear in the rows.
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

_AT_ONCE = 400
"""How many numbers one question names."""
_MANY = 4000
"""From this number of rows of a kind on, the whole kind is read."""
# The statements of a single decision, made once: making them costs more than executing them.
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
_LARGEST = 2**53
"""The largest number accepted in a request; the numbers of the store are far below."""
_NEAR = 20_000
"""Among how many names near matches of an unknown one are looked for."""


def chunks(items: Collection[Any]) -> Iterator[list[Any]]:
    """Items in lists that one question can name."""
    listed = list(items)
    for start in range(0, len(listed), _AT_ONCE):
        yield listed[start : start + _AT_ONCE]


def upsert(
    connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]], keep: Collection[str] = ()
) -> None:
    """Write rows; those with the same primary key are replaced, but for the columns to keep."""
    if not rows:
        return
    statement = _upserting(connection.dialect.name == "sqlite", table, tuple(rows[0]), frozenset(keep))
    connection.execute(statement, list(rows))


@cache
def _upserting(on_sqlite: bool, table: sa.Table, names: tuple[str, ...], keep: frozenset[str]) -> sa.Insert:
    """The statement that writes rows with these columns; making it costs more than carrying it out."""
    insert = sqlite.insert(table) if on_sqlite else postgresql.insert(table)
    keys = [column.name for column in table.primary_key]
    changed = {name: insert.excluded[name] for name in names if name not in (*keys, *keep)}
    return insert.on_conflict_do_update(index_elements=keys, set_=changed)


def check_number(what: str, number: int) -> None:
    """Raise if a number is larger than any database could hold.

    Raises:
        InputError: saying what the number is of.
    """
    if not 0 <= number <= _LARGEST:
        raise InputError(f"{what}: expected a number of 0 to {_LARGEST}, got {short(number)}")


def short(number: int) -> str:
    """A number for a message, however large."""
    return str(number) if abs(number) < 10**20 else "one of more than 20 digits"


def next_number(connection: Connection, column: sa.Column[int]) -> int:
    """The next number of a table; only the writer may ask."""
    return int(connection.scalar(sa.select(sa.func.max(column))) or 0) + 1


def search_form(name: str) -> str:
    """A name as it is searched: without case, accents and doubled white space."""
    plain = (
        name
        if name.isascii()
        else "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    )
    return " ".join(plain.casefold().split())


def name_form(name: str) -> str:
    """A name as it is compared with others: in one Unicode form."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def fine_ids(connection: Connection, names: Collection[str]) -> dict[str, int]:
    """The numbers of fine labels.

    Raises:
        UnknownNameError: a name is unknown.
    """
    found: dict[str, int] = {}
    if len(names) == 1:
        [name] = names
        number = connection.scalar(_ONE_FINE, {"the_name": name})
        found = {} if number is None else {name: number}
    for part in chunks(set(names) - set(found)):
        query = sa.select(fine.c.name, fine.c.id).where(fine.c.name.in_(part), fine.c.removed == 0)
        found.update((row.name, row.id) for row in connection.execute(query))
    for name in names:
        if name not in found:
            raise unknown_fine(connection, name)
    return found


def unknown_fine(connection: Connection, name: str) -> UnknownNameError:
    """The error for an unknown class, with near matches."""
    known = sa.select(fine.c.name).where(fine.c.removed == 0).order_by(fine.c.position).limit(_NEAR)
    return unknown_name("class", name, tuple(connection.scalars(known)))


def fine_names(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """The names of fine labels by number, also of removed ones."""
    if len(ids) == 1:
        [number] = ids
        name = connection.scalar(_ONE_NAME, {"the_id": number})
        return {} if name is None else {number: name}
    found: dict[int, str] = {}
    for part in chunks(set(ids)):
        query = sa.select(fine.c.id, fine.c.name).where(fine.c.id.in_(part))
        found.update((row.id, row.name) for row in connection.execute(query))
    return found


def _of_kind(connection: Connection, table: sa.Table, kind_id: int, ids: Collection[int] | None) -> Iterator[Row[Any]]:
    """The rows of a kind, of some fine labels or of all."""
    if ids is not None and len(ids) == 1:
        yield from connection.execute(_ONE_CELL[table], {"the_kind": kind_id, "the_fine": next(iter(ids))})
        return
    query = sa.select(table).where(table.c.kind_id == kind_id)
    if ids is None or len(ids) > _MANY:
        wanted = None if ids is None else set(ids)
        for row in connection.execute(query):
            if wanted is None or row.fine_id in wanted:
                yield row
        return
    for part in chunks(ids):
        yield from connection.execute(query.where(table.c.fine_id.in_(part)))


def load_cells(connection: Connection, kind_id: int, ids: Collection[int] | None = None) -> dict[int, Row[Any]]:
    """The cells of a kind by fine label; those that were never set are missing."""
    return {row.fine_id: row for row in _of_kind(connection, cells, kind_id, ids)}


def load_votes(
    connection: Connection, kind_id: int, ids: Collection[int] | None = None
) -> dict[int, dict[str, str | None]]:
    """The votes on cells of a kind: by fine label, then by person."""
    found: dict[int, dict[str, str | None]] = {}
    for row in _of_kind(connection, votes, kind_id, ids):
        found.setdefault(row.fine_id, {})[row.person] = row.value
    return found


def load_few(
    connection: Connection, kind_ids: Collection[int], ids: Collection[int]
) -> tuple[dict[tuple[int, int], Row[Any]], dict[tuple[int, int], dict[str, str | None]]]:
    """Cells and votes of a few classes in several kinds, by the numbers of kind and class: two questions for all."""
    chosen = {"the_kinds": list(kind_ids), "the_fines": list(ids)}
    rows = {(row.kind_id, row.fine_id): row for row in connection.execute(_FEW_CELLS[cells], chosen)}
    said: dict[tuple[int, int], dict[str, str | None]] = {}
    for vote in connection.execute(_FEW_CELLS[votes], chosen):
        said.setdefault((vote.kind_id, vote.fine_id), {})[vote.person] = vote.value
    return rows, said


def load_beliefs(connection: Connection, kind_id: int, ids: Collection[int] | None = None) -> dict[int, str]:
    """What the model believes of cells of a kind, as it is kept."""
    return {row.fine_id: row.probabilities for row in _of_kind(connection, beliefs, kind_id, ids)}


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
    """The present snapshots of things; of cells with the votes of the given people."""
    found: dict[Key, Snapshot | None] = {}
    by_kind: dict[int, list[Key]] = {}
    for key in keys:
        if key.target == "cell":
            by_kind.setdefault(key.kind_id or 0, []).append(key)
        else:
            found[key] = _current_row(connection, key)
    for kind_id, own in by_kind.items():
        ids = [key.fine_id or 0 for key in own]
        rows, given = load_cells(connection, kind_id, ids), load_votes(connection, kind_id, ids)
        for key in own:
            said = given.get(key.fine_id or 0, {})
            found[key] = cell_snapshot(
                rows.get(key.fine_id or 0), {p: said.get(p, NO_VOTE) for p in voters.get(key, ())}
            )
    return found


def _current_row(connection: Connection, key: Key) -> Snapshot | None:
    """The present snapshot of anything but a cell."""
    if key.target == "photo":
        where = (photo_labels.c.kind_id == key.kind_id) & (photo_labels.c.photo == key.photo)
        row = connection.execute(sa.select(photo_labels).where(where)).first()
        return None if row is None else photo_snapshot(row)
    if key.target == "comparison":
        where = (comparisons.c.kind_id == key.kind_id) & (comparisons.c.pair == key.photo)
        row = connection.execute(sa.select(comparisons).where(where)).first()
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
