"""The tables of the store: the log of edits, which only grows, and the current state, which follows from it.

`batches` and `edits` are the log. An edit holds the snapshot of one row before and after, as JSON, so that undoing is
the same for everything. The other tables are the current state. Rows of classes, kinds and labels are never deleted,
only marked as removed: their numbers stand in the log. Numbers are given by the one writer, so that SQLite and
PostgreSQL need no sequences. Cells hold numbers of labels, not names; renaming a label touches one row. Rows are sealed
(see `sealed_rows`), but for the two columns that follow from others, `fine.known` and `cells.confidence`.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, Table, Text, text

SCHEMA_VERSION = 4
"""Version 1 had no photo labels, no beliefs of a model and no suggestions; 2 had no seals; 3 had no comparisons."""
LOW_CONFIDENCE = 0.5
"""A decided cell is of low confidence if the model's mean probability of its value is below this."""

metadata = MetaData()
# Byte order on both databases: the order of names must not depend on the locale of the server.
Name = Text().with_variant(Text(collation="C"), "postgresql")

meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("seal", BigInteger),
)

seals = Table(
    "seals",
    metadata,
    Column("name", Text, primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("seal", BigInteger, nullable=False),
)

batches = Table(
    "batches",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("edit_id", Name, nullable=False, unique=True),
    Column("digest", Text, nullable=False),
    Column("person", Name, nullable=False),
    Column("at", Name, nullable=False),
    Column("action", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("last", Integer, nullable=False),
    Column("undoes", Integer),
    Column("seal", Text),
    Index("batches_by_person", "person", "number"),
)

edits = Table(
    "edits",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("batch", Integer, nullable=False, index=True),
    Column("target", Text, nullable=False),
    Column("fine_id", Integer),
    Column("kind_id", Integer),
    Column("label_id", Integer),
    Column("photo", Text),
    Column("before", Text),
    Column("after", Text),
    Column("undoes", Integer),
    Column("seal", BigInteger),
    Index("edits_by_fine", "fine_id", "kind_id", "number"),
    Index("edits_by_kind", "kind_id", "number"),
    Index("edits_by_photo", "photo", "number"),
)

undone = Table(
    "undone",
    metadata,
    Column("edit", Integer, primary_key=True, autoincrement=False),
    Column("batch", Integer, nullable=False, index=True),
    Column("seal", BigInteger),
)

kinds = Table(
    "kinds",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", Name, nullable=False),
    Column("position", Integer, nullable=False),
    Column("mode", Text, nullable=False),
    Column("prior", Text, nullable=False),
    Column("removed", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("seal", BigInteger),
)

labels = Table(
    "labels",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("kind_id", Integer, nullable=False, index=True),
    Column("name", Name, nullable=False),
    Column("position", Integer, nullable=False),
    Column("removed", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("seal", BigInteger),
)

fine = Table(
    "fine",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", Name, nullable=False, index=True),
    Column("form", Name, nullable=False, index=True),
    Column("folded", Name, nullable=False),
    Column("position", Integer, nullable=False),
    Column("removed", Integer, nullable=False),
    Column("known", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("seal", BigInteger),
    Index("fine_by_position", "position"),
)

notes = Table(
    "notes",
    metadata,
    Column("fine_id", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    Column("by", Text),
    Column("at", Text),
    Column("version", Integer, nullable=False),
    Column("seal", BigInteger),
)

cells = Table(
    "cells",
    metadata,
    Column("kind_id", Integer, primary_key=True, autoincrement=False),
    Column("fine_id", Integer, primary_key=True, autoincrement=False),
    Column("value", Name),
    Column("by", Text),
    Column("at", Text),
    Column("resolved", Integer, nullable=False),
    Column("disagreement", Integer, nullable=False),
    Column("confidence", Float),
    Column("version", Integer, nullable=False),
    Column("seal", BigInteger),
    Index("cells_by_fine", "fine_id", "kind_id"),
)
_DISAGREE, _DOUBTFUL = text("disagreement = 1"), text(f"confidence < {LOW_CONFIDENCE}")
Index("cells_in_disagreement", cells.c.fine_id, sqlite_where=_DISAGREE, postgresql_where=_DISAGREE)
Index("cells_of_low_confidence", cells.c.fine_id, sqlite_where=_DOUBTFUL, postgresql_where=_DOUBTFUL)

votes = Table(
    "votes",
    metadata,
    Column("kind_id", Integer, primary_key=True, autoincrement=False),
    Column("fine_id", Integer, primary_key=True, autoincrement=False),
    Column("person", Name, primary_key=True),
    Column("value", Name),
    Column("at", Text, nullable=False),
    Column("seal", BigInteger),
    Index("votes_by_person", "person", "kind_id"),
)

photo_labels = Table(
    "photo_labels",
    metadata,
    Column("kind_id", Integer, primary_key=True, autoincrement=False),
    Column("photo", Name, primary_key=True),
    Column("fine_id", Integer),
    Column("value", Name),
    Column("by", Text),
    Column("at", Text),
    Column("version", Integer, nullable=False),
    Column("seal", BigInteger),
    Index("photo_labels_by_photo", "photo"),
)

comparisons = Table(
    "comparisons",
    metadata,
    Column("kind_id", Integer, primary_key=True, autoincrement=False),
    # The person and the two things, as JSON: numbers of classes or keys of photos. The log knows a comparison by it, in
    # its column `photo`.
    Column("pair", Name, primary_key=True),
    Column("person", Name, nullable=False),
    Column("one_id", Integer),
    Column("two_id", Integer),
    Column("value", Text),
    Column("at", Text),
    Column("version", Integer, nullable=False),
    Column("seal", BigInteger),
    Index("comparisons_by_version", "kind_id", "version"),
    Index("comparisons_by_one", "one_id"),
    Index("comparisons_by_two", "two_id"),
)

beliefs = Table(
    "beliefs",
    metadata,
    Column("kind_id", Integer, primary_key=True, autoincrement=False),
    Column("fine_id", Integer, primary_key=True, autoincrement=False),
    Column("probabilities", Text, nullable=False),
    Column("seal", BigInteger),
)

suggestions = Table(
    "suggestions",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind_id", Integer, nullable=False),
    Column("fine_id", Integer, nullable=False),
    Column("value", Name, nullable=False),
    Column("source", Text, nullable=False),
    Column("score", Float, nullable=False),
    Column("reason", Text, nullable=False),
    Column("seal", BigInteger),
    Index("suggestions_by_cell", "kind_id", "fine_id"),
    Index("suggestions_by_fine", "fine_id"),
)
