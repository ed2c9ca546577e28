"""`finegraph report`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.failures import AGAIN, interruptible
from finegraph.cli.shared_options import FormerOutput, Json
from finegraph.cli.terminal import console, count, print_json, printable

if TYPE_CHECKING:
    from finegraph.workflows.report import Report


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Run folders with an evaluation, or study folders; several are compared."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The page; by default report.html in the first folder."),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write plots there too, each as SVG and PNG.")
    ] = None,
    evaluation: Annotated[
        str | None, typer.Option(metavar="NAME", help="The evaluation of each run to show; by default test.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="What stands above the page.")] = None,
    out: FormerOutput = None,
    figures: Annotated[Path | None, typer.Option(hidden=True, help="The former name of --plots.")] = None,
    as_json: Json = False,
) -> None:
    """Write an HTML report of runs and studies.

    Accuracy with intervals, examples, confusions, classes, calibration, sure answers, explanations and the label graph;
    two or more runs are compared photo by photo. It is drawn from the files of `finegraph evaluate` alone.
    """
    from finegraph.workflows.report import write_report

    with interruptible(f"no page was written, an earlier one is as it was; {AGAIN}"):
        written = write_report(runs, output or out, evaluation=evaluation, plots=plots or figures, title=title)
    if as_json:
        print_json({**asdict(written), "figures": written.plots})  # `figures` is the former name
    else:
        _print(written)


def _print(written: Report) -> None:
    """What was written, for people."""
    out = console()
    parts = [", ".join(written.runs)] * bool(written.runs) + [f"study {name}" for name in written.studies]
    photos = f", {count(written.photos, 'photo')}" if written.runs else ""
    out.print(printable(f"{' and '.join(parts)}{photos}"))
    for sentence in written.summary:
        out.print(printable(f"- {sentence}"))
    if written.plots:
        out.print(f"{count(len(written.plots), 'file')} of plots in {printable(str(Path(written.plots[0]).parent))}")
    for note in written.notes:
        console(stderr=True).print(printable(f"note: {note}"))
    out.print(f"report: {printable(written.path)} ({written.size / 1e6:.1f} MB)")
