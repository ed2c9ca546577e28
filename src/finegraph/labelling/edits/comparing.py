"""Plans of comparisons: what one person says of two classes, or of two photos.

Each person has their own answer to each pair, so nobody overwrites anybody. An answer names the version that the person
saw; if the same person has given another answer elsewhere since, that is a conflict. Cost: a few queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import ConflictError, InputError
from finegraph.graph.comparisons import Comparison
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.checks import check_photo
from finegraph.labelling.store.current_rows import comparison_snapshot, fine_ids
from finegraph.labelling.store.log import check_person, now
from finegraph.labelling.store.plan import Key, Plan, Snapshot
from finegraph.labelling.store.records import Conflict, Outcome, PairNumbers
from finegraph.labelling.store.renames import living_fine, present_kind
from finegraph.labelling.store.sql_tables import comparisons
from finegraph.labelling.store.values import Thing, is_swapped, pair_text, pair_words, swapped_outcome


def plan_comparison(
    connection: Connection,
    catalogue: Catalogue,
    kind_name: str,
    one: str,
    two: str,
    outcome: Outcome | None,
    person: str,
    *,
    photos: bool,
    seen: int | None,
    numbers: PairNumbers,
) -> Plan:
    """The plan of one comparison; an outcome of None takes it back.

    Raises:
        InputError: the kind has no order, the two things are the same, or the outcome is unknown.
        UnknownNameError: there is no such kind or class.
        ConflictError: the same person has said something else since.
    """
    if outcome is not None and outcome not in get_args(Outcome):
        raise InputError(f"outcome: expected one of {', '.join(get_args(Outcome))}, or None, got {outcome!r}")
    kind = present_kind(catalogue, kind_name, numbers.kind)
    check_comparable(kind)
    if one == two:
        raise InputError(f"{one!r} is compared with itself; expected two different things")
    if photos:
        things: tuple[Thing, Thing] = check_photo(one), check_photo(two)
        classes = numbers.one, numbers.two
    else:
        ids = fine_ids(connection, {n for n, number in ((one, numbers.one), (two, numbers.two)) if number is None})
        first, second = (
            ids[name] if number is None else living_fine(connection, number)
            for name, number in ((one, numbers.one), (two, numbers.two))
        )
        if first == second:
            raise InputError(f"{one!r} is compared with itself; expected two different things")
        things = classes = (first, second)
    stored, classes = (swapped_outcome(outcome), classes[::-1]) if is_swapped(*things) else (outcome, classes)
    key = Key("comparison", kind_id=kind.id, photo=pair_text(person, *things))
    condition = (comparisons.c.kind_id == kind.id) & (comparisons.c.pair == key.photo)
    row = connection.execute(sa.select(comparisons).where(condition)).first()
    version, current = (0, None) if row is None else (row.version, row.value)
    if seen is not None and seen != version and current != stored:
        theirs = pair_words(one, two, swapped_outcome(current) if is_swapped(*things) else current)
        conflict = Conflict(
            what="comparison",
            kind=kind.name,
            yours=pair_words(one, two, outcome),
            theirs=theirs,
            version=version,
            by=person,
            at=None if row is None else row.at,
        )
        raise ConflictError(f"you have compared {one!r} with {two!r} elsewhere meanwhile: {theirs}", [conflict])
    plan = Plan(f"compared {one!r} with {two!r}, {kind.name!r}")
    after = _snapshot(stored, classes)
    plan.add(key, None if row is None else comparison_snapshot(row), after)
    return plan


def _snapshot(outcome: Outcome | None, classes: tuple[int | None, int | None]) -> Snapshot:
    return {"value": outcome, "one": classes[0], "two": classes[1], "at": now()}


def check_comparable(kind: KindEntry) -> None:
    """Raise unless the labels of a kind have an order.

    Raises:
        InputError: they have none; it says what can be compared.
    """
    if not kind.comparable:
        raise InputError(
            f"kind {kind.name!r} has labels without an order; only numbers and ordered kinds can be compared"
        )


def plan_comparisons(connection: Connection, catalogue: Catalogue, imported: Sequence[Comparison], person: str) -> Plan:
    """The plan of importing comparisons; all other answers stay.

    Args:
        connection: a connection to the store.
        catalogue: its kinds.
        imported: the comparisons; those without a person belong to the person who imports.
        person: the person who imports.
    """
    plan = Plan(f"imported {len(imported)} comparison{'s' if len(imported) != 1 else ''}")
    numbers = fine_ids(
        connection,
        {name for comparison in imported if not comparison.photos for name in (comparison.more, comparison.less)},
    )
    present: dict[int, dict[str, Snapshot]] = {}
    for comparison in imported:
        kind = catalogue.kind(comparison.kind)
        check_comparable(kind)
        if kind.id not in present:
            query = sa.select(comparisons).where(comparisons.c.kind_id == kind.id)
            present[kind.id] = {row.pair: comparison_snapshot(row) for row in connection.execute(query)}
        things: tuple[Thing, Thing] = (
            (comparison.more, comparison.less)
            if comparison.photos
            else (numbers[comparison.more], numbers[comparison.less])
        )
        outcome: Outcome | None = "same" if comparison.same else "more"
        classes: tuple[int | None, int | None] = (
            (None, None) if comparison.photos else (numbers[comparison.more], numbers[comparison.less])
        )
        if is_swapped(*things):
            outcome, classes = swapped_outcome(outcome), classes[::-1]
        key = Key(
            "comparison",
            kind_id=kind.id,
            photo=pair_text(check_person(comparison.who) if comparison.who else person, *things),
        )
        before = present[kind.id].get(key.photo or "")
        if comparison.photos and before is not None:
            classes = before["one"], before["two"]  # the file does not name the classes of photos
        if before is None or before["value"] != outcome:
            plan.put(key, before, _snapshot(outcome, classes))
    return plan
