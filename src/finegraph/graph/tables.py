"""Reading a graph from a Python table: fine label -> column -> value.

A column is a kind, unless its type says that it holds numbers or labels in an order. Types are written as in the
brackets of a graph file's header, see `column_types`. All faults of typed columns come in one error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from finegraph.errors import GraphError, unknown_name
from finegraph.graph.faults import MAX_PRINTED, CellError, shorten
from finegraph.graph.formats.column_types import ColumnType, NumberType, OrderType, order_fault, parse_type
from finegraph.graph.graph_like import FileContent
from finegraph.graph.kind import Kind
from finegraph.graph.kind_columns import cells_of, kinds_of_column
from finegraph.graph.number import Number
from finegraph.graph.number_cells import number_cell

TypeLike = str | Sequence[str]
"""The type of a column: `"number"`, `"log number"`, `"number, EUR"`, `"mild < hot"`, or labels in rising order."""


def parts_of_table(table: Mapping[str, Mapping[str, object]], types: Mapping[str, TypeLike]) -> FileContent:
    """The fine labels, kinds and numbers of a table.

    Raises:
        GraphError: an invalid value or type.
    """
    _check_rows(table)
    columns: dict[str, None] = {}
    for row in table.values():
        columns.update(dict.fromkeys(row))
    known = {name: _column_type(name, columns, given) for name, given in types.items()}
    kinds: list[Kind] = []
    numbers: list[Number] = []
    faults: list[str] = []
    for name in columns:
        values = {fine: row.get(name) for fine, row in table.items()}
        type_ = known.get(name)
        if isinstance(type_, NumberType):
            numbers += _number(name, values, type_, faults)
        elif isinstance(type_, OrderType):
            kinds += _ordered(name, values, type_.labels, faults)
        else:
            kinds += kinds_of_column(name, cells_of(name, values))
    if faults:
        more = f"\n... and {len(faults) - MAX_PRINTED} more" if len(faults) > MAX_PRINTED else ""
        raise GraphError("\n".join(faults[:MAX_PRINTED]) + more)
    return FileContent(list(table), kinds, numbers)


def _check_rows(table: object) -> None:
    """Raise unless a table maps each fine label to a row, itself a mapping from columns to values."""
    rows = "expected a mapping from each fine label to its row, such as {'ramen': {'dish': 'noodles', 'price': 9.5}}"
    if not isinstance(table, Mapping):
        raise GraphError(f"{rows}, got {type(table).__name__}")
    for fine, row in table.items():
        if not isinstance(row, Mapping):
            raise GraphError(
                f"{rows}; the row of {fine!r} is {shorten(repr(row))}. A pandas table gives rows by to_dict('index')"
            )


def _column_type(name: str, columns: Mapping[str, None], given: TypeLike) -> ColumnType:
    """The type of a column, checked."""
    if name not in columns:
        raise unknown_name("column", name, tuple(columns), "in types")
    if isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(one, str) for one in given):
        labels = tuple(given)
        if fault := order_fault(labels):
            raise GraphError(f"the type of {name!r}: {fault}")
        return OrderType(labels)
    try:
        type_ = parse_type(given) if isinstance(given, str) else None
    except CellError as error:
        raise GraphError(f"the type of {name!r}: {error}") from error
    if type_ is None:
        raise GraphError(
            f"the type of {name!r} is {given!r}; expected 'number', 'log number', one of these with a unit as in "
            "'number, EUR', or labels in rising order"
        )
    return type_


def _number(name: str, values: Mapping[str, object], type_: NumberType, faults: list[str]) -> list[Number]:
    """The kind of numbers of a column; empty if there are faults, which are noted."""
    before = len(faults)
    pairs: list[tuple[float, float]] = []
    for fine, value in values.items():
        try:
            cell = number_cell(value, type_.scale, f"fine label {fine!r}, number {name!r}", type_.unit)
            pairs.append(cell or (float("nan"), 0.0))
        except GraphError as error:
            faults.append(str(error))
    if len(faults) > before:
        return []
    given, around = zip(*pairs, strict=True)
    return [Number.from_values(name, given, around, type_.scale, type_.unit)]


def _ordered(name: str, values: Mapping[str, object], labels: Sequence[str], faults: list[str]) -> list[Kind]:
    """The ordered kind of a column; empty if there are faults, which are noted."""
    before = len(faults)
    cells = cells_of(name, values)
    for fine, cell in zip(values, cells, strict=True):
        where = f"fine label {fine!r}, kind {name!r}"
        if cell and cell.all_of:
            faults.append(f"{where}: a fine label has one label of an order; give one, or a set of which it is one")
        elif cell and (odd := [label for label in cell.labels if label not in labels]):
            faults.append(f"{where}: {unknown_name('label', odd[0], labels, 'of the order')}")
    if len(faults) > before:
        return []
    return [replace(kind, ordered=True) for kind in kinds_of_column(name, cells, labels)]
