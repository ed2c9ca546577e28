"""Reading a graph from CSV: one row per fine label, one column per kind.

    fine,dish,restaurant,ingredient
    #labels,mapo tofu|kung pao,,
    mapo tofu @ A,mapo tofu,A,tofu & pork
    kung pao @ B,kung pao,B,chicken

A header may declare numbers or ordered labels, `price [number]`; see `column_types`.
The optional second row, whose first cell is `#labels`, lists labels in order, in case the order of appearance is not
meant or a label is unused. The syntax of cells is in `cells`, that of rows in `csv_rows`. All faults of a
file are found before one error is raised. Time: linear in the cells; 100,000 rows of 8 kinds take 2 to 4 seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from finegraph.errors import near_matches
from finegraph.graph.faults import CellError, FaultList
from finegraph.graph.formats.cells import parse_name
from finegraph.graph.formats.column_types import ColumnType, NumberType, parse_header
from finegraph.graph.formats.csv_columns import Context, CsvColumn
from finegraph.graph.formats.csv_rows import rows
from finegraph.graph.graph_like import FileContent
from finegraph.graph.kind import Kind
from finegraph.graph.names import fold, kind_name_fault, unicode_twins
from finegraph.graph.number import Number
from finegraph.graph.spelling import SpellingHints

FINE = "fine"
LABELS_ROW = "#labels"
_LIKE_FINE = frozenset({"fine", "label", "labels", "name", "class", "fine label", "fine_label", "fine-label", "id"})


def read_csv(
    text: str, path: str, faults: FaultList | None = None, without: Collection[int] = ()
) -> tuple[FileContent, list[int]]:
    """The parts of the graph in the text of a CSV file, and the line of each fine label.

    Args:
        text: the content of the file.
        path: the name of the file, for messages.
        faults: the faults found so far, if any.
        without: lines of rows to leave out.

    Raises:
        GraphFileError: with all faults of the file.
    """
    return _Reader(text, path, FaultList() if faults is None else faults).read(without)


class _Reader:
    """The state of a file while it is read."""

    def __init__(self, text: str, path: str, faults: FaultList) -> None:
        self.path, self.faults = path, faults
        self.rows = rows(text, faults)
        self.columns: list[CsvColumn] = []
        self.names: list[str | None] = []
        """The names of the columns after the first; None if the name is faulty."""
        self.fine: dict[str, int] = {}
        """The fine labels with their lines."""
        self.lines: list[int] = []
        self.labels_line = 0

    def read(self, without: Collection[int]) -> tuple[FileContent, list[int]]:
        if self._read_header():
            for number, (line, cells) in enumerate(self.rows):
                if line not in without:
                    self._read_row(number, line, cells)
            self._check_fine()
        kinds, numbers = self._parts() if not self.faults.full else ([], [])
        self.faults.raise_if_any(self.path)
        return FileContent(list(self.fine), kinds, numbers), self.lines

    # ---- the header -------------------------------------------------------------------------------------------------

    def _read_header(self) -> bool:
        """Read the first row; False if the rest cannot be understood without it."""
        line, cells = next(self.rows, (1, None))
        if cells is None:
            if not self.faults:
                self.faults.add("empty-file", "there is no header", line=1, hint="begin with 'fine,<kind>,...'")
            return False
        if not self._check_first(line, cells):
            return False
        for number, text in enumerate(cells[1:], start=2):
            header = self._header(text, line, number)
            self.names.append(None if header is None else header[0])
            self.columns.append(CsvColumn(text) if header is None else CsvColumn(*header))
        seen: dict[str, int] = {}
        for number, name in enumerate(self.names, start=2):
            if name is not None and seen.setdefault(name, number) != number:
                message = f"columns {seen[name]} and {number} have the same name"
                self.faults.add("duplicate-kind", message, line=line, column=name, hint="rename or remove one")
        return True

    def _check_first(self, line: int, cells: Sequence[str]) -> bool:
        """Whether the first column can be read as the fine labels."""
        first = cells[0]
        if first == FINE:
            return True
        message, hint = f"the first column must be called {FINE!r}", f"rename this column to {FINE!r}"
        readable = fold(first) in _LIKE_FINE or bool(near_matches(first, [FINE]))
        if FINE in cells:
            message = f"the column {FINE!r} is number {cells.index(FINE) + 1}; it must be the first"
            hint, readable = "move it to the front", False
        elif len(cells) == 1 and (";" in first or "\t" in first):
            hint, readable = "separate the cells by commas, not by semicolons or tabs", False
        elif not readable:
            hint = f"begin the file with a header: '{FINE},<kind>,...'"
        self.faults.add("missing-fine", message, line=line, value=first, hint=hint)
        return readable

    def _header(self, text: str, line: int, number: int) -> tuple[str, ColumnType | None] | None:
        """The name and the type of a column, or None if they are invalid."""
        if not text:
            self.faults.add("empty-header", f"column {number} has no name", line=line, hint="name or remove the column")
            return None
        try:
            name, type_ = parse_header(text)
        except CellError as error:
            self.faults.add(error.rule, error.message, line=line, column=text, value=text, hint=error.hint)
            return None
        if fault := kind_name_fault(name):
            self.faults.add("reserved-kind", fault, line=line, column=name)
            return None
        return name, type_

    # ---- the rows ---------------------------------------------------------------------------------------------------

    def _read_row(self, number: int, line: int, cells: Sequence[str]) -> None:
        """Read one row after the header; the first has the number 0."""
        whole = len(cells) == len(self.columns) + 1
        if cells[0].startswith("#"):
            if cells[0] == LABELS_ROW and number == 0 and whole:
                self.labels_line = line
                for column, text in zip(self.columns, cells[1:], strict=True):
                    column.declared = text
            else:
                self._odd_hash(cells[0], line)
            return
        name = self._fine_name(cells[0], line)
        if name is not None and self.fine.setdefault(name, line) != line:
            message = f"this fine label is already in line {self.fine[name]}"
            self.faults.add("duplicate-fine", message, line=line, column=FINE, value=name, hint="remove or rename one")
        if whole:
            self.lines.append(line)
            for column, text in zip(self.columns, cells[1:], strict=True):
                column.add(text)

    def _fine_name(self, text: str, line: int) -> str | None:
        """The fine label of a row, or None if it cannot be one."""
        if not text:
            self.faults.add("empty-fine", "the fine label is missing", line=line, column=FINE, hint="fill it in")
            return None
        try:
            return parse_name(text)
        except CellError as error:
            self.faults.add(error.rule, error.message, line=line, column=FINE, value=text, hint=error.hint)
            return None

    def _odd_hash(self, text: str, line: int) -> None:
        """Note a first cell that begins with `#` and is not the `#labels` row."""
        if text == LABELS_ROW:
            message, hint = "the #labels row stands right after the header, once", "move it there"
        else:
            message = "a row that begins with '#' has a special meaning, and only #labels has one"
            near = near_matches(text, [LABELS_ROW])
            hint = f"did you mean {LABELS_ROW!r}?" if near else f"write a fine label of that name as \\{text[:40]}"
        self.faults.add("bad-hash", message, line=line, column=FINE, value=text, hint=hint)

    # ---- the whole --------------------------------------------------------------------------------------------------

    def _check_fine(self) -> None:
        """Check the fine labels together."""
        if not self.fine and not self.faults:
            self.faults.add("no-fine", "there is no fine label", line=1, hint="add a row for each")
        for one, two in unicode_twins(self.fine):
            message = f"reads the same as {one!r} in line {self.fine[one]} but is spelt in another Unicode form"
            self.faults.add("unicode-twins", message, line=self.fine[two], column=FINE, value=two, hint="use one form")

    def _parts(self) -> tuple[list[Kind], list[Number]]:
        """The kinds and numbers of all columns, checked together."""
        kinds: list[Kind] = []
        numbers: list[Number] = []
        context = Context(
            lines=self.lines,
            labels_line=self.labels_line,
            whole=not self.faults,
            suggestions=SpellingHints(),
            faults=self.faults,
        )
        for column in self._checkable():
            if isinstance(column.type, NumberType):
                number = column.number(context, column.type)
                numbers += [] if number is None else [number]
            else:
                kinds += column.kinds(context)
        names: dict[str, None] = {}
        for name in [*(kind.name for kind in kinds), *(number.name for number in numbers)]:
            if name in names:
                hint = "a cell with ' & ' makes a kind 'column: label' of each of its labels; rename one column"
                self.faults.add("duplicate-kind", "two columns make this kind", line=1, column=name, hint=hint)
            names[name] = None
        for one, two in unicode_twins(names):
            message = f"reads the same as the kind {one!r} but is spelt in another Unicode form"
            self.faults.add("unicode-twins", message, line=1, column=two, hint="use one form")
        return kinds, numbers

    def _checkable(self) -> Iterator[CsvColumn]:
        """The columns that have cells and a name to report them by."""
        seen: set[str] = set()
        for column, name in zip(self.columns, self.names, strict=True):
            if self.faults.full:
                return
            if name is not None and name not in seen and self.lines:
                seen.add(name)
                yield column
