"""`finegraph graph learn`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.next_commands import print_next
from finegraph.cli.shared_options import Json, Run
from finegraph.cli.terminal import console, count, print_json, print_table, printable

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.model.structure.cell_learning import LearntCell


def learn(
    model: Run,
    graph: Annotated[
        str | None, typer.Option("--graph", "-g", metavar="GRAPH", help="Learn this graph rather than the model's own.")
    ] = None,
    kind: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Learn this kind only; repeatable.")] = None,
    accept: Annotated[
        str | None,
        typer.Option(metavar="ODDS|CSV", help="Accept cells with such odds (40: 40 to 1), or those marked in a file."),
    ] = None,
    cells: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Write all learnt cells to a file with a column to mark them.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The graph file to write with what is accepted."),
    ] = None,
    shown: Annotated[int, typer.Option("--max", min=1, help="How many cells of each list to print.")] = 20,
    as_json: Json = False,
) -> None:
    """Learn empty cells from photos, and find wrong ones.

    Photos, related kinds and names say what a cell should hold, each as far as it is right about cells that are known.
    No file changes: --accept writes what is accepted to a new one. The model's head must have been fitted in closed
    form, as finegraph train does with few photos.
    """
    from finegraph.workflows.learn_graph import learn_graph

    learnt = learn_graph(model, graph=graph, kinds=kind or None, accept=accept, cells=cells, output=output)
    if as_json:
        print_json(learnt.to_dict())
        return
    out = console()
    _print_cells(out, "Doubtful", learnt.doubtful, shown)
    _print_cells(out, "Empty", learnt.empty, shown)
    if not learnt.doubtful and not learnt.empty:
        out.print("No cell is empty, and nothing speaks against one that is filled.")
    if learnt.doubtful:
        out.print(f"About {100 * learnt.error:.1f} % of the filled cells are wrong, by this estimate.")
    if cells is not None:
        out.print(
            printable(f"{count(len(learnt.doubtful) + len(learnt.empty), 'cell')} in {cells}; mark them with yes")
        )
        accepting = f"finegraph graph learn {quote(str(model))} --accept {quote(str(cells))} -o FILE"
        print_next(out, [(accepting, "write those to a new graph")])
    if learnt.output is not None:
        out.print(printable(f"{count(len(learnt.accepted), 'cell')} accepted: {learnt.output}"))


def _print_cells(out: Console, title: str, cells: Sequence[LearntCell], shown: int) -> None:
    """The first cells of a list."""
    if not cells:
        return
    out.print(f"{title}: {count(len(cells), 'cell')}")
    rows = [
        (cell.fine, cell.kind, cell.label, f"{odds_of(cell)} to 1", cell.table or "", str(cell.photos))
        for cell in cells[:shown]
    ]
    print_table(out, ("fine label", "kind", "photos say", "odds", "table says", "photos"), rows, right=(3, 5))
    if len(cells) > shown:
        out.print(f"... and {len(cells) - shown:,} more; --json lists them all")
    out.print()


def odds_of(cell: LearntCell) -> str:
    """Odds as they are read."""
    return f"{min(cell.odds, 1e6):,.0f}" if cell.odds >= 10 else f"{cell.odds:.1f}"
