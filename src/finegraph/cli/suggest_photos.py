"""`finegraph suggest-photos`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from finegraph.cli.interrupts import AGAIN, interruptible
from finegraph.cli.terminal import console, count, print_json, print_table, printable


def suggest_photos(
    model: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder or a model folder.")],
    photos: Annotated[list[Path], typer.Argument(metavar="PHOTO", help="Unlabelled photos, or folders of them.")],
    number: Annotated[int, typer.Option("--count", min=1, help="How many to suggest.")] = 20,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="CSV", help="Write them to a file with a column for labels."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Say which unlabelled photos to label next.

    They are those that are expected to make the model better soonest. Photos that look nearly alike come once before
    any of them comes again. The model must have been trained with --fit prototypes. finegraph teach takes the labels.
    """
    from finegraph.cli.progress import progress
    from finegraph.workflows.suggest_photos import suggest_photos as suggest
    from finegraph.workflows.suggest_photos import write_suggestions

    with interruptible(f"nothing is kept; {AGAIN}"), progress("photos") as shown:
        found = suggest(model, photos, count=number, progress=shown)
    if output is not None:
        write_suggestions(output, found)
    if as_json:
        print_json({"photos": [one.to_dict() for one in found]})
        return
    to = console()
    if output is not None:
        to.print(printable(f"{count(len(found), 'photo')} in {output}; fill in the column label"))
        return
    rows = [
        (one.path, one.guess, f"{100 * one.probability:.0f} %", f"{100 * one.gain:.2f} %", one.alike or "")
        for one in found
    ]
    print_table(to, ("photo", "perhaps", "probability", "gain", "nearly like"), rows, right=(2, 3))
