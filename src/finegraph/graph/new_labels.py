"""Adding fine labels to a graph: new rows for its kinds, and the coarse labels that these rows introduce.

A row is written as in `LabelGraph.from_table`. A missing kind is unknown. A group of binary kinds, such as
`with: tofu` and `with: pork`, may be given as one list of what holds. Kinds cannot be added: they would be unknown for
all existing labels. Cost: linear in the edges of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from finegraph.errors import GraphError, unknown_name
from finegraph.graph.graph_like import GraphLike
from finegraph.graph.kind import BINARY_LABELS, Kind
from finegraph.graph.kind_columns import GROUP_SEPARATOR, TableCell, cell_of
from finegraph.graph.names import fold, name_fault
from finegraph.graph.number import Number
from finegraph.graph.number_cells import number_cell

Row = Mapping[str, object]
"""Kind -> label, or any other value of a cell."""


def rows_by_kind(graph: GraphLike, label: str, row: Row) -> dict[str, TableCell]:
    """The cells of a new fine label, checked; unknown ones are left out.

    Raises:
        UnknownNameError: a kind that the graph does not have.
        GraphError: an invalid label.
    """
    cells: dict[str, TableCell] = {}
    for name, value in row.items():
        where = f"fine label {label!r}, kind {name!r}"
        cell = cell_of(value, where)
        if name in graph.kinds:
            found = {} if cell is None else {name: cell}
        else:
            found = _group_cells(graph, name, cell, where)
        for kind, one in found.items():
            if kind in cells:
                raise GraphError(f"{where}: {kind!r} is given twice")
            _check(graph, kind, one, where)
            cells[kind] = one
    return cells


def with_rows(
    graph: GraphLike, rows: Mapping[str, Row]
) -> tuple[tuple[str, ...], tuple[Kind, ...], tuple[Number, ...]]:
    """The fine labels, the kinds and the numbers of the graph with more rows."""
    numbers = [graph.number(name) for name in graph.numbers]
    if not rows:
        return graph.fine, tuple(graph.kind(name) for name in graph.kinds), tuple(numbers)
    known = {fold(label): label for label in graph.fine}
    for label in rows:
        if fault := name_fault(label):
            raise GraphError(f"fine label {label!r}: {fault}")
        if fold(label) in known:
            raise GraphError(f"fine label {label!r}: the graph has {known[fold(label)]!r} already")
        known[fold(label)] = label
    measured = [_with_values(number, rows) for number in numbers]
    cells = [
        rows_by_kind(graph, label, {name: value for name, value in row.items() if name not in graph.numbers})
        for label, row in rows.items()
    ]
    kinds = [_longer(graph.kind(name), [row.get(name) for row in cells]) for name in graph.kinds]
    return (*graph.fine, *rows), tuple(kinds), tuple(measured)


def _with_values(number: Number, rows: Mapping[str, Row]) -> Number:
    """A kind of numbers with one more value per row."""
    cells = [
        number_cell(row.get(number.name), number.scale, f"fine label {label!r}, number {number.name!r}", number.unit)
        for label, row in rows.items()
    ]
    values, spreads = zip(*(cell or (math.nan, 0.0) for cell in cells), strict=True)
    return replace(number, values=np.append(number.values, values), spreads=np.append(number.spreads, spreads))


def _group_cells(graph: GraphLike, name: str, cell: TableCell | None, where: str) -> dict[str, TableCell]:
    """The cells of a group of binary kinds."""
    parts = {kind.removeprefix(name + GROUP_SEPARATOR): kind for kind in graph.kinds if kind.startswith(name + ": ")}
    if not parts:
        groups = {kind.partition(GROUP_SEPARATOR)[0] for kind in graph.kinds if GROUP_SEPARATOR in kind}
        raise unknown_name("kind", name, (*graph.kinds, *sorted(groups - set(graph.kinds))))
    if cell is None:
        return {}
    if not cell.all_of and len(cell.labels) != 1:
        raise GraphError(f"{where}: {name!r} is a group of kinds of yes and no; give a list of all that hold")
    for label in cell.labels:
        if label not in parts:
            raise unknown_name("label", label, tuple(parts), f"of the group {name!r}")
    return {kind: TableCell((BINARY_LABELS[int(part in cell.labels)],)) for part, kind in parts.items()}


def _check(graph: GraphLike, kind: str, cell: TableCell, where: str) -> None:
    """Refuse labels that the kind cannot have."""
    if cell.all_of:
        raise GraphError(f"{where}: a kind has one label; give one, or a set of which it is one")
    labels = graph.labels(kind)
    known = {fold(label): label for label in labels}
    for label in cell.labels:
        if label in labels:
            continue
        if graph.kind(kind).binary:
            raise unknown_name("label", label, labels, f"of kind {kind!r}")
        if fault := name_fault(label):
            raise GraphError(f"{where}, label {label!r}: {fault}")
        if fold(label) in known:
            raise GraphError(f"{where}: the label {label!r} is spelt {known[fold(label)]!r} in the graph")
        if graph.kind(kind).ordered:
            order = " < ".join(labels)
            raise GraphError(f"{where}: {label!r} has no place in the order {order}; take one of these labels")


def _longer(kind: Kind, cells: list[TableCell | None]) -> Kind:
    """A kind with one more row per cell."""
    labels = list(dict.fromkeys((*kind.labels, *(label for cell in cells if cell for label in cell.labels))))
    place = {label: number for number, label in enumerate(labels)}
    coarse = [place[label] for cell in cells if cell for label in cell.labels]
    weight = [one for cell in cells if cell for one in (cell.weights or [1.0 / len(cell.labels)] * len(cell.labels))]
    sizes = np.cumsum([len(cell.labels) if cell else 0 for cell in cells])
    return replace(
        kind,
        labels=tuple(labels),
        starts=np.concatenate([kind.starts, kind.starts[-1] + sizes]),
        coarse=np.concatenate([kind.coarse, np.array(coarse, dtype=np.int64)]),
        weight=np.concatenate([kind.weight, np.array(weight, dtype=np.float64)]),
    )
