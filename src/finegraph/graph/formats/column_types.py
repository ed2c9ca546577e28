r"""The type of a column, in brackets after its name: numbers, or labels in an order.

    price [number]                      numbers
    price [number, EUR]                 numbers with a unit
    mass [log number, g]                numbers of which ratios count
    heat [mild < medium < hot]          labels in rising order

Any other text in brackets is part of the name, so `size [cm]` is a kind of that name; a kind that is really called
`price [number]` is written `price \[number]`. In an order, `<` separates only with white space on both sides. A
backslash escapes `[` and `<`. `parse_header` and `format_header` are each other's inverse.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from finegraph.graph.faults import CellError
from finegraph.graph.formats.cells import format_name, mask_escapes, parse_name, unescape
from finegraph.graph.names import control_fault, name_fault, unicode_twins
from finegraph.graph.number import Scale

_TYPED = re.compile(r"(.*\S)\s+\[([^\[]*)\]", re.DOTALL)
_OPEN_TYPE = re.compile(r".*\S\s+\[\s*(?:log )?number\s*", re.DOTALL)
_NUMBER = re.compile(r"(log )?number(?:\s*,(.*))?", re.DOTALL)
_LESS = re.compile(r"(?<!\S)<(?!\S)")


@dataclass(frozen=True)
class NumberType:
    """The type of a column of numbers: their scale and their unit."""

    scale: Scale = "linear"
    unit: str = ""


@dataclass(frozen=True)
class OrderType:
    """The type of a column of ordered labels: all of them, in rising order."""

    labels: tuple[str, ...]


ColumnType = NumberType | OrderType


def parse_type(text: str) -> ColumnType | None:
    """The type in the brackets of a header; None if the text is not a type.

    Raises:
        CellError: it looks like a type, but is not a valid one.
    """
    masked = mask_escapes(text) if "number" in text or "<" in text else text
    if match := _NUMBER.fullmatch(masked):
        unit = unescape(text[match.start(2) :].strip()) if match[2] is not None else ""
        if match[2] is not None and (not unit or control_fault(unit)):
            raise CellError("bad-type", "there is no unit after the comma", "write 'price [number, EUR]'")
        return NumberType("log" if match[1] else "linear", unit)
    cuts = [match.start() for match in _LESS.finditer(masked)]
    if not cuts:
        return None
    parts = [text[i:j].strip() for i, j in zip([0, *(cut + 1 for cut in cuts)], [*cuts, len(text)], strict=True)]
    labels = [unescape(part) for part in parts]
    return OrderType(_checked_order(labels))


def format_type(kind: ColumnType) -> str:
    """The text of a type."""
    if isinstance(kind, NumberType):
        unit = f", {_escape(kind.unit)}" if kind.unit else ""
        return ("log number" if kind.scale == "log" else "number") + unit
    return " < ".join(_escape(label) for label in kind.labels)


def parse_header(text: str) -> tuple[str, ColumnType | None]:
    """The name and the type of a column.

    Raises:
        CellError: an unknown escape, or an invalid name or type.
    """
    if text.endswith("]") and (match := _TYPED.fullmatch(mask_escapes(text))):
        kind = parse_type(text[match.start(2) : match.end(2)].strip())
        if kind is not None:
            return parse_name(text[: match.end(1)]), kind
    return parse_name(text), None


def opens_type(text: str) -> bool:
    """Whether a text is the part of a header such as `price [number, EUR]` up to the comma of its unit."""
    return _OPEN_TYPE.fullmatch(text) is not None


def format_header(name: str, kind: ColumnType | None = None) -> str:
    """The text of a header."""
    text = format_name(name)
    if kind is not None:
        return f"{text} [{format_type(kind)}]"
    try:
        plain = parse_header(text) == (name, None) and not opens_type(text)
    except CellError:
        plain = False
    return text if plain else text.replace("[", "\\[")


def order_fault(labels: Sequence[str]) -> str | None:
    """Why labels cannot be those of an ordered kind, or None when they can."""
    for label in labels:
        if fault := name_fault(label):
            return f"label {label!r} of an order: {fault}"
    if len(labels) < 2:
        return "an order has at least two labels"
    if len(set(labels)) != len(labels):
        return "a label occurs twice in the order"
    for one, two in unicode_twins(labels):
        return f"the labels {one!r} and {two!r} of the order read the same but are spelt in two Unicode forms"
    return None


def _checked_order(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels of an order."""
    if fault := order_fault(labels):
        raise CellError("bad-type", fault, "write 'heat [mild < medium < hot]'")
    return tuple(labels)


def _escape(text: str) -> str:
    """A label or unit escaped for the brackets."""
    text = text.replace("\\", "\\\\").replace("[", "\\[")
    return _LESS.sub(r"\\<", text)
