"""Undo: the snapshots of an action, swapped. An undo is an action, so it is logged and can be undone (redo).

An undo never overwrites later changes: it is refused with both values. If somebody else has made the same decision
later, their decision stays and only the votes of the undone edit go. Undoing the action that added a kind or a class is
refused if people have decided something in it since. Cost: linear in the undone edits, and in later edits if kinds or
classes would be removed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from finegraph.errors import ConflictError, InputError
from finegraph.labelling.store.catalogue import Catalogue
from finegraph.labelling.store.current_rows import check_number, chunks, current_snapshots, fine_names, load_votes
from finegraph.labelling.store.plan import NO_VOTE, Key, Plan, Snapshot, without_person_and_time
from finegraph.labelling.store.records import Conflict, Target
from finegraph.labelling.store.sealed_rows import refuse_altered
from finegraph.labelling.store.sql_tables import batches, comparisons, edits, fine, photo_labels, undone, votes
from finegraph.labelling.store.values import pair_words, parse_pair

_MAX_CONFLICTS = 100
_PART = " one edit of"


def plan_undo(connection: Connection, catalogue: Catalogue, batch: int, only: int | None = None) -> Plan:
    """The plan that undoes an action, or one edit of it.

    Args:
        connection: a connection to the store.
        catalogue: its kinds.
        batch: the action.
        only: the number of one edit to undo; by default all of them.

    Raises:
        InputError: there is no such action, it is already undone, or it is the first import.
        ConflictError: something that it changed was changed again since, or people have decided something in a kind or
            class that would be removed.
    """
    check_number("action", batch)
    action = connection.execute(sa.select(batches).where(batches.c.number == batch)).first()
    if action is None:
        raise InputError(f"there is no action number {batch} in the log")
    query = sa.select(edits).where(edits.c.batch == batch, edits.c.number.not_in(sa.select(undone.c.edit)))
    if only is not None:
        query = query.where(edits.c.number == only)
    rows = list(connection.execute(query.order_by(edits.c.number.desc())))
    if not rows:
        raise InputError(
            f"action number {batch} ({action.text}) is undone already" if action.size else "nothing to undo"
        )
    if any(row.target == "graph" for row in rows):
        raise InputError("the first import of a graph cannot be undone; make a new store instead")
    plan = Plan(_text(action, only), undoes=batch)
    _fill(connection, catalogue, plan, rows)
    _refuse_lost(connection, catalogue, plan, action.last)
    return plan


def _text(action: Row[Any], only: int | None) -> str:
    """The undo in a sentence; the undo of an undo is called redo."""
    verb, _, rest = action.text.partition(": ")
    if action.action != "undo":
        verb, rest = "redid", action.text
    opposite = "undid" if verb.startswith("redid") else "redid"
    part = _PART if only is not None or verb.endswith(_PART) else ""
    return f"{opposite}{part}: {rest}"


def _fill(connection: Connection, catalogue: Catalogue, plan: Plan, rows: Sequence[Row[Any]]) -> None:
    """Add the swapped snapshots of edits to a plan."""
    refuse_altered(connection, edits, rows)
    after = {key_of(row): _parsed(row.after) for row in rows}
    before = {key_of(row): _parsed(row.before) for row in rows}
    voters = {
        key: list(snapshot["votes"]) for key, snapshot in after.items() if key.target == "cell" and snapshot is not None
    }
    present = current_snapshots(connection, after, voters)
    confirmed = _confirmed_later(connection, {key_of(row): (row.number, after[key_of(row)]) for row in rows})
    changed = []
    for row in rows:
        key = key_of(row)
        if without_person_and_time(present[key]) != without_person_and_time(after[key]) and not (
            _is_empty_snapshot(present[key]) and _is_empty_snapshot(after[key])
        ):
            changed.append((key, before[key], present[key]))
            continue
        target = before[key]
        if key in confirmed and target is not None and present[key] is not None:
            target = {**target, **confirmed[key]}
        plan.add(key, present[key], target, undoes=row.number, redoes=row.undoes)
    if changed:
        conflicts = _conflicts(connection, catalogue, changed[:_MAX_CONFLICTS])
        first = conflicts[0]
        place = ", ".join(repr(part) for part in (first.fine, first.kind, first.label, first.photo) if part is not None)
        raise ConflictError(
            f"{place}: changed again since ({len(changed)} such); undo the later change first, or decide again",
            conflicts,
        )


def _confirmed_later(connection: Connection, after: Mapping[Key, tuple[int, Snapshot | None]]) -> dict[Key, Snapshot]:
    """Of cells whose value somebody else has voted for after the edit, the part of the snapshot that stays."""
    by_kind: dict[int, dict[Key, tuple[int, Snapshot]]] = {}
    for key, (number, snapshot) in after.items():
        # An edit without votes, such as an import, has set the value as well.
        if (
            key.target == "cell"
            and snapshot
            and (not snapshot["votes"] or snapshot["value"] in snapshot["votes"].values())
        ):
            by_kind.setdefault(key.kind_id or 0, {})[key] = (number, snapshot)
    confirmed: dict[Key, Snapshot] = {}
    for kind_id, kind_edits in by_kind.items():
        votes_by_class = load_votes(connection, kind_id, [key.fine_id or 0 for key in kind_edits])
        for key, (number, snapshot) in kind_edits.items():
            cell_votes = votes_by_class.get(key.fine_id or 0, {})
            others = {
                name for name, vote in cell_votes.items() if name not in snapshot["votes"] and vote == snapshot["value"]
            }
            if others and (later := _voted_after(connection, key, number, others)):
                confirmed[key] = {"value": snapshot["value"], **later}
    return confirmed


def _voted_after(connection: Connection, key: Key, number: int, people: Collection[str]) -> Snapshot | None:
    """Which of some people was the last to vote on a cell after an edit, and when."""
    of_cell = (edits.c.fine_id == key.fine_id) & (edits.c.kind_id == key.kind_id) & (edits.c.target == "cell")
    query = sa.select(edits.c.after).where(of_cell, edits.c.number > number).order_by(edits.c.number.desc())
    for text in connection.scalars(query):
        for name in json.loads(text)["votes"]:
            if name in people:
                vote = (votes.c.fine_id == key.fine_id) & (votes.c.kind_id == key.kind_id) & (votes.c.person == name)
                return {"by": name, "at": connection.scalar(sa.select(votes.c.at).where(vote))}
    return None


# ---- decisions that would be lost with a kind or a class -------------------------------------------------------------


def _refuse_lost(connection: Connection, catalogue: Catalogue, plan: Plan, last: int) -> None:
    """Refuse to remove kinds and classes in which something was decided after an edit.

    Raises:
        ConflictError: with each such kind and class.
    """
    removed = [change.key for change in plan.of("kind", "fine") if change.after and change.after["removed"]]
    kinds = {key.kind_id for key in removed if key.kind_id is not None}
    classes = {key.fine_id for key in removed if key.fine_id is not None}
    newest: dict[Key, Row[Any]] = {}
    voters: dict[Key, set[str]] = {}
    for row in _edits_since(connection, kinds, classes, last):
        newest[key_of(row)] = row
        if row.target == "cell":
            voters.setdefault(key_of(row), set()).update(json.loads(row.after)["votes"])
    present = current_snapshots(connection, newest, voters)
    living = _living(connection, {key.fine_id for key in newest if key.fine_id is not None})
    held: dict[tuple[Target, int], list[Row[Any]]] = {}
    for key, row in newest.items():
        kind = catalogue.by_id.get(key.kind_id or -1)
        shown = (key.fine_id is None or key.fine_id in living) and (kind is None or not kind.removed)
        if shown and _has_content(present[key]):
            if key.kind_id in kinds:
                held.setdefault(("kind", key.kind_id or 0), []).append(row)
            else:
                for number in _classes_of(key, present[key] or {}) & classes:
                    held.setdefault(("fine", number), []).append(row)
    if held:
        raise ConflictError(*_lost_decisions(catalogue, fine_names(connection, classes), held))


def _classes_of(key: Key, snapshot: Snapshot) -> set[int]:
    """The classes that a decision is about."""
    by_target = {"photo": [snapshot.get("fine")], "comparison": [snapshot.get("one"), snapshot.get("two")]}
    return {number for number in by_target.get(key.target, [key.fine_id]) if number is not None}


def _edits_since(
    connection: Connection, kinds: Collection[int], classes: Collection[int], last: int
) -> Iterator[Row[Any]]:
    """The edits of kinds and classes after an edit that still hold, in the order of the log for each thing."""
    logged = sa.select(edits, batches.c.person, batches.c.at).join(batches, edits.c.batch == batches.c.number)
    holds = logged.where(
        edits.c.number > last, edits.c.undoes.is_(None), edits.c.number.not_in(sa.select(undone.c.edit))
    )
    holds = holds.order_by(edits.c.number)
    for part in chunks(kinds):
        yield from connection.execute(
            holds.where(edits.c.kind_id.in_(part), edits.c.target.in_(["cell", "photo", "comparison"]))
        )
    for part in chunks(classes):
        yield from connection.execute(holds.where(edits.c.fine_id.in_(part), edits.c.target.in_(["cell", "note"])))
    if classes:
        later = sa.select(photo_labels.c.version, photo_labels.c.fine_id).where(photo_labels.c.version > last)
        numbers = [row.version for row in connection.execute(later) if row.fine_id in classes]
        for part in chunks(numbers):
            yield from connection.execute(holds.where(edits.c.number.in_(part), edits.c.target == "photo"))
        later = sa.select(comparisons.c.version, comparisons.c.one_id, comparisons.c.two_id)
        pairs = connection.execute(later.where(comparisons.c.version > last))
        numbers = [row.version for row in pairs if row.one_id in classes or row.two_id in classes]
        for part in chunks(numbers):
            yield from connection.execute(holds.where(edits.c.number.in_(part), edits.c.target == "comparison"))


def _living(connection: Connection, numbers: Collection[int]) -> set[int]:
    """The classes among these that are not removed."""
    query = sa.select(fine.c.id).where(fine.c.removed == 0)
    return {number for part in chunks(numbers) for number in connection.scalars(query.where(fine.c.id.in_(part)))}


def _has_content(snapshot: Snapshot | None) -> bool:
    """Whether a snapshot holds a value, a vote or a text."""
    cell_votes = (snapshot or {}).get("votes", {}).values()
    return not _is_empty_snapshot(snapshot) or any(vote is not None and vote is not NO_VOTE for vote in cell_votes)


def _lost_decisions(
    catalogue: Catalogue, names: Mapping[int, str], held: Mapping[tuple[Target, int], Sequence[Row[Any]]]
) -> tuple[str, list[Conflict]]:
    """The message about kinds and classes that hold later decisions, and the conflicts."""
    conflicts, texts = [], []
    for (target, number), rows in held.items():
        name = catalogue.by_id[number].name if target == "kind" else names[number]
        noun, many = "kind" if target == "kind" else "class", f"{len(rows)} decision{'s' if len(rows) != 1 else ''}"
        newest = max(rows, key=lambda row: row.number)
        texts.append(f"the {noun} {name!r} holds {many} made since, the last by {newest.person!r}")
        kind, label = (name, None) if target == "kind" else (None, name)
        conflicts.append(Conflict(what=target, fine=label, kind=kind, theirs=many, by=newest.person, at=newest.at))
    more = f" (and {len(texts) - 1} more such)" if len(texts) > 1 else ""
    return f"{texts[0]}{more}; undo them first, or remove it by name", conflicts[:_MAX_CONFLICTS]


def key_of(row: Row[Any]) -> Key:
    """The key of the thing that an edit of the log changed."""
    return Key(row.target, row.fine_id, row.kind_id, row.label_id, row.photo)


def _parsed(text: str | None) -> Snapshot | None:
    snapshot: Snapshot | None = None if text is None else json.loads(text)
    return snapshot


def _is_empty_snapshot(snapshot: Snapshot | None) -> bool:
    """Whether a snapshot shows no label and no note."""
    return snapshot is None or (snapshot.get("value") is None and not snapshot.get("text") and "name" not in snapshot)


def _conflicts(
    connection: Connection, catalogue: Catalogue, changed: Sequence[tuple[Key, Snapshot | None, Snapshot | None]]
) -> list[Conflict]:
    names = fine_names(connection, {number for key, _, _ in changed for number in numbers_in_key(key)})
    return [_conflict(catalogue, names, *change) for change in changed]


def numbers_in_key(key: Key) -> list[int]:
    """The numbers of the classes in a key."""
    if key.target == "comparison":
        return [thing for thing in parse_pair(key.photo or "")[1:] if isinstance(thing, int)]
    return [] if key.fine_id is None else [key.fine_id]


def comparison_words(key: Key, names: Mapping[int, str], outcome: str | None) -> str | None:
    """A comparison in short, by the names of classes or photos."""
    one, two = (names.get(thing, "?") if isinstance(thing, int) else thing for thing in parse_pair(key.photo or "")[1:])
    return pair_words(one, two, outcome)


def _conflict(
    catalogue: Catalogue, names: Mapping[int, str], key: Key, wanted: Snapshot | None, present: Snapshot | None
) -> Conflict:
    """The conflict about something that was changed again: the value that the undo wants and the current one."""
    kind = catalogue.by_id.get(key.kind_id or -1)

    def value(snapshot: Snapshot | None) -> Any:
        if snapshot is None:
            return None
        if key.target == "comparison":
            return comparison_words(key, names, snapshot["value"])
        if "value" in snapshot and kind is not None:
            return kind.value(snapshot["value"])
        return snapshot.get("text", None if snapshot.get("removed") else snapshot.get("name"))

    label = (
        kind.by_id[key.label_id].name
        if kind is not None and key.label_id is not None and key.label_id in kind.by_id
        else None
    )
    return Conflict(
        what=key.target,
        fine=names.get(key.fine_id or -1),
        kind=None if kind is None else kind.name,
        label=label,
        photo=None if key.target == "comparison" else key.photo,
        yours=value(wanted),
        theirs=value(present),
        by=(present or {}).get("by"),
        at=(present or {}).get("at"),
    )
