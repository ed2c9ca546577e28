"""The label graph that a manifest of photos implies.

A manifest is a CSV file with one row per photo: `path`, `label`, optionally `split` and a box, and one column per kind:

    path,label,dish,tofu
    1.jpg,mapo tofu @ A,mapo tofu,yes

A kind whose label is the same on all photos of a fine label gives that fine label one parent. If the photos disagree,
the kind belongs to the photos rather than to the class: an error, or weights, as the caller chooses. Empty cells say
nothing. A column of numbers (`price [number, EUR]`) gives the mean of the photos of a fine label, with their standard
deviation as spread; `heat [mild < medium < hot]` has labels in an order, as in graph files (see `column_types`). Any
other header is a name, taken literally. So is a cell: the signs of graph files (`|`, `&`) have no meaning
here. Rows and quotes follow the rules of graph files. Cost: linear in the cells; besides the text of the file, memory
grows with the distinct pairs of fine and coarse label and with the measured values, not with the photos.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from finegraph.errors import InputError, unknown_name
from finegraph.graph.builders.text_files import read_text
from finegraph.graph.faults import CellError, FaultList
from finegraph.graph.formats.column_types import ColumnType, NumberType, OrderType, parse_header
from finegraph.graph.formats.csv_rows import rows
from finegraph.graph.kind import Kind
from finegraph.graph.kind_columns import TableCell, kinds_of_column
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.names import RESERVED_KINDS, kind_name_fault, name_fault, unicode_twins
from finegraph.graph.number import Number
from finegraph.graph.number_cells import NumberError, parse_number
from finegraph.graph.spelling import SpellingHints


def graph_from_manifest(
    path: str | os.PathLike[str],
    kinds: Sequence[str] | None = None,
    fine: str = "label",
    on_conflict: Literal["error", "weights"] = "error",
) -> LabelGraph:
    """The graph of a manifest; its fine labels are those that occur, in order of appearance.

    Args:
        path: the manifest, a CSV file with a header.
        kinds: the columns that are kinds; by default all but those that every manifest may have (`path`, `label`,
            `split`, `x`, `y`, `width`, `height`).
        fine: the column of the fine label.
        on_conflict: what to do if photos of one fine label have different labels of a kind: an "error", or "weights"
            by how often each was seen.

    Raises:
        GraphFileError: all faults of the file at once, with their lines.
        UnknownNameError: a column that the file does not have.
    """
    if on_conflict not in ("error", "weights"):
        raise InputError(f"on_conflict must be 'error' or 'weights', got {on_conflict!r}")
    path = Path(path)
    faults = FaultList()
    lines = rows(read_text(path, faults) or "", faults)
    _, cells = next(lines, (1, []))
    named = [column_of(cell) for cell in cells]
    header = [name for name, _ in named]
    check_header(header, faults)
    faults.raise_if_any(str(path))
    position, columns = _choose_columns(path, header, kinds, fine)
    types = {name: type_ for name, type_ in named if type_ is not None and name in columns}
    seen = _read_rows(lines, header, position, columns, types, faults)
    made = _make_kinds(seen, columns, types, on_conflict, faults)
    faults.raise_if_any(str(path))
    numbers = [_number(name, type_, seen) for name, type_ in types.items() if isinstance(type_, NumberType)]
    return LabelGraph(seen.fine, made, numbers)


@dataclass(slots=True)
class _Sight:
    """How often a label was seen on the photos of a fine label, and on which line first."""

    line: int
    count: int = 1


@dataclass
class _Seen:
    """The content of the rows: each fine label with its first line, and per kind what was seen on its photos."""

    fine: dict[str, int] = field(default_factory=dict)
    labels: dict[str, dict[str, dict[str, _Sight]]] = field(default_factory=dict)
    """Kind -> fine label -> label -> how often."""
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """Number -> fine label -> the values measured on its photos."""


def check_header(header: list[str], faults: FaultList) -> None:
    """Note columns without a valid, unique name."""
    if not header:
        if not len(faults):
            faults.add("empty-file", "expected a header such as path,label,dish", line=1)
        return
    first: dict[str, int] = {}
    for number, name in enumerate(header, start=1):
        if name not in RESERVED_KINDS and (fault := kind_name_fault(name)):
            faults.add("bad-name", f"column number {number}: {fault}", line=1, value=name)
        elif first.setdefault(name, number) != number:
            message = f"columns number {first[name]} and {number} have the same name"
            faults.add("duplicate-column", message, line=1, value=name, hint="rename or remove one")
    for one, two in unicode_twins(header):
        message = f"this column and {one!r} read the same but are spelt in two Unicode forms"
        faults.add("unicode-twins", message, line=1, value=two)


def _choose_columns(
    path: Path, header: list[str], kinds: Sequence[str] | None, fine: str
) -> tuple[int, dict[str, int]]:
    """The index of the column of the fine label, and of each kind."""
    if fine not in header:
        raise unknown_name("column", fine, header, f"for the fine labels in {path}")
    if kinds is None:
        kinds = [name for name in header if name not in RESERVED_KINDS and name != fine]
    columns: dict[str, int] = {}
    for name in kinds:
        if name not in header:
            raise unknown_name("column", name, header, f"for a kind in {path}")
        if name == fine or name in columns:
            raise InputError(f"the column {name!r} of {path} is asked for twice; each column has one use")
        if fault := kind_name_fault(name):
            raise InputError(f"the column {name!r} of {path} cannot be a kind: {fault}")
        columns[name] = header.index(name)
    return header.index(fine), columns


def _read_rows(
    lines: Iterator[tuple[int, list[str]]],
    header: list[str],
    position: int,
    columns: dict[str, int],
    types: Mapping[str, ColumnType],
    faults: FaultList,
) -> _Seen:
    """Go through the photos and count which labels were seen on those of each fine label."""
    seen = _Seen(labels={kind: {} for kind in columns})
    known: dict[str, set[str]] = {kind: set() for kind in columns}
    for line, row in lines:
        if len(row) != len(header):
            continue  # a fault already
        name = row[position]
        if name not in seen.fine:
            if fault := name_fault(name):
                hint = None if name else "give the photo a fine label, or leave the row out"
                faults.add("bad-name", fault, line=line, column=header[position], value=name, hint=hint)
                continue
            seen.fine[name] = line
        for kind, column in columns.items():
            label = row[column]
            if not label:
                continue
            if kind in types:
                value = check_cell(label, kind, types[kind], line, faults)
                if isinstance(types[kind], NumberType):
                    if value is not None:
                        seen.values.setdefault(kind, {}).setdefault(name, []).append(value)
                    continue
            if label not in known[kind]:
                known[kind].add(label)
                if fault := name_fault(label):
                    faults.add("bad-name", fault, line=line, column=kind, value=label)
            sights = seen.labels[kind].setdefault(name, {})
            if label in sights:
                sights[label].count += 1
            else:
                sights[label] = _Sight(line)
    if not seen.fine and not len(faults):
        faults.add("no-rows", "expected at least one row below the header, got none", line=1)
    _check_twins(header[position], seen.fine, faults)
    return seen


def _check_twins(column: str, lines: dict[str, int], faults: FaultList) -> None:
    """Note names of one column that read the same but are different."""
    for one, two in unicode_twins(lines):
        message = f"this and {one!r} of line {lines[one]} read the same but are spelt in two Unicode forms"
        faults.add("unicode-twins", message, line=lines[two], column=column, value=two)


def _number(name: str, type_: NumberType, seen: _Seen) -> Number:
    """The values of the fine labels: the mean of those measured on photos, with their standard deviation as spread."""
    log = type_.scale == "log"
    values, spreads = [], []
    for fine in seen.fine:
        found = np.array(seen.values.get(name, {}).get(fine, [np.nan]))
        middle = float(np.exp(np.log(found).mean()) if log else found.mean())
        values.append(middle)
        spreads.append(float(np.log(found).std() * middle if log else found.std()))
    return Number.from_values(name, values, np.nan_to_num(spreads), type_.scale, type_.unit)


def _make_kinds(
    seen: _Seen, columns: dict[str, int], types: Mapping[str, ColumnType], on_conflict: str, faults: FaultList
) -> list[Kind]:
    """The kinds of the columns, with conflicts noted or turned into weights."""
    made: list[Kind] = []
    for kind in columns:
        type_ = types.get(kind)
        if isinstance(type_, NumberType):
            continue
        by_fine = seen.labels[kind]
        first: dict[str, int] = {}
        for sights in by_fine.values():
            for label, sight in sights.items():
                first[label] = min(sight.line, first.get(label, sight.line))
        _check_twins(kind, first, faults)
        if not by_fine and not len(faults):
            faults.add("empty-column", "no row has a label here", line=1, column=kind, hint="leave it out")
        if on_conflict == "error":
            _check_conflicts(kind, by_fine, faults)
        if not len(faults):
            cells = [_cell(by_fine.get(name)) for name in seen.fine]
            order = type_.labels if isinstance(type_, OrderType) else None
            found = kinds_of_column(kind, cells, order)
            made += [replace(one, ordered=True) for one in found] if order else found
    return made


def _cell(sights: dict[str, _Sight] | None) -> TableCell | None:
    """The labels seen on the photos of one fine label, weighted by how often."""
    if not sights:
        return None
    weights = tuple(float(sight.count) for sight in sights.values()) if len(sights) > 1 else None
    return TableCell(tuple(sights), weights)


def _check_conflicts(kind: str, by_fine: dict[str, dict[str, _Sight]], faults: FaultList) -> None:
    """Note each fine label whose photos have different labels of a kind."""
    for name, sights in by_fine.items():
        if len(sights) == 1:
            continue
        (first, sight), (second, other) = list(sights.items())[:2]
        message = f"other photos of {name!r} have {first!r} (line {sight.line})"
        hint = "make them agree, leave the column out, or take how often each was seen with on_conflict='weights'"
        faults.add("conflict", message, line=other.line, column=kind, value=second, hint=hint)


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


def check_cell(text: str, name: str, type_: ColumnType, line: int | None, faults: FaultList) -> float | None:
    """The value of a cell of a typed column, if it has one; faults are noted."""
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
        hint = SpellingHints().hint(text, type_.labels)
        faults.add("undeclared-label", "not in the order of the header", line=line, column=name, value=text, hint=hint)
    return None
