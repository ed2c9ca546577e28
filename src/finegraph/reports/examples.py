"""The photos that a report shows one by one: chosen by chance, in equal numbers of each sort.

Of two runs: photos that the second answers rightly and the baseline wrongly ("fixes"), the other way round ("breaks"),
and any. Of one run: right ones, wrong ones, and any. The order of drawing is a hash of the photo's name, the same that
the evaluation kept its gallery by, so nearly all of them have an explanation and similar photos. Cost: one sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from finegraph.data.dataset import MISSING
from finegraph.evaluation.details import draw_order
from finegraph.reports.run_results import RunResults

EACH = 6
"""How many photos of each sort are shown at most."""


@dataclass(frozen=True)
class Sort:
    """Photos of one sort.

    Attributes:
        key: a short name for it.
        photos: the rows that are shown.
        of: how many photos there are of this sort.
    """

    key: str
    photos: tuple[int, ...]
    of: int


def choose_examples(runs: Sequence[RunResults], baseline: int, other: int, each: int = EACH) -> list[Sort]:
    """Photos of each sort, in equal numbers; as many as the rarest sort has, if that is fewer.

    A sort without any photo is shown empty and does not make the others empty.
    """
    known = runs[0].arrays["fine"] != MISSING
    right = runs[other].right & known
    if baseline == other:
        sorts = {"right": right, "wrong": known & ~right, "random": known}
    else:
        base = runs[baseline].right & known
        sorts = {"fixes": right & ~base, "breaks": base & ~right & known, "random": known}
    drawn = np.argsort(draw_order(runs[other].photos), kind="stable")
    drawn_by_sort = {key: drawn[mask[drawn]] for key, mask in sorts.items()}
    sizes = [len(rows) for rows in drawn_by_sort.values() if len(rows)]
    count = min([each, *sizes])
    taken: set[int] = set()
    listed = []
    for key, rows in drawn_by_sort.items():
        new_rows = [row for row in rows.tolist() if row not in taken or key != "random"][:count]
        taken.update(new_rows)
        listed.append(Sort(key, tuple(new_rows), len(rows)))
    return listed


def worst_losses(run: RunResults, count: int = 24) -> list[int]:
    """The photos whose true label the run found least probable, the worst first."""
    loss = run.arrays["log_prob"]
    rows = np.flatnonzero((run.arrays["fine"] != MISSING) & ~run.right)
    return [int(row) for row in rows[np.argsort(loss[rows], kind="stable")][:count]]
