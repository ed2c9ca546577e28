"""From the cells of one column of a table to kinds.

A column is one kind, except where a cell lists several labels that hold at once ("tofu and pork"): then each label
becomes a binary kind of its own, named `column: label`. A column of nothing but yes and no is a binary kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from numbers import Real

import numpy as np

from finegraph.errors import GraphError
from finegraph.graph.kind import BINARY_LABELS, Kind

GROUP_SEPARATOR = ": "


@dataclass(frozen=True)
class TableCell:
    """The content of one cell of a table.

    Attributes:
        labels: the labels it names; an all-of cell without labels means that none of them holds.
        weights: one per label, or None for equal weights.
        all_of: whether the labels hold together (`tofu & pork`) rather than being one of several (`a|b`).
    """

    labels: tuple[str, ...]
    weights: tuple[float, ...] | None = None
    all_of: bool = False


def cell_of(value: object, where: str) -> TableCell | None:
    """The cell for a Python value.

    Text is one label, True and False are yes and no, None is unknown, a set is one of several parents, a mapping gives
    them weights, and a list or tuple means that all of its labels hold.
    """
    if value is None:
        return None
    if isinstance(value, bool | np.bool_):
        return TableCell((BINARY_LABELS[int(value)],))
    if isinstance(value, str):
        return TableCell((value,))
    if isinstance(value, Mapping):
        return _checked(TableCell(tuple(value), tuple(_number(weight, where) for weight in value.values())), where)
    if isinstance(value, AbstractSet):
        return _checked(TableCell(tuple(sorted(value, key=str))), where)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return _checked(TableCell(tuple(value), all_of=True), where)
    raise GraphError(
        f"{where}: expected text, True, False, None (unknown), a set (one of), a mapping (weights) or a list (all of); "
        f"got {type(value).__name__}{_number_hint(value)}"
    )


def _number_hint(value: object) -> str:
    """What to do with a number where a label is expected."""
    return "; for a column of numbers give types={'price': 'number'}" if isinstance(value, Real) else ""


def cells_of(name: str, values: Mapping[str, object]) -> list[TableCell | None]:
    """The cells of one column, from a Python value per fine label.

    True and False make a binary kind, so its other labels must be yes and no.
    """
    cells = {fine: cell_of(value, f"fine label {fine!r}, kind {name!r}") for fine, value in values.items()}
    truths = [(fine, value) for fine, value in values.items() if isinstance(value, bool | np.bool_)]
    for fine, cell in cells.items() if truths else ():
        other = [label for label in cell.labels if label not in BINARY_LABELS] if cell else []
        if other:
            raise GraphError(
                f"kind {name!r}: fine label {truths[0][0]!r} has {truths[0][1]}, which makes it a binary kind of yes "
                f"and no, but {fine!r} has the label {other[0]!r}; write every label of this kind as text"
            )
    return list(cells.values())


def _number(weight: object, where: str) -> float:
    """A weight as a number."""
    if isinstance(weight, Real) and not isinstance(weight, bool):
        return float(weight)
    raise GraphError(f"{where}: a weight must be a number, got {type(weight).__name__}")


def _checked(cell: TableCell, where: str) -> TableCell:
    """The cell, after checking its labels."""
    for label in cell.labels:
        if not isinstance(label, str):
            raise GraphError(f"{where}: a label must be text, got {type(label).__name__}")
    if not cell.labels and not cell.all_of:
        raise GraphError(f"{where}: no label to choose from; use None for unknown")
    if len(set(cell.labels)) != len(cell.labels):
        raise GraphError(f"{where}: a label is listed twice")
    return cell


def kinds_of_column(name: str, cells: Sequence[TableCell | None], labels: Sequence[str] | None = None) -> list[Kind]:
    """The kind, or for an all-of column the group of binary kinds, that a column describes.

    Args:
        name: the name of the column.
        cells: one per fine label; None is unknown.
        labels: the labels of the column in order; by default those that occur, in order of appearance.
    """
    if any(cell is not None and cell.all_of for cell in cells):
        return _group(name, cells, labels)
    named = list(dict.fromkeys(label for cell in cells if cell for label in cell.labels))
    if labels is None:
        labels = BINARY_LABELS if named and set(named) <= set(BINARY_LABELS) else named
    if not labels:
        raise GraphError(f"kind {name!r} is unknown for every fine label; leave the kind out")
    position = {label: index for index, label in enumerate(labels)}
    coarse, weight, sizes = [], [], []
    for cell in cells:
        sizes.append(len(cell.labels) if cell else 0)
        if cell:
            coarse += [position[label] for label in cell.labels]
            weight += list(cell.weights) if cell.weights else [1.0 / len(cell.labels)] * len(cell.labels)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return [Kind(name, tuple(labels), starts, np.array(coarse, np.int64), np.array(weight, np.float64))]


def _group(name: str, cells: Sequence[TableCell | None], labels: Sequence[str] | None) -> list[Kind]:
    """The binary kinds of an all-of column."""
    for cell in cells:
        if cell and not cell.all_of and len(cell.labels) != 1:
            raise GraphError(
                f"{name!r} mixes cells that mean all of several labels with cells that mean one of several"
            )
    if labels is None:
        labels = list(dict.fromkeys(label for cell in cells if cell for label in cell.labels))
    if not labels:
        raise GraphError(f"{name!r} is a group without labels: every known cell says 'none of them'; leave it out")
    members = [set(cell.labels) if cell else None for cell in cells]
    return [
        Kind.from_parents(
            name + GROUP_SEPARATOR + label,
            BINARY_LABELS,
            np.array([-1 if member is None else int(label in member) for member in members], dtype=np.int64),
        )
        for label in labels
    ]
