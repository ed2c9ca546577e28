"""`finegraph index`: making an index of photos, and its maintenance.

`finegraph index RUN PHOTOS...` makes one; the other commands come after `index`. A model folder that is called like one
of them is named by its path, `./add`.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from finegraph.cli import exit_codes
from finegraph.cli.commands import Command, DefaultGroup
from finegraph.cli.failures import CONTINUES, interruptible
from finegraph.cli.progress import progress
from finegraph.cli.shared_options import BadFile, Json, MovedModel, Run, Workers
from finegraph.cli.terminal import console, count, print_json, print_left_out, print_pairs, print_table, printable

if TYPE_CHECKING:
    from finegraph.workflows.index import IndexReport
    from finegraph.workflows.indexing.index_upkeep import IndexFacts

MAKE = "make"
_KEPT = f"the photos that are in the index are kept; {CONTINUES}"
IndexFolder = Annotated[Path, typer.Argument(metavar="INDEX", help="An index folder.")]
Photos = Annotated[
    list[str],
    typer.Argument(metavar="PHOTOS", help="Photos, folders of photos, a folder per class, or sources of data."),
]
Split = Annotated[str | None, typer.Option(help="Only the photos of this split; by default all.")]


class _MakeByDefault(DefaultGroup):
    """A group whose first argument may also be the model to make an index with."""

    default = MAKE


index_app = typer.Typer(
    name="index",
    cls=_MakeByDefault,
    rich_markup_mode=None,
    help="Make an index of photos to search in.\n\nfinegraph index RUN PHOTOS -o INDEX makes one.",
)


@index_app.command(MAKE, cls=Command)
def make(
    model: Run,
    photos: Photos,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="INDEX", help="The folder of the new index.")],
    exact: Annotated[bool, typer.Option("--exact", help="Compare all photos, however many there are.")] = False,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Look through a part of the photos; by default beyond 200,000.")
    ] = False,
    project: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Project vectors to N dimensions, such as 256.")
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="built-in|milvus", help="What holds the photos: files of the index, or Milvus.")
    ] = "built-in",
    uri: Annotated[
        str | None,
        typer.Option(
            metavar="URI", help="The Milvus server, http://HOST:19530, or a file FILE.db for the embedded one."
        ),
    ] = None,
    split: Split = None,
    on_bad_file: BadFile = "error",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Make an index; the word make may be left out.

    An interrupted job continues when the same command is given again.
    """
    if exact and approximate:
        raise typer.BadParameter("--exact and --approximate exclude each other")
    if engine not in ("built-in", "milvus"):
        raise typer.BadParameter(f"--engine: expected built-in or milvus, got {engine!r}")
    if (engine == "milvus") != (uri is not None):
        raise typer.BadParameter("--engine milvus and --uri belong together: name the server, or a file FILE.db")
    from finegraph.workflows.index import make_index

    method = "exact" if exact else "approximate" if approximate else "auto"
    options: dict[str, Any] = {"on_bad_file": on_bad_file}
    with interruptible(_KEPT), progress("photos") as advance:
        report = make_index(
            model,
            photos,
            output,
            method=method,
            project=project,
            uri=uri,
            split=split,
            workers=workers,
            progress=advance,
            **options,
        )
    if report is not None:  # one of several processes, of which the first prints
        _print_report(report, as_json)


@index_app.command(cls=Command)
def add(
    index: IndexFolder,
    photos: Photos,
    model: MovedModel = None,
    split: Split = None,
    on_bad_file: BadFile = "error",
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Add photos, and update those that changed.

    Photos that have not changed are skipped; those that changed are replaced.
    """
    from finegraph.workflows.index import add_photos

    options: dict[str, Any] = {"on_bad_file": on_bad_file}
    with interruptible(_KEPT), progress("photos") as advance:
        report = add_photos(index, photos, model=model, split=split, workers=workers, progress=advance, **options)
    if report is not None:  # one of several processes, of which the first prints
        _print_report(report, as_json)


@index_app.command(cls=Command)
def remove(
    index: IndexFolder,
    photos: Annotated[
        list[Path] | None, typer.Argument(metavar="PHOTOS", help="Photos, or folders: all photos below.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Remove the photos of this fine label; repeat for more.")
    ] = None,
    missing: Annotated[bool, typer.Option("--missing", help="Remove photos whose file is missing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Also if more than half of the photos are missing.")] = False,
    as_json: Json = False,
) -> None:
    """Remove photos; their files are not touched."""
    from finegraph.workflows.indexing.index_upkeep import remove_photos

    removed = remove_photos(index, photos or (), labels=label or (), missing=missing, force=yes)
    if as_json:
        print_json({"folder": str(index), "removed": removed})
    else:
        console().print(f"{count(removed, 'photo')} removed from {printable(str(index))}")


@index_app.command(cls=Command)
def compact(index: IndexFolder, as_json: Json = False) -> None:
    """Merge files and forget removed photos.

    The lists of the approximate search are rebuilt.
    """
    from finegraph.workflows.indexing.index_upkeep import compact_index

    _print_facts(compact_index(index), as_json)


@index_app.command(cls=Command)
def show(index: IndexFolder, as_json: Json = False) -> None:
    """Show what is in an index."""
    from finegraph.workflows.indexing.index_upkeep import describe_index

    _print_facts(describe_index(index), as_json)


@index_app.command(cls=Command)
def check(
    index: IndexFolder,
    photos: Annotated[bool, typer.Option("--photos", help="Read every photo too, and see whether it changed.")] = False,
    as_json: Json = False,
) -> None:
    """Check every file against its checksum.

    Exits with 1 if something is wrong.
    """
    from finegraph.workflows.indexing.index_upkeep import check_index

    with progress("photos") as advance:
        result = check_index(index, photos=photos, progress=advance)
    wrong = bool(result.damaged or result.missing or result.changed)
    if as_json:
        print_json(result.to_dict())
    else:
        out = console()
        rows = [("damaged", line) for line in result.damaged]
        rows += [("missing", line) for line in result.missing]
        rows += [("changed", line) for line in result.changed]
        if rows:
            print_table(out, ("what", "where"), rows)
        looked = f"{count(result.files, 'file')} and {count(result.photos, 'photo')}"
        out.print(f"{looked if photos else count(result.files, 'file')} checked: {len(rows) or 'nothing'} wrong")
    if wrong:
        raise typer.Exit(exit_codes.FOUND_ERRORS)


def _print_report(report: IndexReport, as_json: bool) -> None:
    """Print what was done to an index."""
    if as_json:
        print_json(report.to_dict())
    else:
        out = console()
        parts = [f"{count(report.added, 'photo')} added"]
        again = f" ({report.relabelled:,} had another label)" if report.relabelled else ""
        parts += [f"{report.replaced:,} replaced{again}"] * (report.replaced > 0)
        parts += [f"{report.unchanged:,} unchanged"] * (report.unchanged > 0)
        out.print(f"{', '.join(parts)}; {count(report.photos, 'photo')} in {printable(report.folder)}")
        share = report.feature_seconds / report.seconds if report.seconds else 0.0
        out.print(f"{report.seconds:.1f} s, {share:.1%} of them for computing features")
        if report.foreign:
            out.print(
                f"{count(report.foreign, 'photo')} with a label that the model does not know; kept with the label"
            )
        if report.projection_recall is not None:
            out.print(
                f"projected to {report.dimensions} dimensions, which keeps {report.projection_recall:.1%} of the ten "
                f"nearest photos (loses {1 - report.projection_recall:.1%})"
            )
        if report.approximate_recall is not None:
            out.print(f"searched approximately, which finds {report.approximate_recall:.1%} of the ten nearest photos")
    print_left_out(console(stderr=True), [str(error) for error in report.bad])


def _print_facts(facts: IndexFacts, as_json: bool) -> None:
    """Print what is in an index."""
    if as_json:
        print_json({**asdict(facts), "way": facts.method})  # `way` is the former name
        return
    out = console()
    state = "" if facts.complete else "; making it was interrupted: give the same command again to continue"
    rows = [
        ("photos", f"{facts.photos:,}, {facts.labelled:,} with a fine label{state}"),
        ("model", f"{facts.model} ({facts.network}, fingerprint {facts.fingerprint[:12]})"),
        ("vectors", f"{facts.dimensions} dimensions{_projected(facts)}"),
        ("search", _searched(facts)),
        *([("engine", f"Milvus at {facts.uri}, collection {facts.collection}")] if facts.uri is not None else []),
        *_files(facts),
    ]
    if out.is_terminal:
        print_pairs(out, rows, ["bold"] * len(rows))
    else:
        for name, words in rows:
            out.print(f"{name:<8}{printable(words)}")


def _projected(facts: IndexFacts) -> str:
    if facts.projection_recall is None:
        return ""
    return f" of {facts.feature_size}, which keep {facts.projection_recall:.1%} of the ten nearest photos"


def _searched(facts: IndexFacts) -> str:
    if facts.approximate_recall is None:
        return "exact"
    codes = "" if facts.code_recall is None else f", by small codes {facts.code_recall:.1%}"
    late = f"; {facts.outside_lists:,} photos came later, compact makes new lists" if facts.outside_lists else ""
    return (
        f"approximate, {facts.probes} of {facts.lists:,} lists, which finds {facts.approximate_recall:.1%} of the ten "
        f"nearest photos{codes}{late}"
    )


def _files(facts: IndexFacts) -> list[tuple[str, str]]:
    """The size of the files; photos that another engine holds are in none."""
    if facts.uri is not None:
        return [("files", f"{facts.bytes / 1e6:,.1f} MB beside the collection")] if facts.bytes else []
    return [("files", f"{facts.bytes / 1e6:,.1f} MB in {count(facts.segments, 'segment')}{_waste(facts)}")]


def _waste(facts: IndexFacts) -> str:
    return f", {count(facts.removed, 'removed photo')} still among them" if facts.removed else ""
