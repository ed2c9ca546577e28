"""The nearest classes of each class, by the cosine between their mean features. Pure numpy, no database.

Up to 10,000 classes, each is compared with each. Above that, classes are put into about sqrt(n) groups, by the nearest
of as many landmarks (some of the classes, drawn once), and a class is compared with those of its own group and of the
groups next to it: about n^1.5 comparisons in place of n^2. Some true neighbours are missed then. Either way it goes
block by block, so memory is that of the features and of one block.
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
_GROUPS = 16
"""How many groups a class is compared with, its own among them."""
_BLOCK = 2**23
"""How many comparisons are held at once."""


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
    members = [order[ends[one] : ends[one + 1]] for one in range(len(landmarks))]
    asked = np.zeros(len(unit), dtype=bool)
    asked[wanted] = True
    for one, own in enumerate(members):
        mine = own[asked[own]]
        if len(mine):
            beside = np.argsort(-(landmarks @ landmarks[one]), kind="stable")[:_GROUPS]
            yield from _among(unit, mine, np.concatenate([members[other] for other in beside]), count)


def _blocks(rows: Floats, wide: int) -> Iterator[Floats]:
    """Rows in blocks, each compared with a given number of others."""
    step = max(1, _BLOCK // max(1, wide))
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _among(unit: Floats, wanted: Numbers, others: Numbers, count: int) -> Iterator[tuple[int, Numbers, Floats]]:
    """The nearest of some other rows."""
    step = max(1, _BLOCK // len(others))
    there = unit if len(others) == len(unit) else unit[others]
    for start in range(0, len(wanted), step):
        part = wanted[start : start + step]
        alike = unit[part] @ there.T
        alike[part[:, None] == others] = -np.inf  # nothing is its own neighbour
        few = min(count, len(others) - 1)
        if few < 1:
            continue
        best = np.argpartition(-alike, few - 1, axis=1)[:, :few]
        for row, places, own in zip(part.tolist(), best, alike, strict=True):
            places = places[np.lexsort((others[places], -own[places]))]
            yield row, others[places], own[places]
