"""Samples of a manifest: a CSV file with one row per photo.

    path,label,split,x,y,width,height,dish
    1.jpg,mapo tofu @ A,train,10,20,200,180,mapo tofu

Only `path` and `label` must be there. An empty cell says nothing: no fine label, no split, the whole photo, no label of
the kind. Paths are relative to the folder of the manifest. Further columns are kinds with labels seen on the single
photo or, with `price [number, EUR]` as their name, values measured on it. A photo may have several rows with different
boxes. Rows and quotes follow the rules of graph files. Whether the photos exist is not asked here. Cost: linear in the
cells.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

from finegraph.data.samples import Box, Sample, Samples
from finegraph.errors import DataFileError, near_matches
from finegraph.graph.builders.manifest import check_cell, check_header, column_of
from finegraph.graph.builders.text_files import SourceFaults, read_text
from finegraph.graph.faults import FaultList
from finegraph.graph.formats.column_types import NumberType, OrderType
from finegraph.graph.formats.csv_rows import rows
from finegraph.graph.names import RESERVED_KINDS, name_fault

BOX_COLUMNS = ("x", "y", "width", "height")


def read_manifest(path: str | os.PathLike[str]) -> Samples:
    """The samples of a manifest.

    Raises:
        DataFileError: all faults of the file at once, with their lines.
    """
    path = Path(path)
    source_faults = SourceFaults(f"the manifest {path}", DataFileError)
    faults = source_faults.of(path)
    lines = rows(read_text(path, faults) or "", faults)
    _, named = next(lines, (1, []))
    header, types = [column_of(cell)[0] for cell in named], dict(map(column_of, named))
    check_header(header, faults)
    _check_columns(header, faults)
    source_faults.raise_if_any()
    numbers = {name: type_ for name, type_ in types.items() if isinstance(type_, NumberType)}
    kinds = [name for name in header if name not in RESERVED_KINDS and name not in numbers]
    orders = {name: type_ for name, type_ in types.items() if isinstance(type_, OrderType)}
    samples: list[Sample] = []
    first: dict[tuple[str, Box | None], int] = {}
    good: set[str] = {""}
    for line, row in lines:
        if len(row) != len(header):
            continue  # a fault already
        cells = dict(zip(header, row, strict=True))
        _check_names(cells, ("label", "split", *kinds), good, line, faults)
        for name, type_ in orders.items():
            check_cell(cells[name], name, type_, line, faults)
        measured = {name: check_cell(cells[name], name, type_, line, faults) for name, type_ in numbers.items()}
        box = _box(cells, line, faults)
        if not cells["path"]:
            faults.add(
                "no-path", "the row names no photo", line=line, column="path", hint="fill it in or remove the row"
            )
        elif "\0" in cells["path"]:
            faults.add("bad-path", "a path must not contain a NUL", line=line, column="path", value=cells["path"])
        elif first.setdefault((cells["path"], box), line) != line:
            message = f"this photo is already on line {first[cells['path'], box]}"
            faults.add("duplicate-photo", message, line=line, column="path", value=cells["path"], hint="remove one row")
        seen = {kind: cells[kind] for kind in kinds if cells[kind]}
        label, split = cells["label"] or None, cells.get("split") or None
        values = {name: value for name, value in measured.items() if value is not None}
        samples.append(Sample(path.parent / cells["path"], label, split, box, seen, values, numbers, line))
    if not samples and not source_faults:
        faults.add("no-rows", "expected at least one row below the header, got none", line=1)
    source_faults.raise_if_any()
    return Samples(samples, str(path))


def _check_columns(header: list[str], faults: FaultList) -> None:
    """Note columns that are missing, and those that manifests cannot have."""
    if not header:
        return
    for name in ("path", "label"):
        if name not in header:
            near = near_matches(name, header)
            hint = f"rename {near[0]!r}" if near else "a manifest begins with the line path,label,..."
            faults.add("missing-column", f"there is no column {name!r}", line=1, hint=hint)
    if "fine" in header:
        message = "a manifest has no such column"
        faults.add("bad-column", message, line=1, value="fine", hint="the fine label of a photo stands in 'label'")
    missing = [name for name in BOX_COLUMNS if name not in header]
    if 0 < len(missing) < len(BOX_COLUMNS):
        message = "a box needs the four columns x, y, width and height; there is no " + ", ".join(missing)
        faults.add("missing-column", message, line=1)


def _check_names(
    cells: Mapping[str, str], columns: tuple[str, ...], good: set[str], line: int, faults: FaultList
) -> None:
    """Note cells that cannot be names; `good` holds those that were checked before."""
    for column in columns:
        name = cells.get(column, "")
        if name not in good:
            if fault := name_fault(name):
                faults.add("bad-name", fault, line=line, column=column, value=name)
            else:
                good.add(name)


def _box(cells: Mapping[str, str], line: int, faults: FaultList) -> Box | None:
    """The box of a row; None if there is none, or if it is wrong."""
    given = [cells.get(column, "") for column in BOX_COLUMNS]
    if not any(given):
        return None
    numbers = []
    for column, cell in zip(BOX_COLUMNS, given, strict=True):
        try:
            number = float(cell)
        except ValueError:
            number = math.nan
        least = "more than 0" if column in ("width", "height") else "0 or more"
        if not math.isfinite(number) or number < 0 or (number == 0 and least == "more than 0"):
            hint = "leave all four cells empty for the whole photo" if not cell else None
            message = f"expected a number of pixels, {least}"
            faults.add("bad-box", message, line=line, column=column, value=cell, hint=hint)
            number = math.nan
        numbers.append(number)
    return None if any(map(math.isnan, numbers)) else Box(*numbers)
