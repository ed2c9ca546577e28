"""The command `finegraph`: its commands, its common flags, and the one place where errors become exit codes."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NoReturn

import typer

from finegraph._version import __version__
from finegraph.cli import exit_codes
from finegraph.cli.data import data_app
from finegraph.cli.demo import demo
from finegraph.cli.doctor import doctor
from finegraph.cli.evaluate import evaluate
from finegraph.cli.export import export
from finegraph.cli.graph import graph_app
from finegraph.cli.index import index_app
from finegraph.cli.label import label
from finegraph.cli.predict import predict
from finegraph.cli.process import leave, prepare_process
from finegraph.cli.report import report
from finegraph.cli.search import search
from finegraph.cli.serve import serve
from finegraph.cli.study import study
from finegraph.cli.train import train

app = typer.Typer(
    name="finegraph",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # the plain help is quick and goes well in narrow terminals
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=exit_codes.SUMMARY,
)
app.add_typer(graph_app, name="graph")
app.add_typer(data_app, name="data")
app.add_typer(index_app, name="index")
app.command()(demo)
app.command()(doctor)
app.command()(evaluate)
app.command()(export)
app.command()(label)
app.command()(predict)
app.command()(search)
app.command()(serve)
app.command()(study)
app.command()(report)
app.command()(train)


@dataclass
class Options:
    """The flags that stand before a command."""

    debug: bool = False


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"finegraph {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")] = False,
) -> None:
    """Image classifiers whose labels form a graph: one exact posterior over fine and coarse labels."""
    context.obj.debug = debug


def run(arguments: Sequence[str]) -> int:
    """Run the command with the given arguments.

    Returns:
        The exit code; see `finegraph.cli.exit_codes`.
    """
    options = Options()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name must not end the command in an ASCII terminal
    try:
        typer.main.get_command(app).main(args=list(arguments), prog_name="finegraph", obj=options)
    except BaseException as error:
        code = exit_codes.exit_code_of(error)
        if code not in (exit_codes.OK, exit_codes.FOUND_ERRORS, exit_codes.WRONG_USAGE):
            _report(error, options.debug)
        return _flush(code)
    return _flush(exit_codes.OK)


def main() -> NoReturn:
    """The entry point of the command."""
    prepare_process()
    leave(run(sys.argv[1:]))


def _report(error: BaseException, debug: bool) -> None:
    """Say why the command failed."""
    from finegraph.cli.failures import print_failure

    with contextlib.suppress(BrokenPipeError):
        print_failure(error, debug)


def _flush(code: int) -> int:
    """Write out what is left; the exit code, which is another if nobody reads it any more."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = exit_codes.BROKEN_PIPE
    if code == exit_codes.BROKEN_PIPE:
        # The interpreter flushes once more at its end and would complain.
        with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]
    return code
