"""Tables as CSV text that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_text(rows: Iterable[Iterable[str]]) -> str:
    """Rows of cells as the text of a CSV file; characters that UTF-8 cannot hold are escaped with backslashes."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "backslashreplace").decode("utf-8")


def defused(cell: str) -> str:
    """A cell, escaped if a spreadsheet would run it as a formula."""
    return "'" + cell if cell.startswith(_FORMULA) else cell
