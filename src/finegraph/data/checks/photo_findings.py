"""Findings of a check of photos, as values, as lines of text and as a table in a CSV file.

A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, and names of files and labels come from
anywhere; such cells get an apostrophe in front, which spreadsheets take for "this is text".
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from finegraph.errors import InputError
from finegraph.files.csv_table import csv_text, defused
from finegraph.graph.formats.text_file import write_text

COLUMNS = ("severity", "rule", "group", "path", "message", "hint")
_SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong or doubtful.

    Attributes:
        rule: a short stable name of the finding, such as `bad-file` or `leakage-exact`.
        severity: an `error` should be mended before training; a `warning` is legal but doubtful.
        message: what is wrong.
        files: the photos it is about; none if it is about labels.
        hint: what to do.
    """

    rule: str
    severity: Literal["error", "warning"]
    message: str
    files: tuple[str, ...] = ()
    hint: str | None = None

    def text(self) -> str:
        """The finding on one line, the file in front as compilers do."""
        parts = [self.files[0]] if self.files else []
        if self.severity == "warning":
            parts.append("warning")
        others = ", ".join(self.files[1:_SHOWN]) + (
            f" and {len(self.files) - _SHOWN} more" * (len(self.files) > _SHOWN)
        )
        message = self.message + (f"; also {others}" if others else "")
        return ": ".join([*parts, message]) + (f"; {self.hint}" if self.hint else "")


def write_findings(path: str | os.PathLike[str], findings: Iterable[Finding]) -> None:
    """Write findings as CSV, one row per file; those of one finding share a group number.

    Raises:
        InputError: a file of that name is there and is no such table; it is not touched.
        GraphFileError: the file cannot be written.
    """
    target = os.fspath(path)
    header = ",".join(COLUMNS)
    if os.path.isfile(target):
        with open(target, "rb") as file:
            if file.readline().strip() != header.encode():
                raise InputError(f"{target}: this file is there and is no table of findings; choose another name")
    write_text(target, findings_csv(findings))


def findings_csv(findings: Iterable[Finding]) -> str:
    """Findings as CSV text; see `write_findings`."""
    rows = (
        (one.severity, one.rule, str(number), file_name, one.message, one.hint or "")
        for number, one in enumerate(findings, start=1)
        for file_name in one.files or ("",)
    )
    return csv_text([COLUMNS, *([defused(cell) for cell in row] for row in rows)])
