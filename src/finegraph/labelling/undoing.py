"""Undo: the pictures of an action, swapped. It is an action itself, so it is logged and can be undone (that is redo).

What was changed again since, or settled, is not overwritten: the undo is refused with both values. Where somebody else
has come to the same decision afterwards, their decision stays and only the votes of the undone edit go. Cost: linear in
the edits undone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from finegraph.errors import ConflictError, InputError
from finegraph.labelling.catalogue import Catalogue
from finegraph.labelling.plan import Image, Key, Plan, compared
from finegraph.labelling.records import Conflict
from finegraph.labelling.rows import check_number, current_images, fine_names, load_votes
from finegraph.labelling.tables import batches, edits, undone, votes

_MOST_CONFLICTS = 100


def plan_undo(connection: Connection, catalogue: Catalogue, batch: int, only: int | None = None) -> Plan:
    """The plan that undoes an action, or one edit of it.

    Args:
        connection: where the store is.
        catalogue: its kinds.
        batch: the action.
        only: the number of the edit, where not all of them are meant.

    Raises:
        InputError: there is no such action, it is undone already, or it is the first import.
        ConflictError: something that it changed was changed again since.
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
    plan = Plan(_text(action, only))
    _fill(connection, catalogue, plan, rows)
    return plan


def _text(action: Row[Any], only: int | None) -> str:
    """The undo in a sentence; the undo of an undo is called redo."""
    if only is not None:
        return f"undid one edit of: {action.text}"
    if action.undoes is not None and action.text.startswith(("undid: ", "redid: ")):
        verb, _, rest = action.text.partition(": ")
        return f"{'redid' if verb == 'undid' else 'undid'}: {rest}"
    return f"undid: {action.text}"


def _fill(connection: Connection, catalogue: Catalogue, plan: Plan, rows: Sequence[Row[Any]]) -> None:
    """Add the swapped pictures of edits to a plan."""
    after = {key_of(row): _image(row.after) for row in rows}
    before = {key_of(row): _image(row.before) for row in rows}
    voters = {key: list(image["votes"]) for key, image in after.items() if key.target == "cell" and image is not None}
    present = current_images(connection, after, voters)
    kept = _agreed(connection, {key_of(row): (row.number, after[key_of(row)]) for row in rows})
    changed = []
    for row in rows:
        key = key_of(row)
        if compared(present[key]) != compared(after[key]) and not (
            _is_nothing(present[key]) and _is_nothing(after[key])
        ):
            changed.append((key, before[key], present[key]))
            continue
        target = before[key]
        if key in kept and target is not None and present[key] is not None:
            target = {**target, **kept[key]}
        plan.add(key, present[key], target, undoes=row.number, redoes=row.undoes)
    if changed:
        conflicts = _conflicts(connection, catalogue, changed[:_MOST_CONFLICTS])
        first = conflicts[0]
        place = ", ".join(repr(part) for part in (first.fine, first.kind, first.label, first.photo) if part is not None)
        raise ConflictError(
            f"{place}: changed again since ({len(changed)} such); undo the later change first, or decide anew",
            conflicts,
        )


def _agreed(connection: Connection, after: Mapping[Key, tuple[int, Image | None]]) -> dict[Key, Image]:
    """Cells whose value somebody else has voted for after the edit: what of their picture stays."""
    by_kind: dict[int, dict[Key, tuple[int, Image]]] = {}
    for key, (number, image) in after.items():
        # An edit without votes, such as an import, has set the value as well.
        if key.target == "cell" and image and (not image["votes"] or image["value"] in image["votes"].values()):
            by_kind.setdefault(key.kind_id or 0, {})[key] = (number, image)
    found: dict[Key, Image] = {}
    for kind_id, own in by_kind.items():
        given = load_votes(connection, kind_id, [key.fine_id or 0 for key in own])
        for key, (number, image) in own.items():
            said = given.get(key.fine_id or 0, {})
            others = {name for name, vote in said.items() if name not in image["votes"] and vote == image["value"]}
            if others and (later := _voted_after(connection, key, number, others)):
                found[key] = {"value": image["value"], **later}
    return found


def _voted_after(connection: Connection, key: Key, number: int, people: Collection[str]) -> Image | None:
    """Who of some people was the last to vote on a cell after an edit, and when."""
    mine = (edits.c.fine_id == key.fine_id) & (edits.c.kind_id == key.kind_id) & (edits.c.target == "cell")
    query = sa.select(edits.c.after).where(mine, edits.c.number > number).order_by(edits.c.number.desc())
    for text in connection.scalars(query):
        for name in json.loads(text)["votes"]:
            if name in people:
                vote = (votes.c.fine_id == key.fine_id) & (votes.c.kind_id == key.kind_id) & (votes.c.person == name)
                return {"by": name, "at": connection.scalar(sa.select(votes.c.at).where(vote))}
    return None


def key_of(row: Row[Any]) -> Key:
    """What an edit of the log has changed."""
    return Key(row.target, row.fine_id, row.kind_id, row.label_id, row.photo)


def _image(text: str | None) -> Image | None:
    image: Image | None = None if text is None else json.loads(text)
    return image


def _is_nothing(image: Image | None) -> bool:
    """Whether a picture shows no label and no note."""
    return image is None or (image.get("value") is None and not image.get("text") and "name" not in image)


def _conflicts(
    connection: Connection, catalogue: Catalogue, changed: Sequence[tuple[Key, Image | None, Image | None]]
) -> list[Conflict]:
    names = fine_names(connection, {key.fine_id for key, _, _ in changed if key.fine_id is not None})
    return [_conflict(catalogue, names, *one) for one in changed]


def _conflict(
    catalogue: Catalogue, names: Mapping[int, str], key: Key, wanted: Image | None, present: Image | None
) -> Conflict:
    """Both values of something that was changed again."""
    kind = catalogue.by_id.get(key.kind_id or -1)

    def value(image: Image | None) -> Any:
        if image is None:
            return None
        if "value" in image and kind is not None:
            return kind.value(image["value"])
        return image.get("text", None if image.get("removed") else image.get("name"))

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
        photo=key.photo,
        yours=value(wanted),
        theirs=value(present),
        by=(present or {}).get("by"),
        at=(present or {}).get("at"),
    )
