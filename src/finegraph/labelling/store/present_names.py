"""What a caller meant by names that may have changed since: classes, kinds and labels by their numbers.

A page may hold back a decision for minutes, and somebody renames something meanwhile. So a caller can give the numbers
of what it means beside the names. A number that is still there says which thing is meant, whatever it is called now;
one that is gone leaves the name as it came, which is then looked up as usual. Cost: a question per 400 classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import UnknownNameError
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.records import CellValue, Decision, Numbers
from finegraph.labelling.store.rows import check_number, in_parts
from finegraph.labelling.store.tables import fine

_ONE = sa.select(fine.c.name).where(fine.c.id == sa.bindparam("the_id"), fine.c.removed == 0)


def present_fine(connection: Connection, name: str, number: int | None) -> str:
    """The name that a class has now."""
    if number is None:
        return name
    check_number("number of the class", number)
    found: str | None = connection.scalar(_ONE, {"the_id": number})
    return name if found is None else found


def living_fine(connection: Connection, number: int) -> int:
    """The number of a class that must be there.

    Raises:
        UnknownNameError: it was removed, or never was.
    """
    check_number("number of the class", number)
    if connection.scalar(_ONE, {"the_id": number}) is None:
        raise UnknownNameError(f"there is no class number {number} any more; it may have been removed")
    return number


def present_kind(catalogue: Catalogue, name: str, number: int | None) -> KindEntry:
    """The kind that is meant.

    Raises:
        UnknownNameError: there is none of this number or name.
    """
    found = catalogue.by_id.get(number) if number is not None else None
    return catalogue.kind(name) if found is None or found.removed else found


def present_value(kind: KindEntry, value: Any, labels: Mapping[str, int]) -> Any:
    """A value with the names that its labels have now."""

    def now(name: Any) -> Any:
        number = labels.get(name) if isinstance(name, str) else None
        return kind.by_id[number].name if number in kind.living else name

    if not labels:
        return value
    if not isinstance(value, dict):
        return now(value)
    present: CellValue = {
        form: {now(name): weight for name, weight in content.items()}
        if isinstance(content, Mapping)
        else [now(name) for name in content]
        if isinstance(content, list | tuple)
        else content
        for form, content in value.items()
    }
    return present


def present_decisions(
    connection: Connection, catalogue: Catalogue, decisions: Sequence[Decision]
) -> Sequence[Decision]:
    """Decisions with the names that everything has now."""
    meant = [decision.numbers or Numbers() for decision in decisions]
    if all(decision.numbers is None for decision in decisions):
        return decisions
    numbers = {one.fine for one in meant if one.fine is not None}
    names: dict[int, str] = {}
    for number in numbers:
        check_number("number of the class", number)
    for part in in_parts(numbers):
        query = sa.select(fine.c.id, fine.c.name).where(fine.c.id.in_(part), fine.c.removed == 0)
        names.update((row.id, row.name) for row in connection.execute(query))
    found = []
    for decision, one in zip(decisions, meant, strict=True):
        kind = present_kind(catalogue, decision.kind, one.kind)
        name = decision.fine if one.fine is None else names.get(one.fine, decision.fine)
        value = present_value(kind, decision.value, one.labels)
        found.append(replace(decision, fine=name, kind=kind.name, value=value))
    return found
