"""What many labels cost: every step that grows with the fine labels, from 1,000 to 1,000,000 of them.

    python benchmarks/labels.py                                    1,000 to 100,000 labels, some minutes
    python benchmarks/labels.py --sizes 1000000 --parts train      one size, some of the parts
    python benchmarks/labels.py --sizes 1000,1000000               a few more minutes, and about 6 GB

Each size runs in a process of its own. Training steps and questions stand beside a linear layer of the same size, with
cross-entropy or with the five best labels of one photo; both take turns in one run, so a busy machine slows both alike.
Seconds are CPU seconds of all threads; memory is the largest resident memory while a step runs, beyond what was there
before it. The graph has one kind with 3 labels for 10 fine ones, one with 1 for 100, one with 100 and 5 yes/no kinds.
The part "losses" trains with what else a graph may have: a number, with exact values or spreads, kinds in which fine
labels have several parents, and samples known only to be one of three labels. The part "mixed" asks a graph that has a
number, too, and a kind with 100 labels of which every tenth fine label has one of two; in the part "spreads" the values
of the number have spreads; in the part "ordered" the kind with 3 labels for 10 fine ones is in rising order; the part
"names" searches the names of all fine labels, as the picker of the page does.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import cross_entropy

import finegraph as fg
from finegraph.graph.kind import Kind
from finegraph.graph.name_search import label_search
from finegraph.graph.number import Number
from finegraph.nn.compact_linear import compact_head

PARTS = ("made", "train", "losses", "questions", "mixed", "spreads", "ordered", "names", "compact", "extend")


@dataclass(frozen=True)
class Row:
    """One measured step: CPU seconds, MiB beyond what was there before, and the ratio of each to a plain layer."""

    part: str
    step: str
    seconds: float
    mebibytes: float
    times: float | None = None
    memories: float | None = None
    note: str = ""


def made_graph(fine: int) -> fg.LabelGraph:
    """A graph of this size; every coarse label has a fine label."""
    rng = np.random.default_rng(0)
    parents = {}
    for number, size in enumerate((3 * fine // 10, max(2, fine // 100), 100, 2, 2, 2, 2, 2)):
        index = np.concatenate([np.arange(size), rng.integers(0, size, fine - size)])
        parents[f"kind {number}"] = rng.permutation(index)
    labels = {name: ("no", "yes") for name, index in parents.items() if index.max() == 1}
    return fg.LabelGraph.from_parents([f"fine {i}" for i in range(fine)], parents, labels)


def mixed_graph(fine: int, spread: float = 0.0) -> fg.LabelGraph:
    """The same graph with a number, and with a kind in which some fine labels have one of two parents.

    Args:
        fine: the number of fine labels.
        spread: the largest spread of a value, in shares of it; every value then has one of at least a tenth of this.
    """
    rng, count = np.random.default_rng(1), 100
    first = rng.permutation(np.concatenate([np.arange(count), rng.integers(0, count, fine - count)]))
    several = rng.random(fine) < 0.1
    starts = np.concatenate([[0], np.cumsum(1 + several)])
    coarse, weight = np.repeat(first, 1 + several), np.repeat(np.where(several, 0.5, 1.0), 1 + several)
    coarse[starts[1:][several] - 1] = (first[several] + 1) % count
    kind = Kind("mixed", tuple(f"mixed {i}" for i in range(count)), starts, coarse, weight)
    values = rng.lognormal(2.5, 0.5, fine)
    spreads = values * spread * rng.uniform(0.1, 1.0, fine)
    price = Number.from_values("price", values, spreads, scale="log", unit="EUR")
    return made_graph(fine).with_kind(kind).with_number(price)


def two_parents_graph(fine: int) -> fg.LabelGraph:
    """A graph with one kind of 3 labels for 10 fine ones, of which each fine label has one of two."""
    rng, count = np.random.default_rng(2), 3 * fine // 10
    first = rng.permutation(np.concatenate([np.arange(count), rng.integers(0, count, fine - count)]))
    coarse = np.stack([first, (first + rng.integers(1, count, fine)) % count], axis=1).reshape(-1)
    labels = tuple(f"label {i}" for i in range(count))
    kind = Kind("two", labels, np.arange(0, 2 * fine + 1, 2), coarse, np.full(2 * fine, 0.5))
    return fg.LabelGraph([f"fine {i}" for i in range(fine)], [kind])


def reset_peak() -> None:
    """Give free memory back, and let the largest resident memory of this process start anew; Linux only."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def status(entry: str) -> float:
    """An entry of this process in MiB: VmRSS, or VmHWM for the largest since the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{entry}:"))


@dataclass(frozen=True)
class Measured:
    """The median CPU seconds of a step, and the MiB that it needed."""

    seconds: float
    mebibytes: float


def measure(runs: Mapping[str, Callable[[], object]], rounds: int, warm: bool = True) -> dict[str, Measured]:
    """What each run costs; they take turns.

    Args:
        runs: the steps by name.
        rounds: how often each is run.
        warm: whether a first round does not count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    memory: dict[str, float] = {}
    for turn in range(rounds + warm):
        for name, run in runs.items():
            first = turn == 0
            if first:
                reset_peak()
            before, start = status("VmRSS"), time.process_time()
            run()
            if turn >= warm:
                seconds[name].append(time.process_time() - start)
            if first and not warm:
                memory[name] = status("VmHWM") - before
    for name, run in runs.items() if warm else ():
        reset_peak()
        before = status("VmRSS")
        run()
        memory[name] = max(0.0, status("VmHWM") - before)
    return {name: Measured(statistics.median(seconds[name]), memory[name]) for name in runs}


class Bench:
    """The steps to measure on one graph."""

    def __init__(self, fine: int, features: int, batch: int, rounds: int) -> None:
        self.fine, self.features, self.batch, self.rounds = fine, features, batch, rounds
        self.rows: list[Row] = []
        torch.manual_seed(0)
        held: dict[str, Any] = {}

        def graph() -> None:
            held["graph"] = made_graph(fine)

        def head() -> None:
            held["head"] = fg.BipartiteHead(features, held["graph"])

        self.add("made", measure({"label graph": graph, "head": head}, 1, warm=False))
        self.graph: fg.LabelGraph = held["graph"]
        self.head: fg.BipartiteHead = held["head"]
        torch.nn.init.normal_(self.head.coarse.weight, std=features**-0.5)
        self.linear = torch.nn.Linear(features, fine)
        self.x = torch.randn(batch, features)
        self.target = torch.randint(fine, (batch,))

    def add(
        self,
        part: str,
        found: Mapping[str, Measured],
        base: str | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Keep the rows of a part, as ratios to one of them if it is named, with a note where there is one."""
        unit = None if base is None else found[base]
        for name, one in found.items():
            times = None if unit is None else one.seconds / unit.seconds
            # Of less than a few pages nothing can be said.
            memories = one.mebibytes / unit.mebibytes if unit is not None and unit.mebibytes > 4 else None
            self.rows.append(Row(part, name, one.seconds, one.mebibytes, times, memories, (notes or {}).get(name, "")))

    def train(self) -> None:
        """A training step, forward and backward, against a linear layer and cross-entropy; and the weight prior."""
        leaves = [*self.head.parameters(), *self.linear.parameters()]

        def clear() -> None:
            for leaf in leaves:
                leaf.grad = None

        def linear() -> None:
            cross_entropy(self.linear(self.x), self.target).backward()
            clear()

        def scores() -> None:
            fg.joint_loss(self.head(self.x), self.target).backward()
            clear()

        def rows() -> None:
            self.head.loss(self.x, self.target).backward()
            clear()

        def prior() -> None:
            fg.laplacian_prior(self.head).backward()
            clear()

        base = "linear layer + cross-entropy"
        steps = {base: linear, "head.loss(x, y)": rows, "joint_loss(head(x), y)": scores}
        self.add("train", measure(steps, self.rounds), base)
        self.add("train", measure({"laplacian_prior(head)": prior}, 1))

    def losses(self) -> None:
        """`head.loss` where the graph has more than kinds with one parent, or targets are sets of three labels."""
        numbers = {"an exact number": mixed_graph(self.fine), "a number with spreads": mixed_graph(self.fine, 0.2)}
        kinds = [self.graph.kind(name) for name in self.graph.kinds]
        graphs = {name: fg.LabelGraph(graph.fine, kinds, [graph.number("price")]) for name, graph in numbers.items()}
        graphs["an exact number and a mixed kind"] = numbers["an exact number"]
        graphs["two parents of 3 for 10 in each row"] = two_parents_graph(self.fine)
        heads = {name: fg.BipartiteHead(self.features, graph) for name, graph in graphs.items()}
        sets = torch.zeros(self.batch, self.fine, dtype=torch.bool)
        sets.scatter_(1, torch.randint(self.fine, (self.batch, 3)), True)

        def step(head: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> Callable[[], None]:
            def run() -> None:
                loss().backward()
                head.zero_grad()

            return run

        base = "linear layer + cross-entropy"
        steps = {base: step(self.linear, lambda: cross_entropy(self.linear(self.x), self.target))}
        for name, head in heads.items():
            steps[f"head.loss, {name}"] = step(head, lambda head=head: head.loss(self.x, self.target))
        steps["head.loss, sets of three labels"] = step(self.head, lambda: self.head.loss(self.x, sets))
        self.add("losses", measure(steps, self.rounds), base)

    def questions(self) -> None:
        """Every question about one photo, each from its features on, against the five best labels of a linear layer."""
        x, graph, head = self.x[:1], self.graph, self.head
        one, two = graph.fine[0], graph.fine[self.fine // 2]
        wide, narrow = graph.kinds[0], graph.kinds[-1]

        def linear() -> None:
            self.linear(x).softmax(dim=1).topk(5)

        asked: dict[str, Callable[[fg.Posterior], object]] = {
            "top(5)": lambda p: p.top(5),
            f"top(5, {wide!r})": lambda p: p.top(5, wide),
            "log_probs of all kinds": lambda p: [p.log_probs(kind) for kind in graph.kinds],
            "marginals": lambda p: p.marginals(),
            "answer": lambda p: p.answer(),
            "questions": lambda p: p.questions(),
            "given a label": lambda p: p.given({narrow: "yes"}).top(5),
            "answer given a label": lambda p: p.given({narrow: "yes"}).answer(),
            "log_prob_of": lambda p: p.log_prob_of({narrow: "yes", wide: graph.labels(wide)[0]}),
            "entropy": lambda p: (p.entropy(), p.entropy(wide)),
            "unknown_share": lambda p: p.unknown_share(wide),
            "sample(10)": lambda p: p.sample(10),
            "explain": lambda p: p.explain(one, two),
        }
        runs: dict[str, Callable[[], object]] = {"linear layer, 5 best labels": linear}
        for name, ask in asked.items():
            runs[name] = lambda ask=ask: ask(head(x))
        with torch.no_grad():
            self.add("questions", measure(runs, self.rounds), "linear layer, 5 best labels")

    def mixed(self, part: str = "mixed", spread: float = 0.0) -> None:
        """Questions about one photo where the graph has a number and a kind with several parents, too."""
        graph = mixed_graph(self.fine, spread)
        head, x = fg.BipartiteHead(self.features, graph), self.x[:1]
        torch.nn.init.normal_(head.coarse.weight, std=self.features**-0.5)
        label = graph.labels("mixed")[0]
        asked: dict[str, Callable[[fg.Posterior], object]] = {
            "top(5), with a number": lambda p: p.top(5),
            "mean and spread of the number": lambda p: (lambda value: (value.mean, value.spread))(p.value("price")),
            "median of the number": lambda p: p.value("price").quantile(0.5),
            "shortest interval of the number": lambda p: p.value("price").interval(0.9),
            "probability of a range of the number": lambda p: p.value("price").probability("10..15"),
            "log_probs of the mixed kind": lambda p: p.log_probs("mixed"),
            "answer, with a number": lambda p: p.answer(),
            "questions, with a number": lambda p: p.questions(),
            "given a range of the number": lambda p: p.given({"price": "10..15"}).top(5),
            "median given a range of the number": lambda p: p.given({"price": "10..15"}).value("price").quantile(0.5),
            "given a label of the mixed kind": lambda p: p.given({"mixed": label}).top(5),
        }
        runs: dict[str, Callable[[], object]] = {"linear layer, 5 best labels": lambda: self.linear(x).topk(5)}
        for name, ask in asked.items():
            runs[name] = lambda ask=ask: ask(head(x))
        with torch.no_grad():
            self.add(part, measure(runs, self.rounds), "linear layer, 5 best labels")

    def spreads(self) -> None:
        """The same if the values of the number have spreads."""
        self.mixed("spreads", 0.2)

    def ordered(self) -> None:
        """The sure answer about one photo if the labels of the largest kind are in rising order, also with evidence."""
        wide, narrow = self.graph.kinds[0], self.graph.kinds[-1]
        kinds = [replace(self.graph.kind(name), ordered=name == wide) for name in self.graph.kinds]
        graph = fg.LabelGraph(self.graph.fine, kinds)
        head, x = fg.BipartiteHead(self.features, graph), self.x[:1]
        runs: dict[str, Callable[[], object]] = {
            "linear layer, 5 best labels": lambda: self.linear(x).topk(5),
            "answer, with an ordered kind": lambda: head(x).answer(),
            "the same, given a label": lambda: head(x).given({narrow: "yes"}).answer(),
        }
        with torch.no_grad():
            self.add("ordered", measure(runs, self.rounds), "linear layer, 5 best labels")

    def names(self) -> None:
        """A search of the names of the fine labels, made ready first, and one that finds none."""
        self.add("names", measure({"names, made ready": lambda: label_search(self.graph)}, 1, warm=False))
        found = label_search(self.graph)
        searches = {
            "search, begins so": lambda: found.holding("fine 99", 40),
            "search, in the middle": lambda: found.holding("9876", 40),
            "search, no name": lambda: found.holding("not there", 40),
        }
        self.add("names", measure(searches, self.rounds))

    @torch.no_grad()
    def compact(self) -> None:
        """The five best labels of one photo with rounded weights; and how far probabilities move at most."""
        x, exact = self.x[:1], self.head(self.x)
        runs: dict[str, Callable[[], object]] = {"top(5), float32": lambda: self.head(x).top(5)}
        notes = {}
        for form in ("bfloat16", "int8"):
            head = compact_head(self.head, form)
            found = head(self.x)
            moved = [(found.probs(kind) - exact.probs(kind)).abs().max() for kind in (None, *self.graph.kinds)]
            runs[f"top(5), {form}"] = lambda head=head: head(x).top(5)
            notes[f"top(5), {form}"] = f"moved {float(max(moved)):.1e}"
        self.add("compact", measure(runs, self.rounds), "top(5), float32", notes)

    def extend(self) -> None:
        """One new fine label."""
        parents = {kind: self.graph.labels(kind)[0] for kind in self.graph.kinds}
        grown = self.graph.with_fine({"a new one": parents})
        self.add("extend", measure({"head.extend by one label": lambda: self.head.extend(grown)}, 1, warm=False))


def run_one(arguments: argparse.Namespace) -> list[Row]:
    """All rows of one size, in this process."""
    torch.set_num_threads(arguments.threads)
    bench = Bench(arguments.one, arguments.features, arguments.batch, arguments.rounds)
    for part in arguments.parts.split(","):
        if part != "made":
            getattr(bench, part)()
    return bench.rows


def show(console: Console, found: Mapping[int, list[Row]]) -> None:
    """Print the table: a line per step, seconds, ratio and memory per size."""
    table = Table("", "step", title="CPU seconds, (times the plain layer), MiB (times)", title_justify="left")
    for size in found:
        table.add_column(f"{size:,}", justify="right")
    lines: dict[tuple[str, str], dict[int, Row]] = {}
    for size, rows in found.items():
        for row in rows:
            lines.setdefault((row.part, row.step), {})[size] = row
    before = None
    for (part, step), by_size in lines.items():
        if before not in (None, part):
            table.add_section()
        cells = [cell(by_size[size]) if size in by_size else "" for size in found]
        table.add_row(part if part != before else "", step, *cells)
        before = part
    console.print(table)


def cell(row: Row) -> str:
    """One cell of the table."""
    seconds = f"{row.seconds:.3f} s" if row.seconds < 10 else f"{row.seconds:.0f} s"
    times = "" if row.times is None else f" ({row.times:.2f}x)"
    memories = "" if row.memories is None else f" ({row.memories:.2f}x)"
    note = f", {row.note}" if row.note else ""
    return f"{seconds}{times}, {row.mebibytes:,.0f}{memories}{note}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000", help="numbers of fine labels")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps([asdict(row) for row in run_one(arguments)]))
        return
    found: dict[int, list[Row]] = {}
    for size in (int(text) for text in arguments.sizes.split(",")):
        command = [sys.executable, __file__, "--one", str(size), *sys.argv[1:]]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found[size] = [Row(**row) for row in json.loads(output)]
    show(Console(width=60 + 40 * len(found)), found)


if __name__ == "__main__":
    main()
