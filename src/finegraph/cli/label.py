"""`finegraph label`."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from finegraph.cli.progress import progress
from finegraph.cli.terminal import console, count, print_json, print_table, printable

if TYPE_CHECKING:
    from finegraph.labelling import Agreement, Diff, Edit, LabelStore

MOST_PRINTED = 50
"""How many lines a terminal is filled with, unless more are asked for."""


def label(
    graph: Annotated[
        str, typer.Argument(metavar="GRAPH", help="A graph file, .csv or .json, or a store, .db or a database URL.")
    ],
    data: Annotated[str | None, typer.Option(metavar="SOURCE", help="The photos of the classes.")] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="RUN", help="A run or model folder that makes suggestions; needs --data.")
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Keep the decisions in this database, not in a file beside the graph."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any.")] = 8377,
    token: Annotated[
        str | None, typer.Option(envvar="FINEGRAPH_TOKEN", help="What people must know; needed beyond this machine.")
    ] = None,
    import_from: Annotated[
        Path | None,
        typer.Option(
            "--import", metavar="FILE", help="Take a graph, a Label Studio file or photo labels over, and end."
        ),
    ] = None,
    export: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the graph to this file, and end.")] = None,
    file_format: Annotated[
        str | None,
        typer.Option("--format", metavar="csv|json|label-studio|photos", help="What to write; by default by the name."),
    ] = None,
    backup: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Copy the whole store to this file, and end.")
    ] = None,
    diff: Annotated[
        str | None,
        typer.Option(metavar="OTHER", help="Show what differs from another graph or store to this one, and end."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Show the log, newest first, and end.")] = False,
    agreement: Annotated[bool, typer.Option("--agreement", help="Show how well people agree, and end.")] = False,
    undo: Annotated[
        int | None, typer.Option(metavar="ACTION", help="Undo an action of the log by its number, and end.")
    ] = None,
    fine: Annotated[str | None, typer.Option(help="With --history: only this class.")] = None,
    kind: Annotated[str | None, typer.Option(help="With --history and --agreement: only this kind.")] = None,
    person: Annotated[str | None, typer.Option(help="Who imports or undoes; whose history.")] = None,
    most: Annotated[int, typer.Option(min=1, max=10_000, help="How many lines of history.")] = MOST_PRINTED,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Let people describe the classes, in a page in the browser.

    The decisions are kept in a store beside the graph file (menu.csv: menu.db) and come out again by --export, or go
    straight into training: finegraph train --graph menu.db. Each flag that says so does one thing and ends.
    """
    verbs = {
        "--import": import_from,
        "--export": export,
        "--backup": backup,
        "--diff": diff,
        "--history": history or None,
        "--agreement": agreement or None,
        "--undo": undo,
    }
    chosen = [name for name, value in verbs.items() if value is not None]
    if len(chosen) > 1:
        raise typer.BadParameter(f"{' and '.join(chosen)} cannot be asked for at once")
    if not chosen:
        _serve(graph, data, model, database, host, port, token)
        return
    who = person or _user()
    if diff is not None:
        _print_diff(graph, database, diff, as_json)
        return
    from finegraph.workflows.label import open_store

    store, notes = open_store(graph, database, write=bool(import_from or undo is not None))
    with store:
        if import_from is not None or undo is not None:
            _edit(store, import_from, undo, who, as_json)
        elif export is not None:
            _export(store, export, file_format, as_json)
        elif backup is not None:
            _done(as_json, {"backup": str(store.backup(backup))}, f"copied to {backup}")
        elif agreement:
            _print_agreement(store.agreement(kind), as_json)
        else:
            _print_history(store.history(fine=fine, kind=kind, person=person, limit=most), as_json)
    _say(notes)


def _serve(
    graph: str, data: str | None, model: Path | None, database: str | None, host: str, port: int, token: str | None
) -> None:
    """Open the store and serve the page until it is stopped."""
    from finegraph.web.label import serve_label
    from finegraph.workflows.label import open_session

    with progress("photos") as told:
        session = open_session(graph, data=data, model=model, database=database, progress=told)
    with session:
        _say(session.notes)
        serve_label(session, host=host, port=port, token=token)


def _user() -> str:
    """The name of the user of this machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"


def _say(notes: tuple[str, ...]) -> None:
    to = console(stderr=True)
    for note in notes:
        to.print(printable(note))


def _done(as_json: bool, content: dict[str, Any], text: str) -> None:
    if as_json:
        print_json(content)
    else:
        console().print(printable(text))


def _edit(store: LabelStore, file: Path | None, undo: int | None, who: str, as_json: bool) -> None:
    """Import a file or undo an action."""
    import uuid

    from finegraph.workflows.label import import_file

    if file is not None:
        result = import_file(store, file, person=who)
    else:
        assert undo is not None, "one of both was asked for"
        result = store.undo(undo, person=who, edit_id=uuid.uuid4().hex)
    _done(as_json, result.to_dict(), f"{result.text}; action number {result.batch}")


def _export(store: LabelStore, target: Path, file_format: str | None, as_json: bool) -> None:
    from finegraph.workflows.label import export_file

    written = export_file(store, target, file_format)  # type: ignore[arg-type]  # what it cannot be is refused there
    _done(as_json, {"file": str(written)}, f"wrote {written}")


def _print_diff(graph: str, database: str | None, other: str, as_json: bool) -> None:
    """What differs from another graph to this one."""
    from finegraph.labelling.diffing import diff_graphs
    from finegraph.workflows.label import open_store
    from finegraph.workflows.stored_labels import is_store, read_graph_of

    if is_store(graph):
        here = read_graph_of(graph)
    else:
        store, _ = open_store(graph, database, write=False)
        with store:
            here = store.graph()
    found: Diff = diff_graphs(read_graph_of(other), here)
    if as_json:
        print_json(found.to_dict())
        return
    to = console()
    for change in found.changes:
        to.print(printable(change.text))
    counts = ", ".join(f"{number} {what}" for what, number in found.counts.items())
    to.print(printable(counts or "no difference"))


def _print_history(edits: list[Edit], as_json: bool) -> None:
    if as_json:
        print_json({"edits": [edit.to_dict() for edit in edits]})
        return
    rows = [
        [str(edit.batch), edit.at[:19].replace("T", " "), edit.person, edit.text + (" (undone)" if edit.undone else "")]
        for edit in edits
    ]
    print_table(console(), ["action", "when", "who", "what"], rows, right=[0])


def _print_agreement(found: Agreement, as_json: bool) -> None:
    if as_json:
        print_json(found.to_dict())
        return
    to = console()
    print_table(
        to,
        ["kind", "cells", "people", "agree", "Fleiss' kappa"],
        [[one.kind, str(one.cells), str(one.people), _share(one.observed), _kappa(one.fleiss)] for one in found.kinds],
        right=[1, 2, 3, 4],
    )
    if found.pairs:
        rows = [
            [pair.one, pair.two, str(pair.cells), _share(pair.observed), _kappa(pair.kappa)] for pair in found.pairs
        ]
        print_table(to, ["one", "other", "cells", "agree", "Cohen's kappa"], rows, right=[2, 3, 4])
    to.print(f"all kinds: Fleiss' kappa {_kappa(found.fleiss)}, {count(len(found.pairs), 'pair')} of people")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _kappa(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
