"""What classes were called before: photos keep the names of their folder or list, whatever people call their class.

Cost: one look at the edits of classes, of which there are few; those of cells have an index of their own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.labelling.store.tables import edits


class Rename(NamedTuple):
    """One change of a class's name: the edit, the old name and the new one. Undoing it is one too."""

    number: int
    old: str
    new: str


def read_renames(connection: Connection, after: int, version: int | None) -> list[Rename]:
    """The renames of classes after an edit, up to a version, in order."""
    where = [edits.c.kind_id.is_(None), edits.c.number > after, edits.c.target == "fine"]
    where += [edits.c.before.is_not(None), edits.c.after.is_not(None)]
    if version is not None:
        where.append(edits.c.number <= version)
    query = sa.select(edits.c.number, edits.c.before, edits.c.after).where(*where).order_by(edits.c.number)
    found = []
    for number, before, now in connection.execute(query):
        old, new = json.loads(before).get("name"), json.loads(now).get("name")
        if old is not None and new is not None and old != new:
            found.append(Rename(number, old, new))
    return found


def present_names(renames: Iterable[Rename], fine: Collection[str]) -> dict[str, str]:
    """What each former name means now; a name that a class has now means that class.

    Args:
        renames: in order.
        fine: the present classes.
    """
    now: dict[str, str] = {}
    for _, old, new in renames:
        now = {name: new if name_now == old else name_now for name, name_now in now.items()}
        now[old] = new
        now.pop(new, None)
    present = set(fine)
    return {old: new for old, new in now.items() if old not in present and new in present}
