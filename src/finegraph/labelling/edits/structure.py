"""Plans of changes of the structure, and their previews.

`plan_change` makes the plan; `preview_of` describes it and `apply` carries it out, so the preview is exact. Adding,
renaming and removing classes and kinds touches a few rows. Merging and splitting take one pass over the cells of the
kinds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import InputError
from finegraph.labelling.edits.changes import (
    AddFine,
    AddKind,
    AddLabel,
    MergeKinds,
    MergeLabels,
    RemoveFine,
    RemoveKind,
    RemoveLabel,
    RenameFine,
    RenameKind,
    RenameLabel,
    SplitKind,
    SplitLabel,
    StructureChange,
    change_name,
)
from finegraph.labelling.edits.merging import plan_merge_kinds, plan_split_kind
from finegraph.labelling.edits.rewriting import Rewriter, drop, kind_snapshot, label_snapshot, replace
from finegraph.labelling.store.catalogue import Catalogue, KindEntry, LabelEntry
from finegraph.labelling.store.checks import check_names, check_note
from finegraph.labelling.store.current_rows import FINE_FIELDS, fine_ids, fine_names, next_number, row_snapshot
from finegraph.labelling.store.graph_columns import NO_VALUES, number_type, typed_prior
from finegraph.labelling.store.log import now
from finegraph.labelling.store.plan import Key, Plan, Planned, Snapshot
from finegraph.labelling.store.records import CellValue, ExampleChange, Preview
from finegraph.labelling.store.sql_tables import cells, fine, kinds, labels
from finegraph.labelling.store.values import cell_of_value, dump, parts_of, value_of_cell

Planner = Callable[[Connection, Catalogue, Any, str], Plan]


def plan_change(connection: Connection, catalogue: Catalogue, change: StructureChange, person: str) -> Plan:
    """The plan of a change.

    Raises:
        UnknownNameError: the change names something that does not exist.
        InputError: the change makes no sense.
        GraphError: a new name is invalid.
    """
    plan = _PLANNERS[type(change)](connection, catalogue, change, person)
    check_names(plan)
    return plan


# ---- classes ---------------------------------------------------------------------------------------------------------


def _add_fine(connection: Connection, _: Catalogue, change: AddFine, person: str) -> Plan:
    number = next_number(connection, fine.c.id)
    last = connection.scalar(sa.select(sa.func.max(fine.c.position)))
    plan = Plan(f"added the class {change.name!r}")
    plan_new_row(
        plan, Key("fine", fine_id=number), {"name": change.name, "position": (-1 if last is None else last) + 1}
    )
    if change.note:
        plan.add(Key("note", fine_id=number), None, {"text": check_note(change.note), "by": person, "at": now()})
    return plan


def plan_new_row(plan: Plan, key: Key, snapshot: Snapshot) -> None:
    """Add a new row to a plan; its snapshot before is that of a removed row."""
    plan.add(key, {**snapshot, "removed": 1}, {**snapshot, "removed": 0})


def _fine_row(connection: Connection, name: str) -> tuple[Key, Snapshot]:
    number = fine_ids(connection, [name])[name]
    row = connection.execute(sa.select(fine).where(fine.c.id == number)).one()
    return Key("fine", fine_id=number), row_snapshot(row, *FINE_FIELDS)


def _rename_fine(connection: Connection, _: Catalogue, change: RenameFine, person: str) -> Plan:
    key, before = _fine_row(connection, change.name)
    plan = Plan(f"renamed the class {change.name!r} to {change.to!r}")
    plan.add(key, before, {**before, "name": change.to})
    return plan


def _remove_fine(connection: Connection, catalogue: Catalogue, change: RemoveFine, person: str) -> Plan:
    key, before = _fine_row(connection, change.name)
    plan = Plan(f"removed the class {change.name!r}")
    plan.add(key, before, {**before, "removed": 1})
    known = sa.select(sa.func.count()).where(cells.c.fine_id == key.fine_id, cells.c.value.is_not(None))
    if count := connection.scalar(known):
        plan.warnings.append(f"{count} decided cells go with it; undo brings them back")
    return plan


# ---- kinds -----------------------------------------------------------------------------------------------------------


def _add_kind(connection: Connection, catalogue: Catalogue, change: AddKind, person: str) -> Plan:
    if change.mode not in ("one", "all"):
        raise InputError(f"mode is 'one' or 'all', got {change.mode!r}")
    prior, given = typed_prior(change.type, change.mode), change.labels
    if number_type(prior) is not None and not given:
        given = NO_VALUES
    number, first = next_number(connection, kinds.c.id), next_number(connection, labels.c.id)
    position = max((kind.position for kind in catalogue.all_kinds), default=-1) + 1
    plan = Plan(f"added the kind {change.name!r} with {len(given)} label{'s' if len(given) != 1 else ''}")
    snapshot = {"name": change.name, "position": position, "mode": change.mode, "prior": prior}
    plan_new_row(plan, Key("kind", kind_id=number), snapshot)
    for place, label in enumerate(given):
        key = Key("label", kind_id=number, label_id=first + place)
        plan_new_row(plan, key, {"name": label, "position": place})
    return plan


def _rename_kind(connection: Connection, catalogue: Catalogue, change: RenameKind, person: str) -> Plan:
    kind = catalogue.kind(change.name)
    plan = Plan(f"renamed the kind {change.name!r} to {change.to!r}")
    plan.add(Key("kind", kind_id=kind.id), kind_snapshot(kind), {**kind_snapshot(kind), "name": change.to})
    return plan


def _remove_kind(connection: Connection, catalogue: Catalogue, change: RemoveKind, person: str) -> Plan:
    kind = catalogue.kind(change.name)
    plan = Plan(f"removed the kind {change.name!r}")
    plan.add(Key("kind", kind_id=kind.id), kind_snapshot(kind), {**kind_snapshot(kind), "removed": 1})
    known = sa.select(sa.func.count()).where(cells.c.kind_id == kind.id, cells.c.value.is_not(None))
    if count := connection.scalar(known):
        plan.warnings.append(f"{count} decided cells go with it; undo brings them back")
    return plan


# ---- labels ----------------------------------------------------------------------------------------------------------


def new_label(connection: Connection, kind: KindEntry, name: str, place: int = 0) -> tuple[Key, Snapshot]:
    """A new label after the existing ones of a kind; `place` numbers several new ones."""
    number = next_number(connection, labels.c.id) + place
    position = max((label.position for label in kind.all_labels), default=-1) + 1 + place
    return Key("label", kind_id=kind.id, label_id=number), {"name": name, "position": position}


def _add_label(connection: Connection, catalogue: Catalogue, change: AddLabel, person: str) -> Plan:
    kind = catalogue.kind(change.kind)
    plan = Plan(f"added the label {change.name!r} to the kind {change.kind!r}")
    plan_new_row(plan, *new_label(connection, kind, change.name))
    if kind.mode == "all":
        known = sa.select(sa.func.count()).where(cells.c.kind_id == kind.id, cells.c.value.is_not(None))
        if count := connection.scalar(known):
            plan.warnings.append(f"{count} cells are decided already; they say that {change.name!r} does not hold")
    return plan


def _rename_label(connection: Connection, catalogue: Catalogue, change: RenameLabel, person: str) -> Plan:
    kind = catalogue.kind(change.kind)
    label = kind.label(change.name)
    plan = Plan(f"renamed the label {change.name!r} of kind {change.kind!r} to {change.to!r}")
    before = label_snapshot(label)
    plan.add(Key("label", kind_id=kind.id, label_id=label.id), before, {**before, "name": change.to})
    return plan


def remove_label(plan: Plan, kind: KindEntry, label: LabelEntry) -> None:
    """Add the removal of a label to a plan."""
    key = Key("label", kind_id=kind.id, label_id=label.id)
    plan.add(key, label_snapshot(label), {**label_snapshot(label), "removed": 1})


def _remove_label(connection: Connection, catalogue: Catalogue, change: RemoveLabel, person: str) -> Plan:
    kind = catalogue.kind(change.kind)
    label = kind.label(change.name)
    plan = Plan(f"removed the label {change.name!r} of kind {change.kind!r}")
    remove_label(plan, kind, label)
    rewriter = Rewriter(connection, plan, kind)
    rewriter.rewrite(lambda value, _: drop(value, {label.id}, kind.mode))
    if rewriter.lost:
        plan.warnings.append(f"{rewriter.lost} classes become unknown")
    return plan


def _merge_labels(connection: Connection, catalogue: Catalogue, change: MergeLabels, person: str) -> Plan:
    kind = catalogue.kind(change.kind)
    merged = [kind.label(name) for name in dict.fromkeys(change.labels)]
    if not merged or [label.name for label in merged] == [change.into]:
        raise InputError("merging labels: expected the labels to merge, and into which")
    names = ", ".join(repr(label.name) for label in merged)
    plan = Plan(f"merged {names} of kind {change.kind!r} into {change.into!r}")
    if change.into in kind.ids:
        target = kind.ids[change.into]
    else:
        key, snapshot = new_label(connection, kind, change.into)
        target = key.label_id or 0
        plan_new_row(plan, key, {**snapshot, "position": merged[0].position})
    replacements = {label.id: target for label in merged if label.id != target}
    for label in merged:
        if label.id != target:
            remove_label(plan, kind, label)
    Rewriter(connection, plan, kind).rewrite(lambda value, _: replace(value, replacements, kind.mode))
    return plan


def _split_label(connection: Connection, catalogue: Catalogue, change: SplitLabel, person: str) -> Plan:
    kind = catalogue.kind(change.kind)
    label = kind.label(change.name)
    numbers = fine_ids(connection, {name for class_names in change.into.values() for name in class_names})
    plan = Plan(f"split the label {change.name!r} of kind {change.kind!r} into {', '.join(map(repr, change.into))}")
    chosen: dict[int, int] = {}
    new = 0
    for name, class_names in change.into.items():
        if name in kind.ids:
            target = kind.ids[name]
        else:
            key, snapshot = new_label(connection, kind, name, new)
            new += 1
            target = key.label_id or 0
            plan_new_row(plan, key, snapshot)
        for class_name in class_names:
            if chosen.setdefault(numbers[class_name], target) != target:
                raise InputError(f"splitting {change.name!r}: {class_name!r} is named for two labels")
    rewriter = Rewriter(connection, plan, kind)

    def split_value(value: str, number: int | None) -> str | None:
        return value if number not in chosen else replace(value, {label.id: chosen[number]}, kind.mode)

    rewriter.rewrite(split_value)
    for class_name, number in numbers.items():
        if not rewriter.holds(number, label.id):
            raise InputError(f"splitting {change.name!r}: the class {class_name!r} does not have this label")
    if change.name not in change.into and not rewriter.left(label.id):
        remove_label(plan, kind, label)
    return plan


_PLANNERS: Mapping[type[Any], Planner] = {
    AddFine: _add_fine,
    RenameFine: _rename_fine,
    RemoveFine: _remove_fine,
    AddKind: _add_kind,
    RenameKind: _rename_kind,
    RemoveKind: _remove_kind,
    MergeKinds: plan_merge_kinds,
    SplitKind: plan_split_kind,
    AddLabel: _add_label,
    RenameLabel: _rename_label,
    RemoveLabel: _remove_label,
    MergeLabels: _merge_labels,
    SplitLabel: _split_label,
}

_MAX_EXAMPLES = 20


def preview_of(connection: Connection, catalogue: Catalogue, change: StructureChange, plan: Plan) -> Preview:
    """The preview of a plan."""
    changed = [
        planned
        for planned in plan.of("cell")
        if (planned.before or {}).get("value") != (planned.after or {}).get("value")
    ]
    listed = changed[:_MAX_EXAMPLES]
    names = fine_names(connection, {planned.key.fine_id for planned in listed if planned.key.fine_id is not None})
    new_labels = {
        (planned.key.kind_id, planned.key.label_id): (planned.after or {})["name"]
        for planned in plan.of("label")
        if planned.after is not None
    }
    new_kinds = {planned.key.kind_id: planned.after for planned in plan.of("kind") if planned.after is not None}
    examples = []
    for planned in listed:
        kind = catalogue.by_id.get(planned.key.kind_id or 0)
        snapshot = new_kinds.get(planned.key.kind_id)
        name = snapshot["name"] if snapshot is not None else kind.name if kind is not None else ""
        mode = kind.mode if kind is not None else (snapshot or {})["mode"]
        before, after = (
            _value(kind, mode, new_labels, planned, snapshot) for snapshot in (planned.before, planned.after)
        )
        examples.append(
            ExampleChange(fine=names.get(planned.key.fine_id or 0, ""), kind=name, before=before, after=after)
        )
    digest = hashlib.sha256(dump([change_name(change), change.to_dict(), plan.digest]).encode()).hexdigest()
    return Preview(
        text=f"{plan.text[0].upper()}{plan.text[1:]}: {len(changed)} cell{'s' if len(changed) != 1 else ''} change",
        cells=len(changed),
        examples=tuple(examples),
        warnings=tuple(plan.warnings),
        digest=digest,
    )


def _value(
    kind: KindEntry | None,
    mode: str,
    new_labels: dict[tuple[int | None, int | None], str],
    change: Planned,
    snapshot: Snapshot | None,
) -> CellValue:
    """The value in a snapshot, which may name labels that the plan adds."""
    if snapshot is None or snapshot["value"] is None:
        return None
    parts = parts_of(snapshot["value"])
    current = kind.by_id if kind is not None else {}
    names = [current[label].name if label in current else new_labels[change.key.kind_id, label] for label, _ in parts]
    weights = [weight for _, weight in parts if weight is not None]
    if mode == "all":
        return {"all_of": names}
    if weights:
        return {"weights": dict(zip(names, weights, strict=True))}
    return value_of_cell(cell_of_value({"one_of": names}, "one", "preview"))
