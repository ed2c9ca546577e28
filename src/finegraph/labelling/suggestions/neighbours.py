"""The nearest classes of each class, by the cosine between their mean features. Pure numpy, no database.

Up to 10,000 classes, all pairs are compared. Above that, classes are put into about sqrt(n) groups, by the nearest of
as many landmarks (classes drawn at random), and a class is compared with its own group and the nearest groups: about
n^1.5 comparisons instead of n^2, at the price of missing some neighbours. Both work block by block, so memory is that
of the features and of one block.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

EXACT = 10_000
"""Up to this number of classes, all pairs are compared."""
_GROUPS_COMPARED = 16
"""How many groups a class is compared with, including its own."""
_MAX_COMPARISONS = 2**23
"""The largest number of comparisons in memory at once."""


def nearest(
    unit: Float[Floats, "photo feature"], wanted: Int[Numbers, " sample"], count: int, *, exact: int = EXACT
) -> Iterator[tuple[int, Int[Numbers, " place"], Float[Floats, " place"]]]:
    """The nearest rows of some rows, best first.

    Args:
        unit: rows of length 1.
        wanted: the rows whose neighbours are looked for.
        count: how many neighbours at most.
        exact: up to this number of rows, all pairs are compared.

    Yields:
        A row, the rows nearest to it, and their cosines.
    """
    if len(unit) <= exact:
        yield from _among(unit, wanted, np.arange(len(unit)), count)
        return
    landmarks = unit[np.random.default_rng(0).choice(len(unit), int(np.ceil(np.sqrt(len(unit)))), replace=False)]
    group = np.concatenate([(part @ landmarks.T).argmax(axis=1) for part in _blocks(unit, len(landmarks))])
    order = np.argsort(group, kind="stable")
    ends = np.searchsorted(group[order], np.arange(len(landmarks) + 1))
    members = [order[ends[number] : ends[number + 1]] for number in range(len(landmarks))]
    is_wanted = np.zeros(len(unit), dtype=bool)
    is_wanted[wanted] = True
    for number, rows in enumerate(members):
        wanted_rows = rows[is_wanted[rows]]
        if len(wanted_rows):
            near_groups = np.argsort(-(landmarks @ landmarks[number]), kind="stable")[:_GROUPS_COMPARED]
            yield from _among(unit, wanted_rows, np.concatenate([members[other] for other in near_groups]), count)


def _blocks(rows: Floats, wide: int) -> Iterator[Floats]:
    """Rows in blocks, each compared with a given number of others."""
    step = max(1, _MAX_COMPARISONS // max(1, wide))
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _among(unit: Floats, wanted: Numbers, others: Numbers, count: int) -> Iterator[tuple[int, Numbers, Floats]]:
    """The nearest of some other rows."""
    step = max(1, _MAX_COMPARISONS // len(others))
    candidates = unit if len(others) == len(unit) else unit[others]
    for start in range(0, len(wanted), step):
        part = wanted[start : start + step]
        cosines = unit[part] @ candidates.T
        cosines[part[:, None] == others] = -np.inf  # nothing is its own neighbour
        kept = min(count, len(others) - 1)
        if kept < 1:
            continue
        best = np.argpartition(-cosines, kept - 1, axis=1)[:, :kept]
        for row, places, row_cosines in zip(part.tolist(), best, cosines, strict=True):
            places = places[np.lexsort((others[places], -row_cosines[places]))]
            yield row, others[places], row_cosines[places]
