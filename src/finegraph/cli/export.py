"""`finegraph export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.failures import AGAIN, interruptible
from finegraph.cli.shared_options import Json, Run
from finegraph.cli.terminal import console, count, print_json, print_table, printable

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.workflows.export import ExportResult


def export(
    run: Run,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write: .onnx, or .pt2 for torch.export.")
    ],
    check: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PHOTOS",
            help="Photos, or folders of photos, to compare the file with the model on; repeatable. By default "
            "some of those that the run was trained with.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a model as one file that runs without finegraph.

    It takes images and evidence and gives the log probabilities of all labels, exactly, and the embedding. The file is
    compared with the model on photos first, and is not written if it answers differently.
    """
    from finegraph.cli.progress import progress
    from finegraph.workflows.export import export_model

    with interruptible(f"no file was written, an earlier one is as it was; {AGAIN}"), progress("photos") as advance:
        result = export_model(run, output, check=check or (), progress=advance)
    if as_json:
        print_json(result.to_dict())
    else:
        _print(console(), result)


def _print(out: Console, result: ExportResult) -> None:
    """Print the result."""
    from finegraph.model.export.export_check import LIMIT, TINY

    out.print(f"compared with the model on {count(result.photos, 'photo')}: {printable(result.checked_on)}")
    rows = []
    for difference in result.differences:
        output = f"{difference.output}, given evidence" if difference.given_evidence else difference.output
        log = "-" if difference.log is None else f"{difference.log:.1e}"
        rows.append([output, f"{difference.value:.1e}", log, f"{LIMIT:.0e}"])
    headings = ["largest difference", "of values", "of logarithms", "limit"]
    print_table(out, headings, rows, right=(1, 2, 3))
    out.print(f"values: probabilities, or numbers of the embedding; logarithms: of probabilities of at least {TINY:g}")
    plain = result.plain
    if result.plain_left_out:
        out.print(f"plain Pillow cannot read {count(result.plain_left_out, 'photo')}; the comparison is without")
    if plain is not None and not plain.largest_pixel:
        out.print("photos prepared with plain Pillow, not by finegraph: the same pixels")
    elif plain is not None:
        out.print(
            f"photos prepared with plain Pillow, not by finegraph: pixels differ by {plain.mean_pixel:.2g} of 255 on "
            f"average (at most {plain.largest_pixel}), probabilities by at most {plain.probability:.1e}; "
            f"{plain.other_answers} of {count(result.photos - result.plain_left_out, 'photo')} get another answer"
        )
    out.print(
        f"images (batch, {result.image_size}, {result.image_size}, 3) of uint8, {count(result.fine, 'fine label')}, "
        f"{count(result.coarse, 'label')} of {count(result.kinds, 'kind')}, temperature {result.temperature:.4g}"
    )
    out.print(f"written: {printable(str(result.path))}, {result.size / 1e6:.1f} MB")
    if result.data is not None:
        out.print(f"its weights are in {printable(result.data.name)}, which must stay beside it")
