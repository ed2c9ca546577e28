"""A graph as the columns of the store, and back.

A column is a kind of mode "one", or a run of neighbouring binary kinds of one group (`ingredient: tofu`,
`ingredient: pork`) as one column of mode "all", if that loses nothing: each class has all of them known, or none.
`graph_of(columns_of(graph))` is the same graph. Cost: linear in the cells.

A kind of numbers is a column of mode "one" too: its labels are the values in rising order, written as in a graph file,
`12.5 +- 1.5`, so that people decide, vote and undo as for any kind. A cell with several possible values is their mean,
with a spread that covers them. `prior` holds the rest: "frequency" or "uniform", followed by ", ordered" for ordered
labels, or the type of numbers, "log number, EUR".
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import cast

import numpy as np

from finegraph.errors import InputError
from finegraph.graph import Kind, LabelGraph, Number
from finegraph.graph.formats.column_types import NumberType, format_type, parse_type
from finegraph.graph.kind import BINARY_LABELS, UnknownPrior
from finegraph.graph.kind_columns import GROUP_SEPARATOR, TableCell
from finegraph.graph.names import kind_name_fault, name_fault
from finegraph.graph.number import MAX_VALUE
from finegraph.graph.number_cells import format_number, parse_number
from finegraph.labelling.store.records import CellValue, Mode
from finegraph.labelling.store.values import normalised, value_of_cell

_ORDERED = ", ordered"
NO_VALUES = ("1",)
"""The placeholder label of a column of numbers without any known value; no cell uses it."""
Part = tuple[tuple[int, float | None], ...]
"""The labels of a cell, by position, with their weights; None if it has no weights."""


@dataclass(frozen=True, kw_only=True)
class StoreColumn:
    """One column of the store.

    Attributes:
        name: the kind.
        mode: whether cells name one label or all that hold.
        prior: how unknown parents are distributed and whether the labels are ordered, or the type of numbers.
        labels: the labels in order.
        cells: per fine label, the labels that the cell names; None if it is unknown.
    """

    name: str
    mode: Mode
    prior: str
    labels: tuple[str, ...]
    cells: list[Part | None]

    def value(self, row: int) -> CellValue:
        """The value of the cell of a class, in the form of callers."""
        cell = self.cells[row]
        if cell is None:
            return None
        names = tuple(self.labels[label] for label, _ in cell)
        weights = tuple(weight for _, weight in cell if weight is not None)
        return value_of_cell(TableCell(names, weights or None, all_of=self.mode == "all"))


def store_columns(graph: LabelGraph, single: Collection[str] = (), groups: Collection[str] = ()) -> list[StoreColumn]:
    """The columns of a graph, in order.

    Args:
        graph: the graph.
        single: kinds that stay columns of their own, whatever their group.
        groups: names of known groups; for these, one kind is enough to make a group.
    """
    kinds = [graph.kind(name) for name in graph.kinds]
    used_names = {unicodedata.normalize("NFC", name) for name in (*graph.kinds, *graph.numbers)}
    columns: list[StoreColumn] = []
    for group, run in groupby(kinds, key=lambda kind: None if kind.name in single else _group_of(kind)):
        members = list(run)
        form = "" if group is None else unicodedata.normalize("NFC", group)
        is_group = group is not None and form not in used_names and (len(members) > 1 or group in groups)
        column = _group_column(group, members) if group is not None and is_group else None
        if column is not None:
            used_names.add(form)
            columns.append(column)
        else:
            columns += [_kind_column(kind) for kind in members]
    return columns + [_number_column(graph.number(name)) for name in graph.numbers]


def _group_of(kind: Kind) -> str | None:
    """The group that a binary kind belongs to by its name."""
    group, separator, label = kind.name.partition(GROUP_SEPARATOR)
    usable = kind.binary and separator and kind.unknown_prior == "frequency" and not kind.ordered
    return group if usable and not kind_name_fault(group) and not name_fault(label) else None


def _group_column(group: str, members: Sequence[Kind]) -> StoreColumn | None:
    """The column of a group; None if some class has only a part of the group known."""
    if not all(kind.one_parent for kind in members):
        return None
    parents = np.stack([kind.parents for kind in members], axis=1)
    unknown = np.asarray((parents < 0).any(axis=1))
    if (unknown != (parents < 0).all(axis=1)).any():
        return None
    labels = tuple(kind.name.partition(GROUP_SEPARATOR)[2] for kind in members)
    yes = parents == BINARY_LABELS.index("yes")
    cells: list[Part | None] = [
        None if unknown[row] else tuple((int(label), None) for label in np.flatnonzero(yes[row]))
        for row in range(len(parents))
    ]
    return StoreColumn(name=group, mode="all", prior="frequency", labels=labels, cells=cells)


def _kind_column(kind: Kind) -> StoreColumn:
    """The column of one kind."""
    coarse, weight = kind.coarse.tolist(), kind.weight.tolist()
    cells: list[Part | None] = []
    for start, end in pairwise(kind.starts.tolist()):
        if start == end:
            cells.append(None)
        elif end == start + 1:
            cells.append(((coarse[start], None),))
        else:
            scaled = normalised(weight[start:end]) or (None,) * (end - start)
            cells.append(tuple(zip(coarse[start:end], scaled, strict=True)))
    prior = kind.unknown_prior + (_ORDERED if kind.ordered else "")
    return StoreColumn(name=kind.name, mode="one", prior=prior, labels=kind.labels, cells=cells)


def _number_column(number: Number) -> StoreColumn:
    """The column of a kind of numbers; without any known value, it has a placeholder label."""
    pairs = list(zip(number.values.tolist(), number.spreads.tolist(), strict=True))
    texts = [format_number(*pair, number.scale) for pair in pairs]
    by_value = sorted({pair: None for pair, known in zip(pairs, number.known, strict=True) if known})
    labels = tuple(format_number(*pair, number.scale) for pair in by_value) or NO_VALUES
    place = {label: index for index, label in enumerate(labels)}
    cells: list[Part | None] = [((place[text], None),) if text else None for text in texts]
    prior = format_type(NumberType(number.scale, number.unit))
    return StoreColumn(name=number.name, mode="one", prior=prior, labels=labels, cells=cells)


def stored_graph(fine: Sequence[str], columns: Iterable[StoreColumn]) -> LabelGraph:
    """The graph of columns."""
    kinds: list[Kind] = []
    numbers: list[Number] = []
    for column in columns:
        type_ = number_type(column.prior)
        if type_ is not None:
            numbers.append(_number(column, type_))
        else:
            kinds += _group_kinds(column) if column.mode == "all" else [_one_kind(column)]
    return LabelGraph(fine, kinds, numbers)


def typed_prior(type_: str, mode: Mode) -> str:
    """The `prior` of a new kind, by its type: `ordered`, a type of numbers, or empty.

    Raises:
        InputError: there is no such type, or the mode does not fit it.
    """
    prior = {"": "frequency", "ordered": "frequency" + _ORDERED}.get(type_, type_)
    if prior == type_ and number_type(type_) is None:
        raise InputError(f"type: expected ordered, number, log number, or a number with its unit, got {type_!r}")
    if type_ and mode != "one":
        raise InputError("type: a class has one number, or one of labels in an order; expected the mode 'one'")
    return prior if prior != type_ else format_type(cast(NumberType, parse_type(type_)))


def is_ordered(prior: str) -> bool:
    """Whether the labels of a column are in rising order."""
    return prior.endswith(_ORDERED)


def number_type(prior: str) -> NumberType | None:
    """The type of numbers that a column holds; None for a column of labels."""
    type_ = parse_type(prior)
    return type_ if isinstance(type_, NumberType) else None


def _number(column: StoreColumn, type_: NumberType) -> Number:
    """A kind of numbers from its column; one of several values is their mean, with a spread that covers them."""
    pairs = [parse_number(label, type_.scale, type_.unit) or (np.nan, 0.0) for label in column.labels]
    values, spreads = np.full(len(column.cells), np.nan), np.zeros(len(column.cells))
    for row, cell in enumerate(column.cells):
        if cell and len(cell) == 1:
            values[row], spreads[row] = pairs[cell[0][0]]
        elif cell:
            shares = np.array([1.0 / len(cell) if weight is None else weight for _, weight in cell])
            value, spread = np.array([pairs[label] for label, _ in cell]).T
            values[row] = (shares * value).sum()
            spreads[row] = min(np.sqrt((shares * (spread**2 + (value - values[row]) ** 2)).sum()), MAX_VALUE)
    return Number(column.name, values, spreads, type_.scale, type_.unit)


def _one_kind(column: StoreColumn) -> Kind:
    coarse: list[int] = []
    weight: list[float] = []
    sizes: list[int] = []
    for cell in column.cells:
        sizes.append(len(cell) if cell else 0)
        for label, share in cell or ():
            coarse.append(label)
            weight.append(1.0 / len(cell or ()) if share is None else share)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    edges = np.array(coarse, np.int64), np.array(weight, np.float64)
    prior = cast(UnknownPrior, column.prior.removesuffix(_ORDERED))  # `Kind` refuses anything else
    ordered = column.prior.endswith(_ORDERED) and len(column.labels) > 1
    return Kind(column.name, column.labels, starts, *edges, prior, ordered)


def _group_kinds(column: StoreColumn) -> list[Kind]:
    parents = np.zeros((len(column.cells), len(column.labels)), dtype=np.int64)
    for row, cell in enumerate(column.cells):
        if cell is None:
            parents[row] = -1
        else:
            parents[row, [label for label, _ in cell]] = 1
    return [
        Kind.from_parents(column.name + GROUP_SEPARATOR + label, BINARY_LABELS, parents[:, place])
        for place, label in enumerate(column.labels)
    ]
