"""The plots of a study, from the rows of its summary: SVG for pages, PNG for everything else.

    accuracy-SPLIT      top-1 against the amount of photos, a column per set of kinds, with intervals; below, the paired
                        differences to softmax, whose intervals are much smaller
    difference-SPLIT    how far each head is from softmax, a panel per amount, with paired intervals
    time                what a fit, and a step of 128 photos, takes at the largest amount: the last layer and the loss

Heads differ in colour (a palette that colour-blind people can tell apart), in marker, in line and in lightness, so the
plots can be read in grey. If a split was measured in several ways (ten views, box) each has a plot of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from finegraph.reports.plots.plot_fonts import fonts_for, without_glyph_warnings
from finegraph.reports.study_results import amount_axis, amount_words

Row = Mapping[str, Any]
INK, PALE, GRID = "#222222", "#d9d9d9", "#e6e6e6"


class HeadLook(NamedTuple):
    """How a head is drawn."""

    colour: str
    marker: str
    line: str
    hatch: str


LOOKS = {
    "softmax": HeadLook("#222222", "o", "--", ""),
    "softmax-marginal": HeadLook("#56b4e9", "v", ":", "...."),
    "independent": HeadLook("#999999", "D", "-.", "xxx"),
    "bipartite": HeadLook("#d55e00", "s", "-", ""),
    "bipartite-two": HeadLook("#0072b2", "^", "-", "///"),
    "ensemble": HeadLook("#e69f00", "P", "--", "---"),
    "prototypes": HeadLook("#009e73", "X", "-", "\\\\"),
    "prototypes-without-graph": HeadLook("#009e73", "x", ":", "++"),
    "auto": HeadLook("#cc79a7", "*", "-", "oo"),
    "sklearn-logistic": HeadLook("#666666", "<", "--", "||"),
    "sklearn-discriminant": HeadLook("#666666", ">", ":", "**"),
}
_OTHER = HeadLook("#009e73", "*", "-", "")
_STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.labelcolor": INK,
    "axes.edgecolor": "#888888",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "svg.hashsalt": "finegraph",
    "hatch.linewidth": 0.6,
}


def draw_study(
    rows: Sequence[Row], folder: Path, *, title: str = "", note: Callable[[str], None] | None = None
) -> list[str]:
    """Draw the plots of a study.

    Args:
        rows: of its summary, by column.
        folder: where the files go; it exists. Files of the same names are replaced.
        title: what stands over each figure.
        note: called with warnings, such as characters that no font has.

    Returns:
        The names of the files.
    """
    from matplotlib import rc_context

    names: list[str] = []
    fonts = fonts_for([title, *(row[name] for row in rows for name in ("head", "kinds", "split"))])
    if note is not None and fonts.note is not None:
        note(fonts.note)
    with rc_context({**_STYLE, "font.family": list(fonts.families)}), without_glyph_warnings():
        measured = [row for row in rows if row["metric"] == "top1"]
        for place in dict.fromkeys((row["split"], row["views"], row["box"]) for row in measured):
            at_place = [row for row in measured if (row["split"], row["views"], row["box"]) == place]
            ending, words = _place_name(*place), _place_words(*place)
            names += _save(_accuracy(at_place, f"{title}: top-1 on {words}"), folder, f"accuracy-{ending}")
            if any(row["difference"] is not None for row in at_place):
                names += _save(_differences(at_place, f"{title}: {words}"), folder, f"difference-{ending}")
        timed = [row for row in rows if row["metric"] in _PANELS]
        if timed:
            names += _save(_time(timed, title), folder, "time")
    return names


# ---- accuracy against amount ----------------------------------------------------------------------------------------


def _accuracy(rows: Sequence[Row], title: str) -> Any:
    """A column per set of kinds, heads without kinds in each: accuracies above, differences to softmax below."""
    from matplotlib.figure import Figure

    amounts = list(dict.fromkeys(row["amount"] for row in rows))
    sets = _sets(rows)
    heads = list(dict.fromkeys(row["head"] for row in rows))
    compared = any(row["difference"] is not None for row in rows)
    width = max(1.2 + 3.2 * len(sets), 5.0)
    figure = Figure(figsize=(width, 6.0 if compared else 3.6), layout="constrained")
    lines = 2 if compared else 1
    axes = figure.subplots(lines, len(sets), sharey="row", sharex=True, squeeze=False,
                           height_ratios=(3, 2)[:lines])  # fmt: skip
    handles: dict[str, Any] = {}
    for column, name in enumerate(sets):
        for number, head in enumerate(heads):
            by_amount = {row["amount"]: row for row in rows if row["head"] == head and row["kinds"] in ("", name)}
            offset = number - (len(heads) - 1) / 2
            if by_amount:
                handles[head] = _line(axes[0, column], head, by_amount, amounts, offset / 3)
            if compared and any(row["difference"] is not None for row in by_amount.values()):
                _line(
                    axes[1, column],
                    head,
                    by_amount,
                    amounts,
                    offset,
                    ("difference", "difference_low", "difference_high"),
                )
        axes[0, column].set_title(f"kinds: {name}" if name else "", loc="left")
        for panel in axes[:, column]:
            panel.set_xticks(range(len(amounts)), amounts)
            panel.set_xlim(-0.5, len(amounts) - 0.5)
            panel.grid(axis="y", color=GRID, linewidth=0.8)
            panel.set_axisbelow(True)
        if compared:
            axes[1, column].axhline(0, color=LOOKS["softmax"].colour, linestyle=LOOKS["softmax"].line, linewidth=1.2)
        axes[-1, column].set_xlabel(amount_axis(amounts))
    axes[0, 0].set_ylabel("top-1 accuracy, %")
    if compared:
        axes[1, 0].set_ylabel("difference to softmax")
    _heading(figure, title)
    columns = max(2, int(width / 1.75))
    listed = [head for head in heads if head in handles]
    figure.legend([handles[head] for head in listed], listed, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def _sets(rows: Sequence[Row]) -> list[str]:
    """The sets of kinds, in the order of the head that has most of them; one without a name if there are none."""
    by_head: dict[str, list[str]] = {}
    for row in rows:
        head_rows = by_head.setdefault(row["head"], [])
        if row["kinds"] and row["kinds"] not in head_rows:
            head_rows.append(row["kinds"])
    longest_first = sorted(by_head.values(), key=len, reverse=True)
    return list(dict.fromkeys(name for head_rows in longest_first for name in head_rows)) or [""]


def _line(
    panel: Any,
    head: str,
    by_amount: Mapping[str, Row],
    amounts: Sequence[str],
    offset: float,
    columns: tuple[str, str, str] = ("mean", "low", "high"),
) -> Any:
    """The line of a head with its intervals, a little beside those of others so that all can be seen."""
    look = LOOKS.get(head, _OTHER)
    shown = [amount for amount in amounts if amount in by_amount and by_amount[amount][columns[0]] is not None]
    places = [amounts.index(amount) + 0.06 * offset for amount in shown]
    rows = [by_amount[amount] for amount in shown]
    below, above = _reach(rows, *columns)
    return panel.errorbar(
        places, [100 * row[columns[0]] for row in rows], yerr=(below, above), color=look.colour, marker=look.marker,
        linestyle=look.line, markersize=5.5, linewidth=1.5, elinewidth=1.0, capsize=2.5, markeredgecolor="white",
        markeredgewidth=0.6,
    )  # fmt: skip


# ---- differences ----------------------------------------------------------------------------------------------------


def _differences(rows: Sequence[Row], title: str) -> Any:
    """A panel per amount, a bar per head and set of kinds; a bar is full if its interval leaves 0 out."""
    from matplotlib.figure import Figure

    compared = [row for row in rows if row["difference"] is not None]
    amounts = list(dict.fromkeys(row["amount"] for row in compared))
    methods = list(dict.fromkeys((row["head"], row["kinds"]) for row in compared))
    columns = min(len(amounts), 4)
    lines = -(-len(amounts) // columns)
    height = 0.32 * len(methods) + 0.9
    figure = Figure(figsize=(2.2 + 2.4 * columns, 0.9 + height * lines), layout="constrained")
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, amount in zip(axes, amounts, strict=False):
        cells = {(row["head"], row["kinds"]): row for row in compared if row["amount"] == amount}
        for place, name in enumerate(methods):
            if name in cells:
                _bar(panel, place, cells[name])
        panel.axvline(0, color=INK, linewidth=1.0)
        panel.set_yticks(range(len(methods)), [_method(*name) for name in methods])
        panel.set_ylim(len(methods) - 0.4, -0.6)
        panel.set_title(amount_words(amount), loc="left")
        panel.grid(axis="x", color=GRID, linewidth=0.8)
        panel.set_axisbelow(True)
        panel.tick_params(axis="y", length=0)
        panel.set_xlabel("points of top-1")
    for panel in axes[len(amounts) :]:
        panel.set_visible(False)
    _heading(figure, f"{title}, difference to softmax", "filled: the 95 % interval leaves 0 out; hollow: cannot tell")
    return figure


def _bar(panel: Any, place: int, row: Row) -> None:
    """The difference of one head with its interval."""
    look = LOOKS.get(row["head"], _OTHER)
    sure = row["verdict"] in ("better", "worse")
    panel.barh(
        place, 100 * row["difference"], height=0.62, color=look.colour if sure else "white", edgecolor=look.colour,
        linewidth=1.4,
    )  # fmt: skip
    if row["difference_low"] is not None:
        below, above = _reach([row], "difference", "difference_low", "difference_high")
        panel.errorbar(
            100 * row["difference"],
            place,
            xerr=(below, above),
            color=INK,
            elinewidth=1.0,
            capsize=2.5,
            linestyle="none",
        )


# ---- time -----------------------------------------------------------------------------------------------------------

_PANELS = {
    "seconds_fit": "a whole fit, seconds",
    "ms_forward": "a step forward, ms",
    "ms_backward": "a step backward, ms",
}


def _time(rows: Sequence[Row], title: str) -> Any:
    """What a fit and a step of 128 photos take, at the amount with the most methods; of these the one that is last."""
    from matplotlib.figure import Figure

    by_amount: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        by_amount.setdefault(row["amount"], set()).add((row["head"], row["kinds"]))
    amount = max(reversed(by_amount), key=lambda name: len(by_amount[name]))
    shown = [row for row in rows if row["amount"] == amount and row["box"] == rows[0]["box"]]
    panels = [metric for metric in _PANELS if any(row["metric"] == metric for row in shown)]
    methods = list(dict.fromkeys((row["head"], row["kinds"]) for row in shown))
    figure = Figure(figsize=(2.2 + 2.8 * len(panels), 1.3 + 0.34 * len(methods)), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for panel, metric in zip(axes, panels, strict=True):
        cells = {(row["head"], row["kinds"]): row["mean"] for row in shown if row["metric"] == metric}
        longest = max(cells.values())
        for place, name in enumerate(methods):
            if name in cells:
                look = LOOKS.get(name[0], _OTHER)
                panel.barh(
                    place, cells[name], height=0.66, color=look.colour, edgecolor="white", hatch=look.hatch, linewidth=0
                )
                panel.text(cells[name] + 0.02 * longest, place, _seconds(cells[name]), va="center", fontsize=9)
        panel.set_xlim(0, longest * 1.25)
        panel.set_title(_PANELS[metric], loc="left")
        panel.set_yticks(range(len(methods)), [_method(*name) for name in methods])
        panel.set_ylim(len(methods) - 0.4, -0.6)
        panel.tick_params(axis="y", length=0)
        panel.grid(axis="x", color=GRID, linewidth=0.8)
        panel.set_axisbelow(True)
    what = "the last layer and the loss" if "ms_forward" in panels else "training the whole network"
    _heading(figure, f"{title}: time of {what}, {amount_words(amount)}")
    return figure


# ---- small parts ----------------------------------------------------------------------------------------------------


def _reach(rows: Sequence[Row], middle: str, low: str, high: str) -> tuple[list[float], list[float]]:
    """How far intervals reach below and above, in percent; 0 if there is none."""
    ends = [(row[middle], row[low], row[high]) if row[low] is not None else (0.0, 0.0, 0.0) for row in rows]
    return [max(0.0, 100 * (mid - one)) for mid, one, _ in ends], [max(0.0, 100 * (two - mid)) for mid, _, two in ends]


def _heading(figure: Any, title: str, below: str = "") -> None:
    figure.suptitle(title + (f"\n{below}" if below else ""), x=0.01, ha="left", fontsize=11)


def _method(head: str, kinds: str) -> str:
    return f"{head} ({kinds})" if kinds else head


def _seconds(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def _place_name(split: str, views: int, box: bool) -> str:
    """The end of a file name."""
    safe = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in split)
    return safe + ("-10views" if views == 10 else "") + ("-box" if box else "")


def _place_words(split: str, views: int, box: bool) -> str:
    return split + (", 10 views" if views == 10 else "") + (", with box" if box else "")


def _save(figure: Any, folder: Path, name: str) -> list[str]:
    """Write a plot as SVG and PNG; the same plot gives the same bytes of SVG."""
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.set_layout_engine("none")  # all has found its place, and finding it again takes as long as drawing
    figure.savefig(folder / f"{name}.png", dpi=300)
    return [f"{name}.svg", f"{name}.png"]
