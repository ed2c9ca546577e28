"""The values that were measured on single photos, as arrays for the numbers of a graph.

A manifest has them in a column named like a number of the graph: `price [number, EUR]`, whose cells are read as numbers
at once, or just `price`, whose cells are text until a graph says that they are numbers. A header with a type must agree
with the graph: values are never converted. Cost: linear in the photos.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from finegraph.data.samples import Sample, Samples
from finegraph.errors import DataFileError, Fault
from finegraph.graph.builders.manifest import check_cell
from finegraph.graph.faults import MAX_PRINTED, FaultList
from finegraph.graph.formats.column_types import NumberType, format_header
from finegraph.graph.kind import FloatArray
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.number import Number, value_fault


def measured_values(samples: Samples, graph: LabelGraph) -> dict[str, Float[FloatArray, " batch"]]:
    """The value of each photo, NaN where none was measured, for each number of the graph that any photo has a value of.

    Raises:
        DataFileError: what is no value of its number, and headers with another unit or scale than the graph, all at
            once with line and column.
    """
    faults: list[tuple[str, Fault]] = []
    named = set(samples.kinds) | set(samples.numbers)
    values = {}
    for name in graph.numbers:
        if name in named:
            number = graph.number(name)
            faults += _type_faults(samples, number)
            values[name] = np.array([_value(sample, samples.source, number, faults) for sample in samples])
    if faults:
        faults.sort(key=lambda placed: placed[1].line or 0)
        lines = [f"  {fault.text(place)}" for place, fault in faults[:MAX_PRINTED]]
        more = [f"  and {len(faults) - MAX_PRINTED} more"] if len(faults) > MAX_PRINTED else []
        raise DataFileError(
            "\n".join(["photos have values that their numbers cannot have:", *lines, *more]),
            [fault for _, fault in faults],
        )
    return values


def _type_faults(samples: Samples, number: Number) -> list[tuple[str, Fault]]:
    """A fault for a header whose scale or unit is not that of the graph; a header may leave the unit out."""
    types = {sample.number_types[number.name] for sample in samples if number.name in sample.number_types}
    own = NumberType(number.scale, number.unit)
    faults = []
    for given in sorted(types, key=str):
        if given in (own, NumberType(number.scale)):
            continue
        rule = "unit-differs" if given.unit not in ("", number.unit) else "scale-differs"
        message = (
            f"the photos have {format_header(number.name, given)!r}, the graph {format_header(number.name, own)!r}"
        )
        hint = "give both the same scale and unit, and the values in this unit"
        faults.append((samples.source, Fault(rule=rule, message=message, line=1, column=number.name, hint=hint)))
    return faults


def _value(sample: Sample, source: str, number: Number, faults: list[tuple[str, Fault]]) -> float:
    """The value of a photo; NaN if there is none, and where it is wrong."""
    name, given = number.name, sample.values.get(number.name)
    text = sample.kinds.get(name, "") if given is None else ""
    if given is None and not text:
        return np.nan
    found = FaultList()
    if given is None:
        given = check_cell(text, name, NumberType(number.scale, number.unit), sample.line, found)
    elif fault := value_fault(given, 0.0, number.scale):
        found.add("bad-value", fault, line=sample.line, column=name, value=f"{given:g}")
    faults += [(str(sample.path) if sample.line is None else source, fault) for fault in found.found]
    return np.nan if given is None else given
