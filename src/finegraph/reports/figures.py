"""The static figures of a report, for print: each as SVG and PNG, from the same numbers as the page.

    training          photos per label
    examples          the paper's panel: photos with the answers of each run, the right ones marked
    accuracy          fine label and kinds, with intervals
    confusion         the matrix of fine labels, in the order by coarse labels
    calibration       accuracy against confidence
    sure              wrong answers against photos with an answer

Colours are of a palette that colour-blind people can tell apart; lightness, markers and lines differ too, so that the
figures can be read in grey. The same results give the same bytes. Cost: a second or two.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from finegraph.data.dataset import MISSING
from finegraph.data.storage.durable import write_over
from finegraph.graph.text_width import shorten
from finegraph.reports.comparison import compare
from finegraph.reports.curves import fine_curve, sure_curve
from finegraph.reports.examples import choose_examples
from finegraph.reports.orders import order_by_coarse, order_by_confusion
from finegraph.reports.report import Compared
from finegraph.reports.run_results import RunResults
from finegraph.reports.study_figures import draw_study
from finegraph.reports.study_results import StudyResults

COLOURS = ("#444444", "#d55e00", "#0072b2", "#009e73")
MARKERS = ("o", "s", "^", "D")
LINES = ("--", "-", "-.", ":")
HATCHES = ("", "///", "...", "xx")
GOOD, BAR = "#007a5a", "#4a7fa5"
DPI = 300
MOST_MATRIX = 1500
"""A matrix of more labels than this is summed up in blocks."""
MOST_ACROSS, MOST_UPRIGHT = 8, 30
"""With at most so many labels each has its name below the axis: in lines, or upright."""
LONGEST_UPRIGHT = 72.0
"""How long an upright name may be, in points."""
_STYLE: Any = {
    "font.size": 8,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.edgecolor": "#777777",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "legend.frameon": False,
    "svg.hashsalt": "finegraph",
    "hatch.linewidth": 0.5,
}


def draw_figures(found: Compared | None, studies: Sequence[StudyResults], folder: Path) -> list[str]:
    """Draw all figures into a folder, which exists; files of the same names are replaced.

    Returns:
        The names of the files.
    """
    from matplotlib import rc_context

    names: list[str] = []
    with rc_context(_STYLE):
        if found is not None:
            shown = found.runs[found.other]
            figures = {
                "training": _training(shown),
                "examples": _examples(found),
                "accuracy": _accuracy(found),
                "confusion": _confusion(shown),
                "calibration": _calibration(found.runs),
                "sure": _sure(found.runs),
            }
            for name, figure in figures.items():
                if figure is not None:
                    names += _save(figure, folder, name)
    for number, study in enumerate(studies):
        own = folder if not number else folder / f"study-{number + 1}"
        own.mkdir(exist_ok=True)
        rows = [_study_row(row.text, row.numbers) for row in study.rows]
        names += [str(Path(own.name) / name) if number else name for name in draw_study(rows, own, title=study.name)]
    return names


def _study_row(text: dict[str, str], numbers: dict[str, float | None]) -> dict[str, Any]:
    """A row as the figures of studies take it."""
    return {**text, **numbers, "views": int(text["views"] or 1), "box": text["box"] == "yes"}


def _save(figure: Any, folder: Path, name: str) -> list[str]:
    """Write a figure in both forms, without dates."""
    names = []
    for form, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        out = io.BytesIO()
        figure.savefig(out, format=form, dpi=DPI, metadata=metadata)
        write_over(folder / f"{name}.{form}", out.getvalue())
        names.append(f"{name}.{form}")
    return names


def _new(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def _plain(text: object) -> str:
    """A name as text: a dollar sign must not start a formula."""
    return str(text).replace("$", r"\$")


def _run_name(run: RunResults, width: float) -> str:
    """The name of a run, in so many points at the most."""
    return _plain(shorten(run.name, width, 8))


def _wrapped(text: object, width: int, lines: int) -> str:
    """A name in at most some lines of so many characters."""
    return _plain("\n".join(textwrap.wrap(str(text), width, max_lines=lines, placeholder=" …")))


def _label_ticks(axis: Any, names: Sequence[str], columns: int) -> None:
    """Names below an axis: in lines where there are few of them, upright where there are more, else none.

    Args:
        axis: of 0, 1, 2 and so on.
        names: of each place.
        columns: how many characters stand side by side on the whole axis.
    """
    if len(names) <= MOST_ACROSS:
        words = [_wrapped(name, max(6, columns // max(1, len(names)) - 1), 3) for name in names]
        axis.set_xticks(range(len(names)), words, fontsize=7)
    elif len(names) <= MOST_UPRIGHT:
        words = [_plain(shorten(name, LONGEST_UPRIGHT, 6)) for name in names]
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
    panels = [("fine label", run.graph.fine, training["fine"])]
    panels += [(kind, run.graph.labels(kind), training["kinds"][kind]) for kind in kinds]
    if binary:
        panels.append(("yes/no kind, counting yes", tuple(binary), [training["kinds"][kind][1] for kind in binary]))
    heights = [2.1 if MOST_ACROSS < len(counts) <= MOST_UPRIGHT else 1.35 for _, _, counts in panels]
    figure, axes = _new(6.4, sum(heights), len(panels), height_ratios=heights)
    for axis, (name, labels, counts) in zip(axes[:, 0], panels, strict=True):
        order = sorted(range(len(counts)), key=lambda place: (-counts[place], place))
        ordered = [counts[place] for place in order]
        axis.bar(range(len(ordered)), ordered, width=0.85 if len(ordered) < 400 else 1.0, color=BAR)
        axis.set_title(f"photos per {_plain(shorten(name, 280, 8.5, bold=True))} ({len(ordered):,} labels)", loc="left")
        axis.set_xlim(-0.6, len(ordered) - 0.4)
        _label_ticks(axis, [labels[place] for place in order], 100)
        axis.yaxis.get_major_locator().set_params(integer=True)
    return figure


def _examples(found: Compared) -> Any:
    """Two photos of each sort with the answers of the baseline and of the other run."""
    from PIL import Image

    base, other = found.runs[found.baseline], found.runs[found.other]
    shown = [other] if base is other else [base, other]
    sorts = choose_examples(found.runs, found.baseline, found.other, 2)
    rows = [(sort.key, row) for sort in sorts for row in sort.photos]
    if not rows:
        return None
    figure, axes = _new(6.6, 1.6 * len(rows), len(rows), 1 + len(shown), width_ratios=[1.0, *[1.6] * len(shown)])
    for line, (key, row) in enumerate(rows):
        picture = next(
            (each for run in shown for each in [run.gallery.get(int(run.arrays["sample"][row]))] if each), None
        )
        photo = axes[line, 0]
        photo.set_axis_off()
        if picture is not None:
            photo.imshow(np.asarray(Image.open(io.BytesIO(picture))))
        true = int(other.arrays["fine"][row])
        title = f"{key}: {other.graph.fine[true]}" if true != MISSING else key
        photo.set_title(_wrapped(title, 28, 3), fontsize=6.5)
        for axis, run in zip(axes[line, 1:], shown, strict=True):
            _answers(axis, run, row, true, line == 0, room=150.0 if len(shown) > 1 else 250.0)
    return figure


def _answers(axis: Any, run: RunResults, row: int, true: int, titled: bool, room: float) -> None:
    """The first five answers as bars; the right one is dark, hatched and has a check mark. Names have some room."""
    labels, shares = run.arrays["top_labels"][row].tolist(), run.arrays["top_probabilities"][row].tolist()
    for place, (label, share) in enumerate(zip(labels, shares, strict=True)):
        right = label == true
        axis.barh(place, share, height=0.34, color=GOOD if right else "#b8c4ce", hatch="////" if right else None)
        name = _plain(shorten(run.graph.fine[label], room, 6, bold=right))
        axis.text(
            0.0,
            place - 0.22,
            ("✓ " if right else "") + name,
            fontsize=6,
            va="bottom",
            weight="bold" if right else "normal",
            in_layout=False,
        )
        axis.text(1.0, place - 0.22, f"{share:.1%}", fontsize=6, va="bottom", ha="right", in_layout=False)
    axis.set_xlim(0, 1)
    axis.set_ylim(len(labels) - 0.5, -0.9)
    axis.set_axis_off()
    if titled:
        axis.set_title(_run_name(run, 160))


def _accuracy(found: Compared) -> Any:
    """Top 1, top 5 and the first kinds with intervals, a bar per run."""
    figures = [one for one in compare(found.runs, found.baseline) if one.percent and one.more_is_better][:8]
    figure, axes = _new(6.4, 2.3)
    axis = axes[0, 0]
    width = 0.8 / len(found.runs)
    for number, run in enumerate(found.runs):
        for place, one in enumerate(figures):
            value = one.values[number]
            if value is not None:
                axis.bar(
                    place + (number - (len(found.runs) - 1) / 2) * width,
                    100 * value.mean,
                    width * 0.92,
                    color=COLOURS[number % 4],
                    alpha=0.85,
                    hatch=HATCHES[number % 4],
                    edgecolor="white",
                    yerr=[[100 * (value.mean - value.low)], [100 * (value.high - value.mean)]],
                    error_kw={"elinewidth": 0.8, "capsize": 2},
                    label=_run_name(run, 110) if not place else None,
                )
    _label_ticks(axis, [one.name for one in figures], 96)
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
    bins = min(size, MOST_MATRIX)
    rank = np.empty(size, dtype=np.int64)
    rank[order] = np.arange(size) * bins // size
    counts = np.zeros((bins, bins))
    np.add.at(counts, (rank[true[known]], rank[answered[known]]), 1.0)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    figure, axes = _new(4.2, 4.0)
    axis = axes[0, 0]
    image = axis.imshow(np.sqrt(shares), cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    named = [_plain(shorten(run.graph.fine[i], LONGEST_UPRIGHT, 6)) for i in order] if size <= MOST_UPRIGHT else []
    axis.set_xticks(range(len(named)), named, rotation=90, fontsize=6)
    axis.set_yticks(range(len(named)), named, fontsize=6)
    axis.set_xlabel("answered label")
    axis.set_ylabel("true label")
    axis.set_title(f"{_run_name(run, 90)}: {size:,} fine labels, by coarse label", loc="left")
    bar = figure.colorbar(image, ax=axis, shrink=0.7, ticks=[0, 0.1**0.5, 0.25**0.5, 0.5**0.5, 1])
    bar.ax.set_yticklabels(["0 %", "10 %", "25 %", "50 %", "100 %"])
    return figure


def _calibration(runs: Sequence[RunResults]) -> Any:
    """Accuracy against confidence, of the fine label and the first kinds."""
    names = ["fine", *runs[0].graph.kinds][:3]
    figure, axes = _new(2.25 * len(names), 2.4, 1, len(names), sharey=True)
    for axis, name in zip(axes[0], names, strict=True):
        axis.plot([0, 1], [0, 1], color="#999999", linewidth=0.8, linestyle=(0, (2, 3)))
        for number, run in enumerate(runs):
            found = run.result.calibration.get(name)
            if found is not None:
                axis.plot(
                    [one.confidence for one in found.bins],
                    [one.accuracy for one in found.bins],
                    color=COLOURS[number % 4],
                    marker=MARKERS[number % 4],
                    linestyle=LINES[number % 4],
                    linewidth=1.2,
                    markersize=3,
                    label=f"{_run_name(run, 70)}, error {100 * (found.error or 0):.1f} %",
                )
        axis.set_title(_plain(shorten(name, 130, 8.5, bold=True)), loc="left")
        axis.set_xlabel("probability of the answer")
        axis.legend(fontsize=6.5, loc="upper left")
    axes[0, 0].set_ylabel("share that is right")
    return figure


def _sure(runs: Sequence[RunResults]) -> Any:
    """Wrong answers against photos with an answer."""
    figure, axes = _new(3.6, 2.7)
    axis = axes[0, 0]
    for number, run in enumerate(runs):
        colour = COLOURS[number % 4]
        points = [(point.coverage, point.wrong) for point in sure_curve(run) if point.wrong is not None]
        if points:
            x, y = zip(*points, strict=True)
            axis.plot(
                [100 * each for each in x],
                [100 * each for each in y],
                color=colour,
                marker=MARKERS[number % 4],
                markersize=3,
                linewidth=1.3,
                label=f"{_run_name(run, 100)}: sure answer",
            )
        plain = fine_curve(run)
        axis.plot(
            [100 * each for each, _ in plain],
            [100 * each for _, each in plain],
            color=colour,
            linestyle=(0, (4, 2)) if number else (0, (1, 1.5)),
            linewidth=1.2,
            label=f"{_run_name(run, 100)}: fine label or nothing",
        )
    axis.set_xlabel("photos with an answer, %")
    axis.set_ylabel("wrong answers, %")
    axis.set_xlim(0, 102)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=6.5, loc="upper left")
    return figure
