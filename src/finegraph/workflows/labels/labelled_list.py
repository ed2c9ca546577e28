"""A list of photos with their fine labels, such as `suggest-photos` writes and a person fills in.

    path,label,guess,probability,gain,alike
    unlabelled/7.jpg,mapo tofu @ B,egg rice @ B,0.4100,0.012000,

Only `path` and `label` count, in any order among other columns. A row with an empty label is open and says nothing.
Paths hold from the working folder, or else from that of the file. Rows and quotes follow the rules of graph files.
Cost: each photo of a row with a label is opened, so that all faults are found before anything is taught.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from finegraph.data.photo_decoding import decode_photo, open_photo
from finegraph.errors import DataFileError, PhotoFileError, near_matches
from finegraph.graph import LabelGraph
from finegraph.graph.builders.text_files import SourceFaults, read_text
from finegraph.graph.faults import FaultList
from finegraph.graph.formats.cells import without_mark
from finegraph.graph.formats.csv_rows import rows

COLUMNS = ("path", "label")
_SMALL = (8, 8)
"""Pixels that are decoded of a large JPEG to see whether it can be read."""


@dataclass(frozen=True)
class LabelledRow:
    """A row with a label.

    Attributes:
        line: of the file.
        photo: the file of the photo.
        label: its fine label.
    """

    line: int
    photo: Path
    label: str


@dataclass(frozen=True)
class LabelledList:
    """The rows of a list that have a label, and how many have none."""

    rows: tuple[LabelledRow, ...]
    open: int


def read_labelled_list(path: str | os.PathLike[str], graph: LabelGraph) -> LabelledList:
    """Read a list.

    Args:
        path: the file.
        graph: has all fine labels that may be named.

    Raises:
        DataFileError: all faults of the file at once, with their lines and columns.
    """
    place = Path(path)
    source_faults = SourceFaults(f"the list {place}", DataFileError)
    faults = source_faults.of(place)
    lines = rows(read_text(place, faults) or "", faults)
    _, header = next(lines, (1, []))
    header = [name.strip() for name in header]
    if header or not source_faults:
        _check_header(header, faults)
    source_faults.raise_if_any()
    labelled: list[LabelledRow] = []
    first: dict[Path, LabelledRow] = {}
    left_open = 0
    for line, cells in lines:
        if len(cells) != len(header):
            continue  # a fault already
        row = dict(zip(header, cells, strict=True))
        name, label = without_mark(row["path"]), without_mark(row["label"].strip())
        if not label:
            left_open += 1
            continue
        if label not in graph.fine:
            _add_unknown(label, graph, line, faults)
        photo = _photo(name, place, line, faults)
        if photo is None:
            continue
        found = LabelledRow(line, photo, label)
        before = first.setdefault(photo, found)
        if before is not found and before.label != label:
            message = f"this photo is on line {before.line} as {before.label!r}"
            faults.add("two-labels", message, line=line, column="label", value=label, hint="empty one of the cells")
        elif before is found:
            labelled.append(found)
    source_faults.raise_if_any()
    return LabelledList(tuple(labelled), left_open)


def _check_header(header: list[str], faults: FaultList) -> None:
    """Note columns that are missing or there twice."""
    for name in COLUMNS:
        if header.count(name) > 1:
            faults.add(
                "duplicate-column", f"there are {header.count(name)} columns {name!r}", line=1, hint="remove one"
            )
        elif name not in header:
            near = near_matches(name, header)
            hint = f"rename {near[0]!r}" if near else "the first line names the columns: path,label"
            faults.add("missing-column", f"there is no column {name!r}", line=1, hint=hint)


def _add_unknown(label: str, graph: LabelGraph, line: int, faults: FaultList) -> None:
    near = " or ".join(repr(name) for name in near_matches(label, graph.fine))
    hint = (f"did you mean {near}? " if near else "") + "a new label is taught first, with its coarse labels"
    faults.add("unknown-label", "the model does not know this label", line=line, column="label", value=label, hint=hint)


def _photo(name: str, place: Path, line: int, faults: FaultList) -> Path | None:
    """The photo of a row; None, with a fault noted, if it cannot be read."""
    if not name:
        hint = "fill it in, or empty the label"
        faults.add("no-path", "the row names no photo", line=line, column="path", hint=hint)
        return None
    photo = Path(name)
    try:
        photo = photo if photo.exists() else place.parent / photo
        with open_photo(photo) as file:
            decode_photo(file, photo, at_least=_SMALL)
    except PhotoFileError as error:
        faults.add("unreadable-photo", error.reason, line=line, column="path", value=name)
        return None
    except ValueError:  # a NUL
        faults.add("bad-path", "this is no path", line=line, column="path", value=name)
        return None
    return photo
