"""`finegraph graph compare`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.shared_options import Json
from finegraph.cli.terminal import console, print_json, print_table, printable

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.workflows.graph_comparisons import ComparedKind

MAX_SHOWN = 30
"""How many fine labels, pairs and circles a terminal is filled with."""


def compare(
    comparisons: Annotated[
        Path,
        typer.Argument(metavar="COMPARISONS", help="A CSV file with the columns kind, more, less, who, same, of."),
    ],
    graph: Annotated[str, typer.Option("--graph", "-g", metavar="GRAPH", help="A source of a graph.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the graph with the numbers (.csv, .json)."),
    ] = None,
    photos: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="Where the photos are, if photos are compared.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Turn comparisons ("A is hotter than B") into numbers.

    Each compared kind becomes a kind of numbers with spreads; values that the graph has stay. In an ordered kind, fine
    labels without a label get one. Pairs that were compared both ways, circles, what contradicts values and labels of
    the graph, and groups that no comparison links are reported.
    """
    from finegraph.workflows.graph_comparisons import compare_labels

    result = compare_labels(comparisons, graph, output, photos)
    if as_json:
        print_json({"kinds": [asdict(kind) for kind in result], "graph": None if output is None else str(output)})
        return
    out = console()
    for kind in result:
        _print_kind(out, kind)
    if output is not None:
        out.print(f"graph: {printable(str(output))}", markup=False, highlight=False)


def _print_kind(out: Console, kind: ComparedKind) -> None:
    """The order of the fine labels, and what does not fit together."""
    from rich.text import Text

    from finegraph.workflows.graph_comparisons import compared_words, conflict_words

    out.print(Text.assemble((printable(kind.name), "bold"), f": {compared_words(kind)}"))
    # Values of comparisons alone lie around 0.
    signed = "" if kind.unit else "+"
    rows = [[ranked.label, f"{ranked.value:{signed}.2f}", f"{ranked.spread:.2f}"] for ranked in kind.order[:MAX_SHOWN]]
    print_table(out, ["fine label", f"value, {kind.unit}" if kind.unit else "value", "spread"], rows, right=(1, 2))
    _more(out, len(kind.order))
    filled = [f"{name} {label!r}" for name, label in kind.filled.items()]
    if filled:
        more = f" and {len(filled) - MAX_SHOWN:,} more" if len(filled) > MAX_SHOWN else ""
        out.print(printable(f"labels that were unknown: {', '.join(filled[:MAX_SHOWN])}{more}"))
    for words in conflict_words(kind, MAX_SHOWN):
        _say(out, words)


def _say(out: Console, words: str) -> None:
    """A line about what does not fit together."""
    out.print(f"warning: {printable(words)}", style="yellow", markup=False, highlight=False)


def _more(out: Console, number: int) -> None:
    """How many fine labels are not printed."""
    if number > MAX_SHOWN:
        out.print(f"... and {number - MAX_SHOWN:,} more; --json lists them all")
