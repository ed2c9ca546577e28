"""The layout of a drawing of a graph: boxes, links and headings, in pixels.

A panel has the fine labels in its middle and kinds stacked to their left and right. A side takes kinds as long as the
eye can follow its links; then another panel begins, with the same fine labels in the same order. A coarse label with
many children gets a taller box, and links end side by side on a box, in the order of their origins, so that they
do not meet in one point. Cost: linear in what is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from finegraph.graph.drawing.shown_links import ColumnLinks, Node
from finegraph.graph.drawing.text_width import text_width
from finegraph.graph.kind import IntArray

FONT = 11.5
HEADING_FONT = 13.0
NOTE_FONT = 10.5
ROW = 23.0
"""The distance from one fine label to the next."""
BOX = 18.0
"""The height of the box of a fine label, and the minimum height of any other."""
PADDING = 8.0
BULLET = 15.0
HEADING = 28.0
NOTE = 16.0
BETWEEN_BOXES = 5.0
BETWEEN_KINDS = 18.0
BETWEEN_PANELS = 64.0
COARSE_WIDTH = 210.0
FINE_WIDTH = 270.0
"""The largest widths of boxes."""
SIDE_LINKS = 100
"""The largest number of links on one side of a panel, unless a single kind has more."""
SIDE_KINDS = 3
PITCHES = (18.0, 16.0, 14.0, 12.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0)
"""How much height a link may add to a box; the first pitch with which everything fits is used."""


@dataclass(frozen=True)
class NameBox:
    """A rectangle with a name in it; `real` if the name is that of a label."""

    x: float
    y: float
    width: float
    height: float
    name: str
    real: bool = True


@dataclass(frozen=True)
class Curve:
    """A link from a fine label to a box; weight 0 means unknown."""

    fine: str
    coarse: str
    start: tuple[float, float]
    end: tuple[float, float]
    weight: float


@dataclass(frozen=True)
class Section:
    """One kind on a side: its number, the corner of its heading, its boxes and its links."""

    number: int
    links: ColumnLinks
    x: float
    y: float
    width: float
    boxes: tuple[NameBox, ...]
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Panel:
    """The fine labels with the kinds to their left and right."""

    fine: tuple[NameBox, ...]
    sections: tuple[Section, ...]
    right: float


@dataclass(frozen=True)
class Layout:
    """The whole picture, from (0, 0) to (width, height), without title and legend."""

    width: float
    height: float
    panels: tuple[Panel, ...]


@dataclass
class _Side:
    """The kinds on one side of a panel, numbered as in the picture."""

    columns: list[tuple[int, ColumnLinks]] = field(default_factory=list)
    stack: list[list[float]] = field(default_factory=list)

    def takes(self, links: ColumnLinks) -> bool:
        """Whether there is room for another kind."""
        return not self.columns or (len(self.columns) < SIDE_KINDS and self.link_count + links.link_count <= SIDE_LINKS)

    @property
    def box_count(self) -> int:
        """How many boxes are stacked, each heading counted as one."""
        return sum(len(links.nodes) + 1 for _, links in self.columns)

    @property
    def link_count(self) -> int:
        """The links of all kinds."""
        return sum(links.link_count for _, links in self.columns)

    @property
    def width(self) -> float:
        """The width of the boxes."""
        names = [text_width(node.name, FONT) + 2 * PADDING for _, links in self.columns for node in links.nodes]
        heads = [heading_width(links) for _, links in self.columns]
        return min(max([*names, *heads], default=0.0), COARSE_WIDTH)

    @property
    def height(self) -> float:
        """The height of all kinds with their headings and notes."""
        inner = sum(sum(heights) + BETWEEN_BOXES * max(len(heights) - 1, 0) for heights in self.stack)
        notes = sum(NOTE for _, links in self.columns if links.undrawn)
        return inner + notes + HEADING * len(self.stack) + BETWEEN_KINDS * max(len(self.stack) - 1, 0)

    def grow(self, room: float) -> None:
        """Make the boxes as tall as their links need and the room allows."""
        for pitch in PITCHES:
            self.stack = [[max(BOX, pitch * len(node.rows)) for node in links.nodes] for _, links in self.columns]
            if self.height <= room:
                return


def heading_words(links: ColumnLinks) -> str:
    """The note after the name of a kind."""
    return f"any of {links.label_count:,}" if links.column.group else f"one of {links.label_count:,}"


def heading_width(links: ColumnLinks) -> float:
    """The width that the heading of a kind needs."""
    return (
        BULLET
        + text_width(links.column.name, HEADING_FONT, bold=True)
        + 8
        + text_width(heading_words(links), NOTE_FONT)
    )


def lay_out(fine: Sequence[str], columns: Sequence[ColumnLinks]) -> Layout:
    """Place the fine labels and the kinds, both in the given order."""
    pairs = _panels(columns)
    fine_height = HEADING + len(fine) * ROW
    for pair in pairs:
        for side in pair:
            side.grow(fine_height)
    height = max([fine_height, *(side.height for pair in pairs for side in pair)])
    crowded = any(len(side.columns) > 1 for pair in pairs for side in pair)
    gap = min(max(190.0 if crowded else 150.0, 0.16 * height), 240.0)
    panels: list[Panel] = []
    x = 0.0
    for pair in pairs:
        panels.append(_panel(fine, pair, x, height, gap))
        x = panels[-1].right + BETWEEN_PANELS
    return Layout(panels[-1].right, height, tuple(panels))


def _panels(columns: Sequence[ColumnLinks]) -> list[tuple[_Side, _Side]]:
    """Distribute the kinds over the sides of panels: each to the side with more room, or to a new panel."""
    pairs = [(_Side(), _Side())]
    for number, links in enumerate(columns):
        sides = sorted(pairs[-1], key=lambda side: side.box_count)
        side = next((side for side in sides if side.takes(links)), None)
        if side is None:
            pairs.append((_Side(), _Side()))
            side = pairs[-1][0]
        side.columns.append((number, links))
    return pairs


def _panel(fine: Sequence[str], sides: tuple[_Side, _Side], x: float, height: float, gap: float) -> Panel:
    """One panel, its left end at `x`."""
    left, right = sides
    fine_x = x + (left.width + gap if left.columns else 0.0)
    fine_width = min(max(text_width(name, FONT) for name in fine) + 2 * PADDING, FINE_WIDTH)
    fine_y = HEADING + (height - HEADING - len(fine) * ROW) / 2
    boxes = tuple(NameBox(fine_x, fine_y + ROW * row, fine_width, BOX, name) for row, name in enumerate(fine))
    right_x = fine_x + fine_width + gap
    sections = _sections(left, x, height, boxes) + _sections(right, right_x, height, boxes)
    end = right_x + right.width if right.columns else fine_x + fine_width
    return Panel(boxes, tuple(sections), end)


def _sections(side: _Side, x: float, height: float, fine: Sequence[NameBox]) -> list[Section]:
    """The kinds of one side, with the links between their boxes and the fine labels."""
    degree = np.zeros(len(fine), dtype=np.int64)
    for _, links in side.columns:
        for node in links.nodes:
            degree[node.rows] += 1
    used = np.zeros(len(fine), dtype=np.int64)
    y = (height - side.height) / 2
    sections = []
    for (number, links), heights in zip(side.columns, side.stack, strict=True):
        top = y
        y += HEADING
        boxes: list[NameBox] = []
        curves: list[Curve] = []
        for node, box_height in zip(links.nodes, heights, strict=True):
            boxes.append(NameBox(x, y, side.width, box_height, node.name, node.real))
            curves += _curves(node, boxes[-1], fine, used, degree)
            y += box_height + BETWEEN_BOXES
        y += BETWEEN_KINDS - BETWEEN_BOXES + (NOTE if links.undrawn else 0.0)
        sections.append(Section(number, links, x, top, side.width, tuple(boxes), tuple(curves)))
    return sections


def _curves(node: Node, box: NameBox, fine: Sequence[NameBox], used: IntArray, degree: IntArray) -> list[Curve]:
    """The links of one box; `used` counts how many of its `degree` links each fine label already has on this side."""
    curves = []
    order = np.argsort(node.rows, kind="stable")
    for number, index in enumerate(order.tolist(), start=1):
        row = int(node.rows[index])
        label = fine[row]
        used[row] += 1
        start_y = label.y + label.height * float(used[row]) / (float(degree[row]) + 1)
        end_y = box.y + box.height * number / (len(order) + 1)
        ends = (label.x, box.x + box.width) if box.x < label.x else (label.x + label.width, box.x)
        curves.append(Curve(label.name, node.name, (ends[0], start_y), (ends[1], end_y), float(node.weights[index])))
    return curves
