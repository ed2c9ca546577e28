r"""Comparisons of an ordered kind: labels for what has none, and labels that comparisons contradict.

Labels count as values in even steps, 1 for the first; a label covers the step around its value, so its spread is that
of a value drawn evenly from it. `fit_comparisons` takes these as known values. A fine label without a label then gets
the label nearest to its fitted value.

A label is doubted if at least two votes more contradict it than support it, given the labels of the others. Of two
that contradict each other, the one with more votes against it is doubted, and it no longer counts for the others; with
as many against either, neither is. What comparisons make of doubted labels is fitted as if these were unknown. Cost:
that of two fits, and linear in the pairs for each doubted label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from finegraph.graph.comparison_fit import ComparisonFit, fit_comparisons
from finegraph.graph.comparisons import Comparison
from finegraph.graph.kind import Kind
from finegraph.graph.number import Number

_MIN_NET_VOTES = 2
"""By how many votes at least a label is contradicted before it is doubted."""


@dataclass(frozen=True)
class DoubtedLabel:
    """A fine label with the label of the graph, and the one that comparisons put it at."""

    fine: str
    label: str
    compared: str


@dataclass(frozen=True, eq=False)
class OrderFit:
    """Comparisons of an ordered kind, fitted.

    Attributes:
        kind: the kind; fine labels that had no label and were compared have one now.
        fit: the values in steps; on the scale of the comparisons if no fine label has a label.
        steps: the labels as values; None if no fine label has one.
        filled: by fine label, the labels that are new.
        doubted: labels that comparisons contradict.
    """

    kind: Kind
    fit: ComparisonFit
    steps: Number | None
    filled: dict[str, str]
    doubted: tuple[DoubtedLabel, ...]


def fit_order(kind: Kind, fine: Sequence[str], comparisons: Iterable[Comparison]) -> OrderFit:
    """Fit comparisons of an ordered kind.

    Args:
        kind: the kind.
        fine: the fine labels.
        comparisons: of any kinds; those of other kinds are ignored. See `fit_comparisons`.

    Raises:
        UnknownNameError: a comparison of something else.
        InputError: no comparison of this kind.
    """
    rows = [kind.coarse[kind.starts[row] : kind.starts[row + 1]].tolist() for row in range(len(fine))]
    steps = steps_of(kind.name, rows)
    own = [one for one in comparisons if one.kind == kind.name]
    fit = fit_comparisons(kind.name, fine, own, known=steps)
    if steps is None:
        return OrderFit(kind, fit, None, {}, ())
    filled = {row: label for row, label in _nearest(kind, fit, steps).items() if not rows[row]}
    named = {fine[row]: kind.labels[label] for row, label in filled.items()}
    doubted = []
    if suspects := _contradicted(own, {fine[row]: place[0] for row, place in enumerate(rows) if len(place) == 1}):
        others = [[] if fine[row] in suspects else place for row, place in enumerate(rows)]
        if (other_steps := steps_of(kind.name, others)) is not None:
            again = fit_comparisons(kind.name, fine, own, known=other_steps)
            for row, label in _nearest(kind, again, other_steps).items():
                if fine[row] in suspects and label != rows[row][0]:
                    doubted.append(DoubtedLabel(fine[row], kind.labels[rows[row][0]], kind.labels[label]))
    return OrderFit(_with_labels(kind, filled), fit, steps, named, tuple(doubted))


def _contradicted(comparisons: Iterable[Comparison], place: Mapping[str, int]) -> set[str]:
    """The fine labels whose labels comparisons contradict; `place` has the place of each label in the order."""
    votes = Counter((one.more, one.less) for one in comparisons if not one.same)
    apart = {pair: count for pair, count in votes.items() if place.get(pair[0], -1) != place.get(pair[1], -1)}
    apart = {pair: count for pair, count in apart.items() if pair[0] in place and pair[1] in place}
    found: set[str] = set()
    undecided: set[str] = set()
    while True:
        against: Counter[str] = Counter()
        opposed: dict[str, set[str]] = {}
        for (more, less), count in apart.items():
            if not found & {more, less}:
                wrong = place[more] < place[less]
                for one, other in ((more, less), (less, more)):
                    against[one] += count if wrong else -count
                    if wrong:
                        opposed.setdefault(one, set()).add(other)
        open_names = [name for name in against if against[name] >= _MIN_NET_VOTES and name not in undecided]
        if not open_names:
            return found
        worst = max(open_names, key=lambda name: against[name])
        if any(against[other] >= against[worst] for other in opposed[worst]):
            undecided.add(worst)
        else:
            found.add(worst)


def steps_of(name: str, places: Sequence[Sequence[int]]) -> Number | None:
    """Ordered labels as values in even steps: the first label is 1, the second 2.

    Args:
        name: the kind.
        places: for each fine label, the positions of its labels in their order; empty if it is unknown.
    """
    values = np.array([np.mean(steps) + 1.0 if len(steps) else np.nan for steps in places], dtype=np.float64)
    wide = np.array([np.ptp(steps) + 1.0 if len(steps) else 0.0 for steps in places], dtype=np.float64)
    return None if np.isnan(values).all() else Number(name, values, wide / np.sqrt(12))


def _nearest(kind: Kind, fit: ComparisonFit, steps: Number) -> dict[int, int]:
    """The label nearest to the fitted value of each fine label that was compared."""
    places = np.clip(np.rint(fit.in_unit(steps)[0]) - 1, 0, len(kind.labels) - 1).astype(np.int64)
    return dict(zip(fit.items.tolist(), places.tolist(), strict=True))


def _with_labels(kind: Kind, filled: dict[int, int]) -> Kind:
    """The kind with one parent for each of these unknown rows."""
    rows = np.array(sorted(filled), dtype=np.int64)
    places = kind.starts[rows]
    sizes = np.diff(kind.starts)
    sizes[rows] = 1
    return replace(
        kind,
        starts=np.concatenate([[0], np.cumsum(sizes)]),
        coarse=np.insert(kind.coarse, places, [filled[row] for row in rows.tolist()]),
        weight=np.insert(kind.weight, places, 1.0),
    )
