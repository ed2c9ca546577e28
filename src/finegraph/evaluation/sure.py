"""The sure answers of many photos: how specific they are, how often there is none, and how often they are wrong.

A posterior states the most specific thing that it believes with probability 1 - risk at least. Whether it may be
believed is measured: the realised risk is the share of statements that are wrong. It should be at most the risk that
was asked for; where it is more, the posterior is too sure of itself, and a temperature helps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from finegraph.evaluation.judgements import UNJUDGED, Indices, Judgements, judge_fine, judge_kind
from finegraph.evaluation.metrics import Numbers, accuracy
from finegraph.graph import LabelGraph
from finegraph.inference import Statement

NOTHING, FINE_LEVEL = -1, 0
"""Levels of statements: none was sure enough, the fine label, and from 1 on the kinds in their order."""


class Statements(NamedTuple):
    """Sure answers, one per photo.

    Attributes:
        level: `NOTHING`, `FINE_LEVEL`, or the number of the kind plus 1.
        label: the number of the stated label in its level; -1 where nothing is stated.
        probability: how sure it is; NaN where nothing is stated.
        right: whether it is; unjudged where nothing is stated or the truth is not known.
    """

    level: Int[Indices, " photo"]
    label: Int[Indices, " photo"]
    probability: Float[Numbers, " photo"]
    right: Int[Judgements, " photo"]


@dataclass(frozen=True, kw_only=True)
class Sure:
    """The sure answers at one risk.

    Attributes:
        risk: the share of wrong statements that was allowed.
        realised_risk: the share of wrong statements among those that can be judged.
        coverage: the share of photos with a statement.
        judged: how many statements can be judged.
        unjudged: how many cannot, as the label of that kind is not known.
        levels: for "fine" and each kind, the share of photos whose statement is of that level.
        wrong_at: for "fine" and each kind, the share of wrong statements among those of that level that can be judged.
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
) -> Statements:
    """Statements as numbers, judged.

    Args:
        graph: the label graph.
        statements: what `Posterior.answer` gave.
        fine: the true fine labels, `MISSING` where not known.
        seen: per kind the photo labels, `MISSING` where none was; they come before those of the graph.
    """
    level_of: dict[str | None, int] = {name: number for number, name in enumerate(graph.kinds, start=1)}
    level_of[None] = FINE_LEVEL
    level = np.array([NOTHING if one is None else level_of[one.kind] for one in statements], dtype=np.int32)
    label = np.array([-1 if one is None else _label(graph, one) for one in statements], dtype=np.int32)
    probability = np.array([np.nan if one is None else one.probability for one in statements])
    right = np.full(len(level), UNJUDGED, dtype=np.int8)
    for used in np.unique(level[level != NOTHING]).tolist():
        here = level == used
        if used == FINE_LEVEL:
            right[here] = judge_fine(label[here], fine[here])
        else:
            kind = graph.kinds[used - 1]
            own = seen[kind][here] if kind in seen else None
            right[here] = judge_kind(graph.kind(kind), label[here], fine[here], own)
    return Statements(level, label, probability, right)


def sure_metrics(graph: LabelGraph, statements: Statements, risk: float) -> Sure:
    """The metrics of judged statements."""
    count = len(statements.level)
    stated = statements.level != NOTHING
    judged = int((statements.right != UNJUDGED).sum())
    right = accuracy(statements.right)
    names = ("fine", *graph.kinds)
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


def _label(graph: LabelGraph, statement: Statement) -> int:
    if statement.kind is None:
        return graph.fine_index(statement.label)
    return graph.label_index(statement.kind, statement.label)


def _wrong(right: float | None) -> float | None:
    return None if right is None else 1.0 - right
