"""The answers of one kind, kept in memory: only what is new is read, so that the next pair need not wait for all rows.

Cost: linear in what is new; a tally is linear in all answers.
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


class Kept(NamedTuple):
    """An answer: who, the classes of the two things, what holds of the first, and whether they are photos."""

    person: str
    one: int | None
    two: int | None
    outcome: Outcome
    photos: bool


@dataclass
class KindAnswers:
    """The answers of one kind as they are in the store; one thread at a time.

    Attributes:
        kind_id: the number of the kind.
        version: the version up to which they were read.
        kept: the answers by their text.
        versions: the version of each answer, also of those that were taken back.
    """

    kind_id: int
    version: int = -1
    kept: dict[str, Kept] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def read(self, connection: Connection) -> list[str]:
        """Read what is new; the texts of the comparisons that have changed."""
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
                self.kept[row.pair] = Kept(row.person, row.one_id, row.two_id, row.value, photos)
        return changed

    def tally(self, place: Mapping[int, int], counted: Counted) -> Tally | None:
        """How the comparisons of the classes went that have a place; None if there is none."""
        shown = {False: 1.0, True: shown_by_photos(PRIOR_SPREAD)}
        told = []
        for one in self.counted(place, counted):
            more, less = (one.two, one.one) if one.outcome == "less" else (one.one, one.two)
            told.append((place[more or 0], place[less or 0], one.outcome == "same", shown[one.photos]))
        return Tally.of(told) if told else None

    def counted(self, place: Mapping[int, int], counted: Counted) -> Iterator[Kept]:
        """The answers that tell something of classes that have a place."""
        for one in self.kept.values():
            told = one.outcome != "skip" and (counted == "photos" or not one.photos)
            if told and one.one in place and one.two in place and one.one != one.two:
                yield one
