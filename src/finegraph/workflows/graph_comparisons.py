"""From comparisons to numbers of a graph: reads and fits them, reports contradictions, and writes the graph.

Each kind that the file compares becomes a kind of numbers; the rest of the graph stays. A kind of numbers that the
graph has keeps its values, and what was compared and has none gets one, in the same unit. Nothing is printed here.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from finegraph.data.samples import Samples
from finegraph.data.sources import read_samples
from finegraph.errors import InputError
from finegraph.graph import LabelGraph
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
        conflicts: pairs compared both ways, circles, and groups that no comparison links.
    """

    name: str
    unit: str
    comparisons: int
    order: tuple[RankedLabel, ...]
    unknown: int
    conflicts: Conflicts


@dataclass(frozen=True, kw_only=True)
class FittedComparisons:
    """A graph with the numbers that comparisons make.

    Attributes:
        graph: the graph, with a number for each compared kind.
        kinds: what the comparisons of each kind say.
        comparisons: all comparisons, as they were read.
        scales: of each compared number the difference of values that people tell apart in 73 of 100 cases; on a log
            scale that of their logarithms.
    """

    graph: LabelGraph
    kinds: tuple[ComparedKind, ...]
    comparisons: tuple[Comparison, ...]
    scales: Mapping[str, float]


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
    labels: dict[str, str | None] = {}
    if photos is not None:
        samples = read_samples(photos)
        labels = {name: samples[number].label for name, number in photo_names(samples, os.fspath(photos)).items()}
    fitted = with_comparisons(read_graph_of(graph), comparisons, labels)
    if not fitted.kinds:
        raise InputError(f"{os.fspath(comparisons)}: no two photos of different fine labels are compared")
    if output is not None:
        fitted.graph.write(output)
    return fitted.kinds


def with_comparisons(
    graph: LabelGraph,
    comparisons: str | os.PathLike[str],
    labels: Mapping[str, str | None],
    silent: Collection[str] = (),
) -> FittedComparisons:
    """Fit numbers to comparisons, and add them to a graph.

    Args:
        graph: the graph whose fine labels are compared.
        comparisons: the CSV file.
        labels: the fine label of each photo that may be named; None if it is not known.
        silent: photos that may be named and must not count, such as those to validate on.

    Raises:
        GraphFileError: all faults of the comparisons; among them kinds that the graph has as labels.
    """
    found = read_comparisons(comparisons, Comparable(graph.fine, labels, dict.fromkeys(graph.kinds, _REFUSED)))
    hidden = set(silent)
    found = [one for one in found if not one.photos or not {one.more, one.less} & hidden]
    between = between_labels(found, labels)
    kinds, scales = [], {}
    for name in dict.fromkeys(comparison.kind for comparison in between):
        known = graph.number(name) if name in graph.numbers else None
        fit = fit_comparisons(name, graph.fine, between, known=known)
        graph = graph.with_number(fit.number)
        kinds.append(_compared(fit, graph.fine, between))
        scales[name] = known.width / fit.slope if known is not None and known.known.any() else 1.0
    return FittedComparisons(graph=graph, kinds=tuple(kinds), comparisons=tuple(found), scales=scales)


_REFUSED = "the graph has a kind of labels of this name already, and comparisons make numbers; rename one of the two"


def photo_names(samples: Samples, source: str) -> dict[str, int]:
    """The number of each photo in a list, by all names that comparisons may call it."""
    root = Path(samples.source or source)
    root = root if root.is_dir() else root.parent
    names: dict[str, int] = {}
    for number, sample in enumerate(samples):
        names[sample.path.as_posix()] = number
        if sample.path.is_relative_to(root):
            names[sample.path.relative_to(root).as_posix()] = number
    return names


def conflict_words(kind: ComparedKind, max_words: int) -> list[str]:
    """What does not fit together in the comparisons of a kind, a sentence each.

    Args:
        kind: what they say.
        max_words: how many pairs are named at most, and how many circles.
    """
    conflicts = kind.conflicts
    words = [
        f"compared both ways: {pair.more} has more than {pair.less} ({pair.votes} to {pair.against})"
        for pair in conflicts.divided[:max_words]
    ]
    words += ["a circle: " + " > ".join((*circle, circle[0])) for circle in conflicts.circles[:max_words]]
    if len(conflicts.groups) > 1:
        shown = [group[0] + (f" and {len(group) - 1} more" if len(group) > 1 else "") for group in conflicts.groups[:4]]
        names = "; ".join(shown) + ("; ..." if len(conflicts.groups) > 4 else "")
        words.append(f"{len(conflicts.groups)} groups that no comparison links: {names}")
    return words


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
