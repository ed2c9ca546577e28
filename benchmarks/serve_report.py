"""The table of `benchmarks/serve.py`: every metric is printed when it is found, and all of them at the end."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable

from rich.console import Console
from rich.table import Table


class Report:
    """Metrics against limits.

    Args:
        title: what stands above the table.

    Attributes:
        well: whether all limits are kept.
    """

    def __init__(self, title: str) -> None:
        self._table = Table("part", "metric", "found", "limit", "", title=title)
        self._part = ""
        self.well = True
        self.say(title)

    def say(self, text: str) -> None:
        """Say something on the way."""
        print(f"{self._part}: {text}" if self._part else text, file=sys.stderr, flush=True)

    def add(self, metric: str, found: str, limit: str = "", good: bool | None = None) -> None:
        """Add a metric."""
        word = {None: "", True: "ok", False: "MISSED"}[good]
        self.well &= good is not False
        self._table.add_row(self._part, metric, found, limit, word)
        self.say(f"{metric}: {found}{f' ({limit}: {word})' if limit else ''}")

    def note(self, text: str) -> None:
        """Add a line that makes the table no good one."""
        self.add(text, "", "", False)

    def run(self, part: str, measure: Callable[[], None]) -> None:
        """Measure a part; where that fails, say why and let the other parts go on."""
        self._part, began = part, time.monotonic()
        try:
            measure()
        except Exception as error:
            traceback.print_exc()
            self.note(f"failed: {type(error).__name__}, see above")
        self.say(f"took {time.monotonic() - began:.0f} s")

    def show(self) -> None:
        """Print the table."""
        Console(width=None if sys.stdout.isatty() else 120).print(self._table)
