"""Arguments and options that several commands have, each with one text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder or a model folder.")]
MovedModel = Annotated[Path | None, typer.Option(metavar="RUN", help="The model that made the index, if it was moved.")]
BadFile = Annotated[str, typer.Option(metavar="error|skip", help="What to do about a photo that cannot be read.")]
Workers = Annotated[int | None, typer.Option(min=1, help="How many threads work on photos.")]
FormerOutput = Annotated[Path | None, typer.Option("--out", hidden=True, help="The former name of --output.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

# of servers
Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free one.")]
Token = Annotated[
    str | None,
    typer.Option(envvar="FINEGRAPH_TOKEN", help="Required with every request; needed beyond this machine."),
]
AllowHost = Annotated[list[str] | None, typer.Option(metavar="NAME", help="A further name of this server; repeatable.")]
JsonAddress = Annotated[bool, typer.Option("--json", help="Print the address as one JSON document.")]
