r"""A kind of numbers: each fine label has a value, such as a price, a year or a mass, or an unknown one.

A value may have a spread, the standard deviation of what is meant by "12.5 +- 1.5"; 0 is exact. Values are kept in the
user's unit. Inside, they are standardised, after a logarithm where the scale is "log" (prices, masses):

    inner = (g(value) - centre) / width,        g = log or identity,        spread on the log scale = spread / value

`centre` and `width` are the mean and the standard deviation of the known values with their spreads, so that the mixture
of all known values has mean 0 and variance 1. An unknown value is distributed like that mixture: 0 +- 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike, NDArray

from finegraph.errors import GraphError, ShapeError
from finegraph.graph.kind import FloatArray, IntArray
from finegraph.graph.names import control_fault, kind_name_fault

Scale = Literal["linear", "log"]

MAX_VALUE = 1e100
"""The largest absolute value or spread; on a log scale, 1 / MAX_VALUE is the smallest value. Squares stay finite."""
_MIN_RESOLUTION = 1e-3
"""The smallest resolution, relative to the width: values that differ by less count as equal."""


@dataclass(frozen=True, eq=False)
class Number:
    """A kind of numbers and the value of each fine label.

    Attributes:
        name: what is measured.
        values: the value of each fine label in the user's unit; NaN is unknown.
        spreads: the standard deviation of each value, in the user's unit; 0 is exact.
        scale: whether differences count ("linear") or ratios ("log"; every value is above 0).
        unit: what the values are counted in, for people; may be empty.

    Example:
        >>> price = Number.from_values("price", [12.5, 9.0, None], [1.5, 0, 0], unit="EUR")
        >>> price.known.tolist(), price.centre
        ([True, True, False], 10.75)
    """

    name: str
    values: Float[FloatArray, " fine"]
    spreads: Float[FloatArray, " fine"]
    scale: Scale = "linear"
    unit: str = ""

    def __post_init__(self) -> None:
        if fault := kind_name_fault(self.name):
            raise GraphError(f"number {self.name!r}: {fault}")
        if self.scale not in ("linear", "log"):
            raise GraphError(f"number {self.name!r}: the scale is 'linear' or 'log', got {self.scale!r}")
        if not isinstance(self.unit, str) or self.unit != self.unit.strip() or control_fault(self.unit):
            raise GraphError(
                f"number {self.name!r}: a unit is text without control characters and without white space at its ends, "
                f"got {self.unit!r}"
            )
        values, spreads = np.array(self.values, dtype=np.float64), np.array(self.spreads, dtype=np.float64)
        _check_shapes(self.name, values, spreads)
        known = ~np.isnan(values)
        values = values + 0.0  # turns -0.0 into 0.0, and copies, so that the caller's array stays unchanged
        spreads = np.where(known, spreads, 0.0) + 0.0
        smallest = 1 / MAX_VALUE if self.scale == "log" else -MAX_VALUE
        good = (values >= smallest) & (values <= MAX_VALUE) & (spreads >= 0) & (spreads <= MAX_VALUE)
        for row in np.flatnonzero(known & ~good)[:1].tolist():
            fault = value_fault(float(values[row]), float(spreads[row]), self.scale)
            raise GraphError(f"number {self.name!r}, fine label number {row}: {fault}")
        for array in (values, spreads):
            array.flags.writeable = False
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "spreads", spreads)

    @classmethod
    def from_values(
        cls, name: str, values: ArrayLike, spreads: ArrayLike = 0.0, scale: Scale = "linear", unit: str = ""
    ) -> Number:
        """The kind of numbers of a list of values, None or NaN where unknown; one spread may stand for all."""
        given, around = _float_array(name, "values", values), _float_array(name, "spreads", spreads)
        around = np.full(given.shape, around) if around.ndim == 0 else around
        _check_shapes(name, given, around)
        return cls(name, given, around, scale, unit)

    @property
    def fine_count(self) -> int:
        """How many fine labels there are values for."""
        return len(self.values)

    @cached_property
    def known(self) -> Bool[NDArray[np.bool_], " fine"]:
        """Which fine labels have a known value."""
        known: NDArray[np.bool_] = ~np.isnan(self.values)
        known.flags.writeable = False
        return known

    def rows(self, fine: Int[IntArray, " sample"]) -> Number:
        """The same kind of numbers over some of the fine labels, in the given order; `centre` and `width` change."""
        return Number(self.name, self.values[fine], self.spreads[fine], self.scale, self.unit)

    # ---- the inner scale ---------------------------------------------------------------------------------------------

    @cached_property
    def _affine(self) -> tuple[float, float]:
        """`centre` and `width`."""
        values, spreads = self._on_scale()
        if not len(values):
            return 0.0, 1.0
        centre = float(values[0] + np.mean(values - values[0]))  # exact if all values are equal
        width = math.hypot(_root_mean_square(values - centre), _root_mean_square(spreads))
        return centre, width or 1.0

    def _on_scale(self) -> tuple[FloatArray, FloatArray]:
        """The known values and their spreads (after the logarithm, on a log scale)."""
        values, spreads = self.values[self.known], self.spreads[self.known]
        return (np.log(values), spreads / values) if self.scale == "log" else (values, spreads)

    @property
    def centre(self) -> float:
        """The value that is 0 on the inner scale (after the logarithm, on a log scale)."""
        return self._affine[0]

    @property
    def width(self) -> float:
        """The length of an inner step of 1 (after the logarithm, on a log scale); above 0."""
        return self._affine[1]

    @cached_property
    def standardised(self) -> tuple[Float[FloatArray, " fine"], Float[FloatArray, " fine"]]:
        """The inner values and spreads of all fine labels; 0 and 1 where the value is unknown."""
        known_values, known_spreads = self._on_scale()
        values, spreads = np.zeros(self.fine_count), np.ones(self.fine_count)
        values[self.known] = (known_values - self.centre) / self.width
        spreads[self.known] = known_spreads / self.width
        values.flags.writeable = spreads.flags.writeable = False
        return values, spreads

    @cached_property
    def distinct(self) -> Float[FloatArray, " place"]:
        """The different known values, in rising order."""
        return np.unique(self.values[self.known])

    @cached_property
    def resolution(self) -> float:
        """The smallest meaningful inner spread: about half the smallest step between different values."""
        steps = np.diff(np.unique(self.standardised[0][self.known]))
        return max(float(steps.min()) / 2, _MIN_RESOLUTION) if len(steps) else 0.5

    def to_inner(self, value: ArrayLike) -> Float[FloatArray, "*shape"]:
        """Convert values from the user's unit to the inner scale; on a log scale, values not above 0 become -inf."""
        given = np.asarray(value, dtype=np.float64)
        if self.scale == "log":
            with np.errstate(divide="ignore"):
                given = np.log(np.maximum(given, 0.0))
        return np.asarray((given - self.centre) / self.width)

    def to_outer(self, inner: ArrayLike) -> Float[FloatArray, "*shape"]:
        """Convert values from the inner scale to the user's unit."""
        given = self.centre + self.width * np.asarray(inner, dtype=np.float64)
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(given) if self.scale == "log" else given)

    # ---- value semantics ---------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Number):
            return NotImplemented
        return (
            (self.name, self.scale, self.unit) == (other.name, other.scale, other.unit)
            and np.array_equal(self.values, other.values, equal_nan=True)
            and np.array_equal(self.spreads, other.spreads)
        )

    def __hash__(self) -> int:
        return hash((self.name, self.scale, self.unit, tuple(self.values[self.known].tolist())))

    def __repr__(self) -> str:
        unit = f", {self.unit}" if self.unit else ""
        return f"Number({self.name!r}, {int(self.known.sum())} of {self.fine_count} known, {self.scale}{unit})"


def value_fault(value: float, spread: float, scale: Scale) -> str | None:
    """Why a value and spread are invalid for this scale, or None if they are valid."""
    if not abs(value) <= MAX_VALUE:
        return f"a value is a finite number of size at most {MAX_VALUE:g}, got {value}"
    if scale == "log" and value < 1 / MAX_VALUE:
        return f"on a log scale a value is above 0 (at least {1 / MAX_VALUE:g}), got {value}"
    if not 0 <= spread <= MAX_VALUE:
        return f"a spread is a finite number from 0 to {MAX_VALUE:g}, got {spread}"
    return None


def _float_array(name: str, what: str, given: object) -> FloatArray:
    """An array of floats; anything else is an error."""
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise GraphError(f"number {name!r}: the {what} must be numbers, NaN where unknown") from None


def _check_shapes(name: str, values: FloatArray, spreads: FloatArray) -> None:
    """Raise unless there is one value and one spread per fine label."""
    if values.ndim != 1 or spreads.shape != values.shape:
        raise ShapeError(
            f"number {name!r}: expected one value and one spread per fine label, got shapes {values.shape} "
            f"and {spreads.shape}"
        )


def _root_mean_square(values: FloatArray) -> float:
    """The root of the mean square, computed without overflow or underflow."""
    largest = float(np.abs(values).max())
    return largest * float(np.sqrt(np.mean((values / largest) ** 2))) if largest else 0.0
