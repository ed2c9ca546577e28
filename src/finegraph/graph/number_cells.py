r"""The cells of a column of numbers.

    (empty)          unknown
    12.5             exact
    12.5 +- 1.5      with a spread, one standard deviation; also written with the sign ±
    10..15           somewhere in a range: its centre, with the spread of a value drawn evenly from it

On a log scale, ratios count: the centre of a range is its geometric mean, and the logarithm is drawn evenly. A cell may
repeat the unit of its column, `12.5 EUR`; another unit is a fault. `parse_number` and `format_number` are each other's
inverse, bit by bit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from finegraph.errors import GraphError
from finegraph.graph.faults import CellError
from finegraph.graph.number import Scale, value_fault

_DIGITS = r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = rf"(?:{_DIGITS}|[+-]?(?i:infinity|inf|nan))"
_PLUS_MINUS = r"(?:\+-|\+/-|±)"
_FINITE = re.compile(_DIGITS)
_MAX_LOG_RATIO = 500.0
"""The largest logarithm of the half of a range; wider ones hold values that no number may have."""
_COMMA = re.compile(r",(?=[0-9])")
_THOUSANDS = re.compile(r"(?<![0-9])[1-9][0-9]{0,2},[0-9]{3}(?![0-9])")
_MAX_LENGTH = 80
"""The length up to which a cell may be a number with another unit; a longer one is some text."""
_ANY_UNIT = r"[^\s0-9.,:;|&+±-][^0-9]*?"


class _Forms(NamedTuple):
    """The forms of a cell of a column with this unit."""

    number: re.Pattern[str]
    spread: re.Pattern[str]
    range: re.Pattern[str]


@lru_cache(maxsize=64)
def _forms(unit: str, number: str = _NUMBER) -> _Forms:
    """The forms of cells; the unit is a regular expression and may stand before or after each number."""
    number = rf"(?:{unit})?\s*({number})\s*(?:{unit})?" if unit else rf"({number})"
    spread, ends = rf"{number}\s*{_PLUS_MINUS}\s*{number}", rf"{number}\s*\.\.\s*{number}"
    return _Forms(re.compile(number), re.compile(spread), re.compile(ends))


class NumberError(CellError):
    """An invalid cell in a column of numbers."""


def parse_number(text: str, scale: Scale = "linear", unit: str = "") -> tuple[float, float] | None:
    """The value and the spread in a cell; None if it is empty, which means unknown.

    Args:
        text: the cell.
        scale: the scale of the column.
        unit: the unit of the column, which the cell may repeat.

    Raises:
        NumberError: the text is not a number, or not a valid one on this scale.
    """
    if not text:
        return None
    value, spread = _value_and_spread(_unescaped(text), scale, unit)
    if math.isnan(spread) or spread < 0:
        raise NumberError("bad-spread", f"a spread is a finite number from 0 on, got {spread:g}", "write 12.5 +- 1.5")
    if fault := value_fault(value, spread, scale):
        raise NumberError("bad-value", fault, "leave the cell empty if the value is unknown")
    return value, spread


def _unescaped(text: str) -> str:
    """The text without the backslash that keeps spreadsheets from evaluating it."""
    return text[1:] if text.startswith(("\\+", "\\-")) else text


def looks_like_number(text: str) -> bool:
    """Whether a label is just one finite number."""
    return _FINITE.fullmatch(text) is not None


def _value_and_spread(text: str, scale: Scale, unit: str = "") -> tuple[float, float]:
    """The value and spread in a text, before they are checked."""
    forms = _forms(re.escape(unit))
    if match := forms.number.fullmatch(text):
        return float(match[1]), 0.0
    if match := forms.spread.fullmatch(text):
        return float(match[1]), float(match[2])
    if match := forms.range.fullmatch(text):
        low, high = float(match[1]), float(match[2])
        if scale == "log" and min(low, high) <= 0:
            hint = "leave the cell empty if the value is unknown"
            raise NumberError("bad-value", f"on a log scale both ends of a range are above 0, got {text}", hint)
        if low > high:
            raise NumberError("empty-range", f"the range {text} is empty", f"write {match[2]}..{match[1]}")
        if scale == "linear":
            return low / 2 + high / 2, (high - low) / math.sqrt(12)
        centre = math.sqrt(low) * math.sqrt(high)
        return centre, centre * (math.log(high) - math.log(low)) / math.sqrt(12)
    if len(text) <= _MAX_LENGTH and any(form.fullmatch(text) for form in _forms(_ANY_UNIT, _DIGITS)):
        raise _other_unit(text, unit)
    comma = comma_hint(text, lambda bare: any(form.fullmatch(bare) for form in forms))
    hint = comma or "write 12.5, 12.5 +- 1.5, 10..15, or nothing where the value is unknown"
    raise NumberError("no-number", "the cell is in a column of numbers but is not a number", hint)


def comma_hint(text: str, fits: Callable[[str], bool]) -> str | None:
    """What to write instead of a text whose numbers have commas; None if commas are not what is wrong with it.

    Args:
        text: the text.
        fits: whether a text is right.
    """
    bare = _COMMA.sub(".", text)
    if bare == text or not fits(bare):
        return None
    if _THOUSANDS.search(text):
        return f"write {text.replace(',', '')} or {bare}; a number has a point, and nothing between its thousands"
    return f"did you mean {bare}? a number has a point, not a comma"


def _other_unit(text: str, unit: str) -> NumberError:
    """The error of a cell with a unit that is not that of the column."""
    words = [word.strip() for word in re.split(rf"{_DIGITS}|{_PLUS_MINUS}|\.\.", text)]
    other = next((word for word in words if word and word != unit), unit)
    if unit:
        hint = f"give the value in {unit}, or use one unit in the header"
        return NumberError("unit-differs", f"the cell is in {other!r}, the column in {unit!r}", hint)
    hint = f"leave it out here and write the unit in the header: 'price [number, {other}]'"
    return NumberError("unit-differs", f"the cell has the unit {other!r}, the column has none", hint)


def format_number(value: float, spread: float, scale: Scale = "linear") -> str:
    """The text of a cell; NaN is unknown."""
    if math.isnan(value):
        return ""
    if not spread:
        return _short(value)
    with_spread = f"{_short(value)} +- {_short(spread)}"
    as_range = _range(value, spread, scale)
    # Write a range again if it reads back to the same bits.
    return as_range if len(as_range) < len(with_spread) and _says(as_range, value, spread, scale) else with_spread


def _range(value: float, spread: float, scale: Scale) -> str:
    """The range that has about this centre and spread."""
    if scale == "linear":
        half = spread * math.sqrt(3)
        return f"{value - half:.12g}..{value + half:.12g}"
    ratio = math.exp(min(spread / value * math.sqrt(3), _MAX_LOG_RATIO))
    return f"{value / ratio:.12g}..{value * ratio:.12g}"


def _says(text: str, value: float, spread: float, scale: Scale) -> bool:
    """Whether a text reads back as exactly these numbers."""
    try:
        return _value_and_spread(text, scale) == (value, spread)
    except NumberError:
        return False


def _short(value: float) -> str:
    """A number that reads back the same; whole ones without `.0`."""
    text = repr(float(value))
    return text.removesuffix(".0")


def number_cell(value: object, scale: Scale, where: str, unit: str = "") -> tuple[float, float] | None:
    """The value and the spread in a Python value; None if it is unknown.

    A number is exact, a pair is a value with its spread, None and NaN are unknown, text is read as in a file.

    Raises:
        GraphError: it is none of these, or not valid on this scale.
    """
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return parse_number(value, scale, unit)
        except NumberError as error:
            raise GraphError(f"{where}: {value!r}: {error}") from error
    number, spread = (_as_float(one) for one in (value if isinstance(value, tuple) and len(value) == 2 else (value, 0)))
    if number is None or spread is None:
        raise GraphError(
            f"{where}: expected a number, a pair (value, spread), text such as '12.5 +- 1.5', or None (unknown); "
            f"got {value!r}"
        )
    if math.isnan(number):
        return None
    if fault := value_fault(number, spread, scale):
        raise GraphError(f"{where}: {fault}")
    return number, spread


def _as_float(value: Any) -> float | None:
    """A number as a float, also one number of an array library; None if it is not one, as True and False are not."""
    if isinstance(value, Real | Decimal) and not isinstance(value, bool):
        try:
            return float(value)
        except (OverflowError, ValueError):  # 10**400 and Decimal("sNaN")
            return None
    one = getattr(value, "ndim", None) == 0 and not isinstance(value, np.datetime64)
    return _as_float(value.item()) if one else None
