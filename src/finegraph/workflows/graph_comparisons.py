"""From comparisons to numbers of a graph: reads and fits them, reports contradictions, and writes the graph.

Each kind that the file compares becomes a kind of numbers; the rest of the graph stays. A kind of numbers that the
graph has keeps its values, and what was compared and has none gets one, in the same unit. An ordered kind stays one:
what was compared and has no label gets the nearest one. Nothing is printed here.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from finegraph.data.samples import Samples
from finegraph.data.sources import read_samples
from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.graph.comparison_conflicts import Conflicts, find_conflicts
from finegraph.graph.comparison_fit import ComparisonFit, fit_comparisons
from finegraph.graph.comparisons import Comparable, Comparison, between_labels, read_comparisons
from finegraph.graph.number import Number
from finegraph.graph.order_fit import DoubtedLabel, OrderFit, fit_order
from finegraph.workflows.labels.graph_sources import read_graph_of

STEPS = "steps"
"""The unit of the values of an ordered kind."""


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
        name: the kind, now one of numbers, or an ordered one.
        unit: that of the values that were known before; may be empty. That of an ordered kind is steps.
        comparisons: how many there are.
        order: the fine labels that were compared, the one with most first.
        unknown: how many fine labels have no value: nobody compared them.
        conflicts: pairs compared both ways, circles, groups that no comparison links, contradicted values.
        filled: of an ordered kind, by fine label the labels that were unknown.
        doubted: of an ordered kind, the fine labels whose label disagrees with the comparisons.
    """

    name: str
    unit: str
    comparisons: int
    order: tuple[RankedLabel, ...]
    unknown: int
    conflicts: Conflicts
    filled: Mapping[str, str] = field(default_factory=dict)
    doubted: tuple[DoubtedLabel, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FittedComparisons:
    """A graph with what comparisons make of it.

    Attributes:
        graph: the graph, with a number for each compared kind that is not ordered.
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
            folder of the source, and stand for their fine labels; they are weaker evidence than comparisons of labels.

    Raises:
        GraphFileError: all faults of the comparisons or of the graph; among them kinds that the graph has as labels
            without an order.
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
        GraphFileError: all faults of the comparisons; among them kinds that the graph has as labels without an order.
    """
    refused = [name for name in graph.kinds if not graph.kind(name).ordered]
    found = read_comparisons(comparisons, Comparable(graph.fine, labels, dict.fromkeys(refused, _REFUSED)))
    hidden = set(silent)
    found = [one for one in found if not one.photos or not {one.more, one.less} & hidden]
    between = between_labels(found, labels)
    kinds, scales = [], {}
    for name in dict.fromkeys(comparison.kind for comparison in between):
        if name in graph.kinds:
            ordered = fit_order(graph.kind(name), graph.fine, between)
            graph = graph.with_kind(ordered.kind)
            kinds.append(_compared_order(ordered, graph.fine, between))
            continue
        known = graph.number(name) if name in graph.numbers else None
        fit = fit_comparisons(name, graph.fine, between, known=known)
        graph = graph.with_number(fit.number)
        kinds.append(_compared(fit, graph.fine, between, known))
        scales[name] = known.width / fit.slope if known is not None and known.known.any() else 1.0
    return FittedComparisons(graph=graph, kinds=tuple(kinds), comparisons=tuple(found), scales=scales)


_REFUSED = (
    "the graph has a kind of labels of this name already, and comparisons make numbers; rename one of the two, or give "
    "the labels an order"
)


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
    words += ["a cycle: " + " > ".join((*circle, circle[0])) for circle in conflicts.circles[:max_words]]
    unit, before = ("", "step ") if kind.unit == STEPS else (f" {kind.unit}" if kind.unit else "", "")
    words += [
        f"against known values: {pair.more} ({before}{pair.more_value:g}{unit}) is said to have more than {pair.less} "
        f"({before}{pair.less_value:g}{unit})"
        for pair in conflicts.known[:max_words]
    ]
    words += [
        f"{one.fine} is {one.label!r}, but comparisons put it at {one.compared!r}" for one in kind.doubted[:max_words]
    ]
    if len(conflicts.groups) > 1:
        shown = [group[0] + (f" and {len(group) - 1} more" if len(group) > 1 else "") for group in conflicts.groups[:4]]
        names = "; ".join(shown) + ("; ..." if len(conflicts.groups) > 4 else "")
        words.append(f"{len(conflicts.groups)} groups that no comparison links: {names}")
    return words


def compared_words(kind: ComparedKind) -> str:
    """What the comparisons of a kind are, in a few words: `12 comparisons of 8 fine labels, 1 fine label unknown`."""
    unknown = f", {kind.unknown:,} fine label{'s' if kind.unknown != 1 else ''} unknown" if kind.unknown else ""
    number = f"{kind.comparisons:,} comparison{'s' if kind.comparisons != 1 else ''}"
    return f"{number} of {len(kind.order):,} fine labels{unknown}"


def _compared_order(ordered: OrderFit, fine: tuple[str, ...], comparisons: list[Comparison]) -> ComparedKind:
    """The result for an ordered kind: values are steps, those of the labels themselves where there are some."""
    found = _compared(ordered.fit, fine, comparisons, ordered.steps)
    return replace(
        found,
        unit=STEPS if ordered.steps is not None else "",
        unknown=int(ordered.kind.unknown.sum()),
        filled=ordered.filled,
        doubted=ordered.doubted,
    )


def _compared(
    fit: ComparisonFit, fine: tuple[str, ...], comparisons: list[Comparison], known: Number | None
) -> ComparedKind:
    """The result for one kind, some of whose values may have been known."""
    number = fit.number
    values = {} if known is None else dict(zip(fine, known.values.tolist(), strict=True))
    values = {name: value for name, value in values.items() if not math.isnan(value)}
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
        conflicts=find_conflicts(number.name, comparisons, values),
    )
