"""Errors for the user: what, where, why and what to do, on standard error, without a traceback."""

from __future__ import annotations

import os
import traceback
from typing import Any

from finegraph.cli.exit_codes import BAD_INPUT, INTERNAL, WRONG_USAGE, UsageError, exit_code_of
from finegraph.cli.terminal import console, printable
from finegraph.errors import PhotoFileError, near_paths

SKIP = "--on-bad-file skip"


def print_failure(error: BaseException, debug: bool) -> None:
    """Print why a command failed.

    Args:
        error: what was raised.
        debug: whether to print the traceback too.
    """
    if debug:
        traceback.print_exception(error)
    code = exit_code_of(error)
    if code not in (BAD_INPUT, INTERNAL) and not isinstance(error, UsageError):
        return
    from rich.text import Text

    lines = {BAD_INPUT: _lines, WRONG_USAGE: _usage}[code](error) if code != INTERNAL else _internal(error, debug)
    out = console(stderr=True)
    out.print(Text.assemble(("error: ", "bold red"), printable(lines[0])))
    for line in lines[1:]:
        out.print(Text("  " + printable(line)))


def _lines(error: BaseException) -> list[str]:
    """The lines of an error in what the user gave."""
    if isinstance(error, OSError) and error.filename is not None:
        if isinstance(error, FileNotFoundError):
            return [_missing(os.fspath(error.filename))]
        reason = error.strerror or type(error).__name__
        return [f"{os.fspath(error.filename)!s}: {reason[:1].lower()}{reason[1:]}; check the path and its rights"]
    if isinstance(error, PhotoFileError) and not os.path.lexists(error.path):
        return [_missing(error.path), f"Name an existing photo, or leave such photos out: {SKIP}."]
    lines = str(error).splitlines() or [type(error).__name__]
    if isinstance(error, PhotoFileError):
        lines.append(
            f"Repair, replace or remove the file, or leave such files out: {SKIP}. `finegraph data check` lists all."
        )
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
