"""The order of the classes that follows from comparisons, of one kind.

The order is that of `fit_comparisons`: values that people gave, and steps of ordered labels, hold; comparisons of
photos count for the classes of the photos, if asked. Cost: the cube of how many classes were compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sqlalchemy as sa
from jaxtyping import Float
from sqlalchemy.engine import Connection

from finegraph.graph import LabelGraph
from finegraph.graph.comparison_conflicts import Conflicts, find_conflicts
from finegraph.graph.comparison_fit import (
    PRIOR_SPREAD,
    ComparisonFit,
    Tally,
    fit_comparisons,
    fit_tally,
    prior_of,
)
from finegraph.graph.comparisons import Comparison, between_labels
from finegraph.graph.kind import FloatArray
from finegraph.graph.number import Number
from finegraph.labelling.edits.comparing import check_comparable
from finegraph.labelling.exchange.graphs import read_column
from finegraph.labelling.order.kind_answers import Counted, Kept, KindAnswers
from finegraph.labelling.questions.agreement import fleiss
from finegraph.labelling.questions.pair_answers import as_comparisons
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.graph_columns import graph_of, number_type
from finegraph.labelling.store.records import Outcome, PairAnswer, Record
from finegraph.labelling.store.sql_tables import fine

MAX_CONFLICTS = 100


@dataclass(frozen=True, kw_only=True)
class RankedClass(Record):
    """A class with its value, how far that may be off, how often it was compared, and whether the value was given."""

    fine: str
    value: float
    spread: float
    comparisons: int
    given: bool = False


@dataclass(frozen=True, kw_only=True)
class PairsAgreement(Record):
    """How far people agree on pairs that several of them compared: observed, and Fleiss' kappa."""

    pairs: int
    people: int
    observed: float | None
    fleiss: float | None


@dataclass(frozen=True, kw_only=True)
class ClassOrder(Record):
    """The order of the classes that were compared in one kind.

    Attributes:
        kind: what was compared.
        unit: that of the values; may be empty.
        version: the state of the store that it is of.
        comparisons: how many there are, without those that nobody could tell.
        skipped: how many nobody could tell.
        order: the classes, the one with most first.
        unknown: how many classes nobody compared.
        people: how many comparisons each person made.
        agreement: how far they agree.
        divided: pairs that were told both ways, as `[more, less, votes, against]`.
        circles: classes of which each has more than the next, and the last more than the first.
        groups: how many groups there are that no comparison links.
    """

    kind: str
    unit: str
    version: int
    comparisons: int
    skipped: int
    order: tuple[RankedClass, ...]
    unknown: int
    people: dict[str, int]
    agreement: PairsAgreement
    divided: tuple[tuple[str, str, int, int], ...]
    circles: tuple[tuple[str, ...], ...]
    groups: int


def order_of(
    answers: KindAnswers, kind: KindEntry, classes: Classes, fit: ComparisonFit | None, counted: Counted
) -> ClassOrder:
    """The order, with what does not fit together, of a fit to these answers."""
    told = list(answers.counted(classes.place, counted))
    times: Counter[int] = Counter(number for one in told for number in (one.one or 0, one.two or 0))
    named = [_named(kind.name, one, classes.names) for one in told]
    conflicts = find_conflicts(kind.name, named)
    ranked = _ranked(classes, fit, times)
    return ClassOrder(
        kind=kind.name,
        unit="" if classes.known is None else classes.known.unit,
        version=answers.version,
        comparisons=len(told),
        skipped=sum(one.outcome == "skip" for one in answers.kept.values()),
        order=ranked,
        unknown=len(classes.ids) - len(ranked),
        people=dict(sorted(Counter(one.person for one in told).items())),
        agreement=agreement_of(told),
        **_told_conflicts(conflicts),
    )


def _told_conflicts(conflicts: Conflicts) -> dict[str, Any]:
    divided = tuple((one.more, one.less, one.votes, one.against) for one in conflicts.divided[:MAX_CONFLICTS])
    return {"divided": divided, "circles": conflicts.circles[:MAX_CONFLICTS], "groups": len(conflicts.groups)}


def _named(kind: str, one: Kept, names: Mapping[int, str]) -> Comparison:
    more, less = (one.two, one.one) if one.outcome == "less" else (one.one, one.two)
    return Comparison(kind, names[more or 0], names[less or 0], one.person, one.outcome == "same")


def agreement_of(answers: Iterable[Kept]) -> PairsAgreement:
    """How far people agree on what several of them compared; one thing that photos show is one answer of each pair."""
    by_pair: dict[Hashable, dict[str, Outcome]] = {}
    for one in answers:
        by_pair.setdefault((one.one, one.two, one.photos), {})[one.person] = one.outcome
    shared = [said for said in by_pair.values() if len(said) > 1]
    observed, kappa = fleiss([list(said.values()) for said in shared])
    people = {person for said in shared for person in said}
    return PairsAgreement(pairs=len(shared), people=len(people), observed=observed, fleiss=kappa)


# ---- classes with what is known of them ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of a store in order, and the values that they have in one kind.

    Attributes:
        ids: their numbers.
        names: their names by number.
        known: the values that people gave, or the steps of ordered labels; None if there are none.
    """

    ids: Sequence[int]
    names: Mapping[int, str]
    known: Number | None

    @cached_property
    def place(self) -> Mapping[int, int]:
        """The place of each class in the list."""
        return {number: place for place, number in enumerate(self.ids)}

    def fit(self, kind: str, tally: Tally | None) -> ComparisonFit | None:
        """The fit to comparisons; None if there are none."""
        return None if tally is None else fit_tally(kind, len(self.ids), tally, known=self.known)

    def prior(self) -> tuple[Float[FloatArray, " fine"], Float[FloatArray, " fine"]]:
        """What each class is expected to have before any comparison, and how far that may be off."""
        _, mean, spread = prior_of(len(self.ids), None, PRIOR_SPREAD, self.known)
        return mean, spread


def steps_of(name: str, places: Sequence[Sequence[int]]) -> Number | None:
    """Ordered labels as values: the first is 1, the second 2; between labels lie even steps.

    Args:
        name: the kind.
        places: of each class the places of its labels in their order; none if it is unknown.
    """
    values = np.array([np.mean(one) + 1.0 if len(one) else np.nan for one in places], dtype=np.float64)
    wide = np.array([np.ptp(one) + 1.0 if len(one) else 0.0 for one in places], dtype=np.float64)
    return None if np.isnan(values).all() else Number(name, values, wide / np.sqrt(12))


def _ranked(classes: Classes, fit: ComparisonFit | None, times: Mapping[int, int]) -> tuple[RankedClass, ...]:
    """The compared classes with their values, the one with most first."""
    if fit is None:
        return ()
    found = []
    values, spreads = fit.in_unit(classes.known)
    for place, value, spread in zip(fit.items.tolist(), values.tolist(), spreads.tolist(), strict=True):
        number = classes.ids[place]
        given = classes.known is not None and bool(classes.known.known[place])
        found.append(
            RankedClass(fine=classes.names[number], value=value, spread=spread, comparisons=times[number], given=given)
        )
    return tuple(sorted(found, key=lambda one: -one.value))


def read_classes(connection: Connection, catalogue: Catalogue, kind: KindEntry) -> Classes:
    """The classes of a store, with what is known of their values in a kind."""
    query = sa.select(fine.c.id, fine.c.name).where(fine.c.removed == 0).order_by(fine.c.position, fine.c.id)
    names = {row.id: row.name for row in connection.execute(query)}
    ids = list(names)
    column = read_column(connection, kind, {number: place for place, number in enumerate(ids)})
    if number_type(kind.prior) is not None:
        known = graph_of(list(names.values()), [column]).number(kind.name)
        return Classes(ids, names, known if known.known.any() else None)
    return Classes(ids, names, steps_of(kind.name, [[label for label, _ in cell or ()] for cell in column.cells]))


def read_order(connection: Connection, catalogue: Catalogue, kind_name: str, counted: Counted) -> ClassOrder:
    """The order of the classes in a kind, by all comparisons that count."""
    kind = catalogue.kind(kind_name)
    check_comparable(kind)
    answers, classes = KindAnswers(kind.id), read_classes(connection, catalogue, kind)
    answers.read(connection)
    fit = classes.fit(kind.name, answers.tally(classes.place, counted))
    return order_of(answers, kind, classes, fit, counted)


def _photo_classes(one: PairAnswer) -> tuple[tuple[str, str | None], ...]:
    return (one.one, one.one_class), (one.two, one.two_class)


def with_compared(graph: LabelGraph, answers: Sequence[PairAnswer], counted: Counted) -> LabelGraph:
    """A graph in which classes that were compared, and have no value, get one; ordered kinds stay as they are."""
    told = [one for one in answers if counted == "photos" or not one.photos]
    classes = [(photo, name) for one in told if one.photos for photo, name in _photo_classes(one) if name is not None]
    found = between_labels(as_comparisons(told), dict(classes))
    for name in dict.fromkeys(one.kind for one in found):
        if name in graph.numbers:
            graph = graph.with_number(fit_comparisons(name, graph.fine, found, known=graph.number(name)).number)
    return graph
