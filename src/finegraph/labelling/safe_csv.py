r"""CSV that no spreadsheet takes for a formula.

A cell that begins with `=`, `+`, `-` or `@` (or their wide forms) may be run by a spreadsheet. Such a cell is written
with a backslash before it, `\=SUM(A1)`, which a spreadsheet shows as text and which the readers of graph files take
away again: in graph files a backslash before these signs means the sign itself. So the file reads back as the same
graph.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from finegraph.graph.cells import FORMULA_SIGNS


def defused(cell: str) -> str:
    """A cell that is only text, to every reader."""
    return "\\" + cell if cell.startswith(FORMULA_SIGNS) else cell


def defuse_csv(text: str) -> str:
    """A CSV file with all its cells defused; a file without such cells stays as it is, byte for byte."""
    rows = list(csv.reader(io.StringIO(text)))
    if not any(cell.startswith(FORMULA_SIGNS) for row in rows for cell in row):
        return text
    return format_rows([defused(cell) for cell in row] for row in rows)


def format_rows(rows: Iterable[Sequence[str]]) -> str:
    """Rows as the text of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
