"""How long a lesson takes beyond the features of its photo: `python benchmarks/teaching.py`.

Random class means are written to a folder and taught one photo at a time. "On the disk" is until the lesson is kept,
"head" is the solving for the head that follows; "one lesson" is both together, the time that a person waits. The start,
which solves for all class means once and is made when a server starts, is apart. "Apart" is how far the head is, after
all lessons, from that of all photos at once, as a share of its largest weight.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from finegraph.cli.process import prepare_process
from finegraph.files.sealed_log import SealedLog
from finegraph.graph import LabelGraph
from finegraph.model.fitting.class_means import Variances
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.model.teaching.lesson import TaughtPhoto
from finegraph.model.teaching.teaching import Teaching


def _graph(labels: int, kinds: int, random: np.random.Generator) -> LabelGraph:
    names = [f"label {number}" for number in range(labels)]
    parents = {f"kind {number}": random.integers(0, 11, labels) for number in range(kinds)}
    return LabelGraph.from_parents(names, parents, {name: [str(one) for one in range(11)] for name in parents})


def measure(labels: int, features: int, kinds: int, lessons: int, folder: Path) -> dict[str, float]:
    """The times of some lessons in milliseconds, and the distance of the last head from solving all at once."""
    random = np.random.default_rng(0)
    graph = _graph(labels, kinds, random)
    counts = torch.from_numpy(random.integers(1, 6, labels).astype(np.float64))
    start = ClassStatistics(
        counts=counts,
        sums=counts[:, None] * torch.from_numpy(random.normal(size=(labels, features))),
        variances=Variances(own=0.3, kinds=dict.fromkeys(graph.kinds, 0.3 / kinds), noise=0.8),
        strength=0.02,
    )
    teaching = Teaching(folder, graph, start, start.solve(graph), "benchmark")
    began = time.perf_counter()
    teaching.prepare()
    prepared = 1000 * (time.perf_counter() - began)
    kept: list[float] = []
    append = SealedLog.append

    def timed(log: SealedLog, content: dict[str, object]) -> None:
        began = time.perf_counter()
        append(log, content)
        kept.append(1000 * (time.perf_counter() - began))

    SealedLog.append = timed  # type: ignore[method-assign, assignment]
    whole, counts, sums = [], start.counts.clone(), start.sums.clone()
    for number in range(lessons):
        label, row = int(random.integers(labels)), random.normal(size=features).astype(np.float32)
        counts[label] += 1
        sums[label] += torch.from_numpy(row)
        photo = TaughtPhoto("photo.jpg", f"{number:064x}", row)
        began = time.perf_counter()
        teaching.teach(graph.fine[label], [photo], parents=None, person="", lesson_id=f"{number}")
        whole.append(1000 * (time.perf_counter() - began))
    SealedLog.append = append  # type: ignore[method-assign]
    once = replace(start, counts=counts, sums=sums).solve(graph).state_dict()
    now = teaching.head.state_dict()
    apart = max(
        float((now[name] - once[name]).abs().max() / once[name].abs().max())
        for name in ("fine.weight", "fine.bias", "coarse.weight")
    )
    return {
        "lesson": statistics.median(whole),
        "slowest": max(whole),
        "kept": statistics.median(kept),
        "head": statistics.median(one - two for one, two in zip(whole, kept, strict=True)),
        "first": prepared,
        "apart": apart,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lessons", type=int, default=100, help="How many lessons to measure.")
    parser.add_argument("--threads", type=int, default=1, help="Of torch.")
    parser.add_argument("--small", action="store_true", help="A small model only, to see that it works.")
    options = parser.parse_args()
    prepare_process()  # as every command does: memory stays with the process
    torch.set_num_threads(options.threads)
    sizes = [(50, 64, 2)] if options.small else [(200, 1280, 28), (1000, 1280, 4), (1000, 1280, 28)]
    print("| fine labels x features x kinds | one lesson, ms | slowest | on the disk | head | start, once | apart |")
    print("|---|---|---|---|---|---|---|")
    for labels, features, kinds in sizes:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(labels, features, kinds, options.lessons, Path(folder))
        cells = [f"{found[name]:.1f}" for name in ("lesson", "slowest", "kept", "head", "first")]
        print(f"| {labels:,} x {features:,} x {kinds} | {' | '.join(cells)} | {found['apart']:.1e} |", flush=True)


if __name__ == "__main__":
    main()
