"""All comparisons of a store, now or at an earlier version.

Classes have their current names; the class of a photo is known if it was known at the time of the comparison. Cost:
linear in the comparisons, and for an earlier version in the edits since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.graph.comparisons import Comparison
from finegraph.labelling.questions.past import Past
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.current_rows import comparison_snapshot
from finegraph.labelling.store.pair_text import parse_pair
from finegraph.labelling.store.plan import Snapshot
from finegraph.labelling.store.records import PairAnswer
from finegraph.labelling.store.sql_tables import comparisons


def read_answers(connection: Connection, catalogue: Catalogue, version: int | None = None) -> list[PairAnswer]:
    """All comparisons, now or at an earlier version, kind by kind, without those of removed classes and kinds."""
    past = Past.read(connection, catalogue, version)
    names = {number: name for number, (_, _, name, removed) in past.fine(connection).items() if not removed}
    rows: dict[tuple[int, str], tuple[Snapshot, int]] = {}
    for row in connection.execute(sa.select(comparisons)):
        rows[row.kind_id, row.pair] = comparison_snapshot(row), row.version
    for key, snapshot in past.snapshots.items():
        if key.target == "comparison" and key.kind_id is not None and key.photo is not None:
            rows[key.kind_id, key.photo] = snapshot, 0
    answers = []
    for (kind_id, pair), (snapshot, number) in rows.items():
        kind = past.catalogue.by_id[kind_id]
        if snapshot["value"] is not None and not kind.removed:
            answer = _answer(kind, pair, snapshot, number, names)
            if answer is not None:
                answers.append((kind.position, answer))
    answers.sort(key=lambda entry: (entry[0], entry[1].photos, entry[1].one, entry[1].two, entry[1].person))
    return [answer for _, answer in answers]


def _answer(
    kind: KindEntry, pair: str, snapshot: Snapshot, version: int, names: Mapping[int, str]
) -> PairAnswer | None:
    """One comparison with current names; None if one of its classes was removed."""
    person, *things = parse_pair(pair)
    if any(isinstance(thing, int) and thing not in names for thing in things):
        return None
    one, two = (thing if isinstance(thing, str) else names[thing] for thing in things)
    return PairAnswer(
        kind=kind.name,
        one=one,
        two=two,
        outcome=snapshot["value"],
        person=person,
        at=snapshot["at"] or "",
        photos=isinstance(things[0], str),
        one_class=names.get(snapshot.get("one") or 0),
        two_class=names.get(snapshot.get("two") or 0),
        version=version,
    )


def as_comparisons(answers: Iterable[PairAnswer]) -> list[Comparison]:
    """Answers in the form of a file of comparisons, without skipped ones."""
    listed = []
    for answer in answers:
        if answer.outcome != "skip":
            more, less = (answer.two, answer.one) if answer.outcome == "less" else (answer.one, answer.two)
            listed.append(Comparison(answer.kind, more, less, answer.person, answer.outcome == "same", answer.photos))
    return listed
