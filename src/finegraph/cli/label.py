"""`finegraph label`."""

from __future__ import annotations

import getpass
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from finegraph.cli.progress import progress
from finegraph.cli.terminal import console, count, print_json, print_table, printable

if TYPE_CHECKING:
    from finegraph.labelling import Agreement, Diff, Edit, EditResult

SECONDS_PER_TURN = 0.001
"""How long a thread of the server may compute while others wait. An edit goes through the database in many small steps,
and with Python's own 5 milliseconds each of them could wait as long as a whole edit takes."""
MOST_PRINTED = 50
"""How many lines a terminal is filled with, unless more are asked for."""
_USED_BY: dict[str, tuple[str | None, ...]] = {
    "--data": (None,),
    "--model": (None,),
    "--allow-host": (None,),
    "--format": ("--export",),
    "--fine": ("--history",),
    "--kind": ("--history", "--agreement"),
    "--person": ("--import", "--undo", "--history"),
}
"""What each flag goes with; None is the page."""


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
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A further name of this server; repeat it for more.")
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
    _refuse_unused(
        chosen[0] if chosen else None,
        {
            "--data": data,
            "--model": model,
            "--allow-host": allow_host or None,
            "--format": file_format,
            "--fine": fine,
            "--kind": kind,
            "--person": person,
        },
    )
    if not chosen:
        _serve(graph, data, model, database, host=host, port=port, token=token, hosts=allow_host or [])
        return
    who = person or _user()
    if diff is not None:
        _print_diff(graph, database, diff, as_json)
        return
    from finegraph.workflows.label import import_into, open_store

    if import_from is not None:
        result, notes = import_into(graph, import_from, person=who, database=database)
        _print_result(result, as_json)
        _say(notes)
        return
    if export is not None:
        _export(graph, database, export, file_format, as_json)
        return
    store, notes = open_store(graph, database, write=undo is not None)
    with store:
        if undo is not None:
            _print_result(store.undo(undo, person=who, edit_id=uuid.uuid4().hex), as_json)
        elif backup is not None:
            _done(as_json, {"backup": str(store.backup(backup))}, f"copied to {backup}")
        elif agreement:
            _print_agreement(store.agreement(kind), as_json)
        else:
            _print_history(store.history(fine=fine, kind=kind, person=person, limit=most), as_json)
    _say(notes)


def _serve(
    graph: str,
    data: str | None,
    model: Path | None,
    database: str | None,
    *,
    host: str,
    port: int,
    token: str | None,
    hosts: Sequence[str],
) -> None:
    """Open the store and serve the page until it is stopped."""
    sys.setswitchinterval(SECONDS_PER_TURN)
    from finegraph.web.label import serve_label
    from finegraph.web.security import Security
    from finegraph.workflows.label import open_session

    Security(host=host, port=port, token=token).check()  # before anything is made
    with progress("photos") as told:
        session = open_session(graph, data=data, model=model, database=database, progress=told)
    with session:
        _say(session.notes)
        serve_label(session, host=host, port=port, token=token, hosts=hosts)


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


def _refuse_unused(verb: str | None, given: dict[str, object]) -> None:
    """Refuse flags that would be of no use, rather than leave them unsaid."""
    for flag, value in given.items():
        if value is not None and verb not in _USED_BY[flag]:
            users = " or ".join(name or "the page" for name in _USED_BY[flag])
            raise typer.BadParameter(f"{flag} is of no use here; it goes with {users}")


def _print_result(result: EditResult, as_json: bool) -> None:
    _done(as_json, result.to_dict(), f"{result.text}; action number {result.batch}")


def _export(graph: str, database: str | None, target: Path, file_format: str | None, as_json: bool) -> None:
    """Write a store, or an earlier state of it, to a file."""
    from finegraph.workflows.label import export_file, open_store
    from finegraph.workflows.stored_labels import split_version

    place, version = split_version(graph)
    store, notes = open_store(place, database, write=False)
    with store:
        written = export_file(store, target, file_format, version=version)  # type: ignore[arg-type]  # refused there
    _done(as_json, {"file": str(written)}, f"wrote {written}")
    _say(notes)


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
