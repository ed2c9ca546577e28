"""A search by small codes beside comparing every vector: memory, milliseconds per query, recall of the ten nearest.

    python benchmarks/small_codes.py                                        200,000 vectors, about a minute
    python benchmarks/small_codes.py --data grocery:FOLDER --count 10000000 --folder FOLDER --threads 2

With `--data`, vectors are made from the features that the default network computes from the photos of a source,
projected to 256 dimensions: to each photo the difference of two others is added, of the same length (*mixed*, see
`search.py`), so they have the spectrum of real ones and lie where these lie. Without, they are numbers of chance whose
variances fall as 1 / place, without any groups, and queries are near some of them. Queries are not in the index.

Vectors are stored in an index as `finegraph index` does it, and everything is measured through the library: until the
hits with their paths and labels are there, one query after the other, and two queries at once in two threads. Each step
has a process of its own. Memory is the resident set of the process: what it holds itself, and the parts of the files of
the index that are mapped at the end of these queries. The limit is 3 GB, 20 ms per query and a recall of 0.95. Truth is
what FAISS finds by comparing all vectors in half precision, in memory, on one thread.

With `--folder`, what is made stays there, and is found again. Ten million take 7 GB of disk, 6 GB of memory for the
comparison with all vectors, and a quarter of an hour on two cores. The exit code is 1 where the limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import faiss
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from finegraph.data.sources import read_samples, source_graph
from finegraph.data.transforms import ViewSettings
from finegraph.graph import LabelGraph
from finegraph.graph.graph_files import graph_from_json
from finegraph.model.features import extract_features
from finegraph.nn.network import build_network
from finegraph.search.conditions import label_factors
from finegraph.search.index_state import ModelEntry, read_state
from finegraph.search.index_writer import IndexedPlace, IndexWriter
from finegraph.search.list_files import read_code_recall
from finegraph.search.nearest import NearestVectors, unit_rows
from finegraph.search.photo_index import Index
from finegraph.search.projection import SAMPLE, fit_projection, project
from finegraph.search.segments import Segment
from search import RARE, SOME, Copies, made_up

PART = 50_000
MAX_GB, MAX_MS, MIN_RECALL = 3.0, 20.0, 0.95


def main() -> None:
    """Run the steps and print what they measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="SOURCE", help="a source of photos, such as grocery:FOLDER")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1, help="of making the index")
    parser.add_argument("--whole", action="store_true", help="measure the search with all vectors in memory, too")
    parser.add_argument("--folder", metavar="FOLDER", help="where the index is made, and found again")
    parser.add_argument("--step", choices=("make", "exact", "small", "whole", "add"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        folder = Path(arguments.folder)
        steps = {"make": make, "exact": exact, "small": search, "whole": search, "add": add}
        facts = steps[arguments.step](arguments, folder)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        facts |= {"cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss / 1e6}
        (folder / f"{arguments.step}.json").write_text(json.dumps(facts), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for step in ("make", "exact", *(["whole"] if arguments.whole else []), "small", "add"):
            if step not in ("make", "exact") or not (folder / f"{step}.json").exists():
                options = [*sys.argv[1:], "--folder", str(folder), "--step", step]
                subprocess.run([sys.executable, __file__, *options], check=True)
        sys.exit(show(arguments, folder))


# ---- vectors --------------------------------------------------------------------------------------------------------


def vectors(arguments: argparse.Namespace, folder: Path, count: int, seed: int) -> Iterator[np.ndarray]:
    """Vectors of length 1, in parts."""
    if arguments.data:
        copies = Copies(np.load(folder / "features.npy"), "mixed", 1.0)
        directions = np.load(folder / "directions.npy")
        for part in copies.parts(count, seed):
            yield project(part, directions)
        return
    random = np.random.default_rng(seed)
    scale = (np.arange(1, arguments.dimensions + 1) ** -0.5).astype(np.float32)
    for start in range(0, count, PART):
        size = min(PART, count - start)
        yield unit_rows(random.standard_normal((size, arguments.dimensions), dtype=np.float32) * scale)


def queries_of(arguments: argparse.Namespace, folder: Path) -> np.ndarray:
    """Vectors that are not in the index."""
    count = arguments.queries
    if arguments.data:
        return next(vectors(arguments, folder, count, 1))
    near, jitter = (next(vectors(arguments, folder, count, seed)) for seed in (0, 1))
    return unit_rows(near + 0.5 * jitter)


def graph_of(arguments: argparse.Namespace, folder: Path) -> LabelGraph:
    """The label graph of the index; made if there is none yet."""
    path = folder / "index" / "graph.json"
    if path.exists():
        return graph_from_json(path.read_text(encoding="utf-8"), str(path))
    if not arguments.data:
        return LabelGraph.from_table({f"label {number}": {"ten": f"ten {number // 10}"} for number in range(1000)})
    graph, samples = source_graph(arguments.data), read_samples(arguments.data)
    features = extract_features(build_network(graph, weights="default").eval(), samples, ViewSettings())
    rows = unit_rows(features.fine.numpy())
    np.save(folder / "features.npy", rows)
    directions, _ = fit_projection(rows[:: max(1, len(rows) // SAMPLE)], arguments.dimensions)
    np.save(folder / "directions.npy", directions)
    return graph


# ---- steps ----------------------------------------------------------------------------------------------------------


def make(arguments: argparse.Namespace, folder: Path) -> dict[str, object]:
    """The index, from vectors."""
    torch.set_num_threads(arguments.threads)
    faiss.omp_set_num_threads(arguments.threads)
    graph = graph_of(arguments, folder)
    entry = ModelEntry(path="", network="made up", digest="0" * 32)
    size = arguments.dimensions
    with IndexWriter.create(
        folder / "index", model=entry, graph=graph, feature_size=size, method="approximate"
    ) as writer:
        start = 0
        for part in vectors(arguments, folder, arguments.count, 0):
            writer.add(made_up(part, np.arange(start, start + len(part)), graph))
            start += len(part)
        began = time.perf_counter()
        writer.finish()
        lists = writer.state.lists
        assert lists is not None
        return {
            "seconds": time.perf_counter() - began,
            "gigabytes": sum(file.bytes for file in writer.state.files) / 1e9,
            "lists": lists.count,
            "probes": lists.probes,
            "recall": lists.recall,
            "code_recall": read_code_recall(writer.folder, lists),
        }


def exact(arguments: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Every vector compared, in memory: the truth, and what it costs."""
    faiss.omp_set_num_threads(1)
    queries = queries_of(arguments, folder)
    index = folder / "index"
    segments = [Segment(index, entry) for entry in read_state(index).segments]
    nearest = NearestVectors([segment.vectors for segment in segments], arguments.dimensions)
    for segment in segments:
        segment.forget()
    times, found = [], []
    for query in queries:
        began = time.perf_counter()
        found.append(nearest.search(query[np.newaxis], 10)[1][0])
        times.append(1000 * (time.perf_counter() - began))
    np.save(folder / "truth.npy", np.stack(found))
    return {"one": summary(times), **memory()}


def search(arguments: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Searches in the index, by small codes or with all vectors in memory."""
    queries, truth = queries_of(arguments, folder), np.load(folder / "truth.npy")
    faiss.omp_set_num_threads(1)
    torch.set_num_threads(1)
    began = time.perf_counter()
    index = Index.open(folder / "index", small=arguments.step == "small")
    facts: dict[str, object] = {"opening": time.perf_counter() - began, "opened": memory()}
    hits = timed(index, queries, facts, "one")
    numbers = [{int(Path(hit.path).stem) for hit in found} for found in hits]
    facts["recall"] = float(
        np.mean([len(one & set(two)) / 10 for one, two in zip(numbers, truth.tolist(), strict=True)])
    )
    with ThreadPoolExecutor(2) as pool:
        halves = [pool.submit(timed, index, queries[part::2], facts, f"half {part}") for part in range(2)]
        [half.result() for half in halves]
    facts["two"] = [float(np.mean(values)) for values in zip(facts["half 0"], facts["half 1"], strict=True)]
    facts |= memory()
    index.search(queries[0], 10, where={"fine": RARE})  # makes the lists of labels
    for name, label in (("tenth", SOME), ("thousandth", RARE)):
        timed(index, queries, facts, name, where={"fine": label})
    kind = index.graph.kinds[0]
    factors = label_factors(index.graph, index.graph.fine[0], same=[kind])[np.newaxis]
    timed(index, queries[:50], facts, "same", factors=factors)
    facts["in_the_end"] = memory()
    return facts


def add(arguments: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Photos that come later, and go again."""
    faiss.omp_set_num_threads(1)
    some = next(vectors(arguments, folder, 2048, 2))
    with IndexWriter(folder / "index") as writer:
        columns = made_up(some, arguments.count + np.arange(len(some)), graph_of(arguments, folder))
        times = []
        for _ in range(2):  # the first reads the lists
            began = time.perf_counter()
            writer.add(columns)
            times.append(time.perf_counter() - began)
        for entry in writer.state.segments[-2:]:
            writer.remove([IndexedPlace(entry.file.name, row) for row in range(entry.rows)])
    return {"first": times[0], "next": times[1]}


def timed(
    index: Index, queries: np.ndarray, facts: dict[str, object], name: str, **options: object
) -> list[list[object]]:
    """Search one query after the other, after a few to warm up, and note the milliseconds."""
    times, hits = [], []
    for number in range(-3, len(queries)):
        began = time.perf_counter()
        found = index.search(queries[number], 10, **options)[0]
        times.append(1000 * (time.perf_counter() - began))
        hits.append(found)
    facts[name] = summary(times[3:])
    return hits[3:]


def summary(times: list[float]) -> list[float]:
    """The median and the 95 % quantile."""
    return [float(np.median(times)), float(np.quantile(times, 0.95))]


def memory() -> dict[str, float]:
    """The resident set in GB: all, and the part that is pages of mapped files."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1e6 for line in lines if line.endswith(" kB")}
    return {"resident": sizes["VmRSS"], "mapped": sizes["RssFile"]}


# ---- the table ------------------------------------------------------------------------------------------------------


def show(arguments: argparse.Namespace, folder: Path) -> int:
    """Print everything; returns the exit code."""
    facts = {
        step: json.loads((folder / f"{step}.json").read_text(encoding="utf-8"))
        for step in ("make", "exact", "whole", "small", "add")
        if (folder / f"{step}.json").exists()
    }
    made, small = facts["make"], facts["small"]
    kind = "mixed" if arguments.data else "of chance"
    table = Table(
        "", title=f"{arguments.count:,} vectors, {arguments.dimensions} dimensions, {kind}", title_justify="left"
    )
    for name in ("memory", "of it mapped files", "ms, one thread", "95 %", "ms, two at once", "95 %", "recall@10"):
        table.add_column(name, justify="right")
    for name, step in (("all compared (FAISS)", "exact"), ("lists, in memory", "whole"), ("small codes", "small")):
        if step in facts:
            one = facts[step]
            times = [f"{value:.1f}" for value in (*one["one"], *one.get("two", ()))]
            times += [""] * (4 - len(times))
            table.add_row(
                name, f"{one['resident']:.2f} GB", f"{one['mapped']:.2f} GB", *times, f"{one.get('recall', 1.0):.3f}"
            )
    table.add_row("limit", f"{MAX_GB:.0f} GB", "", f"{MAX_MS:.0f}", "", f"{MAX_MS:.0f}", "", f"{MIN_RECALL}")
    out = Console(width=120)
    out.print(table)
    out.print(
        f"{made['probes']} of {made['lists']:,} lists; measured when made: {made['recall']:.3f}, by small codes "
        f"{made['code_recall']:.3f}"
    )
    out.print(
        f"making lists and codes {made['seconds']:.0f} s, peak {made['peak']:.1f} GB; "
        f"{made['gigabytes']:.1f} GB of disk"
    )
    out.print(f"opening {small['opening']:.1f} s, {small['opened']['resident']:.2f} GB; peak {small['peak']:.2f} GB")
    for name in ("tenth", "thousandth", "same"):
        words = "--same of a kind" if name == "same" else f"a filter that a {name} of the photos pass"
        out.print(f"{words}: {small[name][0]:.1f} ms, 95 % {small[name][1]:.1f} ms")
    out.print(f"after these {small['in_the_end']['resident']:.2f} GB")
    out.print(f"adding 2,048 photos: {facts['add']['next']:.2f} s, the first time {facts['add']['first']:.2f} s")
    good = (
        max(small["resident"], small["in_the_end"]["resident"]) <= MAX_GB
        and small["one"][0] <= MAX_MS
        and small["recall"] >= MIN_RECALL
    )
    out.print("the limit is " + ("met" if good else "MISSED"))
    return 0 if good else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    main()
