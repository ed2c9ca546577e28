"""Which coarse labels the loss looks at, for each fine label: its target slots.

A kind gives one slot per parent that a fine label can have, so one in the paper's case. `place[y]` says where the
labels of the slots of fine label y stand and `weight[y]` are the weights of the links, 0 where there is no such parent.
Slots of dense and of mixed kinds come first, with places among the probabilities that the loss computes of those kinds;
slots of plain listed kinds come last, one each, with places among the labels of the kind.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from finegraph.graph import Kind, LabelGraph
from finegraph.inference.constants import Constants
from finegraph.inference.plan import Plan


class Slots(Constants):
    """The target slots of all fine labels.

    Attributes:
        place: (fine, slot) where the label of each slot stands.
        weight: (fine, slot) the weight of its link, 0 for an empty slot.
        kind: (slot) the number of the kind of each slot.
        of_kind: per kind, which slots are its own.
        matrix_count: how many slots come first; the others belong to plain listed kinds.
        full: whether every slot of every fine label has weight 1.
    """

    place: Tensor
    weight: Tensor
    kind: Tensor

    def __init__(self, graph: LabelGraph, plan: Plan) -> None:
        super().__init__()
        kinds = [graph.kind(name) for name in graph.kinds]
        starts = np.concatenate([[0], np.cumsum([len(kind.labels) for kind in kinds])]).astype(np.int64)
        last = [index for index in plan.listed_kinds if plan.listed_plain(index)]
        order = [index for index in range(len(kinds)) if index not in last] + last
        places, weights = [np.zeros((len(graph), 0), np.int64)], [np.zeros((len(graph), 0))]
        owner: list[int] = []
        place = plan.marginal_place.numpy()
        self.of_kind: dict[str, slice] = {}
        for index in order:
            column, weight = _slots_of(kinds[index])
            self.of_kind[kinds[index].name] = slice(len(owner), len(owner) + column.shape[1])
            places.append(column if index in last else place[column + starts[index]])
            weights.append(weight)
            owner += [index] * column.shape[1]
        self.first_column = [int(starts[index]) for index in owner]
        self.matrix_count = len(owner) - len(last)
        weight = np.concatenate(weights, axis=1)
        self.full = bool((weight == 1).all())
        self.keep({"place": np.concatenate(places, axis=1), "weight": weight, "kind": np.array(owner, np.int64)})

    def place_of(self, name: str, label: Tensor, plan: Plan) -> Tensor:
        """The places of labels of a kind."""
        slot = self.of_kind[name].start
        return label if slot >= self.matrix_count else plan.marginal_place[self.first_column[slot] + label]

    def columns_at(self, slot: int, place: Tensor, plan: Plan) -> Tensor:
        """The coarse columns of places in a slot."""
        return self.first_column[slot] + place if slot >= self.matrix_count else plan.place_column[place]


def _slots_of(kind: Kind) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The labels and weights of the slots of one kind, both (fine, slots of the kind)."""
    width = max(int(kind.row_sizes.max()), 1)
    column = np.zeros((kind.fine_count, width), np.int64)
    weight = np.zeros((kind.fine_count, width))
    fine, coarse, link = kind.edges
    slot = np.arange(len(fine)) - np.repeat(kind.starts[:-1], kind.row_sizes)
    column[fine, slot] = coarse
    weight[fine, slot] = link
    return column, weight
