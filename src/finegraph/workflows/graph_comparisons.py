"""From comparisons to numbers of a graph: reads and fits them, reports contradictions, and writes the graph.

Each kind that the file compares becomes a kind of numbers; the rest of the graph stays. A kind of numbers that the
graph has keeps its values, and what was compared and has none gets one, in the same unit. Nothing is printed here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from finegraph.data.sources import read_samples
from finegraph.errors import InputError
from finegraph.graph.comparison_conflicts import Conflicts, find_conflicts
from finegraph.graph.comparison_fit import ComparisonFit, fit_comparisons
from finegraph.graph.comparisons import Comparable, Comparison, between_labels, read_comparisons
from finegraph.workflows.labels.graph_sources import read_graph_of


@dataclass(frozen=True, kw_only=True)
class RankedLabel:
    """A fine label with its fitted value and spread."""

    label: str
    value: float
    spread: float


@dataclass(frozen=True, kw_only=True)
class ComparedKind:
    """What the comparisons of one kind say.

    Attributes:
        name: the kind, now one of numbers.
        unit: that of the values that were known before; may be empty.
        comparisons: how many there are.
        order: the fine labels that were compared, the one with most first.
        unknown: how many fine labels have no value: nobody compared them.
        conflicts: pairs told both ways, circles, and groups that no comparison links.
    """

    name: str
    unit: str
    comparisons: int
    order: tuple[RankedLabel, ...]
    unknown: int
    conflicts: Conflicts


def compare_labels(
    comparisons: str | os.PathLike[str],
    graph: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    photos: str | os.PathLike[str] | None = None,
) -> tuple[ComparedKind, ...]:
    """Fit numbers to comparisons and write the graph with them.

    Args:
        comparisons: the CSV file with the columns kind, more, less and, if known, who, same and of.
        graph: whatever has a graph.
        output: the graph file to write, .csv or .json; nothing is written without it.
        photos: the source of the photos, if photos are compared. They are named by their paths, whole or within the
            folder of the source, and stand for their fine labels, of which they tell less than those themselves.

    Raises:
        GraphFileError: all faults of the comparisons or of the graph; among them kinds that the graph has as labels.
        InputError: nothing tells labels apart.
    """
    label_graph = read_graph_of(graph)
    labels = {} if photos is None else _labels_of_photos(photos)
    refused = dict.fromkeys(label_graph.kinds, _REFUSED)
    between = between_labels(read_comparisons(comparisons, Comparable(label_graph.fine, labels, refused)), labels)
    if not between:
        raise InputError(f"{os.fspath(comparisons)}: no two photos of different fine labels are compared")
    result = []
    for name in dict.fromkeys(comparison.kind for comparison in between):
        known = label_graph.number(name) if name in label_graph.numbers else None
        fit = fit_comparisons(name, label_graph.fine, between, known=known)
        label_graph = label_graph.with_number(fit.number)
        result.append(_compared(fit, label_graph.fine, between))
    if output is not None:
        label_graph.write(output)
    return tuple(result)


_REFUSED = "the graph has a kind of labels of this name already, and comparisons make numbers; rename one of the two"


def _labels_of_photos(source: str | os.PathLike[str]) -> dict[str, str | None]:
    """The fine label of each photo, by all names that it may be called."""
    samples = read_samples(source)
    root = Path(samples.source if samples.source else os.fspath(source))
    root = root if root.is_dir() else root.parent
    labels: dict[str, str | None] = {}
    for sample in samples:
        labels[sample.path.as_posix()] = sample.label
        if sample.path.is_relative_to(root):
            labels[sample.path.relative_to(root).as_posix()] = sample.label
    return labels


def _compared(fit: ComparisonFit, fine: tuple[str, ...], comparisons: list[Comparison]) -> ComparedKind:
    """The result for one kind."""
    number = fit.number
    items = sorted(fit.items.tolist(), key=lambda index: -float(number.values[index]))
    return ComparedKind(
        name=number.name,
        unit=number.unit,
        comparisons=sum(comparison.kind == number.name for comparison in comparisons),
        order=tuple(
            RankedLabel(label=fine[index], value=float(number.values[index]), spread=float(number.spreads[index]))
            for index in items
        ),
        unknown=int((~number.known).sum()),
        conflicts=find_conflicts(number.name, comparisons),
    )
