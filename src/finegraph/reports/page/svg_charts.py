"""Small charts as SVG text, drawn for a page.

Colours and fonts come from the style sheet of the page, so that charts follow light, dark and print. All looks are
classes and attributes, as the page allows no styles inside of elements. Names are escaped. Each chart is one picture
for a screen reader, with a sentence that says what it shows. Cost: linear in what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from finegraph.graph.drawing.text_width import shorten_to_width, text_width

WIDTH, HEIGHT = 360.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 14.0, 12.0, 40.0
Place = Callable[[tuple[float, float]], tuple[float, float]]
COLOURS, DASHES = 6, 7
"""How many colours and ways to dash a line the style sheet has."""
_CORNERS: dict[str, tuple[tuple[float, float], ...]] = {
    "square": ((-3, -3), (3, -3), (3, 3), (-3, 3)),
    "triangle": ((0, -4), (4, 3), (-4, 3)),
    "diamond": ((0, -4.4), (4, 0), (0, 4.4), (-4, 0)),
    "upside down": ((0, 4), (4, -3), (-4, -3)),
    "plus": ((-1.3, -4), (1.3, -4), (1.3, -1.3), (4, -1.3), (4, 1.3), (1.3, 1.3), (1.3, 4), (-1.3, 4), (-1.3, 1.3),
             (-4, 1.3), (-4, -1.3), (-1.3, -1.3)),
    "bow tie": ((-4, -3.4), (4, 3.4), (4, -3.4), (-4, 3.4)),
}  # fmt: skip
MARKS = ("circle", *_CORNERS)
"""The forms of marks. There are more of them than colours, and their numbers share no factor: of 42 lines no two have
the same colour and mark."""
MAX_POINTS = 2000
"""The largest number of points of an outline; two for each unit of its width."""


@dataclass(frozen=True)
class Series:
    """A line of a chart.

    Attributes:
        name: what the legend calls it.
        points: x and y, both in the units of the axes.
        colour: the number of its colour, mark and, if it is dashed, kind of dashes.
        dashed: whether the line is dashed.
        marks: whether the points are marked.
        errors: below and above each point, if the chance is drawn.
    """

    name: str
    points: Sequence[tuple[float, float]]
    colour: int = 0
    dashed: bool = False
    marks: bool = False
    errors: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Axis:
    """One axis: from where to where, what it is, and how its numbers are written, or words for 0, 1, 2 and so on."""

    low: float
    high: float
    name: str
    form: str = "{:.0%}"
    words: Sequence[str] = ()

    def at(self) -> list[tuple[float, str]]:
        """Where numbers or words stand, escaped."""
        if self.words:
            return [(float(place), escape(word)) for place, word in enumerate(self.words)]
        return [(tick, escape(self.form.format(tick))) for tick in nice_ticks(self.low, self.high)]


def nice_ticks(low: float, high: float, max_ticks: int = 6) -> list[float]:
    """Round numbers from low to high."""
    span = max(high - low, 1e-12)
    step = 10.0**-12
    while True:
        for factor in (1.0, 2.0, 2.5, 5.0):
            if span / (step * factor) < max_ticks:
                width = step * factor
                first = -(-low // width)
                count = int((high - first * width) / width + 1e-9) + 1
                return [round((first + number) * width, 12) for number in range(count)]
        step *= 10.0


def line_chart(series: Sequence[Series], x: Axis, y: Axis, alt: str, *, diagonal: bool = False) -> str:
    """Lines or points over two axes."""

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across = (point[0] - x.low) / max(x.high - x.low, 1e-12)
        up = (point[1] - y.low) / max(y.high - y.low, 1e-12)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = _frame(x, y, place)
    if diagonal:
        (x1, y1), (x2, y2) = place((x.low, y.low)), place((x.high, y.high))
        parts.append(f'<line class="diagonal" x1="{n(x1)}" y1="{n(y1)}" x2="{n(x2)}" y2="{n(y2)}"/>')
    for line in series:
        spots = [place(point) for point in line.points]
        for (low, high), (across, _), point in zip(line.errors, spots, line.points, strict=False):
            (_, top), (_, bottom) = place((point[0], high)), place((point[0], low))
            parts.append(
                f'<line class="{_line(line)} thin" x1="{n(across)}" y1="{n(top)}" x2="{n(across)}" y2="{n(bottom)}"/>'
            )
        path = " ".join(f"{n(across)},{n(down)}" for across, down in spots)
        parts.append(f'<polyline class="{_line(line)}{_dashes(line)}" points="{path}"/>')
        if line.marks:
            parts += [_mark(line.colour, across, down) for across, down in spots]
    return _svg(parts, WIDTH, HEIGHT, alt)


def legend(series: Sequence[Series]) -> str:
    """The names of lines with their colours, as HTML."""
    items = []
    for line in series:
        mark = _mark(line.colour, 13.0, 6.0) if line.marks else ""
        items.append(
            '<li><svg viewBox="0 0 26 12" width="26" height="12" aria-hidden="true">'
            f'<line class="{_line(line)}{_dashes(line)}" x1="0" y1="6" x2="26" y2="6"/>{mark}</svg>'
            f"<bdi>{escape(line.name)}</bdi></li>"
        )
    return f'<ul class="legend">{"".join(items)}</ul>'


def profile(counts: Sequence[float], alt: str) -> str:
    """Counts as bars from the largest to the smallest, side by side without names."""
    wide, high = 960.0, 190.0
    top = max([*counts, 1.0])
    axis = Axis(0, top, "", "{:,.0f}")
    bottom, inner = high - 22.0, high - 22.0 - TOP
    step = (wide - LEFT - RIGHT) / max(1, len(counts))
    parts = []
    for tick, word in axis.at():
        down = bottom - inner * tick / top
        parts.append(f'<line class="grid" x1="{n(LEFT)}" y1="{n(down)}" x2="{n(wide - RIGHT)}" y2="{n(down)}"/>')
        parts.append(f'<text x="{n(LEFT - 6)}" y="{n(down + 4)}" text-anchor="end">{word}</text>')
    ordered = sorted(counts, reverse=True)
    # Thousands of bars are one outline: the page stays small, and the gaps would be invisible.
    if step < 3.0:
        last, points = len(ordered) - 1, min(len(ordered), MAX_POINTS)
        path = " ".join(
            f"L{n(LEFT + number * step)},{n(bottom - inner * ordered[number] / top)}"
            for number in (round(last * point / (points - 1)) for point in range(points))
        )
        parts.append(f'<path class="area" d="M{n(LEFT)},{n(bottom)} {path} L{n(wide - RIGHT)},{n(bottom)} Z"/>')
    else:
        gap = min(2.0, step * 0.25)
        parts += [
            f'<rect class="bar" x="{n(LEFT + number * step)}" y="{n(bottom - inner * count / top)}" '
            f'width="{n(step - gap)}" height="{n(inner * count / top)}"/>'
            for number, count in enumerate(ordered)
        ]
    words = f"{len(counts):,} labels, the most frequent first"
    parts.append(f'<text x="{n((wide + LEFT) / 2)}" y="{n(high - 4)}" text-anchor="middle">{words}</text>')
    return _svg(parts, wide, high, alt)


def named_bars(rows: Sequence[tuple[str, float]], alt: str, form: str = "{:,.0f}") -> str:
    """Bars that grow to the right, each with its name and number."""
    line, names, wide = 22.0, _room(rows, 118.0, 168.0), WIDTH
    top = max([abs(value) for _, value in rows] + [1e-12])
    parts = []
    for number, (name, value) in enumerate(rows):
        down = number * line
        length = (wide - names - 58.0) * abs(value) / top
        parts += [
            f'<text x="{n(names - 8)}" y="{n(down + 14)}" text-anchor="end">{_short(name, names - 10)}</text>',
            f'<rect class="bar" x="{n(names)}" y="{n(down + 4)}" width="{n(length)}" height="13" rx="1.5"/>',
            f'<text x="{n(names + length + 6)}" y="{n(down + 14)}" class="number">{escape(form.format(value))}</text>',
        ]
    return _svg(parts, wide, line * len(rows) + 2, alt)


def stacked_bars(rows: Sequence[tuple[str, Sequence[float]]], alt: str, form: str = "{:,.2f}") -> str:
    """Bars of several parts one after another, darkest first, each row with its name and the numbers of its parts."""
    line, wide = 22.0, WIDTH
    names = _room([(name, 0.0) for name, _ in rows], 118.0, 168.0)
    top = max([sum(parts) for _, parts in rows] + [1e-12])
    drawn = []
    for number, (name, values) in enumerate(rows):
        down, start = number * line, names
        drawn.append(f'<text x="{n(names - 8)}" y="{n(down + 14)}" text-anchor="end">{_short(name, names - 10)}</text>')
        for place, value in enumerate(values):
            length = (wide - names - 88.0) * value / top
            drawn.append(
                f'<rect class="part{place}" x="{n(start)}" y="{n(down + 4)}" width="{n(length)}" height="13"/>'
            )
            start += length
        words = escape(" + ".join(form.format(value) for value in values))
        drawn.append(f'<text x="{n(start + 6)}" y="{n(down + 14)}" class="number">{words}</text>')
    return _svg(drawn, wide, line * len(rows) + 2, alt)


def parts_legend(names: Sequence[str]) -> str:
    """What the parts of stacked bars are."""
    items = "".join(
        f'<li><svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true"><rect class="part{place}" width="12" '
        f'height="12"/></svg>{escape(name)}</li>'
        for place, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'


def odds_bars(rows: Sequence[tuple[str, float]], alt: str) -> str:
    """The evidence for the first answer (to the right) and against it (to the left)."""
    line, names, wide = 20.0, _room(rows, 108.0, 150.0), 340.0
    middle, half = names + (wide - names) / 2, (wide - names) / 2 - 34.0
    top = max([abs(value) for _, value in rows] + [1e-12])
    parts = [f'<line class="axis" x1="{n(middle)}" y1="0" x2="{n(middle)}" y2="{n(line * len(rows))}"/>']
    for number, (name, value) in enumerate(rows):
        down, length = number * line, half * abs(value) / top
        start = middle if value >= 0 else middle - length
        side, anchor = (length + 4, "start") if value >= 0 else (-length - 4, "end")
        sort = "for" if value >= 0 else "against"
        parts += [
            f'<text x="{n(names - 6)}" y="{n(down + 14)}" text-anchor="end">{_short(name, names - 8)}</text>',
            f'<rect class="{sort}" x="{n(start)}" y="{n(down + 4)}" width="{n(length)}" height="12" rx="1.5"/>',
            f'<text class="number" x="{n(middle + side)}" y="{n(down + 14)}" text-anchor="{anchor}">'
            f"{signed(value)}</text>",
        ]
    return _svg(parts, wide, line * len(rows) + 2, alt)


def interval_rows(rows: Sequence[tuple[str, float, float, float]], alt: str) -> str:
    """Differences with their intervals, one below the other, around a line at 0; hollow if the interval holds 0."""
    line, names, wide = 22.0, _room([(name, 0.0) for name, *_ in rows], 118.0, 168.0), WIDTH
    ends = [end for _, middle, low, high in rows for end in (middle, low, high)]
    axis = Axis(min([*ends, 0.0]), max([*ends, 0.0, 1e-9]), "", "{:+g}")
    base = line * len(rows) + 4.0

    def across(value: float) -> float:
        return names + 6.0 + (wide - names - 56.0) * (value - axis.low) / (axis.high - axis.low)

    parts = []
    for tick, word in axis.at():
        kind = "axis" if tick == 0.0 else "grid"
        parts.append(f'<line class="{kind}" x1="{n(across(tick))}" y1="0" x2="{n(across(tick))}" y2="{n(base)}"/>')
        parts.append(f'<text x="{n(across(tick))}" y="{n(base + 13)}" text-anchor="middle">{_minus(word)}</text>')
    for number, (name, middle, low, high) in enumerate(rows):
        down = number * line + 12.0
        kind = "hollow" if low <= 0.0 <= high else "full"
        parts += [
            f'<text x="{n(names - 8)}" y="{n(down + 4)}" text-anchor="end">{_short(name, names - 10)}</text>',
            f'<line class="s4" x1="{n(across(low))}" y1="{n(down)}" x2="{n(across(high))}" y2="{n(down)}"/>',
            f'<circle class="{kind}" cx="{n(across(middle))}" cy="{n(down)}" r="4"/>',
            f'<text class="number" x="{n(wide - 44)}" y="{n(down + 4)}">{signed(middle, 1)}</text>',
        ]
    return _svg(parts, wide, base + 18, alt)


def _minus(number: str) -> str:
    """A number with the minus of books; 0 has no sign."""
    return "0" if number == "+0" else number.replace("-", "−")


def share_bar(share: float, kind: str = "") -> str:
    """A thin bar for a probability; it says nothing that is not written beside it."""
    return (
        '<svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="rail" width="100" height="6"/>'
        f'<rect class="{kind or "bar"}" width="{n(100 * share)}" height="6"/></svg>'
    )


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign; the minus sign is the typographic one."""
    return f"{value:+.{digits}f}".replace("-", "−")


def n(value: float) -> str:
    """A number with at most two digits after the point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _frame(x: Axis, y: Axis, place: Place) -> list[str]:
    """Grid, numbers and names of the axes."""
    parts = []
    for tick, word in y.at():
        _, down = place((x.low, tick))
        parts.append(f'<line class="grid" x1="{n(LEFT)}" y1="{n(down)}" x2="{n(WIDTH - RIGHT)}" y2="{n(down)}"/>')
        parts.append(f'<text x="{n(LEFT - 6)}" y="{n(down + 4)}" text-anchor="end">{word}</text>')
    for tick, word in x.at():
        across, _ = place((tick, y.low))
        parts.append(f'<text x="{n(across)}" y="{n(HEIGHT - BOTTOM + 15)}" text-anchor="middle">{word}</text>')
    base = HEIGHT - BOTTOM
    parts.append(f'<line class="axis" x1="{n(LEFT)}" y1="{n(base)}" x2="{n(WIDTH - RIGHT)}" y2="{n(base)}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="name" x="{n(middle)}" y="{n(HEIGHT - 6)}" text-anchor="middle">{escape(x.name)}</text>')
    up = (TOP + base) / 2
    parts.append(
        f'<text class="name" transform="translate(12 {n(up)}) rotate(-90)" text-anchor="middle">{escape(y.name)}</text>'
    )
    return parts


def _mark(colour: int, across: float, down: float) -> str:
    """A mark whose form tells series apart where colours do not."""
    fill, shape = f"m{colour % COLOURS}", MARKS[colour % len(MARKS)]
    if shape == "circle":
        return f'<circle class="{fill}" cx="{n(across)}" cy="{n(down)}" r="3.2"/>'
    points = " ".join(f"{n(across + x)},{n(down + y)}" for x, y in _CORNERS[shape])
    return f'<polygon class="{fill}" points="{points}"/>'


def run_mark(number: int) -> str:
    """The mark of a run beside its name, the same as on its lines."""
    return f'<svg class="dot" viewBox="0 0 10 10" aria-hidden="true">{_mark(number, 5.0, 5.0)}</svg>'


def _line(one: Series) -> str:
    """The class of a line's colour."""
    return f"s{one.colour % COLOURS}"


def _dashes(one: Series) -> str:
    """The class of a line's dashes."""
    return f" dashed d{one.colour % DASHES}" if one.dashed else ""


def _room(rows: Sequence[tuple[str, float]], least: float, largest: float) -> float:
    """How wide the column of names is: wide enough for the longest, within bounds."""
    return max(least, min(largest, max((text_width(name, 11) + 11.0 for name, _ in rows), default=0.0)))


def _short(name: str, width: float) -> str:
    return escape(shorten_to_width(name, width, 11))


def _svg(parts: Sequence[str], width: float, height: float, alt: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {n(width)} {n(height)}" role="img" aria-label="{escape(alt)}">'
        + "".join(parts)
        + "</svg>"
    )
