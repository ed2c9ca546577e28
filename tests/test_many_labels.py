"""Memory with many labels: at most some times that of the weights, so nothing takes labels x labels unnoticed.

Counted are the bytes of all tensors that exist at a time, and of Python's and NumPy's objects; not what an operation
of torch needs inside. The bounds are half as large again as what was found, the same for each number of labels.
"""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from finegraph.evaluation import Collector
from finegraph.graph import LabelGraph
from finegraph.graph.number import Number
from finegraph.nn import BipartiteHead

FEATURES, BATCH = 64, 8
BOUNDS = {"step": 4.5, "top": 3.0, "top of a kind": 2.5, "answer": 2.5, "explain": 6.5, "collector": 4.0}
"""The most bytes for each byte of the weights; labels x labels would be 80 and 400 for each."""


def parts_of(tensor):
    """The dense tensors that a tensor consists of."""
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    by_rows = tensor.layout == torch.sparse_csr
    places = (tensor.crow_indices, tensor.col_indices) if by_rows else (tensor.ccol_indices, tensor.row_indices)
    return [*(place() for place in places), tensor.values()]


class TensorBytes(TorchDispatchMode):
    """Counts the bytes of the tensors that operations make while it is on, and the most at a time."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self._seen = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(found):
            if isinstance(leaf, torch.Tensor):
                for part in parts_of(leaf):
                    self._count(part.untyped_storage())
        return found

    def _count(self, storage):
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen:
            return

        def gone(_):
            del self._seen[key]
            self.now -= size

        self._seen[key] = weakref.ref(storage, gone)
        self.now += size
        self.peak = max(self.peak, self.now)


def peak_bytes(act):
    """The most bytes that something takes beside what was there before."""
    gc.collect()
    tracemalloc.start()
    try:
        with TensorBytes() as tensors:
            act()
        return tensors.peak + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def graph_of(labels, *, with_number):
    """Labels in kinds of each size: a few, their root, a fifth of them, and nearly as many as labels."""
    random = np.random.default_rng(0)
    names = [f"item {number}" for number in range(labels)]
    sizes = {"heat": 12, "family": int(labels**0.5), "genus": labels // 5, "dish": labels * 9 // 10}
    parents = {}
    for kind, size in sizes.items():
        parents[kind] = np.concatenate([np.arange(size), random.integers(0, size, labels - size)])
    graph = LabelGraph.from_parents(names, parents)
    return graph.with_number(Number.from_values("price", random.integers(1, 500, labels))) if with_number else graph


def shares_of(graph):
    """The peak of each operation, in bytes for each byte of the weights of a head."""
    torch.manual_seed(0)
    head = BipartiteHead(FEATURES, graph)
    weights = sum(weight.numel() * weight.element_size() for weight in head.parameters())
    features, target = torch.randn(BATCH, FEATURES), torch.arange(BATCH)
    first, second = graph.fine[0], graph.fine[-1]
    with torch.no_grad():
        posterior = head(features)

    def collect():
        collector = Collector(graph)
        with torch.no_grad():
            collector.add(head(features), target)
        collector.result()

    acts = {
        "step": lambda: head.loss(features, target).backward(),
        "top": lambda: head(features).top(5),
        "top of a kind": lambda: head(features).top(5, "dish"),
        "answer": lambda: posterior.answer(),
        "explain": lambda: posterior.explain(first, second),
        "collector": collect,
    }
    return {name: peak_bytes(act) / weights for name, act in acts.items()}


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("with_number", [False, True], ids=["labels", "labels and a number"])
@pytest.mark.parametrize("labels", [20_000, 100_000])
def test_memory_follows_the_weights(labels, with_number):
    shares_of(graph_of(100, with_number=with_number))  # what is imported and made once does not count
    shares = shares_of(graph_of(labels, with_number=with_number))
    assert {name: share for name, share in shares.items() if share > BOUNDS[name]} == {}, shares


@pytest.mark.slow
def test_what_is_held_at_a_time_is_counted():
    def one_after_another():
        for _ in range(3):
            torch.ones(1000, 1000).sum()

    def together():
        kept = [torch.ones(1000, 1000), np.ones((1000, 1000))]
        return kept[0].add_(1.0)

    peak_bytes(together)  # what torch imports when it is first used so does not count
    assert 4e6 <= peak_bytes(one_after_another) < 6e6
    assert 12e6 <= peak_bytes(together) < 14e6
