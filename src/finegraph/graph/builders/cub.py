"""The label graph of CUB-200-2011: 200 bird species and what they look like.

The data set describes each species by 312 attributes in 28 groups ("bill shape": dagger, hooked, ...), each with the
percentage of people who saw it. It gives two graphs:

    "choice"    the paper's: one kind per group, the parent is the choice with the highest percentage
    "percent"   one binary kind per attribute, with the percentage as the weight of `yes`

Fine labels keep the number in front (`001.Black_footed_Albatross`), because the folders of the photos are called so.
How many species and attributes there are is taken from the files, so that parts of the data set work too. The data set
has no genus, family or order; add such kinds with `LabelGraph.with_kind`. Cost: linear in the table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from finegraph.errors import InputError, unknown_name
from finegraph.graph.builders.text_files import SourceFaults, read_lines
from finegraph.graph.faults import FaultList
from finegraph.graph.kind import BINARY_LABELS, FloatArray, Kind
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.names import kind_name_fault, name_fault

_OFFICIAL_CLASSES, _OFFICIAL_ATTRIBUTES = 200, 312
_SIZE = "size"
_PERCENT_FILE = Path("attributes") / "class_attribute_labels_continuous.txt"
_ATTRIBUTE_FILES = (Path("attributes") / "attributes.txt", Path("attributes.txt"), Path("..") / "attributes.txt")
"""Where the names of the attributes may be: the archive has them beside its folder, and people move them inside."""


def graph_from_cub(
    folder: str | os.PathLike[str],
    attributes: Literal["choice", "percent"] = "choice",
    groups: Sequence[str] | None = None,
    ordered: bool = False,
) -> LabelGraph:
    """The graph of a folder with the layout of CUB-200-2011.

    Args:
        folder: the folder with `classes.txt` in it, usually called `CUB_200_2011`.
        attributes: "choice" for one kind per group, with the most confident choice as the parent (the first one where
            several are equal, unknown where all are 0); "percent" for one weighted binary kind per attribute.
        groups: only these groups, in this order, such as `["bill shape", "wing color"]`; by default all.
        ordered: whether the choices of `size`, from "very small (3 - 5 in)" to "very large (32 - 72 in)", are in rising
            order; for "choice" only. By default they are not, so that graphs of earlier runs stay what they are.

    Raises:
        GraphFileError: files that are missing or wrong, all faults at once.
        UnknownNameError: a group that the data set does not have.
    """
    if attributes not in ("choice", "percent"):
        raise InputError(f"attributes must be 'choice' or 'percent', got {attributes!r}")
    if ordered and attributes != "choice":
        raise InputError("ordered sizes are one kind, so they need attributes='choice', got attributes='percent'")
    folder = Path(folder)
    fine, named, percent = _read(folder)
    members: dict[str, list[int]] = {}
    for column, (group, _) in enumerate(named):
        members.setdefault(group, []).append(column)
    kinds: list[Kind] = []
    for group in members if groups is None else groups:
        if group not in members:
            raise unknown_name("group of attributes", group, tuple(members))
        labels = [named[column][1] for column in members[group]]
        table = percent[:, members[group]]
        if ordered and group == _SIZE:
            kinds.append(_sizes(labels, table))
            continue
        kinds += [_choice(group, labels, table)] if attributes == "choice" else _binary(group, labels, table)
    return LabelGraph(fine, kinds)


def _read(folder: Path) -> tuple[list[str], list[tuple[str, str]], FloatArray]:
    """The fine labels, the group and label of each attribute, and the percentages (fine x attribute)."""
    faults = SourceFaults(f"the CUB folder {folder}")
    path = folder / "classes.txt"
    fine = read_fine_labels(path, faults.of(path))
    place = attribute_file(folder, faults.of(folder))
    named = read_attributes(place, faults.of(place)) if place else None
    path = folder / _PERCENT_FILE
    counts = (None if fine is None else len(fine), None if named is None else len(named))
    percent = _read_percent(path, *counts, faults.of(path))
    faults.raise_if_any()
    assert fine is not None, "a file that cannot be read has noted a fault"
    assert named is not None, "a file that cannot be read has noted a fault"
    assert percent is not None, "a file that cannot be read has noted a fault"
    return fine, named, percent


def _choice(group: str, labels: list[str], percent: FloatArray) -> Kind:
    """The group as one kind; its labels are all choices, even those that are no species' first choice."""
    parents = percent.argmax(axis=1)
    parents[percent.max(axis=1) == 0] = -1
    return Kind.from_parents(group, labels, parents)


def _sizes(labels: list[str], percent: FloatArray) -> Kind:
    """The sizes in rising order of the first number that a choice names."""
    inches = [re.search(r"[0-9]+(?:\.[0-9]+)?", label) for label in labels]
    if not all(inches) or len(labels) < 2:
        raise InputError(f"the choices of {_SIZE!r} cannot be put in order, since not all name a number: {labels}")
    order = sorted(range(len(labels)), key=lambda place: float(found[0]) if (found := inches[place]) else 0.0)
    # Chosen in the order of the file, as without an order: where percentages are equal, the first one counts.
    parents = _choice(_SIZE, labels, percent).parents
    renumbered = np.where(parents < 0, -1, np.argsort(order)[parents])
    return replace(Kind.from_parents(_SIZE, [labels[place] for place in order], renumbered), ordered=True)


def _binary(group: str, labels: list[str], percent: FloatArray) -> list[Kind]:
    """One binary kind per attribute of the group, the percentage as the weight of `yes`."""
    yes = percent / 100
    return [
        Kind.from_matrix(group + GROUP_SEPARATOR + label, BINARY_LABELS, np.stack([1 - weight, weight], axis=1))
        for label, weight in zip(labels, yes.T, strict=True)
    ]


def read_fine_labels(path: Path, faults: FaultList) -> list[str] | None:
    """The fine labels, from lines such as `1 001.Black_footed_Albatross`."""
    numbered = read_numbered(path, "1 001.Black_footed_Albatross", faults)
    if numbered is None:
        return None
    first: dict[str, int] = {}
    for line, name in enumerate(numbered, start=1):
        if name and (fault := name_fault(name)):
            faults.add("bad-name", fault, line=line, value=name)
        if name and first.setdefault(name, line) != line:
            message = f"this class is already on line {first[name]}"
            faults.add("duplicate-fine", message, line=line, value=name, hint="each class needs a name of its own")
    return numbered


def attribute_file(folder: Path, faults: FaultList) -> Path | None:
    """The file with the names of the attributes."""
    places = [folder / place for place in _ATTRIBUTE_FILES]
    for path in places:
        if path.is_file():
            return path
    looked = "looked for " + ", ".join(str(place) for place in places)
    faults.add("missing-file", "there is no attributes.txt", hint=looked)
    return None


def read_attributes(path: Path, faults: FaultList) -> list[tuple[str, str]] | None:
    """Group and label of each attribute, from lines such as `1 has_bill_shape::dagger`."""
    numbered = read_numbered(path, "1 has_bill_shape::dagger", faults)
    if numbered is None:
        return None
    named: list[tuple[str, str]] = []
    first: dict[tuple[str, str], int] = {}
    for line, text in enumerate(numbered, start=1):
        group, mark, label = text.partition("::")
        pair = group.removeprefix("has_").replace("_", " "), label.replace("_", " ")
        named.append(pair)
        if not text:
            continue
        if not mark:
            faults.add("bad-attribute", "expected 'group::choice'", line=line, value=text)
        elif fault := kind_name_fault(pair[0]) or name_fault(pair[1]):
            faults.add("bad-name", fault, line=line, value=text)
        elif first.setdefault(pair, line) != line:
            message = f"this attribute is already on line {first[pair]}"
            faults.add("duplicate-attribute", message, line=line, value=text)
    return named


def read_numbered(path: Path, example: str, faults: FaultList) -> list[str] | None:
    """The text after the number on each line; the numbers must count from 1. Empty if a line is wrong."""
    lines = read_lines(path, faults)
    if lines is None:
        return None
    if not lines:
        faults.add("empty-file", f"expected lines such as {example!r}, got an empty file", line=1)
    names = []
    for line, text in enumerate(lines, start=1):
        number, _, name = text.partition(" ")
        if number != str(line) or not name.strip():
            message = f"expected the number {line} and a name, as in {example!r}"
            faults.add("bad-line", message, line=line, value=text)
            name = ""
        names.append(name.rstrip())  # white space separates fields, so at the end of a line it has no meaning
    return names


def _read_percent(
    path: Path, fine_count: int | None, attribute_count: int | None, faults: FaultList
) -> FloatArray | None:
    """The percentages (fine x attribute): each line one class, each number one attribute."""
    lines = read_lines(path, faults)
    if lines is None:
        return None
    if fine_count is not None and len(lines) != fine_count:
        message = f"expected {fine_count} lines, one per class of classes.txt, got {len(lines)}"
        hint = f"the whole data set has {_OFFICIAL_CLASSES}"
        faults.add("wrong-count", message, line=min(len(lines), fine_count) + 1, hint=hint)
    rows = []
    for line, text in enumerate(lines, start=1):
        cells = text.split()
        if attribute_count is not None and len(cells) != attribute_count:
            message = f"expected {attribute_count} numbers, one per line of attributes.txt, got {len(cells)}"
            hint = f"the whole data set has {_OFFICIAL_ATTRIBUTES}"
            faults.add("wrong-count", message, line=line, hint=hint)
        rows.append([_percentage(cell, number, line, faults) for number, cell in enumerate(cells, start=1)])
    return None if len(faults) or attribute_count is None else np.array(rows, dtype=np.float64)


def _percentage(cell: str, number: int, line: int, faults: FaultList) -> float:
    """One percentage of the table."""
    try:
        value = float(cell)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        message = f"number {number} of the line must be a percentage from 0 to 100"
        faults.add("bad-percentage", message, line=line, value=cell)
    return value
