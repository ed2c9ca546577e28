"""Carrying out a plan: it is written to the log and to the current state, in one transaction.

The same checks hold after every plan: names are valid and distinct, each kind has labels, and no cell names a removed
label. So every state of the store is a valid graph. Cost: linear in the things that change.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from finegraph.errors import InputError
from finegraph.graph.names import name_fault
from finegraph.labelling.store.catalogue import Catalogue, KindEntry, read_catalogue
from finegraph.labelling.store.checks import (
    check_class_names,
    check_living,
    check_structure,
    refuse_labels_in_use,
    refuse_removed_labels,
)
from finegraph.labelling.store.current_rows import chunks, load_beliefs, load_votes, name_form, search_form
from finegraph.labelling.store.plan import NO_VOTE, Key, Plan, Planned, Snapshot
from finegraph.labelling.store.records import Target
from finegraph.labelling.store.sealed_rows import add_action, forget_rows, last_action, remove_rows, write_rows
from finegraph.labelling.store.sql_tables import (
    batches,
    cells,
    comparisons,
    edits,
    fine,
    kinds,
    labels,
    meta,
    notes,
    photo_labels,
    suggestions,
    undone,
    votes,
)
from finegraph.labelling.store.values import dump, parse_pair, parts_of

_MAX_PERSON_LENGTH, _MAX_ID_LENGTH = 80, 200
_BY_ID = sa.select(batches).where(batches.c.edit_id == sa.bindparam("the_id"))
_STRUCTURE: tuple[Target, ...] = ("fine", "kind", "label")


def now() -> str:
    """The current time in the format of the log."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def check_person(person: str) -> str:
    """The name of a person, without white space at its ends.

    Raises:
        InputError: it cannot be a name.
    """
    name = person.strip() if isinstance(person, str) else person
    fault = name_fault(name) or (f"at most {_MAX_PERSON_LENGTH} characters" if len(name) > _MAX_PERSON_LENGTH else None)
    if fault:
        raise InputError(f"person: expected the name of who edits, got {str(person)[:100]!r}: {fault}")
    return name


def request_digest(action: str, person: str, request: Any) -> str:
    """A digest of a request, by which a repeated call is recognised."""
    return hashlib.sha256(dump([action, person, request]).encode("utf-8", "surrogatepass")).hexdigest()


def find_batch(connection: Connection, edit_id: str, digest: str) -> Row[Any] | None:
    """The batch that an earlier call with this id has made; None if there is none.

    Raises:
        InputError: the id belongs to another edit, or cannot be one.
    """
    if not isinstance(edit_id, str) or not 0 < len(edit_id) <= _MAX_ID_LENGTH or not edit_id.isprintable():
        raise InputError(f"edit_id: expected a text of 1 to {_MAX_ID_LENGTH} characters that is new for each edit")
    row = connection.execute(_BY_ID, {"the_id": edit_id}).first()
    if row is not None and row.digest != digest:
        raise InputError(f"edit_id: {edit_id!r} is that of another edit, made by {row.person!r}; use a new one")
    return row


@dataclass
class ActionRecord:
    """The record of an action that was carried out.

    Attributes:
        batch: the row of the action in the log.
        catalogue: the kinds after it.
        numbered: the number of each edit.
        cells: of each cell, all votes on it and the confidence of its value.
    """

    batch: dict[str, Any]
    catalogue: Catalogue
    numbered: Mapping[Key, int]
    cells: dict[Key, tuple[dict[str, str | None], float | None]]


def carry_out(
    connection: Connection,
    catalogue: Catalogue,
    plan: Plan,
    *,
    person: str,
    edit_id: str,
    digest: str,
    action: str,
) -> ActionRecord:
    """Write a plan to the log and the current state."""
    at = now()
    last_batch, last_edit, previous = last_action(connection)
    number, batch = last_edit + 1, last_batch + 1
    numbered = {change.key: number + place for place, change in enumerate(plan.changes.values())}
    structural = plan.of(*_STRUCTURE)
    if structural:
        _write_structure(connection, structural, numbered)
        catalogue = read_catalogue(connection)
        check_structure(catalogue, structural)
        check_class_names(connection, structural)
        refuse_labels_in_use(connection, catalogue, plan)
        _forget_suggestions(connection, structural)
    counted = any(change.key.target == "kind" for change in structural)
    written = _write_cells(
        connection, catalogue, plan, numbered, at, structural=bool(structural), count_known=not counted
    )
    if counted:
        count_known(connection)
    _write_rest(connection, catalogue, plan, numbered)
    refuse_removed_labels(connection, catalogue, plan)
    row = {
        "number": batch,
        "edit_id": edit_id,
        "digest": digest,
        "person": person,
        "at": at,
        "action": action,
        "text": plan.text,
        "size": len(plan.changes),
        "last": number + len(plan.changes) - 1,
        "undoes": plan.undoes,
    }
    _write_log(connection, plan, numbered, row, previous)
    return ActionRecord(row, catalogue, numbered, written)


def write_first(connection: Connection, catalogue: Catalogue, plan: Plan) -> None:
    """Write the votes, notes and photo labels of the first import, which is a single entry of the log."""
    numbered = dict.fromkeys(plan.changes, 0)
    _write_cells(connection, catalogue, plan, numbered, now(), structural=False, count_known=False)
    _write_rest(connection, catalogue, plan, numbered)


def _forget_suggestions(connection: Connection, changes: Iterable[Planned]) -> None:
    """Delete suggestions of removed labels."""
    for change in changes:
        if change.key.target == "label" and change.after and change.after["removed"]:
            number = change.key.label_id
            texts = [suggestions.c.value.contains(f"{left}{number}{right}") for left in "[," for right in ",]"]
            of_kind = suggestions.c.kind_id == change.key.kind_id
            forget_rows(connection, suggestions, of_kind & sa.or_(*texts))


def new_structure(connection: Connection) -> None:
    """Record that kinds or labels have changed, by a new random mark."""
    write_rows(connection, meta, [{"key": "structure", "value": secrets.token_hex(8)}])


def _write_structure(connection: Connection, changes: Iterable[Planned], numbered: Mapping[Any, int]) -> None:
    """Write the rows of classes, kinds and labels."""
    rows: dict[str, list[dict[str, Any]]] = {"fine": [], "kind": [], "label": []}
    for change in changes:
        key, after = change.key, change.after
        assert after is not None, "classes, kinds and labels are marked as removed, never deleted"
        row = {**after, "version": numbered[key]}
        if key.target == "fine":
            row |= {"id": key.fine_id, "form": name_form(after["name"]), "folded": search_form(after["name"])}
        else:
            row |= {"id": key.kind_id} if key.target == "kind" else {"id": key.label_id, "kind_id": key.kind_id}
        rows[key.target].append(row)
    write_rows(connection, kinds, rows["kind"])
    write_rows(connection, labels, rows["label"])
    # The number of known cells is not part of the snapshot of a class, so an existing row keeps it.
    write_rows(connection, fine, [{**row, "known": 0} for row in rows["fine"]], keep=("known",))
    new_structure(connection)


def count_known(connection: Connection) -> None:
    """Count for each class how many kinds are known."""
    living = sa.select(kinds.c.id).where(kinds.c.removed == 0)
    count = sa.select(sa.func.count()).where(
        cells.c.fine_id == fine.c.id, cells.c.value.is_not(None), cells.c.kind_id.in_(living)
    )
    connection.execute(sa.update(fine).values(known=count.scalar_subquery()))


# ---- cells -----------------------------------------------------------------------------------------------------------


def _write_cells(
    connection: Connection,
    catalogue: Catalogue,
    plan: Plan,
    numbered: Mapping[Any, int],
    at: str,
    *,
    structural: bool,
    count_known: bool,
) -> dict[Key, tuple[dict[str, str | None], float | None]]:
    """Write cells and votes, with the disagreement and the confidence that follow from them."""
    written: dict[Key, tuple[dict[str, str | None], float | None]] = {}
    by_kind: dict[int, list[Planned]] = {}
    for change in plan.of("cell"):
        by_kind.setdefault(change.key.kind_id or 0, []).append(change)
    for kind_id, changes in by_kind.items():
        kind = catalogue.by_id[kind_id]
        ids = [change.key.fine_id or 0 for change in changes]
        if all(change.key in plan.votes for change in changes):
            votes_by_class = {change.key.fine_id or 0: dict(plan.votes[change.key]) for change in changes}
        else:
            votes_by_class = load_votes(connection, kind_id, ids)
        believed = load_beliefs(connection, kind_id, ids)
        rows, new_votes, removed_votes, known_steps = [], [], [], []
        for change in changes:
            after, number = change.after, change.key.fine_id or 0
            assert after is not None, "a cell may become unknown, but never goes"
            _check_living(kind, after)
            key = {"kind_id": kind_id, "fine_id": number}
            for person, vote in after["votes"].items():
                if vote is NO_VOTE:
                    removed_votes.append((kind_id, number, person))
                    votes_by_class.get(number, {}).pop(person, None)
                else:
                    new_votes.append({**key, "person": person, "value": vote, "at": at})
                    votes_by_class.setdefault(number, {})[person] = vote
            after["disagreement"] = int(not after["resolved"] and disagree(votes_by_class.get(number, {}).values()))
            sure = confidence(kind, after["value"], believed.get(number))
            written[change.key] = votes_by_class.get(number, {}), sure
            columns = {name: after[name] for name in ("value", "by", "at", "resolved", "disagreement")}
            rows.append({**key, **columns, "confidence": sure, "version": numbered[change.key]})
            step = int(after["value"] is not None) - int(
                change.before is not None and change.before["value"] is not None
            )
            if step and not kind.removed:
                known_steps.append({"the_fine": number, "step": step})
        write_rows(connection, cells, rows)
        # A change of the structure is not a new decision of the voters, so the time of their votes stays.
        write_rows(connection, votes, new_votes, keep=("at",) if structural else ())
        remove_rows(connection, votes, removed_votes)
        if known_steps and count_known:
            counted = sa.update(fine).where(fine.c.id == sa.bindparam("the_fine"))
            connection.execute(counted.values(known=fine.c.known + sa.bindparam("step")), known_steps)
    return written


def disagree(values: Iterable[str | None]) -> bool:
    """Whether votes differ; a vote for unknown contradicts nothing."""
    return len({value for value in values if value is not None}) > 1


def confidence(kind: KindEntry, value: str | None, believed: str | None) -> float | None:
    """The model's probability of a value; for labels that hold together, that of the least probable one."""
    if value is None or believed is None:
        return None
    probabilities = {int(label): float(p) for label, p in json.loads(believed).items()}
    chosen = {label for label, _ in parts_of(value)}
    if kind.mode == "one":
        return min(1.0, sum(probabilities.get(label, 0.0) for label in chosen))
    stated = [p if label in chosen else 1.0 - p for label, p in probabilities.items() if label in kind.living]
    return min(stated) if stated else None


def _check_living(kind: KindEntry, snapshot: Snapshot) -> None:
    """Refuse values with removed labels; for a removed kind, `refuse_removed_labels` does so when it is restored."""
    for value in [snapshot["value"], *snapshot["votes"].values()]:
        if not kind.removed and value:
            check_living(kind, value)


# ---- the rest --------------------------------------------------------------------------------------------------------


def _write_rest(connection: Connection, catalogue: Catalogue, plan: Plan, numbered: Mapping[Any, int]) -> None:
    """Write notes, photo labels and comparisons."""
    note_rows = [
        {
            "fine_id": change.key.fine_id,
            **(change.after or {"text": "", "by": None, "at": None}),
            "version": numbered[change.key],
        }
        for change in plan.of("note")
    ]
    write_rows(connection, notes, note_rows)
    photos = []
    for change in plan.of("photo"):
        after = change.after or {"value": None, "fine": None, "by": None, "at": None}
        _check_living(catalogue.by_id[change.key.kind_id or 0], {"value": after["value"], "votes": {}})
        row = {"kind_id": change.key.kind_id, "photo": change.key.photo, "fine_id": after["fine"]}
        photos.append({**row, **{n: after[n] for n in ("value", "by", "at")}, "version": numbered[change.key]})
    write_rows(connection, photo_labels, photos)
    compared = []
    for change in plan.of("comparison"):
        after = change.after or {**(change.before or {}), "value": None, "at": None}
        pair = change.key.photo or ""
        row = {"kind_id": change.key.kind_id, "pair": pair, "person": parse_pair(pair)[0]}
        row |= {"one_id": after["one"], "two_id": after["two"], "value": after["value"], "at": after["at"]}
        compared.append({**row, "version": numbered[change.key]})
    write_rows(connection, comparisons, compared)


def _write_log(
    connection: Connection, plan: Plan, numbered: Mapping[Any, int], action: Mapping[str, Any], previous: str
) -> None:
    """Write the action and its edits, and which ones are undone now; `previous` is the seal of the action before."""
    batch = action["number"]
    rows = []
    for change in plan.changes.values():
        rows.append(
            {
                **change.key._asdict(),
                "number": numbered[change.key],
                "batch": batch,
                "before": None if change.before is None else dump(change.before),
                "after": None if change.after is None else dump(change.after),
                "undoes": change.undoes,
            }
        )
    add_action(connection, previous, action, rows)
    _mark_undone(connection, [c.undoes for c in plan.changes.values() if c.undoes is not None], batch)
    step, gone = [c.redoes for c in plan.changes.values() if c.redoes is not None], False
    while step:
        # Undoing an undo restores its edits; if these are an undo themselves, their edits become undone again, etc.
        if gone:
            _mark_undone(connection, step, batch)
        else:
            remove_rows(connection, undone, [(number,) for number in step])
        step, gone = _undone_by(connection, step), not gone


def _mark_undone(connection: Connection, numbers: Collection[int], batch: int) -> None:
    write_rows(connection, undone, [{"edit": number, "batch": batch} for number in numbers])


def _undone_by(connection: Connection, numbers: Collection[int]) -> list[int]:
    """The edits that some edits undid; none for edits that are not an undo."""
    query = sa.select(edits.c.undoes).where(edits.c.undoes.is_not(None))
    return [
        int(number) for part in chunks(numbers) for number in connection.scalars(query.where(edits.c.number.in_(part)))
    ]
