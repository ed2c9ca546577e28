"""Renamed classes, kinds and labels: finds the current names for former names that a caller or a photo has.

A page may hold back a decision for minutes while somebody renames something. So a caller can send numbers with the
names. A number that still exists identifies the thing, whatever its name is now; otherwise the name counts. Photos keep
the names of their folder or list, so former names of classes are read from the log. Cost: a query per 400 classes; for
former names one over the edits of classes, which are few.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import UnknownNameError
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.current_rows import check_number, chunks
from finegraph.labelling.store.records import CellValue, Decision, Numbers
from finegraph.labelling.store.sql_tables import edits, fine

_NAME_BY_ID = sa.select(fine.c.name).where(fine.c.id == sa.bindparam("the_id"), fine.c.removed == 0)


def present_fine(connection: Connection, name: str, number: int | None) -> str:
    """The name that a class has now."""
    if number is None:
        return name
    check_number("number of the class", number)
    present: str | None = connection.scalar(_NAME_BY_ID, {"the_id": number})
    return name if present is None else present


def living_fine(connection: Connection, number: int) -> int:
    """The number of a class that must exist.

    Raises:
        UnknownNameError: it was removed, or never existed.
    """
    check_number("number of the class", number)
    if connection.scalar(_NAME_BY_ID, {"the_id": number}) is None:
        raise UnknownNameError(f"there is no class number {number} any more; it may have been removed")
    return number


def present_kind(catalogue: Catalogue, name: str, number: int | None) -> KindEntry:
    """The kind of a number, or else of a name.

    Raises:
        UnknownNameError: there is none of this number or name.
    """
    kind = catalogue.by_id.get(number) if number is not None else None
    return catalogue.kind(name) if kind is None or kind.removed else kind


def present_value(kind: KindEntry, value: Any, labels: Mapping[str, int]) -> Any:
    """A value with the names that its labels have now."""

    def current_name(name: Any) -> Any:
        number = labels.get(name) if isinstance(name, str) else None
        return kind.by_id[number].name if number in kind.living else name

    if not labels:
        return value
    if not isinstance(value, dict):
        return current_name(value)
    present: CellValue = {
        form: {current_name(name): weight for name, weight in content.items()}
        if isinstance(content, Mapping)
        else [current_name(name) for name in content]
        if isinstance(content, list | tuple)
        else content
        for form, content in value.items()
    }
    return present


def present_decisions(
    connection: Connection, catalogue: Catalogue, decisions: Sequence[Decision]
) -> Sequence[Decision]:
    """Decisions with the current names of classes, kinds and labels."""
    numbers_of_decisions = [decision.numbers or Numbers() for decision in decisions]
    if all(decision.numbers is None for decision in decisions):
        return decisions
    numbers = {meant.fine for meant in numbers_of_decisions if meant.fine is not None}
    names: dict[int, str] = {}
    for number in numbers:
        check_number("number of the class", number)
    for part in chunks(numbers):
        query = sa.select(fine.c.id, fine.c.name).where(fine.c.id.in_(part), fine.c.removed == 0)
        names.update((row.id, row.name) for row in connection.execute(query))
    renamed = []
    for decision, meant in zip(decisions, numbers_of_decisions, strict=True):
        kind = present_kind(catalogue, decision.kind, meant.kind)
        name = decision.fine if meant.fine is None else names.get(meant.fine, decision.fine)
        value = present_value(kind, decision.value, meant.labels)
        renamed.append(replace(decision, fine=name, kind=kind.name, value=value))
    return renamed


class Rename(NamedTuple):
    """One change of a class's name: the edit, the old name and the new one. Undoing it is one too."""

    number: int
    old: str
    new: str


def read_renames(connection: Connection, after: int, version: int | None) -> list[Rename]:
    """The renames of classes after an edit, up to a version, in order."""
    where = [edits.c.kind_id.is_(None), edits.c.number > after, edits.c.target == "fine"]
    where += [edits.c.before.is_not(None), edits.c.after.is_not(None)]
    if version is not None:
        where.append(edits.c.number <= version)
    query = sa.select(edits.c.number, edits.c.before, edits.c.after).where(*where).order_by(edits.c.number)
    renames = []
    for number, before, after_text in connection.execute(query):
        old, new = json.loads(before).get("name"), json.loads(after_text).get("name")
        if old is not None and new is not None and old != new:
            renames.append(Rename(number, old, new))
    return renames


def present_names(renames: Iterable[Rename], fine: Collection[str]) -> dict[str, str]:
    """The current name for each former name; a name that a class has now means that class.

    Args:
        renames: the renames in order.
        fine: the current classes.
    """
    current_names: dict[str, str] = {}
    for _, old, new in renames:
        current_names = {name: new if name_now == old else name_now for name, name_now in current_names.items()}
        current_names[old] = new
        current_names.pop(new, None)
    present = set(fine)
    return {old: new for old, new in current_names.items() if old not in present and new in present}
