"""Class means that are drawn from the model itself: effects of the labels of a graph, an own part, and noise."""

import numpy as np
import torch

from finegraph.graph import LabelGraph
from finegraph.graph.kind import Kind
from finegraph.model.fitting.class_means import Variances


def drawn(fine=60, features=40, photos=4, seed=0, names=None):
    """A graph with a kind of 6 labels and a binary one, counts, means of photos, and the variances they came from."""
    random = np.random.default_rng(seed)
    parents = {"dish": random.integers(0, 6, fine), "tofu": random.integers(0, 2, fine)}
    labels = {"dish": [f"d{number}" for number in range(6)], "tofu": ["no", "yes"]}
    graph = LabelGraph.from_parents(names or [f"item {number}" for number in range(fine)], parents, labels)
    variances = Variances(own=0.2, kinds={"dish": 1.0, "tofu": 0.5}, noise=0.5)
    means = random.normal(0, 1, features) + random.normal(0, variances.own**0.5, (fine, features))
    for kind, index in parents.items():
        effects = random.normal(0, variances.kinds[kind] ** 0.5, (len(labels[kind]), features))
        means = means + effects[index]
    means = means + random.normal(0, (variances.noise / photos) ** 0.5, (fine, features))
    return graph, torch.full((fine,), float(photos), dtype=torch.float64), torch.from_numpy(means), variances


def with_parents(graph, kind, changes):
    """The graph with other parents of some fine labels in a kind; -1 for an unknown one."""
    parents = graph.parents(kind).copy()
    for fine, label in changes.items():
        parents[fine] = label
    return graph.with_kind(Kind.from_parents(kind, graph.labels(kind), parents))
