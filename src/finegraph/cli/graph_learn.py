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
        typer.Option(
            metavar="ODDS|CSV",
            help="Accept cells with such odds given the table (40: 40 to 1), or those marked in a file.",
        ),
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
    The odds count what the table says, as far as it is right; a second column has them as if the cell were empty. No
    file changes: --accept writes what is accepted to a new one. A head that was fitted by descent keeps no statistics;
    then the photos of its run are read once more.
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
        out.print(
            "odds: against the table, which is right in most cells; if empty: as if the table said nothing there."
        )
        out.print(_wrong_words(*learnt.error_range))
    same = f"finegraph graph learn {quote(str(model))}" + ("" if graph is None else f" --graph {quote(graph)}")
    if cells is not None:
        out.print(
            printable(f"{count(len(learnt.doubtful) + len(learnt.empty), 'cell')} in {cells}; mark them with yes")
        )
        print_next(out, [(f"{same} --accept {quote(str(cells))} -o FILE", "write those to a new graph")])
    elif learnt.output is None and (learnt.doubtful or learnt.empty):
        print_next(out, [(f"{same} --cells cells.csv", "write all of them to a file, to mark those that you accept")])
    if learnt.output is not None:
        out.print(printable(f"{count(len(learnt.accepted), 'cell')} accepted: {learnt.output}"))


def _wrong_words(low: float, high: float) -> str:
    """How many filled cells are wrong, as far as that is known."""
    least = f"Between {100 * low:.0f} and" if low >= 0.005 else "Up to"
    return f"{least} {max(100 * high, 1.0):.0f} % of the filled cells are wrong, by a rough estimate."


def _print_cells(out: Console, title: str, cells: Sequence[LearntCell], shown: int) -> None:
    """The first cells of a list."""
    if not cells:
        return
    out.print(f"{title}: {count(len(cells), 'cell')}")
    rows: list[tuple[str, ...]] = [
        (cell.fine, cell.kind, cell.label, *_odds(cell), cell.table or "", str(cell.photos)) for cell in cells[:shown]
    ]
    headings: tuple[str, ...] = ("fine label", "kind", "rather", "odds", "if empty", "table says", "photos")
    if cells[0].table is None:  # there is no table to count
        headings = ("fine label", "kind", "probably", "odds", "photos")
        rows = [(*row[:4], row[6]) for row in rows]
    print_table(out, headings, rows, right=(3, 4, 6) if len(headings) > 5 else (3, 4))
    if len(cells) > shown:
        out.print(f"... and {len(cells) - shown:,} more; --json lists them all")
    out.print()


def _odds(cell: LearntCell) -> tuple[str, str]:
    """The odds of a cell as they are read: given the table, and as if it were empty."""
    given, alone = (_read(odds) for odds in (cell.odds, cell.odds_if_empty))
    return f"{given} to 1", f"{alone} to 1"


def _read(odds: float) -> str:
    if odds >= 10:
        return f"{min(odds, 1e6):,.0f}"
    return f"{odds:.1f}" if odds >= 0.1 else "under 0.1"
