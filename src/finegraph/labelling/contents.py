"""Plans of importing more than a graph: votes and notes of a Label Studio file, and image-level labels."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.labelling.catalogue import Catalogue
from finegraph.labelling.label_studio import Content
from finegraph.labelling.log import check_person, now
from finegraph.labelling.photo_file import PhotoLabel
from finegraph.labelling.plan import NO_VOTE, Key, Plan
from finegraph.labelling.rows import cell_image, fine_ids, load_cells, load_votes, photo_image
from finegraph.labelling.tables import notes, photo_labels


def plan_content(connection: Connection, catalogue: Catalogue, content: Content, person: str) -> Plan:
    """The plan of taking over votes, notes and image-level labels; the graph is there already."""
    plan = plan_photos(connection, catalogue, content.photos, person)
    plan.text = "imported votes, notes and image-level labels"
    _plan_votes(connection, catalogue, plan, content)
    ids = fine_ids(connection, content.notes)
    for name, text in content.notes.items():
        row = connection.execute(sa.select(notes).where(notes.c.fine_id == ids[name])).first()
        if row is None or row.text != text:
            before = {"text": row.text if row else "", "by": row.by if row else None, "at": row.at if row else None}
            plan.add(Key("note", fine_id=ids[name]), before, {"text": text, "by": person, "at": now()})
    return plan


def _plan_votes(connection: Connection, catalogue: Catalogue, plan: Plan, content: Content) -> None:
    """Plan the votes of all people."""
    ids = fine_ids(connection, content.votes)
    by_kind: dict[str, dict[int, dict[str, str | None]]] = {}
    for name, said in content.votes.items():
        for voter, own in said.items():
            for kind, value in own.items():
                mine = by_kind.setdefault(kind, {}).setdefault(ids[name], {})
                mine[check_person(voter)] = catalogue.kind(kind).encode(value)
    for kind, cells in by_kind.items():
        number = catalogue.kind(kind).id
        rows, given = load_cells(connection, number, cells), load_votes(connection, number, cells)
        for fine_id, wanted in cells.items():
            present = given.get(fine_id, {})
            changed = {voter: vote for voter, vote in wanted.items() if present.get(voter, NO_VOTE) != vote}
            if changed:
                old = {voter: present.get(voter, NO_VOTE) for voter in changed}
                row = rows.get(fine_id)
                plan.add(Key("cell", fine_id=fine_id, kind_id=number), cell_image(row, old), cell_image(row, changed))


def plan_photos(connection: Connection, catalogue: Catalogue, labels: Sequence[PhotoLabel], person: str) -> Plan:
    """The plan of taking over image-level labels."""
    plan = Plan(f"imported {len(labels)} image-level label{'s' if len(labels) != 1 else ''}")
    ids = fine_ids(connection, {label.fine for label in labels if label.fine is not None})
    at = now()
    for kind_name in dict.fromkeys(label.kind for label in labels):
        kind = catalogue.kind(kind_name)
        query = sa.select(photo_labels).where(photo_labels.c.kind_id == kind.id)
        present = {row.photo: row for row in connection.execute(query)}
        for label in labels:
            if label.kind != kind_name:
                continue
            row = present.get(label.photo)
            number = None if label.fine is None else ids[label.fine]
            value = kind.encode(label.value, f"photo {label.photo!r}, kind {kind_name!r}")
            if row is None or (row.value, row.fine_id) != (value, number):
                after = {"value": value, "fine": number, "by": person, "at": at}
                plan.add(
                    Key("photo", kind_id=kind.id, photo=label.photo), None if row is None else photo_image(row), after
                )
    return plan
