"""`finegraph predict`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from finegraph.cli.failures import AGAIN, interruptible
from finegraph.cli.shared_options import BadFile, Json, Run
from finegraph.cli.terminal import console, print_json, print_left_out
from finegraph.errors import InputError


def predict(
    model: Run,
    photos: Annotated[list[Path], typer.Argument(metavar="PHOTO", help="Photos, or folders of photos.")],
    given: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=LABEL",
            help="Evidence, such as restaurant=B; repeatable. The same kind again: one of these labels. "
            "Limits: price>=12, price=10..15, heat>=medium.",
        ),
    ] = None,
    views: Annotated[int, typer.Option(metavar="1|10", help="How many views of each photo to average.")] = 1,
    top: Annotated[int, typer.Option(min=1, help="How many labels to list.")] = 5,
    risk: Annotated[float, typer.Option(min=0.0, max=1.0, help="How often the sure answer may be wrong.")] = 0.05,
    questions: Annotated[
        int, typer.Option(min=0, help="How many questions to offer that would help most; 0 for none.")
    ] = 3,
    on_bad_file: BadFile = "error",
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a table too: labels, kinds, and of numbers the mean and quantiles. - prints it alone.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict the labels of photos.

    For each photo: the most probable labels, the labels of every kind, the most exact statement that is sure enough,
    what to ask next, and why the first answer rather than the second.
    """
    from finegraph.cli.prediction_text import print_prediction
    from finegraph.cli.progress import progress
    from finegraph.workflows.predict import predict_photos, predictions_csv, write_predictions

    printed = str(csv) == "-"
    if printed and as_json:
        raise InputError("expected one of a table and JSON to print, got both; name a file for the table")
    options: dict[str, Any] = {"given": given or (), "views": views, "top": top, "risk": risk, "questions": questions}
    with interruptible(f"no answer is kept; {AGAIN}"), progress("photos") as advance:
        result = predict_photos(model, photos, on_bad_file=on_bad_file, progress=advance, **options)  # type: ignore[arg-type]
    if result is None:  # one of several processes, of which the first prints
        return
    if csv is not None and not printed:
        write_predictions(result, csv)
    if printed:
        sys.stdout.write(predictions_csv(result))
    elif as_json:
        print_json(result.to_dict())
    else:
        out = console()
        for number, prediction in enumerate(result.predictions):
            if number:
                out.print()
            print_prediction(out, prediction, result.given, result.groups)
    print_left_out(console(stderr=True), [str(error) for error in result.bad])
