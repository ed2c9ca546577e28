"""What people said of pairs: all comparisons of a store, now or at an earlier version.

Classes have their present names; of photos the class is known if it was when they were compared. Cost: linear in the
comparisons, and for an earlier version in the edits since.
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
    """All comparisons, now or at an earlier version, kind by kind; those of classes and kinds that are gone are not."""
    past = Past.read(connection, catalogue, version)
    names = {number: name for number, (_, _, name, removed) in past.fine(connection).items() if not removed}
    rows: dict[tuple[int, str], tuple[Snapshot, int]] = {}
    for row in connection.execute(sa.select(comparisons)):
        rows[row.kind_id, row.pair] = comparison_snapshot(row), row.version
    for key, snapshot in past.snapshots.items():
        if key.target == "comparison" and key.kind_id is not None and key.photo is not None:
            rows[key.kind_id, key.photo] = snapshot, 0
    found = []
    for (kind_id, pair), (snapshot, number) in rows.items():
        kind = past.catalogue.by_id[kind_id]
        if snapshot["value"] is not None and not kind.removed:
            answer = _answer(kind, pair, snapshot, number, names)
            if answer is not None:
                found.append((kind.position, answer))
    found.sort(key=lambda entry: (entry[0], entry[1].photos, entry[1].one, entry[1].two, entry[1].person))
    return [answer for _, answer in found]


def _answer(
    kind: KindEntry, pair: str, snapshot: Snapshot, version: int, names: Mapping[int, str]
) -> PairAnswer | None:
    """One comparison by present names; None if a class of it is gone."""
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
    """Answers as a file of comparisons has them; what nobody could tell is left out."""
    found = []
    for one in answers:
        if one.outcome != "skip":
            more, less = (one.two, one.one) if one.outcome == "less" else (one.one, one.two)
            found.append(Comparison(one.kind, more, less, one.person, one.outcome == "same", one.photos))
    return found
