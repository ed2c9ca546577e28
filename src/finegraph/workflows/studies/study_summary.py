"""The summary of a study: means, intervals, and paired differences to softmax and to fair rivals.

A difference is taken draw by draw with the softmax of the same amount, seed, split, views and box. With several draws
intervals are Student's t over the draws, with one they are a bootstrap over the photos
(`finegraph.evaluation.intervals`); the time of fitting then has none. Intervals of means end where no mean can be:
below 0, or a share above 1. "better" and "worse" mean that the interval of the difference leaves 0 out. Draws that all
give the same number, such as draws of all photos there are, do not show their chance: they have no interval, and a
difference that is the same in all of them no verdict, unless it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from finegraph.evaluation.intervals import (
    Interval,
    bootstrap_interval,
    mean_interval,
    paired_bootstrap_interval,
    paired_interval,
    verdict,
)
from finegraph.workflows.studies.measure import LESS_IS_BETTER
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


def summarise(results: Sequence[CellResult]) -> Summary:
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
    row: dict[str, Any] = {
        **dict(zip(_KEY, key, strict=True)),
        "mean": float(draws.mean()),
        "sd": float(draws.std(ddof=1)) if len(draws) > 1 else None,
        "draws": len(draws),
        "low": None if mean is None else max(mean.low, 0.0),
        "high": None if mean is None else mean.high if key[-1] in LESS_IS_BETTER else min(mean.high, 1.0),
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
    interval: Interval | None = None
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
        "verdict": None if interval is None else verdict(interval, more_is_better=key[-1] not in LESS_IS_BETTER),
    }


def _mean(draws: _Values) -> Interval | None:
    """The interval of a mean."""
    if len(draws.by_seed) > 1:
        interval = mean_interval(list(draws.by_seed.values()))
        return interval if interval.high - interval.low >= _SAME else None
    if draws.photos is None or np.isnan(draws.photos).all():
        return None
    return bootstrap_interval(draws.photos[~np.isnan(draws.photos)])
