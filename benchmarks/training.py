"""What training costs: the share of the label graph in a step, and memory over epochs.

    python benchmarks/training.py step                     GoogLeNet at 224 px, batch 32: what the bipartite head adds
    python benchmarks/training.py memory                   the size of the process after each of many epochs

Each prints a table with the project's own limit. The first times head and loss directly, forward and backward, with the
auxiliary heads that GoogLeNet has in training; the difference of two whole steps would drown in noise.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from finegraph.cli.process import prepare_process

prepare_process()  # as the command does, before torch is loaded

import numpy as np  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import finegraph as fg  # noqa: E402
from finegraph.nn import NetworkDesign, build_network  # noqa: E402
from finegraph.training.recipes import RECIPES  # noqa: E402
from finegraph.training.step import summed_loss  # noqa: E402

BATCH = 32
GRAPHS = {
    "cars: 333 labels, kinds of 10 and 140": (333, (10, 140)),
    "birds: 200 labels, 28 kinds of 11": (200, (11,) * 28),
    "menu: 975 labels, 781 dishes, 51 binary": (975, (781, *(2,) * 51)),
}


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("step", "memory"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=12)
    options = parser.parse_args()
    out = Console(width=max(Console().width, 100))
    if options.what == "step":
        out.print(step_table(options.rounds))
    else:
        out.print(memory_table(options.epochs))


def graph_of(fine: int, sizes: tuple[int, ...]) -> fg.LabelGraph:
    """A random graph; every coarse label has a fine label."""
    random = np.random.default_rng(0)
    parents = {}
    for number, size in enumerate(sizes):
        index = np.concatenate([np.arange(size), random.integers(0, size, fine - size)])
        parents[f"kind {number}"] = random.permutation(index)
    return fg.LabelGraph.from_parents([f"fine {number}" for number in range(fine)], parents)


def seconds(work: Callable[[], None], rounds: int) -> float:
    """The median time of a piece of work, after two rounds to warm up."""
    found = []
    for _ in range(rounds + 2):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return statistics.median(found[2:])


def step_table(rounds: int) -> Table:
    """What the heads and losses of a step cost, and the whole step."""
    table = Table(title=f"GoogLeNet, 224 px, batch {BATCH}, {torch.get_num_threads()} threads; limit 1 %")
    for heading in ("graph", "step ms", "softmax ms", "bipartite ms", "added", "of the step"):
        table.add_column(heading, justify="left" if heading == "graph" else "right")
    for name, (fine, sizes) in GRAPHS.items():
        graph = graph_of(fine, sizes)
        target = torch.arange(BATCH) % fine
        network = build_network(graph, NetworkDesign(network="googlenet", head="softmax")).train()
        network.to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(network.parameters(), lr=1e-4, momentum=0.9)
        pixels = torch.randint(0, 256, (BATCH, 3, 224, 224), dtype=torch.uint8)
        pixels = pixels.contiguous(memory_format=torch.channels_last)

        def step() -> None:
            posterior, auxiliary = network.forward_with_auxiliary(pixels)  # noqa: B023
            loss = sum(summed_loss(one, target, {}, RECIPES["paper"]) for one in (posterior, *auxiliary))  # noqa: B023
            optimizer.zero_grad()  # noqa: B023
            loss.backward()
            optimizer.step()  # noqa: B023

        whole = seconds(step, rounds)
        sizes_of_features = (network.backbone.feature_size, *network.backbone.auxiliary_sizes)
        cost = {head: heads_seconds(head, graph, sizes_of_features, target) for head in ("softmax", "bipartite")}
        added = cost["bipartite"] - cost["softmax"]
        row = (whole, cost["softmax"], cost["bipartite"], added)
        table.add_row(name, *(f"{1000 * value:,.2f}" for value in row), f"{added / whole:.2%}")
    return table


def heads_seconds(head: str, graph: fg.LabelGraph, sizes: tuple[int, ...], target: torch.Tensor) -> float:
    """The time of all heads of a step and their losses, forward, backward and update."""
    heads = [{"softmax": fg.SoftmaxHead, "bipartite": fg.BipartiteHead}[head](size, graph) for size in sizes]
    parameters = [weight for one in heads for weight in one.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1e-4, momentum=0.9)
    features = [torch.randn(BATCH, size, requires_grad=True) for size in sizes]

    def work() -> None:
        if head == "softmax":
            losses = [
                torch.nn.functional.cross_entropy(one.scores(x), target) for one, x in zip(heads, features, strict=True)
            ]
        else:
            losses = [summed_loss(one(x), target, {}, RECIPES["paper"]) for one, x in zip(heads, features, strict=True)]
        optimizer.zero_grad()
        sum(losses).backward()
        optimizer.step()

    return seconds(work, 60)


def memory_table(epochs: int) -> Table:
    """The size of a process that trains a whole network on a few made-up photos, epoch by epoch."""
    code = (
        "import sys; from finegraph.cli.process import prepare_process; prepare_process()\n"
        "from finegraph.cli import training_display as display\n"
        "from finegraph.cli.main import run\n"
        "def epoch(self, row):\n"
        "    pages = int(open('/proc/self/statm').read().split()[1])\n"
        "    print('EPOCH', row['epoch'], pages * 4096, flush=True)\n"
        "display.TrainingDisplay.epoch = epoch\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        photos = make_photos(Path(folder), 8, 24)
        numbers = ["--tune", "all", "--size", "96", "--epochs", str(epochs), "--batch-size", "16", "--val-share", "0.2"]
        command = [sys.executable, "-c", code, "train", str(photos), "--run", f"{folder}/run", *numbers]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    sizes = [int(line.split()[2]) for line in done.stdout.splitlines() if line.startswith("EPOCH")]
    table = Table(title="resident memory after each epoch of training a whole network")
    table.add_column("epoch", justify="right")
    table.add_column("MB", justify="right")
    table.add_column("against epoch 2", justify="right")
    for number, size in enumerate(sizes, start=1):
        table.add_row(str(number), f"{size / 2**20:,.0f}", f"{size / sizes[1] - 1:+.1%}" if number > 2 else "")
    return table


def make_photos(folder: Path, classes: int, count: int) -> Path:
    """Photos of noise around a colour per class, in a folder per class."""
    random = np.random.default_rng(0)
    for label in range(classes):
        place = folder / "photos" / f"colour {label}"
        place.mkdir(parents=True)
        colour = random.integers(0, 200, 3)
        for number in range(count):
            pixels = (random.integers(0, 56, (128, 128, 3)) + colour).astype(np.uint8)
            Image.fromarray(pixels).save(place / f"{number}.jpg")
    return folder / "photos"


if __name__ == "__main__":
    main()
