"""The version of the tables: new stores get the present one, older ones are brought to it step by step.

Each step is a function from one version to the next, in the same transaction as the note of the new version, so that a
store is never between two versions. A store of a later version is refused, not guessed at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import LabelStoreError
from finegraph.labelling.tables import SCHEMA_VERSION, beliefs, meta, metadata, photo_labels, suggestions


def create(connection: Connection) -> None:
    """Make the tables of a new store."""
    metadata.create_all(connection)
    connection.execute(
        sa.insert(meta), [{"key": "schema", "value": str(SCHEMA_VERSION)}, {"key": "structure", "value": ""}]
    )


def version_of(connection: Connection, shown: str) -> int | None:
    """The version of a store; None where the database has no store.

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
    text = connection.scalar(sa.select(meta.c.value).where(meta.c.key == "schema")) if "meta" in tables else None
    if text is None or not text.isdigit():
        raise LabelStoreError(f"{shown}: tables of a label store without its version; it is damaged or none of ours")
    return int(text)


def refuse_later(version: int, shown: str) -> None:
    """Raise where a store was made by a later finegraph."""
    if version > SCHEMA_VERSION:
        raise LabelStoreError(
            f"{shown}: this store has version {version}, and this finegraph knows up to {SCHEMA_VERSION}; "
            "update finegraph"
        )


def migrate(connection: Connection) -> None:
    """Bring the tables of an older store to the present version, unless another process just did."""
    version = int(connection.scalar(sa.select(meta.c.value).where(meta.c.key == "schema")) or SCHEMA_VERSION)
    while version < SCHEMA_VERSION:
        _STEPS[version](connection)
        version += 1
        connection.execute(sa.update(meta).where(meta.c.key == "schema").values(value=str(version)))


def _to_2(connection: Connection) -> None:
    """Image-level labels, what a model believes, and suggestions."""
    metadata.create_all(connection, tables=[photo_labels, beliefs, suggestions])
    connection.execute(sa.text("ALTER TABLE edits ADD COLUMN photo TEXT"))
    connection.execute(sa.text("CREATE INDEX edits_by_photo ON edits (photo, number)"))
    kind = "FLOAT" if connection.dialect.name == "sqlite" else "DOUBLE PRECISION"
    connection.execute(sa.text(f"ALTER TABLE cells ADD COLUMN confidence {kind}"))
    connection.execute(sa.text("CREATE INDEX cells_of_low_confidence ON cells (fine_id) WHERE confidence < 0.5"))


_STEPS: Mapping[int, Callable[[Connection], None]] = {1: _to_2}
