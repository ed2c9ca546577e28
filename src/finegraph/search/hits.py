"""The hits of a search: photos, best first.

Without a condition, photos are ordered by the cosine of their vectors. With one (`conditions.py`) they are ordered by

    score  =  max(cosine, 0) * probability of the condition

over the photos whose probability is at least a hundredth of the largest one. "At most n per label" goes down that order
and passes over photos whose label has had its share; a photo without a label counts for what the model takes it for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from finegraph.search.conditions import Factors
from finegraph.search.nearest import Mask, Nearest, Vectors, widened
from finegraph.search.photo_table import Table, kinds_of, values_of
from finegraph.search.segments import NONE

MIN_SHARE = 0.01
"""Photos whose probability is a smaller share of the largest one are not considered."""
MAX_WEIGHED = 50_000
"""Of more photos than this that may meet a condition, the nearest are weighed."""
FIRST, GROWTH = 4, 4
"""How many times the wanted number is looked at first, and how fast that grows, if some are passed over."""


@dataclass(frozen=True, kw_only=True)
class StoredPhoto:
    """A photo of the index.

    Attributes:
        path: where it is.
        label: its fine label, None if it is not known.
        guess: if it has none, the fine label that the model takes it for.
        kinds: the labels of each kind: one, or several one of which it is; kinds that are not known are left out.
        values: the value of each number of the graph, by its label or by what the model takes it for; unknown ones are
            left out.
    """

    path: str
    label: str | None
    guess: str | None
    kinds: dict[str, tuple[str, ...]]
    values: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; without values if the graph has no numbers."""
        content = {**asdict(self), "kinds": {kind: list(labels) for kind, labels in self.kinds.items()}}
        if not self.values:
            del content["values"]
        return content


@dataclass(frozen=True, kw_only=True)
class Hit(StoredPhoto):
    """A photo that was found.

    Attributes:
        score: what hits are ordered by.
        similarity: the cosine of its vector and that of the query.
        probability: that it meets the condition; None if there is no condition.
    """

    score: float
    similarity: float
    probability: float | None = None


def stored_photo(table: Table, photo: int) -> StoredPhoto:
    """A photo of the index, by its number, for people and programs."""
    label, guess = int(table.labels[photo]), int(table.guess_labels[photo, 0])
    return StoredPhoto(
        path=table.path(photo),
        label=None if label == NONE else table.names[label],
        guess=table.names[guess] if label == NONE and guess != NONE else None,
        kinds=kinds_of(table.graph, table.seen_on(photo), label),
        values=values_of(table.graph, label if label != NONE else guess),
    )


class Ranked(NamedTuple):
    """Photos by number, best first, with what they are ordered by; no probabilities if there is no condition."""

    photos: Int[NDArray[np.int64], " place"]
    scores: Float[Vectors, " place"]
    similarities: Float[Vectors, " place"]
    probabilities: Float[Vectors, " place"] | None


def rank(
    table: Table,
    nearest: Nearest,
    query: Float[Vectors, "1 axis"],
    count: int,
    only: Bool[Mask, " photo"] | None,
    factors: Float[Factors, " fine"] | None,
    per_label: int | None,
) -> list[Hit]:
    """The best photos for one query.

    Args:
        table: the photos.
        nearest: their vectors.
        query: (1, dimension) of length 1.
        count: how many photos at most.
        only: which photos count; None for all.
        factors: (fine) the probability of the condition, by fine label.
        per_label: how many photos of each fine label at most.
    """
    orders = (
        _by_similarity(nearest, query, count, only, per_label)
        if factors is None
        else iter([_by_condition(table, nearest, query, only, factors)])
    )
    fine = table.fine(guessed=True) if per_label is not None else None
    kept: list[int] = []
    ranked = None
    for ranked in orders:
        kept = _diverse(ranked.photos, count, fine, per_label)
        if len(kept) == count:
            break
    return [] if ranked is None else [_hit(table, ranked, place) for place in kept]


def _by_similarity(
    nearest: Nearest, query: Vectors, count: int, only: Mask | None, per_label: int | None
) -> Iterator[Ranked]:
    """The nearest photos, then more and more of them."""
    possible = nearest.count if only is None else int(np.count_nonzero(only))
    wanted = count if per_label is None else FIRST * count
    while True:
        scores, photos = nearest.search(query, wanted, only)
        yield Ranked(photos[0], scores[0], scores[0], None)
        if wanted >= possible or per_label is None:
            return
        wanted *= GROWTH


def _by_condition(table: Table, nearest: Nearest, query: Vectors, only: Mask | None, factors: Factors) -> Ranked:
    """All photos that may meet a condition, by cosine and probability together."""
    padded = np.append(factors, np.float32(0.0))  # for NONE
    probability = (padded[table.guess_labels] * table.guess_probs).sum(axis=1)
    if only is not None:
        probability = np.where(only, probability, 0.0)
    largest = float(probability.max(initial=0.0))
    possible = (probability >= MIN_SHARE * largest) & (probability > 0)
    photos = np.flatnonzero(possible)
    if len(photos) > MAX_WEIGHED:
        photos = np.sort(nearest.search(query, MAX_WEIGHED, possible)[1][0])
    if not len(photos):
        return Ranked(photos, np.zeros(0, np.float32), np.zeros(0, np.float32), np.zeros(0, np.float32))
    cosines = widened(table.vectors(photos)) @ query[0]
    photo_probability = probability[photos].astype(np.float32)
    scores = np.maximum(cosines, 0.0) * photo_probability
    order = np.argsort(-scores, kind="stable")
    return Ranked(photos[order], scores[order], cosines[order], photo_probability[order])


def _diverse(photos: NDArray[np.int64], count: int, fine: NDArray[np.int32] | None, per_label: int | None) -> list[int]:
    """The places of the photos that are taken."""
    if fine is None or per_label is None:
        return [place for place, photo in enumerate(photos[:count].tolist()) if photo >= 0]
    taken: Counter[int] = Counter()
    kept: list[int] = []
    for place, photo in enumerate(photos.tolist()):
        label = int(fine[photo]) if photo >= 0 else NONE
        if photo < 0 or (label != NONE and taken[label] >= per_label):
            continue
        taken[label] += 1
        kept.append(place)
        if len(kept) == count:
            break
    return kept


def _hit(table: Table, ranked: Ranked, place: int) -> Hit:
    """A photo for people and programs."""
    photo = stored_photo(table, int(ranked.photos[place]))
    # Vectors in half precision are not quite of length 1, and a cosine of 1.00003 is none.
    similarity = min(max(float(ranked.similarities[place]), -1.0), 1.0)
    return Hit(
        path=photo.path,
        label=photo.label,
        guess=photo.guess,
        kinds=photo.kinds,
        values=photo.values,
        score=similarity if ranked.probabilities is None else min(float(ranked.scores[place]), 1.0),
        similarity=similarity,
        probability=None if ranked.probabilities is None else float(ranked.probabilities[place]),
    )
