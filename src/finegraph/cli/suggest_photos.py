"""`finegraph suggest-photos`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.failures import AGAIN, interruptible
from finegraph.cli.next_commands import print_next
from finegraph.cli.shared_options import Json, Run
from finegraph.cli.terminal import console, count, print_json, print_table, printable

if TYPE_CHECKING:
    from finegraph.workflows.suggest_photos import SuggestedPhoto


def suggest_photos(
    model: Run,
    photos: Annotated[list[Path], typer.Argument(metavar="PHOTO", help="Unlabelled photos, or folders of them.")],
    number: Annotated[int, typer.Option("--count", min=1, help="How many to suggest.")] = 20,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="CSV", help="Write them to a file with a column for labels."),
    ] = None,
    label: Annotated[
        bool, typer.Option("--label", help="Open them on a page, to label one after the other; each is learnt at once.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port of that page; 0 for any free one.")] = 8000,
    as_json: Json = False,
) -> None:
    """Say which unlabelled photos to label next.

    They are those that are expected to make the model better soonest. Photos that look nearly alike come once before
    any of them comes again; those that it was taught already do not. Its head must have been fitted in closed form, as
    finegraph train does with few photos. --label opens them on a page; or finegraph teach takes the labels.
    """
    from finegraph.cli.progress import progress
    from finegraph.workflows.suggest_photos import suggest_photos as suggest
    from finegraph.workflows.suggest_photos import write_suggestions

    with interruptible(f"nothing is kept; {AGAIN}"), progress("photos") as shown:
        suggestions = suggest(model, photos, count=number, progress=shown)
    if output is not None:
        write_suggestions(output, suggestions)
    if label:
        _label(model, suggestions, port, as_json=as_json)
        return
    if as_json:
        print_json({"photos": [suggestion.to_dict() for suggestion in suggestions]})
        return
    out = console()
    if output is not None:
        out.print(printable(f"{count(len(suggestions), 'photo')} in {output}; fill in the column label"))
        print_next(
            out, [(f"finegraph serve {quote(str(model))} --teach --to-label {quote(str(output))}", "or on a page")]
        )
        return
    rows = [
        (
            suggestion.path,
            suggestion.guess,
            f"{100 * suggestion.probability:.0f} %",
            f"{100 * suggestion.gain:.2f} %",
            suggestion.alike or "",
        )
        for suggestion in suggestions
    ]
    print_table(out, ("photo", "perhaps", "probability", "gain", "nearly like"), rows, right=(2, 3))


def _label(model: Path, suggestions: Sequence[SuggestedPhoto], port: int, *, as_json: bool) -> None:
    """Serve the page that asks for the labels of photos, in their order."""
    from finegraph.cli.next_commands import check_extra
    from finegraph.cli.serve import serve_until_stopped

    check_extra()
    from finegraph.web.security import Security
    from finegraph.web.serve.serve_settings import ServeSettings

    photos = tuple(Path(suggestion.path) for suggestion in suggestions)
    settings = ServeSettings(model=model, teach=True, to_label=photos, security=Security(port=port))
    serve_until_stopped(settings, as_json=as_json)
