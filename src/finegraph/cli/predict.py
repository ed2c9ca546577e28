"""`finegraph predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from finegraph.cli.failures import AGAIN, interruptible
from finegraph.cli.terminal import console, print_json, print_left_out


def predict(
    model: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder or a model folder.")],
    photos: Annotated[list[Path], typer.Argument(metavar="PHOTO", help="Photos, or folders of photos.")],
    given: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=LABEL",
            help="Evidence, such as restaurant=B; repeat it for more kinds. The same kind again: one of these labels.",
        ),
    ] = None,
    views: Annotated[int, typer.Option(metavar="1|10", help="How many views of each photo to average.")] = 1,
    top: Annotated[int, typer.Option(min=1, help="How many labels to list.")] = 5,
    risk: Annotated[float, typer.Option(min=0.0, max=1.0, help="How often the sure answer may be wrong.")] = 0.05,
    questions: Annotated[
        int, typer.Option(min=0, help="How many questions to offer that would help most; 0 for none.")
    ] = 3,
    on_bad_file: Annotated[
        str, typer.Option(metavar="error|skip", help="What to do about a photo that cannot be read.")
    ] = "error",
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a table too: labels, kinds, and of numbers the mean and quantiles."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Predict the labels of photos.

    For each photo: the most probable labels, the labels of every kind, the most exact statement that is sure enough,
    what to ask next, and why the first answer rather than the second.
    """
    from finegraph.cli.prediction_text import print_prediction
    from finegraph.cli.progress import progress
    from finegraph.workflows.predict import predict_photos, write_predictions

    options: dict[str, Any] = {"given": given or (), "views": views, "top": top, "risk": risk, "questions": questions}
    with interruptible(f"no answer is kept; {AGAIN}"), progress("photos") as advance:
        result = predict_photos(model, photos, on_bad_file=on_bad_file, progress=advance, **options)  # type: ignore[arg-type]
    if result is None:  # one of several processes, of which the first speaks
        return
    if csv is not None:
        write_predictions(result, csv)
    if as_json:
        print_json(result.to_dict())
    else:
        out = console()
        for number, prediction in enumerate(result.predictions):
            if number:
                out.print()
            print_prediction(out, prediction, result.given, result.groups)
    print_left_out(console(stderr=True), [str(error) for error in result.bad])
