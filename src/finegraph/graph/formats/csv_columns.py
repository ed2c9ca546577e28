"""One column of a CSV graph file: its cells, their faults, and the kinds it describes.

A column usually has few distinct cells, so each distinct text is stored, parsed and checked once, and a
row keeps only the number of its text. Memory: 4 bytes per cell. Time: linear in the cells.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from finegraph.errors import GraphError
from finegraph.graph.faults import CellError, FaultList, first_few, shorten
from finegraph.graph.formats.cells import parse_cell
from finegraph.graph.formats.column_types import ColumnType, NumberType, OrderType
from finegraph.graph.kind import BINARY_LABELS, IntArray, Kind
from finegraph.graph.kind_columns import TableCell, kinds_of_column
from finegraph.graph.names import fold, unicode_twins
from finegraph.graph.number import Number
from finegraph.graph.number_cells import NumberError, parse_number
from finegraph.graph.spelling import SpellingHints

MAX_CELL_LENGTH = 1_000_000
"""In characters; the cells of the `#labels` row are not limited."""
_YES_WORDS = frozenset({"yes", "y", "true", "t", "1", "on"})
_NO_WORDS = frozenset({"no", "n", "false", "f", "0", "off"})


@dataclass(frozen=True, kw_only=True)
class Context:
    """What the checks of a column need to know about its file.

    Attributes:
        lines: the line of each row.
        labels_line: the line of the `#labels` row.
        whole: whether no row was left out because of a fault.
        suggestions: suggests names for misspelt ones.
        faults: where faults are noted.
    """

    lines: Sequence[int]
    labels_line: int
    whole: bool
    suggestions: SpellingHints
    faults: FaultList


class CsvColumn:
    """The cells of one column while a file is read.

    Attributes:
        name: the name of the kind, group or number.
        type: the type in the header, if there is one.
        texts: the different texts of its cells with their numbers, in order of appearance.
        codes: the number of the text in each row.
        declared: the cell of the column in the `#labels` row; may be empty.
    """

    def __init__(self, name: str, type_: ColumnType | None = None) -> None:
        self.name, self.type = name, type_
        self.texts: dict[str, int] = {}
        self.codes = array("i")
        self.declared = ""

    def add(self, text: str) -> None:
        """Add the cell of the next row."""
        code = self.texts.get(text)
        if code is None:
            code = self.texts[text] = len(self.texts)
        self.codes.append(code)

    @cached_property
    def _code_array(self) -> IntArray:
        return np.array(self.codes, dtype=np.int64)

    @cached_property
    def _rows_by_code(self) -> tuple[IntArray, IntArray]:
        """The rows sorted by their texts, and where each text begins."""
        sizes = np.bincount(self._code_array, minlength=len(self.texts))
        return np.argsort(self._code_array, kind="stable"), np.concatenate([[0], np.cumsum(sizes)])

    def rows_with(self, code: int) -> list[int]:
        """The rows that hold a text."""
        rows, starts = self._rows_by_code
        return [int(row) for row in rows[starts[code] : starts[code + 1]]]

    def kinds(self, context: Context) -> list[Kind]:
        """The kinds that the column describes; empty if it has faults, which are noted."""
        found = _Checks(self, context).run()
        if found is None:
            return []
        cells, labels = found
        ordered = isinstance(self.type, OrderType)
        try:
            kinds = [kind.rows(self._code_array) for kind in kinds_of_column(self.name, cells, labels)]
            return [replace(kind, ordered=True) for kind in kinds] if ordered else kinds
        except GraphError as error:
            context.faults.add("bad-column", str(error), line=1, column=self.name)
            return []

    def number(self, context: Context, type_: NumberType) -> Number | None:
        """The kind of numbers that the column holds; None if it has faults, which are noted."""
        checks = _Checks(self, context)
        found = checks.numbers(type_)
        if found is None:
            return None
        values, spreads = np.array([cell or (math.nan, 0.0) for cell in found]).T
        return Number(self.name, values[self._code_array], spreads[self._code_array], type_.scale, type_.unit)


class _Checks:
    """The checks of one column; each notes its faults."""

    def __init__(self, column: CsvColumn, context: Context) -> None:
        self.column, self.context, self.faults = column, context, context.faults
        self.lines, self.labels_line = context.lines, context.labels_line
        self.texts = list(column.texts)

    def run(self) -> tuple[list[TableCell | None], tuple[str, ...] | None] | None:
        """The different cells and the declared labels of the column; None if there are faults."""
        before = len(self.faults)
        declared = self._declared()
        cells = [self._parse(text, code) for code, text in enumerate(self.texts) if not self.faults.full]
        labels: dict[str, int] = {}
        for code, cell in enumerate(cells):
            for label in cell.labels if cell else ():
                labels.setdefault(label, code)
        if len(self.faults) == before:
            self._check_forms(cells, declared)
            self._check_twins(labels)
            if declared is not None:
                self._check_declared(cells, set(declared))
            elif not labels:
                self._empty(cells)
            elif not any(cell and cell.all_of for cell in cells):
                self._check_yes_no(labels)
        if len(self.faults) > before or self.faults.full or not (labels or declared):
            return None
        return cells, declared

    def numbers(self, type_: NumberType) -> list[tuple[float, float] | None] | None:
        """The different cells of a column of numbers; None if there are faults."""
        before = len(self.faults)
        if self.column.declared:
            self._misplaced_labels("a column of numbers has no labels")
        cells: list[tuple[float, float] | None] = []
        for code, text in enumerate(self.texts):
            try:
                cells.append(parse_number(text, type_.scale, type_.unit))
            except NumberError as error:
                self._note(error.rule, error.message, code, error.hint)
            if self.faults.full:
                break
        return cells if len(self.faults) == before else None

    def _misplaced_labels(self, message: str) -> None:
        """Note a cell of the `#labels` row that has to be empty."""
        self.faults.add(
            "bad-labels",
            message,
            line=self.labels_line,
            column=self.column.name,
            value=self.column.declared,
            hint="leave the cell of the #labels row empty",
        )

    def _note(self, rule: str, message: str, code: int, hint: str | None = None, every: bool = True) -> None:
        """Note a fault of a text at every row that has it, or at the first only."""
        rows = self.column.rows_with(code)
        for row in rows if every else rows[:1]:
            self.faults.add(
                rule, message, line=self.lines[row], column=self.column.name, value=self.texts[code], hint=hint
            )

    def _declared(self) -> tuple[str, ...] | None:
        """The labels that the `#labels` row lists."""
        text = self.column.declared
        if isinstance(self.column.type, OrderType):
            if text:
                self._misplaced_labels("the header has the labels of this column in their order")
            return self.column.type.labels
        try:
            cell = parse_cell(text)
            if cell and (cell.all_of or cell.weights):
                raise CellError("bad-labels", "the #labels row lists names, without weights", "separate them by |")
        except CellError as error:
            self.faults.add(
                error.rule, error.message, line=self.labels_line, column=self.column.name, value=text, hint=error.hint
            )
            return None
        for one, two in unicode_twins(cell.labels if cell else ()):
            self._twins(one, two, self.labels_line)
        return cell.labels if cell else None

    def _parse(self, text: str, code: int) -> TableCell | None:
        """One of the distinct cells; its faults are noted."""
        if len(text) > MAX_CELL_LENGTH:
            self._note("long-cell", f"the cell has {len(text)} characters; at most {MAX_CELL_LENGTH} can be read", code)
            return None
        try:
            return parse_cell(text)
        except CellError as error:
            self._note(error.rule, error.message, code, error.hint)
            return None

    def _check_forms(self, cells: Sequence[TableCell | None], declared: Sequence[str] | None) -> None:
        """Note a column that mixes all-of cells with one-of cells."""
        all_of = next((code for code, cell in enumerate(cells) if cell and cell.all_of), None)
        if all_of is None:
            return
        if isinstance(self.column.type, OrderType):
            for code, cell in enumerate(cells):
                if cell and cell.all_of:
                    message = "a fine label has one label of an order, not all of several (&)"
                    self._note("mixed-column", message, code, "write one label, or a|b for one of several")
            return
        other = self.lines[self.column.rows_with(all_of)[0]]
        for code, cell in enumerate(cells):
            if cell and not cell.all_of and len(cell.labels) > 1:
                message = f"one of several (|) in a column whose line {other} has all of several (&)"
                self._note("mixed-column", message, code, "use one form in a column, or two columns")
        if declared is None and self.context.whole and not any(cell and cell.labels for cell in cells):
            hint = f"list the labels of {self.column.name!r} in a #labels row, or leave the column out"
            self._note(
                "empty-kind", "every known cell says 'none of them' but no cell names a label", all_of, hint, False
            )

    def _empty(self, cells: Sequence[TableCell | None]) -> None:
        """Note a column in which nothing is known, unless rows were left out."""
        if self.context.whole and not any(cells):
            hint = "leave the column out, or list its labels in a #labels row"
            self.faults.add("empty-kind", "unknown for every fine label", line=1, column=self.column.name, hint=hint)

    def _check_twins(self, labels: dict[str, int]) -> None:
        """Note labels that read the same."""
        for one, two in unicode_twins(labels):
            rows = self.column.rows_with(labels[two])
            self._twins(one, two, self.lines[rows[0]])

    def _twins(self, one: str, two: str, line: int) -> None:
        message = f"reads the same as the label {shorten(one)!r} but is spelt in another Unicode form"
        self.faults.add("unicode-twins", message, line=line, column=self.column.name, value=two, hint="use one form")

    def _check_declared(self, cells: Sequence[TableCell | None], declared: set[str]) -> None:
        """Note labels that are missing from the `#labels` row or the header, if these list the labels of the column."""
        ordered = isinstance(self.column.type, OrderType)
        where, line = ("order of the header", 1) if ordered else ("#labels row", self.labels_line)
        hints: dict[str, str] = {}
        for code, cell in enumerate(cells):
            for label in cell.labels if cell else ():
                if label in declared:
                    continue
                if label not in hints:
                    near = self._range_hint(label) or self.context.suggestions.hint(label, declared)
                    hints[label] = near or f"add it there (line {line})"
                message = f"the label {shorten(label)!r} is not in the {where}"
                self._note("undeclared-label", message, code, hints[label])

    def _range_hint(self, label: str) -> str:
        """How to write a range of the order, such as `mild..hot`, if a label reads like one."""
        order = self.column.type.labels if isinstance(self.column.type, OrderType) else ()
        ends = [order.index(end.strip()) for end in label.split("..") if end.strip() in order]
        if len(ends) != 2:
            return ""
        return f"for one of several labels write {'|'.join(order[min(ends) : max(ends) + 1])}"

    def _check_yes_no(self, labels: dict[str, int]) -> None:
        """Note other labels beside yes and no, unless the `#labels` row lists them."""
        odd = [label for label in labels if label not in BINARY_LABELS]
        if not odd or len(odd) == len(labels):
            return
        words = {"yes": _YES_WORDS, "no": _NO_WORDS}
        near = [word for word, forms in words.items() if fold(odd[0]) in forms]
        hint = f"did you mean {near[0]!r}? " if near else "write exactly yes or no; "
        self._note(
            "mixed-yes-no",
            f"the column holds {' and '.join(label for label in BINARY_LABELS if label in labels)} "
            f"but also {first_few(odd, len(odd))}",
            labels[odd[0]],
            hint + "if these are its labels, list them in a #labels row",
            every=False,
        )
