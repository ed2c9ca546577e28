"""The exit codes of the command and their meaning.

| code | meaning |
|---|---|
| 0 | all went well |
| 1 | a check ran and found errors |
| 2 | wrong usage: an unknown command or flag, or a missing argument |
| 3 | bad input: a file that is missing or has faults, a name that does not exist, a full disk |
| 70 | a fault of finegraph itself |
| 130 | interrupted (Ctrl-C) |
| 141 | the reader of the output went away, as in `finegraph ... | head -1` |
"""

from __future__ import annotations

from collections.abc import Iterator

import typer

from finegraph.errors import FinegraphError

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What the command-line library raises if a command is called wrongly; the class has no public name."""

OK = 0
FOUND_ERRORS = 1
WRONG_USAGE = 2
BAD_INPUT = 3
INTERNAL = 70
INTERRUPTED = 130
BROKEN_PIPE = 141

SUMMARY = (
    "Exit codes: 0 all went well, 1 a check found errors, 2 wrong usage, 3 bad input, 70 a fault of finegraph itself, "
    "130 interrupted, 141 the reader of the output went away."
)


def exit_code_of(error: BaseException) -> int:
    """The exit code for whatever ended a command."""
    # The command-line library turns these two into exits of its own; what they were is in the chain of causes.
    for cause in _causes(error):
        if isinstance(cause, KeyboardInterrupt):
            return INTERRUPTED
        if isinstance(cause, BrokenPipeError):
            return BROKEN_PIPE
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else OK if error.code is None else FOUND_ERRORS
    if isinstance(error, UsageError):
        return WRONG_USAGE
    return BAD_INPUT if isinstance(error, FinegraphError | OSError) else INTERNAL


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and all that led to it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
