"""How long a report takes and how large it is.

    python benchmarks/report.py
    python benchmarks/report.py --run RUN [--run RUN]     a report of runs of your own
    python benchmarks/report.py --data grocery:FOLDER     trains on a data set and reports on its test photos

Each report is the whole command `finegraph report` in a process of its own, from start to end. It is made twice to see
that the bytes are the same; the time is that of the quicker turn, by the clock and by the processor. Runs are made up:
random answers, pictures of noise as large as those of sharp photos, 3 kB in lists and 10 kB in examples, which an
evaluation would not keep of so many; with --data the pictures are real and have their bytes. The small run
is like that of `finegraph demo`: 60 labels, 18 kinds, 240 photos. The large one is like CUB: 200 labels, 3 kinds and
312 that are yes or no, 5,794 photos. Limits: 20 s for the small one, 60 s for the large one, 10 MB for each 1,000
photos, and 8 MB in all with --data. The exit code is 1 if a limit is missed or bytes differ.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from finegraph.graph import LabelGraph

COMMAND = "import sys; from finegraph.cli.main import run; sys.exit(run(sys.argv[1:]))"
SMALL, LARGE, MEGABYTES, PAGE = 20.0, 60.0, 10.0, 8.0
KINDS = (("order", 13), ("family", 37), ("genus", 122))


BINARY = 312


def main() -> int:
    """Measure and print; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="append", default=[], metavar="RUN", help="a run folder with an evaluation")
    parser.add_argument("--plots", action="store_true", help="draw the plots for print too")
    parser.add_argument("--data", metavar="SOURCE", help="a data set with a split `test`, such as grocery:FOLDER")
    arguments = parser.parse_args()
    print(f"{'report':<47}{'seconds':>9}{'CPU':>7}{'limit':>7}{'MB':>8}{'MB / 1,000':>12}{'limit':>7}  same bytes")
    with tempfile.TemporaryDirectory() as name:
        folder, plots = Path(name), arguments.plots
        if arguments.run:
            return 0 if measure("runs of your own", arguments.run, folder, SMALL, plots) else 1
        if arguments.data:
            run = trained_on(arguments.data, folder / "run")
            return 0 if measure("a data set of your own", [run], folder, LARGE, plots, PAGE) else 1
        from reports.made_up_runs import made_up_graph, make_run

        def runs(name: str, graph: LabelGraph, photos: int) -> list[Path]:
            return [
                make_run(folder / f"{name}-{head}", graph, photos, seed=seed, head=head, sharp=True)
                for seed, head in HEADS
            ]

        small = runs("small", made_up_graph(60, (("dish", 35), ("restaurant", 10)), 16), 240)
        well = measure("one run, 240 photos, 60 labels, 18 kinds", small[:1], folder, SMALL, plots)
        well &= measure("two runs, 240 photos, 60 labels, 18 kinds", small, folder, SMALL, plots)
        large = runs("large", made_up_graph(200, KINDS, BINARY), 5794)
        well &= measure("one run, 5,794 photos, 200 labels, 315 kinds", large[:1], folder, LARGE, plots)
        well &= measure("two runs, 5,794 photos, 200 labels, 315 kinds", large, folder, LARGE, plots)
        many = make_run(folder / "many", made_up_graph(10_000, (("family", 80), ("genus", 900)), 0), 10_000, sharp=True)
        well &= measure("one run, 10,000 photos, 10,000 labels", [many], folder, LARGE, plots)
    return 0 if well else 1


HEADS = ((0, "softmax"), (1, "bipartite"))


def trained_on(source: str, run: Path) -> Path:
    """A run whose last layer was trained on a data set, evaluated on its test photos."""
    for command in (["train", source, "--run", str(run), "--no-report"], ["evaluate", str(run)]):
        subprocess.run([sys.executable, "-c", COMMAND, *command], check=True, stdout=subprocess.DEVNULL)
    return run


def measure(
    words: str,
    runs: list[Path] | list[str],
    folder: Path,
    limit: float,
    plots: bool,
    most: float = float("inf"),
) -> bool:
    """Make a report twice and print a line; whether it keeps its limits, and where there is one that of all bytes."""
    digests, seconds, busy = [], [], []
    for turn in range(2):
        out = folder / f"report-{turn}.html"
        extra = ["--plots", str(folder / "plots")] if plots else []
        start, before = time.monotonic(), os.times()
        subprocess.run(
            [sys.executable, "-c", COMMAND, "report", *map(str, runs), "-o", str(out), *extra],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        after = os.times()
        seconds.append(time.monotonic() - start)
        busy.append(after.children_user + after.children_system - before.children_user - before.children_system)
        digests.append(hashlib.sha256(out.read_bytes()).hexdigest())
    photos = _photos(runs[0])
    size = out.stat().st_size / 1e6
    share = size / max(1.0, photos / 1000)
    same = "yes" if digests[0] == digests[1] else "NO"
    well = min(seconds) <= limit and share <= MEGABYTES and size <= most and same == "yes"
    verdict = "" if well else "  OVER THE LIMIT"
    times = f"{min(seconds):>9.1f}{min(busy):>7.1f}{limit:>7.0f}"
    print(f"{words:<47}{times}{size:>8.1f}{share:>12.1f}{MEGABYTES:>7.0f}  {same}{verdict}")
    if most < float("inf"):
        print(f"{size:.1f} of at most {most:.0f} MB for {photos:,} photos")
    return well


def _photos(run: Path | str) -> int:
    """How many photos the evaluation of a run has."""
    from finegraph.evaluation import EvaluationResult
    from finegraph.reports.run_results import find_evaluation

    return EvaluationResult.read(find_evaluation(run) / "result.json").photos


if __name__ == "__main__":
    raise SystemExit(main())
