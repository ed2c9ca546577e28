"""The hits of a search: photos, best first.

Without a condition, photos are ordered by the cosine of their vectors. With one (`conditions.py`) they are ordered by

    score  =  max(cosine, 0) * probability of the condition

over the photos whose probability is at least a hundredth of the largest one. "At most n per label" goes down that order
and passes over photos whose label has had its share; a photo without a label counts for what the model takes it for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from finegraph.search.conditions import Factors
from finegraph.search.filters import listed_photos
from finegraph.search.nearest import Nearest, Numbers, Only, Vectors, count_of, is_numbers, widened
from finegraph.search.photo_table import Table, ordered_labels, photo_kinds, values_of
from finegraph.search.segments import NONE

MIN_SHARE = 0.01
"""Photos whose probability is a smaller share of the largest one are not considered."""
MAX_WEIGHED = 50_000
"""Of more photos than this that may meet a condition, the nearest are weighed."""
_ROUNDING = 1e-3
_PHOTOS_PER_BLOCK = 65536
FIRST, GROWTH = 4, 4
"""How many times the wanted number is read first, and how fast that grows, if some are skipped."""


@dataclass(frozen=True, kw_only=True)
class StoredPhoto:
    """A photo of the index.

    Attributes:
        path: where it is.
        label: its fine label, None if it is not known.
        guess: if it has none, the fine label that the model takes it for.
        kinds: the labels of each kind: one label, or several possible ones; kinds that are not known are left out.
        values: the value of each number of the graph, by its label or by what the model takes it for; unknown ones are
            left out.
        ordered: the labels of each ordered kind, by its label or by what the model takes it for; unknown ones are left
            out.
    """

    path: str
    label: str | None
    guess: str | None
    kinds: dict[str, tuple[str, ...]]
    values: dict[str, float] = field(default_factory=dict)
    ordered: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; without values and ordered labels if the graph has no numbers or no such kinds."""
        content = asdict(self)
        for name in ("kinds", "ordered"):
            content[name] = {kind: list(labels) for kind, labels in content[name].items()}
        for name in ("values", "ordered"):
            if not content[name]:
                del content[name]
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

    @classmethod
    def of(cls, photo: StoredPhoto, cosine: float, score: float, probability: float | None) -> Hit:
        """A stored photo as a hit; the score is that of the condition, and is ignored without one."""
        # Vectors in half precision are not quite of length 1, so that a cosine may come out as 1.00003.
        similarity = min(max(float(cosine), -1.0), 1.0)
        return cls(
            **{one.name: getattr(photo, one.name) for one in fields(StoredPhoto)},
            score=similarity if probability is None else min(float(score), 1.0),
            similarity=similarity,
            probability=None if probability is None else float(probability),
        )


def stored_photo(table: Table, photo: int) -> StoredPhoto:
    """A photo of the index, by its number, for people and programs."""
    segment, row = table.place(photo)
    label, guess = int(table.labels[photo]), int(segment.arrays["guess_labels"][row, 0])
    kinds, held = photo_kinds(table.graph, table.seen_on(photo), label), label if label != NONE else guess
    return StoredPhoto(
        path=segment.path(row),
        label=None if label == NONE else table.names[label],
        guess=table.names[guess] if label == NONE and guess != NONE else None,
        kinds=kinds,
        values=values_of(table.graph, held),
        ordered=ordered_labels(table.graph, kinds, held),
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
    only: Only | None,
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
    kept: list[int] = []
    ranked = None
    for ranked in orders:
        kept = _diverse(table, ranked.photos, count, per_label)
        if len(kept) == count:
            break
    return [] if ranked is None else [_hit(table, ranked, place) for place in kept]


def _by_similarity(
    nearest: Nearest, query: Vectors, count: int, only: Only | None, per_label: int | None
) -> Iterator[Ranked]:
    """The nearest photos, then more and more of them."""
    possible = nearest.count if only is None else count_of(only)
    wanted = count if per_label is None else FIRST * count
    while True:
        scores, photos = nearest.search(query, wanted, only)
        yield Ranked(photos[0], scores[0], scores[0], None)
        if wanted >= possible or per_label is None:
            return
        wanted *= GROWTH


def _by_condition(table: Table, nearest: Nearest, query: Vectors, only: Only | None, factors: Factors) -> Ranked:
    """All photos that may meet a condition, by cosine and probability together."""
    photos, probability = _meeting(table, only, factors)
    if not len(photos):
        return Ranked(photos, np.zeros(0, np.float32), np.zeros(0, np.float32), np.zeros(0, np.float32))
    if len(photos) > MAX_WEIGHED:
        (cosines,), (near,) = nearest.search(query, MAX_WEIGHED, photos)
        ascending = np.argsort(near)
        near, cosines = near[ascending], cosines[ascending]
        probability = probability[np.searchsorted(photos, near)]
        photos = near
    else:
        cosines = widened(table.vectors(photos)) @ query[0]
    scores = np.maximum(cosines, 0.0) * probability
    order = np.argsort(-scores, kind="stable")
    return Ranked(photos[order], scores[order], cosines[order], probability[order])


def _meeting(table: Table, only: Only | None, factors: Factors) -> tuple[Numbers, Vectors]:
    """The photos whose probability of meeting a condition is large enough, ascending, and the probabilities.

    A photo is at most as probable as the best of the labels assumed for it. So photos of labels with small factors need
    not be checked, once a photo is found that is probable enough.
    """
    least = MIN_SHARE * float(factors.max(initial=0.0))
    while True:
        labels = np.flatnonzero((factors >= (1 - _ROUNDING) * least) & (factors > 0))
        photos = listed_photos(table, labels)
        is_all = photos is None
        if is_numbers(only):
            photos, is_all = only, True
        elif only is not None:
            photos = np.flatnonzero(only) if photos is None else photos[only[photos]]
        photos, probability = _probabilities(table, photos, factors)
        smallest = MIN_SHARE * float(probability.max(initial=0.0))
        if is_all or least <= smallest or not least:
            kept = (probability >= smallest) & (probability > 0)
            return photos[kept], probability[kept]
        least = smallest


def _probabilities(table: Table, photos: Numbers | None, factors: Factors) -> tuple[Numbers, Vectors]:
    """The probability of each photo, or of some; the photos with it."""
    padded = np.append(factors, np.float32(0.0))  # for NONE
    photos = np.arange(len(table)) if photos is None else photos
    probability = np.zeros(len(photos), np.float32)
    for start in range(0, len(photos), _PHOTOS_PER_BLOCK):
        block = slice(start, start + _PHOTOS_PER_BLOCK)
        labels, probs = table.guesses(photos[block])
        probability[block] = (padded[labels] * probs).sum(axis=1)
    return photos, probability


def _diverse(table: Table, photos: NDArray[np.int64], count: int, per_label: int | None) -> list[int]:
    """The places of the photos that are taken."""
    if per_label is None:
        return [place for place, photo in enumerate(photos[:count].tolist()) if photo >= 0]
    there = np.flatnonzero(photos >= 0)
    fine = table.fine(guessed=True, photos=photos[there])
    taken: Counter[int] = Counter()
    kept: list[int] = []
    for place, label in zip(there.tolist(), fine.tolist(), strict=True):
        if label != NONE and taken[label] >= per_label:
            continue
        taken[label] += 1
        kept.append(place)
        if len(kept) == count:
            break
    return kept


def _hit(table: Table, ranked: Ranked, place: int) -> Hit:
    """A photo for people and programs."""
    probability = None if ranked.probabilities is None else ranked.probabilities[place]
    photo = stored_photo(table, int(ranked.photos[place]))
    return Hit.of(photo, ranked.similarities[place], ranked.scores[place], probability)
