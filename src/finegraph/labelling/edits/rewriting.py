"""Rewriting all values of a kind: its cells, the votes on them, and the photo labels.

A rewriting is a function from a kept value to another one; it sees the class too. What does not change is not touched.
One pass over the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from finegraph.labelling.store.catalogue import KindEntry, LabelEntry
from finegraph.labelling.store.current_rows import cell_snapshot, load_cells, load_votes, photo_snapshot
from finegraph.labelling.store.plan import Key, Plan, Snapshot
from finegraph.labelling.store.records import Mode
from finegraph.labelling.store.sql_tables import photo_labels
from finegraph.labelling.store.values import encode_parts, parts_of

Rewriting = Callable[[str, int | None], str | None]


class Rewriter:
    """The values of one kind, and the plan that their rewriting goes to.

    Attributes:
        lost: how many cells have become unknown.
    """

    def __init__(self, connection: Connection, plan: Plan, kind: KindEntry) -> None:
        self.plan, self.kind = plan, kind
        self.cells = load_cells(connection, kind.id)
        self.votes = load_votes(connection, kind.id)
        query = sa.select(photo_labels).where(photo_labels.c.kind_id == kind.id, photo_labels.c.value.is_not(None))
        self.photos: list[Row[Any]] = list(connection.execute(query.order_by(photo_labels.c.photo)))
        self.lost = 0
        self.new: dict[int, str | None] = {}
        self.new_photos: dict[str, str | None] = {}

    def rewrite(self, rewriting: Rewriting) -> None:
        """Put all that changes into the plan."""
        for number in sorted({*self.cells, *self.votes}):
            row, said = self.cells.get(number), self.votes.get(number, {})
            value = row.value if row else None
            new = value and rewriting(value, number)
            changed = {person: rewriting(vote, number) for person, vote in said.items() if vote is not None}
            changed = {person: vote for person, vote in changed.items() if vote != said[person]}
            self.new[number] = new
            if new != value or changed:
                before = cell_snapshot(row, {person: said[person] for person in changed})
                self.plan.add(
                    Key("cell", fine_id=number, kind_id=self.kind.id),
                    before,
                    {**cell_snapshot(row, changed), "value": new},
                )
                self.lost += value is not None and new is None
        for row in self.photos:
            new = rewriting(row.value, row.fine_id)
            self.new_photos[row.photo] = new
            if new != row.value:
                snapshot = photo_snapshot(row)
                self.plan.add(Key("photo", kind_id=self.kind.id, photo=row.photo), snapshot, {**snapshot, "value": new})

    def holds(self, number: int, label: int) -> bool:
        """Whether the cell of a class named a label before the rewriting."""
        row = self.cells.get(number)
        return row is not None and row.value is not None and label in {one for one, _ in parts_of(row.value)}

    def left(self, label: int) -> bool:
        """Whether anything names a label after the rewriting."""
        values = {*self.new.values(), *self.new_photos.values()}
        for number, said in self.votes.items():
            key = Key("cell", fine_id=number, kind_id=self.kind.id)
            after = self.plan.changes[key].after if key in self.plan.changes else None
            values |= {*{**said, **(after["votes"] if after else {})}.values()}
        return any(label == one for value in values if value for one, _ in parts_of(value))


def drop(value: str, gone: Collection[int], mode: Mode) -> str | None:
    """A value without some labels; unknown if a kind of one label is left without any."""
    parts = parts_of(value)
    left = [part for part in parts if part[0] not in gone]
    return value if len(left) == len(parts) else encode_parts(left, mode)


def replace(value: str, targets: Mapping[int, int], mode: Mode) -> str | None:
    """A value in which some labels are others; weights of labels that become one are added."""
    parts = parts_of(value)
    if not any(label in targets for label, _ in parts):
        return value
    weighted = any(weight is not None for _, weight in parts)
    share = 1.0 / len(parts)
    found: dict[int, float] = {}
    for label, weight in parts:
        new = targets.get(label, label)
        found[new] = found.get(new, 0.0) + (share if weight is None else weight)
    if mode == "all" or (len(found) == len(parts) and not weighted):
        return encode_parts([(label, None) for label in found], mode)
    return encode_parts(list(found.items()), mode)


def label_snapshot(label: LabelEntry) -> Snapshot:
    """The snapshot of a label."""
    return {"name": label.name, "position": label.position, "removed": int(label.removed)}


def kind_snapshot(kind: KindEntry) -> Snapshot:
    """The snapshot of a kind."""
    own = {"name": kind.name, "position": kind.position, "mode": kind.mode, "prior": kind.prior}
    return {**own, "removed": int(kind.removed)}
