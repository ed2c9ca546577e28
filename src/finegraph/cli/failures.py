"""How an error reaches the user: what, where, why and what to do, on standard error, without a traceback."""

from __future__ import annotations

import os
import traceback

from finegraph.cli.exit_codes import BAD_INPUT, INTERNAL, exit_code_of
from finegraph.cli.terminal import console, printable
from finegraph.errors import ImageFileError

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
    if code not in (BAD_INPUT, INTERNAL):
        return
    from rich.text import Text

    lines = _lines(error) if code == BAD_INPUT else _internal(error, debug)
    to = console(stderr=True)
    to.print(Text.assemble(("error: ", "bold red"), printable(lines[0])))
    for line in lines[1:]:
        to.print(Text("  " + printable(line)))


def _lines(error: BaseException) -> list[str]:
    """The lines of an error of the user's."""
    if isinstance(error, OSError) and error.filename is not None:
        reason = error.strerror or type(error).__name__
        return [f"{os.fspath(error.filename)!s}: {reason[:1].lower()}{reason[1:]}; check the path and its rights"]
    lines = str(error).splitlines() or [type(error).__name__]
    if isinstance(error, ImageFileError):
        lines.append(
            f"Mend, replace or remove the file, or leave such files out: {SKIP}. `finegraph data check` lists all."
        )
    return lines


def _internal(error: BaseException, debug: bool) -> list[str]:
    """The lines of an error that should not have happened."""
    lines = [f"{type(error).__name__}: {error}".splitlines()[0], "This is a fault of finegraph, not of your input."]
    return lines if debug else [*lines, "Run `finegraph --debug ...` to see where it happened, and please report it."]
