"""How long a search takes, how much of the nearest photos it finds, and what making an index spends its time on.

    python benchmarks/search.py --data grocery:FOLDER
    python benchmarks/search.py --data grocery:FOLDER --approximate 200000
    python benchmarks/search.py --data grocery:FOLDER --folder /tmp/indexes      makes the indexes there, or finds them

The vectors are features that the default network computes from the photos of the source, repeated with jitter until
there are as many as asked for. Queries are further copies, which are not in the index. What jitter is decides how hard
the search is, so there are two:

    mixed    to each copy the difference of two photos, drawn at random and of `--mixed` times its length, is added. The
             copies lie where photos lie and in between: the ten nearest of a query are mostly copies of other photos
    tight    to each copy random numbers of `--tight` times its length in all are added. The ten nearest of a query are
             copies of the same photo, in one list: easy, and shown for comparison

How many photos the ten nearest are copies of is printed. Everything goes through the library: an index on the disk,
opened, and searched one query at a time until the hits with their paths and labels are there. How many lists are looked
through is what the index chose when they were made. Limits are for the median by the clock; where the machine has other
things to do, the processor's own time of a query, in the last column, says more.

    exact          100,000 vectors of the feature's size, every one compared; limit 50 ms per query
    filtered       the same with a filter that a tenth of the photos pass, and one that a thousandth do
    approximate    1,000,000 vectors projected to 256 dimensions; limit 10 ms at a recall@10 of at least 0.95, against
                   looking through all lists, which is exact
    making         photos to an index, nothing stored before; the share of the time that features take

The exact part needs 1 GB of memory and of disk, the approximate one 3 GB and 2 GB. On one core they take about one
minute and about five. The exit code is 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from finegraph.data.samples import Samples
from finegraph.data.sources import read_samples, source_graph
from finegraph.data.transforms import ViewSettings
from finegraph.graph import LabelGraph
from finegraph.model.features import extract_features
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.nn.network import build_network
from finegraph.search.embeddings import model_entry
from finegraph.search.index_writer import IndexWriter
from finegraph.search.inverted_lists import recall_of
from finegraph.search.nearest import unit_rows
from finegraph.search.photo_index import Index
from finegraph.search.projection import SAMPLE, fit_projection, project
from finegraph.search.segments import GUESSES, NONE, Columns
from finegraph.workflows.index import make_index

PART = 50_000
RARE, SOME = "one of a thousand", "one of ten"
MISSED: list[str] = []
"""The metrics that are not within their limits."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, metavar="SOURCE", help="a source of photos, such as grocery:FOLDER")
    parser.add_argument("--exact", type=int, default=100_000, metavar="N", help="vectors of the exact part; 0 for none")
    parser.add_argument("--approximate", type=int, default=1_000_000, metavar="N", help="of the approximate part")
    parser.add_argument("--dimensions", type=int, default=256, help="that the approximate part is projected to")
    parser.add_argument("--making", type=int, default=400, metavar="N", help="photos to make an index of; 0 for none")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--mixed", type=float, default=1.0, help="jitter by differences of photos; 0 for no such part")
    parser.add_argument("--tight", type=float, default=0.3, help="jitter by random numbers; 0 for no such part")
    parser.add_argument("--folder", metavar="FOLDER", help="where indexes are made, and found again")
    parser.add_argument("--threads", type=int, default=1, help="of FAISS")
    arguments = parser.parse_args()
    import faiss

    faiss.omp_set_num_threads(arguments.threads)
    samples, graph = read_samples(arguments.data), source_graph(arguments.data)
    classifier = PhotoClassifier(build_network(graph, weights="default").eval(), ViewSettings())
    features = extract_features(classifier.network, samples, classifier.views)
    vectors = unit_rows(features.fine.numpy())
    print(f"{len(vectors):,} photos with {vectors.shape[1]} features; {arguments.threads} thread(s) in FAISS")
    print(f"{'':<46}{'median':>9}{'95 %':>9}{'limit':>9}{'verdict':>9}{'CPU':>9}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.folder or temporary)
        if arguments.exact:
            exact(arguments, classifier, Copies(vectors, "mixed", arguments.mixed or 1.0), folder)
        for way, amount in (("mixed", arguments.mixed), ("tight", arguments.tight)):
            if arguments.approximate and amount:
                approximate(arguments, classifier, Copies(vectors, way, amount), folder)
        if arguments.making:
            making(classifier, samples, arguments.making, Path(temporary))
    sys.exit(bool(MISSED))


def exact(arguments: argparse.Namespace, classifier: PhotoClassifier, copies: Copies, folder: Path) -> None:
    """Every vector compared, with and without filters."""
    place = folder / f"exact-{arguments.exact}"
    if not place.exists():
        fill(place, classifier, copies.parts(arguments.exact), "exact", None)
    index = Index.open(place)
    queries = next(copies.parts(arguments.queries, seed=1))
    name = f"exact, {len(index):,} x {index.state.dimensions}"
    report(name, timed(index, queries), 50)
    report(f"{name}, {SOME}", timed(index, queries, where={"fine": SOME}), 50)
    report(f"{name}, {RARE}", timed(index, queries, where={"fine": RARE}), 50)


def approximate(arguments: argparse.Namespace, classifier: PhotoClassifier, copies: Copies, folder: Path) -> None:
    """Lists, and how much of the truth they find."""
    place = folder / f"{copies.way}-{copies.amount:g}-{arguments.approximate}-{arguments.dimensions}"
    vectors = copies.vectors
    directions, kept = fit_projection(vectors[:: max(1, len(vectors) // SAMPLE)], arguments.dimensions)
    began = time.perf_counter()
    made = not place.exists()
    if made:
        fill(place, classifier, copies.parts(arguments.approximate), "approximate", directions)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    index = Index.open(place)
    opened = time.perf_counter() - began
    queries = next(copies.parts(arguments.queries, seed=1))
    name = f"approximate, {len(index):,} x {index.state.dimensions}, {copies.way}"
    report(name, timed(index, queries), 10)
    report(f"  {SOME}", timed(index, queries, where={"fine": SOME}), None)
    report(f"  {RARE}", timed(index, queries, where={"fine": RARE}), None)
    report_recall(index, copies, queries)
    print(f"  the projection keeps {kept:.1%} of the ten nearest photos")
    size = sum(file.bytes for file in index.state.files)
    words = f"making the index from vectors {seconds:.1f} s, " if made else ""
    print(f"  {words}opening it {opened:.1f} s, {size / 1e6:,.0f} MB")


def report_recall(index: Index, copies: Copies, queries: np.ndarray) -> None:
    """How much of the truth is found, and whether the truth is hard to find."""
    nearest, rows = index.engine.nearest, project(queries, index.directions)
    truth, found = nearest.search(rows, 10, probes=nearest.lists), nearest.search(rows, 10)
    shared = [len(set(one) & set(two)) for one, two in zip(truth[1].tolist(), found[1].tolist(), strict=True)]
    recall = float(np.mean(shared)) / 10
    print(f"{'  recall@10, by photo':<46}{recall:>9.3f}{'':>9}{0.95:>9}{verdict_of('recall', recall >= 0.95):>9}")
    print(f"{'  recall@10, by similarity':<46}{recall_of(truth[0], found[0]):>9.3f}")
    of_photos = copies.numbers(truth[1])
    own = (of_photos == copies.numbers(np.arange(len(queries)))[:, np.newaxis]).mean()
    several = np.mean([len(set(row)) for row in of_photos.tolist()])
    print(f"  the ten nearest are copies of {several:.1f} photos; {own:.0%} are copies of the photo of the query")
    lists = index.state.lists
    assert lists is not None
    print(
        f"  {lists.probes} of {lists.count} lists are looked through; measured when they were made: {lists.recall:.3f}"
    )


def making(classifier: PhotoClassifier, samples: Samples, count: int, folder: Path) -> None:
    """Photos to an index: what the time goes into."""
    classifier.save(folder / "model")
    chosen = [str(samples[number].path) for number in np.linspace(0, len(samples) - 1, count).astype(int)]
    done = make_index(folder / "model", chosen, folder / "made")
    share = done.feature_seconds / done.seconds
    print(f"making an index of {done.photos:,} photos: {done.seconds:.1f} s, {done.photos / done.seconds:.1f} photos/s")
    print(f"  reading photos and the network take {share:.1%} of it, with loading the model: the rest")


class Copies:
    """Vectors that are repeated with jitter: `way` is "mixed" or "tight", `amount` the length of the jitter."""

    def __init__(self, vectors: np.ndarray, way: str, amount: float) -> None:
        self.vectors, self.way, self.amount = vectors, way, amount

    def numbers(self, places: np.ndarray) -> np.ndarray:
        """Which vectors those at some places are copies of."""
        return (places * 7919) % len(self.vectors)

    def parts(self, count: int, seed: int = 0) -> Iterator[np.ndarray]:
        """So many copies of length 1, in parts."""
        random = np.random.default_rng(seed)
        for start in range(0, count, PART):
            size = min(PART, count - start)
            chosen = self.vectors[self.numbers(np.arange(start, start + size))]
            yield unit_rows(chosen + np.float32(self.amount) * unit_rows(self._jitter(random, size)))

    def _jitter(self, random: np.random.Generator, size: int) -> np.ndarray:
        if self.way == "tight":
            return random.standard_normal((size, self.vectors.shape[1]), dtype=np.float32)
        one, two = random.integers(0, len(self.vectors), (2, size))
        return self.vectors[one] - self.vectors[two]


def fill(
    folder: Path, classifier: PhotoClassifier, parts: Iterator[np.ndarray], way: str, directions: np.ndarray | None
) -> None:
    """An index of vectors, with made-up paths; a tenth and a thousandth of the photos have labels of their own."""
    graph: LabelGraph = classifier.graph
    size = classifier.network.backbone.feature_size
    with IndexWriter.create(
        folder, model=model_entry(classifier), graph=graph, feature_size=size, method=way
    ) as writer:
        if directions is not None:
            writer.set_projection(directions, 1.0)
        start = 0
        for part in parts:
            numbers = np.arange(start, start + len(part))
            start += len(part)
            writer.add(made_up(project(part, directions), numbers, graph))
        writer.finish()


def made_up(vectors: np.ndarray, numbers: np.ndarray, graph: LabelGraph) -> Columns:
    """Photos with these vectors."""
    count = len(vectors)
    labels = [
        RARE if number % 1000 == 0 else SOME if number % 10 == 1 else graph.fine[number % len(graph)]
        for number in numbers.tolist()
    ]
    keys = np.zeros((count, 16), np.uint8)
    keys[:, :8] = numbers.astype("<i8").view(np.uint8).reshape(count, 8)
    return Columns(
        vectors=vectors.astype(np.float16),
        keys=keys,
        paths=[f"/photos/{number:08d}.jpg" for number in numbers.tolist()],
        labels=labels,
        guess_labels=np.full((count, GUESSES), NONE, np.int32),
        guess_probs=np.zeros((count, GUESSES), np.float32),
        kinds={},
        boxes=[None] * count,
    )


def timed(index: Index, queries: np.ndarray, **options: object) -> np.ndarray:
    """Milliseconds of each query, by the clock and of the processor, after a few to warm up."""
    found = []
    for number in range(-3, len(queries)):
        began, busy = time.perf_counter(), time.process_time()
        hits = index.search(queries[number], 10, **options)[0]
        found.append((1000 * (time.perf_counter() - began), 1000 * (time.process_time() - busy)))
        assert hits
    return np.array(found[3:])


def verdict_of(name: str, good: bool) -> str:
    """The word for a metric with a limit; a miss is kept in mind."""
    if not good:
        MISSED.append(name)
    return "met" if good else "MISSED"


def report(name: str, times: np.ndarray, limit: float | None) -> None:
    """A row of the table."""
    median, busy = np.median(times, axis=0)
    most = np.quantile(times[:, 0], 0.95)
    verdict = "" if limit is None else verdict_of(name, bool(median <= limit))
    bound = "" if limit is None else f"{limit} ms"
    print(f"{name:<46}{median:>6.1f} ms{most:>6.1f} ms{bound:>9}{verdict:>9}{busy:>6.1f} ms", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
