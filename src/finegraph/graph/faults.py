"""What is wrong, or doubtful, in a graph and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One finding in a graph or a graph file.

    Attributes:
        rule: a short stable name of what was found, such as `duplicate-fine`.
        message: what is wrong and why.
        line: the line of the file, counted from 1.
        column: the name of the column.
        value: what stands there.
        hint: what to do, such as a name that was probably meant.
        severity: an `error` keeps the graph from being read; a `warning` is legal but doubtful.
    """

    rule: str
    message: str
    line: int | None = None
    column: str | None = None
    value: str | None = None
    hint: str | None = None
    severity: Literal["error", "warning"] = "error"
