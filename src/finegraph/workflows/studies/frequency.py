"""Accuracy by how many training photos a class has.

Photos of another split may fall on other classes: one that falls on frequent classes looks easier than it is. So heads
are also compared among classes that are as frequent as each other. That needs a value for every photo, which cells
keep if there is one draw, such as that of all photos. Cost: linear in the photos.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from finegraph.data.samples import Samples
from finegraph.workflows.studies.photo_sets import StudyData
from finegraph.workflows.studies.study_folder import CellResult

FREQUENCY_COLUMNS = (
    "head", "kinds", "amount", "split", "views", "box", "photos_from", "photos_to", "classes", "photos", "top1",
)  # fmt: skip
_BEGINS = (0, 1, 6, 11, 21, 51, 101)
"""The smallest number of training photos of each band."""

Row = dict[str, Any]


def by_frequency(results: Sequence[CellResult], data: StudyData) -> list[Row]:
    """The top-1 accuracy of each cell in each band of classes, by column.

    A split whose photos could not all be read is left out, and so is a draw that has as many photos of each class.
    """
    rows = []
    for result in results:
        cell = result.cell
        counts = (
            Counter(sample.label for sample in data.draw(cell.amount, cell.seed)) if result.per_photo else Counter()
        )
        if len({_band(number)[0] for number in counts.values()}) < 2:
            continue
        for (split, views, metric), values in result.per_photo.items():
            if metric == "top1" and len(values) == len(data.splits[split]):
                place = {"head": cell.head, "kinds": cell.kinds, "amount": cell.amount, "split": split, "views": views}
                rows += [{**place, "box": cell.box, **band} for band in _bands(values, data.splits[split], counts)]
    return rows


def band_text(row: Row) -> str:
    """The training photos of the classes of a row, as people read them."""
    low, high = row["photos_from"], row["photos_to"]
    if high is None:
        return f"{low} or more"
    return f"{low} to {high}" if low != high else str(low)


def _bands(values: np.ndarray[Any, Any], samples: Samples, counts: Counter[str | None]) -> Iterator[Row]:
    """The bands that have photos of a split."""
    bands = np.array([_band(counts[sample.label])[0] for sample in samples])
    for low in sorted(set(bands.tolist())):
        band_values = values[bands == low]
        classes = {sample.label for sample, band in zip(samples, bands, strict=True) if band == low}
        yield {"photos_from": low, "photos_to": _band(low)[1], "classes": len(classes), "photos": len(band_values),
               "top1": float(band_values.mean())}  # fmt: skip


def _band(number: int) -> tuple[int, int | None]:
    """The smallest and largest number of photos of the band of a count; the last band has no largest."""
    return next(((low, high - 1) for low, high in pairwise(_BEGINS) if number < high), (_BEGINS[-1], None))
