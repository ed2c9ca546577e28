"""What there is to say of a kind of numbers: range, mean, how many are unknown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from finegraph.graph.graph_like import GraphLike
from finegraph.graph.number import Number, Scale


@dataclass(frozen=True, kw_only=True)
class NumberSummary:
    """The most important values of a kind of numbers, in the user's unit; None where nothing is known.

    Attributes:
        name: what is measured.
        scale: whether differences count ("linear") or ratios ("log").
        unit: what the values are counted in; may be empty.
        known: the fine labels with a value.
        unknown: those without.
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
