"""Rewriting all values of a kind: its cells, the votes on them, and the photo labels.

A rewriting is a function from a stored value and its class to another value. Values that stay the same are not edited.
Cost: one pass over the kind.
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
    """Rewrites the values of one kind into a plan.

    Attributes:
        lost: how many cells become unknown.
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
        """Add every value that changes to the plan."""
        for number in sorted({*self.cells, *self.votes}):
            row, cell_votes = self.cells.get(number), self.votes.get(number, {})
            value = row.value if row else None
            new = value and rewriting(value, number)
            changed = {person: rewriting(vote, number) for person, vote in cell_votes.items() if vote is not None}
            changed = {person: vote for person, vote in changed.items() if vote != cell_votes[person]}
            self.new[number] = new
            if new != value or changed:
                before = cell_snapshot(row, {person: cell_votes[person] for person in changed})
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
        return row is not None and row.value is not None and label in {part for part, _ in parts_of(row.value)}

    def left(self, label: int) -> bool:
        """Whether anything names a label after the rewriting."""
        values = {*self.new.values(), *self.new_photos.values()}
        for number, cell_votes in self.votes.items():
            key = Key("cell", fine_id=number, kind_id=self.kind.id)
            after = self.plan.changes[key].after if key in self.plan.changes else None
            values |= {*{**cell_votes, **(after["votes"] if after else {})}.values()}
        return any(label == part for value in values if value for part, _ in parts_of(value))


def drop(value: str, gone: Collection[int], mode: Mode) -> str | None:
    """A value without some labels; in a kind of mode "one", unknown if none is left."""
    parts = parts_of(value)
    left = [part for part in parts if part[0] not in gone]
    return value if len(left) == len(parts) else encode_parts(left, mode)


def replace(value: str, targets: Mapping[int, int], mode: Mode) -> str | None:
    """A value with some labels replaced by others; the weights of labels that become one are added."""
    parts = parts_of(value)
    if not any(label in targets for label, _ in parts):
        return value
    weighted = any(weight is not None for _, weight in parts)
    share = 1.0 / len(parts)
    weights: dict[int, float] = {}
    for label, weight in parts:
        new = targets.get(label, label)
        weights[new] = weights.get(new, 0.0) + (share if weight is None else weight)
    if mode == "all" or (len(weights) == len(parts) and not weighted):
        return encode_parts([(label, None) for label in weights], mode)
    return encode_parts(list(weights.items()), mode)


def label_snapshot(label: LabelEntry) -> Snapshot:
    """The snapshot of a label."""
    return {"name": label.name, "position": label.position, "removed": int(label.removed)}


def kind_snapshot(kind: KindEntry) -> Snapshot:
    """The snapshot of a kind."""
    fields = {"name": kind.name, "position": kind.position, "mode": kind.mode, "prior": kind.prior}
    return {**fields, "removed": int(kind.removed)}
