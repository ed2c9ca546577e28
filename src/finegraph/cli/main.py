"""The command `finegraph`: its commands, its common flags, and the one place where errors become exit codes."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from finegraph._version import __version__
from finegraph.cli import completion, exit_codes
from finegraph.cli.commands import Command, Group
from finegraph.cli.data import data_app
from finegraph.cli.demo import demo
from finegraph.cli.doctor import doctor
from finegraph.cli.evaluate import evaluate
from finegraph.cli.export import export
from finegraph.cli.graph import graph_app
from finegraph.cli.graph_compare import compare
from finegraph.cli.graph_learn import learn
from finegraph.cli.graph_suggest import suggest
from finegraph.cli.index import index_app
from finegraph.cli.label import label_app
from finegraph.cli.predict import predict
from finegraph.cli.process import leave, prepare_process, tell_launcher, wait_for_first
from finegraph.cli.report import report
from finegraph.cli.search import search
from finegraph.cli.serve import serve
from finegraph.cli.study import study
from finegraph.cli.suggest_photos import suggest_photos
from finegraph.cli.teach import teach
from finegraph.cli.train import train

ORDER = (
    "demo", "data", "graph", "train", "evaluate", "predict", "report", "study", "index", "search", "serve", "label",
    "teach", "suggest-photos", "export", "doctor", "completion",
)  # fmt: skip
"""The commands in the order of work."""


class _InOrderOfWork(Group):
    """All commands, in the order in which people need them."""

    def list_commands(self, ctx: object) -> list[str]:
        """The names of the commands."""
        return sorted(self.commands, key=ORDER.index)


app = typer.Typer(
    name="finegraph",
    cls=_InOrderOfWork,
    add_completion=False,
    rich_markup_mode=None,  # the plain help is quick and fits narrow terminals
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=exit_codes.SUMMARY,
)
graph_app.command(cls=Command)(compare)
graph_app.command(cls=Command)(learn)
graph_app.command(cls=Command)(suggest)
app.add_typer(graph_app, name="graph")
app.add_typer(data_app, name="data")
app.add_typer(index_app, name="index")
app.add_typer(label_app, name="label")
for _command in (
    demo,
    train,
    evaluate,
    predict,
    report,
    study,
    search,
    serve,
    teach,
    suggest_photos,
    export,
    doctor,
    completion.completion,
):
    app.command(cls=Command)(_command)


@dataclass
class MainOptions:
    """The flags that stand before a command, and which options the command has."""

    debug: bool = False
    skips_bad_files: bool = False


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"finegraph {__version__}{_commit_of_clone()}")
        raise typer.Exit


def _commit_of_clone() -> str:
    """The commit, if this is a clone of the repository and not an installed package; for reports of faults."""
    clone = Path(__file__).parents[3]
    if not (clone / ".git").exists() or not (clone / "src/finegraph").is_dir():
        return ""
    from finegraph.training.records.starts import folder_commit

    commit = folder_commit(clone)
    return "" if commit is None else f" (commit {commit.commit[:12]}{', changed since' if commit.changed else ''})"


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


@functools.cache
def whole_command() -> Group:
    """All commands with their flags. Making them takes longer than most commands, so it is done once per process."""
    command = typer.main.get_command(app)
    assert isinstance(command, Group)
    return command


def run(arguments: Sequence[str]) -> int:
    """Run the command with the given arguments.

    Returns:
        The exit code; see `finegraph.cli.exit_codes`.
    """
    options = MainOptions()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name must not end the command in an ASCII terminal
    command = whole_command()
    try:
        code = command.main(args=list(arguments), prog_name="finegraph", standalone_mode=False, obj=options)
    except BaseException as error:
        wait_for_first(error)
        _report(error, options)
        return _flush(exit_codes.exit_code_of(error))
    return _flush(code if isinstance(code, int) else exit_codes.OK)


def main() -> NoReturn:
    """The entry point of the command."""
    if completion.ASKED in os.environ:
        leave(completion.answer(whole_command(), sys.argv[1:]))
    prepare_process()
    leave(run(sys.argv[1:]))


def _report(error: BaseException, options: MainOptions) -> None:
    """Say why the command failed."""
    from finegraph.cli.failures import print_failure

    with contextlib.suppress(BrokenPipeError):
        tell_launcher(print_failure(error, options.debug, skips_bad_files=options.skips_bad_files))


def _flush(code: int) -> int:
    """Flush the output; returns the exit code, which differs if the reader is gone."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = exit_codes.BROKEN_PIPE
    if code == exit_codes.BROKEN_PIPE:
        # The interpreter flushes once more at its end and would complain.
        with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]
    return code
