"""What the label graph costs: loss, head and memory against plain softmax, in one run.

    python benchmarks/head.py              the paper-sized graphs, about a minute
    python benchmarks/head.py --large      also 100,000 fine labels, some minutes and about 3 GB
    python benchmarks/head.py --figure     the paper's time-cost figure as a table

Every number is a ratio of medians of runs that take turns, so a busy machine slows both sides alike. Beside ours stand
a naive version (autograd, one masked log-sum-exp per kind) and, on a tree of two levels, the package
hierarchicalsoftmax (`pip install "finegraph[bench]"`). The limits are the project's own goals.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.functional import cross_entropy

import finegraph as fg
from finegraph.inference.sums.graph_tensors import GraphTensors
from finegraph.inference.sums.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class Case:
    """A graph with the batch and feature sizes to measure it at, and the limits to reach."""

    name: str
    fine: int
    sizes: tuple[int, ...]
    batch: int
    features: int
    loss_limit: float
    scores_limit: float
    rounds: int

    def graph(self) -> fg.LabelGraph:
        """A random graph of this size; every coarse label has a fine label."""
        rng = np.random.default_rng(0)
        parents = {}
        for number, size in enumerate(self.sizes):
            index = np.concatenate([np.arange(size), rng.integers(0, size, self.fine - size)])
            parents[f"kind {number}"] = rng.permutation(index)
        labels = {name: ("no", "yes") for name, size in zip(parents, self.sizes, strict=True) if size == 2}
        return fg.LabelGraph.from_parents([f"fine {i}" for i in range(self.fine)], parents, labels)

    @property
    def head_limit(self) -> float:
        """The limit for head and loss: the number of scores, and 30 % more."""
        return 1.3 * (self.fine + sum(self.sizes)) / self.fine


CARS = Case(name="cars", fine=333, sizes=(10, 140), batch=128, features=1024, loss_limit=5, scores_limit=8, rounds=300)
BIRDS = Case(
    name="birds", fine=200, sizes=(11,) * 28, batch=128, features=1024, loss_limit=5, scores_limit=8, rounds=300
)
MENU = Case(
    name="menu", fine=975, sizes=(781, *(2,) * 51), batch=128, features=1024, loss_limit=5, scores_limit=10, rounds=200
)
LARGE = Case(
    name="100,000",
    fine=100_000,
    sizes=(30_000, 1_000, 100, *(2,) * 5),
    batch=64,
    features=256,
    loss_limit=3,
    scores_limit=4,
    rounds=15,
)


NUMBERS, NUMBERS_LIMIT = 5, 1.5
"""How many numbers a loss is measured with, and what it may cost against the same without."""
NOISE = 0.05
"""Two runs of the very same thing differ by about this much."""


def medians(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each run in milliseconds; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + max(2, rounds // 10)):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if turn >= max(2, rounds // 10):
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) * 1e3 for name, values in times.items()}


def naive_loss(graph: fg.LabelGraph, fine: Tensor, coarse: Mapping[str, Tensor], target: Tensor) -> Tensor:
    """The same loss as anyone would write it first."""
    scores = fine
    parents = {kind: torch.from_numpy(graph.parents(kind)) for kind in graph.kinds}
    for kind in graph.kinds:
        scores = scores + coarse[kind][:, parents[kind]]
    log_probs = scores.log_softmax(dim=1)
    loss = -log_probs.gather(1, target[:, None]).squeeze(1)
    for kind in graph.kinds:
        same = parents[kind] == parents[kind][target][:, None]
        loss = loss - log_probs.masked_fill(~same, -torch.inf).logsumexp(dim=1)
    return loss.mean()


class Bench:
    """The things to measure on one graph."""

    def __init__(self, case: Case) -> None:
        self.case, self.graph = case, case.graph()
        torch.manual_seed(0)
        self.target = torch.randint(case.fine, (case.batch,))
        self.x = torch.randn(case.batch, case.features, requires_grad=True)
        self.softmax = fg.SoftmaxHead(case.features, self.graph)
        self.head = fg.BipartiteHead(case.features, self.graph)
        self.tensors = self.head.tensors
        self.fine = torch.randn(case.batch, case.fine, requires_grad=True)
        self.coarse = torch.randn(case.batch, sum(case.sizes), requires_grad=True)
        rng = np.random.default_rng(1)
        self.measured = {}
        for spread in (0.0, 0.1):
            values = rng.lognormal(size=(NUMBERS, case.fine))
            numbers = [fg.Number.from_values(f"number {n}", row, spread, "log") for n, row in enumerate(values)]
            kinds = [self.graph.kind(name) for name in self.graph.kinds]
            self.measured[spread] = fg.LabelGraph(self.graph.fine, kinds, numbers)
        self.number_scores = torch.rand(case.batch, NUMBERS, 2, requires_grad=True)
        scores = (self.fine, self.coarse, self.number_scores)
        self.leaves = (self.x, *scores, *self.softmax.parameters(), *self.head.parameters())

    def clear(self) -> None:
        """Forget gradients, as an optimizer does between steps."""
        for tensor in self.leaves:
            tensor.grad = None

    def cross_entropy(self) -> None:
        """The baseline: from fine scores to their gradient."""
        self.clear()
        cross_entropy(self.fine, self.target).backward()

    def loss_from_joint_scores(self) -> None:
        """From the joint scores to their gradient."""
        self.clear()
        fg.joint_loss(fg.Posterior(self.graph, self.fine, tensors=self.tensors), self.target).backward()

    def loss_from_scores(self) -> None:
        """From fine and coarse scores to the gradients of both."""
        self.clear()
        fg.joint_loss(fg.Posterior(self.graph, self.fine, self.coarse, tensors=self.tensors), self.target).backward()

    def loss_with_numbers(self, spread: float) -> None:
        """The same with numbers, whose values are exact or have spreads."""
        self.clear()
        graph = self.measured[spread]
        posterior = fg.Posterior(graph, self.fine, self.coarse, number_scores=self.number_scores)
        fg.joint_loss(posterior, self.target).backward()

    def naive(self) -> None:
        """The same, as anyone would write it first."""
        self.clear()
        coarse = {kind: self.coarse[:, columns] for kind, columns in self.tensors.columns.items()}
        naive_loss(self.graph, self.fine, coarse, self.target).backward()

    def softmax_step(self) -> None:
        """Softmax head and loss, forward and backward."""
        self.clear()
        cross_entropy(self.softmax.fine(self.x), self.target).backward()

    def bipartite_step(self) -> None:
        """Bipartite head and loss, forward and backward."""
        self.clear()
        fg.joint_loss(self.head(self.x), self.target).backward()

    def extra_memory(self, coarse: bool) -> float:
        """The most memory that the loss holds beside scores and their gradients, in matrices of fine scores."""
        self.clear()
        scores = [self.fine, self.coarse] if coarse else [self.fine]
        posterior = fg.Posterior(self.graph, *scores, tensors=self.tensors)
        peak = allocated_peak(lambda: fg.joint_loss(posterior, self.target).backward())
        size = self.fine.numel() * self.fine.element_size()
        gradients = sum(tensor.numel() * tensor.element_size() for tensor in scores)
        return (peak - gradients) / size


def allocated_peak(run: Callable[[], object]) -> int:
    """The most bytes of tensors that were alive at once while running, of those made by it."""
    run()
    with torch.profiler.profile(profile_memory=True) as profiler:
        run()
    events = sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    alive = peak = 0
    for event in events:
        if event.name() == "[memory]":
            alive += event.nbytes()
            peak = max(peak, alive)
    return peak


def ratios(bench: Bench) -> list[tuple[str, float, float | None]]:
    """The rows of the table for one graph: what, ratio, limit."""
    case = bench.case
    runs = {
        "cross-entropy": bench.cross_entropy,
        "joint scores": bench.loss_from_joint_scores,
        "scores": bench.loss_from_scores,
    }
    loss = medians(runs, case.rounds)
    numbers: dict[str, float] = {}
    if case is not LARGE:
        turns = {
            "without": bench.loss_from_scores,
            "exact": lambda: bench.loss_with_numbers(0.0),
            "spreads": lambda: bench.loss_with_numbers(0.1),
        }
        numbers = medians(turns, case.rounds // 2)
    # The naive version fills caches and memory, which would slow whatever comes next: it has turns of its own.
    naive = None
    if case is not LARGE:
        both = medians({"cross-entropy": bench.cross_entropy, "naive": bench.naive}, 20)
        naive = both["naive"] / loss["cross-entropy"]
    step = medians({"softmax": bench.softmax_step, "bipartite": bench.bipartite_step}, max(case.rounds // 3, 5))
    folded = bench.head.fold()
    with torch.no_grad():
        x = bench.x.detach()
        forward = medians(
            {"softmax": lambda: bench.softmax(x).log_probs(), "folded": lambda: folded(x).log_probs()}, case.rounds // 2
        )
    base = loss["cross-entropy"]
    rows: list[tuple[str, float, float | None]] = [
        ("loss from joint scores / cross-entropy", loss["joint scores"] / base, case.loss_limit),
        ("loss from fine and coarse scores / cross-entropy", loss["scores"] / base, case.scores_limit),
        ("head and loss / softmax head and loss", step["bipartite"] / step["softmax"], case.head_limit),
        ("folded head, forward / softmax head", forward["folded"] / forward["softmax"], 1.0),
        ("extra memory, loss from joint scores / score matrix", bench.extra_memory(coarse=False), 3.0),
        ("extra memory, from fine and coarse scores / fine scores", bench.extra_memory(coarse=True), 3.0),
    ]
    if numbers:
        exact, spreads = (numbers[name] / numbers["without"] for name in ("exact", "spreads"))
        rows.append((f"loss with {NUMBERS} numbers, exact values / without", exact, NUMBERS_LIMIT))
        rows.append((f"loss with {NUMBERS} numbers, values with spreads / without", spreads, None))
    if naive is not None:
        rows.append(("naive loss from fine and coarse scores / cross-entropy", naive, None))
    return rows


def tree_ratio(case: Case) -> tuple[float, float] | None:
    """On a tree of two levels: hierarchicalsoftmax and ours, both against cross-entropy; None where it is missing."""
    try:
        from hierarchicalsoftmax import HierarchicalSoftmaxLoss, SoftmaxNode
    except ImportError:
        return None
    bench = Bench(case)
    widest = bench.graph.kinds[int(np.argmax(case.sizes))]
    parents = bench.graph.parents(widest)
    root = SoftmaxNode("root")
    nodes = [SoftmaxNode(f"coarse {c}", parent=root) for c in range(parents.max() + 1)]
    leaves = [SoftmaxNode(f"fine {i}", parent=nodes[parent]) for i, parent in enumerate(parents)]
    root.set_indexes()
    criterion = HierarchicalSoftmaxLoss(root=root)
    outputs = torch.randn(case.batch, root.layer_size, requires_grad=True)
    ids = torch.tensor([root.node_to_id[leaf] for leaf in leaves])[bench.target]
    tree = Bench(Case(**{**vars(case), "sizes": (max(case.sizes),)}))

    def rival() -> None:
        outputs.grad = None
        criterion(outputs, ids).backward()

    runs = {"base": bench.cross_entropy, "rival": rival, "ours": tree.loss_from_scores}
    times = medians(runs, 30)
    return times["rival"] / times["base"], times["ours"] / times["base"]


def weighted_ratios(rounds: int = 5) -> tuple[float, float]:
    """312 binary kinds of percentages, as CUB has them, by weights and by edges: both in cross-entropies."""
    rng = np.random.default_rng(0)
    yes = [rng.beta(0.3, 1.5, 200).round(3) for _ in range(312)]
    rows = {f"kind {j}": np.stack([1 - share, share], axis=1) for j, share in enumerate(yes)}
    graph = fg.LabelGraph.from_matrix([f"fine {i}" for i in range(200)], rows, dict.fromkeys(rows, ("no", "yes")))
    torch.manual_seed(0)
    fine = torch.randn(128, 200, requires_grad=True)
    coarse = torch.randn(128, 624, requires_grad=True)
    target = torch.randint(200, (128,))
    by_weights, by_edges = GraphTensors(graph), GraphTensors(graph, Strategy(weights=False))

    def step(tensors: GraphTensors) -> None:
        fine.grad = coarse.grad = None
        fg.joint_loss(fg.Posterior(graph, fine, coarse, tensors=tensors), target).backward()

    def base() -> None:
        fine.grad = None
        cross_entropy(fine, target).backward()

    unit = medians({"base": base}, 100)["base"]
    return medians({"run": lambda: step(by_weights)}, rounds)["run"] / unit, medians(
        {"run": lambda: step(by_edges)}, 1
    )["run"] / unit


def figure(console: Console, cases: list[Case]) -> None:
    """The paper's time-cost figure: last layer and loss, forward and backward, softmax and bipartite."""
    table = Table(
        "graph", "part", "softmax ms", "bipartite ms", "ratio", title="Time cost, batch 128", title_justify="left"
    )
    for case in cases:
        bench = Bench(case)
        x, target = bench.x, bench.target
        held: dict[str, Tensor] = {}

        def forward(name: str, make: Callable[[], Tensor], held: dict[str, Tensor] = held) -> None:
            held[name] = make()

        parts: dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor]]] = {
            "last layer": (
                lambda b=bench, x=x: b.softmax.fine(x).sum(),
                lambda b=bench, x=x: b.head.fine(x).sum() + b.head.coarse(x).sum(),
            ),
            "loss": (
                lambda b=bench, t=target: cross_entropy(b.fine, t),
                lambda b=bench, t=target: fg.joint_loss(fg.Posterior(b.graph, b.fine, b.coarse, tensors=b.tensors), t),
            ),
        }
        for part, (softmax, bipartite) in parts.items():
            runs: dict[str, Callable[[], object]] = {}
            for name, make in (("softmax", softmax), ("bipartite", bipartite)):
                runs[f"{name} forward"] = lambda name=name, make=make: forward(name, make)
                runs[f"{name} backward"] = lambda name=name, held=held: held[name].backward()
            times = medians(runs, 100)
            for way in ("forward", "backward"):
                one, two = times[f"softmax {way}"], times[f"bipartite {way}"]
                table.add_row(case.name, f"{part}, {way}", f"{one:.3f}", f"{two:.3f}", f"{two / one:.1f}x")
    console.print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="also 100,000 fine labels")
    parser.add_argument("--figure", action="store_true", help="the paper's time-cost figure instead")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    console = Console(width=110)
    cases = [CARS, BIRDS, MENU]
    if arguments.figure:
        figure(console, cases)
        return
    table = Table("graph", "measure", "ratio", "limit", "", title=f"{arguments.threads} threads", title_justify="left")
    for case in cases + [LARGE] * arguments.large:
        bench = Bench(case)
        for number, (what, ratio, limit) in enumerate(ratios(bench)):
            name = f"{case.name} (k={case.fine:,}, {len(case.sizes)} kinds)" if number == 0 else ""
            room = NOISE if limit == 1 else 0.0  # equal work: the limit is the very same thing
            verdict = "" if limit is None else ("reached" if ratio <= limit + room else "not reached")
            table.add_row(name, what, f"{ratio:.2f}x", "" if limit is None else f"{limit:.2f}x", verdict)
        table.add_section()
    console.print(table)
    rival = tree_ratio(CARS)
    if rival is None:
        console.print('hierarchicalsoftmax is not installed; pip install "finegraph[bench]" adds it to the comparison')
    else:
        console.print(
            f"two-level tree (333 fine, 140 coarse), against cross-entropy: hierarchicalsoftmax {rival[0]:.1f}x, "
            f"ours {rival[1]:.1f}x"
        )
    weights, edges = weighted_ratios()
    console.print(
        f"312 weighted kinds (200 fine), against cross-entropy: by weights {weights:.0f}x, by edges {edges:.0f}x"
    )


if __name__ == "__main__":
    main()
