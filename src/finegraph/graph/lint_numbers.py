"""Warnings about numbers: kinds that look like numbers, and numbers that say little.

Each rule yields (rule, message, hint, column); `lint` turns them into warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from finegraph.errors import near_matches
from finegraph.graph.faults import first_few
from finegraph.graph.formats.column_types import ColumnType, NumberType, OrderType, format_header
from finegraph.graph.kind import Kind
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.number import Scale
from finegraph.graph.number_cells import looks_like_number

Doubt = tuple[str, str, str, str]
_MIN_NUMBERS = 3
"""A kind with fewer different numbers more likely holds codes."""
_TYPE_WORDS: dict[str, Scale] = {
    "log number": "log",
    "log": "log",
    **dict.fromkeys(("number", "numeric", "float", "integer"), "linear"),
}
"""What people may write for a type, and the scale that they mean."""
_TYPE_AND_UNIT = re.compile(r"((?:log\s+)?(?:number|numeric|float|integer)|log)\s+(.+)", re.IGNORECASE)
"""A type and a unit without the comma between them."""
_COMMA = re.compile("[,;:]")
"""What people may write between a type and its unit."""
_BRACKETS = re.compile(r"(.*\S)\s*\[\s*([^\[\]]*?)\s*\]")


def looks_numeric(graph: LabelGraph) -> Iterator[Doubt]:
    """A kind whose labels are all numbers; `looks_typed` tells of those whose header nearly has a type."""
    for kind in _kinds(graph):
        if (
            _meant_header(kind) is None
            and len(kind.labels) >= _MIN_NUMBERS
            and all(looks_like_number(label) for label in kind.labels)
        ):
            message = f"looks like numbers: {first_few(kind.labels, len(kind.labels))}"
            hint = f"write {format_header(kind.name, NumberType())!r} if it is how much that counts"
            yield "looks-numeric", message, hint, kind.name


def looks_typed(graph: LabelGraph) -> Iterator[Doubt]:
    """A kind whose name ends in brackets that are nearly a type."""
    for kind in _kinds(graph):
        if meant := _meant_header(kind):
            message = "the text in brackets is part of the name, not a type"
            yield "looks-typed", message, f"did you mean {meant!r}?", kind.name


def _meant_header(kind: Kind) -> str | None:
    """The header with a type that the name of a kind nearly is."""
    match = _BRACKETS.fullmatch(kind.name)
    if not match or kind.ordered or format_header(kind.name) != kind.name:  # with a backslash it is meant as a name
        return None
    meant = _nearest_type(match[2])
    return format_header(match[1], meant) if meant else None


def _nearest_type(text: str) -> ColumnType | None:
    """The type that a text in brackets may name."""
    words, unit = (*_COMMA.split(text, maxsplit=1), "")[:2]
    if words == text and (match := _TYPE_AND_UNIT.fullmatch(text)):
        words, unit = match[1], match[2]
    near = near_matches(words.casefold(), _TYPE_WORDS)
    if near:
        return NumberType(_TYPE_WORDS[near[0]], unit.strip())
    labels = tuple(label.strip() for label in text.split("<"))
    if len(labels) > 1 and all(labels) and len(set(labels)) == len(labels):
        return OrderType(labels)
    return None


def idle_numbers(graph: LabelGraph) -> Iterator[Doubt]:
    """Numbers that are mostly unknown, or the same for all fine labels."""
    for name in graph.numbers:
        number = graph.number(name)
        unknown = 1 - float(number.known.mean())
        if unknown > 0.5:
            message = f"unknown for {unknown:.0%} of the fine labels"
            yield "mostly-unknown", message, "fill in cells, or leave the numbers out", name
        if number.known.any() and len(np.unique(number.values[number.known])) == 1:
            message = f"every known fine label has the value {number.values[number.known][0]:g}, which tells nothing"
            yield "one-value", message, "leave the numbers out", name


def _kinds(graph: LabelGraph) -> list[Kind]:
    return [graph.kind(name) for name in graph.kinds]
