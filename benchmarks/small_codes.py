"""What small codes save and miss in an approximate search: memory, milliseconds per query, recall of the ten nearest.

    python benchmarks/small_codes.py                        200,000 vectors of 256 dimensions
    python benchmarks/small_codes.py --count 1000000        a million, some minutes

Vectors are made up: numbers of chance whose variances fall as 1 / place, as those of features of photos do along their
axes, and queries are near some of them. Vectors lie in a file that is mapped into memory, as those of an index do.
Bytes are those that the codes and numbers in memory take; recall is against a comparison with all vectors.
"""

from __future__ import annotations

import argparse
import mmap
import tempfile
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from finegraph.search.inverted_lists import make_lists, recall_of
from finegraph.search.nearest import Nearest, unit_rows

NEIGHBOURS = 10


def mapped(count: int, dimensions: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors in a mapped file, and queries."""
    random = np.random.default_rng(seed)
    scale = (np.arange(1, dimensions + 1) ** -0.5).astype(np.float32)
    with tempfile.TemporaryFile() as file:
        for start in range(0, count, 65536):
            size = min(65536, count - start)
            rows = unit_rows(random.standard_normal((size, dimensions)).astype(np.float32) * scale)
            file.write(rows.astype(np.float16).tobytes())
        file.flush()
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    vectors: np.ndarray = np.ndarray((count, dimensions), np.float16, data)
    chosen = vectors[random.integers(0, count, 200)].astype(np.float32)
    jitter = unit_rows(random.standard_normal(chosen.shape).astype(np.float32) * scale)
    return vectors, unit_rows(chosen + 0.5 * jitter)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--dimensions", type=int, default=256)
    arguments = parser.parse_args()
    vectors, queries = mapped(arguments.count, arguments.dimensions, 0)
    lists, _ = make_lists([vectors])
    table = Table(
        "codes", title=f"{arguments.count:,} vectors, {arguments.dimensions} dimensions", title_justify="left"
    )
    for name in ("bytes per vector", "ms per query", "recall@10", "the same, 10 million"):
        table.add_column(name, justify="right")
    truth = None
    for name, small in (("half precision", False), ("small", True)):
        nearest = Nearest([vectors], arguments.dimensions, lists, small)
        if truth is None:
            truth = nearest.search(queries, NEIGHBOURS, probes=nearest.lists)[0]
        times = []
        found = []
        for query in queries:
            start = time.perf_counter()
            found.append(nearest.search(query[None], NEIGHBOURS)[0])
            times.append(time.perf_counter() - start)
        size = nearest._index.code_size + 8
        recall = recall_of(truth, np.concatenate(found))
        row = [f"{size}", f"{1000 * float(np.median(times)):.1f}", f"{recall:.3f}", f"{size * 1e7 / 1e9:.1f} GB"]
        table.add_row(name, *row)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
