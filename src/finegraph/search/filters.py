"""Which photos pass a filter: "restaurant is B", "dish is not mapo tofu".

A photo has the labels of a kind that were seen on it, else the parents of its fine label. It passes "is" if one of
its labels is among the wanted ones, and "is not" if its labels are known and none of them is. A photo of which
nothing is known passes neither. A number is that of the fine label: "price <= 12". Cost: one look at each photo per
kind; no photo is left to chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray

from finegraph.errors import InputError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.inference.evidence import FINE
from finegraph.inference.numbers.known_values import interval_of
from finegraph.search.photo_table import Table
from finegraph.search.segments import NONE

Where = Mapping[str, str | bool | AbstractSet[str | bool] | tuple[str, ...] | list[str]]
"""Per kind (or `"fine"`) a label, or several of which it is to be one."""


def selection(
    table: Table, where: Where | None, where_not: Where | None, guessed: bool = False
) -> Bool[NDArray[np.bool_], " photo"] | None:
    """The photos that pass; None if there is no filter.

    Args:
        table: the photos.
        where: what their labels are to be.
        where_not: what their labels are not to be.
        guessed: whether a photo without a fine label counts as what the model takes it for.

    Raises:
        UnknownNameError: a kind or a label that is not there.
        InputError: something that is no label.
    """
    passing: NDArray[np.bool_] | None = None
    fine = table.fine(guessed)
    for wanted, positive in ((where, True), (where_not, False)):
        for kind, labels in (wanted or {}).items():
            if kind in table.graph.numbers:
                matches = _passes_condition(table, fine, kind, labels, positive)
            else:
                matches = _passes(table, fine, kind, _numbers(table, kind, labels), positive)
            passing = matches if passing is None else passing & matches
    return passing


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


def _passes_condition(
    table: Table, fine: NDArray[np.int32], name: str, condition: object, positive: bool
) -> NDArray[np.bool_]:
    """Which photos have, or surely do not have, a value that fulfils a condition: the value of their fine label."""
    number = table.graph.number(name)
    low, high = wanted_interval(table.graph, name, condition)
    values, _ = number.standardised
    inside = np.append(number.known & (values >= low) & (values <= high), False)
    known = np.append(number.known, False)
    # The last entry is for labels that the graph does not have, and for none.
    place = np.where((fine >= 0) & (fine < number.fine_count), fine, number.fine_count)
    passes: NDArray[np.bool_] = inside[place] if positive else known[place] & ~inside[place]
    return passes


def _passes(table: Table, fine: NDArray[np.int32], kind: str, numbers: set[int], positive: bool) -> NDArray[np.bool_]:
    """Which photos have, or surely do not have, one of some labels of a kind."""
    if kind == FINE:
        has = np.isin(fine, list(numbers))
        return has if positive else ~has & (fine != NONE)
    edges = table.graph.kind(kind)
    hit = np.isin(edges.coarse, list(numbers))
    owners = np.repeat(np.arange(edges.fine_count), np.diff(edges.starts))
    # The last entry is for labels that the graph does not have, and for none.
    of_fine = np.zeros(edges.fine_count + 1, np.bool_)
    of_fine[owners[hit]] = True
    known_fine = np.append(np.diff(edges.starts) > 0, False)
    place = np.where((fine >= 0) & (fine < edges.fine_count), fine, edges.fine_count)
    has, known = of_fine[place], known_fine[place]
    seen = table.seen.get(kind)
    if seen is not None:
        has = np.where(seen != NONE, np.isin(seen, list(numbers)), has)
        known = known | (seen != NONE)
    return has if positive else known & ~has


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
        InputError: something that is no label.
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
        InputError: something that is no label.
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
