"""Which photos pass a filter: "restaurant is B", "dish is not mapo tofu".

A photo has the labels of a kind that were seen on it, else the parents of its fine label. It passes "is" if one of
its labels is among the wanted ones, and "is not" if its labels are known and none of them is. A photo without
known labels passes neither. A number is that of the fine label: "price <= 12". No photo is left to chance.

Where the lists of the table (`photo_table.py`) hold few photos that may pass one of the conditions, only these are
checked. Cost: one check of each of them per kind; else, one of each photo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from finegraph.errors import InputError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.inference.evidence import FINE
from finegraph.inference.numbers.known_values import interval_of
from finegraph.search.nearest import Numbers, Only
from finegraph.search.photo_table import Table
from finegraph.search.segments import NONE

Where = Mapping[str, str | bool | AbstractSet[str | bool] | tuple[str, ...] | list[str]]
"""Per kind (or `"fine"`) a label, or several of which it is to be one."""
_FEW = 4
"""Lists are used if they hold at most this part of all photos."""
_SORTED = 64
"""Photos of several lists are sorted if they are at most this part of all photos."""


def selection(table: Table, where: Where | None, where_not: Where | None, guessed: bool = False) -> Only | None:
    """The photos that pass; None if there is no filter.

    Args:
        table: the photos.
        where: what their labels are to be.
        where_not: what their labels are not to be.
        guessed: whether a photo without a fine label counts as what the model takes it for.

    Raises:
        UnknownNameError: a kind or a label that is not there.
        InputError: something that is not a label.
    """
    tests = [
        _Test(table, kind, labels, positive)
        for wanted, positive in ((where, True), (where_not, False))
        for kind, labels in (wanted or {}).items()
    ]
    if not tests:
        return None
    some = _fewest(table, [test for test in tests if test.positive])
    fine = table.fine(guessed, some)
    passing = np.ones(len(fine), np.bool_)
    for test in tests:
        passing &= test.passed(fine, some)
    return passing if some is None else some[passing]


def listed_photos(table: Table, labels: Int[Numbers, " label"]) -> Int[Numbers, " place"] | None:
    """The photos that have some fine labels or are assumed to, ascending; None if they are not few."""
    if int(table.by_label.sizes(labels).sum()) > len(table) // _FEW:
        return None
    return _united(table.by_label.of(labels.tolist()), len(table))


def _fewest(table: Table, tests: Sequence[_Test]) -> Numbers | None:
    """All photos that may pass the test that the fewest may pass; None if they are not few."""
    if not tests:
        return None
    sizes = [test.possible for test in tests]
    best = int(np.argmin(sizes))
    if sizes[best] > len(table) // _FEW:
        return None
    return _united(tests[best].listed(), len(table))


def _united(lists: list[NDArray[np.int32]], count: int) -> Numbers:
    """The photos that are in some lists, ascending."""
    size = sum(len(one) for one in lists)
    if size > count // _SORTED:  # marking all is quicker than sorting some
        mask = np.zeros(count, np.bool_)
        for photos in lists:
            mask[photos] = True
        return np.flatnonzero(mask)
    return np.unique(np.concatenate(lists)).astype(np.int64) if lists else np.zeros(0, np.int64)


class _Test:
    """One condition of a filter: the fine labels that fulfil it, those of which it is known, and labels that were seen.

    The last entry of `has` and `known` is for labels that the graph does not have, and for none.
    """

    def __init__(self, table: Table, kind: str, wanted: object, positive: bool) -> None:
        self.positive = positive
        self._table, self._kind = table, kind
        self._numbers: list[int] = []
        graph = table.graph
        if kind in graph.numbers:
            number = graph.number(kind)
            low, high = wanted_interval(graph, kind, wanted)
            values, _ = number.standardised
            self.has = np.append(number.known & (values >= low) & (values <= high), False)
            self.known = np.append(number.known, False)
        elif kind == FINE:
            self.has = np.zeros(len(table.names) + 1, np.bool_)
            self.has[list(_numbers(table, kind, wanted))] = True
            self.known = np.append(np.ones(len(table.names), np.bool_), False)
        else:
            self._numbers = sorted(_numbers(table, kind, wanted))
            edges = graph.kind(kind)
            owners = np.repeat(np.arange(edges.fine_count), np.diff(edges.starts))
            self.has = np.zeros(edges.fine_count + 1, np.bool_)
            self.has[owners[np.isin(edges.coarse, self._numbers)]] = True
            self.known = np.append(np.diff(edges.starts) > 0, False)

    def passed(self, fine: NDArray[np.int32], some: Numbers | None) -> NDArray[np.bool_]:
        """Which of all photos, or of some, have, or surely do not have, what is wanted."""
        last = len(self.has) - 1
        place = np.where((fine >= 0) & (fine < last), fine, last)
        has, known = self.has[place], self.known[place]
        seen = self._table.seen.get(self._kind)
        if seen is not None:
            seen = seen if some is None else seen[some]
            has = np.where(seen != NONE, np.isin(seen, self._numbers), has)
            known = known | (seen != NONE)
        return has if self.positive else known & ~has

    @property
    def possible(self) -> int:
        """How many photos may have what is wanted, at most."""
        sizes = self._table.by_label.sizes(np.flatnonzero(self.has)).sum()
        if self._kind in self._table.seen:
            sizes += self._table.by_seen[self._kind].sizes(np.array(self._numbers, np.int64)).sum()
        return int(sizes)

    def listed(self) -> list[NDArray[np.int32]]:
        """These photos, in lists."""
        lists = self._table.by_label.of(np.flatnonzero(self.has).tolist())
        if self._kind in self._table.seen:
            lists += self._table.by_seen[self._kind].of(self._numbers)
        return lists


def agreeing(where: Where | None, given: Mapping[str, object]) -> dict[str, AbstractSet[str | bool]]:
    """A filter that photos pass which also agree with what is known.

    Args:
        where: the filter so far.
        given: what is known, by kind: a label, or a set of which it is one.

    Raises:
        InputError: evidence of another form, or a kind in which none of the wanted labels agrees with it.
    """
    conditions = {kind: _as_set(kind, labels) for kind, labels in (where or {}).items()}
    for kind, labels in given.items():
        if labels is None:
            continue
        known = _as_set(kind, labels)
        both = known & conditions.get(kind, known)
        if not both:
            raise InputError(f"no {kind} that is asked for agrees with what is given; correct one of the two")
        conditions[kind] = both
    return conditions


def _as_set(kind: str, labels: object) -> AbstractSet[str | bool]:
    if isinstance(labels, str | bool):
        return {labels}
    if isinstance(labels, AbstractSet | tuple):
        return set(labels)
    raise InputError(
        f"photos that agree with what is given on {kind!r}: expected a label or a set of labels, got "
        f"{type(labels).__name__}; ask for the same or another label instead"
    )


def wanted_interval(graph: LabelGraph, name: str, condition: object) -> tuple[float, float]:
    """The values that a filter on a number lets pass, from and to, on the inner scale.

    Raises:
        InputError: several conditions, or something that is none.
    """
    if isinstance(condition, AbstractSet | list | tuple) and all(isinstance(label, str) for label in condition):
        if len(condition) != 1:
            raise InputError(f"the filter on {name!r}: expected one condition, such as '<= 15', got {len(condition)}")
        (condition,) = condition
    return interval_of(graph.number(name), condition)


def wanted_labels(kind: str, labels: object) -> list[str | bool]:
    """The labels that a filter names.

    Raises:
        InputError: something that is not a label.
    """
    given = labels if isinstance(labels, AbstractSet | tuple | list) else [labels]
    several = [label for label in given if isinstance(label, str | bool)]
    if not several or len(several) < len(given):
        raise InputError(f"the filter on {kind!r}: expected a label or a set of labels, got {labels!r}")
    return several


def label_numbers(graph: LabelGraph, kind: str, labels: object) -> set[int]:
    """The numbers of the labels of a kind that a filter names.

    Raises:
        UnknownNameError: a kind or a label that the graph does not have.
        InputError: something that is not a label.
    """
    several = wanted_labels(kind, labels)
    if kind not in graph.kinds:
        raise unknown_name("kind", kind, (*graph.kinds, FINE))
    return {graph.label_index(kind, label) for label in several}


def _numbers(table: Table, kind: str, labels: object) -> set[int]:
    """The numbers of the labels that a filter names."""
    if kind != FINE:
        return label_numbers(table.graph, kind, labels)
    several = wanted_labels(kind, labels)
    number_of = {name: number for number, name in enumerate(table.names)}
    for label in several:
        if label not in number_of:
            raise unknown_name("fine label", label, table.names)
    return {number_of[label] for label in several if isinstance(label, str)}
