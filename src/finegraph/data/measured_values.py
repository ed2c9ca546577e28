"""The values that were measured on single photos, as arrays for the numbers of a graph.

A manifest has them in a column named like a number of the graph: `price [number, EUR]`, whose cells are read as numbers
at once, or just `price`, whose cells are text until a graph says that they are numbers. Cost: linear in the photos.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from finegraph.data.samples import Samples
from finegraph.errors import DataError
from finegraph.graph.faults import MAX_PRINTED
from finegraph.graph.kind import FloatArray
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.number import Number, value_fault
from finegraph.graph.number_cells import NumberError, parse_number


def measured_values(samples: Samples, graph: LabelGraph) -> dict[str, Float[FloatArray, " batch"]]:
    """The value of each photo, NaN where none was measured, for each number of the graph that any photo has a value of.

    Raises:
        DataError: what is no value of its number, all at once.
    """
    faults: list[str] = []
    named = set(samples.kinds) | set(samples.numbers)
    values = {}
    for name in graph.numbers:
        if name in named:
            number = graph.number(name)
            values[name] = np.array(
                [
                    _value(sample.values.get(name, sample.kinds.get(name)), number, str(sample.path), faults)
                    for sample in samples
                ]
            )
    if faults:
        more = [f"  and {len(faults) - MAX_PRINTED} more"] if len(faults) > MAX_PRINTED else []
        raise DataError("\n".join(["photos have values that their numbers cannot have:", *faults[:MAX_PRINTED], *more]))
    return values


def _value(given: float | str | None, number: Number, place: str, faults: list[str]) -> float:
    """The value of a photo; NaN if there is none, and where it is wrong."""
    fault: str | None = None
    value = np.nan
    if isinstance(given, str):
        try:
            cell = parse_number(given, number.scale, number.unit)
            value = np.nan if cell is None else cell[0]
        except NumberError as error:
            fault = str(error)
    elif given is not None:
        value, fault = given, value_fault(given, 0.0, number.scale)
    if fault:
        faults.append(f"  {place}: {number.name} {given!r}: {fault}")
    return value
