"""Seals: checksums of rows, so that damage is found when rows are read.

A row of the current state has a checksum of its table and its content. For each part of a table (a kind, or all of it)
`seals` keeps the number of rows and the sum of their checksums, so that a lost or foreign row is found too. The log is
a chain: an edit has a checksum like any row, and an action has a digest of the action before it, of itself and of its
edits. This protects against failing disks and accidents, not against people who can compute a checksum. The formulas
must never change: stores that were sealed by them are checked later. Cost: about a microsecond per row.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

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
    notes,
    photo_labels,
    seals,
    suggestions,
    undone,
    votes,
)

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


def part_of(table: sa.Table, row: Mapping[str, Any]) -> int:
    """The part of its table in which a row is counted: its kind, if it has one."""
    return int(row["kind_id"]) if is_by_kind(table) else 0


def link(previous: str, batch: Mapping[str, Any], edit_seals: Iterable[int]) -> str:
    """The seal of an action: of the seal before it (empty for the first), its row, and its edits in order."""
    values = tuple(batch.get(name) for name in SEALED["batches"])
    content = ascii((previous, values, tuple(edit_seals)))
    return hashlib.blake2b(content.encode("ascii"), digest_size=16).hexdigest()
