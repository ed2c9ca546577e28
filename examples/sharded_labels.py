"""Train a head of very many labels whose rows are sharded among processes, and stop or continue at any moment.

    torchrun --nproc-per-node 2 examples/sharded_labels.py --folder runs/shards
    torchrun --nproc-per-node 3 examples/sharded_labels.py --folder runs/shards --steps 60    continues with three
    torchrun --nproc-per-node 4 examples/sharded_labels.py --folder runs/shards --steps 90 --groups 2    and as a grid

Each process looks at its share of the photos; their features go to all processes, each of which holds the rows of some
labels. In a grid each group holds all labels and takes photos of its own. Photos are made up here: put your network in
the place of `network` and your photos in that of `batch_of`. For several machines give torchrun --nnodes and --rdzv-
endpoint, and let --folder be on a disk that all of them see.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

import finegraph as fg
from finegraph.nn.sharded_head import ShardedHead
from finegraph.training.checkpoints.shard_files import ShardFolder
from finegraph.training.distributed import joined_ranks

FEATURES, BATCH = 32, 64

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--folder", type=Path, default=Path("runs/shards"))
parser.add_argument("--labels", type=int, default=1000)
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
parser.add_argument("--groups", type=int, default=1, help="groups of processes that hold all labels each")
parser.add_argument("--double", action="store_true", help="float64")
arguments = parser.parse_args()
torch.set_default_dtype(torch.float64 if arguments.double else torch.float32)

count, rng = arguments.labels, np.random.default_rng(0)
dishes, places = max(count // 5, 2), max(count // 100, 2)
graph = fg.LabelGraph.from_parents(
    [f"item {i}" for i in range(count)], {"dish": np.arange(count) % dishes, "place": rng.integers(0, places, count)}
)
centres = torch.from_numpy(rng.normal(size=(dishes, FEATURES)))


def batch_of(step, part):
    """Made-up photos of a step, of which this process looks at some: what the network gets, and the labels of all."""
    chance = np.random.default_rng([1, step])
    target = torch.from_numpy(chance.integers(0, count, BATCH))
    photos = centres[target % dishes] + 0.3 * torch.from_numpy(chance.normal(size=(BATCH, FEATURES)))
    return photos[part].to(torch.get_default_dtype()), target


with joined_ranks() as ranks:
    torch.manual_seed(0)
    network = torch.nn.Linear(FEATURES, FEATURES)
    group, others = ranks.grid(arguments.groups)  # those that share labels, and those that hold the same labels
    head = ShardedHead(FEATURES, graph, group, groups=others)
    optimizer = torch.optim.SGD([*network.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
    layers = {"fine": head.fine, "coarse": head.coarse, "whole": network}

    def tensors(layer):
        """The weights of a layer, and the momentum of each."""
        found = {}
        for name, weight in layer.named_parameters():
            state = optimizer.state[weight]
            state.setdefault("momentum_buffer", torch.zeros_like(weight))
            found |= {name: weight.detach(), f"momentum.{name}": state["momentum_buffer"]}
        return found

    checkpoints = ShardFolder(arguments.folder, graph, head.shard, ranks, writes=others.first)
    start, kept = 0, checkpoints.last()
    if kept is not None:
        start = kept.step
        for part, layer in layers.items():
            for name, values in tensors(layer).items():
                values.copy_(getattr(kept, part)[name])
    share, shared = (slice(one.rank * BATCH // one.size, (one.rank + 1) * BATCH // one.size) for one in (ranks, others))
    for step in range(start, arguments.steps):
        photos, target = batch_of(step, share)
        features = group.all_rows(network(photos))  # those of the group, in all of its processes
        loss = head.loss(features, target[shared], kind_weights=0.5, reduction="sum") / BATCH
        loss = loss + 1e-4 * head.prior() / others.size
        optimizer.zero_grad()
        loss.backward()
        ranks.sum([weight.grad for weight in network.parameters()])  # each has the gradient of its own photos
        head.sum_gradients()
        optimizer.step()
        others.sum([loss := loss.detach().reshape(1)])
        if ranks.first:
            print(f"step {step + 1}: loss {loss.item():.12g}", flush=True)
        if (step + 1) % arguments.every == 0 or step + 1 == arguments.steps:
            parts = {part: tensors(layer) for part, layer in layers.items()}
            checkpoints.save(step + 1, **parts)
    photos, target = batch_of(arguments.steps, slice(None))
    best = head.top(network(photos).detach(), 1)
    if ranks.first:
        print(f"right: {(best.label[:, 0] % dishes == target % dishes).double().mean():.2f} of new photos by dish")
