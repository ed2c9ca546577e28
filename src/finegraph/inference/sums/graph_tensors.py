"""A label graph as index tensors, laid out for speed.

All coarse scores of a batch stand side by side in one matrix, kind after kind: `columns[kind]` is the slice of a kind.
The tensors of a graph are made once per device and kept as long as the graph, so several heads share them.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import torch
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.inference.constants import CPU, Constants, shared
from finegraph.inference.sums import by_weights as weights
from finegraph.inference.sums.by_weights import Weighted
from finegraph.inference.sums.kind_tensors import KindTensors
from finegraph.inference.sums.layout import Plan
from finegraph.inference.sums.target_table import Slots

_keys = itertools.count()
_by_key: weakref.WeakValueDictionary[int, GraphTensors] = weakref.WeakValueDictionary()


class Way(Constants):
    """One way to carry out all sums over a graph.

    Attributes:
        plan: the sums over kinds whose fine labels are in groups.
        slots: the target slots of these kinds.
        weighted: the other kinds, which go by products with all their weights; None where there are none.
        numbers: the number of each kind of the plan in the graph.
        places: the number of each kind of the plan, by name.
    """

    def __init__(self, graph: LabelGraph, kinds: list[KindTensors], weighted_names: set[str]) -> None:
        grouped = [kind for kind in kinds if kind.name not in weighted_names]
        coarse_count = kinds[-1].columns.stop if kinds else 0
        self.plan = Plan(grouped, len(graph), coarse_count)
        self.numbers = [number for number, kind in enumerate(kinds) if kind.name not in weighted_names]
        self.places = {kind.name: place for place, kind in enumerate(grouped)}
        starts = [kind.columns.start for kind in kinds]
        self.slots = Slots(
            len(graph),
            [graph.kind(kind.name) for kind in grouped],
            [kind.columns.start for kind in grouped],
        )
        self.weighted: Weighted | None = None
        if weighted_names:
            chosen = {number: graph.kind(kind.name) for number, kind in enumerate(kinds) if kind.name in weighted_names}
            self.weighted = Weighted(chosen, starts, len(graph))


class GraphTensors(Constants):
    """All kinds of a graph as tensors on one device.

    Attributes:
        exact: the sums that hold for all scores, and inside compiled programs.
        quick: the sums for scores that are not too far apart; None where there are no weighted kinds.
    """

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
        self.exact = Way(graph, self.kinds, set())
        by_weights = {kind.name for kind in self.kinds if weights.pays(kind)}
        self.quick = Way(graph, self.kinds, by_weights) if by_weights else None
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

    def way(self, coarse_scores: Tensor | None) -> Way:
        """How to carry out sums for coarse scores."""
        if self.quick is None or torch.compiler.is_compiling() or (coarse_scores is not None and coarse_scores.is_meta):
            return self.exact
        assert self.quick.weighted is not None
        return self.quick if self.quick.weighted.takes(coarse_scores) else self.exact

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
