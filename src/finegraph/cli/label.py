"""`finegraph label`: the page, and the commands that do one thing with a store.

`finegraph label GRAPH` opens the page; the other commands come after `label` and are in `label_commands.py`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from finegraph.cli import label_commands
from finegraph.cli.commands import Command, DefaultGroup
from finegraph.cli.exit_codes import UsageError
from finegraph.cli.label_commands import Database, Graph, say
from finegraph.cli.progress import progress
from finegraph.cli.shared_options import AllowHost, Host, JsonAddress, Port, Token
from finegraph.cli.terminal import print_json

OPEN = "open"
SECONDS_PER_TURN = 0.001
"""How long a thread of the server may compute while others wait. An edit goes through the database in many small steps,
and with Python's own 5 milliseconds each of them could wait as long as a whole edit takes."""
_FORMER_FLAGS = ("--import", "--export", "--undo", "--history", "--backup", "--diff", "--agreement")
"""Former flags that are commands now."""


class _OpenByDefault(DefaultGroup):
    """A group whose first argument may also be the graph to open the page of."""

    default = OPEN

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; a former flag that is now a command is named as such."""
        if args and args[0] not in self.commands:
            for word in args:
                flag = word.partition("=")[0]
                if flag in _FORMER_FLAGS:
                    name = flag.removeprefix("--")
                    raise UsageError(f"{flag} is a command of its own: finegraph label {name} GRAPH ...", ctx)
        return super().parse_args(ctx, args)


label_app = typer.Typer(
    name="label",
    cls=_OpenByDefault,
    rich_markup_mode=None,
    help="Label classes together, on a page in the browser.\n\nfinegraph label GRAPH opens the page. The "
    "decisions are kept in a store beside the graph file (menu.csv: menu.db), which finegraph train --graph menu.db "
    "reads.",
)


@label_app.command(OPEN, cls=Command)
def open_page(
    graph: Graph,
    data: Annotated[str | None, typer.Option(metavar="SOURCE", help="The photos of the classes.")] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="RUN", help="A run or model folder that makes suggestions; needs --data.")
    ] = None,
    database: Database = None,
    host: Host = "127.0.0.1",
    port: Port = 8377,
    token: Token = None,
    allow_host: AllowHost = None,
    as_json: JsonAddress = False,
) -> None:
    """Open the page; the word open may be left out.

    Ctrl-C stops it. Every decision is on the disk.
    """
    sys.setswitchinterval(SECONDS_PER_TURN)
    from finegraph.web.label import serve_label
    from finegraph.web.label.label_server import print_address
    from finegraph.web.security import Security
    from finegraph.workflows.label import open_session

    Security(host=host, port=port, token=token).check()  # before anything is made

    def on_ready(address: str) -> None:
        if as_json:
            print_json({"address": address, "store": session.store.place, "process": os.getpid()})
            sys.stdout.flush()  # a calling program may wait for this
        else:
            print_address(address)

    with progress("photos") as seen:
        session = open_session(graph, data=data, model=model, database=database, progress=seen)
    with session:
        say(session.notes)
        serve_label(session, host=host, port=port, token=token, hosts=allow_host or [], on_ready=on_ready)


for _name, _command in label_commands.COMMANDS.items():
    label_app.command(_name, cls=Command)(_command)
