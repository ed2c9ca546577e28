"""The sure answers of many photos: how specific they are, how often there is none, and how often they are wrong.

A posterior states the most specific thing that it believes with probability 1 - risk at least. Whether it may be
believed is measured: the realised risk is the share of statements that are wrong. It should be at most the risk that
was asked for; if it is more, the posterior is too sure of itself, and a temperature helps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from finegraph.data.dataset import MISSING
from finegraph.evaluation.judgements import UNJUDGED, Indices, Judgements, judge_fine, judge_interval, judge_kind
from finegraph.evaluation.metrics import Numbers, accuracy
from finegraph.graph import LabelGraph, Number
from finegraph.inference import Statement

NOTHING, FINE_LEVEL = -1, 0
"""Levels of statements: none was sure enough, the fine label, and from 1 on the kinds, then the numbers, in order."""


class Statements(NamedTuple):
    """Sure answers, one per photo.

    Attributes:
        level: `NOTHING`, `FINE_LEVEL`, or the place of the kind or number plus 1.
        label: the number of the stated label in its level, of a range of labels the first; -1 where nothing is stated,
            and for numbers.
        probability: how sure it is; NaN where nothing is stated.
        right: whether it is; unjudged where nothing is stated or the truth is not known.
        low: the lower end of a range: the number of a label, or a value in the user's unit; NaN if it is no range.
        high: the upper end.
    """

    level: Int[Indices, " photo"]
    label: Int[Indices, " photo"]
    probability: Float[Numbers, " photo"]
    right: Int[Judgements, " photo"]
    low: Float[Numbers, " photo"]
    high: Float[Numbers, " photo"]


@dataclass(frozen=True, kw_only=True)
class Sure:
    """The sure answers at one risk.

    Attributes:
        risk: the share of wrong statements that was allowed.
        realised_risk: the share of wrong statements among those that can be judged.
        coverage: the share of photos with a statement.
        judged: how many statements can be judged.
        unjudged: how many cannot, as the label of that kind is not known.
        levels: for "fine", each kind and each number, the share of photos whose statement is of that level.
        wrong_at: for each of these, the share of wrong statements among those of that level that can be judged.
    """

    risk: float
    realised_risk: float | None
    coverage: float | None
    judged: int
    unjudged: int
    levels: dict[str, float]
    wrong_at: dict[str, float | None]


def judge_statements(
    graph: LabelGraph,
    statements: Sequence[Statement | None],
    fine: Int[Indices, " photo"],
    seen: Mapping[str, Int[Indices, " photo"]],
    measured: Mapping[str, Float[Numbers, " photo"]] | None = None,
) -> Statements:
    """Statements as numbers, judged.

    Args:
        graph: the label graph.
        statements: what `Posterior.answer` gave.
        fine: the true fine labels, `MISSING` where not known.
        seen: per kind the photo labels, `MISSING` where none was; they come before those of the graph.
        measured: per number the values that were measured on photos, NaN where none was; they come before those of the
            graph too.
    """
    level_of: dict[str | None, int] = {name: place for place, name in enumerate(_levels(graph)[1:], start=1)}
    level_of[None] = FINE_LEVEL
    level = np.array(
        [NOTHING if statement is None else level_of[statement.kind] for statement in statements], dtype=np.int32
    )
    label = np.array(
        [-1 if statement is None else _label(graph, statement) for statement in statements], dtype=np.int32
    )
    probability = np.array([np.nan if statement is None else statement.probability for statement in statements])
    low, high = (np.array([_end(graph, statement, side) for statement in statements]) for side in ("low", "high"))
    right = np.full(len(level), UNJUDGED, dtype=np.int8)
    for used in np.unique(level[level != NOTHING]).tolist():
        here = level == used
        if used == FINE_LEVEL:
            right[here] = judge_fine(label[here], fine[here])
        elif used > len(graph.kinds):
            name = graph.numbers[used - 1 - len(graph.kinds)]
            values = true_values(graph.number(name), fine[here], None if not measured else measured.get(name), here)
            right[here] = judge_interval(values, low[here], high[here])
        else:
            kind = graph.kinds[used - 1]
            single, range_here = here & np.isnan(low), here & ~np.isnan(low)
            for rows in (single, range_here):
                photo_labels = seen[kind][rows] if kind in seen else None
                ends = (low[rows], high[rows]) if rows is range_here else (label[rows], label[rows])
                right[rows] = _judge_run(graph, kind, *ends, fine[rows], photo_labels)
    return Statements(level, label, probability, right, low, high)


def _judge_run(
    graph: LabelGraph, kind: str, first: NDArray[Any], last: NDArray[Any], fine: Indices, seen: Indices | None
) -> Judgements:
    """Whether one of the labels from the first to the last is right."""
    judged = np.full(len(fine), UNJUDGED, dtype=np.int8)
    for step in range(int((last - first).max(initial=-1)) + 1):
        label = np.minimum(first + step, last).astype(np.int64)
        judged = np.maximum(judged, judge_kind(graph.kind(kind), label, fine, seen))
    return judged


def true_values(
    number: Number, fine: Int[Indices, " photo"], measured: Float[Numbers, " _"] | None, rows: Any = slice(None)
) -> Float[NDArray[np.float64], " photo"]:
    """The true values of photos: what was measured on them, else the values of their fine labels; NaN if not known.

    Args:
        number: what is measured.
        fine: the true fine labels, `MISSING` where not known.
        measured: the values measured on photos, NaN where there is none; None if none was.
        rows: which of these belong to `fine`.
    """
    true: NDArray[np.float64] = np.append(number.values, np.nan)[np.where(fine == MISSING, -1, fine)]
    if measured is None:
        return true
    measured_values = measured[rows].astype(np.float64)
    return np.where(np.isnan(measured_values), true, measured_values)


def sure_metrics(graph: LabelGraph, statements: Statements, risk: float) -> Sure:
    """The metrics of judged statements."""
    count = len(statements.level)
    stated = statements.level != NOTHING
    judged = int((statements.right != UNJUDGED).sum())
    right = accuracy(statements.right)
    names = _levels(graph)
    numbers = np.bincount(statements.level[stated], minlength=len(names)).tolist()
    return Sure(
        risk=risk,
        realised_risk=_wrong(right),
        coverage=float(stated.mean()) if count else None,
        judged=judged,
        unjudged=int(stated.sum()) - judged,
        levels={name: number / max(count, 1) for name, number in zip(names, numbers, strict=True)},
        wrong_at={
            name: _wrong(accuracy(statements.right[statements.level == level])) for level, name in enumerate(names)
        },
    )


def _levels(graph: LabelGraph) -> tuple[str, ...]:
    """The names of the levels from `FINE_LEVEL` on."""
    return ("fine", *graph.kinds, *graph.numbers)


def _label(graph: LabelGraph, statement: Statement) -> int:
    if statement.kind is None:
        return graph.fine_index(statement.label)
    if statement.kind in graph.numbers:
        return -1
    return graph.label_index(statement.kind, statement.label if statement.low is None else str(statement.low))


def _end(graph: LabelGraph, statement: Statement | None, side: Literal["low", "high"]) -> float:
    """An end of a range as a number; NaN if there is none."""
    end = None if statement is None else getattr(statement, side)
    if end is None or statement is None or statement.kind is None:
        return np.nan
    return float(graph.label_index(statement.kind, end)) if isinstance(end, str) else float(end)


def _wrong(right: float | None) -> float | None:
    return None if right is None else 1.0 - right
