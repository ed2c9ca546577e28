"""Agreement beyond chance: Cohen's kappa of two people, Fleiss' kappa of several.

    kappa = (observed - by chance) / (1 - by chance)

Cohen: chance is what two people with these frequencies would agree on by luck. Fleiss: chance is that of one common
frequency; cells may have different numbers of votes, each cell's share of agreeing pairs counts once. Cells that fewer
than two people decided say nothing, nor do votes for unknown. None if chance alone explains everything (one value).
Cost: linear in the votes, and in the pairs of people for Cohen's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.records import Record
from finegraph.labelling.store.sql_tables import fine, votes

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
    one, two = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    observed = sum(a == b for a, b in pairs) / count
    chance = sum(one[value] * two[value] for value in one) / count**2
    return observed, _kappa(observed, chance)


def fleiss(cells: Iterable[Sequence[Hashable]]) -> tuple[float | None, float | None]:
    """The observed agreement and Fleiss' kappa, from the votes on each cell; cells with one vote are left out.

    Example:
        >>> fleiss([["a", "a"], ["a", "b"], ["b", "b"], ["b", "b"]])
        (0.75, 0.4666666666666667)
    """
    totals: Counter[Hashable] = Counter()
    shares = []
    for given in cells:
        if len(given) < 2:
            continue
        counts = Counter(given)
        shares.append(sum(n * (n - 1) for n in counts.values()) / (len(given) * (len(given) - 1)))
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
    for entry, own in by_kind.items():
        for said in own:
            for one, two in combinations(sorted(said), 2):
                # A value of one kind is never the same as one of another.
                pairs.setdefault((one, two), []).append(((entry.id, said[one]), (entry.id, said[two])))
    observed, kappa = fleiss([[(entry.id, v) for v in said.values()] for entry, own in by_kind.items() for said in own])
    return Agreement(
        kinds=tuple(_of_kind(entry, own) for entry, own in by_kind.items()),
        pairs=tuple(_of_pair(one, two, answers) for (one, two), answers in sorted(pairs.items())),
        observed=observed,
        fleiss=kappa,
    )


def _votes(connection: Connection, kind: KindEntry) -> list[Mapping[str, str]]:
    """The votes on each cell of a kind that at least two people decided."""
    living = sa.select(fine.c.id).where(fine.c.removed == 0)
    query = sa.select(votes).where(votes.c.kind_id == kind.id, votes.c.value.is_not(None), votes.c.fine_id.in_(living))
    found: dict[int, dict[str, str]] = {}
    for row in connection.execute(query.order_by(votes.c.fine_id, votes.c.person)):
        found.setdefault(row.fine_id, {})[row.person] = row.value
    return [said for said in found.values() if len(said) > 1]


def _of_kind(kind: KindEntry, own: Sequence[Mapping[str, str]]) -> KindAgreement:
    observed, kappa = fleiss([list(said.values()) for said in own])
    people = {person for said in own for person in said}
    return KindAgreement(kind=kind.name, cells=len(own), people=len(people), observed=observed, fleiss=kappa)


def _of_pair(one: str, two: str, answers: Sequence[tuple[Hashable, Hashable]]) -> PairAgreement:
    observed, kappa = cohen(answers)
    return PairAgreement(one=one, two=two, cells=len(answers), observed=observed, kappa=kappa)
