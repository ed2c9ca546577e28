"""What training the whole network buys over its last layer, with the label graph and without it, on the same photos.

    python benchmarks/fine_tuning.py --data grocery:FOLDER --runs runs/fine-tuning --amounts 5 20 all --draws 5 1 1
    python benchmarks/fine_tuning.py --runs runs/fine-tuning --table          print what there is so far
    python benchmarks/fine_tuning.py --data ... --runs ... -- --train-views 1 --lr 0.001     other settings, for all

Each cell is the commands themselves, `finegraph train` and `finegraph evaluate` on the test photos, in a run folder of
its own: one draw of photos, tune head or all, head softmax or bipartite. Stopped at any moment, it goes on from there.

Differences are paired by draw: each row has the mean with a 95 % interval (Student's t over draws; where there is one
draw, a bootstrap over test photos). Time on two cores: about 5 minutes for a draw of 5 photos per class of the
groceries, an hour for all of them.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from finegraph.evaluation.intervals import MeanInterval, paired_bootstrap_interval, paired_interval

HEADS, TUNES = ("softmax", "bipartite"), ("head", "all")
NAME = "fine-tuning"
METRICS = {"top1": 100.0, "top5": 100.0, "nll": 1.0, "calibration error": 100.0}
OF_BOTH = ("tune", "head", "seed", "fit", "train-views", "size", "network", "graph", "threads", "workers")
"""Settings that the last layer alone has too."""
Cell = tuple[str, str, str]
"""The number of photos per class, what is tuned, and the head."""


def main() -> None:
    """Train what is missing, evaluate, print."""
    own, more = sys.argv[1:], []
    if "--" in own:
        own, more = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="photos with the splits train, val and test, as for `finegraph train`")
    parser.add_argument("--runs", required=True, type=Path, help="the folder of all runs")
    parser.add_argument("--amounts", nargs="+", default=["5"], help="photos per class; `all` for all")
    parser.add_argument("--draws", nargs="+", type=int, default=[5], help="draws of each amount")
    parser.add_argument("--heads", nargs="+", default=list(HEADS), choices=HEADS)
    parser.add_argument("--table", action="store_true", help="train nothing, print what there is")
    options = parser.parse_args(own)
    if not options.table:
        draws = options.draws * len(options.amounts) if len(options.draws) == 1 else options.draws
        for amount, count in zip(options.amounts, draws, strict=True):
            for draw in range(count):
                for tune in TUNES:
                    for head in options.heads:
                        run_cell(options.data, options.runs, (amount, tune, head), draw, more)
    print_table(read_cells(options.runs))


def run_cell(data: str, runs: Path, cell: Cell, draw: int, more: list[str]) -> None:
    """Train and evaluate one cell, or go on with it, or leave it where it is complete."""
    amount, tune, head = cell
    run = runs / f"{amount}-{tune}-{head}-{draw}"
    if not (run / "model").exists():
        settings = ["--tune", tune, "--head", head, "--seed", str(draw), *more]
        if tune == "head":
            settings = [one for pair in _pairs(settings) for one in pair if pair[0].removeprefix("--") in OF_BOTH]
        settings += [] if amount == "all" else ["--photos-per-label", amount]
        goes_on = (run / "config.toml").exists()
        place = ["--run", str(run), "--no-report"]
        command("train", *(["--resume", *place] if goes_on else [data, *settings, *place]))
    if not (run / "evaluations" / NAME / "result.json").exists():
        command("evaluate", str(run), "--name", NAME, "--questions", "0", "--no-details")


def _pairs(settings: list[str]) -> list[tuple[str, str]]:
    """Flags with their values; all of them have one."""
    return list(zip(settings[::2], settings[1::2], strict=True))


def command(*arguments: str) -> None:
    """Run a command of finegraph; what it prints goes to the terminal."""
    subprocess.run([sys.executable, "-m", "finegraph", *arguments], check=True, stdout=sys.stderr)


def read_cells(runs: Path) -> dict[Cell, dict[int, dict]]:
    """The metrics of each cell by draw, and for each test photo whether the first answer was right."""
    found: dict[Cell, dict[int, dict]] = {}
    for place in sorted(runs.glob(f"*/evaluations/{NAME}/result.json")):
        amount, tune, head, draw = place.parents[2].name.split("-")
        metrics = json.loads(place.read_text(encoding="utf-8"))
        with (place.parent / "samples.csv").open(encoding="utf-8", newline="") as file:
            right = [100.0 * (row["right"] == "yes") for row in csv.DictReader(file)]
        metrics["calibration error"] = metrics["calibration"]["fine"]["error"]
        own = {name: times * metrics[name] for name, times in METRICS.items()}
        found.setdefault((amount, tune, head), {})[int(draw)] = {**own, "right": right}
    return found


def print_table(cells: dict[Cell, dict[int, dict]]) -> None:
    """The means, and the paired differences that matter."""
    console = Console() if sys.stdout.isatty() else Console(width=140)
    table = Table(title="test photos, means over draws", title_justify="left")
    for heading in ("photos per class", "tune", "head", "draws", *METRICS):
        table.add_column(heading)
    for (amount, tune, head), draws in cells.items():
        means = [f"{statistics.mean(one[name] for one in draws.values()):.2f}" for name in METRICS]
        table.add_row(amount, tune, head, str(len(draws)), *means)
    console.print(table)
    table = Table(title="paired differences, 95 % intervals", title_justify="left")
    for heading in ("photos per class", "difference", "draws", *METRICS):
        table.add_column(heading)
    for amount in dict.fromkeys(amount for amount, _, _ in cells):
        for title, one, two in (
            *((f"{head}: all - head", ("all", head), ("head", head)) for head in HEADS),
            *((f"tune {tune}: bipartite - softmax", (tune, "bipartite"), (tune, "softmax")) for tune in TUNES),
        ):
            first, second = cells.get((amount, *one), {}), cells.get((amount, *two), {})
            both = sorted(first.keys() & second.keys())
            if both:
                shown = [difference([first[n] for n in both], [second[n] for n in both], name) for name in METRICS]
                table.add_row(amount, title, str(len(both)), *shown)
    console.print(table)


def difference(rows: list[dict], others: list[dict], metric: str) -> str:
    """The mean difference of a metric with its interval."""
    mean = statistics.mean(one[metric] - two[metric] for one, two in zip(rows, others, strict=True))
    found: MeanInterval | None = None
    if len(rows) > 1:
        found = paired_interval([one[metric] for one in rows], [two[metric] for two in others])
    elif metric == "top1":
        found = paired_bootstrap_interval(rows[0]["right"], others[0]["right"])
    return f"{mean:+.2f}" + ("" if found is None else f" ({found.low:+.2f} to {found.high:+.2f})")


if __name__ == "__main__":
    main()
