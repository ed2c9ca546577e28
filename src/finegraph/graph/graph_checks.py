"""What must hold for the parts of a label graph together: distinct names, and as many rows as fine labels."""

from __future__ import annotations

from collections.abc import Sequence

from finegraph.errors import EmptyGraphError, GraphError, ShapeError
from finegraph.graph.kind import Kind
from finegraph.graph.names import name_fault, unicode_twins
from finegraph.graph.number import Number


def check_fine(fine: Sequence[str]) -> None:
    """Raise if there is no fine label, or one cannot be used."""
    if not fine:
        raise EmptyGraphError("a label graph needs at least one fine label, got none")
    for number, name in enumerate(fine):
        if fault := name_fault(name):
            raise GraphError(f"fine label number {number}, {name!r}: {fault}")
    if len(set(fine)) != len(fine):
        seen: set[str] = set()
        for name in fine:
            if name in seen:
                raise GraphError(f"the fine label {name!r} is given twice; fine labels must be distinct")
            seen.add(name)
    for one, two in unicode_twins(fine):
        raise GraphError(f"the fine labels {one!r} and {two!r} read the same but are spelt in two Unicode forms")


def check_parts(fine_count: int, kinds: Sequence[Kind], numbers: Sequence[Number]) -> None:
    """Raise if two kinds or numbers have one name, or one has not as many rows as there are fine labels."""
    parts: list[Kind | Number] = [*kinds, *numbers]
    names = [part.name for part in parts]
    if len(set(names)) != len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise GraphError(f"the kind {double!r} is given twice; kinds must have distinct names")
    for one, two in unicode_twins(names):
        raise GraphError(f"the kinds {one!r} and {two!r} read the same but are spelt in two Unicode forms")
    for part in parts:
        if part.fine_count != fine_count:
            what = "kind" if isinstance(part, Kind) else "number"
            raise ShapeError(f"{what} {part.name!r} has {part.fine_count} rows for {fine_count} fine labels")
