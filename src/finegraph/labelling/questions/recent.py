"""Recent changes for all open pages: each edit is read and formatted once, however many people ask.

The last edits and the current state of the cells that they changed are cached as JSON. A request costs one small query,
and reading what is new. When names change or something is undone, everything is read again, since that changes the text
of older edits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.labelling.questions.history import read_history
from finegraph.labelling.questions.queries import cell_states, store_version
from finegraph.labelling.store.catalogue import Catalogue
from finegraph.labelling.store.current_rows import chunks
from finegraph.labelling.store.records import Edit
from finegraph.labelling.store.sql_tables import fine

MAX_RECENT = 100
"""How many edits are cached; a page that is further behind must reload everything."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The edits after a version, newest first, and the current state of the cells that they changed, all as JSON.

    Attributes:
        version: the current version.
        edits: the edits, as `Edit.to_dict` gives them.
        cells: the cells, as `CellState.to_dict` gives them, without those of removed classes and kinds.
        more: whether there are more edits than are cached.
    """

    version: int
    edits: tuple[dict[str, Any], ...]
    cells: tuple[dict[str, Any], ...]
    more: bool

    def to_dict(self) -> dict[str, Any]:
        """The changes as plain JSON data."""
        return {"version": self.version, "edits": list(self.edits), "cells": list(self.cells), "more": self.more}


class Recent:
    """The recent edits of one store; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._structure: str | None = None
        self._version = 0
        self._edits: list[dict[str, Any]] = []
        self._cells: dict[tuple[str, str], dict[str, Any]] = {}

    def since(self, connection: Connection, catalogue: Catalogue, version: int) -> Changes:
        """What has changed after a version."""
        with self._lock:
            self._read(connection, catalogue)
            edits = tuple(edit for edit in self._edits if edit["number"] > version)
            places = dict.fromkeys((edit["fine"], edit["kind"]) for edit in edits if edit["target"] == "cell")
            cells = tuple(self._cells[place] for place in places if place in self._cells)
            more = len(edits) == len(self._edits) and self._version - version > len(edits)
            return Changes(version=self._version, edits=edits, cells=cells, more=more)

    def _read(self, connection: Connection, catalogue: Catalogue) -> None:
        """Read what is new."""
        version = store_version(connection)
        reread = self._structure != catalogue.structure
        if version <= self._version and not reread:
            return
        edits = _edits_after(connection, catalogue, None if reread else self._version)
        if not reread and (len(edits) == MAX_RECENT or any(edit.undoes is not None for edit in edits)):
            reread, edits = True, _edits_after(connection, catalogue, None)
        if reread:
            self._edits, self._cells = [], {}
        self._edits = [*(edit.to_dict() for edit in edits), *self._edits][:MAX_RECENT]
        self._cells.update(_cells_of(connection, catalogue, edits))
        if len(self._cells) > 2 * MAX_RECENT:
            kept = {(edit["fine"], edit["kind"]) for edit in self._edits}
            self._cells = {place: cell for place, cell in self._cells.items() if place in kept}
        self._structure, self._version = catalogue.structure, version


def _edits_after(connection: Connection, catalogue: Catalogue, version: int | None) -> list[Edit]:
    return read_history(connection, catalogue, after=version, limit=MAX_RECENT)


def _cells_of(
    connection: Connection, catalogue: Catalogue, edits: Iterable[Edit]
) -> dict[tuple[str, str], dict[str, Any]]:
    """The present state of the cells that edits have changed."""
    by_kind: dict[str, set[str]] = {}
    for edit in edits:
        if edit.target == "cell" and edit.fine is not None and edit.kind is not None:
            by_kind.setdefault(edit.kind, set()).add(edit.fine)
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for kind, names in by_kind.items():
        living: dict[int, str] = {}
        for part in chunks(names):
            query = sa.select(fine.c.id, fine.c.name).where(fine.c.name.in_(part), fine.c.removed == 0)
            living.update((row.id, row.name) for row in connection.execute(query))
        if kind in catalogue.by_name and living:
            states = cell_states(connection, catalogue.by_name[kind], living)
            cells.update(((state.fine, kind), state.to_dict()) for state in states.values())
    return cells
