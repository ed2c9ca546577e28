"""What a team has done: its progress, and its agreement beyond chance.

Progress is known cells per kind, and decisions per person. Cost: one pass over the cells and votes, about 0.4 s for
100,000 classes of 8 kinds; the store keeps the answer for a while.

Agreement is Cohen's kappa of two people, and Fleiss' kappa of several:

    kappa = (observed - by chance) / (1 - by chance)

Cohen: chance is the agreement of two independent people with these frequencies. Fleiss: chance is that of one common
frequency; cells may have different numbers of votes, and each cell's share of agreeing pairs counts once. Cells that
fewer than two people decided do not count, nor do votes for unknown. None if there is only one value.
Cost: linear in the votes, and in the pairs of people for Cohen's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.labelling.questions.queries import DISAGREES, DOUBTFUL
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.log import now
from finegraph.labelling.store.records import KindProgress, PersonProgress, Progress, Record
from finegraph.labelling.store.sql_tables import cells, comparisons, fine, kinds, votes

_CERTAIN = 1e-12


@dataclass(frozen=True, kw_only=True)
class KindAgreement(Record):
    """The agreement on one kind: cells that several people decided, how many people, and Fleiss' kappa."""

    kind: str
    cells: int
    people: int
    observed: float | None
    fleiss: float | None


@dataclass(frozen=True, kw_only=True)
class PairAgreement(Record):
    """The agreement of two people on the cells that both decided: observed, and Cohen's kappa."""

    one: str
    two: str
    cells: int
    observed: float
    kappa: float | None


@dataclass(frozen=True, kw_only=True)
class Agreement(Record):
    """The agreement of all people: by kind, by pair of people, and over all cells."""

    kinds: tuple[KindAgreement, ...]
    pairs: tuple[PairAgreement, ...]
    observed: float | None
    fleiss: float | None


def cohen(pairs: Sequence[tuple[Hashable, Hashable]]) -> tuple[float, float | None]:
    """The observed agreement of two people and Cohen's kappa, from their answers to the same questions.

    Example:
        >>> cohen([("a", "a"), ("a", "b"), ("b", "b"), ("b", "b")])
        (0.75, 0.5)
    """
    count = len(pairs)
    first_counts, second_counts = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    observed = sum(a == b for a, b in pairs) / count
    chance = sum(first_counts[value] * second_counts[value] for value in first_counts) / count**2
    return observed, _kappa(observed, chance)


def fleiss(cells: Iterable[Sequence[Hashable]]) -> tuple[float | None, float | None]:
    """The observed agreement and Fleiss' kappa, from the votes on each cell; cells with one vote are left out.

    Example:
        >>> fleiss([["a", "a"], ["a", "b"], ["b", "b"], ["b", "b"]])
        (0.75, 0.4666666666666667)
    """
    totals: Counter[Hashable] = Counter()
    shares = []
    for votes_of_cell in cells:
        if len(votes_of_cell) < 2:
            continue
        counts = Counter(votes_of_cell)
        shares.append(sum(n * (n - 1) for n in counts.values()) / (len(votes_of_cell) * (len(votes_of_cell) - 1)))
        totals.update(counts)
    if not shares:
        return None, None
    observed, all_votes = sum(shares) / len(shares), sum(totals.values())
    return observed, _kappa(observed, sum((n / all_votes) ** 2 for n in totals.values()))


def _kappa(observed: float, chance: float) -> float | None:
    return None if 1.0 - chance < _CERTAIN else (observed - chance) / (1.0 - chance)


def read_agreement(connection: Connection, catalogue: Catalogue, kind: str | None = None) -> Agreement:
    """The agreement of the people who edited a store, on one kind or on all."""
    chosen = [catalogue.kind(kind)] if kind is not None else list(catalogue.kinds)
    by_kind = {entry: _votes(connection, entry) for entry in chosen}
    pairs: dict[tuple[str, str], list[tuple[Hashable, Hashable]]] = {}
    for entry, cell_votes in by_kind.items():
        for by_person in cell_votes:
            for first, second in combinations(sorted(by_person), 2):
                # With the kind: equal encoded values of two kinds are different labels.
                pairs.setdefault((first, second), []).append(
                    ((entry.id, by_person[first]), (entry.id, by_person[second]))
                )
    observed, kappa = fleiss(
        [
            [(entry.id, v) for v in by_person.values()]
            for entry, cell_votes in by_kind.items()
            for by_person in cell_votes
        ]
    )
    return Agreement(
        kinds=tuple(_of_kind(entry, cell_votes) for entry, cell_votes in by_kind.items()),
        pairs=tuple(_of_pair(first, second, answers) for (first, second), answers in sorted(pairs.items())),
        observed=observed,
        fleiss=kappa,
    )


def _votes(connection: Connection, kind: KindEntry) -> list[Mapping[str, str]]:
    """The votes on each cell of a kind that at least two people decided."""
    living = sa.select(fine.c.id).where(fine.c.removed == 0)
    query = sa.select(votes).where(votes.c.kind_id == kind.id, votes.c.value.is_not(None), votes.c.fine_id.in_(living))
    by_class: dict[int, dict[str, str]] = {}
    for row in connection.execute(query.order_by(votes.c.fine_id, votes.c.person)):
        by_class.setdefault(row.fine_id, {})[row.person] = row.value
    return [by_person for by_person in by_class.values() if len(by_person) > 1]


def _of_kind(kind: KindEntry, cell_votes: Sequence[Mapping[str, str]]) -> KindAgreement:
    observed, kappa = fleiss([list(by_person.values()) for by_person in cell_votes])
    people = {person for by_person in cell_votes for person in by_person}
    return KindAgreement(kind=kind.name, cells=len(cell_votes), people=len(people), observed=observed, fleiss=kappa)


def _of_pair(one: str, two: str, answers: Sequence[tuple[Hashable, Hashable]]) -> PairAgreement:
    observed, kappa = cohen(answers)
    return PairAgreement(one=one, two=two, cells=len(answers), observed=observed, kappa=kappa)


def read_progress(connection: Connection, catalogue: Catalogue) -> Progress:
    """The progress of a store."""
    total = int(connection.scalar(sa.select(sa.func.count()).select_from(fine).where(fine.c.removed == 0)) or 0)
    removed = sa.select(fine.c.id).where(fine.c.removed == 1)

    def count(*where: sa.ColumnElement[bool]) -> dict[int, int]:
        query = sa.select(cells.c.kind_id, sa.func.count()).where(cells.c.fine_id.not_in(removed), *where)
        return {row[0]: row[1] for row in connection.execute(query.group_by(cells.c.kind_id))}

    known, differing, doubtful = count(cells.c.value.is_not(None)), count(DISAGREES), count(DOUBTFUL)
    return Progress(
        kinds=tuple(
            KindProgress(
                kind=kind.name,
                known=known.get(kind.id, 0),
                unknown=total - known.get(kind.id, 0),
                total=total,
                disagreements=differing.get(kind.id, 0),
                low_confidence=doubtful.get(kind.id, 0),
            )
            for kind in catalogue.kinds
        ),
        people=_people(connection, catalogue),
        classes=total,
    )


def _people(connection: Connection, catalogue: Catalogue) -> tuple[PersonProgress, ...]:
    """What each person has decided and compared, by name."""
    living = sa.select(kinds.c.id).where(kinds.c.removed == 0)
    by_person: dict[str, list[tuple[str, int, int, str]]] = {}
    for table, counts in ((votes, sa.true()), (comparisons, comparisons.c.value.is_not(None))):
        today = sa.func.sum(sa.case((table.c.at >= now()[:10], 1), else_=0))
        query = sa.select(table.c.person, table.c.kind_id, sa.func.count(), today, sa.func.max(table.c.at))
        query = query.where(table.c.kind_id.in_(living), counts).group_by(table.c.person, table.c.kind_id)
        for person, kind_id, count, today_count, last in connection.execute(query):
            by_person.setdefault(person, []).append((catalogue.by_id[kind_id].name, count, int(today_count), last))
    return tuple(
        PersonProgress(
            person=person,
            decisions=sum(count for _, count, _, _ in rows),
            today=sum(today_count for _, _, today_count, _ in rows),
            kinds={name: sum(count for other, count, _, _ in rows if other == name) for name, _, _, _ in rows},
            last=max(last for _, _, _, last in rows),
        )
        for person, rows in sorted(by_person.items())
    )
