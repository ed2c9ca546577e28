"""The labels that the page of a report names, with numbers of their own: a page holds no names that it does not show.

Of the fine labels these are the true ones, those that a run answers, also as a lower answer or as a sure one, and those
with training photos. Of a kind they are the parents of such fine labels, the true ones, those that a run answers or
states, and both labels of a binary kind. Their order stays. Cost: linear in the photos x kinds, and in the labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped
from numpy.typing import NDArray

from finegraph.graph import LabelGraph
from finegraph.reports.orders import first_parents
from finegraph.reports.run_results import RunResults

Numbers = NDArray[np.int64]
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class ShownLabels:
    """Some of the labels of a level, and their new numbers.

    Attributes:
        numbers: the labels that are shown, in their order.
        places: the new number of each label, -1 for those that are left out.
    """

    numbers: Int[Numbers, " item"]
    places: Int[Numbers, " _"]

    @classmethod
    def of(cls, count: int, used: Iterable[Shaped[Array, " ..."]]) -> ShownLabels:
        """Those that occur; negative numbers and those that are not finite stand for none.

        Args:
            count: how many labels there are.
            used: arrays of labels.
        """
        occurs = np.zeros(count, dtype=bool)
        for labels in used:
            flat = np.asarray(labels, dtype=np.float64).reshape(-1)
            occurs[flat[(flat >= 0) & np.isfinite(flat)].astype(np.int64)] = True
        return cls(np.flatnonzero(occurs), np.where(occurs, np.cumsum(occurs) - 1, -1))

    def __len__(self) -> int:
        return len(self.numbers)

    def names(self, labels: Sequence[str]) -> list[str]:
        """The names of those that are shown."""
        return [labels[number] for number in self.numbers.tolist()]

    def renumbered(self, labels: Int[NDArray[np.integer], " ..."]) -> Int[NDArray[np.integer], " ..."]:
        """Labels by their new numbers; negative ones stay."""
        known = labels >= 0
        return np.where(known, self.places[np.where(known, labels, 0)], labels) if len(self.places) else labels

    def ordered(self, order: Int[Numbers, " _"]) -> Int[Numbers, " item"]:
        """An order of all labels as one of those that are shown."""
        places = self.places[order]
        return places[places >= 0]


def shown_fine(runs: Sequence[RunResults], truth: Int[Numbers, " photo"], trained: Iterable[int]) -> ShownLabels:
    """The fine labels of a page.

    Args:
        runs: on the same photos.
        truth: the true fine labels; negative ones are not known.
        trained: the fine labels with training photos.
    """
    used = [truth, np.fromiter(trained, dtype=np.int64)]
    for run in runs:
        level, label = run.arrays["sure_level"], run.arrays["sure_label"]
        used += [run.arrays["predicted"], run.arrays["top_labels"], label[level == 0]]
    return ShownLabels.of(len(runs[0].graph), used)


def shown_of_kind(runs: Sequence[RunResults], graph: LabelGraph, kind: str, fine: ShownLabels) -> ShownLabels:
    """The labels of a kind on a page.

    Args:
        runs: on the same photos; those whose graph has other labels of the kind do not count.
        graph: the graph that says what the labels are.
        kind: its name.
        fine: the fine labels of the page.
    """
    labels = graph.labels(kind)
    used: list[Array] = [first_parents(graph, kind)[fine.numbers]]
    if graph.kind(kind).binary:
        used.append(np.arange(len(labels)))
    for run in runs:
        if kind in run.graph.kinds and run.graph.labels(kind) == labels:
            place = run.graph.kinds.index(kind)
            used += [run.arrays["kinds_true"][:, place], run.arrays["kinds_predicted"][:, place]]
            stated = run.arrays["sure_level"] == place + 1
            ends = (run.arrays.get(f"sure_{name}") for name in ("label", "low", "high"))
            used += [end[stated] for end in ends if end is not None]
    return ShownLabels.of(len(labels), used)


def renumbered_sure(run: RunResults, shown: Mapping[int, ShownLabels]) -> dict[str, Shaped[Array, " photo"]]:
    """The labels of sure answers and the ends of those that are ranges, by new numbers.

    Args:
        run: one of the runs.
        shown: the labels of each level whose labels the page shows: 0 for fine labels, then the kinds of the run.
    """
    level = run.arrays["sure_level"]
    found = {}
    for name in ("label", "low", "high"):
        if (values := run.arrays.get(f"sure_{name}")) is None:
            continue
        found[name] = values = values.copy()
        for number, labels in shown.items():
            rows = np.flatnonzero((level == number) & (values >= 0))
            values[rows] = labels.renumbered(values[rows].astype(np.int64))
    return found
