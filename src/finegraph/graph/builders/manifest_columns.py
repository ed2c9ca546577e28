"""The columns of a manifest: their names, and what brackets behind a name say of them.

`price [number, EUR]` holds measured values of single photos, `heat [mild < medium < hot]` labels in an order, as in
graph files; see `column_types`. Any other header is a name as it stands, letter by letter.
"""

from __future__ import annotations

from finegraph.graph.faults import CellError, FaultList
from finegraph.graph.formats.column_types import ColumnType, NumberType, OrderType, parse_header
from finegraph.graph.number_cells import NumberError, parse_number
from finegraph.graph.spelling import Suggestions


def column_of(header: str) -> tuple[str, ColumnType | None]:
    """The name and the type of a column."""
    if header.endswith("]"):
        try:
            name, type_ = parse_header(header)
        except CellError:
            return header, None
        if type_ is not None:
            return name, type_
    return header, None


def check_cell(text: str, name: str, type_: ColumnType, line: int, faults: FaultList) -> float | None:
    """The value of a cell of a typed column, if it has one; what is wrong with it is noted."""
    if not text:
        return None
    if isinstance(type_, NumberType):
        try:
            cell = parse_number(text, type_.scale, type_.unit)
        except NumberError as error:
            faults.add(error.rule, error.message, line=line, column=name, value=text, hint=error.hint)
            return None
        if cell is not None and cell[1]:
            message, what = "a photo has a value without a spread", "give the value alone"
            faults.add("bad-value", message, line=line, column=name, value=text, hint=what)
        return None if cell is None else cell[0]
    if isinstance(type_, OrderType) and text not in type_.labels:
        hint = Suggestions().hint(text, type_.labels)
        faults.add("undeclared-label", "not in the order of the header", line=line, column=name, value=text, hint=hint)
    return None
