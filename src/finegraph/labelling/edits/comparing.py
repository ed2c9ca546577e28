"""Plans of comparisons: what one person says of two classes, or of two photos.

Each person has an answer of their own to each pair, so nobody overwrites anybody. An answer says which version of it
the person looked at; one that was given elsewhere since, under the same name, is a conflict unless it is the same.
Cost: a few questions.
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
from finegraph.labelling.store.pair_text import Thing, is_turned, pair_text, pair_words, turned
from finegraph.labelling.store.plan import Key, Plan, Snapshot
from finegraph.labelling.store.records import Conflict, Outcome, PairNumbers
from finegraph.labelling.store.renames import living_fine, present_kind
from finegraph.labelling.store.sql_tables import comparisons


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
    """The plan of one comparison; None takes it back.

    Raises:
        InputError: the kind has no order, the two are one, or the outcome is none.
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
    kept, classes = (turned(outcome), classes[::-1]) if is_turned(*things) else (outcome, classes)
    key = Key("comparison", kind_id=kind.id, photo=pair_text(person, *things))
    where = (comparisons.c.kind_id == kind.id) & (comparisons.c.pair == key.photo)
    row = connection.execute(sa.select(comparisons).where(where)).first()
    version, current = (0, None) if row is None else (row.version, row.value)
    if seen is not None and seen != version and current != kept:
        theirs = pair_words(one, two, turned(current) if is_turned(*things) else current)
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
    after = _snapshot(kept, classes)
    plan.add(key, None if row is None else comparison_snapshot(row), after)
    return plan


def _snapshot(outcome: Outcome | None, classes: tuple[int | None, int | None]) -> Snapshot:
    return {"value": outcome, "one": classes[0], "two": classes[1], "at": now()}


def check_comparable(kind: KindEntry) -> None:
    """Raise unless what a kind says has an order.

    Raises:
        InputError: saying what can be compared.
    """
    if not kind.comparable:
        raise InputError(
            f"kind {kind.name!r} has labels without an order; only numbers and ordered kinds can be compared"
        )


def plan_comparisons(connection: Connection, catalogue: Catalogue, found: Sequence[Comparison], person: str) -> Plan:
    """The plan of importing comparisons; answers that are not named stay, and so do those that are the same.

    Args:
        connection: where the store is.
        catalogue: its kinds.
        found: what to import; those without a person are of the one who imports.
        person: who imports.
    """
    plan = Plan(f"imported {len(found)} comparison{'s' if len(found) != 1 else ''}")
    numbers = fine_ids(connection, {name for one in found if not one.photos for name in (one.more, one.less)})
    present: dict[int, dict[str, Snapshot]] = {}
    for one in found:
        kind = catalogue.kind(one.kind)
        check_comparable(kind)
        if kind.id not in present:
            query = sa.select(comparisons).where(comparisons.c.kind_id == kind.id)
            present[kind.id] = {row.pair: comparison_snapshot(row) for row in connection.execute(query)}
        things: tuple[Thing, Thing] = (one.more, one.less) if one.photos else (numbers[one.more], numbers[one.less])
        outcome: Outcome | None = "same" if one.same else "more"
        classes: tuple[int | None, int | None] = (None, None) if one.photos else (numbers[one.more], numbers[one.less])
        if is_turned(*things):
            outcome, classes = turned(outcome), classes[::-1]
        key = Key("comparison", kind_id=kind.id, photo=pair_text(check_person(one.who) if one.who else person, *things))
        before = present[kind.id].get(key.photo or "")
        if one.photos and before is not None:
            classes = before["one"], before["two"]  # the file does not say of which classes the photos are
        if before is None or before["value"] != outcome:
            plan.put(key, before, _snapshot(outcome, classes))
    return plan
