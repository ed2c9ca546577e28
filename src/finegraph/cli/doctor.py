"""`finegraph doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from finegraph.cli.exit_codes import FOUND_ERRORS
from finegraph.cli.shared_options import Json
from finegraph.cli.terminal import console, print_json, print_table, printable

if TYPE_CHECKING:
    from finegraph.workflows.doctor import Diagnosis


def doctor(
    as_json: Json = False,
) -> None:
    """Show versions, threads, devices and optional parts.

    Exits with 1 if something that finegraph needs does not work.
    """
    from finegraph.workflows.doctor import examine

    diagnosis = examine()
    if as_json:
        print_json(_document(diagnosis))
    else:
        _print(diagnosis)
    if not diagnosis.healthy:
        raise typer.Exit(FOUND_ERRORS)


def _document(diagnosis: Diagnosis) -> dict[str, object]:
    """The diagnosis as JSON."""
    return {
        "healthy": diagnosis.healthy,
        "parts": [asdict(part) for part in diagnosis.parts],
        "extras": [{**asdict(extra), "present": extra.present} for extra in diagnosis.extras],
    }


def _print(diagnosis: Diagnosis) -> None:
    """Print the diagnosis."""
    from rich.text import Text

    out = console()
    parts = [(part.name, part.problem or part.state) for part in diagnosis.parts]
    print_table(out, ("part", "state"), parts, styles=["bold red" if part.problem else "" for part in diagnosis.parts])
    if not out.is_terminal:  # there, tables have room around them
        out.print()
    rows = [(extra.name, "there" if extra.present else "missing", extra.enables) for extra in diagnosis.extras]
    print_table(out, ("extra", "state", "what it enables"), rows)
    if not out.is_terminal:
        out.print()
    for extra in diagnosis.extras:
        if not extra.present:
            out.print(Text(f"to get {extra.name}: {extra.install}"))
    broken = [printable(part.name) for part in diagnosis.parts if part.problem]
    if broken:
        out.print(Text("does not work: " + ", ".join(broken), style="red"))
    else:
        out.print(Text("everything that finegraph needs is there and works", style="green"))
