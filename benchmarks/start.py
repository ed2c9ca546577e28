"""How long the command takes to begin: `--help` of every command, against the project's limit.

    python benchmarks/start.py                20 turns, some minutes
    python benchmarks/start.py --turns 5

The commands are those that the application has. Each is a process of its own, as in a shell; the median counts. Beside
it stands Python itself, which does nothing. The exit code is 1 if a command takes longer.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from typer.main import get_command

from finegraph.cli.main import app

LIMIT = 0.3


def commands(found: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of a command and of all below it, such as `graph` and `graph check`."""
    yield words
    for name, below in getattr(found, "commands", {}).items():
        yield from commands(below, (*words, name))


def seconds(command: list[str]) -> float:
    """How long a process takes from its start to its end."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> int:
    """Measure in turns and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=20)
    turns = parser.parse_args().turns
    finegraph = str(Path(sys.executable).parent / "finegraph")
    lines = {
        " ".join(["finegraph", *words, "--help"]): [finegraph, *words, "--help"] for words in commands(get_command(app))
    }
    lines["python -c pass"] = [sys.executable, "-c", "pass"]
    times: dict[str, list[float]] = {name: [] for name in lines}
    for turn in range(turns + 1):
        for name, command in lines.items():
            took = seconds(command)
            if turn:  # the first one reads the files from the disk
                times[name].append(took)
    table, well = Table("command", "median", "slowest", "limit", ""), True
    for name, found in times.items():
        median = statistics.median(found)
        own = name.startswith("finegraph")
        well &= not own or median <= LIMIT
        verdict = ("reached" if median <= LIMIT else "not reached") if own else ""
        table.add_row(name, f"{median:.2f} s", f"{max(found):.2f} s", f"{LIMIT} s" if own else "", verdict)
    Console().print(table)
    return 0 if well else 1


if __name__ == "__main__":
    raise SystemExit(main())
