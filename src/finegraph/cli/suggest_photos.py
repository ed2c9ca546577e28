"""`finegraph suggest-photos`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.failures import AGAIN, interruptible
from finegraph.cli.next_commands import own_command, print_next
from finegraph.cli.shared_options import BadFile, Json, Run
from finegraph.cli.terminal import console, count, print_json, print_left_out, print_table, printable

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
    on_bad_file: BadFile = "error",
    as_json: Json = False,
) -> None:
    """Say which unlabelled photos to label next.

    They are those that are expected to make the model better soonest. Photos that look nearly alike come once before
    any of them comes again; those that it was taught already do not. Its head must have been fitted in closed form, as
    finegraph train does with few photos. --label opens them on a page; or fill in the file that -o writes, and let
    finegraph teach RUN --from take it. Rows of that file that have a label already stay.
    """
    from finegraph.cli.progress import progress
    from finegraph.workflows.suggest_photos import suggest_photos as suggest
    from finegraph.workflows.suggest_photos import write_suggestions

    with interruptible(f"nothing is kept; {AGAIN}"), progress("photos") as shown:
        result = suggest(
            model,
            photos,
            count=number,
            on_bad_file=on_bad_file,  # type: ignore[arg-type]
            output=output,
            progress=shown,
        )
    suggestions = result.photos
    kept = 0 if output is None else write_suggestions(output, suggestions)
    print_left_out(console(stderr=True), [str(error) for error in result.bad])
    if label:
        _label(model, suggestions, port, as_json=as_json)
        return
    if as_json:
        print_json(result.to_dict())
        return
    out = console()
    if output is not None:
        out.print(printable(f"{count(len(suggestions), 'photo')} in {output}; fill in the column label"))
        if kept:
            out.print(f"{count(kept, 'row')} with a label {'was' if kept == 1 else 'were'} there already, and stayed")
        program, run, file = own_command(), quote(str(model)), quote(str(output))
        commands = [
            (f"{program} teach {run} --from {file}", "teach it the labels that you filled in"),
            (f"{program} serve {run} --teach --to-label {file}", "or give them on a page, one photo after the other"),
        ]
        print_next(out, commands)
        return
    rows = [
        (
            suggestion.path,
            suggestion.guess,
            f"{suggestion.probability:.0%}",
            f"{suggestion.gain:.2%}",
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
