"""Photo labels as a CSV file, out and in.

    path,fine,egg,served
    1.jpg,ramen @ A,yes,bowl
    2.jpg,,no,

One row per photo that has a label, one column per kind. `fine` is the class, empty if it is not known. Cells follow
the syntax of graph files. Export then import gives the same labels. Cost: linear in the cells.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from finegraph.errors import GraphError, InputError
from finegraph.graph.faults import FaultList
from finegraph.graph.formats.cells import format_name, mask_escapes, parse_name, text_only, unescape
from finegraph.graph.formats.csv_rows import rows as csv_rows
from finegraph.labelling.store.catalogue import Catalogue
from finegraph.labelling.store.checks import check_photo
from finegraph.labelling.store.records import CellValue, PhotoLabel
from finegraph.labelling.store.values import parse_value_text, value_text

_FIRST_COLUMNS = ("path", "fine")


def format_photos(kinds: Sequence[str], labels: Sequence[PhotoLabel], *, safe: bool) -> str:
    """Photo labels as the text of a CSV file.

    Args:
        kinds: the order of the kinds; those that no photo has are left out, others come last.
        labels: the labels.
        safe: whether to escape cells that a spreadsheet would run as formulas.
    """
    seen = {label.kind for label in labels}
    used = [*(kind for kind in kinds if kind in seen), *sorted(seen - set(kinds))]
    by_photo: dict[tuple[str, str | None], dict[str, CellValue]] = {}
    for label in labels:
        by_photo.setdefault((label.photo, label.fine), {})[label.kind] = label.value
    lines = [[*_FIRST_COLUMNS, *(format_name(kind) for kind in used)]]
    for (photo, fine), values in by_photo.items():
        cells = [value_text(values.get(kind)) for kind in used]
        lines.append([format_name(photo), "" if fine is None else format_name(fine), *cells])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([text_only(cell) for cell in line] if safe else line for line in lines)
    return text.getvalue()


def parse_photos(text: str, catalogue: Catalogue, path: str) -> list[PhotoLabel]:
    """The photo labels in the text of a CSV file.

    Raises:
        GraphFileError: with all faults of the file.
        UnknownNameError: a kind that the store does not have.
    """
    faults = FaultList()
    lines = csv_rows(text, faults)
    _, header = next(lines, (1, []))
    if tuple(header[:2]) != _FIRST_COLUMNS:
        faults.add(
            "bad-header", "the first columns must be called 'path' and 'fine'", line=1, hint="begin with path,fine,..."
        )
        faults.raise_if_any(path)
    kinds = [catalogue.kind(parse_name(name)) for name in header[2:]]
    labels = []
    for line, row in lines:
        if len(row) != len(header):
            continue  # a fault already
        try:
            photo, fine = _parse_path(row[0]), parse_name(row[1]) if row[1] else None
        except (GraphError, InputError) as error:
            faults.add("bad-name", str(error), line=line, column="path", value=row[0])
            continue
        for kind, cell in zip(kinds, row[2:], strict=True):
            try:
                value = parse_value_text(cell, kind.mode)
            except GraphError as error:
                faults.add("bad-cell", str(error), line=line, column=kind.name, value=cell)
                continue
            if value is not None:
                labels.append(PhotoLabel(photo, fine, kind.name, value))
    faults.raise_if_any(path)
    return labels


def _parse_path(text: str) -> str:
    """The path of a photo, escaped like a name; unlike a name it may begin and end with white space."""
    mask_escapes(text)
    return check_photo(unescape(text))
