"""What sharing labels out among processes costs: one process against two, with the same work in all.

    python benchmarks/sharded.py                                   100,000 labels, 1 and 2 processes
    python benchmarks/sharded.py --labels 1000000 --ranks 1,2      a million, about 8 GB in all
    python benchmarks/sharded.py --coarse-features 64              coarse labels with features of their own

A step is head + loss + backward on features of a batch, by gloo on this machine, with one thread per process. Beside
it stands plain softmax sharded by torch itself: a column-wise linear layer and `loss_parallel` over a device mesh.
CPU seconds are those of all processes together, the median of some steps: the work in all, which other jobs on the
machine do not change. Wall seconds are those of the quickest step. Bytes are what a process hands to exchanges in a
step.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from labels import made_graph, status
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.functional import cross_entropy

from finegraph.inference.processes import Processes
from finegraph.nn.heads import BipartiteHead
from finegraph.nn.sharded_head import ShardedHead
from finegraph.training.distributed import Ranks, joined_ranks


class Counted(Processes):
    """An exchange that counts the bytes that are handed to it."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.bytes = ranks, 0
        self.rank, self.size = ranks.rank, ranks.size

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Sum, and count."""
        self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        self.ranks.sum(tensors)

    def largest(self, values: Tensor) -> None:
        """The largest, and count."""
        self.bytes += values.numel() * values.element_size()
        self.ranks.largest(values)


def timed(step: Callable[[], None], rounds: int) -> dict[str, float]:
    """The median CPU seconds of a step in this process, and the wall seconds of the quickest."""
    step()
    wall, used = [], []
    for _ in range(rounds):
        start, before = time.perf_counter(), time.process_time()
        step()
        wall.append(time.perf_counter() - start)
        used.append(time.process_time() - before)
    return {"cpu": statistics.median(used), "seconds": min(wall)}


def photos_of(arguments: argparse.Namespace) -> tuple[Tensor, Tensor | None, Tensor]:
    """Features of a batch, those of coarse labels if they have their own, and fine labels."""
    size, batch = arguments.coarse_features, arguments.batch
    x, target = torch.randn(batch, arguments.features), torch.randint(arguments.labels, (batch,))
    return x, None if size is None else torch.randn(batch, size), target


def stepped(head: BipartiteHead | ShardedHead, photos: tuple[Tensor, Tensor | None, Tensor]) -> None:
    """The loss of a batch and all its gradients."""
    x, coarse, target = photos
    head.zero_grad()
    coarse = None if coarse is None else coarse.clone().requires_grad_()
    head.loss(x.clone().requires_grad_(), target, coarse_features=coarse).backward()


def ours(ranks: Ranks, arguments: argparse.Namespace) -> dict[str, float]:
    """A step of a bipartite head whose labels are sharded."""
    graph = made_graph(arguments.labels)
    exchange = Counted(ranks)
    torch.manual_seed(0)
    head = ShardedHead(arguments.features, graph, exchange, coarse_features=arguments.coarse_features)
    photos = photos_of(arguments)
    found = timed(lambda: stepped(head, photos), arguments.rounds)
    exchange.bytes = 0
    stepped(head, photos)
    sent, exchange.bytes = exchange.bytes, 0
    mebibytes = status("VmHWM")
    if arguments.coarse_features in (None, arguments.features):
        head.prior().backward()
    return {**found, "bytes": float(sent), "prior": float(exchange.bytes), "mebibytes": mebibytes}


def softmax(ranks: Ranks, arguments: argparse.Namespace) -> dict[str, float]:
    """A step of a linear layer with cross-entropy; in several processes by torch's `loss_parallel`."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(arguments.features, arguments.labels)
    x, target = torch.randn(arguments.batch, arguments.features), torch.randint(arguments.labels, (arguments.batch,))
    if ranks.size == 1:

        def step() -> None:
            layer.zero_grad()
            cross_entropy(layer(x.clone().requires_grad_()), target).backward()

    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard
        from torch.distributed.tensor.parallel import ColwiseParallel, loss_parallel, parallelize_module

        mesh = init_device_mesh("cpu", (ranks.size,))
        parallelize_module(layer, mesh, ColwiseParallel(output_layouts=Shard(-1), use_local_output=False))

        def step() -> None:
            layer.zero_grad()
            with loss_parallel():
                cross_entropy(layer(x.clone().requires_grad_()), target).backward()

    return {**timed(step, arguments.rounds), "bytes": 0.0, "prior": 0.0, "mebibytes": status("VmHWM")}


def whole(ranks: Ranks, arguments: argparse.Namespace) -> dict[str, float]:
    """A step of an ordinary bipartite head."""
    torch.manual_seed(0)
    graph, coarse = made_graph(arguments.labels), arguments.coarse_features
    head = BipartiteHead(arguments.features, graph, coarse_features=coarse)
    photos = photos_of(arguments)
    return {
        **timed(lambda: stepped(head, photos), arguments.rounds),
        "bytes": 0.0,
        "prior": 0.0,
        "mebibytes": status("VmHWM"),
    }


STEPS = {"ours": ours, "softmax": softmax, "whole": whole}


def run_one(arguments: argparse.Namespace) -> None:
    """One step in this process, which may be one of several; the first one prints."""
    torch.set_num_threads(arguments.threads)
    with joined_ranks() as ranks:
        found = STEPS[arguments.step](ranks, arguments)
        if ranks.size > 1:
            all_found = ranks.gather(found)
            together = {name: max(one[name] for one in all_found) for name in found}
            found = {**together, "cpu": sum(one["cpu"] for one in all_found)}
        if ranks.first:
            print(json.dumps(found))
        if dist.is_initialized():
            ranks.wait()


def measured(arguments: argparse.Namespace, step: str, ranks: int, threads: int) -> dict[str, float]:
    """What a step costs in so many processes."""
    command = [sys.executable]
    if ranks > 1:
        command += ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-addr", "127.0.0.1"]
        command += ["--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    command += [__file__, "--step", step, "--threads", str(threads), *sys.argv[1:]]
    variables = {**os.environ, "OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": "lo"}
    # Torch's device mesh over gloo now and then aborts when it is taken down, after all has been measured.
    output = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, env=variables).stdout
    if not output.strip():
        raise SystemExit(f"{step} in {ranks} processes measured nothing; what it printed says why")
    return {name: float(value) for name, value in json.loads(output.strip().splitlines()[-1]).items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=100_000)
    parser.add_argument("--ranks", default="1,2", help="numbers of processes")
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--coarse-features", type=int, help="by default coarse labels take the same features")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step is not None:
        run_one(arguments)
        return
    sizes = [int(text) for text in arguments.ranks.split(",")]
    title = f"{arguments.labels:,} labels x {arguments.features} features, batch {arguments.batch}"
    table = Table(title=f"{title}, one thread per process", title_justify="left")
    table.add_column("step", no_wrap=True)
    table.add_column("processes", justify="right")
    for name in (
        "CPU seconds in all",
        "to one process",
        "wall seconds",
        "bytes exchanged",
        "by the prior",
        "MiB of a process",
    ):
        table.add_column(name, justify="right")
    for step, name in (("ours", "bipartite, sharded"), ("softmax", "softmax, loss_parallel")):
        base = measured(arguments, "whole" if step == "ours" else step, 1, 1)
        for size in sizes:
            found = measured(arguments, step, size, 1)
            counts = [f"{found[name]:,.0f}" if found[name] and size > 1 else "" for name in ("bytes", "prior")]
            cells = [f"{found['cpu']:.3f}", f"{found['cpu'] / base['cpu']:.2f}x", f"{found['seconds']:.3f}", *counts]
            table.add_row(name, str(size), *cells, f"{found['mebibytes']:,.0f}")
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
