"""The progress of a command: a bar with rate and time left on a terminal, a line now and then elsewhere.

Both go to standard error, so that the result on standard output stays clean. The bar vanishes when it is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from finegraph.cli.terminal import console
from finegraph.progress_types import ShowProgress

if TYPE_CHECKING:
    from rich.console import Console

SECONDS_BETWEEN_LINES = 10.0
"""If there is no terminal, a line comes this often."""


@contextmanager
def progress(noun: str) -> Iterator[ShowProgress]:
    """Show how far a loop has come.

    Args:
        noun: what is counted, in the plural: photos.

    Yields:
        A function to call with the number done and the number in all.
    """
    out = console(stderr=True)
    if out.is_terminal:
        with _bar(out, noun) as update:
            yield update
    else:
        yield _lines(out, noun)


@contextmanager
def _bar(out: Console, noun: str) -> Iterator[ShowProgress]:
    """A bar that shows done, rate and time left. It starts with the first call, so that loading does not slow it."""
    from rich import progress as parts
    from rich.text import Text

    class Rate(parts.ProgressColumn):
        """How many per second."""

        def render(self, task: parts.Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{_rate(speed)}/s")

    columns = (
        parts.TextColumn(noun, markup=False),
        parts.BarColumn(),
        parts.MofNCompleteColumn(),
        Rate(),
        parts.TimeRemainingColumn(),
    )
    with parts.Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task(noun, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(out: Console, noun: str) -> ShowProgress:
    """A line with done, rate and time left, every few seconds."""
    last = monotonic()
    first: tuple[float, int] | None = None

    def say(done: int, total: int) -> None:
        nonlocal last, first
        now = monotonic()
        if first is None:  # what was there at once, as after resuming, says nothing of the speed
            first = (now, done)
        if now - last < SECONDS_BETWEEN_LINES:
            return
        last = now
        text = f"{done:,} of {total:,} {noun}"
        if done > first[1]:
            speed = (done - first[1]) / max(now - first[0], 1e-9)
            text += f", {_rate(speed)}/s, {_duration((total - done) / speed)} left"
        out.print(text)

    return say


def _rate(speed: float) -> str:
    """A speed with about three digits."""
    return f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"


def _duration(seconds: float) -> str:
    """A time as people say it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
