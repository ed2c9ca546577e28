"""`finegraph demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.failures import interruptible
from finegraph.cli.next_commands import missing_pages, opener, own_command, print_next
from finegraph.cli.shared_options import FormerOutput, Json
from finegraph.cli.terminal import console, count, percent_or_dash, print_json, print_table, printable

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.evaluation import EvaluationResult
    from finegraph.workflows.demo import Demo, HeadComparison

NAMES = {"softmax": "softmax (no graph)", "bipartite": "bipartite (graph)"}
WHAT = {"test": "controlled: the same kitchens on other days", "wild": "wild: other cameras, half-eaten plates"}


def demo(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="A new folder for it all; by default runs/demo, or the next free name.",
        ),
    ] = None,
    out: FormerOutput = None,
    as_json: Json = False,
) -> None:
    """Show the whole workflow in a few minutes, offline.

    Draws the photos of a small menu, trains a head with the label graph (bipartite) and one without (softmax) on three
    photos of each item, compares both on photos that they never saw, asks about one photo, and writes a report.
    """
    from finegraph.cli.training_display import TrainingDisplay
    from finegraph.workflows.demo import run_demo

    folder = output or out or _new_folder()
    kept = f"what was drawn and trained so far is in {folder}; finegraph demo starts again in a new folder"
    with interruptible(kept), TrainingDisplay(quiet=True) as display:
        result = run_demo(folder, display)
    if as_json:
        print_json(_document(result))
    else:
        _print(result)


def _new_folder() -> Path:
    """A new folder in `runs`."""
    number, path = 1, Path("runs/demo")
    while path.exists():
        number += 1
        path = Path(f"runs/demo-{number}")
    return path


def _document(demo: Demo) -> dict[str, object]:
    """The demo as JSON."""
    question = demo.question
    return {
        "folder": demo.folder,
        "fine": len(demo.graph),
        "kinds": len(demo.graph.kinds),
        "photos": demo.photos,
        "comparisons": [_comparison(comparison) for comparison in demo.comparisons],
        "question": {
            "photo": question.photo,
            "truth": question.truth,
            "given": {"restaurant": question.known},
            "before": question.before.to_dict(),
            "after": question.after.to_dict(),
        },
        "report": demo.report,
        "seconds": demo.seconds,
    }


def _comparison(comparison: HeadComparison) -> dict[str, object]:
    metrics = {
        head: {"top1": result.top1, "top5": result.top5, "nll": result.nll, "kinds": result.kinds}
        for head, result in comparison.results.items()
    }
    gain = {"mean": comparison.gain.mean, "low": comparison.gain.low, "high": comparison.gain.high}
    return {
        "split": comparison.split,
        "heads": metrics,
        "gain": gain,
        "fixed": comparison.fixed,
        "broken": comparison.broken,
    }


def _print(demo: Demo) -> None:
    """Print the demo."""
    from finegraph.cli.prediction_text import print_prediction
    from finegraph.workflows.demo import PHOTOS_PER_LABEL

    out = console()
    photos = ", ".join(f"{many:,} {split}" for split, many in demo.photos.items())
    _heading(out, "A drawn menu")
    out.print(f"{len(demo.graph)} menu items, {len(demo.graph.kinds)} kinds of coarse labels; photos: {photos}")
    out.print(f"trained on {PHOTOS_PER_LABEL} photos of each item, in the same way without the label graph and with it")
    for comparison in demo.comparisons:
        _heading(out, WHAT.get(comparison.split, comparison.split).capitalize())
        _print_comparison(out, comparison)
    question = demo.question
    _heading(out, f"One photo of {question.truth}")
    print_prediction(out, question.before, {})
    _heading(out, f"The same photo, and you know the restaurant: {question.known}")
    print_prediction(out, question.after, {"restaurant": (question.known,)})
    out.print()
    out.print(
        "The photos are drawn: this shows how it works, not how much it helps on real ones. With many photos of each "
        "item the graph gains less; what it always gives is answers about coarse labels, and answers that follow from "
        "what you know."
    )
    _next(out, demo)


def _print_comparison(out: Console, comparison: HeadComparison) -> None:
    """The metrics of both heads on one split."""
    rows = []
    for head, result in comparison.results.items():
        kinds = [result.kinds[kind] for kind in ("dish", "restaurant")]
        shares = (result.top1, result.top5, *kinds, *_sure(result))
        rows.append((NAMES[head], *(percent_or_dash(share) for share in shares)))
    headings = ("head", "top-1", "top-5", "dish", "restaurant", "sure", "wrong")
    print_table(out, headings, rows, right=(1, 2, 3, 4, 5, 6))
    gain = comparison.gain
    low, high = 100 * gain.low, 100 * gain.high
    chance = "" if low > 0 or high < 0 else "; 0 lies inside, so it may be chance"
    points = f"{100 * gain.mean:+.1f} points top-1, 95 % interval {low:+.1f} to {high:+.1f}"
    out.print(f"bipartite against softmax: {points}{chance}")
    risk = next(iter(comparison.results.values())).sure.risk
    out.print(f"sure: photos whose item or dish it names although it may be wrong 1 time in {1 / risk:.0f} only")
    out.print(f"{count(comparison.fixed, 'photo')} fixed, {count(comparison.broken, 'photo')} broken")


def _sure(result: EvaluationResult) -> tuple[float, float | None]:
    """The share of photos whose item or, if that is not sure, whose dish is; and how many of these are wrong."""
    sure, levels = result.sure, ("fine", "dish")
    share = sum(sure.levels.get(level, 0.0) for level in levels)
    wrong = sum(sure.levels.get(level, 0.0) * (sure.wrong_at.get(level) or 0.0) for level in levels)
    return share, wrong / share if share else None


def _next(out: Console, demo: Demo) -> None:
    """What to do next, as people type it here."""
    from shlex import quote

    program, run = own_command(), quote(f"{demo.folder}/bipartite")
    photo, restaurant = quote(demo.question.photo), quote(f"restaurant={demo.question.known}")
    commands = (
        (f"{opener()}{quote(demo.report)}", "the report, in a browser"),
        (
            f"{program} serve {run} --teach --samples {quote(demo.folder + '/menu/photos')}",
            f"the same as a web page, where it learns from you{missing_pages()}",
        ),
        (f"{program} predict {run} {photo} --given {restaurant}", "ask, and say what you know"),
        (f"{program} train FOLDER --run runs/mine", "your own photos: a folder per class, or a manifest"),
    )
    print_next(out, commands, f"Next (all of this took {demo.seconds:.0f} s)")


def _heading(out: Console, text: str) -> None:
    from rich.text import Text

    out.print()
    out.print(Text(printable(text), style="bold"))
