"""Errors and warnings about a graph.

A reader does not stop at the first fault: it adds each to a `FaultList` and raises one error with all of them. A
finding is one line of text, `path:line: column 'dish': value 'x': what is wrong; what to do`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from finegraph.errors import Fault, GraphError, GraphFileError

MAX_PRINTED = 50
"""How many faults an error message lists; the others are counted, and all are in `.faults`."""
MAX_COLLECTED = 10_000
"""How many faults of one file are collected before reading stops."""
_MAX_VALUE_LENGTH = 80


class CellError(GraphError):
    """A cell that does not follow the syntax of its column.

    Attributes:
        rule: a short stable name of the fault.
        hint: what to do.
    """

    def __init__(self, rule: str, message: str, hint: str | None = None) -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.rule, self.message, self.hint = rule, message, hint


class FaultList:
    """The faults of one file while it is read.

    Attributes:
        found: the faults so far.
        full: whether enough were found to stop reading.
    """

    def __init__(self) -> None:
        self.found: list[Fault] = []
        self.full = False

    def add(
        self,
        rule: str,
        message: str,
        *,
        line: int | None = None,
        column: str | None = None,
        value: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Note a fault; once there are too many, it is dropped and the list is `full`."""
        if len(self.found) >= MAX_COLLECTED:
            self.full = True
            return
        short = None if value is None else shorten(value)
        self.found.append(Fault(rule=rule, message=message, line=line, column=column, value=short, hint=hint))

    def __len__(self) -> int:
        return len(self.found)

    def raise_if_any(self, path: str) -> None:
        """Raise one error with all faults, in the order of the lines, if there are any."""
        if self.found:
            faults = sorted(self.found, key=lambda fault: fault.line or 0)
            raise file_error(path, faults, more=self.full)


def file_error(path: str, faults: Sequence[Fault], more: bool = False) -> GraphFileError:
    """The error of a graph file: how many faults, then one line for each of the first ones.

    Args:
        path: the file, as the user named it.
        faults: all that were found.
        more: whether there are others, which were not collected.
    """
    count = f"more than {len(faults)} faults" if more else f"{len(faults)} fault{'s' if len(faults) != 1 else ''}"
    lines = [f"{path}: {count}", *(fault.text(path) for fault in faults[:MAX_PRINTED])]
    if len(faults) > MAX_PRINTED:
        lines.append(f"... and {len(faults) - MAX_PRINTED} more")
    return GraphFileError("\n".join(lines), faults)


def one_fault(path: str, rule: str, message: str, hint: str | None = None) -> GraphFileError:
    """The error of a file with a single fault that has no line, such as a file that is not there."""
    fault = Fault(rule=rule, message=message, hint=hint)
    return GraphFileError(fault.text(path), [fault])


def shorten(text: str) -> str:
    """A text for a message: cut where it is long."""
    return text if len(text) <= _MAX_VALUE_LENGTH else text[: _MAX_VALUE_LENGTH - 1] + "…"


def first_few(names: Iterable[str], count: int, max_count: int = 3) -> str:
    """The first names of many, quoted, and how many there are beyond: `'a', 'b', 'c' and 9 more`."""
    shown: list[str] = []
    for name in names:
        if len(shown) == max_count:
            break
        shown.append(repr(shorten(name)))
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")
