"""The order of the classes that follows from comparisons, of one kind, and the answers that it follows from.

The order is that of `fit_comparisons`. Values that people gave, and the steps of ordered labels, are fixed. Comparisons
of photos count for the classes of the photos, on request. Cost: cubic in the number of compared classes.

The answers of a kind are cached in memory: only new rows are read, so that the next pair comes quickly. Cost: linear in
the new rows; a tally is linear in all answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from jaxtyping import Float
from sqlalchemy.engine import Connection

from finegraph.graph import LabelGraph
from finegraph.graph.comparison_conflicts import Conflicts, find_conflicts
from finegraph.graph.comparison_fit import (
    PRIOR_SPREAD,
    ComparisonFit,
    ComparisonTally,
    fit_comparisons,
    fit_tally,
    prior_of,
    shown_by_photos,
)
from finegraph.graph.comparisons import Comparison, between_labels
from finegraph.graph.kind import FloatArray
from finegraph.graph.number import Number
from finegraph.graph.order_fit import fit_order, steps_of
from finegraph.labelling.edits.comparing import check_comparable
from finegraph.labelling.exchange.graphs import read_column
from finegraph.labelling.questions.past import as_comparisons
from finegraph.labelling.questions.team import fleiss
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.graph_columns import number_type, stored_graph
from finegraph.labelling.store.records import Outcome, PairAnswer, Record
from finegraph.labelling.store.sql_tables import comparisons, fine
from finegraph.labelling.store.values import parse_pair

MAX_CONFLICTS = 100
Counted = Literal["classes", "photos"]
"""Which comparisons count: those of classes, or those of photos too."""


@dataclass(frozen=True, kw_only=True)
class RankedClass(Record):
    """A class with its value and spread, how often it was compared, and whether people gave the value."""

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
        unit: the unit of the values; may be empty.
        version: the version of the store.
        comparisons: how many comparisons there are, without skipped ones.
        skipped: how many comparisons were skipped.
        order: the classes, the one with most first.
        unknown: how many classes nobody compared.
        people: how many comparisons each person made.
        agreement: how far they agree.
        divided: pairs that people answered both ways, as `[more, less, votes, against]`.
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
    """The order that a fit to these answers gives, with the contradictions among them."""
    counted_answers = list(answers.counted(classes.place, counted))
    times: Counter[int] = Counter(number for answer in counted_answers for number in (answer.one or 0, answer.two or 0))
    named = [_named(kind.name, answer, classes.names) for answer in counted_answers]
    conflicts = find_conflicts(kind.name, named)
    ranked = _ranked(classes, fit, times)
    return ClassOrder(
        kind=kind.name,
        unit="" if classes.known is None else classes.known.unit,
        version=answers.version,
        comparisons=len(counted_answers),
        skipped=sum(answer.outcome == "skip" for answer in answers.kept.values()),
        order=ranked,
        unknown=len(classes.ids) - len(ranked),
        people=dict(sorted(Counter(answer.person for answer in counted_answers).items())),
        agreement=agreement_of(counted_answers),
        **_conflict_fields(conflicts),
    )


def _conflict_fields(conflicts: Conflicts) -> dict[str, Any]:
    divided = tuple((pair.more, pair.less, pair.votes, pair.against) for pair in conflicts.divided[:MAX_CONFLICTS])
    return {"divided": divided, "circles": conflicts.circles[:MAX_CONFLICTS], "groups": len(conflicts.groups)}


def _named(kind: str, answer: ComparisonAnswer, names: Mapping[int, str]) -> Comparison:
    more, less = (answer.two, answer.one) if answer.outcome == "less" else (answer.one, answer.two)
    return Comparison(kind, names[more or 0], names[less or 0], answer.person, answer.outcome == "same")


def agreement_of(answers: Iterable[ComparisonAnswer]) -> PairsAgreement:
    """How far people agree on pairs that several of them compared; photos count as answers about their classes."""
    by_pair: dict[Hashable, dict[str, Outcome]] = {}
    for answer in answers:
        by_pair.setdefault((answer.one, answer.two, answer.photos), {})[answer.person] = answer.outcome
    shared = [outcomes for outcomes in by_pair.values() if len(outcomes) > 1]
    observed, kappa = fleiss([list(outcomes.values()) for outcomes in shared])
    people = {person for outcomes in shared for person in outcomes}
    return PairsAgreement(pairs=len(shared), people=len(people), observed=observed, fleiss=kappa)


# ---- classes with their known values ---------------------------------------------------------------------------------


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

    def fit(self, kind: str, tally: ComparisonTally | None) -> ComparisonFit | None:
        """The fit to comparisons; None if there are none."""
        return None if tally is None else fit_tally(kind, len(self.ids), tally, known=self.known)

    def prior(self) -> tuple[Float[FloatArray, " fine"], Float[FloatArray, " fine"]]:
        """The mean and spread of each class before any comparison."""
        _, mean, spread = prior_of(len(self.ids), None, PRIOR_SPREAD, self.known)
        return mean, spread


def _ranked(classes: Classes, fit: ComparisonFit | None, times: Mapping[int, int]) -> tuple[RankedClass, ...]:
    """The compared classes with their values, the one with most first."""
    if fit is None:
        return ()
    ranked = []
    values, spreads = fit.in_unit(classes.known)
    for place, value, spread in zip(fit.items.tolist(), values.tolist(), spreads.tolist(), strict=True):
        number = classes.ids[place]
        given = classes.known is not None and bool(classes.known.known[place])
        ranked.append(
            RankedClass(fine=classes.names[number], value=value, spread=spread, comparisons=times[number], given=given)
        )
    return tuple(sorted(ranked, key=lambda entry: -entry.value))


def read_classes(connection: Connection, catalogue: Catalogue, kind: KindEntry) -> Classes:
    """The classes of a store, with what is known of their values in a kind."""
    query = sa.select(fine.c.id, fine.c.name).where(fine.c.removed == 0).order_by(fine.c.position, fine.c.id)
    names = {row.id: row.name for row in connection.execute(query)}
    ids = list(names)
    column = read_column(connection, kind, {number: place for place, number in enumerate(ids)})
    if number_type(kind.prior) is not None:
        known = stored_graph(list(names.values()), [column]).number(kind.name)
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


def _photo_classes(answer: PairAnswer) -> tuple[tuple[str, str | None], ...]:
    return (answer.one, answer.one_class), (answer.two, answer.two_class)


def with_compared(graph: LabelGraph, answers: Sequence[PairAnswer], counted: Counted) -> LabelGraph:
    """A graph in which compared classes without a value, or without a label of an ordered kind, get one."""
    counted_answers = [answer for answer in answers if counted == "photos" or not answer.photos]
    classes = [
        (photo, name)
        for answer in counted_answers
        if answer.photos
        for photo, name in _photo_classes(answer)
        if name is not None
    ]
    comparisons = between_labels(as_comparisons(counted_answers), dict(classes))
    for name in dict.fromkeys(answer.kind for answer in comparisons):
        if name in graph.numbers:
            graph = graph.with_number(fit_comparisons(name, graph.fine, comparisons, known=graph.number(name)).number)
        elif name in graph.kinds and graph.kind(name).ordered:
            graph = graph.with_kind(fit_order(graph.kind(name), graph.fine, comparisons).kind)
    return graph


class ComparisonAnswer(NamedTuple):
    """An answer: the person, the classes of the two things, the outcome, and whether the things are photos."""

    person: str
    one: int | None
    two: int | None
    outcome: Outcome
    photos: bool


@dataclass
class KindAnswers:
    """The answers of one kind in the store; not thread-safe.

    Attributes:
        kind_id: the number of the kind.
        version: the version up to which they were read.
        kept: the answers by their text.
        versions: the version of each answer, also of those that were taken back.
    """

    kind_id: int
    version: int = -1
    kept: dict[str, ComparisonAnswer] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def read(self, connection: Connection) -> list[str]:
        """Read new rows; returns the texts of the comparisons that have changed."""
        query = sa.select(comparisons).where(
            comparisons.c.kind_id == self.kind_id, comparisons.c.version > self.version
        )
        changed = []
        for row in connection.execute(query):
            changed.append(row.pair)
            self.versions[row.pair] = row.version
            self.version = max(self.version, row.version)
            if row.value is None:
                self.kept.pop(row.pair, None)
            else:
                photos = isinstance(parse_pair(row.pair)[1], str)
                self.kept[row.pair] = ComparisonAnswer(row.person, row.one_id, row.two_id, row.value, photos)
        return changed

    def tally(self, place: Mapping[int, int], counted: Counted) -> ComparisonTally | None:
        """The tally of the comparisons between the given classes; None if there are none."""
        weights = {False: 1.0, True: shown_by_photos(PRIOR_SPREAD)}
        results = []
        for answer in self.counted(place, counted):
            more, less = (answer.two, answer.one) if answer.outcome == "less" else (answer.one, answer.two)
            results.append((place[more or 0], place[less or 0], answer.outcome == "same", weights[answer.photos]))
        return ComparisonTally.of(results) if results else None

    def counted(self, place: Mapping[int, int], counted: Counted) -> Iterator[ComparisonAnswer]:
        """The answers that count for the given classes, without skipped ones."""
        for answer in self.kept.values():
            counts = answer.outcome != "skip" and (counted == "photos" or not answer.photos)
            if counts and answer.one in place and answer.two in place and answer.one != answer.two:
                yield answer
