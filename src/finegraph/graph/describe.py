"""Statistics of a label graph as plain data, for the terminal table, the JSON output and the drawing.

A graph is described column by column, as in its file: a kind is one column, and the binary kinds that an all-of column
was split into (`ingredient: tofu`, `ingredient: pork`) are one column again, a group. A kind of numbers has a
range, a mean and a count of unknown values. Cost: linear in the edges.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from finegraph.errors import unknown_name
from finegraph.graph.graph_like import GraphLike
from finegraph.graph.kind import FloatArray, IntArray, Kind
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.number import Number, Scale

Form = Literal["one of", "yes or no", "group"]
YES = 1
"""The index of `yes` in a binary kind."""


@dataclass(frozen=True)
class Column:
    """One kind, or a group of binary kinds that belong together.

    Attributes:
        name: the name of the kind or, for a group, the part before the colon in the names of its kinds.
        kinds: the names of the kinds, in the order of the graph.
        group: whether it is a group; then each of its kinds counts as one label, the `yes` of that kind.
    """

    name: str
    kinds: tuple[str, ...]
    group: bool = False

    def labels(self, graph: LabelGraph) -> tuple[str, ...]:
        """The labels of the kind; for a group, the parts after the colon in the names of its kinds."""
        if self.group:
            return tuple(kind[len(self.name) + len(GROUP_SEPARATOR) :] for kind in self.kinds)
        return graph.labels(self.kinds[0])


@dataclass(frozen=True, kw_only=True)
class LabelCount:
    """A coarse label and how often it occurs.

    Attributes:
        label: the coarse label.
        fine: the number of fine labels that are linked to it.
        share: the weight of these links divided by the number of fine labels whose parent is known.
    """

    label: str
    fine: int
    share: float


@dataclass(frozen=True, kw_only=True)
class ColumnSummary:
    """Statistics of one kind or group.

    Attributes:
        name: the name of the kind or group.
        form: `one of` its labels, `yes or no`, or a `group` in which any number of labels hold.
        kinds: how many kinds it consists of; 1 unless it is a group.
        labels: how many coarse labels it has; for a group, how many kinds.
        one: how many fine labels have exactly one parent; for a group, exactly one label that holds.
        several: how many fine labels have several parents; for a group, several labels that hold.
        none: for a group, how many fine labels have no label that holds.
        unknown: how many fine labels have an unknown parent; for a group, any unknown kind.
        children_min: the smallest number of fine labels that a coarse label is linked to.
        children_median: the median of these numbers.
        children_max: the largest of these numbers.
        entropy: how evenly the known fine labels spread over the labels, in bits; for a group, the mean over its kinds.
        most_frequent: the labels with the largest share, the largest first.
        ordered: whether the labels are in rising order.
    """

    name: str
    form: Form
    kinds: int
    labels: int
    one: int
    several: int
    none: int
    unknown: int
    children_min: int
    children_median: float
    children_max: int
    entropy: float
    most_frequent: tuple[LabelCount, ...]
    ordered: bool = False

    @property
    def binary(self) -> bool:
        """Whether it consists of one or more binary kinds."""
        return self.form != "one of"


@dataclass(frozen=True, kw_only=True)
class GraphSummary:
    """Statistics of a graph.

    Attributes:
        fine: the number of fine labels.
        kinds: the number of kinds of the graph, each kind of a group counted.
        edges: the number of edges of all kinds.
        columns: the kinds and groups that are described, in order.
        numbers: the kinds of numbers that are described, in order.
    """

    fine: int
    kinds: int
    edges: int
    columns: tuple[ColumnSummary, ...]
    numbers: tuple[NumberSummary, ...] = ()


def describe(graph: LabelGraph, kinds: Iterable[str] | None = None, max_labels: int = 5) -> GraphSummary:
    """Compute the statistics of a graph.

    Args:
        graph: the graph.
        kinds: the kinds, groups or numbers to describe; by default all.
        max_labels: how many of the most frequent labels of each are listed.
    """
    chosen = None if kinds is None else list(kinds)
    return GraphSummary(
        fine=len(graph),
        kinds=len(graph.kinds),
        edges=sum(len(graph.kind(name).coarse) for name in graph.kinds),
        columns=tuple(_summary(graph, column, max_labels) for column in choose_columns(graph, chosen)),
        numbers=tuple(summarise(number) for number in choose_numbers(graph, chosen)),
    )


def columns_of(graph: LabelGraph) -> tuple[Column, ...]:
    """The kinds of a graph, with binary kinds that share a prefix before a colon combined into groups."""
    taken = set(graph.kinds)
    members: dict[str, list[str]] = {}
    for name in graph.kinds:
        group, colon, _ = name.partition(GROUP_SEPARATOR)
        grouped = colon and group not in taken and graph.kind(name).binary
        members.setdefault(group if grouped else name, []).append(name)
    return tuple(
        Column(name, tuple(kinds), group=True) if len(kinds) > 1 else Column(kinds[0], (kinds[0],))
        for name, kinds in members.items()
    )


def choose_columns(graph: LabelGraph, names: Iterable[str] | None = None) -> tuple[Column, ...]:
    """The kinds and groups with the given names, each once; names of numbers are ignored."""
    columns = {column.name: column for column in columns_of(graph)}
    if names is None:
        return tuple(columns.values())
    choices = {**columns, **{name: Column(name, (name,)) for name in graph.kinds}}
    chosen: dict[str, Column] = {}
    for name in names:
        if name in graph.numbers:
            continue
        if name not in choices:
            raise unknown_name("kind", name, (*choices, *graph.numbers))
        chosen[name] = choices[name]
    return tuple(chosen.values())


def _summary(graph: LabelGraph, column: Column, max_labels: int) -> ColumnSummary:
    """The statistics of one column."""
    kinds = [graph.kind(name) for name in column.kinds]
    labels = column.labels(graph)
    if column.group:
        holding, unknown = _group_rows(kinds, len(graph))
        children = np.array([np.count_nonzero(kind.coarse == YES) for kind in kinds], dtype=np.int64)
        shares = np.array([_shares(kind)[YES] for kind in kinds])
    else:
        holding, unknown = kinds[0].row_sizes, kinds[0].unknown
        children = np.bincount(kinds[0].coarse, minlength=len(labels))
        shares = _shares(kinds[0])
    known = holding[~unknown]
    order = np.lexsort((np.arange(len(labels)), -shares))[:max_labels]
    return ColumnSummary(
        name=column.name,
        form="group" if column.group else "yes or no" if kinds[0].binary else "one of",
        kinds=len(kinds),
        labels=len(labels),
        one=int(np.count_nonzero(known == 1)),
        several=int(np.count_nonzero(known > 1)),
        none=int(np.count_nonzero(known == 0)),
        unknown=int(np.count_nonzero(unknown)),
        children_min=int(children.min()),
        children_median=float(np.median(children)),
        children_max=int(children.max()),
        entropy=float(np.mean([_entropy(_shares(kind)) for kind in kinds])),
        most_frequent=tuple(
            LabelCount(label=labels[c], fine=int(children[c]), share=float(shares[c])) for c in order if children[c]
        ),
        ordered=not column.group and kinds[0].ordered,
    )


def _group_rows(kinds: list[Kind], fine_count: int) -> tuple[IntArray, NDArray[np.bool_]]:
    """Per fine label, how many labels of a group hold, and whether any of them is unknown."""
    holding = np.zeros(fine_count, dtype=np.int64)
    unknown = np.zeros(fine_count, dtype=np.bool_)
    for kind in kinds:
        fine, coarse, _ = kind.edges
        holding[fine[coarse == YES]] += 1
        unknown |= kind.unknown
    return holding, unknown


def _shares(kind: Kind) -> FloatArray:
    """The share of the known fine labels that each label has; zeros if none is known."""
    mass = np.bincount(kind.coarse, weights=kind.weight, minlength=len(kind.labels))
    return np.asarray(mass / max(mass.sum(), 1e-300))


def _entropy(shares: FloatArray) -> float:
    """The entropy of a distribution in bits; 0 if nothing is known."""
    positive = shares[shares > 0]
    return float(-(positive * np.log2(positive)).sum()) + 0.0


@dataclass(frozen=True, kw_only=True)
class NumberSummary:
    """Statistics of a kind of numbers, in the user's unit; None if nothing is known.

    Attributes:
        name: what is measured.
        scale: whether differences count ("linear") or ratios ("log").
        unit: what the values are counted in; may be empty.
        known: how many fine labels have a value.
        unknown: how many have none.
        min: the smallest value.
        mean: the mean; on a log scale the geometric one.
        max: the largest value.
        with_spread: how many values have a spread.
    """

    name: str
    scale: Scale
    unit: str
    known: int
    unknown: int
    min: float | None
    mean: float | None
    max: float | None
    with_spread: int


def summarise(number: Number) -> NumberSummary:
    """The summary of a kind of numbers."""
    values = number.values[number.known]
    some = len(values) > 0
    return NumberSummary(
        name=number.name,
        scale=number.scale,
        unit=number.unit,
        known=len(values),
        unknown=number.fine_count - len(values),
        min=float(values.min()) if some else None,
        mean=float(number.to_outer(0.0)) if some else None,
        max=float(values.max()) if some else None,
        with_spread=int(np.count_nonzero(number.spreads)),
    )


def choose_numbers(graph: GraphLike, names: Iterable[str] | None = None) -> tuple[Number, ...]:
    """The kinds of numbers with the given names, each once; all if no names are given."""
    chosen = graph.numbers if names is None else [name for name in dict.fromkeys(names) if name in graph.numbers]
    return tuple(graph.number(name) for name in chosen)
