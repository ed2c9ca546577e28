"""Plans of merging kinds into one, and of splitting one into several.

Merging keeps the first kind and its number; the labels of the others become labels of it, those of the same name the
same one. If two kinds say different things of a class, the cell names both as possible, and the preview says so. A
cell of mode `all` also says which labels do not hold; so if one of such kinds is unknown, the merged one is.
Splitting moves labels to new kinds; each cell keeps in each kind the labels that went there. One pass over the cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import reduce

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import InputError
from finegraph.labelling.edits.changes import MergeKinds, SplitKind
from finegraph.labelling.edits.rewriting import Rewriter, drop, kind_snapshot, label_snapshot, replace
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.current_rows import cell_snapshot, load_cells, load_votes, next_number, photo_snapshot
from finegraph.labelling.store.plan import NO_VOTE, Key, Plan
from finegraph.labelling.store.sql_tables import kinds, labels, photo_labels
from finegraph.labelling.store.values import encode_parts, parts_of


def plan_merge_kinds(connection: Connection, catalogue: Catalogue, change: MergeKinds, person: str) -> Plan:
    """The plan of merging kinds.

    Raises:
        InputError: fewer than two kinds, or kinds whose cells have different forms.
    """
    merged = [catalogue.kind(name) for name in dict.fromkeys(change.kinds)]
    if len(merged) < 2:
        raise InputError("merging kinds: expected at least two of them")
    first, others = merged[0], merged[1:]
    for kind in others:
        if kind.mode != first.mode:
            raise InputError(
                f"{first.name!r} and {kind.name!r} cannot be merged: the cells of one name a single label, those of "
                "the other all labels that hold"
            )
    plan = Plan(f"merged the kinds {', '.join(repr(kind.name) for kind in merged)} into {change.into!r}")
    snapshot = kind_snapshot(first)
    plan.add(Key("kind", kind_id=first.id), snapshot, {**snapshot, "name": change.into})
    for kind in others:
        plan.add(Key("kind", kind_id=kind.id), kind_snapshot(kind), {**kind_snapshot(kind), "removed": 1})
    _merge_cells(connection, plan, first, {kind: _merged_labels(connection, plan, first, kind) for kind in others})
    return plan


def _merged_labels(connection: Connection, plan: Plan, first: KindEntry, other: KindEntry) -> dict[int, int]:
    """The label of the first kind for each label of another one; new ones are added to the plan."""
    added = {change.after["name"]: change.key.label_id for change in plan.of("label") if change.after}
    position = max((label.position for label in first.all_labels), default=-1) + 1 + len(added)
    number = next_number(connection, labels.c.id) + len(added)
    targets: dict[int, int] = {}
    for label in other.labels:
        target = first.ids.get(label.name, added.get(label.name))
        if target is None:
            target, new = number, {"name": label.name, "position": position}
            key = Key("label", kind_id=first.id, label_id=number)
            plan.add(key, {**new, "removed": 1}, {**new, "removed": 0})
            number, position = number + 1, position + 1
        targets[label.id] = target
    return targets


def _merge_cells(
    connection: Connection, plan: Plan, first: KindEntry, others: Mapping[KindEntry, Mapping[int, int]]
) -> None:
    """Put the cells, votes and photo labels of several kinds together in the first."""
    rows, given = load_cells(connection, first.id), load_votes(connection, first.id)
    values = {number: row.value for number, row in rows.items()}
    said = {number: dict(own) for number, own in given.items()}
    times: Counter[tuple[int, str | None]] = Counter()  # in how many kinds a class is known, and to each person
    _count(times, values, said)
    makers: dict[int, tuple[str | None, str | None]] = {}
    differing = 0
    for kind, targets in others.items():
        theirs, votes = load_cells(connection, kind.id), load_votes(connection, kind.id)
        _count(times, {number: row.value for number, row in theirs.items()}, votes)
        for number, row in theirs.items():
            new = row.value and replace(row.value, targets, kind.mode)
            if new is None:
                continue
            old = values.get(number)
            differing += old is not None and old != new and kind.mode == "one"
            values[number] = new if old is None else _together(old, new, kind)
            if old is None:
                makers[number] = (row.by, row.at)
        for number, own in votes.items():
            for person, vote in own.items():
                mine = said.setdefault(number, {})
                new, old = vote and replace(vote, targets, kind.mode), mine.get(person)
                if old is None:
                    mine[person] = new
                elif new is not None and kind.mode == "all":
                    mine[person] = _together(old, new, kind)
    if first.mode == "all":
        _keep_unknown(plan, values, said, times, 1 + len(others))
    for number in sorted({*values, *said}):
        cell, before = rows.get(number), given.get(number, {})
        changed = {person: vote for person, vote in said.get(number, {}).items() if before.get(person, NO_VOTE) != vote}
        if values.get(number) != (cell.value if cell else None) or changed:
            after = {**cell_snapshot(cell, changed), "value": values.get(number)}
            if number in makers:
                after["by"], after["at"] = makers[number]
            old_votes = {person: before.get(person, NO_VOTE) for person in changed}
            plan.add(Key("cell", fine_id=number, kind_id=first.id), cell_snapshot(cell, old_votes), after)
    if differing:
        plan.warnings.append(f"the kinds say different things of {differing} classes; both become possible there")
    (_merge_group_photos if first.mode == "all" else _merge_photos)(connection, plan, first, others)


def _count(
    times: Counter[tuple[int, str | None]],
    values: Mapping[int, str | None],
    said: Mapping[int, Mapping[str, str | None]],
) -> None:
    """Count the classes that are known in a kind, and those that are to each person."""
    times.update((number, None) for number, value in values.items() if value is not None)
    times.update((number, person) for number, own in said.items() for person, vote in own.items() if vote is not None)


def _keep_unknown(
    plan: Plan,
    values: dict[int, str | None],
    said: Mapping[int, dict[str, str | None]],
    times: Counter[tuple[int, str | None]],
    kinds_merged: int,
) -> None:
    """Make cells unknown that are known in some of the kinds only: labels of the other kinds may still hold."""
    partly = [number for number, value in values.items() if value is not None and times[number, None] < kinds_merged]
    values.update(dict.fromkeys(partly))
    for number, own in said.items():
        own.update((person, None) for person in own if times[number, person] < kinds_merged)
    if partly:
        plan.warnings.append(
            f"{len(partly)} classes are known in some of the kinds only; they become unknown, since whether the labels "
            "of the others hold is not known"
        )


def _together(one: str, other: str, kind: KindEntry) -> str | None:
    """Both values of a cell in one: all labels, with halved weights if they have weights."""
    if one == other:
        return one
    pairs = [parts_of(one), parts_of(other)]
    weights: dict[int, float] = {}
    for parts in pairs:
        for label, weight in parts:
            weights[label] = weights.get(label, 0.0) + 0.5 * (1.0 / len(parts) if weight is None else weight)
    if kind.mode == "all" or all(weight is None for parts in pairs for _, weight in parts):
        return encode_parts([(label, None) for label in weights], kind.mode)
    return encode_parts(list(weights.items()), kind.mode)


def _merge_photos(
    connection: Connection, plan: Plan, first: KindEntry, others: Mapping[KindEntry, Mapping[int, int]]
) -> None:
    """Take over the photo labels of the other kinds, if the first has none."""
    query = sa.select(photo_labels).where(photo_labels.c.kind_id == first.id)
    own = {row.photo: row for row in connection.execute(query)}
    for kind, targets in others.items():
        for row in connection.execute(sa.select(photo_labels).where(photo_labels.c.kind_id == kind.id)):
            key = Key("photo", kind_id=first.id, photo=row.photo)
            mine = own.get(row.photo)
            if row.value is None or key in plan.changes or (mine is not None and mine.value is not None):
                continue
            after = {**photo_snapshot(row), "value": replace(row.value, targets, kind.mode)}
            plan.add(key, None if mine is None else photo_snapshot(mine), after)


def _merge_group_photos(
    connection: Connection, plan: Plan, first: KindEntry, others: Mapping[KindEntry, Mapping[int, int]]
) -> None:
    """Put the photo labels of groups together; as those of cells, they stay only if all groups have one."""
    query = sa.select(photo_labels).order_by(photo_labels.c.photo)
    own = {row.photo: row for row in connection.execute(query.where(photo_labels.c.kind_id == first.id))}
    said = {photo: [(row, row.value)] for photo, row in own.items() if row.value is not None}
    for kind, targets in others.items():
        for row in connection.execute(
            query.where(photo_labels.c.kind_id == kind.id, photo_labels.c.value.is_not(None))
        ):
            said.setdefault(row.photo, []).append((row, replace(row.value, targets, kind.mode)))
    partly = 0
    for photo, parts in said.items():
        value, mine = None, own.get(photo)
        if len(parts) == 1 + len(others):
            value = reduce(lambda one, other: _together(one, other, first), (part for _, part in parts))
        partly += value is None
        if value != (mine.value if mine is not None else None):
            after = {**photo_snapshot(parts[0][0]), "value": value}
            plan.add(Key("photo", kind_id=first.id, photo=photo), None if mine is None else photo_snapshot(mine), after)
    if partly:
        plan.warnings.append(f"{partly} photos have labels in some of the kinds only; they lose them")


# ---- splitting -------------------------------------------------------------------------------------------------------


def plan_split_kind(connection: Connection, catalogue: Catalogue, change: SplitKind, person: str) -> Plan:
    """The plan of splitting a kind.

    Raises:
        InputError: a label is named twice or a new kind has no labels.
    """
    kind = catalogue.kind(change.name)
    moved = [name for names in change.into.values() for name in names]
    if not all(change.into.values()) or len(set(moved)) != len(moved) or not moved:
        raise InputError("splitting a kind: expected at least one label for each new kind, and each label once")
    for name in moved:
        kind.label(name)
    plan = Plan(f"split the kind {change.name!r} into {', '.join(map(repr, change.into))}")
    number, label = next_number(connection, kinds.c.id), next_number(connection, labels.c.id)
    position = max(one.position for one in catalogue.all_kinds) + 1
    for place, (name, names) in enumerate(change.into.items()):
        snapshot = {"name": name, "position": position + place, "mode": kind.mode, "prior": kind.prior}
        plan.add(Key("kind", kind_id=number + place), {**snapshot, "removed": 1}, {**snapshot, "removed": 0})
        targets = {}
        for order, own in enumerate(names):
            new = {"name": own, "position": order}
            key = Key("label", kind_id=number + place, label_id=label)
            plan.add(key, {**new, "removed": 1}, {**new, "removed": 0})
            targets[kind.ids[own]] = label
            label += 1
        _move(connection, plan, kind, number + place, targets)
    _leave(connection, plan, kind, {kind.ids[name] for name in moved})
    return plan


def _move(connection: Connection, plan: Plan, kind: KindEntry, new_kind: int, targets: Mapping[int, int]) -> None:
    """Give a new kind the part of each cell that belongs to it."""
    others = set(kind.by_id) - set(targets)

    def part(value: str | None) -> str | None:
        left = value and drop(value, others, kind.mode)
        return left and replace(left, targets, kind.mode)

    rows, given = load_cells(connection, kind.id), load_votes(connection, kind.id)
    for number in sorted({*rows, *given}):
        row = rows.get(number)
        value = part(row.value) if row else None
        said = {person: part(vote) for person, vote in given.get(number, {}).items()}
        said = {person: vote for person, vote in said.items() if vote is not None}
        if value is None and not said:
            continue
        before = cell_snapshot(None, dict.fromkeys(said, NO_VOTE))
        after = {**cell_snapshot(row, said), "value": value, "disagreement": 0}
        plan.add(Key("cell", fine_id=number, kind_id=new_kind), before, after)
    for photo in connection.execute(sa.select(photo_labels).where(photo_labels.c.kind_id == kind.id)):
        if (value := part(photo.value)) is not None:
            plan.add(Key("photo", kind_id=new_kind, photo=photo.photo), None, {**photo_snapshot(photo), "value": value})


def _leave(connection: Connection, plan: Plan, kind: KindEntry, moved: Collection[int]) -> None:
    """Remove the moved labels from the old kind, and the kind itself if none is left."""
    if len(moved) == len(kind.labels):
        plan.add(Key("kind", kind_id=kind.id), kind_snapshot(kind), {**kind_snapshot(kind), "removed": 1})
        return
    for label in kind.labels:
        if label.id in moved:
            key = Key("label", kind_id=kind.id, label_id=label.id)
            plan.add(key, label_snapshot(label), {**label_snapshot(label), "removed": 1})
    Rewriter(connection, plan, kind).rewrite(lambda value, _: drop(value, moved, kind.mode))
