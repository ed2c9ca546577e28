"""A label graph as index tensors, laid out for speed.

All coarse scores of a batch stand side by side in one matrix, kind after kind: `columns[kind]` is the slice of a kind.
The tensors of a graph are made once per device and kept as long as the graph, so several heads share them.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import torch

from finegraph.graph import LabelGraph
from finegraph.inference.constants import CPU, Constants, shared
from finegraph.inference.kind_tensors import KindTensors
from finegraph.inference.plan import Plan
from finegraph.inference.slots import Slots

_keys = itertools.count()
_by_key: weakref.WeakValueDictionary[int, GraphTensors] = weakref.WeakValueDictionary()


class GraphTensors(Constants):
    """All kinds of a graph as tensors on one device."""

    def __init__(self, graph: LabelGraph) -> None:
        super().__init__()
        self.graph, self.device = graph, CPU
        self.columns: dict[str, slice] = {}
        start = 0
        for name in graph.kinds:
            self.columns[name] = slice(start, start + len(graph.labels(name)))
            start = self.columns[name].stop
        self.coarse_count = start
        self.kinds = [KindTensors(graph.kind(name), self.columns[name]) for name in graph.kinds]
        self.position = {name: index for index, name in enumerate(graph.kinds)}
        self.plan = Plan(self.kinds, len(graph))
        self.slots = Slots(graph, self.plan.group_count)
        self._take_key()

    def _take_key(self) -> None:
        self.key = next(_keys)
        _by_key[self.key] = self

    def on(self, device: torch.device) -> GraphTensors:
        """The same on a device, with a key of its own."""
        twin = super().on(device)
        twin.device = device
        twin._take_key()
        return twin

    @staticmethod
    def by_key(key: int) -> GraphTensors:
        """The tensors with a key; an operator inside a compiled program can be handed a number but no object."""
        return _by_key[key]

    def kind(self, name: str) -> KindTensors:
        """The tensors of one kind."""
        self.graph.kind(name)  # an unknown name is reported by the graph
        return self.kinds[self.position[name]]

    def each(self) -> list[KindTensors]:
        """The tensors of all kinds, in order."""
        return self.kinds

    def __reduce__(self) -> tuple[Any, ...]:
        # A key is good in one process only; the graph says all the rest.
        return graph_tensors, (self.graph, self.device)


def graph_tensors(graph: LabelGraph, device: torch.device = CPU) -> GraphTensors:
    """The tensors of a graph on a device, made once and kept as long as the graph."""
    return shared(GraphTensors, graph, device)
