"""Reading an entry of numbers of the canonical form; the form is drawn in `json_writer`."""

from __future__ import annotations

import math
from typing import cast, get_args

import numpy as np

from finegraph.errors import GraphError
from finegraph.graph.formats.json_checks import JsonChecks
from finegraph.graph.names import control_fault
from finegraph.graph.number import Number, Scale, value_fault

_KEYS = ("name", "values", "spreads", "scale", "unit")


def read_number(checks: JsonChecks, entry: object, place: str, fine_count: int | None) -> Number | None:
    """One kind of numbers; None if it has faults, which are noted."""
    before = len(checks.faults)
    if not checks.check_keys(entry, place, _KEYS, required=_KEYS[:2]):
        return None
    checks.kind_name(entry, place)
    scale, unit = entry.get("scale", "linear"), entry.get("unit", "")
    if scale not in get_args(Scale):
        checks.wrong_type(f"{place}.scale", "'linear' or 'log'", scale)
        scale = "linear"
    if not isinstance(unit, str):
        checks.wrong_type(f"{place}.unit", "text", unit)
    elif unit != unit.strip() or control_fault(unit):
        checks.note(
            "bad-name", f"{place}.unit", "a unit has no control characters and no white space at its ends", unit
        )
    values = _floats(checks, entry.get("values", []), f"{place}.values", fine_count, or_null=True)
    zeros = [0.0] * len(values)
    spreads = _floats(checks, entry["spreads"], f"{place}.spreads", fine_count) if "spreads" in entry else zeros
    for row, (value, spread) in enumerate(zip(values, spreads, strict=False)):
        if not math.isnan(value) and (fault := value_fault(value, spread, cast(Scale, scale))):
            checks.note("bad-value", f"{place}.values[{row}]", fault)
    if len(checks.faults) > before or checks.faults.full:
        return None
    try:
        return Number(str(entry["name"]), np.array(values), np.array(spreads), cast(Scale, scale), str(unit))
    except GraphError as error:
        checks.note("bad-kind", place, str(error))
        return None


def _floats(
    checks: JsonChecks, numbers: object, place: str, fine_count: int | None, or_null: bool = False
) -> list[float]:
    """The numbers in a list, NaN for null; what is no number is noted, and then counts as unknown."""
    if not isinstance(numbers, list):
        checks.wrong_type(place, "a list of numbers, one for each fine label", numbers)
        return []
    if fine_count is not None and len(numbers) != fine_count:
        message = f"{len(numbers)} numbers for {fine_count} fine labels; there must be one for each"
        checks.note("wrong-length", place, message)
    expected = "a finite number or null" if or_null else "a finite number"
    found = []
    for row, number in enumerate(numbers):
        null = number is None and or_null
        good = not null and checks.finite(number, f"{place}[{row}]", expected, "bad-number")
        found.append(float(number) if good else (math.nan if or_null else 0.0))
    return found
