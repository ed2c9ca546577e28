"""The paper's figure of examples, for print.

A row per photo: the photo (b), its coarse predictions (c), the first five answers of the baseline and of the
other run side by side, the right ones marked (d), and the training photos that are most like it (e). Right answers are
dark, hatched, bold and have a check mark, so that they can be seen in grey. Cost: a tenth of a second per photo.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from finegraph.data.dataset import MISSING
from finegraph.reports.examples import choose_examples
from finegraph.reports.page.cards import kind_answers, similar_photos
from finegraph.reports.plots.plot_style import BAD, GOOD, cut_name, run_name, wrapped
from finegraph.reports.report_page import Compared
from finegraph.reports.run_results import RunResults

EACH = 2
"""How many photos of each sort are shown."""
MAX_KINDS = 4
"""How many kinds are shown of each photo."""
WIDTHS = {"photo": 1.2, "kinds": 1.45, "answers": 1.6, "similar": 1.5}
"""How wide the columns are, in inches."""
_ROW, _HEAD, _GAP, _TITLE = 1.72, 0.32, 0.16, 0.38
"""How high a row, the headings and the title of a photo are, and how far columns are apart, in inches."""
_MARKS = {1: ("✓", GOOD), 0: ("✗", BAD)}


class _Sheet:
    """A figure in which panels are put by inches from the top left, so that nothing moves or is cut off."""

    def __init__(self, width: float, height: float) -> None:
        from matplotlib.figure import Figure

        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height))

    def panel(self, left: float, top: float, width: float, height: float) -> Any:
        """A panel without a frame."""
        place = (left / self.width, 1.0 - (top + height) / self.height, width / self.width, height / self.height)
        axis = self.figure.add_axes(place)
        axis.set_axis_off()
        return axis

    def text(self, left: float, top: float, text: str, **options: Any) -> None:
        """Text that begins at a place and grows downwards."""
        self.figure.text(left / self.width, 1.0 - top / self.height, text, va="top", **options)


def example_plot(compared: Compared) -> Any:
    """Two photos of each sort; None if there are none."""
    base, other = compared.runs[compared.baseline], compared.runs[compared.other]
    shown = [other] if base is other else [base, other]
    rows = [
        (sort.key, row)
        for sort in choose_examples(compared.runs, compared.baseline, compared.other, EACH)
        for row in sort.photos
    ]
    if not rows:
        return None
    columns = ["photo"] + ["kinds"] * bool(other.graph.kinds) + ["answers"] * len(shown)
    columns += ["similar"] * any("similar" in run.arrays for run in shown)
    widths = [WIDTHS[name] for name in columns]
    sheet = _Sheet(sum(widths) + _GAP * (len(widths) + 1), _HEAD + _ROW * len(rows) + 0.1)
    lefts = [_GAP + sum(widths[:place]) + _GAP * place for place in range(len(widths))]
    _headings(sheet, columns, lefts, shown)
    for line, (key, row) in enumerate(rows):
        top, true, runs = _HEAD + _ROW * line, int(other.arrays["fine"][row]), iter(shown)
        for name, left in zip(columns, lefts, strict=True):
            if name == "similar":
                _similar(sheet, left, top, [other, *shown], row, true)
            elif name == "photo":
                _photo(sheet, left, top, shown, row, f"{key}: {other.graph.fine[true]}" if true != MISSING else key)
            elif name == "kinds":
                _kinds(sheet.panel(left, top, WIDTHS[name], _ROW - 0.14), shown, row)
            else:
                _answers(sheet.panel(left, top, WIDTHS[name], _ROW - 0.14), next(runs), row, true)
    return sheet.figure


def _headings(sheet: _Sheet, columns: Sequence[str], lefts: Sequence[float], shown: Sequence[RunResults]) -> None:
    """What stands above the columns."""
    names = {
        "photo": "photo",
        "kinds": "coarse labels" if len(shown) == 1 else "coarse labels of both",
        "similar": "similar training photos",
    }
    runs = iter(shown)
    for name, left in zip(columns, lefts, strict=True):
        words = names[name] if name in names else run_name(next(runs), 72.0 * WIDTHS[name])
        sheet.text(left, 0.1, words, fontsize=7.5, weight="bold")


def _photo(sheet: _Sheet, left: float, top: float, shown: Sequence[RunResults], row: int, title: str) -> None:
    """The photo below its sort and its label."""
    numbers = [(run, int(run.arrays["sample"][row])) for run in shown]
    picture = next(
        (pictures[n] for run, n in numbers for pictures in (run.gallery, run.thumbnails) if n in pictures), None
    )
    sheet.text(left, top, wrapped(title, 24, 3), fontsize=6, linespacing=1.15)
    if picture is not None:
        axis = sheet.panel(left, top + _TITLE, WIDTHS["photo"], _ROW - _TITLE - 0.14)
        axis.imshow(_pixels(picture))
        axis.set_anchor("NW")


def _kinds(axis: Any, shown: Sequence[RunResults], row: int) -> None:
    """What each run says of each kind, the baseline first, and whether that is right."""
    listed = kind_answers(shown, row, MAX_KINDS)
    room = 72.0 * WIDTHS["kinds"] - 8.0
    line = 0.0
    for kind in listed:
        axis.text(0.0, line, cut_name(kind["kind"], room, 5.5), fontsize=5.5, color="#555555", va="top")
        line += 0.8
        for answer in kind["answers"]:
            mark, colour = _MARKS.get(answer["right"], ("·", "#555555"))
            share_text = f" {answer['share']:.0%}"
            label = cut_name(answer["label"], room - 30.0, 6)
            axis.text(0.0, line, mark, fontsize=6, color=colour, weight="bold", va="top")
            axis.text(0.1, line, label, fontsize=6, va="top")
            axis.text(1.0, line, share_text, fontsize=5.5, va="top", ha="right", color="#555555")
            line += 0.95
        line += 0.3
    axis.set_xlim(0, 1)
    axis.set_ylim(max(line, 3.0 * MAX_KINDS), 0.0)


def _answers(axis: Any, run: RunResults, row: int, true: int) -> None:
    """The first five answers as bars."""
    room = 72.0 * WIDTHS["answers"]
    labels, shares = run.arrays["top_labels"][row].tolist(), run.arrays["top_probabilities"][row].tolist()
    for place, (label, share) in enumerate(zip(labels, shares, strict=True)):
        right = label == true
        axis.barh(place, share, height=0.34, color=GOOD if right else "#b8c4ce", hatch="////" if right else None)
        name = cut_name(run.graph.fine[label], room - 44.0, 6, bold=right)
        axis.text(
            0.0,
            place - 0.22,
            ("✓ " if right else "") + name,
            fontsize=6,
            va="bottom",
            weight="bold" if right else "normal",
        )
        axis.text(1.0, place - 0.22, f"{share:.1%}", fontsize=6, va="bottom", ha="right")
    axis.set_xlim(0, 1)
    axis.set_ylim(4.3, -0.8)


def _similar(sheet: _Sheet, left: float, top: float, runs: Sequence[RunResults], row: int, true: int) -> None:
    """Four similar training photos, each below its label; a check mark if that is the true one."""
    wide, high, name_high = (WIDTHS["similar"] - 0.1) / 2, (_ROW - 0.14) / 2, 0.1
    photos = similar_photos(runs, row, true)
    for place, one in enumerate(photos[:4]):
        across, down = left + (wide + 0.1) * (place % 2), top + high * (place // 2)
        room = 72.0 * wide - (6.0 if one["same"] else 0.0)
        name = ("✓ " if one["same"] else "") + cut_name(one["label"], room, 4.5, bold=one["same"])
        sheet.text(across, down, name, fontsize=4.5, weight="bold" if one["same"] else "normal")
        if one["bytes"] is not None:
            axis = sheet.panel(across, down + name_high, wide, high - name_high - 0.04)
            axis.imshow(_pixels(one["bytes"]))
            axis.set_anchor("NW")
    if not photos:
        sheet.text(left, top, "not kept of this photo", fontsize=6, color="#555555")


def _pixels(picture: bytes) -> Any:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(picture)))
