"""Plans of merging kinds into one, and of splitting one into several.

Merging keeps the first kind and its number. It takes over the labels of the others; labels of the same name become one.
If two kinds give a class different labels, the cell names both as possible, and the preview warns. A cell of mode `all`
also states which labels do not hold; so if a class is unknown in one of such kinds, it is unknown in the merged one.
Splitting moves labels to new kinds; in each kind, a cell keeps the labels that moved there. Cost: one pass over the
cells.
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
    """The label of the first kind for each label of another kind; missing labels are added to the plan."""
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
    """Combine the cells, votes and photo labels of several kinds in the first."""
    rows, votes_by_class = load_cells(connection, first.id), load_votes(connection, first.id)
    values = {number: row.value for number, row in rows.items()}
    merged_votes = {number: dict(person_votes) for number, person_votes in votes_by_class.items()}
    known_counts: Counter[tuple[int, str | None]] = Counter()  # in how many kinds a class is known, and to each person
    _count(known_counts, values, merged_votes)
    makers: dict[int, tuple[str | None, str | None]] = {}
    differing = 0
    for kind, targets in others.items():
        other_rows, votes = load_cells(connection, kind.id), load_votes(connection, kind.id)
        _count(known_counts, {number: row.value for number, row in other_rows.items()}, votes)
        for number, row in other_rows.items():
            new = row.value and replace(row.value, targets, kind.mode)
            if new is None:
                continue
            old = values.get(number)
            differing += old is not None and old != new and kind.mode == "one"
            values[number] = new if old is None else _combine(old, new, kind)
            if old is None:
                makers[number] = (row.by, row.at)
        for number, person_votes in votes.items():
            for person, vote in person_votes.items():
                class_votes = merged_votes.setdefault(number, {})
                new, old = vote and replace(vote, targets, kind.mode), class_votes.get(person)
                if old is None:
                    class_votes[person] = new
                elif new is not None and kind.mode == "all":
                    class_votes[person] = _combine(old, new, kind)
    if first.mode == "all":
        _keep_unknown(plan, values, merged_votes, known_counts, 1 + len(others))
    for number in sorted({*values, *merged_votes}):
        cell, before = rows.get(number), votes_by_class.get(number, {})
        changed = {
            person: vote for person, vote in merged_votes.get(number, {}).items() if before.get(person, NO_VOTE) != vote
        }
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
    known_counts: Counter[tuple[int, str | None]],
    values: Mapping[int, str | None],
    votes_by_class: Mapping[int, Mapping[str, str | None]],
) -> None:
    """Count in how many kinds each class is known, in all and by each person."""
    known_counts.update((number, None) for number, value in values.items() if value is not None)
    known_counts.update(
        (number, person)
        for number, person_votes in votes_by_class.items()
        for person, vote in person_votes.items()
        if vote is not None
    )


def _keep_unknown(
    plan: Plan,
    values: dict[int, str | None],
    merged_votes: Mapping[int, dict[str, str | None]],
    known_counts: Counter[tuple[int, str | None]],
    kinds_merged: int,
) -> None:
    """Make cells unknown that only some of the kinds know: labels of the other kinds may still hold."""
    partly_known = [
        number for number, value in values.items() if value is not None and known_counts[number, None] < kinds_merged
    ]
    values.update(dict.fromkeys(partly_known))
    for number, person_votes in merged_votes.items():
        person_votes.update((person, None) for person in person_votes if known_counts[number, person] < kinds_merged)
    if partly_known:
        plan.warnings.append(
            f"{len(partly_known)} classes are known in some of the kinds only; they become unknown, since whether the "
            "labels of the others hold is not known"
        )


def _combine(first_value: str, second_value: str, kind: KindEntry) -> str | None:
    """Two values of a cell combined: all labels, with half their weights if they have weights."""
    if first_value == second_value:
        return first_value
    pairs = [parts_of(first_value), parts_of(second_value)]
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
    """Take over the photo labels of the other kinds where the first has none."""
    query = sa.select(photo_labels).where(photo_labels.c.kind_id == first.id)
    first_rows = {row.photo: row for row in connection.execute(query)}
    for kind, targets in others.items():
        for row in connection.execute(sa.select(photo_labels).where(photo_labels.c.kind_id == kind.id)):
            key = Key("photo", kind_id=first.id, photo=row.photo)
            first_row = first_rows.get(row.photo)
            if row.value is None or key in plan.changes or (first_row is not None and first_row.value is not None):
                continue
            after = {**photo_snapshot(row), "value": replace(row.value, targets, kind.mode)}
            plan.add(key, None if first_row is None else photo_snapshot(first_row), after)


def _merge_group_photos(
    connection: Connection, plan: Plan, first: KindEntry, others: Mapping[KindEntry, Mapping[int, int]]
) -> None:
    """Combine the photo labels of groups; like cells, they stay only if all groups have one."""
    query = sa.select(photo_labels).order_by(photo_labels.c.photo)
    first_rows = {row.photo: row for row in connection.execute(query.where(photo_labels.c.kind_id == first.id))}
    values_by_photo = {photo: [(row, row.value)] for photo, row in first_rows.items() if row.value is not None}
    for kind, targets in others.items():
        for row in connection.execute(
            query.where(photo_labels.c.kind_id == kind.id, photo_labels.c.value.is_not(None))
        ):
            values_by_photo.setdefault(row.photo, []).append((row, replace(row.value, targets, kind.mode)))
    partly_known = 0
    for photo, parts in values_by_photo.items():
        value, first_row = None, first_rows.get(photo)
        if len(parts) == 1 + len(others):
            value = reduce(lambda one, other: _combine(one, other, first), (part for _, part in parts))
        partly_known += value is None
        if value != (first_row.value if first_row is not None else None):
            after = {**photo_snapshot(parts[0][0]), "value": value}
            plan.add(
                Key("photo", kind_id=first.id, photo=photo),
                None if first_row is None else photo_snapshot(first_row),
                after,
            )
    if partly_known:
        plan.warnings.append(f"{partly_known} photos have labels in some of the kinds only; they lose them")


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
    position = max(other.position for other in catalogue.all_kinds) + 1
    for place, (name, names) in enumerate(change.into.items()):
        snapshot = {"name": name, "position": position + place, "mode": kind.mode, "prior": kind.prior}
        plan.add(Key("kind", kind_id=number + place), {**snapshot, "removed": 1}, {**snapshot, "removed": 0})
        targets = {}
        for order, label_name in enumerate(names):
            new = {"name": label_name, "position": order}
            key = Key("label", kind_id=number + place, label_id=label)
            plan.add(key, {**new, "removed": 1}, {**new, "removed": 0})
            targets[kind.ids[label_name]] = label
            label += 1
        _copy_part(connection, plan, kind, number + place, targets)
    _drop_moved(connection, plan, kind, {kind.ids[name] for name in moved})
    return plan


def _copy_part(connection: Connection, plan: Plan, kind: KindEntry, new_kind: int, targets: Mapping[int, int]) -> None:
    """Give a new kind its part of each cell."""
    others = set(kind.by_id) - set(targets)

    def part(value: str | None) -> str | None:
        left = value and drop(value, others, kind.mode)
        return left and replace(left, targets, kind.mode)

    rows, votes_by_class = load_cells(connection, kind.id), load_votes(connection, kind.id)
    for number in sorted({*rows, *votes_by_class}):
        row = rows.get(number)
        value = part(row.value) if row else None
        moved_votes = {person: part(vote) for person, vote in votes_by_class.get(number, {}).items()}
        moved_votes = {person: vote for person, vote in moved_votes.items() if vote is not None}
        if value is None and not moved_votes:
            continue
        before = cell_snapshot(None, dict.fromkeys(moved_votes, NO_VOTE))
        after = {**cell_snapshot(row, moved_votes), "value": value, "disagreement": 0}
        plan.add(Key("cell", fine_id=number, kind_id=new_kind), before, after)
    for photo in connection.execute(sa.select(photo_labels).where(photo_labels.c.kind_id == kind.id)):
        if (value := part(photo.value)) is not None:
            plan.add(Key("photo", kind_id=new_kind, photo=photo.photo), None, {**photo_snapshot(photo), "value": value})


def _drop_moved(connection: Connection, plan: Plan, kind: KindEntry, moved: Collection[int]) -> None:
    """Remove the moved labels from the old kind, and the kind itself if none is left."""
    if len(moved) == len(kind.labels):
        plan.add(Key("kind", kind_id=kind.id), kind_snapshot(kind), {**kind_snapshot(kind), "removed": 1})
        return
    for label in kind.labels:
        if label.id in moved:
            key = Key("label", kind_id=kind.id, label_id=label.id)
            plan.add(key, label_snapshot(label), {**label_snapshot(label), "removed": 1})
    Rewriter(connection, plan, kind).rewrite(lambda value, _: drop(value, moved, kind.mode))
