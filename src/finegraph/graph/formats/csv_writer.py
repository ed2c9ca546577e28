"""Writing a graph as CSV, so that reading it gives exactly the same graph.

Neighbouring binary kinds of one group (`ingredient: tofu`, `ingredient: pork`) become one column of all-of cells again
if that loses nothing. The `#labels` row is written only if the order of appearance would differ.
Time is linear in the cells.
"""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from finegraph.errors import GraphError
from finegraph.graph.formats.cells import escape_label, format_cell, format_name, text_only
from finegraph.graph.formats.column_types import ColumnType, NumberType, OrderType, format_header
from finegraph.graph.formats.csv_columns import MAX_CELL_LENGTH
from finegraph.graph.formats.csv_reader import FINE, LABELS_ROW
from finegraph.graph.formats.csv_rows import MAX_COLUMNS
from finegraph.graph.graph_like import GraphLike
from finegraph.graph.kind import BINARY_LABELS, Kind
from finegraph.graph.kind_columns import GROUP_SEPARATOR, TableCell
from finegraph.graph.names import kind_name_fault, name_fault
from finegraph.graph.number import Number
from finegraph.graph.number_cells import format_number, looks_like_number

_YES = BINARY_LABELS.index("yes")


@dataclass(frozen=True)
class _Column:
    """A column as text: its name, its cell in the `#labels` row, a cell per fine label, and its type."""

    name: str
    labels: str
    cells: list[str]
    type: ColumnType | None = None


def format_csv(graph: GraphLike, *, safe: bool = False) -> str:
    """The graph as the text of a CSV file.

    Args:
        graph: the graph.
        safe: whether cells that a spreadsheet could evaluate get a backslash, which reading removes.

    Raises:
        GraphError: something in the graph cannot be written as CSV; JSON can hold it.
    """
    columns = list(_columns(graph))
    _check(graph, columns)
    rows: list[Sequence[str]] = [[FINE, *(format_header(column.name, column.type) for column in columns)]]
    if any(column.labels for column in columns):
        rows.append([LABELS_ROW, *(column.labels for column in columns)])
    fine = [format_name(label) for label in graph.fine]
    rows += zip(fine, *(column.cells for column in columns), strict=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if safe:  # a bare number in a column of numbers is harmless
        plain = [False, *(isinstance(column.type, NumberType) for column in columns)]
        rows = [[_safe(*cell) for cell in zip(row, plain, strict=True)] for row in rows]
    writer.writerows(rows)
    return text.getvalue()


def _safe(cell: str, number: bool) -> str:
    """The cell, escaped if a spreadsheet could take it for a formula."""
    return cell if number and looks_like_number(cell) else text_only(cell)


def _check(graph: GraphLike, columns: Sequence[_Column]) -> None:
    """Refuse what CSV cannot hold."""
    for name in graph.kinds:
        prior = graph.kind(name).unknown_prior
        if prior != "frequency":
            raise GraphError(
                f"kind {name!r} has unknown_prior={prior!r}, which a CSV file cannot hold; "
                "write the graph to a .json file"
            )
    if len(columns) >= MAX_COLUMNS:
        raise GraphError(
            f"{len(columns)} kinds, but a CSV file can hold {MAX_COLUMNS - 1}; write the graph to a .json file"
        )
    for column in columns:
        if len(longest := max(column.cells, key=len)) > MAX_CELL_LENGTH:
            raise GraphError(
                f"kind {column.name!r}: a cell would have {len(longest)} characters, but a CSV file can hold "
                f"{MAX_CELL_LENGTH}; write the graph to a .json file"
            )


def _columns(graph: GraphLike) -> Iterator[_Column]:
    """The columns of the file: one per kind, or per group of neighbouring binary kinds."""
    kinds = [graph.kind(name) for name in graph.kinds]
    taken = {unicodedata.normalize("NFC", name) for name in (*graph.kinds, *graph.numbers)}
    for group, run in groupby(kinds, key=_group_of):
        members = list(run)
        header = unicodedata.normalize("NFC", group) if group is not None else ""
        column = _group_column(group, members) if group is not None and header not in taken else None
        if column:
            taken.add(header)
            yield column
        else:
            yield from (_kind_column(kind) for kind in members)
    yield from (_number_column(graph.number(name)) for name in graph.numbers)


def _group_of(kind: Kind) -> str | None:
    """The group that a binary kind belongs to by its name."""
    group, separator, label = kind.name.partition(GROUP_SEPARATOR)
    if not kind.binary or kind.ordered or not separator or kind_name_fault(group) or name_fault(label):
        return None
    return group


def _kind_column(kind: Kind) -> _Column:
    """The column of one kind."""
    names = [escape_label(label) for label in kind.labels]
    if kind.one_parent:
        cells = [names[parent] if parent >= 0 else "" for parent in kind.parents.tolist()]
    else:
        coarse, weight = kind.coarse.tolist(), kind.weight.tolist()
        cells = [_row(names, coarse[i:j], weight[i:j]) for i, j in pairwise(kind.starts.tolist())]
    if kind.ordered:
        return _Column(kind.name, "", cells, OrderType(kind.labels))
    appearing = tuple(kind.labels[index] for index in dict.fromkeys(kind.coarse.tolist()))
    if appearing and set(appearing) <= set(BINARY_LABELS):
        read_as: tuple[str, ...] | None = BINARY_LABELS
    elif set(appearing) & set(BINARY_LABELS):
        read_as = None  # yes or no beside other labels must be declared
    else:
        read_as = appearing
    return _Column(kind.name, "" if kind.labels == read_as else "|".join(names), cells)


def _number_column(number: Number) -> _Column:
    """The column of a kind of numbers."""
    pairs = zip(number.values.tolist(), number.spreads.tolist(), strict=True)
    cells = [format_number(*pair, number.scale) for pair in pairs]
    return _Column(number.name, "", cells, NumberType(number.scale, number.unit))


def _row(names: Sequence[str], coarse: Sequence[int], weight: Sequence[float]) -> str:
    """The cell of a fine label; `names` are escaped already."""
    if len(coarse) > 1 and any(value != 1.0 / len(coarse) for value in weight):
        return "|".join(f"{names[label]}:{value!r}" for label, value in zip(coarse, weight, strict=True))
    return "|".join(names[label] for label in coarse)


def _group_column(group: str, members: Sequence[Kind]) -> _Column | None:
    """The all-of column of a run of binary kinds; None if it would not read back as the same kinds."""
    if len(members) < 2 or not all(kind.one_parent for kind in members):
        return None
    parents = np.stack([kind.parents for kind in members], axis=1)
    unknown = parents < 0
    yes = parents == _YES
    known = ~unknown.any(axis=1)
    if (unknown.any(axis=1) != unknown.all(axis=1)).any() or not (yes[known].sum(axis=1) > 1).any():
        return None
    labels = [kind.name.partition(GROUP_SEPARATOR)[2] for kind in members]
    names = [escape_label(label) for label in labels]
    cells = [""] * len(parents)
    appearing: dict[int, None] = {}
    for row in np.flatnonzero(known).tolist():
        chosen = np.flatnonzero(yes[row]).tolist()
        appearing.update(dict.fromkeys(chosen))
        cells[row] = " & ".join(names[label] for label in chosen) or "&"
    declared = "" if list(appearing) == list(range(len(labels))) else format_cell(TableCell(tuple(labels)))
    return _Column(group, declared, cells)
