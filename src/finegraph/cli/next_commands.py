"""The next commands, printed as the last lines of a command, and whether the web servers they start are installed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from finegraph.cli.process import job_size
from finegraph.cli.terminal import printable
from finegraph.errors import MissingExtraError

if TYPE_CHECKING:
    from rich.console import Console


SERVER_PACKAGES = ("fastapi", "uvicorn", "python_multipart", "prometheus_client", "segno")


def print_next(out: Console, commands: Iterable[tuple[str, str]], heading: str = "Next") -> None:
    """Print commands, each with what it does below it, so that both can be long.

    Args:
        out: the console to print on.
        commands: each command with what it does.
        heading: the line above them.
    """
    from rich.text import Text

    out.print()
    out.print(Text(printable(heading), style="bold"))
    for command, what in commands:
        out.print(printable(f"  {command}"), soft_wrap=True)
        out.print(printable(f"      {what}"), style="dim", soft_wrap=True)


def model_commands(run: str) -> tuple[tuple[str, str], ...]:
    """How to ask a model."""
    program = f"{own_command()} "
    return (
        (f"{program}predict {quote(run)} PHOTO", "ask about a photo"),
        (f"{program}serve {quote(run)}", f"the same as a web page{missing_pages()}"),
    )


def resume_command(run: str) -> str:
    """How to continue a training that was stopped, with as many processes as it had."""
    if job_size() == 1:
        return f"finegraph train --run {quote(run)} --resume"
    here = int(os.environ.get("LOCAL_WORLD_SIZE", job_size()))
    machines = "" if here == job_size() else f"--nnodes {job_size() // here} --rdzv-endpoint HOST:PORT "
    return f"torchrun {machines}--nproc-per-node {here} -m finegraph train --run-folder {quote(run)} --resume"


def own_command() -> str:
    """How to call this program here: by its name if that is found, else by its path, as after `make demo`."""
    name = "finegraph"
    on_path, called = shutil.which(name), Path(sys.argv[0])
    if called.stem != name or not called.exists():
        return name if on_path else f"{quote(sys.executable)} -m {name}"
    if on_path and Path(on_path).samefile(called):
        return name
    here = called.absolute()
    return quote(str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here))


def opener() -> str:
    """What opens a page in a browser on this system, with a space; nothing if there is no such command."""
    name = {"darwin": "open", "win32": "start"}.get(sys.platform, "xdg-open")
    return f"{name} " if sys.platform == "win32" or shutil.which(name) else ""


def missing_pages() -> str:
    """What to install before pages can be served; nothing if nothing is missing."""
    from finegraph.cli.next_commands import check_extra

    try:
        check_extra()
    except MissingExtraError as error:
        return f"; {error}"
    return ""


def check_extra(needed: tuple[str, ...] = SERVER_PACKAGES, extra: str = "serve") -> None:
    """Raise if something that the server needs is not installed.

    Raises:
        MissingExtraError: it names what to install.
    """
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the server needs {', '.join(missing)}, which is not installed; install it with "
            f'`pip install "finegraph[{extra}]"`'
        )
