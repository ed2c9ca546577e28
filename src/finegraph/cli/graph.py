"""`finegraph graph check` and `finegraph graph show`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.commands import Command, Group
from finegraph.cli.exit_codes import FOUND_ERRORS
from finegraph.cli.shared_options import Json
from finegraph.cli.terminal import (
    MAX_LINES,
    NARROW,
    WIDE,
    aligned,
    console,
    count,
    none_or,
    print_json,
    print_pairs,
    print_table,
    printable,
)

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.errors import Fault
    from finegraph.graph.describe import ColumnSummary, NumberSummary
    from finegraph.workflows.graph import GraphCheck, GraphView

graph_app = typer.Typer(cls=Group, rich_markup_mode=None, help="Check, show and extend label graphs.")

Graph = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="A source of a graph: a graph file (.csv, .json), a label store (.db), a run or model folder, or "
        "photos: a folder per class, a manifest, cub:FOLDER, cub+orders:FOLDER, cars:FOLDER, cars+numbers:FOLDER or "
        "grocery:FOLDER.",
    ),
]


@graph_app.command(cls=Command)
def check(
    graph: Graph,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings count as errors.")] = False,
    as_json: Json = False,
) -> None:
    """Find all faults of a label graph, or doubtful places in it.

    Exits with 1 if there are errors.
    """
    from finegraph.workflows.graph import check_graph

    result = check_graph(graph)
    if as_json:
        print_json(_check_document(result))
    else:
        _print_check(result)
    if result.errors or (strict and result.warnings):
        raise typer.Exit(FOUND_ERRORS)


@graph_app.command(cls=Command)
def show(
    graph: Graph,
    svg: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Draw the graph and write the picture to this file.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Show this kind or group only; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the numbers of a label graph, and draw it.

    For each kind: its labels, how many parents the fine labels have, how many children the labels have, how evenly
    the fine labels spread over them (entropy in bits; of a group, the mean of its kinds), and the most frequent labels.
    For each kind of numbers: its range, its mean (on a log scale the geometric one), and how many are unknown.
    """
    from finegraph.workflows.graph import show_graph

    view = show_graph(graph, kind or None, svg)
    if as_json:
        print_json(view)
    else:
        _print_view(view)


def _check_document(result: GraphCheck) -> dict[str, object]:
    """The result of a check as JSON."""
    return {
        "file": result.file,
        "fine": result.fine,
        "kinds": result.kinds,
        "numbers": result.numbers,
        "errors": result.errors,
        "warnings": result.warnings,
        "findings": [asdict(fault) for fault in result.findings],
        **({} if result.worth is None else {"worth": asdict(result.worth)}),
    }


def _print_check(result: GraphCheck) -> None:
    """Print the result of a check."""
    from rich.text import Text

    out = console()
    if out.is_terminal:
        _print_findings(out, result.findings[:MAX_LINES])
        if len(result.findings) > MAX_LINES:
            out.print(f"... and {len(result.findings) - MAX_LINES:,} more; --json lists them all")
    else:
        for fault in result.findings:
            out.print(Text(printable(fault.text(result.file))))
    size = "" if result.fine is None else f"{count(result.fine, 'fine label')}, {count(result.kinds or 0, 'kind')}, "
    size += f"{count(result.numbers, 'number')}, " if result.numbers else ""
    verdict = f"{none_or(result.errors, 'error')}, {none_or(result.warnings, 'warning')}"
    colour = "red" if result.errors else "yellow" if result.warnings else "green"
    out.print(Text.assemble(f"{printable(result.file)}: {size}", (verdict, colour)))
    if result.worth is not None:
        out.print(Text(printable(result.worth.words)))


def _print_findings(out: Console, findings: Sequence[Fault]) -> None:
    """Findings on a terminal: a table if there is room for one, else each with its words beside it."""
    styles = ["bold red" if fault.severity == "error" else "bold yellow" for fault in findings]
    if findings and out.width >= WIDE:
        rows = [
            (
                fault.severity,
                str(fault.line or ""),
                fault.column or "",
                fault.value or "",
                fault.message,
                fault.hint or "",
            )
            for fault in findings
        ]
        print_table(out, ("severity", "line", "column", "value", "message", "what to do"), rows, (1,), styles)
    elif findings:
        # The severity stands in front already, so the words are those of an error, which do not repeat it.
        print_pairs(out, [(fault.severity, replace(fault, severity="error").text()) for fault in findings], styles)
        out.print()


def _print_view(view: GraphView) -> None:
    """Print the numbers of a graph."""
    from rich.cells import cell_len
    from rich.text import Text

    out = console()
    summary = view.summary
    size = f"{count(summary.fine, 'fine label')}, {count(summary.kinds, 'kind')}, {count(summary.edges, 'edge')}"
    total = f", {count(len(view.summary.numbers), 'number')}" if summary.numbers else ""
    out.print(Text.assemble((printable(view.file), "bold"), f": {size}{total}"))
    if summary.columns and (not out.is_terminal or out.width >= WIDE):
        rows = [
            [column.name, _labels(column), _parents(column), _children(column), f"{column.entropy:.2f}"]
            for column in summary.columns
        ]
        headings = ["kind", "labels", "fine labels", "children", "bits"]
        # In a file or a pipe, lines hold as many labels as an ordinary terminal is wide.
        room = None if out.is_terminal else NARROW - 2 - max(map(cell_len, aligned([headings, *rows], right=(4,))))
        rows = [[*row, _frequent(column, 3, room)] for row, column in zip(rows, summary.columns, strict=True)]
        print_table(out, [*headings, "most frequent"], rows, right=(4,))
    else:
        for column in summary.columns:
            _print_block(out, column)
    _print_numbers(out, summary.numbers)
    if view.picture is not None:
        out.print(Text(f"picture: {printable(view.picture)}"))


def _print_numbers(out: Console, numbers: Sequence[NumberSummary]) -> None:
    """The kinds of numbers: range, mean, and what is unknown."""
    from rich.text import Text

    if not numbers:
        return
    out.print()
    if not out.is_terminal or out.width >= WIDE:
        headings = ["number", "unit", "scale", "smallest", "mean", "largest", "with spread", "unknown"]
        print_table(out, headings, [[number.name, *_number_cells(number)] for number in numbers], right=(3, 4, 5, 6, 7))
        return
    for number in numbers:
        unit, scale, low, mean, high, spread, unknown = _number_cells(number)
        out.print(Text.assemble((printable(number.name), "bold"), f"  {printable(unit)} {scale}"))
        pairs = [("  values", f"{low} to {high}, mean {mean}"), ("  with spread", spread), ("  unknown", unknown)]
        print_pairs(out, pairs, ["dim"] * len(pairs))


def _number_cells(number: NumberSummary) -> list[str]:
    """The cells of the row of a kind of numbers, after its name."""
    values = ["" if value is None else f"{value:.6g}" for value in (number.min, number.mean, number.max)]
    return [number.unit, number.scale, *values, f"{number.with_spread:,}", f"{number.unknown:,}"]


def _print_block(out: Console, column: ColumnSummary) -> None:
    """The numbers of one kind for a narrow terminal."""
    from rich.text import Text

    out.print()
    out.print(Text.assemble((printable(column.name), "bold"), f"  {_labels(column)}"))
    pairs = [
        ("  fine labels", _parents(column)),
        ("  children", _children(column)),
        ("  entropy", f"{column.entropy:.2f} bits"),
        ("  frequent", _frequent(column, 5)),
    ]
    print_pairs(out, pairs, ["dim"] * len(pairs))


def _labels(column: ColumnSummary) -> str:
    """How the labels of a column are to be understood, and how many there are."""
    order = ", ordered" if column.ordered else ""
    forms = {
        "one of": f"one of {column.labels:,}{order}",
        "yes or no": "yes or no",
        "group": f"any of {column.labels:,}",
    }
    return forms[column.form]


def _parents(column: ColumnSummary) -> str:
    """How many fine labels have one parent, several, none, or an unknown one."""
    numbers = {"one": column.one, "several": column.several, "none": column.none, "unknown": column.unknown}
    return ", ".join(f"{number:,} {what}" for what, number in numbers.items() if number)


def _children(column: ColumnSummary) -> str:
    """How many fine labels a coarse label has."""
    if column.children_min == column.children_max:
        return f"{column.children_min:,} each"
    return f"{column.children_min:,} to {column.children_max:,}, median {column.children_median:g}"


def _frequent(column: ColumnSummary, limit: int, room: int | None = None) -> str:
    """The labels with the most children, at least one and at most as many as fit."""
    shown = [f"{entry.label} ({entry.fine:,})" for entry in column.most_frequent[:limit]]
    while room is not None and len(shown) > 1 and len(", ".join(shown)) > room:
        shown.pop()
    return ", ".join(shown)
