"""Evidence on a number, as text or Python values: "<= 15", (10, 15), 12 +- 2.

    "<= 15", "< 15", ">= 10", "> 10"       a limit
    (10, 15), "10 to 15", "10..15"         an interval, ends included; None for no end
    Around(12, 2), "12 +- 2"               about this value: a normal likelihood with this standard deviation
    12, "12"                               this value, within half of the smallest step between values
    "> 10 and <= 15"                       several conditions, all of which hold

In text, the unit may stand beside each number. On the inner scale, evidence is four numbers: a likely value, its
precision, and the two ends of an interval.
"""

from __future__ import annotations

import functools
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.errors import EvidenceError, ShapeError
from finegraph.graph import Number
from finegraph.graph.faults import shorten
from finegraph.graph.number import MAX_VALUE
from finegraph.graph.number_cells import comma_hint

_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_LIMIT = re.compile(rf"(<=|>=|<|>|≤|≥)\s*({_NUMBER})")
_INTERVAL = re.compile(rf"({_NUMBER})\s*(?:\.\.|to)\s*({_NUMBER})")
_AROUND = re.compile(rf"({_NUMBER})\s*(?:\+-|\+/-|±)\s*({_NUMBER})")
_EQUAL = re.compile(rf"(?:=\s*)?({_NUMBER})")
_LAST_WORD = re.compile(r"\s*[^\s0-9.,<>=≤≥±+-][^0-9<>=≤≥±]*$")
"""What follows the last number of a condition, such as a unit."""
_SIGNS = {"≤": "<=", "≥": ">="}


@dataclass(frozen=True)
class Around:
    """About this value: a normal likelihood. On a log scale, the spread is divided by the value.

    Example:
        >>> Around(2012, 2)
        Around(value=2012, spread=2)
    """

    value: float | int
    spread: float | int

    def __post_init__(self) -> None:
        for what, given in (("value", self.value), ("spread", self.spread)):
            if not _in_range(given):
                raise EvidenceError(
                    f"Around: expected a finite number as {what}, of size at most {MAX_VALUE:g}, got {_shown(given)}"
                )
        if self.spread <= 0:
            raise EvidenceError(f"Around: expected a spread above 0, got {self.spread!r}; an interval has two ends")


def _in_range(given: object) -> bool:
    """Whether something is a number that is not too large to compute with; True and False are not."""
    if not isinstance(given, Real) or isinstance(given, bool):
        return False
    return bool(-MAX_VALUE <= given <= MAX_VALUE)  # type: ignore[operator]  # a comparison cannot overflow


def _shown(given: object) -> str:
    """The given evidence, for a message; Python writes no whole number with thousands of digits."""
    huge = isinstance(given, int) and abs(given) > sys.float_info.max
    return "a whole number that is too large" if huge else shorten(repr(given))


class Known(NamedTuple):
    """The evidence on one value, on the inner scale: a likely value with its precision, and an interval."""

    likely: float = 0.0
    precision: float = 0.0
    low: float = -math.inf
    high: float = math.inf


def known_values(number: Number, given: object, batch: int) -> Float[Tensor, "_ 4"]:
    """The evidence on a number: one row, or one per sample.

    Args:
        number: the number.
        given: one of the forms above. A list, an array or a tensor has one per sample, None or NaN if nothing is known.
        batch: the number of samples.

    Raises:
        EvidenceError: the evidence has none of these forms, or is an empty interval.
        ShapeError: an array does not have one value per sample.
    """
    if isinstance(given, Tensor | np.ndarray):
        values = torch.as_tensor(given).detach().cpu()
        if values.shape != (batch,) and values.ndim:
            raise ShapeError(
                f"evidence on {number.name!r}: expected one value per sample, shape ({batch},), got "
                f"{tuple(values.shape)}"
            )
        given = values.tolist()
    if isinstance(given, Sequence) and not isinstance(given, str | tuple):
        if len(given) != batch:
            raise EvidenceError(
                f"evidence on {number.name!r}: a list gives one value per sample, expected {batch}, got {len(given)}; "
                "an interval is a pair in round brackets, (10, 15)"
            )
        rows = [_known(number, entry) for entry in given]
        return torch.tensor(rows, dtype=torch.float64).reshape(-1, 4)
    return torch.tensor([_known(number, given)], dtype=torch.float64)


def interval_of(number: Number, condition: object) -> tuple[float, float]:
    """The ends of a limit or an interval, on the inner scale.

    Raises:
        EvidenceError: the condition is neither.
    """
    known = _known(number, condition)
    if known.precision:
        raise EvidenceError(
            f"{number.name}: expected a limit or an interval, such as '<= 15' or (10, 15), got {condition!r}"
        )
    return known.low, known.high


def both_known(one: Float[Tensor, "*shape 4"], two: Float[Tensor, "*shape 4"]) -> Float[Tensor, "*shape 4"]:
    """Combine two pieces of evidence: normal likelihoods multiply, and intervals intersect."""
    precision = one[..., 1] + two[..., 1]
    likely = (one[..., 0] * one[..., 1] + two[..., 0] * two[..., 1]) / torch.where(precision > 0, precision, 1.0)
    low, high = torch.maximum(one[..., 2], two[..., 2]), torch.minimum(one[..., 3], two[..., 3])
    return torch.stack([likely, precision, low, high], dim=-1)


def _known(number: Number, given: object) -> Known:
    """The evidence on one sample."""
    if isinstance(given, str):
        given = _read(number, given)
    if isinstance(given, Known):
        return given
    if given is None or (isinstance(given, float) and math.isnan(given)):
        return Known()
    if isinstance(given, Around):
        return _around(number, given)
    if isinstance(given, tuple):
        return _interval(number, given)
    if not _in_range(given):
        raise EvidenceError(
            f"evidence on {number.name!r}: expected a limit such as '<= 15', an interval (10, 15), Around(12, 2), a "
            f"finite number of size at most {MAX_VALUE:g} or None, got {_shown(given)}"
        )
    inner = float(number.to_inner(float(given)))  # type: ignore[arg-type]
    return Known(low=inner - number.resolution, high=inner + number.resolution)


def _around(number: Number, given: Around) -> Known:
    if number.scale == "log" and given.value <= 0:
        raise EvidenceError(f"evidence on {number.name!r}: on a log scale a value is above 0, got {given.value!r}")
    spread = (given.spread / given.value if number.scale == "log" else given.spread) / number.width
    if spread < 1 / MAX_VALUE:
        raise EvidenceError(
            f"evidence on {number.name!r}: the spread {given.spread!r} is too small to compute with; for one value, "
            "give the value alone"
        )
    return Known(float(number.to_inner(float(given.value))), spread**-2)


def _interval(number: Number, ends: tuple[object, ...]) -> Known:
    if len(ends) != 2 or not all(
        end is None or (isinstance(end, Real) and not isinstance(end, bool) and end == end) for end in ends
    ):
        raise EvidenceError(
            f"evidence on {number.name!r}: an interval is a pair of numbers (low, high), None for no end, got "
            f"({', '.join(map(_shown, ends))})"
        )
    for end in ends:
        if end is not None and end not in (-math.inf, math.inf):
            _check_size(number, end)
    low, high = (
        unbounded if end is None else float(number.to_inner(float(end)))  # type: ignore[arg-type]
        for end, unbounded in zip(ends, (-math.inf, math.inf), strict=True)
    )
    if low > high:
        shown = ", ".join(map(_shown, ends))
        raise EvidenceError(f"evidence on {number.name!r}: the interval ({shown}) is empty; write the lower end first")
    return Known(low=low, high=high)


def _check_size(number: Number, value: object) -> None:
    """Raise unless a value is one that can be computed with."""
    if not _in_range(value):
        raise EvidenceError(
            f"evidence on {number.name!r}: a value is a finite number of size at most {MAX_VALUE:g}, got "
            f"{_shown(value)}"
        )


def _is_condition(words: str) -> bool:
    """Whether a text without a unit has one of the forms of a condition."""
    return any(form.fullmatch(words) for form in (_LIMIT, _INTERVAL, _AROUND, _EQUAL))


def _read(number: Number, text: str) -> object:
    """Parse evidence given as text."""
    words = text.strip()
    if len(parts := re.split(r"\s+and\s+", words)) > 1:
        rows = [torch.tensor(_known(number, part), dtype=torch.float64) for part in parts]
        combined = Known(*functools.reduce(both_known, rows).tolist())
        if combined.low > combined.high:
            raise EvidenceError(f"evidence on {number.name!r}: no value is {text!r}; one part rules out the other")
        return combined
    if number.unit and not _is_condition(words):
        unit = re.escape(number.unit)
        words = re.sub(rf"(?<=[0-9.])\s*{unit}(?!\w)|(?<!\w){unit}\s*(?=[0-9.+-])", "", words)
    for digits in re.findall(_NUMBER, words):
        _check_size(number, float(digits))
    if match := _LIMIT.fullmatch(words):
        sign, end = _SIGNS.get(match[1], match[1]), float(number.to_inner(float(match[2])))
        # A strict limit is the next floating-point number, which rules out a value equal to the limit.
        if sign in ("<", "<="):
            return Known(high=end if sign == "<=" else float(np.nextafter(end, -np.inf)))
        return Known(low=end if sign == ">=" else float(np.nextafter(end, np.inf)))
    if match := _INTERVAL.fullmatch(words):
        if float(match[1]) > float(match[2]):
            raise EvidenceError(
                f"evidence on {number.name!r}: the interval {text.strip()!r} is empty; write the lower end first"
            )
        return float(match[1]), float(match[2])
    if match := _AROUND.fullmatch(words):
        return Around(float(match[1]), float(match[2]))
    if match := _EQUAL.fullmatch(words):
        return float(match[1])
    unit = f" {number.unit}" if number.unit else ""
    bare = _LAST_WORD.sub("", words)
    if bare != words and _is_condition(bare):
        own = f"has the unit {number.unit!r}" if unit else "has no unit"
        raise EvidenceError(
            f"evidence on {number.name!r}: {text!r} is in {words[len(bare) :].strip()!r}, but the number {own}; values "
            "are not converted"
        )
    hint = comma_hint(words, _is_condition) or f"write '<= 15{unit}', '10 to 15{unit}', '12 +- 2{unit}' or '12{unit}'"
    raise EvidenceError(f"evidence on {number.name!r}: {text!r} is not a condition on a number; {hint}")
