"""A label graph as a picture: one self-contained SVG text.

Fine labels are in the middle, kinds to their left and right, each in its own colour, from a palette that is safe for
colour-blind readers. The width of a link is its weight; what is unknown is dashed and hollow. All styling is in
attributes of the elements: there is no style sheet, no script and nothing to fetch, so the picture can be embedded in a
page. The same graph gives the same bytes. Cost: linear in what is drawn; of a large graph only a part is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from finegraph.errors import InputError
from finegraph.graph.describe import Column, choose_columns, choose_numbers, columns_of
from finegraph.graph.drawing.number_strips import Dot, Strip, heading, with_strips
from finegraph.graph.drawing.placement import (
    BULLET,
    FONT,
    HEADING_FONT,
    NOTE_FONT,
    PADDING,
    Curve,
    Layout,
    NameBox,
    Panel,
    Section,
    heading_words,
    lay_out,
)
from finegraph.graph.drawing.shown_links import by_size, column_links, order_fine
from finegraph.graph.drawing.text_width import shorten_to_width, text_width
from finegraph.graph.label_graph import LabelGraph

MAX_FINE = 60
MAX_KINDS = 6
MAX_LABELS = 24
MAX_NUMBERS = 4
"""Above these numbers a picture is no longer readable."""

PALETTE = (
    ("#0072b2", "#e3f0f8"),
    ("#d55e00", "#fbeadf"),
    ("#009e73", "#e0f4ee"),
    ("#b0528a", "#f7e8f1"),
    ("#b98500", "#fbf1d9"),
    ("#2f8fc4", "#e6f3fb"),
)
"""Per kind the colour of its links and of its boxes, after the palette of Okabe and Ito, darkened where needed."""
INK, QUIET, RULE, PAPER, FINE_FILL = "#1b2733", "#5b6876", "#b9c2cc", "#ffffff", "#f3f5f8"
MARGIN = 28.0
LINE = 18.0
UNKNOWN_LOOK = 'stroke-width="1.2" stroke-dasharray="4 3"'
UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]")
"""Characters that XML cannot hold, and marks that change the direction of the text after them."""
FAMILY = "Helvetica, Arial, 'DejaVu Sans', sans-serif"


def draw_svg(
    graph: LabelGraph,
    kinds: Iterable[str] | None = None,
    *,
    title: str = "Label graph",
    max_fine: int = MAX_FINE,
    max_kinds: int = MAX_KINDS,
    max_labels: int = MAX_LABELS,
) -> str:
    """Draw a graph.

    Args:
        graph: the graph.
        kinds: the kinds, groups and numbers to draw, in order; by default the first `max_kinds` of the graph, and the
            first kinds of numbers.
        title: the title of the picture.
        max_fine: the largest number of fine labels; of more, some of each coarse label are drawn, in proportion.
        max_kinds: the largest number of kinds and groups.
        max_labels: the largest number of labels of a kind with a box of their own.

    Returns:
        The text of an SVG file.
    """
    for name, value in (("max_fine", max_fine), ("max_kinds", max_kinds), ("max_labels", max_labels)):
        if value < 1:
            raise InputError(f"{name} must be 1 or more, got {value}")
    chosen = None if kinds is None else list(kinds)
    columns = choose_columns(graph, chosen)[:max_kinds]
    order = order_fine(graph, columns, max_fine)
    layout = lay_out(
        [graph.fine[index] for index in order], [column_links(graph, column, order, max_labels) for column in columns]
    )
    layout, strips = with_strips(layout, choose_numbers(graph, chosen)[:MAX_NUMBERS], order)
    return _svg(layout, strips, title, _notes(graph, len(order), columns, len(strips), kinds is None))


def _notes(graph: LabelGraph, fine_count: int, drawn: Sequence[Column], strips: int, in_order: bool) -> list[str]:
    """The size of the graph, and which part of it is drawn."""
    numbers = f", {_count(len(graph.numbers), 'number')}" if graph.numbers else ""
    notes = [f"{_count(len(graph), 'fine label')}, {_count(len(graph.kinds), 'kind')}{numbers}"]
    parts = []
    if fine_count < len(graph):
        which = f", in proportion from every {by_size(graph, drawn)[0].name}," if drawn else ""
        parts.append(f"{fine_count} of {len(graph):,} fine labels{which}")
    columns = len(columns_of(graph))
    if len(drawn) < columns:
        parts.append(f"{'the first ' if in_order else ''}{len(drawn)} of {columns:,} kinds and groups")
    if strips < len(graph.numbers):
        parts.append(f"{strips} of {_count(len(graph.numbers), 'number')}")
    return [*notes, "Only a part is drawn: " + " and ".join(parts).rstrip(",") + "."] if parts else notes


def _count(number: int, what: str) -> str:
    """A number with its noun."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _svg(layout: Layout, strips: Sequence[Strip], title: str, notes: list[str]) -> str:
    """The whole file."""
    legend_width, legend = _legend(layout, strips)
    words = max(text_width(title, 20, bold=True), *(text_width(note, 12.5) for note in notes), legend_width)
    width = max(layout.width, words) + 2 * MARGIN
    top = 90.0 + LINE * (len(notes) - 1)
    height = top + layout.height + 56
    first = sum(len(panel.sections) for panel in layout.panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_number(width)}" height="{_number(height)}" '
        f'viewBox="0 0 {_number(width)} {_number(height)}" role="img" font-family="{FAMILY}" font-size="{FONT}">',
        f"<title>{_text(title)}</title>",
        f"<desc>{_text('. '.join(notes))}</desc>",
        f'<rect width="100%" height="100%" fill="{PAPER}"/>',
        _words(MARGIN, 42, title, size=20, bold=True),
        _words(MARGIN, 63, notes[0], size=12.5, colour=QUIET),
        *(_words(MARGIN, 63 + LINE * line, note, size=12.5) for line, note in enumerate(notes[1:], start=1)),
        f'<g transform="translate({_number((width - layout.width) / 2)} {_number(top)})">',
        *(part for panel in layout.panels for part in _panel(panel)),
        *(_strip(strip, first + number) for number, strip in enumerate(strips)),
        "</g>",
        f'<g transform="translate({_number(MARGIN)} {_number(top + layout.height + 26)})">{legend}</g>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _panel(panel: Panel) -> list[str]:
    """The fine labels with the heading above them, and the kinds of a panel."""
    first = panel.fine[0]
    heading = (
        f'<text x="{_number(first.x + first.width / 2)}" y="{_number(first.y - 11)}" text-anchor="middle" '
        f'font-size="{HEADING_FONT}" fill="{INK}" font-weight="bold">fine label</text>'
    )
    sections = [part for section in panel.sections for part in _section(section)]
    return [*sections, heading, *(_box(box, FINE_FILL, RULE, box.name) for box in panel.fine)]


def _section(section: Section) -> list[str]:
    """One kind: heading, links, boxes, and how many labels are not drawn."""
    colour, fill = PALETTE[section.number % len(PALETTE)]
    links = section.links
    notes = []
    if links.undrawn:
        end = section.boxes[-1].y + section.boxes[-1].height if section.boxes else section.y + HEADING_FONT
        more = f"{links.undrawn:,} more not drawn"
        notes.append(_words(section.x + PADDING, end + 15, more, size=NOTE_FONT, colour=QUIET))
    return [
        f'<g fill="none" stroke="{colour}" stroke-opacity="0.6">',
        *(_curve(curve) for curve in section.curves),
        "</g>",
        _heading(section, colour),
        *(
            _box(box, fill, colour, f"{box.name}: {_count(len(node.rows), 'link')}")
            for box, node in zip(section.boxes, links.nodes, strict=True)
        ),
        *notes,
    ]


def _heading(section: Section, colour: str) -> str:
    """The name of a kind with its colour, and how many labels it has."""
    name, behind = section.links.column.name, heading_words(section.links)
    room = section.width - BULLET - 8 - text_width(behind, NOTE_FONT)
    short = shorten_to_width(name, room, HEADING_FONT, bold=True)
    return (
        f'<circle cx="{_number(section.x + 5)}" cy="{_number(section.y + 12.5)}" r="5" fill="{colour}"/>'
        f'<text x="{_number(section.x + BULLET)}" y="{_number(section.y + 17)}" font-size="{HEADING_FONT}" '
        f'fill="{INK}">'
        f'<title>{_text(name)}</title><tspan font-weight="bold">{_text(short)}</tspan>'
        f'<tspan dx="6" font-size="{NOTE_FONT}" fill="{QUIET}">{behind}</tspan></text>'
    )


def _curve(curve: Curve) -> str:
    """One link; its width is its weight, an unknown one is dashed."""
    (x1, y1), (x2, y2) = curve.start, curve.end
    middle = (x1 + x2) / 2
    look = f'stroke-width="{_number(0.6 + 1.5 * curve.weight)}"' if curve.weight else UNKNOWN_LOOK
    what = f"weight {curve.weight:.3g}" if curve.weight else "unknown"
    return (
        f'<path d="M{_number(x1)} {_number(y1)}C{_number(middle)} {_number(y1)} {_number(middle)} {_number(y2)} '
        f'{_number(x2)} {_number(y2)}" {look}><title>{_text(f"{curve.fine} – {curve.coarse}, {what}")}</title></path>'
    )


def _box(box: NameBox, fill: str, stroke: str, whole: str) -> str:
    """A box with its name, shortened to fit; its title has the full text."""
    look = f'fill="{fill}"' if box.real else f'fill="{PAPER}" stroke-dasharray="3 2"'
    name = shorten_to_width(box.name, box.width - 2 * PADDING, FONT)
    return (
        f'<g><title>{_text(whole)}</title><rect x="{_number(box.x)}" y="{_number(box.y)}" width="{_number(box.width)}" '
        f'height="{_number(box.height)}" rx="4" {look} stroke="{stroke}"/>'
        f'<text x="{_number(box.x + PADDING)}" y="{_number(box.y + box.height / 2 + 0.35 * FONT)}" '
        f'fill="{INK if box.real else QUIET}">{_text(name)}</text></g>'
    )


def _strip(strip: Strip, number: int) -> str:
    """One kind of numbers: heading, rows with a dot for each value, and the ends of the axis."""
    colour, fill = PALETTE[number % len(PALETTE)]
    name, behind = heading(strip.number)
    room = strip.width - 8 - text_width(behind, NOTE_FONT)
    rows = "".join(
        f'<path d="M{_number(strip.x + 1)} {_number(dot.y)}h{_number(strip.width - 2)}" stroke="{PAPER}"/>'
        for dot in strip.dots
    )
    foot = strip.y + strip.height + 14
    ends = [
        f'<text x="{_number(x)}" y="{_number(foot)}" text-anchor="{anchor}" font-size="{NOTE_FONT}" fill="{QUIET}">'
        f"{_text(words)}</text>"
        for x, anchor, words in (
            (strip.x + 2, "start", strip.ends[0]),
            (strip.x + strip.width - 2, "end", strip.ends[1] if strip.ends[1] != strip.ends[0] else ""),
        )
    ]
    return (
        f'<g><text x="{_number(strip.x)}" y="{_number(strip.y - 9)}" font-size="{HEADING_FONT}" fill="{INK}">'
        f'<title>{_text(name)}</title><tspan font-weight="bold">'
        f"{_text(shorten_to_width(name, room, HEADING_FONT, bold=True))}</tspan>"
        f'<tspan dx="6" font-size="{NOTE_FONT}" fill="{QUIET}">{_text(behind)}</tspan></text>'
        f'<rect x="{_number(strip.x)}" y="{_number(strip.y)}" width="{_number(strip.width)}" '
        f'height="{_number(strip.height)}" rx="4" fill="{fill}"/>{rows}'
        f"{''.join(_dot(dot, colour) for dot in strip.dots)}{''.join(ends)}</g>"
    )


def _dot(dot: Dot, colour: str) -> str:
    """One value with its spread; an unknown one is hollow."""
    bar = f'<path d="M{_number(dot.start)} {_number(dot.y)}H{_number(dot.end)}" stroke="{colour}" stroke-width="1.6"/>'
    look = f'fill="{colour}"' if dot.known else f'fill="{PAPER}" stroke="{colour}" stroke-dasharray="2 1.5"'
    return (
        f"<g><title>{_text(dot.words)}</title>{bar if dot.end > dot.start else ''}"
        f'<circle cx="{_number(dot.x)}" cy="{_number(dot.y)}" r="4" {look}/></g>'
    )


def _legend(layout: Layout, strips: Sequence[Strip]) -> tuple[float, str]:
    """The legend of the styles of links that occur, as (width, SVG)."""
    weights = {curve.weight for panel in layout.panels for section in panel.sections for curve in section.curves}
    entries = []
    if 1.0 in weights:
        entries.append(('stroke-width="2.1"', "link"))
    if any(0 < weight < 1 for weight in weights):
        entries.append(('stroke-width="1.2"', "one of several, thinner for less weight"))
    if 0.0 in weights:
        entries.append((UNKNOWN_LOOK, "unknown"))
    x, parts = 0.0, []
    for look, words in entries:
        parts.append(f'<path d="M{_number(x)} 0h26" stroke="{QUIET}" {look}/>' + _words(x + 33, 4, words, colour=QUIET))
        x += 33 + text_width(words, FONT) + 14
    if any(dot.end > dot.start for strip in strips for dot in strip.dots):
        words = "a value with its spread to either side"
        look = f'<path d="M{_number(x)} 0h26" stroke="{QUIET}" stroke-width="1.6"/>'
        parts.append(f'{look}<circle cx="{_number(x + 13)}" cy="0" r="4" fill="{QUIET}"/>')
        parts.append(_words(x + 33, 4, words, colour=QUIET))
        x += 33 + text_width(words, FONT) + 14
    return x, "".join(parts)


def _words(x: float, y: float, words: str, size: float = FONT, colour: str = INK, bold: bool = False) -> str:
    """A line of text."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{_number(x)}" y="{_number(y)}" font-size="{size}" fill="{colour}"{weight}>{_text(words)}</text>'


def _text(words: str) -> str:
    """Text escaped for XML, with a replacement character for what cannot be shown."""
    return escape(UNFIT.sub("\ufffd", words))


def _number(value: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")
