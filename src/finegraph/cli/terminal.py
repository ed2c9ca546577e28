"""Output on the terminal: tables for people, one JSON document for programs.

On a terminal there are tables with colours; into a file or a pipe go plain aligned columns, one row per line, so that
`grep` and `cut` work. Names come from files, so control characters are shown as escapes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 100
"""A terminal with fewer columns gets blocks of lines instead of wide tables."""
NARROW = 80
"""How many columns an ordinary terminal has."""
MAX_LINES = 50
"""How many findings or edits are printed; the others are counted."""
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def console(stderr: bool = False) -> Console:
    """The terminal; square brackets and numbers in text have no special meaning."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.soft_wrap = True
    return made


def printable(text: str) -> str:
    """Text on one line, with control characters escaped."""
    return _UNFIT.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def print_json(content: Any) -> None:
    """Print one JSON document; a dataclass becomes an object."""
    document = content if isinstance(content, dict) else asdict(content)
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def none_or(number: int, noun: str) -> str:
    """A number with its noun, "no" for none."""
    return count(number, noun) if number else f"no {noun}s"


def print_left_out(out: Console, reasons: Sequence[str], max_named: int | None = None) -> None:
    """Name the photos that could not be read, if there are any.

    Args:
        out: the console to print on.
        reasons: for each photo its path and the reason.
        max_named: how many to name; None for all.
    """
    if reasons:
        out.print(f"left out as they cannot be read: {count(len(reasons), 'photo')}")
    for reason in reasons[:max_named]:
        out.print("  " + printable(reason))


def print_table(
    out: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    styles: Sequence[str] = (),
) -> None:
    """Print a table, with rules and colours on a terminal and plainly elsewhere.

    Args:
        out: where it is printed.
        headings: the headings of the columns.
        rows: the cells.
        right: the numbers of the columns that are aligned to the right.
        styles: per row, the style of its first cell on a terminal.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    if out.is_terminal:
        _print_rich(out, headings, cells, right, styles or [""] * len(cells))
    else:
        for line in aligned([list(headings), *cells], right):
            out.print(line)


def print_pairs(out: Console, pairs: Sequence[tuple[str, str]], styles: Sequence[str]) -> None:
    """Print names with texts beside them, also where a text takes several lines.

    Args:
        out: a terminal.
        pairs: each name with its words.
        styles: the style of each name.
    """
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for (name, words), style in zip(pairs, styles, strict=True):
        grid.add_row(Text(printable(name), style=style), Text(printable(words)))
    out.print(grid)


def _print_rich(
    out: Console, headings: Sequence[str], rows: list[list[str]], right: Sequence[int], styles: Sequence[str]
) -> None:
    """The table for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number in right else "left", overflow="fold")
    for row, style in zip(rows, styles, strict=True):
        table.add_row(Text(row[0], style=style), *(Text(cell) for cell in row[1:]))
    out.print(table)


def aligned(rows: list[list[str]], right: Sequence[int]) -> list[str]:
    """Rows as lines with aligned columns."""
    from rich.cells import cell_len

    widths = [max(cell_len(row[number]) for row in rows) for number in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = []
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            blank = " " * (width - cell_len(cell))
            cells.append(blank + cell if number in right else cell + blank)
        lines.append("  ".join(cells).rstrip())
    return lines


def percent(probability: float) -> str:
    """A probability in percent; 0 % and 100 % only if it is exactly that."""
    if 0.999 < probability < 1.0 - 1e-9:
        return ">99.9%"
    return "<0.1%" if 0.0 < probability < 0.0005 else f"{probability:.1%}"


def percent_or_dash(share: float | None) -> str:
    """A share of photos in percent, if there is one."""
    return "-" if share is None else f"{share:.1%}"
