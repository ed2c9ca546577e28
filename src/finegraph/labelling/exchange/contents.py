"""Adds the votes, notes and photo labels of a file to the plan of importing its graph.

An import is one action, so a cell that gets a new value and new votes is planned once. People and photos that the file
does not name keep what they have. Cost: linear in the file and in the kinds that it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import unknown_name
from finegraph.labelling.exchange.label_studio import Content
from finegraph.labelling.store.catalogue import KindEntry
from finegraph.labelling.store.checks import check_note, check_photo
from finegraph.labelling.store.current_rows import cell_snapshot, load_cells, load_votes, photo_snapshot
from finegraph.labelling.store.log import check_person, now
from finegraph.labelling.store.plan import NO_VOTE, Key, Plan, Snapshot
from finegraph.labelling.store.records import PhotoLabel
from finegraph.labelling.store.sql_tables import notes, photo_labels

Numbers = Mapping[str, int]
"""The number of each class."""
Kinds = Mapping[str, KindEntry]
"""The kinds by name, as they will be when the plan is carried out."""


def add_content(connection: Connection, plan: Plan, content: Content, fine: Numbers, kinds: Kinds, person: str) -> None:
    """Add the votes, notes and photo labels of a Label Studio file to the plan of importing its graph."""
    _add_votes(connection, plan, content, fine, kinds)
    current_notes = {row.fine_id: row for row in connection.execute(sa.select(notes))} if content.notes else {}
    for name, text in content.notes.items():
        check_note(text)
        row = current_notes.get(_number(fine, name))
        if row is None or row.text != text:
            before = {"text": row.text if row else "", "by": row.by if row else None, "at": row.at if row else None}
            plan.add(Key("note", fine_id=fine[name]), before, {"text": text, "by": person, "at": now()})
    add_photos(connection, plan, content.photos, fine, kinds, person)


def _number(fine: Numbers, name: str) -> int:
    if name not in fine:
        raise unknown_name("class", name, tuple(fine))
    return fine[name]


def _kind(kinds: Kinds, name: str) -> KindEntry:
    if name not in kinds:
        raise unknown_name("kind", name, tuple(kinds))
    return kinds[name]


def _add_votes(connection: Connection, plan: Plan, content: Content, fine: Numbers, kinds: Kinds) -> None:
    """Plan the votes of all people, and which disagreements were settled."""
    wanted: dict[str, dict[int, dict[str, str | None]]] = {}
    for name, votes_by_person in content.votes.items():
        for voter, person_votes in votes_by_person.items():
            for kind, value in person_votes.items():
                class_votes = wanted.setdefault(kind, {}).setdefault(_number(fine, name), {})
                class_votes[check_person(voter)] = _kind(kinds, kind).encode(value)
    settled: dict[str, set[int]] = {}
    for name, own_kinds in content.settled.items():
        for kind in own_kinds:
            settled.setdefault(kind, set()).add(_number(fine, name))
    for kind in dict.fromkeys([*wanted, *settled]):
        number = _kind(kinds, kind).id
        votes, settled_ids = wanted.get(kind, {}), settled.get(kind, set())
        ids = sorted({*votes, *settled_ids})
        rows, votes_by_class = load_cells(connection, number, ids), load_votes(connection, number, ids)
        for fine_id in ids:
            key = Key("cell", fine_id=fine_id, kind_id=number)
            _add_cell(
                plan,
                key,
                rows.get(fine_id),
                votes_by_class.get(fine_id, {}),
                votes.get(fine_id, {}),
                fine_id in settled_ids,
            )


def _add_cell(
    plan: Plan,
    key: Key,
    row: Any,
    current_votes: Mapping[str, str | None],
    wanted: Mapping[str, str | None],
    settled: bool,
) -> None:
    """Plan the votes on one cell, on top of what is already planned for it."""
    planned = plan.changes.get(key)
    before = planned.before if planned and planned.before else cell_snapshot(row, {})
    after = planned.after if planned and planned.after else cell_snapshot(row, {})
    present = {**current_votes, **after["votes"]}
    changed = {voter: vote for voter, vote in wanted.items() if present.get(voter, NO_VOTE) != vote}
    if not changed and after["resolved"] >= settled:
        return
    old = {voter: current_votes.get(voter, NO_VOTE) for voter in changed}
    plan.put(
        key,
        {**before, "votes": {**old, **before["votes"]}},
        {**after, "votes": {**after["votes"], **changed}, "resolved": int(settled or after["resolved"])},
    )


def add_photos(
    connection: Connection, plan: Plan, labels: Sequence[PhotoLabel], fine: Numbers, kinds: Kinds, person: str
) -> None:
    """Add photo labels to a plan; photos that are not named keep theirs."""
    at = now()
    by_kind: dict[str, list[PhotoLabel]] = {}
    for label in labels:
        by_kind.setdefault(label.kind, []).append(label)
    for name, kind_labels in by_kind.items():
        kind = _kind(kinds, name)
        query = sa.select(photo_labels).where(photo_labels.c.kind_id == kind.id)
        present = {row.photo: photo_snapshot(row) for row in connection.execute(query)}
        for label in kind_labels:
            key = Key("photo", kind_id=kind.id, photo=check_photo(label.photo))
            planned, before = plan.changes.get(key), present.get(label.photo)
            current: Snapshot | None = planned.after if planned else before
            number = None if label.fine is None else _number(fine, label.fine)
            value = kind.encode(label.value, f"photo {label.photo!r}, kind {name!r}")
            if current is None or (current["value"], current["fine"]) != (value, number):
                plan.put(key, before, {"value": value, "fine": number, "by": person, "at": at})
