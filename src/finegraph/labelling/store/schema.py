"""The version of the tables: new stores get the current one, older ones are migrated step by step.

Each step is a function from one version to the next. The new version is recorded in the same transaction, so that a
store is never between two versions. A store of a later version is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import DamagedStoreError, LabelStoreError
from finegraph.labelling.store.database import shown_place
from finegraph.labelling.store.sealed_rows import LOG_ROW, SEALED, add_rows, put_total, seal_all, seal_of, write_rows
from finegraph.labelling.store.sql_tables import (
    SCHEMA_VERSION,
    beliefs,
    comparisons,
    meta,
    metadata,
    photo_labels,
    seals,
    suggestions,
)


def create(connection: Connection) -> None:
    """Make the tables of a new store."""
    metadata.create_all(connection)
    put_total(connection, LOG_ROW, 0, 0, 0)
    add_rows(connection, meta, [{"key": "schema", "value": str(SCHEMA_VERSION)}, {"key": "structure", "value": ""}])


def version_of(connection: Connection, shown: str) -> int | None:
    """The version of a store; None if the database has no store.

    Raises:
        LabelStoreError: the database holds something else.
    """
    tables = set(sa.inspect(connection).get_table_names())
    if not tables & set(metadata.tables):
        if tables and connection.dialect.name == "sqlite":
            raise LabelStoreError(
                f"{shown}: this database holds something else (such as {min(tables)!r}); name another"
            )
        return None
    text = _noted_version(connection, tables) if "meta" in tables else None
    if text is None or not text.isdigit() or (int(text) >= _FIRST_SEALED) != ("seals" in tables):
        raise _damaged(shown, "the entry of its version is lost or altered")
    return int(text)


def _noted_version(connection: Connection, tables: Collection[str]) -> str | None:
    """The recorded version, checked against its seal if the store has seals; None if it is damaged.

    Later versions keep the form of this row, so that their stores can be distinguished from damaged ones.
    """
    of_schema = meta.c.key == "schema"
    if "seals" not in tables:
        return connection.scalar(sa.select(meta.c.value).where(of_schema))
    row = connection.execute(sa.select(meta.c.key, meta.c.value, meta.c.seal).where(of_schema)).first()
    return row.value if row is not None and seal_of("meta", row[:2]) == row.seal else None


def _damaged(shown: str, what: str) -> DamagedStoreError:
    return DamagedStoreError(
        f"{shown}: the store is damaged, or none of ours: {what}. Keep a copy of it and put a backup in its place",
        [what],
    )


def refuse_later(version: int, shown: str) -> None:
    """Raise if a store was made by a later finegraph."""
    if version > SCHEMA_VERSION:
        raise LabelStoreError(
            f"{shown}: this store has version {version}, and this finegraph knows up to {SCHEMA_VERSION}; "
            "update finegraph"
        )


def migrate(connection: Connection) -> None:
    """Migrate the tables of an older store to the current version, unless another process has just done so."""
    version = int(connection.scalar(sa.select(meta.c.value).where(meta.c.key == "schema")) or SCHEMA_VERSION)
    while version < SCHEMA_VERSION:
        _STEPS[version](connection)
        version += 1
        if version < _FIRST_SEALED:
            connection.execute(sa.update(meta).where(meta.c.key == "schema").values(value=str(version)))
        else:
            write_rows(connection, meta, [{"key": "schema", "value": str(version)}])


def _to_2(connection: Connection) -> None:
    """Add photo labels, the beliefs of a model, and suggestions."""
    metadata.create_all(connection, tables=[photo_labels, beliefs, suggestions])
    connection.execute(sa.text("ALTER TABLE edits ADD COLUMN photo TEXT"))
    connection.execute(sa.text("CREATE INDEX edits_by_photo ON edits (photo, number)"))
    kind = "FLOAT" if connection.dialect.name == "sqlite" else "DOUBLE PRECISION"
    connection.execute(sa.text(f"ALTER TABLE cells ADD COLUMN confidence {kind}"))
    connection.execute(sa.text("CREATE INDEX cells_of_low_confidence ON cells (fine_id) WHERE confidence < 0.5"))


def _to_3(connection: Connection) -> None:
    """Seal all rows; refuse a store that is already damaged."""
    if connection.dialect.name == "sqlite":
        messages = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
        if messages != ["ok"]:
            raise _damaged(shown_place(connection.engine.url), " ".join(messages[0].split()))
    metadata.create_all(connection, tables=[seals, comparisons])  # `seal_all` reads every sealed table
    inspector = sa.inspect(connection)
    for name in SEALED:
        if name != "seals" and "seal" not in {column["name"] for column in inspector.get_columns(name)}:
            kind = "TEXT" if name == "batches" else "BIGINT"
            connection.execute(sa.text(f"ALTER TABLE {name} ADD COLUMN seal {kind}"))
    seal_all(connection)


def _to_4(connection: Connection) -> None:
    """Add comparisons."""
    metadata.create_all(connection, tables=[comparisons])


_FIRST_SEALED = 3
_STEPS: Mapping[int, Callable[[Connection], None]] = {1: _to_2, 2: _to_3, 3: _to_4}
