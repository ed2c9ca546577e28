"""The answers of one kind, cached in memory: only new rows are read, so that the next pair comes quickly.

Cost: linear in the new rows; a tally is linear in all answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.graph.comparison_fit import PRIOR_SPREAD, Tally, shown_by_photos
from finegraph.labelling.store.pair_text import parse_pair
from finegraph.labelling.store.records import Outcome
from finegraph.labelling.store.sql_tables import comparisons

Counted = Literal["classes", "photos"]
"""Which comparisons count: those of classes, or those of photos too."""


class Answer(NamedTuple):
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
    kept: dict[str, Answer] = field(default_factory=dict)
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
                self.kept[row.pair] = Answer(row.person, row.one_id, row.two_id, row.value, photos)
        return changed

    def tally(self, place: Mapping[int, int], counted: Counted) -> Tally | None:
        """The tally of the comparisons between the given classes; None if there are none."""
        weights = {False: 1.0, True: shown_by_photos(PRIOR_SPREAD)}
        results = []
        for answer in self.counted(place, counted):
            more, less = (answer.two, answer.one) if answer.outcome == "less" else (answer.one, answer.two)
            results.append((place[more or 0], place[less or 0], answer.outcome == "same", weights[answer.photos]))
        return Tally.of(results) if results else None

    def counted(self, place: Mapping[int, int], counted: Counted) -> Iterator[Answer]:
        """The answers that count for the given classes, without skipped ones."""
        for answer in self.kept.values():
            counts = answer.outcome != "skip" and (counted == "photos" or not answer.photos)
            if counts and answer.one in place and answer.two in place and answer.one != answer.two:
                yield answer
