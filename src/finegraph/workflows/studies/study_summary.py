"""The summary of a study: means, intervals, and paired differences to softmax and to fair rivals.

A difference is taken draw by draw with the softmax of the same amount, seed, split, views and box. With several draws
intervals are Student's t over the draws, with one they are a bootstrap over the photos
(`finegraph.evaluation.intervals`); the time of fitting and rank correlations, which are no means over photos, then have
none. Intervals of means end where no mean can be: below 0, or a share above 1. "better" and "worse" mean that the
interval of the difference leaves 0 out; coverage, which should be neither small nor large, has no verdict. Draws that
all give the same number, such as draws of all photos there are, do not show their chance: they have no interval, and a
difference that is the same in all of them no verdict, unless it is 0.

Accuracy is also given by how many training photos a class has. Photos of another split may fall on other classes: one
that falls on frequent classes looks easier than it is. So heads are compared among classes that are as frequent as each
other. That needs a value for every photo, which cells keep if there is one draw, such as that of all photos. Cost:
linear in the photos.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from finegraph.data.samples import Samples
from finegraph.evaluation.intervals import (
    MeanInterval,
    bootstrap_interval,
    mean_interval,
    paired_bootstrap_interval,
    paired_interval,
    verdict,
)
from finegraph.evaluation.study_metrics import bounds, more_is_better
from finegraph.workflows.studies.photo_sets import StudyData
from finegraph.workflows.studies.spec import WITHOUT_KINDS
from finegraph.workflows.studies.study_folder import CellResult

SUMMARY_COLUMNS = (
    "head", "kinds", "amount", "split", "views", "box", "metric", "mean", "sd", "draws", "low", "high", "interval",
    "difference", "difference_low", "difference_high", "verdict",
)  # fmt: skip
BASELINE = "softmax"
RIVALS = {
    "bipartite-two": "ensemble",
    "bipartite": "softmax-marginal",
    "prototypes": "prototypes-without-graph",
    "prototypes-without-graph": "sklearn-discriminant",
    "auto": "sklearn-logistic",
}
"""Heads with the one they must beat to matter: the same networks, the same loss, the same fit without the graph, and
what another library gives."""
_SAME = 1e-9
"""Draws that differ by less are the same but for rounding."""
_KEY = ("head", "kinds", "amount", "split", "views", "box", "metric")

Key = tuple[Any, ...]
FREQUENCY_COLUMNS = (
    "head", "kinds", "amount", "split", "views", "box", "photos_from", "photos_to", "classes", "photos", "top1",
)  # fmt: skip
_BEGINS = (0, 1, 6, 11, 21, 51, 101)
"""The smallest number of training photos of each band."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Summary:
    """What a study came to.

    Attributes:
        rows: one per head, set of kinds, amount, split, views, box and metric; by column.
        rivals: differences of heads to rivals other than softmax, with the columns of a difference and `against`.
    """

    rows: list[dict[str, Any]]
    rivals: list[dict[str, Any]]


@dataclass
class _Values:
    """The values of one row of the summary: by seed, and by photo if there is one draw."""

    by_seed: dict[int, float] = field(default_factory=dict)
    photos: NDArray[np.float64] | None = None


def summarise_cells(results: Sequence[CellResult]) -> Summary:
    """The summary of cells, in their order."""
    values: dict[Key, _Values] = {}
    for result in results:
        cell = result.cell
        for split, views, metric, value in result.rows:
            draws = values.setdefault((cell.head, cell.kinds, cell.amount, split, views, cell.box, metric), _Values())
            draws.by_seed[cell.seed] = value
            draws.photos = result.per_photo.get((split, views, metric))
    rows = [_row(key, draws, values.get((BASELINE, "", *key[2:]))) for key, draws in values.items()]
    rivals = []
    for key, draws in values.items():
        against = RIVALS.get(key[0])
        other = None if against is None else values.get((against, "" if against in WITHOUT_KINDS else key[1], *key[2:]))
        if other is not None:
            rivals.append({**dict(zip(_KEY, key, strict=True)), "against": against, **_difference(key, draws, other)})
    return Summary(rows, rivals)


def _row(key: Key, values: _Values, base: _Values | None) -> dict[str, Any]:
    """A row of the summary."""
    draws = np.array(list(values.by_seed.values()))
    mean = _mean(values)
    least, greatest = bounds(key[-1])
    row: dict[str, Any] = {
        **dict(zip(_KEY, key, strict=True)),
        "mean": float(draws.mean()),
        "sd": float(draws.std(ddof=1)) if len(draws) > 1 else None,
        "draws": len(draws),
        "low": None if mean is None else max(mean.low, least),
        "high": None if mean is None else min(mean.high, greatest),
        "interval": None if mean is None else mean.method,
    }
    own_base = key[0] == BASELINE or base is None
    return {**row, **(dict.fromkeys(_DIFFERENCE) if own_base or base is None else _difference(key, values, base))}


_DIFFERENCE = ("difference", "difference_low", "difference_high", "verdict")


def _difference(key: Key, draws: _Values, other: _Values) -> dict[str, Any]:
    """The paired difference of two heads; without an interval if nothing says how sure it is."""
    seeds = [seed for seed in draws.by_seed if seed in other.by_seed]
    if not seeds:
        return dict.fromkeys(_DIFFERENCE)
    interval: MeanInterval | None = None
    better = more_is_better(key[-1])
    one, two = ([values.by_seed[seed] for seed in seeds] for values in (draws, other))
    if len(seeds) > 1:
        interval = paired_interval(one, two)
        if interval.high - interval.low < _SAME < abs(interval.mean):
            interval = None
    elif draws.photos is not None and other.photos is not None:
        known = ~(np.isnan(draws.photos) | np.isnan(other.photos))
        interval = paired_bootstrap_interval(draws.photos[known], other.photos[known])
    return {
        "difference": float(np.mean(np.array(one) - np.array(two))),
        "difference_low": None if interval is None else interval.low,
        "difference_high": None if interval is None else interval.high,
        "verdict": None if interval is None or better is None else verdict(interval, more_is_better=better),
    }


def _mean(draws: _Values) -> MeanInterval | None:
    """The interval of a mean."""
    if len(draws.by_seed) > 1:
        interval = mean_interval(list(draws.by_seed.values()))
        return interval if interval.high - interval.low >= _SAME else None
    if draws.photos is None or np.isnan(draws.photos).all():
        return None
    return bootstrap_interval(draws.photos[~np.isnan(draws.photos)])


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
