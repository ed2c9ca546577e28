"""`metrics.csv`: one row per epoch, in columns that stay the same for the whole run.

`epoch`, `step` and `time` come first, then the metrics of the first row in their order. Later rows have the same
metrics; one that was not computed is an empty cell. Numbers are written so that they read back to the last bit.
Nothing here needs torch.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from finegraph.errors import InputError, RunFolderError, unknown_name
from finegraph.files.csv_table import defused
from finegraph.files.durable import reason_of
from finegraph.files.line_file import Line, LineFile, cut_lines

OWN_COLUMNS = ("epoch", "step", "time")
_LATER = "val_numbers."
"""Metrics that tables of earlier versions have no columns for; such a run continues without them."""


class MetricTable:
    """The table of a run; an unfinished last line is cut off.

    Args:
        path: the file; it is made if it is not there.

    Raises:
        RunFolderError: the file is another table, or cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._header, rows = _read(path)  # before anything is cut off: it may be somebody else's table
        cut_lines(path, lambda line: _judge(line, None))
        self._last_step = max((int(row[1]) for row in rows), default=-1)
        self._lines = LineFile(path)

    def add(self, epoch: int, step: int, time: str, metrics: Mapping[str, float | int | str | None]) -> None:
        """Add the row of an epoch.

        Args:
            epoch: the epoch.
            step: its last step, after that of the row before.
            time: when it ended.
            metrics: by column.

        Raises:
            InputError: a metric has no column, or the step is not after that of the row before.
            RunFolderError: the row cannot be written.
        """
        if step <= self._last_step:
            raise InputError(f"expected a step after {self._last_step}, that of the last row, got {step}; rewind first")
        if not self._header:
            header = _header(metrics)
            self._lines.add(_csv_line(header))
            self._header = header
        by_column = {defused(name): metric for name, metric in metrics.items()}
        columns = self._header[len(OWN_COLUMNS) :]
        for name in by_column:
            if name not in columns and not name.startswith(_LATER):
                raise unknown_name("column", name, columns, f"of {self.path.name}, whose columns never change")
        cells = ["" if (metric := by_column.get(name)) is None else str(metric) for name in columns]
        self._lines.add(_csv_line([str(epoch), str(step), time, *cells]))
        self._last_step = step

    def rewind(self, step: int, epochs: int | None = None) -> int:
        """Drop the rows after a step, and those of later epochs; returns how many."""
        dropped = cut_lines(self.path, lambda line: _judge(line, step, epochs))
        self._last_step = max((int(row[1]) for row in _read(self.path)[1]), default=-1)
        return dropped

    def sync(self) -> None:
        """Bring all rows to the disk."""
        self._lines.sync()

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


def _header(metrics: Mapping[str, object]) -> list[str]:
    """The first line; labels of users may be in it, so no cell may look like a formula."""
    header = [*OWN_COLUMNS, *(defused(name) for name in metrics)]
    bad = [name for name in header[len(OWN_COLUMNS) :] if header.count(name) > 1 or len(name.splitlines()) != 1]
    if bad:
        raise InputError(
            f"expected names of metrics that differ from each other and from {', '.join(OWN_COLUMNS)}, "
            f"each one line of text, got {bad[0]!r}"
        )
    return header


def _read(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header and the whole rows; both empty if there is no file yet, or nothing in it."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be read: {reason_of(error)}") from error
    whole = text[: text.rfind("\n") + 1]
    try:
        cells = list(csv.reader(io.StringIO(whole, newline="")))
    except csv.Error as error:
        raise RunFolderError(f"{path}: expected a table of metrics: {error}") from error
    header = cells[0] if cells else []
    if header and tuple(header[: len(OWN_COLUMNS)]) != OWN_COLUMNS:
        raise RunFolderError(
            f"{path}: expected a table that begins with the columns {', '.join(OWN_COLUMNS)}, got "
            f"{', '.join(header[:3])}; restore the file, or move it elsewhere"
        )
    return header, [row for row in cells[1:] if len(row) == len(header) and row[0].isdecimal() and row[1].isdecimal()]


def _judge(line: bytes, step: int | None, epochs: int | None = None) -> Line:
    """Whether a row comes before or after the end of a step; the header comes before all."""
    if line.startswith(b",".join(name.encode() for name in OWN_COLUMNS)):
        return Line.BEFORE
    cells = line.split(b",", 2)
    if len(cells) != 3 or not cells[0].isdigit() or not cells[1].isdigit():
        return Line.BROKEN
    later = (step is not None and int(cells[1]) > step) or (epochs is not None and int(cells[0]) > epochs)
    return Line.AFTER if later else Line.BEFORE


def _csv_line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
