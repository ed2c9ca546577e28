"""Splitting CSV text into rows of cells, with the physical line of each row.

Commas between cells, double quotes around a cell that holds a comma or a quote, a quote in it doubled. Stricter than
usual: no quote inside an unquoted cell, no line break in a cell, no empty line, one form of line end, every row as long
as the header. What breaks a rule is noted and skipped, and reading continues with the next line. Cost: linear in the
text; a row is split only after its commas are counted, so that a hostile file costs no memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from finegraph.graph.faults import FaultList
from finegraph.graph.formats.column_types import opens_type

MAX_COLUMNS = 100_000
_QUOTED = re.compile(r'"([^"]*(?:""[^"]*)*)"')
_LONE_CR = re.compile(r"\r(?!\n)")
_LONE_LF = re.compile(r"(?<!\r)\n")
_MAX_JOINED = 10
"""How many lines are tried as the rest of a quoted cell with a line break."""


class _QuoteError(Exception):
    """A line with unbalanced quotes."""

    def __init__(self, message: str, unclosed: bool = False) -> None:
        super().__init__(message)
        self.unclosed = unclosed


def rows(text: str, faults: FaultList) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file as (line, cells), the header first.

    A row that is not as long as the header is noted as a fault and comes with its first cell only.
    """
    checked = _one_line_end(text, faults)
    if checked is None:
        return
    lines = _Lines(checked)
    width = 0
    while (line := lines.take()) is not None:
        number = lines.number
        if faults.full:
            return
        if not line:
            faults.add("empty-line", "the line is empty", line=number, hint="remove it")
            continue
        if not width and line.count(",") >= MAX_COLUMNS:
            count = line.count(",") + 1
            faults.add("many-columns", f"{count} columns; at most {MAX_COLUMNS} can be read", line=number)
            return
        cells = _cells(line, lines, width, faults)
        if cells is None:
            if not width:  # without a header nothing else can be checked
                return
            continue
        if not width:
            cells = _whole_headers(cells, number, faults)
            width = len(cells)
        yield number, cells


class _Lines:
    """The lines of a text, one after the other, without a copy of all of them.

    Attributes:
        number: the line that was taken last, counted from 1.
    """

    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0
        self.number = 0

    def take(self) -> str | None:
        """The next line; None at the end."""
        if self._place >= len(self._text):
            return None
        end = self._text.find("\n", self._place)
        end = len(self._text) if end < 0 else end
        line = self._text[self._place : end]
        self._place = end + 1
        self.number += 1
        return line

    def closed(self, line: str, width: int) -> str | None:
        """The line joined with the following ones, if that makes a valid row; then they are consumed."""
        place, number = self._place, self.number
        for _ in range(_MAX_JOINED):
            more = self.take()
            if more is None:
                break
            line += "\n" + more
            try:
                if '"' in more and len(_split(line)) == (width or len(_split(line))):
                    return line
            except _QuoteError as error:
                if not error.unclosed:
                    break
        self._place, self.number = place, number
        return None


def _cells(line: str, lines: _Lines, width: int, faults: FaultList) -> list[str] | None:
    """The cells of a line; only the first if their number is wrong; None if quotes are unbalanced."""
    number = lines.number
    if '"' not in line:
        count = line.count(",") + 1
        if width and count != width:
            _wrong_length(count, width, number, faults)
            return [line.partition(",")[0]]
        return line.split(",")
    try:
        cells = _split(line)
    except _QuoteError as error:
        if error.unclosed and (whole := lines.closed(line, width)) is not None:
            value = next(cell for cell in _split(whole) if "\n" in cell)
            faults.add("line-break", "a cell may not contain a line break", line=number, value=value, hint="remove it")
        else:
            hint = 'close it, or double a quote that belongs to the name: "a ""b"" c"'
            faults.add("bad-quote", str(error), line=number, value=line, hint=hint)
        return None
    if width and len(cells) != width:
        _wrong_length(len(cells), width, number, faults)
        return cells[:1]
    return cells


def _whole_headers(cells: Sequence[str], line: int, faults: FaultList) -> list[str]:
    """The headers, those that a comma in their type cut in two joined again and noted; so the rows stay readable."""
    whole: list[str] = []
    for cell in cells:
        if whole and opens_type(whole[-1]) and "[" not in cell and cell.endswith("]"):
            whole[-1] += f",{cell}"
            hint = f'write "{whole[-1]}", with the quotes'
            faults.add(
                "unquoted-type", "the header holds a comma and has no quotes", line=line, value=whole[-1], hint=hint
            )
        else:
            whole.append(cell)
    return whole


def _split(line: str) -> list[str]:
    """The cells of a line with quotes."""
    cells, place = [], 0
    while True:
        if line.startswith('"', place):
            match = _QUOTED.match(line, place)
            if match is None:
                raise _QuoteError("a quote is opened and not closed on this line", unclosed=True)
            cells.append(match[1].replace('""', '"'))
            end = match.end()
            if end < len(line) and line[end] != ",":
                raise _QuoteError("text follows the closing quote of a cell")
        else:
            end = line.find(",", place)
            end = len(line) if end < 0 else end
            cells.append(line[place:end])
            if '"' in cells[-1]:
                raise _QuoteError("there is a quote inside a cell that does not begin with one")
        if end >= len(line) or len(cells) > MAX_COLUMNS:
            return cells
        place = end + 1


def _wrong_length(count: int, width: int, line: int, faults: FaultList) -> None:
    """Note a row that is not as long as the header."""
    hint = "put double quotes around a cell that contains a comma" if count > width else "an unknown cell is left empty"
    rule = "long-row" if count > width else "short-row"
    faults.add(rule, f"the row has {count} cells, the header has {width}", line=line, hint=hint)


def _one_line_end(text: str, faults: FaultList) -> str | None:
    """The text with LF at the end of its lines; None if the line ends are ambiguous."""
    if "\r" not in text:
        return text
    if lone := _LONE_CR.search(text):
        line = text.count("\n", 0, lone.start()) + 1
        faults.add("line-end", "a carriage return without a line feed", line=line, hint="end lines with LF or CR LF")
        return None
    first = text.find("\n")
    if text[first - 1] == "\r":
        odd, names = _LONE_LF.search(text), ("LF", "CR LF")
    else:
        odd, names = re.compile("\r\n").search(text), ("CR LF", "LF")
    if odd:
        line = text.count("\n", 0, odd.start()) + 1
        message = f"the line ends with {names[0]}, the lines before with {names[1]}"
        faults.add("line-end", message, line=line, hint="save the file with one form of line end")
    return text.replace("\r\n", "\n")
