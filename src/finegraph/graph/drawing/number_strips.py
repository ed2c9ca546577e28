"""Kinds of numbers in a drawing of a graph: strips beside the fine labels, with a dot for each value.

A strip has one row per fine label and an axis that holds all values with their spreads, on a log scale where the kind
of numbers has one. A bar on both sides of a dot is the spread; a hollow dot in the middle is an unknown value. Strips
stand to the right of the last panel, or of a further one with the same fine labels if kinds stand there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from finegraph.graph.drawing.placement import BETWEEN_PANELS, BOX, HEADING_FONT, NOTE_FONT, ROW, Layout, NameBox, Panel
from finegraph.graph.drawing.text_width import text_width
from finegraph.graph.kind import IntArray
from finegraph.graph.number import Number

GAP = 26.0
"""Between the fine labels and the first strip, and from one strip to the next."""
WIDTH = 150.0
INSET = 12.0
"""From the edge of a strip to the ends of its axis."""
AXIS = 20.0
"""The room below a strip for the ends of its axis."""


@dataclass(frozen=True)
class Dot:
    """The value of one fine label: its position, the ends of its spread, and its text."""

    x: float
    y: float
    start: float
    end: float
    known: bool
    words: str


@dataclass(frozen=True)
class Strip:
    """The values of one kind of numbers, beside the fine labels."""

    number: Number
    x: float
    y: float
    width: float
    height: float
    dots: tuple[Dot, ...]
    ends: tuple[str, str]


def with_strips(
    layout: Layout, numbers: Sequence[Number], fine: Int[IntArray, " sample"]
) -> tuple[Layout, tuple[Strip, ...]]:
    """The layout with room for the strips of some kinds of numbers, and the strips.

    Args:
        layout: the layout of the fine labels and kinds.
        numbers: what to draw, from left to right.
        fine: which fine labels are drawn, from top to bottom.
    """
    if not numbers:
        return layout, ()
    panels = list(layout.panels)
    boxes = panels[-1].fine
    if any(section.x > boxes[0].x for section in panels[-1].sections):
        move = panels[-1].right + BETWEEN_PANELS - boxes[0].x
        boxes = tuple(replace(box, x=box.x + move) for box in boxes)
        panels.append(Panel(boxes, (), boxes[0].x + boxes[0].width))
    x = boxes[0].x + boxes[0].width
    strips: list[Strip] = []
    for number in numbers:
        x += GAP
        strips.append(_strip(number, x, boxes, fine))
        x += strips[-1].width
    panels[-1] = replace(panels[-1], right=x)
    return Layout(max(layout.width, x), layout.height + AXIS, tuple(panels)), tuple(strips)


def heading(number: Number) -> tuple[str, str]:
    """The name of a strip and the note after it: its unit and whether its axis is logarithmic."""
    return number.name, ", ".join(word for word in (number.unit, "log scale" if number.scale == "log" else "") if word)


def _strip(number: Number, x: float, boxes: Sequence[NameBox], fine: Int[IntArray, " sample"]) -> Strip:
    """One strip, its left end at `x`."""
    name, behind = heading(number)
    wanted = text_width(name, HEADING_FONT, bold=True) + 8 + text_width(behind, NOTE_FONT)
    width = min(max(WIDTH, wanted), 1.6 * WIDTH)
    room = width - 2 * INSET
    inner, spreads = number.standardised
    left, right = _ends(number)
    dots = []
    for box, index in zip(boxes, fine.tolist(), strict=True):
        known = bool(number.known[index])
        share = (float(inner[index]) - left) / (right - left) if known and right > left else 0.5
        bar = float(spreads[index]) / (right - left) * room if known and right > left else 0.0
        place = x + INSET + share * room
        dots.append(
            Dot(place, box.y + box.height / 2, place - bar, place + bar, known, f"{box.name}: {_words(number, index)}")
        )
    height = boxes[-1].y + BOX - boxes[0].y + (ROW - BOX)
    low, high = (f"{float(number.to_outer(end)):.4g}" if number.known.any() else "" for end in (left, right))
    return Strip(number, x, boxes[0].y - (ROW - BOX) / 2, width, height, tuple(dots), (low, high))


def _ends(number: Number) -> tuple[float, float]:
    """The inner values at the ends of the axis, which holds all values with their spreads."""
    inner, spreads = (array[number.known] for array in number.standardised)
    return (float((inner - spreads).min()), float((inner + spreads).max())) if len(inner) else (0.0, 0.0)


def _words(number: Number, index: int) -> str:
    """The value of a fine label as text."""
    if np.isnan(number.values[index]):
        return f"{number.name} unknown"
    spread = f" ± {number.spreads[index]:.4g}" if number.spreads[index] else ""
    unit = f" {number.unit}" if number.unit else ""
    return f"{number.name} {number.values[index]:.6g}{spread}{unit}"
