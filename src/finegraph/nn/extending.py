"""Weights for fine labels that a head was not trained with.

Fine and coarse weights together give each fine label its joint weight, W_i + sum_j W^j[parent_j(i)]. Only these are
identifiable, so the minimum-norm split of `inference/minimum_norm.py` derives the contribution of each label from them:
a constant, a part per fine label, and a part per coarse label. A new fine label gets the constant and the parts of its
parents, and no part of its own. This is the best linear estimate from related labels. Labels with known names keep
their weights.

The estimate is a weighted sum of the joint weights of all known labels, with the same weights for every feature. So it
takes one linear solve per new label or, if there are more new labels than features, one split per feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.errors import GraphMismatchError
from finegraph.graph import LabelGraph
from finegraph.graph.kind import IntArray
from finegraph.inference.minimum_norm import MinimumNorm, links_of

_MAX_TOGETHER = 1 << 22
"""About how many values are held at a time."""


class ExtendedWeights(NamedTuple):
    """The weights of a larger graph: of its fine labels, and of its coarse labels kind after kind."""

    fine: Float[Tensor, "fine feature"]
    coarse: Float[Tensor, "coarse feature"]


class Extension:
    """Maps weights for a graph to weights for a larger graph."""

    def __init__(self, old: LabelGraph, new: LabelGraph) -> None:
        """Compare two graphs.

        Args:
            old: the graph that weights were made for.
            new: a graph with the same kinds and numbers and at least the same fine labels.

        Raises:
            GraphMismatchError: the new graph does not extend the old one.
        """
        _check(old, new)
        self.old, self.new = old, new
        self._known = _positions(old.fine, new.fine)
        self._labels = {kind: _positions(old.labels(kind), new.labels(kind)) for kind in old.kinds}
        is_new = np.ones(len(new), dtype=bool)
        is_new[self._known] = False
        self._new = np.flatnonzero(is_new)
        self._links = [links_of(old, kind) for kind in old.kinds]
        self._solver = MinimumNorm(self._links, len(old)) if len(self._new) else None

    def weights(
        self, fine: Float[Tensor, "fine _"], coarse: Float[Tensor, "coarse _"] | None, *, shared: bool = True
    ) -> ExtendedWeights:
        """Weights for the larger graph.

        Args:
            fine: (fine, feature) weights of the old fine labels.
            coarse: (coarse, feature) weights of the old coarse labels; None for a softmax head.
            shared: whether fine and coarse weights act on the same features.
        """
        fine, coarse = fine.detach().cpu(), None if coarse is None else coarse.detach().cpu()
        new_coarse = fine[:0] if coarse is None else self._grown_coarse(coarse)
        blocks: list[Tensor] | None = None
        if coarse is not None and shared:
            blocks = list(torch.split(coarse.double(), [link.count for link in self._links]))
        weights = fine.new_zeros(len(self.new), fine.shape[1])
        weights[torch.from_numpy(self._known)] = fine
        if self._solver is not None:
            by_label = len(self._new) <= fine.shape[1]
            estimate = (self._by_label if by_label else self._by_feature)(self._solver, fine, blocks)
            if blocks is not None:
                estimate -= self._parents_of(self._new, list(torch.split(new_coarse.double(), self._new_counts)))
            weights[torch.from_numpy(self._new)] = estimate.to(fine.dtype)
        return ExtendedWeights(weights, new_coarse)

    @property
    def _new_counts(self) -> list[int]:
        return [len(self.new.labels(kind)) for kind in self.new.kinds]

    def _by_label(self, solver: MinimumNorm, fine: Tensor, blocks: Sequence[Tensor] | None) -> Tensor:
        """The joint weights of the new fine labels, by one linear solve each."""
        step, estimates = max(1, _MAX_TOGETHER // len(fine)), []
        for start in range(0, len(self._new), step):
            rows = self._in_old_labels(self._new[start : start + step])
            common = torch.zeros(len(self._new[start : start + step]), len(fine), dtype=torch.float64)
            for link, row in zip(self._links, rows, strict=True):
                common += link.to_fine(row, len(fine))
            share = solver.weights_of(common)
            estimate = _product(share, fine)
            for link, block in zip(self._links, blocks or (), strict=False):
                estimate += link.to_coarse(share) @ block
            estimates.append(estimate)
        return torch.cat(estimates)

    def _by_feature(self, solver: MinimumNorm, fine: Tensor, blocks: Sequence[Tensor] | None) -> Tensor:
        """The same by one split per feature."""
        step, estimates = max(1, _MAX_TOGETHER // len(fine)), []
        for start in range(0, fine.shape[1], step):
            features = slice(start, start + step)
            joint = fine[:, features].t().double()
            for link, block in zip(self._links, blocks or (), strict=False):
                joint = joint + link.to_fine(block[:, features].t(), len(fine))
            split = solver.split(joint)
            parts = [self._grown(kind, part.t()) for kind, part in zip(self.old.kinds, split.coarse, strict=True)]
            estimates.append(split.constant.t() + self._parents_of(self._new, parts))
        return torch.cat(estimates, dim=1)

    def _in_old_labels(self, fine: Int[IntArray, " sample"]) -> list[Float[Tensor, "sample _"]]:
        """For each kind, the weights of the parents of new fine labels, among the labels of the old graph."""
        rows = []
        for kind in self.old.kinds:
            place = np.full(len(self.new.labels(kind)), -1)
            place[self._labels[kind]] = np.arange(len(self._labels[kind]))
            row, label, weight = self.new.kind(kind).rows(fine).edges
            old = place[label] >= 0
            matrix = torch.zeros(len(fine), len(self._labels[kind]), dtype=torch.float64)
            index = torch.from_numpy(row[old]), torch.from_numpy(place[label[old]])
            rows.append(matrix.index_put_(index, torch.from_numpy(weight[old])))
        return rows

    def _parents_of(
        self, fine: Int[IntArray, " sample"], blocks: Sequence[Tensor]
    ) -> Float[Tensor, "sample _"] | float:
        """The weighted sum of the parents' rows of some fine labels of the new graph, over all kinds."""
        total: Tensor | float = 0.0
        for kind, block in zip(self.new.kinds, blocks, strict=True):
            row, label, weight = (torch.tensor(array) for array in self.new.kind(kind).rows(fine).edges)
            parts = block.index_select(0, label) * weight.unsqueeze(1)
            total = total + block.new_zeros(len(fine), block.shape[1]).index_add_(0, row, parts)
        return total

    def _grown(self, kind: str, block: Float[Tensor, "label _"]) -> Float[Tensor, "new _"]:
        """The rows of a kind's labels in the new graph; 0 for new ones."""
        grown = block.new_zeros(len(self.new.labels(kind)), block.shape[1])
        grown[torch.from_numpy(self._labels[kind])] = block
        return grown

    def _grown_coarse(self, coarse: Float[Tensor, "coarse _"]) -> Float[Tensor, "new _"]:
        """The coarse weights for the new graph; a new coarse label starts at the mean of its kind."""
        blocks = []
        for kind, block in zip(self.old.kinds, torch.split(coarse, [link.count for link in self._links]), strict=True):
            mean = block.double().mean(dim=0, keepdim=True).to(coarse.dtype)
            grown = mean.repeat(len(self.new.labels(kind)), 1)
            grown[torch.from_numpy(self._labels[kind])] = block
            blocks.append(grown)
        return torch.cat([coarse[:0], *blocks])


def _positions(names: tuple[str, ...], among: tuple[str, ...]) -> Int[IntArray, " name"]:
    """The position of each name in `among`, which must contain them all."""
    if among[: len(names)] == names:
        return np.arange(len(names))
    place = {name: number for number, name in enumerate(among)}
    return np.array([place[name] for name in names], dtype=np.int64)


def _product(share: Float[Tensor, "row fine"], weights: Float[Tensor, "fine _"]) -> Float[Tensor, "row _"]:
    """A matrix product in float64 that needs no second copy of the weights."""
    total = share.new_zeros(len(share), weights.shape[1])
    step = max(1, _MAX_TOGETHER // max(weights.shape[1], 1))
    for start in range(0, len(weights), step):
        total += share[:, start : start + step] @ weights[start : start + step].double()
    return total


def _measures(graph: LabelGraph) -> list[tuple[str, str, str]]:
    """The name, the scale and the unit of each number."""
    numbers = [graph.number(name) for name in graph.numbers]
    return [(number.name, number.scale, number.unit) for number in numbers]


def _check(old: LabelGraph, new: LabelGraph) -> None:
    """Raise if a graph does not extend another."""
    if old.kinds != new.kinds:
        raise GraphMismatchError(f"extend needs the same kinds in the same order, {old.kinds}, got {new.kinds}")
    if (numbers := _measures(old)) != (others := _measures(new)):
        raise GraphMismatchError(f"extend needs the same numbers in the same order, {numbers}, got {others}")
    known = set(new.fine)
    if missing := [label for label in old.fine if label not in known]:
        raise GraphMismatchError(
            f"extend adds fine labels and cannot drop any; {len(missing)} are missing in the new graph, "
            f"the first is {missing[0]!r}"
        )
    for kind in old.kinds:
        labels = set(new.labels(kind))
        if lost := [label for label in old.labels(kind) if label not in labels]:
            raise GraphMismatchError(f"extend cannot drop labels; kind {kind!r} has lost {lost[0]!r}")
