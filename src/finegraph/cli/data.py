"""`finegraph data check` and `finegraph data menu`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.commands import Command, Group
from finegraph.cli.exit_codes import FOUND_ERRORS
from finegraph.cli.failures import AGAIN, CONTINUES, interruptible
from finegraph.cli.progress import progress
from finegraph.cli.shared_options import Json
from finegraph.cli.terminal import MAX_LINES, console, count, none_or, print_json, print_pairs, print_table, printable
from finegraph.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.data.checks.photo_check import DataCheck
    from finegraph.data.checks.photo_findings import Finding
    from finegraph.workflows.menu import MenuFiles

data_app = typer.Typer(cls=Group, rich_markup_mode=None, help="Check photos, and draw photos to try things with.")


@data_app.callback()
def _group() -> None:
    """Check photos, and draw photos to try things with."""


@data_app.command(cls=Command)
def check(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder with a folder per class, a manifest (.csv), cub:FOLDER, cars:FOLDER or grocery:FOLDER.",
        ),
    ],
    graph: Annotated[Path | None, typer.Option(metavar="FILE", help="A graph file to compare the labels with.")] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write all findings to this CSV file; - prints it alone.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="How many threads decode photos.")] = 1,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings count as errors.")] = False,
    as_json: Json = False,
) -> None:
    """Find bad photos, duplicates and wrong labels.

    Every photo is opened once. A photo that is in two splits is leakage, an error. Exits with 1 if there are errors.
    No photo and no list of the source is changed.
    """
    from finegraph.data.checks.photo_findings import findings_csv
    from finegraph.workflows.data import check_data

    printed = str(csv) == "-"
    if printed and as_json:
        raise InputError("expected one of a table and JSON to print, got both; name a file for the table")
    with interruptible(f"nothing was written; {AGAIN}"), progress("photos") as advance:
        result = check_data(source, graph, csv=None if printed else csv, workers=workers, progress=advance)
    if printed:
        sys.stdout.write(findings_csv(result.findings))
    elif as_json:
        print_json({**asdict(result), "errors": result.errors, "warnings": result.warnings})
    else:
        _print_check(console(), result)
    if result.errors or (strict and result.warnings):
        raise typer.Exit(FOUND_ERRORS)


@data_app.command(cls=Command)
def menu(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write; new, empty, or with the same menu.")],
    size: Annotated[str, typer.Option(help="small: 60 fine labels, 1,350 photos; full: 975 and 37,437.")] = "small",
    seed: Annotated[int, typer.Option(min=0, help="Another seed makes another menu.")] = 0,
    numbers: Annotated[
        bool,
        typer.Option("--numbers", help="Also say how hot each item is, what it costs and weighs, also on each photo."),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="How many processes draw; by default one per core.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw the synthetic menu: photos of invented dishes.

    Writes photos, a manifest (images.csv) and a label graph (graph.csv). If it is interrupted, the same
    command continues.
    """
    from finegraph.workflows.menu import write_menu

    with interruptible(f"the photos drawn so far are kept; {CONTINUES}"), progress("photos") as advance:
        result = write_menu(out, size, seed=seed, numbers=numbers, workers=workers, progress=advance)
    if as_json:
        print_json(result)
    else:
        _print_menu(console(), result)


def _print_menu(out: Console, menu: MenuFiles) -> None:
    """Print what was written, and what to do with it."""
    parts = ", ".join(f"{split} {number:,}" for split, number in menu.photos.items())
    out.print(
        f"{printable(menu.folder)}: {count(menu.fine, 'fine label')} of {count(menu.restaurants, 'restaurant')}, "
        f"{menu.dishes:,} dishes, {count(menu.ingredients, 'ingredient')}"
    )
    out.print(f"{count(sum(menu.photos.values()), 'photo')} ({parts}); {menu.drawn:,} drawn now")
    out.print(f"next: finegraph train {printable(menu.manifest)} --graph {printable(menu.graph)}")


def _print_check(out: Console, result: DataCheck) -> None:
    """Print the result of a check."""
    from rich.text import Text

    shown = result.findings[:MAX_LINES] if out.is_terminal else result.findings
    if out.is_terminal:
        _print_findings(out, shown)
        if len(result.findings) > MAX_LINES:
            out.print(f"... and {len(result.findings) - MAX_LINES:,} more; --json and --csv list them all")
    else:
        for finding in shown:
            out.print(Text(printable(finding.text())))
    print_table(out, ("split", "photos", "labels", "fewest", "median", "most"), _split_rows(result), (1, 2, 3, 4, 5))
    if result.sizes is not None:
        sizes = (f"{name} {' / '.join(f'{x:,}' for x in three)}" for name, three in asdict(result.sizes).items())
        formats = ", ".join(f"{name} {number:,}" for name, number in result.formats.items())
        modes = ", ".join(f"{name} {number:,}" for name, number in result.modes.items())
        out.print(f"pixels (smallest / median / largest): {', '.join(sizes)}; {formats}; {modes}")
    verdict = f"{none_or(result.errors, 'error')}, {none_or(result.warnings, 'warning')}"
    colour = "red" if result.errors else "yellow" if result.warnings else "green"
    size = f"{count(result.samples, 'photo')}, {count(len(result.counts), 'label')}, "
    out.print(Text.assemble(f"{printable(result.source)}: {size}", (verdict, colour)))


def _print_findings(out: Console, findings: tuple[Finding, ...]) -> None:
    """Findings on a terminal, each with its severity in front."""
    styles = ["bold red" if finding.severity == "error" else "bold yellow" for finding in findings]
    print_pairs(
        out, [(finding.severity, finding.text().removeprefix(f"{finding.severity}: ")) for finding in findings], styles
    )
    out.print()


def _split_rows(result: DataCheck) -> list[tuple[str, ...]]:
    """For each split how many photos and labels it has, and how many photos a label has."""
    import statistics

    numbers: dict[str, list[int]] = {}
    for row in result.counts.values():
        for split, number in row.items():
            numbers.setdefault(split, []).append(number)
    rows = []
    for split, label_counts in sorted(numbers.items()):
        extremes = (min(label_counts), statistics.median(label_counts), max(label_counts))
        rows.append(
            (split or "-", f"{sum(label_counts):,}", f"{len(label_counts):,}", *(f"{number:,g}" for number in extremes))
        )
    return rows
