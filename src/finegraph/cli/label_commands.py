"""`finegraph label import|export|history|undo|diff|agreement|backup`: each does one thing with a store, and ends."""

from __future__ import annotations

import getpass
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from finegraph.cli.shared_options import Json
from finegraph.cli.terminal import MAX_LINES, console, count, print_json, print_table, printable

if TYPE_CHECKING:
    from finegraph.labelling import Agreement, Edit, EditResult

Graph = Annotated[
    str, typer.Argument(metavar="GRAPH", help="A graph file, .csv or .json, or a store, .db or a database URL.")
]
Database = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Keep the decisions in this database, not in a file beside the graph."),
]
Kind = Annotated[str | None, typer.Option(help="Only this kind.")]
Person = Annotated[str | None, typer.Option(help="The person who edits; by default the user of this machine.")]


def import_command(
    graph: Graph,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A graph, Label Studio export, photo labels, comparisons.")
    ],
    person: Person = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Import a file into the store.

    Only what differs is edited, as one action that can be undone. The store is created if needed.
    """
    from finegraph.workflows.labels.label_files import import_into

    result, notes = import_into(graph, file, person=person or _user(), database=database)
    _print_result(result, as_json)
    say(notes)


def export_command(
    graph: Graph,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; one of that name is replaced.")],
    file_format: Annotated[
        str | None,
        typer.Option("--format", metavar="csv|json|label-studio|photos|comparisons", help="By default by the ending."),
    ] = None,
    compared: Annotated[
        str | None,
        typer.Option(metavar="classes|photos", help="Fill unknown values of numbers by comparisons of these."),
    ] = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Write the graph to a file.

    menu.db@120 is the store as it was after edit 120. With --compared, classes that have no value of a number, or no
    label of an ordered kind, but were compared in it get one; photos counts comparisons of photos too, for their
    classes.
    """
    from finegraph.workflows.labels.graph_sources import split_version
    from finegraph.workflows.labels.label_files import export_file
    from finegraph.workflows.labels.label_stores import open_store

    place, version = split_version(graph)
    store, notes = open_store(place, database, write=False)
    with store:
        written = export_file(store, file, file_format, version=version, compared=compared)  # type: ignore[arg-type]
    _done(as_json, {"file": str(written)}, f"wrote {written}")
    say(notes)


def history(
    graph: Graph,
    fine: Annotated[str | None, typer.Option(help="Only this class.")] = None,
    kind: Kind = None,
    person: Annotated[str | None, typer.Option(help="Only what this person did.")] = None,
    limit: Annotated[int, typer.Option("--max", min=1, max=10_000, help="How many lines.")] = MAX_LINES,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Show the log, newest first."""
    from finegraph.workflows.labels.label_stores import open_store

    store, notes = open_store(graph, database, write=False)
    with store:
        store.check("history")
        _print_history(store.history(fine=fine, kind=kind, person=person, limit=limit), as_json)
    say(notes)


def undo(
    graph: Graph,
    action: Annotated[int, typer.Argument(metavar="ACTION", help="The number of the action in the log.")],
    person: Person = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Undo an action of the log."""
    from finegraph.workflows.labels.label_stores import open_store

    store, notes = open_store(graph, database)
    with store:
        _print_result(store.undo(action, person=person or _user(), edit_id=uuid.uuid4().hex), as_json)
    say(notes)


def diff(
    graph: Graph,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Another graph file or store, or menu.db@120.")],
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Show how this graph differs from another graph or store."""
    from finegraph.workflows.labels.label_files import diff_from

    difference = diff_from(graph, other, database)
    if as_json:
        print_json(difference.to_dict())
        return
    out = console()
    for change in difference.changes:
        out.print(printable(change.text))
    counts = ", ".join(f"{number} {what}" for what, number in difference.counts.items())
    out.print(printable(counts or "no difference"))


def agreement(graph: Graph, kind: Kind = None, database: Database = None, as_json: Json = False) -> None:
    """Show how well people agree: Cohen's and Fleiss' kappa."""
    from finegraph.workflows.labels.label_stores import open_store

    store, notes = open_store(graph, database, write=False)
    with store:
        _print_agreement(store.agreement(kind), as_json)
    say(notes)


def backup(
    graph: Graph,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file.")],
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Copy the whole store to a file, also while people edit."""
    from finegraph.workflows.labels.label_stores import open_store

    store, notes = open_store(graph, database, write=False)
    with store:
        _done(as_json, {"backup": str(store.backup(file))}, f"copied to {file}")
    say(notes)


COMMANDS: dict[str, Callable[..., None]] = {
    "import": import_command,
    "export": export_command,
    "history": history,
    "undo": undo,
    "diff": diff,
    "agreement": agreement,
    "backup": backup,
}


def say(notes: tuple[str, ...]) -> None:
    """Print messages about a store on standard error."""
    out = console(stderr=True)
    for note in notes:
        out.print(printable(note))


def _user() -> str:
    """The name of the user of this machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"


def _done(as_json: bool, content: dict[str, Any], text: str) -> None:
    if as_json:
        print_json(content)
    else:
        console().print(printable(text))


def _print_result(result: EditResult, as_json: bool) -> None:
    _done(as_json, result.to_dict(), f"{result.text}; action number {result.batch}")


def _print_history(edits: list[Edit], as_json: bool) -> None:
    if as_json:
        print_json({"edits": [edit.to_dict() for edit in edits]})
        return
    rows = [
        [
            str(edit.number),
            str(edit.batch),
            edit.at[:19].replace("T", " "),
            edit.person,
            edit.text + (" (undone)" if edit.undone else ""),
        ]
        for edit in edits
    ]
    print_table(console(), ["edit", "action", "when", "who", "what"], rows, right=[0, 1])


def _print_agreement(measured: Agreement, as_json: bool) -> None:
    if as_json:
        print_json(measured.to_dict())
        return
    out = console()
    print_table(
        out,
        ["kind", "cells", "people", "agree", "Fleiss' kappa"],
        [
            [kind.kind, str(kind.cells), str(kind.people), _share(kind.observed), _kappa(kind.fleiss)]
            for kind in measured.kinds
        ],
        right=[1, 2, 3, 4],
    )
    if measured.pairs:
        rows = [
            [pair.one, pair.two, str(pair.cells), _share(pair.observed), _kappa(pair.kappa)] for pair in measured.pairs
        ]
        print_table(out, ["one", "other", "cells", "agree", "Cohen's kappa"], rows, right=[2, 3, 4])
    out.print(f"all kinds: Fleiss' kappa {_kappa(measured.fleiss)}, {count(len(measured.pairs), 'pair')} of people")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _kappa(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
