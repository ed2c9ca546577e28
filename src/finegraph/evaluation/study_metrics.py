"""The metrics of studies: what each is called, which way is better, and how it is written.

    top1, top5, kind:NAME                   shares of right answers
    nll                                     in nats; less is better
    error:NUMBER                            in the unit of the number; less is better
    coverage:NUMBER                         a share that should be 90 %: neither more nor less is better
    spearman:NUMBER                         from -1 to 1
    steps:KIND                              of an ordered kind; less is better
    seconds_fit, ms_forward, ms_backward    less is better

Numbers and ordered kinds are measured as in an evaluation (`number_metrics.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from finegraph.evaluation.number_metrics import SHOWN_LEVEL

KIND, ERROR, COVERAGE, SPEARMAN, STEPS = "kind:", "error:", "coverage:", "spearman:", "steps:"
TIME, FORWARD, BACKWARD = TIMES = ("seconds_fit", "ms_forward", "ms_backward")
"""The metrics that are times: of a whole fit, and of a step with the last layer and the loss, there and back."""
_LESS_IS_BETTER = ("nll", *TIMES)
_TITLES = {
    ERROR: "mean absolute error",
    COVERAGE: f"in {100 * SHOWN_LEVEL:.0f} % intervals",
    SPEARMAN: "Spearman",
    STEPS: "steps off",
}


def more_is_better(metric: str) -> bool | None:
    """Whether larger values are better ones; None if the right value lies between."""
    if metric.startswith(COVERAGE):
        return None
    return metric not in _LESS_IS_BETTER and not metric.startswith((ERROR, STEPS))


def is_share(metric: str) -> bool:
    """Whether a metric is from 0 to 1 and written in percent."""
    return metric.startswith((COVERAGE, KIND, "top"))


def bounds(metric: str) -> tuple[float, float]:
    """The least and the greatest value that a metric can have."""
    if metric.startswith(SPEARMAN):
        return -1.0, 1.0
    return 0.0, 1.0 if is_share(metric) else math.inf


def written(metric: str, mean: float | None) -> tuple[float, int]:
    """The factor of a metric for display, and its digits after the point.

    Args:
        metric: its name.
        mean: a value of it; errors, which have any size, show at least three digits of it.
    """
    if is_share(metric):
        return 100.0, 1
    if not metric.startswith(ERROR) or not mean:
        return 1.0, 3
    return 1.0, max(0, 2 - math.floor(math.log10(abs(mean))))


def value_title(metric: str, units: Mapping[str, str]) -> str:
    """What a metric of a number or ordered kind is called, with its name and unit; empty for other metrics."""
    start, name = _parts(metric)
    return f"{name}: {_heading(start, name, units)}" if start else ""


def value_tables(metrics: Iterable[str], units: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The metrics of numbers and ordered kinds as tables: by what a table is about, the heading of each metric.

    Args:
        metrics: names of metrics, also of others, which are left out.
        units: the units of numbers by name.
    """
    tables: dict[str, dict[str, str]] = {}
    for metric in dict.fromkeys(metrics):
        start, name = _parts(metric)
        if start == STEPS:
            tables.setdefault("Steps off the label of ordered kinds", {})[metric] = name
        elif start:
            tables.setdefault(name, {})[metric] = _heading(start, name, units) + ", %" * is_share(metric)
    return tables


def _parts(metric: str) -> tuple[str, str]:
    """How a metric of a number or ordered kind begins, and the name of that; nothing for other metrics."""
    return next(((start, metric.removeprefix(start)) for start in _TITLES if metric.startswith(start)), ("", ""))


def _heading(start: str, name: str, units: Mapping[str, str]) -> str:
    """The heading of a metric; that of an error has its unit."""
    return _TITLES[start] + (f", {units[name]}" if start == ERROR and units.get(name) else "")
