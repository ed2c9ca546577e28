"""Invariants after every change of classes, kinds and labels, so that the store is always a graph.

The rules are those of `LabelGraph`, applied to rows without building the graph. Notes and the names of photos have
rules of their own, the same for all sources. Cost: linear in the labels, and in the classes that change.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import ConflictError, GraphError, InputError
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.graph.names import control_fault, kind_name_fault, name_fault, unicode_twins
from finegraph.graph.number_cells import NumberError, parse_number
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.current_rows import chunks, name_form
from finegraph.labelling.store.graph_columns import number_type
from finegraph.labelling.store.plan import Plan, Planned
from finegraph.labelling.store.records import Conflict
from finegraph.labelling.store.sql_tables import cells, fine, photo_labels, votes
from finegraph.labelling.store.values import parts_of

_MAX_NOTE_LENGTH = 20_000
_MAX_PHOTO_LENGTH = 4_000


def check_structure(catalogue: Catalogue, changes: Collection[Planned]) -> None:
    """Refuse names of kinds and labels that no graph can have."""
    touched = {change.key.kind_id for change in changes if change.key.target in ("kind", "label")}
    if not touched:
        return
    names = [name for kind in catalogue.kinds for name in graph_names(kind)] + [
        kind.name for kind in catalogue.kinds if kind.mode == "all"
    ]
    for kind in catalogue.kinds:
        if kind.id in touched:
            _check_kind(kind)
    _check_distinct("kind", names, "kinds must have distinct names")


def check_names(plan: Plan) -> None:
    """Refuse invalid new names before anything is written."""
    for change in plan.of("fine", "kind", "label"):
        if change.after and not change.after["removed"]:
            name = change.after["name"]
            fault = kind_name_fault(name) if change.key.target == "kind" else name_fault(name)
            if fault:
                raise GraphError(f"{change.key.target} {name!r}: {fault}")


def check_note(text: str) -> str:
    """The text of a note.

    Raises:
        InputError: it is too long, or has control characters.
    """
    if not isinstance(text, str) or len(text) > _MAX_NOTE_LENGTH:
        raise InputError(f"a note is a text of at most {_MAX_NOTE_LENGTH} characters")
    for character in text:
        if character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cs"):
            raise InputError(f"a note must not contain the control character U+{ord(character):04X}")
    return text


def check_photo(key: str) -> str:
    """Check the key of a photo: mostly a path, so white space may occur anywhere.

    Raises:
        InputError: see `photo_fault`.
    """
    fault = photo_fault(key)
    if fault:
        raise InputError(f"photo: expected the path of a photo, got {str(key)[:100]!r}: {fault}")
    return key


def photo_fault(key: str) -> str | None:
    """Why tables or files could not hold the key of a photo; None if they can."""
    if not isinstance(key, str) or not 0 < len(key) <= _MAX_PHOTO_LENGTH:
        return f"expected 1 to {_MAX_PHOTO_LENGTH} characters"
    return control_fault(key)


def graph_names(kind: KindEntry) -> list[str]:
    """The kinds of the graph that a kind of the store stands for: a group has one for each of its labels."""
    return [kind.name] if kind.mode == "one" else [kind.name + GROUP_SEPARATOR + label for label in kind.names]


def _check_kind(kind: KindEntry) -> None:
    if fault := kind_name_fault(kind.name):
        raise GraphError(f"kind {kind.name!r}: {fault}")
    if not kind.labels:
        raise GraphError(f"kind {kind.name!r} would have no label; remove the kind instead, or give it one")
    for label in kind.names:
        if fault := name_fault(label):
            raise GraphError(f"kind {kind.name!r}, label {label!r}: {fault}")
    if (type_ := number_type(kind.prior)) is not None:
        for label in kind.names:
            try:
                parse_number(label, type_.scale, type_.unit)
            except NumberError as error:
                raise GraphError(f"{kind.name!r} holds numbers, but got {label!r}: {error}") from error
    _check_distinct(f"kind {kind.name!r}: the label", kind.names, "labels of a kind must be distinct")


def _check_distinct(noun: str, names: Collection[str], rule: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise GraphError(f"{noun} {name!r} is there already; {rule}")
    for one, two in unicode_twins(names):
        raise GraphError(f"{noun} {two!r} reads the same as {one!r} but is spelt in another Unicode form; {rule}")


def check_class_names(connection: Connection, changes: Collection[Planned]) -> None:
    """Refuse names of classes that no graph can have, and a graph without classes."""
    classes = [change for change in changes if change.key.target == "fine"]
    living = [change.after["name"] for change in classes if change.after and not change.after["removed"]]
    for name in living:
        if fault := name_fault(name):
            raise GraphError(f"class {name!r}: {fault}")
    for part in chunks({name_form(name) for name in living}):
        query = sa.select(fine.c.form).where(fine.c.form.in_(part), fine.c.removed == 0).group_by(fine.c.form)
        for form in connection.scalars(query.having(sa.func.count() > 1)):
            raise GraphError(f"the class {form!r} is there already; classes must have distinct names")
    removes_classes = len(classes) > len(living)
    if removes_classes and not connection.scalar(sa.select(fine.c.id).where(fine.c.removed == 0).limit(1)):
        raise GraphError("this would remove the last class; a graph needs at least one")


def refuse_labels_in_use(connection: Connection, catalogue: Catalogue, plan: Plan) -> None:
    """Refuse to remove labels that cells still name, as undoing their addition would."""
    removed: dict[int, set[int]] = {}
    for change in plan.of("label"):
        if change.after and change.after["removed"] and not catalogue.by_id[change.key.kind_id or 0].removed:
            removed.setdefault(change.key.kind_id or 0, set()).add(change.key.label_id or 0)
    rewritten = {(change.key.kind_id, change.key.fine_id) for change in plan.of("cell")}
    photos = {(change.key.kind_id, change.key.photo) for change in plan.of("photo")}
    for kind_id, ids in removed.items():
        kind = catalogue.by_id[kind_id]
        for table in (cells, votes):
            query = sa.select(table.c.fine_id, table.c.value).where(table.c.kind_id == kind_id)
            for row in connection.execute(query.where(table.c.value.is_not(None))):
                if (kind_id, row.fine_id) not in rewritten:
                    _refuse_used(kind, row.value, ids)
        query = sa.select(photo_labels.c.photo, photo_labels.c.value).where(photo_labels.c.kind_id == kind_id)
        for row in connection.execute(query.where(photo_labels.c.value.is_not(None))):
            if (kind_id, row.photo) not in photos:
                _refuse_used(kind, row.value, ids)


def refuse_removed_labels(connection: Connection, catalogue: Catalogue, plan: Plan) -> None:
    """Refuse to restore a kind whose cells name removed labels; called after all rows are written."""
    for change in plan.of("kind"):
        kind = catalogue.by_id[change.key.kind_id or 0]
        if kind.removed or not (change.before and change.before["removed"]):
            continue
        for table in (cells, votes, photo_labels):
            query = sa.select(table.c.value).distinct().where(table.c.kind_id == kind.id, table.c.value.is_not(None))
            for value in connection.scalars(query):
                check_living(kind, value)


def check_living(kind: KindEntry, value: str) -> None:
    """Refuse a value with a removed label, which undoing an old edit may bring back."""
    for label, _ in parts_of(value):
        if label not in kind.living:
            name = kind.by_id[label].name if label in kind.by_id else str(label)
            conflict = Conflict(what="label", kind=kind.name, label=name, yours=name)
            raise ConflictError(
                f"the label {name!r} of kind {kind.name!r} was removed or merged since; undo that first", [conflict]
            )


def _refuse_used(kind: KindEntry, value: str, removed: Collection[int]) -> None:
    for label, _ in parts_of(value):
        if label in removed:
            name = kind.by_id[label].name
            conflict = Conflict(what="label", kind=kind.name, label=name, theirs=kind.value(value))
            raise ConflictError(
                f"the label {name!r} of kind {kind.name!r} is in use since; remove or merge it instead", [conflict]
            )
