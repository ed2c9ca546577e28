"""How a command ends early, on standard error and without a traceback.

An error for the user says what, where, why and what to do. An interruption is one line that names what is kept and
which command resumes.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer

from finegraph.cli.exit_codes import BAD_INPUT, INTERNAL, INTERRUPTED, WRONG_USAGE, UsageError, exit_code_of
from finegraph.cli.process import is_first
from finegraph.cli.terminal import console, printable
from finegraph.errors import PhotoFileError, near_paths

SKIP = "--on-bad-file skip"
AGAIN = "the same command starts again"
CONTINUES = "the same command continues"


def print_failure(error: BaseException, debug: bool, *, skips_bad_files: bool = False) -> list[str]:
    """Print why a command failed.

    Args:
        error: what was raised.
        debug: whether to print the traceback too.
        skips_bad_files: whether the command has an option to leave bad photos out.

    Returns:
        The lines that were printed; none for what is no failure, such as an interruption.
    """
    if debug:
        traceback.print_exception(error)
    code = exit_code_of(error)
    if code not in (BAD_INPUT, INTERNAL) and not isinstance(error, UsageError):
        return []
    from rich.text import Text

    if code == BAD_INPUT:
        lines = _lines(error, skips_bad_files)
    else:
        lines = _usage(error) if code == WRONG_USAGE else _internal(error, debug)
    lines = [printable(line) for line in lines]
    out = console(stderr=True)
    out.print(Text.assemble(("error: ", "bold red"), lines[0]))
    for line in lines[1:]:
        out.print(Text("  " + line))
    return lines


def _lines(error: BaseException, skips_bad_files: bool) -> list[str]:
    """The lines of an error in what the user gave."""
    if isinstance(error, OSError) and error.filename is not None:
        if isinstance(error, FileNotFoundError):
            return [_missing(os.fspath(error.filename))]
        reason = error.strerror or type(error).__name__
        return [f"{os.fspath(error.filename)!s}: {reason[:1].lower()}{reason[1:]}; check the path and its rights"]
    if isinstance(error, PhotoFileError) and not os.path.lexists(error.path):
        leave_out = f", or leave such photos out: {SKIP}" if skips_bad_files else ""
        return [_missing(error.path), f"Name an existing photo{leave_out}."]
    lines = str(error).splitlines() or [type(error).__name__]
    if isinstance(error, PhotoFileError):
        leave_out = f", or leave such files out: {SKIP}" if skips_bad_files else ""
        lines.append(f"Repair, replace or remove the file{leave_out}. `finegraph data check` lists all.")
    return lines


def _missing(path: str | bytes) -> str:
    """The line about a missing file or folder, without advice on how to repair it."""
    text = os.fsdecode(path)
    return f"{text}: there is no such file or folder{near_paths(text) or '; check the path'}"


def _usage(error: Any) -> list[str]:
    """The lines of a command that was called wrongly."""
    message = error.format_message()
    message = message if message.endswith("...") else message.removesuffix(".")
    lines = [message[:1].lower() + message[1:]]
    if error.ctx is not None:
        usage = error.ctx.get_usage()
        lines += [usage[:1].lower() + usage[1:].splitlines()[0], *usage.splitlines()[1:]]
        lines.append(f"All of it: {error.ctx.command_path} --help")
    return lines


def _internal(error: BaseException, debug: bool) -> list[str]:
    """The lines of an error that should not have happened."""
    lines = [f"{type(error).__name__}: {error}".splitlines()[0], "This is a fault of finegraph, not of your input."]
    return lines if debug else [*lines, "Run `finegraph --debug ...` to see where it happened, and please report it."]


@contextmanager
def interruptible(kept: str | Callable[[], str]) -> Iterator[None]:
    """End a long command gracefully when it is interrupted by Ctrl-C or SIGTERM.

    Of several processes of a job, the first one says so.

    Args:
        kept: the text that says what is kept and which command resumes; a function if that is known only then.
    """
    before = _take_termination()
    try:
        yield
    except KeyboardInterrupt:
        if is_first():
            words = kept if isinstance(kept, str) else kept()
            console(stderr=True).print(printable(f"stopped; {words}"), soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _take_termination() -> signal.Handlers | None:
    """Treat SIGTERM like Ctrl-C; returns the previous handler, None if it was left alone."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return None  # it has a handler already, or the process was started to ignore it
    try:
        signal.signal(signal.SIGTERM, _interrupt)
    except ValueError:  # not the main thread: signals go elsewhere
        return None
    return signal.SIG_DFL


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
