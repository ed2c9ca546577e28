"""How long a report takes and how large it is.

    python benchmarks/report.py
    python benchmarks/report.py --run RUN [--run RUN]     a report of runs of your own

Each report is the whole command `finegraph report` in a process of its own, from start to end. It is made twice to see
that the bytes are the same; the time is that of the quicker turn, by the clock and by the processor. Runs are made up:
random answers, pictures of noise of the size of real thumbnails. Limits: 20 s for a small run, 60 s for 5,794 photos of
200 labels, 10 MB for each 1,000 photos.
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

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

COMMAND = "import sys; from finegraph.cli.main import run; sys.exit(run(sys.argv[1:]))"
SMALL, LARGE, MEGABYTES = 20.0, 60.0, 10.0
KINDS = (("order", 13), ("family", 37), ("genus", 122))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="append", default=[], metavar="RUN", help="a run folder with an evaluation")
    parser.add_argument("--figures", action="store_true", help="draw the figures for print too")
    arguments = parser.parse_args()
    print(f"{'report':<44}{'seconds':>9}{'CPU':>7}{'limit':>7}{'MB':>8}{'MB / 1,000':>12}{'limit':>7}  same bytes")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.run:
            measure("runs of your own", arguments.run, folder, SMALL, arguments.figures)
            return
        from reports.made_up_runs import made_up_graph, make_run

        small = made_up_graph(24, (("dish", 8), ("restaurant", 6)), 4)
        runs = [make_run(folder / f"small-{head}", small, 300, seed=seed, head=head) for seed, head in HEADS]
        measure("one run, 300 photos, 24 labels", runs[:1], folder, SMALL, arguments.figures)
        measure("two runs, 300 photos, 24 labels", runs, folder, SMALL, arguments.figures)
        large = made_up_graph(200, KINDS, 30)
        runs = [make_run(folder / f"large-{head}", large, 5794, seed=seed, head=head) for seed, head in HEADS]
        measure("one run, 5,794 photos, 200 labels", runs[:1], folder, LARGE, arguments.figures)
        measure("two runs, 5,794 photos, 200 labels", runs, folder, LARGE, arguments.figures)
        many = made_up_graph(10_000, (("family", 80), ("genus", 900)), 0)
        runs = [make_run(folder / "many", many, 10_000)]
        measure("one run, 10,000 photos, 10,000 labels", runs, folder, LARGE, arguments.figures)


HEADS = ((0, "softmax"), (1, "bipartite"))


def measure(words: str, runs: list[Path] | list[str], folder: Path, limit: float, figures: bool) -> None:
    """Make a report twice and print a line."""
    digests, seconds, busy = [], [], []
    for turn in range(2):
        out = folder / f"report-{turn}.html"
        extra = ["--figures", str(folder / "figures")] if figures else []
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
    verdict = "" if min(seconds) <= limit and share <= MEGABYTES and same == "yes" else "  OVER THE LIMIT"
    times = f"{min(seconds):>9.1f}{min(busy):>7.1f}{limit:>7.0f}"
    print(f"{words:<44}{times}{size:>8.1f}{share:>12.1f}{MEGABYTES:>7.0f}  {same}{verdict}")


def _photos(run: Path | str) -> int:
    """How many photos the evaluation of a run has."""
    from finegraph.evaluation import EvaluationResult
    from finegraph.reports.run_results import find_evaluation

    return EvaluationResult.read(find_evaluation(run) / "result.json").photos


if __name__ == "__main__":
    main()
