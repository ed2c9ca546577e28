"""Interruptions: one line that names what is kept and which command resumes, and the exit code."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from finegraph.cli.exit_codes import INTERRUPTED
from finegraph.cli.terminal import console, printable

AGAIN = "the same command starts again"
GOES_ON = "the same command goes on"


@contextmanager
def interruptible(kept: str | Callable[[], str]) -> Iterator[None]:
    """End a long command gracefully when it is interrupted by Ctrl-C or SIGTERM.

    Args:
        kept: the text that says what is kept and which command resumes; a function if that is known only then.
    """
    before = _take_termination()
    try:
        yield
    except KeyboardInterrupt:
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
