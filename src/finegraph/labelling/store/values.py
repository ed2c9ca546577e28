"""Values of cells, and names of comparisons: from the form of callers to the form in the store, and back.

The store keeps a value as short JSON text of label numbers, in one canonical form, so that equal values are equal text:

    NULL              unknown
    [3]               one label                         [3,5] in a kind of mode "one": one of these
    [[3,0.7],[5,0.3]] one of several with weights       [3,5] in a kind of mode "all": these hold, the others do not

A comparison is known by who compared which two things, as one text:

    ["ann",3,17]                      two classes, by their numbers, the smaller first
    ["ann","a/1.jpg","b/2.jpg"]       two photos, by their keys

A person has one answer to a pair, whichever came first on the page; so the text has the two things in a fixed order,
and the outcome is stored for the first thing in the text. Equal comparisons have equal text.

Cost: linear in the labels of the cell.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from finegraph.errors import GraphError, InputError, unknown_name
from finegraph.graph.formats.cells import format_cell, parse_cell
from finegraph.graph.kind import BINARY_LABELS
from finegraph.graph.kind_columns import TableCell
from finegraph.labelling.store.records import CellValue, Mode, Outcome

_FORMS = "expected None (unknown), a label, {'one_of': [...]}, {'weights': {...}} or {'all_of': [...]}"
_NORMALISED = 1e-12
"""As in `Kind`: weights that sum to 1 within this stay as they are, so a graph that comes in goes out unchanged."""
Thing = int | str
"""The number of a class, or the key of a photo."""
_SWAPPED: dict[str, Outcome] = {"more": "less", "less": "more"}


def cell_of_value(value: object, mode: Mode, where: str) -> TableCell | None:
    """The cell of a value, in canonical form except for the order of its labels.

    Raises:
        InputError: the value has an unknown form, or one that the kind cannot have.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        value = BINARY_LABELS[int(value)]
    if isinstance(value, str):
        return TableCell((value,), all_of=mode == "all")
    if not isinstance(value, Mapping) or len(value) != 1:
        raise InputError(f"{where}: {_FORMS}; got {type(value).__name__}")
    [(form, content)] = value.items()
    if form == "all_of" and mode == "all":
        return TableCell(_names(content, where), all_of=True)
    if form in ("one_of", "weights") and mode == "one":
        return _one_of(content, where) if form == "one_of" else _weighted(content, where)
    if form in ("all_of", "one_of", "weights"):
        named = "labels that all hold" if mode == "all" else "one label"
        raise InputError(f"{where}: a cell of this kind names {named}, so {form!r} cannot be meant")
    raise InputError(f"{where}: {_FORMS}; got {form!r}")


def _names(content: object, where: str) -> tuple[str, ...]:
    if not isinstance(content, list | tuple) or not all(isinstance(name, str) for name in content):
        raise InputError(f"{where}: expected a list of labels, got {type(content).__name__}")
    if len(set(content)) != len(content):
        raise InputError(f"{where}: a label is listed twice")
    return tuple(content)


def _one_of(content: object, where: str) -> TableCell:
    names = _names(content, where)
    if not names:
        raise InputError(f"{where}: no label to choose from; None is unknown")
    return TableCell(names)


def _weighted(content: object, where: str) -> TableCell:
    if not isinstance(content, Mapping) or not content:
        raise InputError(f"{where}: expected weights by label, got {type(content).__name__}")
    weights = []
    for label, weight in content.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= sys.float_info.max:
            huge = isinstance(weight, int) and weight > sys.float_info.max
            got = "a larger number than can be kept" if huge else repr(weight)
            raise InputError(f"{where}: the weight of {label!r} must be a finite number above 0, got {got}")
        weights.append(float(weight))
    total = math.fsum(weights)
    if not total < math.inf or min(weights) / total == 0:
        raise InputError(f"{where}: the weights are too large or too far apart to be compared")
    return TableCell(_names(list(content), where), normalised(weights))


def normalised(weights: Sequence[float]) -> tuple[float, ...] | None:
    """Weights that sum to 1; None if they are all equal."""
    total = math.fsum(weights)
    scaled = (
        tuple(weights) if abs(total - 1.0) <= _NORMALISED and len(weights) > 1 else tuple(w / total for w in weights)
    )
    return None if all(weight == 1.0 / len(scaled) for weight in scaled) else scaled


def value_of_cell(cell: TableCell | None) -> CellValue:
    """The value that callers see."""
    if cell is None:
        return None
    if cell.all_of:
        return {"all_of": list(cell.labels)}
    if len(cell.labels) == 1:
        return cell.labels[0]
    if cell.weights is None:
        return {"one_of": list(cell.labels)}
    return {"weights": dict(zip(cell.labels, cell.weights, strict=True))}


def value_text(value: CellValue) -> str:
    """A value as written in the cell of a graph file; empty if it is unknown."""
    mode: Mode = "all" if isinstance(value, dict) and "all_of" in value else "one"
    return format_cell(cell_of_value(value, mode, "value"))


def parse_value_text(text: str, mode: Mode) -> CellValue:
    """The value of a text such as `a|b`, in a kind of the given mode.

    Raises:
        CellError: the text does not follow the syntax of graph files.
        GraphError: the cell has a form that the kind cannot have.
    """
    cell = parse_cell(text)
    if cell is None:
        return None
    if mode == "all":
        if not cell.all_of and len(cell.labels) > 1:
            raise GraphError(f"{text!r}: a cell of this kind names labels that all hold; join them by ' & '")
        return {"all_of": list(cell.labels)}
    if cell.all_of:
        raise GraphError(f"{text!r}: a cell of this kind names one label; join several possible ones by '|'")
    weights = None if cell.weights is None else normalised(cell.weights)
    return value_of_cell(TableCell(cell.labels, weights))


def encode(cell: TableCell | None, ids: Mapping[str, int], kind: str) -> str | None:
    """The text that the store keeps.

    Args:
        cell: what the cell says.
        ids: the number of each label of the kind.
        kind: the name of the kind, for messages.

    Raises:
        UnknownNameError: a label that the kind does not have.
    """
    if cell is None:
        return None
    for label in cell.labels:
        if label not in ids:
            raise unknown_name("label", label, tuple(ids), f"of kind {kind!r}")
    numbers = [ids[label] for label in cell.labels]
    if cell.weights is None:
        return dump(sorted(numbers))
    return dump(sorted([number, weight] for number, weight in zip(numbers, cell.weights, strict=True)))


def dump(content: Any) -> str:
    """JSON in the form that the store keeps: equal content gives equal text."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def parts_of(encoded: str) -> list[tuple[int, float | None]]:
    """The labels of a stored value with their weights; None without weights."""
    return [(part, None) if isinstance(part, int) else (part[0], part[1]) for part in json.loads(encoded)]


def encode_parts(parts: Sequence[tuple[int, float | None]], mode: Mode) -> str | None:
    """The stored value of labels with their weights; in a kind of mode "one", unknown if there are none."""
    if not parts and mode == "one":
        return None
    weights = [weight for _, weight in parts if weight is not None]
    scaled = normalised(weights) if weights and len(weights) == len(parts) else None
    if scaled is None:
        return dump(sorted(number for number, _ in parts))
    return dump(sorted([number, weight] for (number, _), weight in zip(parts, scaled, strict=True)))


def pair_text(person: str, one: Thing, two: Thing) -> str:
    """The text of a comparison; if `is_swapped`, the outcome must be swapped too."""
    return dump([person, two, one] if is_swapped(one, two) else [person, one, two])


def is_swapped(one: Thing, two: Thing) -> bool:
    """Whether the text of a comparison has the two things in the other order."""
    return one > two if isinstance(one, int) and isinstance(two, int) else str(one) > str(two)


def swapped_outcome(outcome: Outcome | None) -> Outcome | None:
    """The same outcome for the other order of the two things."""
    return None if outcome is None else _SWAPPED.get(outcome, outcome)


def parse_pair(text: str) -> tuple[str, Thing, Thing]:
    """The person and the two things."""
    person, one, two = json.loads(text)
    return cast(str, person), cast(Thing, one), cast(Thing, two)


def pair_words(one: str, two: str, outcome: str | None) -> str | None:
    """A comparison in short, such as `a > b`; None without an outcome."""
    sign = {"more": ">", "less": "<", "same": "=", "skip": "?"}
    return None if outcome is None else f"{one} {sign[outcome]} {two}"
