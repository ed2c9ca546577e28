"""The section of a study, in its own words: accuracies, differences from softmax, tables, and what a fit costs.

Plots are named by what the study compares: its heads, its sets of kinds, its amounts and where it was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from finegraph.evaluation.study_metrics import (
    BACKWARD,
    FORWARD,
    KIND,
    TIME,
    is_share,
    more_is_better,
    value_title,
    written,
)
from finegraph.reports.page.svg_charts import (
    Axis,
    Series,
    interval_rows,
    legend,
    line_chart,
    named_bars,
    parts_legend,
    stacked_bars,
)
from finegraph.reports.page.svg_charts import signed as signed_text
from finegraph.reports.study_results import StudyResults, StudyRow, amount_axis, amount_words, amounts
from finegraph.reports.summary import listed

MAX_LINES = 6
"""How many methods a curve can show so that they can be distinguished, also in grey."""
_METRICS = {"top1": "top 1", "top5": "top 5", "nll": "negative log-likelihood"}
"""What metrics are called, as in the report of a run; those of kinds have the names of the kinds."""
_BETWEEN = "90 % would be right: neither more nor less is better, so a difference has no verdict."
PREFERRED = (
    "softmax", "auto", "prototypes", "bipartite", "prototypes-without-graph", "sklearn-logistic",
    "sklearn-discriminant", "bipartite-two", "softmax-marginal", "independent", "ensemble",
)  # fmt: skip


def study_section(study: StudyResults) -> dict[str, Any]:
    """All that a report shows of a study."""
    return {
        "title": study.title,
        "compared": study_words(study),
        "places": [_place(study, place) for place in study.places()],
        "times": [panel for panel in (_step_times(study), _fit_times(study)) if panel is not None],
    }


def study_words(study: StudyResults) -> str:
    """What a study compares, in a sentence."""
    rows = study.of("top1")
    kinds = list(dict.fromkeys(row.text["kinds"] for row in rows if row.text["kinds"]))
    steps = [amount_words(amount) for amount in amounts(rows)]
    parts = [listed(heads_of(rows))]
    parts += [f"with the kinds {listed(kinds)}"] * bool(kinds)
    parts += [f"trained on {listed(steps)}"] * bool(steps)
    return f"{', '.join(parts)}; measured on {listed(study.places())}."


def heads_of(rows: Sequence[StudyRow]) -> list[str]:
    """The heads that rows are about, those that matter most first."""
    heads = dict.fromkeys(row.text["head"] for row in rows)
    return sorted(heads, key=_preference)


def _step_times(study: StudyResults) -> dict[str, str] | None:
    """What a step costs under each head, forward and backward: the measure of time in the paper."""
    amount, forward = _means(study, FORWARD)
    _, backward = _means(study, BACKWARD)
    rows = [(name, (value, backward[name])) for name, value in forward.items() if name in backward]
    if not rows:
        return None
    words = "; ".join(f"{name} {there:.2f} and {back:.2f}" for name, (there, back) in rows)
    return {
        "title": f"Milliseconds of a step with the last layer and the loss{_with(amount)}",
        "chart": stacked_bars(rows, f"Milliseconds forward and backward{_with(amount)}: {words}"),
        "legend": parts_legend(("forward", "backward")),
    }


def _fit_times(study: StudyResults) -> dict[str, str] | None:
    """How long a whole fit takes."""
    amount, means = _means(study, TIME)
    if not means:
        return None
    words = "; ".join(f"{name} {value:.2f}" for name, value in means.items())
    chart = named_bars(list(means.items()), f"Seconds of a fit{_with(amount)}: {words}", "{:.2f} s")
    return {"title": f"Seconds of a whole fit{_with(amount)}", "chart": chart, "legend": ""}


def _means(study: StudyResults, metric: str) -> tuple[str, dict[str, float]]:
    """The amount at which a time was measured for the most methods, and its mean for each of them there.

    Of amounts with as many methods the largest counts, and of several ways to cut photos the first: the others have
    times of their own.
    """
    rows = study.of(metric)
    largest: tuple[str, dict[str, float]] = ("", {})
    for amount in amounts(rows):
        means: dict[str, float] = {}
        for row in rows:
            if row.text["amount"] == amount:
                means.setdefault(row.method, row.numbers["mean"] or 0.0)
        if len(means) >= len(largest[1]):
            largest = amount, means
    return largest


def _with(amount: str) -> str:
    return f", {amount_words(amount)}" if amount else ""


def _place(study: StudyResults, place: str) -> dict[str, Any]:
    """One place of measurement: its curve, and a table per metric."""
    rows = study.of("top1", place)
    return {
        "name": place,
        "means": _means_words({row.text["interval"] for row in study.rows if row.place == place}),
        "curve": _curve(rows, place),
        "differences": _differences(rows, place),
        "tables": [_table(study.of(metric, place), metric, study.units) for metric in study.metrics(place)],
    }


def _means_words(intervals: set[str]) -> str:
    """What means and intervals are over: draws of photos or, if there is one draw, the photos it is judged on."""
    over_draws, over_photos = "t over draws" in intervals, "bootstrap over photos" in intervals
    if over_photos and not over_draws:
        return "One draw of training photos; 95 % intervals are a bootstrap over the evaluated photos."
    text = "Means over draws with 95 % intervals."
    return text + " If there is one draw, they are a bootstrap over the evaluated photos." * over_photos


def _curve(rows: list[StudyRow], place: str) -> dict[str, Any] | None:
    """Top-1 against the amount, for the methods that matter most."""
    steps = amounts(rows)
    if len(steps) < 2:
        return None
    methods = list(dict.fromkeys(row.method for row in rows))
    methods.sort(key=lambda name: (_preference(name), methods.index(name) if name in methods else 0))
    series = []
    for number, method in enumerate(methods[:MAX_LINES]):
        by_amount = {row.text["amount"]: row.numbers for row in rows if row.method == method}
        points = [(steps.index(amount), by_amount[amount]) for amount in steps if amount in by_amount]
        series.append(
            Series(
                method,
                [(float(x), values["mean"] or 0.0) for x, values in points],
                number,
                dashed=number > 0 and _preference(method) > PREFERRED.index("bipartite"),
                marks=True,
                errors=[
                    (_or(values["low"], values["mean"]), _or(values["high"], values["mean"])) for x, values in points
                ],
            )
        )
    highest = max(max(y, *(high for _, high in line.errors)) for line in series for _, y in line.points)
    lowest = min(min(y, *(low for low, _ in line.errors)) for line in series for _, y in line.points)
    low, high = max(0.0, math.floor(lowest * 20) / 20), min(1.0, math.ceil(highest * 20) / 20)
    words = "; ".join(f"{line.name} " + ", ".join(f"{100 * y:.1f} %" for _, y in line.points) for line in series)
    chart = line_chart(
        series,
        Axis(-0.15, len(steps) - 0.85, amount_axis(steps), words=steps),
        Axis(low, high, "top 1"),
        f"Top 1 on {place} for {', '.join(steps)} photos: {words}",
    )
    shown = heads_of([row for row in rows if row.method in methods[:MAX_LINES]])
    title = f"Top 1 of {listed(shown)} on {place}, against {amount_axis(steps)}"
    return {
        "title": title,
        "chart": chart,
        "legend": legend(series),
        "left_out": max(0, len(methods) - MAX_LINES),
    }


def _differences(rows: list[StudyRow], place: str) -> dict[str, str] | None:
    """How far each method is from softmax at the largest amount, with the interval that says whether one can tell."""
    judged = [row for row in rows if row.numbers["difference"] is not None]
    if not judged:
        return None
    amount = amounts(judged)[-1]
    drawn, words = [], []
    for row in judged:
        if row.text["amount"] != amount:
            continue
        middle, low, high = (
            None if value is None else 100 * value
            for value in (row.numbers[name] for name in ("difference", "difference_low", "difference_high"))
        )
        drawn.append((row.method, _or(middle, 0.0), _or(low, middle), _or(high, middle)))
        words.append(f"{row.method} {signed_text(_or(middle, 0.0), 1)} {row.text['verdict']}".rstrip())
    title = f"Points of top 1 from softmax on {place}, {amount_words(amount)}"
    return {"title": title, "chart": interval_rows(drawn, f"{title}: {'; '.join(words)}")}


def _preference(method: str) -> int:
    head = method.split(" (")[0]
    return PREFERRED.index(head) if head in PREFERRED else len(PREFERRED)


def _or(value: float | None, other: float | None) -> float:
    return float(value if value is not None else other or 0.0)


def _table(rows: list[StudyRow], metric: str, units: dict[str, str]) -> dict[str, Any]:
    """Methods by amounts, with intervals and what the difference from softmax is."""
    steps = amounts(rows)
    methods = list(dict.fromkeys(row.method for row in rows))
    cells = {(row.method, row.text["amount"]): row for row in rows}
    return {
        "metric": value_title(metric, units) or _METRICS.get(metric, metric.removeprefix(KIND)),
        "unit": "%" if is_share(metric) else "",
        "note": _BETWEEN if more_is_better(metric) is None else "",
        "amounts": [f"{step} per class" if step.isdecimal() else step for step in steps],
        "rows": [
            {"method": method, "cells": [_cell(cells.get((method, amount))) for amount in steps]} for method in methods
        ],
    }


def _cell(row: StudyRow | None) -> dict[str, str | None] | None:
    if row is None:
        return None

    def text(value: float | None, signed: bool = False) -> str | None:
        if value is None:
            return None
        return signed_text(factor * value, digits) if signed else f"{factor * value:.{digits}f}"

    numbers = row.numbers
    factor, digits = written(row.text["metric"], numbers["mean"])
    return {
        "mean": text(numbers["mean"]),
        "low": text(numbers["low"]),
        "high": text(numbers["high"]),
        "difference": text(numbers["difference"], signed=True),
        "difference_low": text(numbers["difference_low"], signed=True),
        "difference_high": text(numbers["difference_high"], signed=True),
        "verdict": row.text["verdict"],
    }
