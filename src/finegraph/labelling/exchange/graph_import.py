"""Importing a graph into a store that has one: the plan, and its preview in words.

Classes, kinds and labels are matched by name. A kind with another mode is a new kind. The store takes over the order of
the graph, so that its graph afterwards equals the imported one. The preview compares classes, kinds, labels and values
by name and adds what only the plan knows: votes, settled disagreements, notes, photo labels, and a changed order.

A file may have votes, notes and photo labels beside its graph. An import is one action, so a cell that gets a new value
and new votes is planned once. People and photos that the file does not name keep what they have. Cost: linear in the
cells of both, in the file, and in the kinds that it names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import unknown_name
from finegraph.labelling.edits.rewriting import Rewriter, drop, kind_snapshot, label_snapshot
from finegraph.labelling.edits.undo import comparison_words, numbers_in_key
from finegraph.labelling.exchange.diffing import diff_graphs
from finegraph.labelling.exchange.graphs import encoded_cells, read_graph
from finegraph.labelling.exchange.label_studio import Content
from finegraph.labelling.store.catalogue import Catalogue, KindEntry, LabelEntry
from finegraph.labelling.store.checks import check_note, check_photo
from finegraph.labelling.store.current_rows import (
    FINE_FIELDS,
    cell_snapshot,
    fine_names,
    load_cells,
    load_votes,
    next_number,
    photo_snapshot,
    row_snapshot,
)
from finegraph.labelling.store.graph_columns import StoreColumn
from finegraph.labelling.store.log import check_person, now
from finegraph.labelling.store.plan import NO_VOTE, Key, Plan, Planned, Snapshot
from finegraph.labelling.store.records import Change, ImportPreview, PhotoLabel
from finegraph.labelling.store.sql_tables import fine, kinds, labels, notes, photo_labels
from finegraph.labelling.store.values import parse_pair, value_text

Numbers = Mapping[str, int]
"""The number of each class."""
Kinds = Mapping[str, KindEntry]
"""The kinds by name, as they will be when the plan is carried out."""


def plan_import(
    connection: Connection, catalogue: Catalogue, classes: Sequence[str], columns: Sequence[StoreColumn], person: str
) -> tuple[Plan, dict[str, int], dict[str, KindEntry]]:
    """The plan after which the store holds exactly these classes and columns; their numbers, and the kinds after it."""
    plan = Plan("")
    kinds_after: dict[str, KindEntry] = {}
    numbers = _plan_fine(connection, plan, classes)
    next_kind, next_label = next_number(connection, kinds.c.id), next_number(connection, labels.c.id)
    matched: set[int] = set()
    for place, column in enumerate(columns):
        kind = catalogue.by_name.get(column.name)
        if kind is not None and kind.mode != column.mode:
            kind = None
        snapshot = {"name": column.name, "position": place, "mode": column.mode, "prior": column.prior, "removed": 0}
        if kind is None:
            number, next_kind = next_kind, next_kind + 1
            plan.add(Key("kind", kind_id=number), {**snapshot, "removed": 1}, snapshot)
        else:
            number = kind.id
            matched.add(number)
            _change(plan, Key("kind", kind_id=number), kind_snapshot(kind), snapshot)
        ids, next_label = _plan_labels(plan, kind, number, column.labels, next_label)
        _plan_cells(connection, plan, kind, number, column, ids, numbers, person)
        kinds_after[column.name] = _entry_of(number, place, column, ids)
    for kind in catalogue.kinds:
        if kind.id not in matched:
            before = kind_snapshot(kind)
            plan.add(Key("kind", kind_id=kind.id), before, {**before, "removed": 1})
    return plan, dict(zip(classes, numbers, strict=True)), kinds_after


def _entry_of(number: int, place: int, column: StoreColumn, ids: Sequence[int]) -> KindEntry:
    """A kind after the import."""
    entries = (
        LabelEntry(label, name, order, False, 0)
        for order, (label, name) in enumerate(zip(ids, column.labels, strict=True))
    )
    return KindEntry(number, column.name, place, column.mode, column.prior, False, 0, tuple(entries))


def _change(plan: Plan, key: Key, before: Snapshot, after: Snapshot) -> None:
    if before != after:
        plan.add(key, before, after)


def _plan_fine(connection: Connection, plan: Plan, names: Sequence[str]) -> list[int]:
    """Plan the classes; the number of each, in the order of the graph."""
    present = {row.name: row for row in connection.execute(sa.select(fine).where(fine.c.removed == 0))}
    number = next_number(connection, fine.c.id)
    numbers = []
    for place, name in enumerate(names):
        row = present.pop(name, None)
        snapshot = {"name": name, "position": place, "removed": 0}
        if row is None:
            numbers.append(number)
            plan.add(Key("fine", fine_id=number), {**snapshot, "removed": 1}, snapshot)
            number += 1
        else:
            numbers.append(row.id)
            _change(plan, Key("fine", fine_id=row.id), row_snapshot(row, *FINE_FIELDS), snapshot)
    for row in present.values():
        before = row_snapshot(row, *FINE_FIELDS)
        plan.add(Key("fine", fine_id=row.id), before, {**before, "removed": 1})
    return numbers


def _plan_labels(
    plan: Plan, kind: KindEntry | None, kind_id: int, names: Sequence[str], number: int
) -> tuple[list[int], int]:
    """Plan the labels of a kind; the number of each, and the next free one."""
    present = {label.name: label for label in kind.labels} if kind else {}
    ids = []
    for place, name in enumerate(names):
        label = present.pop(name, None)
        snapshot = {"name": name, "position": place, "removed": 0}
        if label is None:
            ids.append(number)
            plan.add(Key("label", kind_id=kind_id, label_id=number), {**snapshot, "removed": 1}, snapshot)
            number += 1
        else:
            ids.append(label.id)
            _change(plan, Key("label", kind_id=kind_id, label_id=label.id), label_snapshot(label), snapshot)
    for label in present.values():
        key = Key("label", kind_id=kind_id, label_id=label.id)
        plan.add(key, label_snapshot(label), {**label_snapshot(label), "removed": 1})
    return ids, number


def _plan_cells(
    connection: Connection,
    plan: Plan,
    kind: KindEntry | None,
    kind_id: int,
    column: StoreColumn,
    ids: Sequence[int],
    numbers: Sequence[int],
    person: str,
) -> None:
    """Plan the cells of a kind that differ, and the votes and photo labels that name removed labels."""
    wanted = dict(zip(numbers, encoded_cells(column, ids, column.mode), strict=True))
    if kind is None:
        at = now()
        for number, value in wanted.items():
            if value is not None:
                after = {**cell_snapshot(None, {}), "value": value, "by": person, "at": at}
                plan.add(Key("cell", fine_id=number, kind_id=kind_id), cell_snapshot(None, {}), after)
        return
    rewriter = Rewriter(connection, Plan(""), kind)
    removed = kind.living - set(ids)
    if removed:
        rewriter.rewrite(lambda value, _: drop(value, removed, kind.mode))
    at, dropped = now(), rewriter.plan.changes
    for key, change in dropped.items():
        if key.target == "photo":
            plan.add(key, change.before, change.after)
    for number in sorted({*wanted, *rewriter.cells, *(key.fine_id or 0 for key in dropped if key.target == "cell")}):
        key = Key("cell", fine_id=number, kind_id=kind_id)
        row, drops = rewriter.cells.get(number), dropped.get(key)
        changed = drops.after["votes"] if drops and drops.after else {}
        old = row.value if row else None
        new = wanted.get(number, drops.after["value"] if drops and drops.after else old)
        if new != old or changed:
            before = cell_snapshot(row, drops.before["votes"] if drops and drops.before else {})
            after = cell_snapshot(row, changed) | {"value": new}
            if new != old:
                after |= {"by": person, "at": at, "resolved": 0}
            plan.add(key, before, after)


def preview_import(
    connection: Connection, catalogue: Catalogue, content: Content, plan: Plan, kinds: Mapping[str, KindEntry]
) -> ImportPreview:
    """What a planned import would change.

    Args:
        connection: a connection to the store.
        catalogue: its kinds now.
        content: the content to import.
        plan: the plan of the import.
        kinds: the kinds by name as they are after it.
    """
    changes = list(diff_graphs(read_graph(connection, catalogue), content.graph).changes)
    entries = {kind.id: kind for kind in kinds.values()}
    names = _names(connection, plan)
    for change in plan.of("cell"):
        if change.key.kind_id in entries:
            changes += _votes(change, names[change.key.fine_id or 0], catalogue, entries[change.key.kind_id])
    for change in plan.of("note"):
        before, after = ((snapshot or {}).get("text", "") for snapshot in (change.before, change.after))
        name = names[change.key.fine_id or 0]
        changes.append(Change(what="note", fine=name, before=before, after=after, text=f"note of {name!r}: {after}"))
    for change in plan.of("photo"):
        if change.key.kind_id in entries:
            changes.append(_photo(change, catalogue, entries[change.key.kind_id]))
    if plan.changes and not changes:
        changes.append(Change(what="order", text="the kinds or labels stand in another order"))
    return _preview(changes, plan)


def preview_photos(catalogue: Catalogue, plan: Plan) -> ImportPreview:
    """What a planned import of photo labels would change."""
    return _preview(
        [_photo(change, catalogue, catalogue.by_id[change.key.kind_id or 0]) for change in plan.of("photo")], plan
    )


def preview_comparisons(connection: Connection, catalogue: Catalogue, plan: Plan) -> ImportPreview:
    """What a planned import of comparisons would change."""
    compared = {number for change in plan.of("comparison") for number in numbers_in_key(change.key)}
    names = fine_names(connection, compared)
    changes = []
    for change in plan.of("comparison"):
        kind = catalogue.by_id[change.key.kind_id or 0].name
        old, new = (
            comparison_words(change.key, names, (snapshot or {}).get("value")) or "nothing"
            for snapshot in (change.before, change.after)
        )
        who = parse_pair(change.key.photo or "")[0] or "you"
        text = f"comparison of {who} in {kind!r}: {old} -> {new}"
        changes.append(Change(what="comparison", kind=kind, before=old, after=new, text=text))
    return _preview(changes, plan)


def _preview(changes: Sequence[Change], plan: Plan) -> ImportPreview:
    counts = dict(Counter(change.what for change in changes))
    return ImportPreview(changes=tuple(changes), counts=counts, digest=plan.digest)


def _names(connection: Connection, plan: Plan) -> dict[int, str]:
    """The names of all classes in a plan, including those that it adds."""
    names = fine_names(connection, {key.fine_id for key in plan.changes if key.fine_id is not None})
    added = {change.key.fine_id: change.after["name"] for change in plan.of("fine") if change.after}
    return names | {number: name for number, name in added.items() if number is not None}


def _text(catalogue: Catalogue, kind: KindEntry, encoded: str | None, *, before: bool) -> str:
    """A stored value in words; the value before may name labels that the import removes."""
    entry = catalogue.by_id.get(kind.id, kind) if before else kind
    return value_text(entry.value(encoded)) or "unknown"


def _votes(change: Planned, fine: str, catalogue: Catalogue, kind: KindEntry) -> Iterator[Change]:
    """The votes on a cell that change, and whether it becomes settled."""
    assert change.before is not None, "the snapshot of a cell that was never set is one too"
    assert change.after is not None, "a cell may become unknown, but never goes"
    place = f"{fine!r}, {kind.name!r}"
    for person, vote in change.after["votes"].items():
        old = change.before["votes"].get(person, NO_VOTE)
        if old != vote:
            old_text = "none" if old is NO_VOTE else _text(catalogue, kind, old, before=True)
            new_text = "none" if vote is NO_VOTE else _text(catalogue, kind, vote, before=False)
            text = f"vote of {person} on {place}: {old_text} -> {new_text}"
            yield Change(what="vote", fine=fine, kind=kind.name, before=old_text, after=new_text, text=text)
    if change.after["resolved"] and not change.before["resolved"]:
        yield Change(what="settled", fine=fine, kind=kind.name, text=f"settled: {place}")


def _photo(change: Planned, catalogue: Catalogue, kind: KindEntry) -> Change:
    """A label of a photo that changes."""
    old, new = ((snapshot or {}).get("value") for snapshot in (change.before, change.after))
    old_text = _text(catalogue, kind, old, before=True) if old is not None else "as its class"
    new_text = _text(catalogue, kind, new, before=False) if new is not None else "as its class"
    changed = f"{old_text} -> {new_text}" if old_text != new_text else f"{new_text}, of another class"
    text = f"photo {change.key.photo!r}, {kind.name!r}: {changed}"
    return Change(what="photo", kind=kind.name, before=old_text, after=new_text, text=text)


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
    add_photo_labels(connection, plan, content.photos, fine, kinds, person)


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
    """Plan the votes on one cell, after those that are already planned for it."""
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


def add_photo_labels(
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
