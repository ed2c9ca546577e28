"""The static plots of a report, for print: each as SVG and PNG, from the same numbers as the page.

    training          photos per label
    examples          the paper's shown: photos, coarse labels, answers of each run, similar training photos
    accuracy          fine label and kinds, with intervals
    confusion         the matrix of fine labels, in the order by coarse labels
    calibration       accuracy against confidence
    sure              wrong answers against photos with an answer
    values            true against predicted numbers, and how often they lie in the intervals

Colours are of a palette that colour-blind people can tell apart; lightness, markers and lines differ too, so that the
plots can be read in grey. The same results give the same bytes. Cost: a second or two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from finegraph.data.dataset import MISSING
from finegraph.reports.comparison import compare_runs, widest_graph
from finegraph.reports.curves import fine_curve, sure_curve
from finegraph.reports.orders import order_by_coarse, order_by_confusion
from finegraph.reports.plots import plot_style
from finegraph.reports.plots.example_plot import example_plot
from finegraph.reports.plots.plot_fonts import fonts_for, without_glyph_warnings
from finegraph.reports.plots.plot_style import (
    BAR,
    STYLE,
    cut_name,
    look_of,
    need_matplotlib,
    new_figure,
    run_name,
    save_plot,
    wrapped,
)
from finegraph.reports.plots.study_plots import draw_study
from finegraph.reports.report_page import Compared
from finegraph.reports.run_results import RunResults
from finegraph.reports.study_results import StudyResults

DIAGONAL: dict[str, Any] = {"color": "#999999", "linewidth": 0.8, "linestyle": (0, (2, 3))}
"""How the line is drawn on which values would be right."""
MAX_NUMBERS = 3
"""How many numbers have a panel."""
MAX_MATRIX = 1500
"""A matrix of more labels than this is summed up in blocks."""
MAX_ACROSS, MAX_UPRIGHT = 8, 30
"""Up to these numbers of labels, each has its name below the axis: in lines, or upright."""
MAX_NAME_POINTS = 72.0
"""How long an upright name may be, in points."""


class Drawn(NamedTuple):
    """The names of the files that were drawn, and notes about them."""

    names: list[str]
    notes: list[str]


def draw_plots(compared: Compared | None, studies: Sequence[StudyResults], folder: Path) -> Drawn:
    """Draw all plots into a folder, which exists; files of the same names are replaced.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    need_matplotlib()
    from matplotlib import rc_context

    names: list[str] = []
    notes: list[str] = []
    if compared is not None:
        fonts = fonts_for(_texts(compared))
        notes += [] if fonts.note is None else [fonts.note]
        shown = compared.runs[compared.other]
        with rc_context({**STYLE, "font.family": list(fonts.families)}), without_glyph_warnings():
            plots = {
                "training": _training(shown),
                "examples": example_plot(compared),
                "accuracy": _accuracy(compared),
                "confusion": _confusion(shown),
                "calibration": _calibration(compared.runs),
                "sure": _sure(compared.runs),
                "values": _values(compared.runs),
            }
            for name, figure in plots.items():
                if figure is not None:
                    names += save_plot(figure, folder, name, plot_style.DPI)
    for number, study in enumerate(studies):
        target = folder if not number else folder / f"study-{number + 1}"
        target.mkdir(exist_ok=True)
        rows = [_study_row(row.text, row.numbers) for row in study.rows]
        drawn = draw_study(rows, target, title=study.title, note=notes.append)
        names += [str(Path(target.name) / name) if number else name for name in drawn]
    return Drawn(names, list(dict.fromkeys(notes)))


def _texts(compared: Compared) -> Iterator[str]:
    """Every name that may be drawn."""
    for run in compared.runs:
        yield run.name
        yield from run.graph.fine
        for kind in run.graph.kinds:
            yield kind
            yield from run.graph.labels(kind)
        for number in run.graph.numbers:
            yield from (number, run.graph.number(number).unit)


def _study_row(text: dict[str, str], numbers: dict[str, float | None]) -> dict[str, Any]:
    """A row as the plots of studies take it."""
    return {**text, **numbers, "views": int(text["views"] or 1), "box": text["box"] == "yes"}


def _label_ticks(axis: Any, names: Sequence[str], columns: int) -> None:
    """Names below an axis: in lines if there are few of them, upright if there are more, else none.

    Args:
        axis: of 0, 1, 2 and so on.
        names: of each place.
        columns: how many characters stand side by side on the whole axis.
    """
    if len(names) <= MAX_ACROSS:
        words = [wrapped(name, max(6, columns // max(1, len(names)) - 1), 3) for name in names]
        axis.set_xticks(range(len(names)), words, fontsize=7)
    elif len(names) <= MAX_UPRIGHT:
        words = [cut_name(name, MAX_NAME_POINTS, 6) for name in names]
        axis.set_xticks(range(len(names)), words, rotation=90, fontsize=6)
    else:
        axis.set_xticks([])


def _training(run: RunResults) -> Any:
    """Photos per label, the most frequent first: fine labels, the first kinds, and how often yes/no kinds are yes."""
    training = run.about.get("training")
    if training is None:
        return None
    binary = [kind for kind in run.graph.kinds if run.graph.kind(kind).binary]
    kinds = [kind for kind in run.graph.kinds if kind not in binary][:3]
    shown = [("fine label", run.graph.fine, training["fine"])]
    shown += [(kind, run.graph.labels(kind), training["kinds"][kind]) for kind in kinds]
    if binary:
        shown.append(("yes/no kind, counting yes", tuple(binary), [training["kinds"][kind][1] for kind in binary]))
    heights = [2.1 if MAX_ACROSS < len(counts) <= MAX_UPRIGHT else 1.35 for _, _, counts in shown]
    figure, axes = new_figure(6.4, sum(heights), len(shown), height_ratios=heights)
    for axis, (name, labels, counts) in zip(axes[:, 0], shown, strict=True):
        order = sorted(range(len(counts)), key=lambda place: (-counts[place], place))
        ordered = [counts[place] for place in order]
        axis.bar(range(len(ordered)), ordered, width=0.85 if len(ordered) < 400 else 1.0, color=BAR)
        axis.set_title(f"photos per {cut_name(name, 280, 8.5, bold=True)} ({len(ordered):,} labels)", loc="left")
        axis.set_xlim(-0.6, len(ordered) - 0.4)
        _label_ticks(axis, [labels[place] for place in order], 100)
        axis.yaxis.get_major_locator().set_params(integer=True)
    return figure


def _accuracy(compared: Compared) -> Any:
    """Top 1, top 5 and the first kinds with intervals, a bar per run."""
    metrics = [one for one in compare_runs(compared.runs, compared.baseline) if one.percent and one.more_is_better][:8]
    figure, axes = new_figure(6.4, 2.3)
    axis = axes[0, 0]
    width = 0.8 / len(compared.runs)
    for number, run in enumerate(compared.runs):
        for place, one in enumerate(metrics):
            value = one.values[number]
            if value is not None:
                axis.bar(
                    place + (number - (len(compared.runs) - 1) / 2) * width,
                    100 * value.mean,
                    width * 0.92,
                    color=look_of(number).colour,
                    alpha=0.85,
                    hatch=look_of(number).hatch,
                    edgecolor="white",
                    yerr=[[100 * (value.mean - value.low)], [100 * (value.high - value.mean)]],
                    error_kw={"elinewidth": 0.8, "capsize": 2},
                    label=run_name(run, 110) if not place else None,
                )
    _label_ticks(axis, [one.name for one in metrics], 96)
    axis.set_ylabel("right, %")
    axis.set_ylim(0, 102)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=4)
    return figure


def _confusion(run: RunResults) -> Any:
    """The matrix of fine labels as shares of each row, dark for many."""
    size = len(run.graph)
    true, answered = run.arrays["fine"], run.arrays["predicted"]
    known = true != MISSING
    by_confusion = order_by_confusion(np.where(known, true, -1), answered, size)
    kinds = {
        kind: order_by_confusion(
            run.arrays["kinds_true"][:, place], run.arrays["kinds_predicted"][:, place], len(run.graph.labels(kind))
        )
        for place, kind in enumerate(run.graph.kinds)
    }
    order = order_by_coarse(run.graph, by_confusion, kinds)
    bins = min(size, MAX_MATRIX)
    rank = np.empty(size, dtype=np.int64)
    rank[order] = np.arange(size) * bins // size
    counts = np.zeros((bins, bins))
    np.add.at(counts, (rank[true[known]], rank[answered[known]]), 1.0)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    figure, axes = new_figure(4.2, 4.0)
    axis = axes[0, 0]
    image = axis.imshow(np.sqrt(shares), cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    named = [cut_name(run.graph.fine[i], MAX_NAME_POINTS, 6) for i in order] if size <= MAX_UPRIGHT else []
    axis.set_xticks(range(len(named)), named, rotation=90, fontsize=6)
    axis.set_yticks(range(len(named)), named, fontsize=6)
    axis.set_xlabel("answered label")
    axis.set_ylabel("true label")
    axis.set_title(f"{run_name(run, 90)}: {size:,} fine labels, by coarse label", loc="left")
    bar = figure.colorbar(image, ax=axis, shrink=0.7, ticks=[0, 0.1**0.5, 0.25**0.5, 0.5**0.5, 1])
    bar.ax.set_yticklabels(["0 %", "10 %", "25 %", "50 %", "100 %"])
    return figure


def _calibration(runs: Sequence[RunResults]) -> Any:
    """Accuracy against confidence, of the fine label and the first kinds."""
    names = ["fine", *runs[widest_graph(runs)].graph.kinds][:3]
    figure, axes = new_figure(2.25 * len(names), 2.4, 1, len(names), sharey=True)
    for axis, name in zip(axes[0], names, strict=True):
        axis.plot([0, 1], [0, 1], **DIAGONAL)
        for number, run in enumerate(runs):
            calibration = run.result.calibration.get(name)
            if calibration is not None:
                axis.plot(
                    [bin_.confidence for bin_ in calibration.bins],
                    [bin_.accuracy for bin_ in calibration.bins],
                    color=look_of(number).colour,
                    marker=look_of(number).marker,
                    linestyle=look_of(number).line,
                    linewidth=1.2,
                    markersize=3,
                    label=f"{run_name(run, 70)}, error {100 * (calibration.error or 0):.1f} %",
                )
        axis.set_title(cut_name(name, 130, 8.5, bold=True), loc="left")
        axis.set_xlabel("probability of the answer")
        axis.legend(fontsize=6.5, loc="upper left")
    axes[0, 0].set_ylabel("share that is right")
    return figure


def _sure(runs: Sequence[RunResults]) -> Any:
    """Wrong answers against photos with an answer."""
    figure, axes = new_figure(3.6, 2.7)
    axis = axes[0, 0]
    for number, run in enumerate(runs):
        look = look_of(number)
        points = [(point.coverage, point.wrong) for point in sure_curve(run) if point.wrong is not None]
        if points:
            x, y = zip(*points, strict=True)
            axis.plot(
                [100 * each for each in x],
                [100 * each for each in y],
                color=look.colour,
                marker=look_of(number).marker,
                markersize=3,
                linewidth=1.3,
                label=f"{run_name(run, 100)}: sure answer",
            )
        plain = fine_curve(run)
        axis.plot(
            [100 * each for each, _ in plain],
            [100 * each for _, each in plain],
            color=look.colour,
            linestyle=look.dots,
            linewidth=1.2,
            label=f"{run_name(run, 100)}: fine label or nothing",
        )
    axis.set_xlabel("photos with an answer, %")
    axis.set_ylabel("wrong answers, %")
    axis.set_xlim(0, 102)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=6.5, loc="upper left")
    return figure


def _values(runs: Sequence[RunResults]) -> Any:
    """True against predicted values of the first numbers, and the coverage of their intervals."""
    from matplotlib.ticker import LogLocator

    names = list(dict.fromkeys(name for run in runs for name, one in run.result.numbers.items() if one.pairs))
    names = names[:MAX_NUMBERS]
    if not names:
        return None
    figure, axes = new_figure(2.4 * (len(names) + 1), 2.6, 1, len(names) + 1)
    coverage = axes[0, -1]
    coverage.plot([0, 100], [0, 100], **DIAGONAL)
    for axis, name in zip(axes[0], names, strict=False):
        shown = [
            (number, run, run.result.numbers[name]) for number, run in enumerate(runs) if name in run.result.numbers
        ]
        for number, run, one in shown:
            look = look_of(number)
            axis.plot(
                [true for true, _ in one.pairs],
                [predicted for _, predicted in one.pairs],
                color=look.colour,
                marker=look.marker,
                linestyle="none",
                markersize=2.5,
                alpha=0.6,
                label=run_name(run, 90),
            )
            shares = [(100 * float(level), 100 * share) for level, share in one.coverage.items()]
            line = look_of(names.index(name) * len(runs) + number)
            coverage.plot(
                [level for level, _ in shares],
                [share for _, share in shares],
                color=line.colour,
                marker=line.marker,
                linestyle=line.line,
                linewidth=1.2,
                markersize=3,
                label=f"{run_name(run, 50)}: {cut_name(name, 60, 6.5)}" if len(runs) > 1 else cut_name(name, 110, 6.5),
            )
        unit = shown[0][2].unit
        if any(run.graph.number(name).scale == "log" for _, run, _ in shown if name in run.graph.numbers):
            for log_axis, set_scale in ((axis.xaxis, axis.set_xscale), (axis.yaxis, axis.set_yscale)):
                set_scale("log")
                log_axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                log_axis.set_major_formatter("{x:g}")
                log_axis.set_minor_formatter("")
        ends = [value for _, _, one in shown for pair in one.pairs for value in pair]
        axis.plot([min(ends), max(ends)], [min(ends), max(ends)], **DIAGONAL)
        axis.set_title(cut_name(f"{name}, {unit}" if unit else name, 140, 8.5, bold=True), loc="left")
        axis.set_xlabel("true")
        axis.set_ylabel("predicted mean")
        if len(runs) > 1:
            axis.legend(fontsize=6.5, loc="upper left")
    coverage.set_title("intervals", loc="left")
    coverage.set_xlabel("probability of the interval, %")
    coverage.set_ylabel("values inside, %")
    coverage.set_xlim(0, 102)
    coverage.set_ylim(0, 102)
    coverage.legend(fontsize=6.5, loc="lower right")
    return figure
