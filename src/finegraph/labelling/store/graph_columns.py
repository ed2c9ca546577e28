"""A graph as the columns of the store, and back.

A column is a kind of mode "one", or a run of neighbouring binary kinds of one group (`ingredient: tofu`,
`ingredient: pork`) as one column of mode "all", where nothing is lost by that: each class has all of them known or
none. `graph_of(columns_of(graph))` is the same graph. Cost: linear in the cells.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from finegraph.graph import Kind, LabelGraph
from finegraph.graph.kind import BINARY_LABELS, UnknownPrior
from finegraph.graph.kind_columns import GROUP_SEPARATOR, Cell
from finegraph.graph.names import kind_name_fault, name_fault
from finegraph.labelling.store.records import CellValue, Mode
from finegraph.labelling.store.values import normalised, value_of_cell

Part = tuple[tuple[int, float | None], ...]
"""The labels of a cell, by place, with their weights, None if it has none."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of the store.

    Attributes:
        name: the kind.
        mode: whether cells name one label or all that hold.
        prior: how unknown parents are distributed.
        labels: the labels in order.
        cells: per fine label, the labels that the cell names; None if it is unknown.
    """

    name: str
    mode: Mode
    prior: UnknownPrior
    labels: tuple[str, ...]
    cells: list[Part | None]

    def value(self, row: int) -> CellValue:
        """What the cell of a class says, as callers see it."""
        cell = self.cells[row]
        if cell is None:
            return None
        names = tuple(self.labels[label] for label, _ in cell)
        weights = tuple(weight for _, weight in cell if weight is not None)
        return value_of_cell(Cell(names, weights or None, all_of=self.mode == "all"))


def columns_of(graph: LabelGraph, single: Collection[str] = (), groups: Collection[str] = ()) -> list[Column]:
    """The columns of a graph, in order.

    Args:
        graph: the graph.
        single: kinds that are columns of their own, whatever their group.
        groups: groups that are known to be such, so that one kind suffices.
    """
    kinds = [graph.kind(name) for name in graph.kinds]
    taken = {unicodedata.normalize("NFC", kind.name) for kind in kinds}
    found: list[Column] = []
    for group, run in groupby(kinds, key=lambda kind: None if kind.name in single else _group_of(kind)):
        members = list(run)
        form = "" if group is None else unicodedata.normalize("NFC", group)
        enough = group is not None and form not in taken and (len(members) > 1 or group in groups)
        column = _group_column(group, members) if group is not None and enough else None
        if column is not None:
            taken.add(form)
            found.append(column)
        else:
            found += [_kind_column(kind) for kind in members]
    return found


def _group_of(kind: Kind) -> str | None:
    """The group that a binary kind belongs to by its name."""
    group, separator, label = kind.name.partition(GROUP_SEPARATOR)
    usable = kind.binary and separator and kind.unknown_prior == "frequency"
    return group if usable and not kind_name_fault(group) and not name_fault(label) else None


def _group_column(group: str, members: Sequence[Kind]) -> Column | None:
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
    return Column(name=group, mode="all", prior="frequency", labels=labels, cells=cells)


def _kind_column(kind: Kind) -> Column:
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
    return Column(name=kind.name, mode="one", prior=kind.unknown_prior, labels=kind.labels, cells=cells)


def graph_of(fine: Sequence[str], columns: Iterable[Column]) -> LabelGraph:
    """The graph of columns."""
    kinds: list[Kind] = []
    for column in columns:
        kinds += _group_kinds(column) if column.mode == "all" else [_one_kind(column)]
    return LabelGraph(fine, kinds)


def _one_kind(column: Column) -> Kind:
    coarse: list[int] = []
    weight: list[float] = []
    sizes: list[int] = []
    for cell in column.cells:
        sizes.append(len(cell) if cell else 0)
        for label, own in cell or ():
            coarse.append(label)
            weight.append(1.0 / len(cell or ()) if own is None else own)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    edges = np.array(coarse, np.int64), np.array(weight, np.float64)
    return Kind(column.name, column.labels, starts, *edges, column.prior)


def _group_kinds(column: Column) -> list[Kind]:
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
