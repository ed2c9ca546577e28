"""How the static plots look, and how they are written.

Runs differ in colour (a palette that colour-blind people can tell apart), in marker, in line and in hatching, so that
they can be distinguished in grey too. Names are text: nothing in them is a formula. Figures need matplotlib, which the
page of a report does without.
"""

from __future__ import annotations

import importlib.util
import io
import textwrap
import unicodedata
from pathlib import Path
from typing import Any, NamedTuple

from finegraph.errors import MissingExtraError
from finegraph.files.durable import write_over
from finegraph.graph.drawing.text_width import shorten_to_width
from finegraph.reports.run_results import RunResults

GOOD, BAD, BAR = "#007a5a", "#a63f00", "#4a7fa5"
DPI = 300
STYLE: Any = {
    "font.size": 8,
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


WITHOUT_MATPLOTLIB = (
    'plots for print need matplotlib, which is not installed; install it with `pip install "finegraph[plots]"`'
)


def has_matplotlib() -> bool:
    """Whether plots can be drawn here."""
    return importlib.util.find_spec("matplotlib") is not None


def need_matplotlib() -> None:
    """Raise if no plots can be drawn.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    if not has_matplotlib():
        raise MissingExtraError(WITHOUT_MATPLOTLIB)


class Look(NamedTuple):
    """How a run is drawn."""

    colour: str
    marker: str
    line: Any
    dots: Any
    hatch: str


_COLOURS = ("#444444", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
_LINES = ("--", "-", "-.", ":", (0, (6, 1)), (0, (4, 1, 1, 1, 1, 1)))
_DOTS = ((0, (1, 1.5)), (0, (4, 2)), (0, (7, 2)), (0, (4, 1, 1, 1)), (0, (2, 4)))
_HATCHES = ("", "///", "...", "xxx", "---", "\\\\\\", "ooo", "+++")


def look_of(number: int) -> Look:
    """The look of a run by its number; of many runs no two have the same colour, marker and hatching."""
    colour, marker, line, dots, hatch = (
        options[number % len(options)] for options in (_COLOURS, _MARKERS, _LINES, _DOTS, _HATCHES)
    )
    return Look(str(colour), str(marker), line, dots, str(hatch))


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure of a size in inches, and its panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def save_plot(figure: Any, folder: Path, name: str, dpi: int = DPI) -> list[str]:
    """Write a figure in both forms, without dates; the names of the files."""
    names = []
    for form, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        out = io.BytesIO()
        figure.savefig(out, format=form, dpi=dpi, metadata=metadata)
        write_over(folder / f"{name}.{form}", out.getvalue())
        names.append(f"{name}.{form}")
    return names


def plain(text: object) -> str:
    """A name as text: a dollar sign must not start a formula, and what cannot be drawn becomes a space or its code."""
    name = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    name = "".join(" " if unicodedata.category(letter) == "Cc" and letter != "\n" else letter for letter in name)
    return name.replace("$", r"\$")


def cut_name(text: object, width: float, size: float, bold: bool = False) -> str:
    """A name of limited width, in points."""
    return plain(shorten_to_width(str(text), width, size, bold=bold))


def run_name(run: RunResults, width: float) -> str:
    """The name of a run, of limited width, in points."""
    return cut_name(run.name, width, 8)


def wrapped(text: object, width: int, lines: int) -> str:
    """A name in a limited number of lines and characters per line."""
    return plain("\n".join(textwrap.wrap(str(text), width, max_lines=lines, placeholder=" …")))
