"""Plans of single decisions: cells, notes and photo labels.

A decision names the version of the cell that the person saw. If the cell has since changed to another value, nothing is
changed and a conflict with both values is raised. A blind decision (no version) is only the person's vote: it never
replaces what somebody else decided. Cost: a few queries, whatever the size of the kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from finegraph.errors import ConflictError, InputError
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.checks import check_note, check_photo
from finegraph.labelling.store.current_rows import cell_snapshot, fine_ids, load_cells, load_votes, photo_snapshot
from finegraph.labelling.store.log import now
from finegraph.labelling.store.plan import NO_VOTE, Key, Plan
from finegraph.labelling.store.records import CellValue, Conflict, Decision, Numbers
from finegraph.labelling.store.renames import (
    living_fine,
    present_decisions,
    present_fine,
    present_kind,
    present_value,
)
from finegraph.labelling.store.sql_tables import notes, photo_labels
from finegraph.labelling.store.values import value_text


def plan_decisions(
    connection: Connection, catalogue: Catalogue, decisions: Sequence[Decision], person: str, *, resolve: bool = False
) -> Plan:
    """The plan of decisions that are made together, or not at all.

    Args:
        connection: a connection to the store.
        catalogue: its kinds.
        decisions: at most one for each cell.
        person: the name of the person who decides.
        resolve: whether to settle disagreements: the value is then not the person's vote.

    Raises:
        ConflictError: a cell has changed since the person saw it.
        InputError: a value is wrong, or there is nothing to decide.
    """
    if not decisions:
        raise InputError("expected at least one decision, got none")
    decisions = present_decisions(connection, catalogue, decisions)
    ids = fine_ids(connection, {decision.fine for decision in decisions})
    at, plan, conflicts = now(), Plan(_text(decisions, resolve)), []
    plan.names = {number: name for name, number in ids.items()}
    by_kind: dict[str, list[Decision]] = {}
    for decision in decisions:
        by_kind.setdefault(decision.kind, []).append(decision)
    for name, kind_decisions in by_kind.items():
        kind = catalogue.kind(name)
        numbers = [ids[decision.fine] for decision in kind_decisions]
        if len(set(numbers)) != len(numbers):
            raise InputError(f"kind {name!r}: two decisions on one cell; expected one for each cell")
        rows, votes_by_class = load_cells(connection, kind.id, numbers), load_votes(connection, kind.id, numbers)
        for decision, number in zip(kind_decisions, numbers, strict=True):
            value = kind.encode(decision.value, f"class {decision.fine!r}, kind {name!r}")
            row = rows.get(number)
            if conflict := _conflict(kind, decision, value, row):
                conflicts.append(conflict)
                continue
            cell_votes = votes_by_class.get(number, {})
            changed = {} if resolve else {person: value}
            before = cell_snapshot(row, {name: cell_votes.get(name, NO_VOTE) for name in changed})
            after = cell_snapshot(row, changed)
            if decision.seen is not None or not _decided_by_others(row, cell_votes, person):
                after |= {"value": value, "by": person, "at": at}
            after["resolved"] = int(resolve or (before["resolved"] and value == before["value"]))
            key = Key("cell", fine_id=number, kind_id=kind.id)
            plan.add(key, before, after)
            plan.votes[key] = cell_votes
    if conflicts:
        raise ConflictError(_conflict_text(conflicts), conflicts)
    return plan


def _decided_by_others(row: Row[Any] | None, cell_votes: Mapping[str, str | None], person: str) -> bool:
    """Whether somebody else has decided a cell, or the first import set it."""
    return any(name != person for name in cell_votes) or (
        row is not None and row.value is not None and row.by != person
    )


def _conflict(kind: KindEntry, decision: Decision, value: str | None, row: Row[Any] | None) -> Conflict | None:
    """The conflict with a change by somebody else; None if there is none."""
    version, current = (0, None) if row is None else (row.version, row.value)
    if decision.seen is None or decision.seen == version or current == value:
        return None
    return Conflict(
        what="cell",
        fine=decision.fine,
        kind=kind.name,
        yours=kind.value(value),
        theirs=kind.value(current),
        version=version,
        by=None if row is None else row.by,
        at=None if row is None else row.at,
    )


def _conflict_text(conflicts: Sequence[Conflict]) -> str:
    first = conflicts[0]
    more = f" and {len(conflicts) - 1} more" if len(conflicts) > 1 else ""
    return (
        f"{first.fine!r}, kind {first.kind!r}{more}: {first.by or 'somebody'} made it {shown(first.theirs)} since you "
        f"looked, you chose {shown(first.yours)}; look at both and decide again"
    )


def shown(value: CellValue) -> str:
    """A value as it appears in a sentence."""
    return "unknown" if value is None else repr(value_text(value))


def _text(decisions: Sequence[Decision], resolve: bool) -> str:
    first = decisions[0]
    if len(decisions) > 1:
        return f"decided {len(decisions)} cells, the first is {first.fine!r}, {first.kind!r}"
    verb = "settled" if resolve else "decided"
    return f"{verb} {first.fine!r}, {first.kind!r}"


# ---- notes and photos ------------------------------------------------------------------------------------------------


def plan_note(
    connection: Connection, fine_label: str, text: str, person: str, seen: int, numbers: Numbers | None = None
) -> Plan:
    """The plan of changing the note of a class.

    Raises:
        ConflictError: somebody else has changed it since.
    """
    check_note(text)
    fine_label = present_fine(connection, fine_label, numbers.fine if numbers else None)
    number = fine_ids(connection, [fine_label])[fine_label]
    row = connection.execute(sa.select(notes).where(notes.c.fine_id == number)).first()
    old = "" if row is None else row.text
    if (0 if row is None else row.version) != seen and old != text:
        by, at, version = (None, None, 0) if row is None else (row.by, row.at, row.version)
        conflict = Conflict(what="note", fine=fine_label, yours=text, theirs=old, version=version, by=by, at=at)
        raise ConflictError(f"{by or 'somebody'} has changed the note of {fine_label!r} since you looked", [conflict])
    plan = Plan(f"changed the note of {fine_label!r}")
    before = {"text": old, "by": row.by if row else None, "at": row.at if row else None}
    plan.add(Key("note", fine_id=number), before, {"text": text, "by": person, "at": now()})
    return plan


def plan_photo(
    connection: Connection,
    catalogue: Catalogue,
    photo: str,
    kind_name: str,
    value: CellValue | bool,
    person: str,
    *,
    seen: int,
    fine_label: str | None,
    numbers: Numbers | None = None,
) -> Plan:
    """The plan of labelling a single photo; a value of None removes the label.

    `numbers` or `fine_label` names the class of the photo; without either its class is unknown.

    Raises:
        UnknownNameError: there is no such class.
        ConflictError: somebody else has changed it since.
    """
    check_photo(photo)
    meant_numbers = numbers or Numbers()
    kind = present_kind(catalogue, kind_name, meant_numbers.kind)
    encoded = kind.encode(present_value(kind, value, meant_numbers.labels), f"photo {photo!r}, kind {kind.name!r}")
    number = None if fine_label is None else fine_ids(connection, [fine_label])[fine_label]
    if meant_numbers.fine is not None:
        number = living_fine(connection, meant_numbers.fine)
    condition = (photo_labels.c.kind_id == kind.id) & (photo_labels.c.photo == photo)
    row = connection.execute(sa.select(photo_labels).where(condition)).first()
    version, current = (0, None) if row is None else (row.version, row.value)
    if version != seen and current != encoded:
        conflict = Conflict(
            what="photo",
            photo=photo,
            kind=kind.name,
            yours=kind.value(encoded),
            theirs=kind.value(current),
            version=version,
            by=row.by if row else None,
            at=row.at if row else None,
        )
        raise ConflictError(f"{conflict.by or 'somebody'} has labelled {photo!r} since you looked", [conflict])
    after = {"value": encoded, "fine": number, "by": person, "at": now()}
    plan = Plan(f"labelled the photo {photo!r}, {kind.name!r}")
    plan.add(Key("photo", kind_id=kind.id, photo=photo), None if row is None else photo_snapshot(row), after)
    return plan
