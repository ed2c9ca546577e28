"""The sections of a report as plain values: what the template of the page fills in.

Metrics are drawn here, words are in the template. Long lists are left to the scripts of the page, which have the same
numbers. Cost: linear in the photos and labels; charts have a fixed number of points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from finegraph.data.dataset import MISSING
from finegraph.evaluation.intervals import MeanInterval
from finegraph.evaluation.metrics import Calibration
from finegraph.evaluation.number_metrics import NumberMetrics
from finegraph.graph.kind_worth import kind_worth
from finegraph.reports.comparison import Metric, compare_runs, kind_shares, widest_graph
from finegraph.reports.curves import RISKS, fine_curve, inside_shares, mean_parts, sure_curve
from finegraph.reports.examples import choose_examples, worst_losses
from finegraph.reports.page.cards import example_card
from finegraph.reports.page.page_data import data_address, short_names
from finegraph.reports.page.svg_charts import Axis, Series, legend, line_chart, named_bars, profile
from finegraph.reports.page.svg_charts import signed as signed_text
from finegraph.reports.run_results import RunResults
from finegraph.reports.summary import apart
from finegraph.training.records.starts import Start

MAX_NAMED = 30
"""Up to this number of labels, a distribution names each of them."""
MAX_PANELS = 6
"""How many kinds have a picture of their own; tables have them all."""
MAX_ROWS = 10
"""How many kinds are in the accuracy table; the table of kinds has them all."""
MAX_BAD = 200


def accuracy_section(runs: Sequence[RunResults], baseline: int) -> dict[str, Any]:
    """The accuracy table with intervals and differences."""
    metrics = compare_runs(runs, baseline)
    kinds = metrics[2:-2]
    return {
        "metrics": [_metric_row(metric) for metric in (*metrics[:2], *kinds[:MAX_ROWS], *metrics[-2:])],
        "more_kinds": max(0, len(kinds) - MAX_ROWS),
        "tiles": [_metric_row(metric) for metric in metrics[: 2 + min(3, len(kinds))]],
        "others": [number for number in range(len(runs)) if number != baseline],
        "changed": [_changed(runs, baseline, number) for number in range(len(runs)) if number != baseline],
        "plain": [_plain_metrics(run) for run in runs],
    }


def _metric_row(metric: Metric) -> dict[str, Any]:
    def number(value: float, signed: bool = False) -> str:
        scaled, digits = (100 * value, 1) if metric.percent else (value, 3)
        return signed_text(scaled, digits) if signed else f"{scaled:.{digits}f}"

    def interval(one: MeanInterval | None, signed: bool = False) -> dict[str, str] | None:
        if one is None:
            return None
        return {name: number(getattr(one, name), signed) for name in ("mean", "low", "high")}

    return {
        "name": metric.name,
        "unit": "%" if metric.percent else "",
        "values": [interval(one) for one in metric.values],
        "differences": [interval(one, signed=True) for one in metric.differences],
        "verdicts": list(metric.verdicts),
        "less": not metric.more_is_better,
        "infinite": list(metric.infinite),
    }


def _plain_metrics(run: RunResults) -> dict[str, str]:
    """Metrics without an interval, of all photos that the run was evaluated on."""
    result = run.result
    shares = {
        "mean over classes": result.mean_per_class,
        "full path (fine and all kinds)": result.full_path,
        "calibration error": result.calibration["fine"].error,
        "sure answers, coverage": result.sure.coverage,
        "sure answers, wrong": result.sure.realised_risk,
    }
    texts = {name: "–" if share is None else f"{100 * share:.1f} %" for name, share in shares.items()}
    severity = result.mistake_severity
    return {**texts, "mistake severity (kinds that differ)": "–" if severity is None else f"{severity:.3f}"}


def _changed(runs: Sequence[RunResults], baseline: int, other: int) -> dict[str, Any]:
    """Which photos a run answers otherwise than the baseline."""
    base, other_right = runs[baseline].right, runs[other].right
    differs = runs[baseline].arrays["predicted"] != runs[other].arrays["predicted"]
    known = runs[other].arrays["fine"] != MISSING
    return {
        "run": other,
        "name": runs[other].name,
        "fixed": int((other_right & ~base).sum()),
        "broken": int((base & ~other_right).sum()),
        "moved": int((known & differs & ~base & ~other_right).sum()),
        "same": int((~differs).sum()),
    }


def training_section(run: RunResults) -> dict[str, Any] | None:
    """How the training photos are distributed, over fine labels and the labels of each kind."""
    training = run.about.get("training")
    if training is None:
        return None
    panels = [_distribution("fine label", run.graph.fine, training["fine"])]
    binary = [kind for kind in run.graph.kinds if run.graph.kind(kind).binary]
    others = [kind for kind in run.graph.kinds if not run.graph.kind(kind).binary]
    for kind in others[:MAX_PANELS]:
        panels.append(_distribution(kind, run.graph.labels(kind), training["kinds"][kind]))
    if binary:
        yes = [training["kinds"][kind][1] for kind in binary]
        panels.append(_distribution("yes/no kind, counting yes", binary, yes))
    return {"photos": training["photos"], "panels": panels, "left_out": len(others[MAX_PANELS:])}


def _distribution(name: str, labels: Sequence[str], counts: Sequence[float]) -> dict[str, Any]:
    """One distribution as a chart, with what it says in words."""
    order = sorted(range(len(labels)), key=lambda place: (-counts[place], place))
    largest, smallest = order[0], order[-1]
    middle = float(np.median(counts))
    words = (
        f"{len(labels):,} labels; most: {apart(labels[largest])} ({counts[largest]:,.0f}), median {middle:,.0f}, "
        f"least: {apart(labels[smallest])} ({counts[smallest]:,.0f})"
    )
    alt = f"Training photos per {name}: {words}"
    if len(labels) <= MAX_NAMED:
        chart = named_bars([(labels[place], counts[place]) for place in order], alt)
    else:
        chart = profile(counts, alt)
    return {"name": name, "words": words, "chart": chart, "wide": len(labels) > MAX_NAMED}


EXAMPLE_WORDS = {
    "fixes": "{other} is right, {base} is wrong",
    "breaks": "{other} is wrong, {base} is right",
    "right": "Answered rightly",
    "wrong": "Answered wrongly",
    "random": "Drawn at random from all photos",
}


def examples_section(runs: Sequence[RunResults], baseline: int, other: int) -> dict[str, Any]:
    """Chosen photos of each sort, in equal numbers."""
    names = short_names(runs[0].photos)
    shown = [runs[other]] if baseline == other else [runs[baseline], runs[other]]
    sorts = choose_examples(runs, baseline, other)
    return {
        "sorts": [
            {
                "key": sort.key,
                "title": EXAMPLE_WORDS[sort.key].format(other=runs[other].name, base=runs[baseline].name),
                "of": sort.of,
                "cards": [example_card(shown, row, names[row], len(shown) - 1) for row in sort.photos],
            }
            for sort in sorts
        ],
        "each": max((len(sort.photos) for sort in sorts), default=0),
        "equal": len({len(sort.photos) for sort in sorts}) == 1,
        "similar": any("similar" in run.arrays for run in runs),
    }


def mistakes_section(runs: Sequence[RunResults], other: int) -> dict[str, Any]:
    """Mistakes inside and across coarse labels, and the worst losses."""
    run = runs[other]
    shares_by_run = [{row.kind: row for row in inside_shares(each)} for each in runs]
    inside = [
        {"kind": kind, "cells": [each.get(kind) for each in shares_by_run]}
        for kind in dict.fromkeys(kind for each in shares_by_run for kind in each)
    ]
    names = short_names(run.photos)
    worst = []
    for row in worst_losses(run):
        arrays = run.arrays
        worst.append(
            {
                "row": row,
                "name": names[row],
                "picture": data_address(run.thumbnails.get(int(arrays["sample"][row]))),
                "truth": run.graph.fine[int(arrays["fine"][row])],
                "answer": run.graph.fine[int(arrays["predicted"][row])],
                "share": float(arrays["probability"][row]),
                "true_share": float(np.exp(arrays["log_prob"][row])),
                "rank": int(arrays["rank"][row]),
            }
        )
    return {"inside": inside, "worst": worst, "run": run.name, "mistakes": run.result.mistakes.count}


def calibration_section(runs: Sequence[RunResults]) -> list[dict[str, Any]]:
    """Calibration plots: of the fine label, then of the first kinds."""
    names = ["fine", *runs[widest_graph(runs)].graph.kinds][: MAX_PANELS + 1]
    panels = []
    for name in names:
        by_run = [(number, run, run.result.calibration.get(name)) for number, run in enumerate(runs)]
        series = [
            Series(
                _calibration_name(run, calibration),
                [(bin_.confidence, bin_.accuracy) for bin_ in calibration.bins],
                number,
                marks=True,
            )
            for number, run, calibration in by_run
            if calibration is not None and calibration.bins
        ]
        if series:
            words = "; ".join(
                f"{run.name}: error {100 * (calibration.error or 0):.1f} %"
                for _, run, calibration in by_run
                if calibration
            )
            alt = f"Accuracy against confidence, {name}. {words}"
            chart = line_chart(
                series, Axis(0, 1, "probability of the answer"), Axis(0, 1, "share that is right"), alt, diagonal=True
            )
            panels.append({"name": name, "chart": chart, "legend": legend(series)})
    return panels


def _calibration_name(run: RunResults, calibration: Calibration) -> str:
    error = "–" if calibration.error is None else f"{100 * calibration.error:.1f} %"
    return f"{run.name}: error {error}"


def values_section(runs: Sequence[RunResults]) -> dict[str, Any] | None:
    """Numbers and orders: true against predicted values, the coverage of intervals, and errors in tables."""
    covered: list[Series] = []
    panels, numbers, orders = [], [], []
    for run in runs:
        for name, one in run.result.numbers.items():
            if not one.photos or one.error is None:
                continue
            unit = f", {one.unit}" if one.unit else ""
            panels.append({"name": f"{run.name}: {name}{unit}", "chart": _scatter(name, one)})
            points = [(float(level), share) for level, share in one.coverage.items()]
            covered.append(Series(f"{run.name}: {name}", points, len(covered), marks=True))
            numbers.append(
                {
                    "run": run.name,
                    "name": f"{name}{unit}",
                    "error": f"{one.error:.3g}",
                    "median": _digits(one.median_error),
                    "best": _digits(one.best_label_error),
                    "inside": _percent(one.coverage.get("0.9")),
                    "width": _digits(one.width),
                    "spearman": _digits(one.spearman),
                    "kendall": _digits(one.kendall),
                }
            )
        orders += [
            {
                "run": run.name,
                "name": name,
                "steps": _digits(order.steps),
                "best": _digits(order.best_label_steps),
                "near": _percent(order.within_one),
                "spearman": _digits(order.spearman),
                "kendall": _digits(order.kendall),
            }
            for name, order in run.result.orders.items()
            if order.photos
        ]
    if not numbers and not orders:
        return None
    share = Axis(0, 1, "probability of the interval"), Axis(0, 1, "photos whose value is inside")
    chart = line_chart(covered, *share, "Coverage of intervals", diagonal=True) if covered else ""
    return {
        "panels": panels[:MAX_PANELS],
        "chart": chart,
        "legend": legend(covered) if covered else "",
        "numbers": numbers,
        "orders": orders,
    }


def _scatter(name: str, one: NumberMetrics) -> str:
    """True against predicted values of some photos."""
    low = min(min(pair) for pair in one.pairs) if one.pairs else 0.0
    high = max(max(pair) for pair in one.pairs) if one.pairs else 1.0
    spots = [Series(name, [(true, predicted)], 0, marks=True) for true, predicted in one.pairs]
    across, up = (Axis(low, high, words, "{:g}") for words in ("true", "predicted"))
    return line_chart(spots, across, up, f"{name}: true against predicted, mean error {one.error:.3g}", diagonal=True)


def _digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def sure_section(runs: Sequence[RunResults]) -> dict[str, Any]:
    """The risk-coverage curve of the sure answer, and its levels at some risks."""
    series, tables = [], []
    for number, run in enumerate(runs):
        points = sure_curve(run)
        drawn = [(point.coverage, point.wrong) for point in points if point.wrong is not None]
        series.append(Series(f"{run.name}: sure answer, backing off", drawn, number, marks=True))
        series.append(Series(f"{run.name}: fine label or nothing", fine_curve(run), number, dashed=True))
        levels = ["fine", *run.graph.kinds]
        used = [place for place in range(len(levels)) if any(point.levels[place] > 0.0005 for point in points)]
        shown = sorted(used, key=lambda place: -max(point.levels[place] for point in points))[:MAX_PANELS]
        shown.sort()
        tables.append(
            {
                "run": run.name,
                "levels": [levels[place] for place in shown],
                "more": len(used) - len(shown),
                "rows": [
                    {
                        "risk": f"{100 * point.risk:g} %",
                        "coverage": f"{100 * point.coverage:.1f} %",
                        "wrong": "–" if point.wrong is None else f"{100 * point.wrong:.1f} %",
                        "kept": point.wrong is None or point.wrong <= point.risk,
                        "levels": [f"{100 * point.levels[place]:.1f} %" for place in shown],
                    }
                    for point in points
                    if point.risk in (0.01, 0.02, 0.05, 0.1, 0.2)
                ],
            }
        )
    top = max([y for line in series for _, y in line.points] + [0.05])
    words = [f"{run.name}: for {_percent(run.result.sure.coverage)} of the photos" for run in runs]
    alt = f"Wrong answers against photos with an answer; at a risk of {runs[0].result.sure.risk:.0%} " + "; ".join(
        words
    )
    ranges = any(run.result.numbers or run.result.orders for run in runs)
    chart = line_chart(series, Axis(0, 1, "photos with an answer"), Axis(0, top * 1.08, "wrong answers"), alt)
    return {"chart": chart, "legend": legend(series), "tables": tables, "risks": len(RISKS), "ranges": ranges}


def explanation_section(runs: Sequence[RunResults]) -> dict[str, Any] | None:
    """What each kind is worth to the fitted head, and what decides between the first and the second answer."""
    panels = {"worth": _worth_panels(runs), "panels": _part_panels(runs)}
    return panels if any(panels.values()) else None


def _worth_panels(runs: Sequence[RunResults]) -> list[dict[str, Any]]:
    """The shares of kinds in what tells classes apart, of runs whose class means were fitted in closed form."""
    panels = []
    for run in runs:
        variances = run.about.get("variances")
        if not variances or not (variances["kinds"] or variances.get("numbers")):
            continue
        worth = kind_worth(run.graph, variances["kinds"], variances["own"], variances.get("numbers"))
        rows = [*list(worth.kinds.items())[:MAX_NAMED], ("the class itself", worth.own)]
        percents = [(name, 100 * share) for name, share in rows]
        chart = named_bars(percents, f"What tells classes apart, {run.name}: {worth.words}", "{:.0f} %")
        panels.append({"run": run.name, "chart": chart, "words": worth.words})
    return panels


def _part_panels(runs: Sequence[RunResults]) -> list[dict[str, Any]]:
    """The mean size of the parts of the log odds."""
    panels = []
    for run in runs:
        rows = [("fine label" if name == "fine" else name, value) for name, value in mean_parts(run)]
        rows = sorted(rows, key=lambda row: -row[1])[:12]
        if rows:
            words = "; ".join(f"{name} {value:.2f}" for name, value in rows)
            chart = named_bars(rows, f"Mean size of the parts of the log odds, {run.name}: {words}", "{:.2f}")
            explained = int((~np.isnan(run.arrays["parts"]).any(axis=1)).sum())
            panels.append({"run": run.name, "chart": chart, "photos": explained})
    return panels


def kinds_section(runs: Sequence[RunResults]) -> list[dict[str, Any]]:
    """Every kind with its accuracy on the photos of all runs, and its calibration in each run."""
    listed = []
    for kind in dict.fromkeys(kind for run in runs for kind in run.graph.kinds):
        cells, photos = [], 0
        for run in runs:
            judged = kind_shares(run, kind)
            judged = np.zeros(0) if judged is None else judged[~np.isnan(judged)]
            photos, share = max(photos, len(judged)), float(judged.mean()) if len(judged) else None
            error = run.result.calibration[kind].error if kind in run.result.calibration else None
            cells.append({"accuracy": _percent(share), "error": _percent(error)})
        size = max(len(run.graph.labels(kind)) for run in runs if kind in run.graph.kinds)
        listed.append({"kind": kind, "labels": size, "photos": photos, "cells": cells})
    return listed


def facts_section(runs: Sequence[RunResults]) -> list[dict[str, Any]]:
    """Settings, versions, counts, bad photos and notes of each run."""
    listed = []
    for run in runs:
        result, model = run.result, run.about["model"]
        training = run.about.get("training")
        facts = {
            "evaluation": run.evaluation,
            "data": result.data,
            "split": result.split,
            "photos evaluated": f"{result.photos:,}, {result.labelled:,} with a fine label",
            "photos trained with": "not known" if training is None else f"{training['photos']:,}",
            "views of each photo": result.views,
            "cut to boxes": "yes" if result.box else "no",
            "temperature": f"{result.temperature:.4g}"
            + (f", fitted on {result.calibrated_on}" if result.calibrated_on else ""),
            "network": model["network"] + (f" and {model['coarse_network']}" if model.get("coarse_network") else ""),
            "head": model["head"],
            "fine labels": f"{len(run.graph):,}",
            "kinds": f"{len(run.graph.kinds):,}",
            "graph": result.graph[:16],
            "seed": run.settings.get("seed", "not known"),
            **_trained_with(run.starts),
        }
        listed.append(
            {
                "run": run.name,
                "facts": {name: str(value) for name, value in facts.items()},
                "versions": run.about.get("versions", {}),
                "settings": {name: str(value) for name, value in run.settings.items() if name != "seed"},
                "notes": run.about.get("notes", []),
                "bad": [
                    {"path": bad_photo.path, "reason": bad_photo.reason} for bad_photo in result.bad_photos[:MAX_BAD]
                ],
                "bad_count": len(result.bad_photos),
                "bad_training": run.about.get("bad_training_photos", [])[:MAX_BAD],
                "bad_training_count": len(run.about.get("bad_training_photos", [])),
            }
        )
    return listed


def _trained_with(starts: Sequence[Start]) -> dict[str, str]:
    """The versions and commits that a run was trained with; of a resumed run all that differ, in their order."""
    versions = (f"finegraph {start.finegraph}, torch {start.torch}, Python {start.python}" for start in starts)
    commits = (str(commit) for start in starts for commit in start.commits)
    facts = {
        "trained with": "; then ".join(dict.fromkeys(versions)),
        "trained at commit": "; ".join(dict.fromkeys(commits)),
    }
    return {name: text for name, text in facts.items() if text}


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
