"""A label graph as index tensors, laid out for speed.

All coarse scores of a batch stand side by side in one matrix, kind after kind: `columns[kind]` is the slice of a kind.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, cast

import torch
from torch import nn

from finegraph.graph import LabelGraph
from finegraph.inference.kind_tensors import KindTensors
from finegraph.inference.plan import Plan
from finegraph.inference.slots import Slots

_keys = itertools.count()
_by_key: weakref.WeakValueDictionary[int, GraphTensors] = weakref.WeakValueDictionary()


class GraphTensors(nn.Module):
    """All kinds of a graph as tensors; buffers that follow the module to its device and are not saved with it."""

    def __init__(self, graph: LabelGraph) -> None:
        super().__init__()
        self.graph = graph
        self.columns: dict[str, slice] = {}
        start = 0
        for name in graph.kinds:
            self.columns[name] = slice(start, start + len(graph.labels(name)))
            start = self.columns[name].stop
        self.coarse_count = start
        self.kinds = nn.ModuleList(KindTensors(graph.kind(name), self.columns[name]) for name in graph.kinds)
        self.position = {name: index for index, name in enumerate(graph.kinds)}
        self._take_key()
        self.plan = Plan(self.each(), len(graph))
        self.slots = Slots(graph, self.plan)

    def _take_key(self) -> None:
        self.key = next(_keys)
        _by_key[self.key] = self

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A key is good in one process, and for one object: a copy must not answer to the key of its original.
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._take_key()

    @staticmethod
    def by_key(key: int) -> GraphTensors:
        """The tensors with a key; an operator inside a compiled program can be handed a number but no object."""
        return _by_key[key]

    def kind(self, name: str) -> KindTensors:
        """The tensors of one kind."""
        self.graph.kind(name)  # an unknown name is reported by the graph
        return cast(KindTensors, self.kinds[self.position[name]])

    def each(self) -> list[KindTensors]:
        """The tensors of all kinds, in order."""
        return [cast(KindTensors, kind) for kind in self.kinds]

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphTensors:
        # Nothing in here is trained; a copied head shares the graph and gets fresh tensors on the same device.
        device = next((kind.group.device for kind in self.each()), torch.device("cpu"))
        return GraphTensors(self.graph).to(device)


def graph_tensors(graph: LabelGraph, device: torch.device) -> GraphTensors:
    """The tensors of a graph on a device, made once and kept as long as the graph."""
    key = ("GraphTensors", device)
    made = graph.derived.get(key)
    if not isinstance(made, GraphTensors):
        with torch.inference_mode(False):  # or they could never take part in training
            made = graph.derived[key] = GraphTensors(graph).to(device)
    return made
