"""What the cells of a label graph say of groups of fine labels, beside looks.

Fine labels of one dish mostly have the same ingredients, and rarely are from one restaurant twice:

    binary kinds     the labels of the members of a group are drawn with its own frequencies, which scatter around those
                     of all fine labels (Beta-Bernoulli, with one concentration for all kinds, fitted to the groups)
    crossing kinds   kinds of several labels that hardly repeat in groups: each repetition of a label in a group has a
                     small factor

Whether a kind crosses is decided by what it explains: groups are found with it and without it, and it crosses unless
what the other evidence loses clearly outweighs what labels that do not repeat are more likely. Cost: labels, for each
pair of groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.graph import LabelGraph

_REPEATED = 0.02
"""The factor of each repetition of a label of a crossing kind in a group."""
_CONCENTRATIONS = (math.inf, *np.geomspace(0.05, 50.0, 25).tolist())


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupCells:
    """The cells of items, which are fine labels or groups of these: how many have each label.

    Attributes:
        binary: the binary kinds side by side: how many members of an item have no, and yes.
        crossing: the labels of crossing kinds side by side.
        shares: how frequent no and yes are among all fine labels.
        concentration: of the frequencies of groups around these; infinite if cells say nothing of groups.
    """

    binary: Float[Tensor, "item kind 2"]
    crossing: Float[Tensor, "item coarse"]
    shares: Float[Tensor, "kind 2"]
    concentration: float = 1.0

    @classmethod
    def of(cls, graph: LabelGraph, rows: Int[NDArray[np.int64], " row"], crossing: Sequence[str] = ()) -> GroupCells:
        """The cells of some fine labels of a graph; unknown ones count nothing.

        Args:
            graph: the label graph.
            rows: the fine labels.
            crossing: the kinds that cross the groups.
        """
        binary = [graph.kind(name).matrix()[rows] for name in graph.kinds if graph.kind(name).binary]
        cells = torch.from_numpy(np.stack(binary, axis=1)) if binary else torch.zeros(len(rows), 0, 2).double()
        across = [torch.from_numpy(graph.kind(name).matrix()[rows]) for name in crossing]
        shares = (cells.sum(dim=0) + 0.5) / (cells.sum(dim=(0, 2)) + 1.0)[:, None]
        none = torch.zeros(len(rows), 0, dtype=torch.float64)
        return cls(binary=cells, crossing=torch.cat([none, *across], dim=1), shares=shares)

    @property
    def has_evidence(self) -> bool:
        """Whether there is anything to say."""
        return self.binary.shape[1] + self.crossing.shape[1] > 0

    def joined(self, groups: Int[NDArray[np.int64], " item"]) -> GroupCells:
        """The cells of groups of items."""
        index, count = torch.from_numpy(groups), int(groups.max()) + 1

        def summed(values: Tensor) -> Tensor:
            return values.new_zeros(count, *values.shape[1:]).index_add_(0, index, values)

        return replace(self, binary=summed(self.binary), crossing=summed(self.crossing))

    def without_crossing(self) -> GroupCells:
        """The same for larger groups, in which labels repeat."""
        return replace(self, crossing=self.crossing[:, :0])

    def log_likelihood(
        self, binary: Float[Tensor, "*batch kind 2"], crossing: Float[Tensor, "*batch coarse"]
    ) -> Float[Tensor, "*batch"]:
        """How likely the cells of groups are, relative to cells that have nothing to do with groups.

        Args:
            binary: the counts of binary kinds, any shape before (kind, 2).
            crossing: those of the labels of crossing kinds, of the same shape before (coarse,).
        """
        total = (crossing - 1.0).clamp_min(0.0).sum(dim=-1) * math.log(_REPEATED)
        if math.isinf(self.concentration) or not self.binary.shape[1]:
            return total
        for kind in range(self.binary.shape[1]):  # one after the other: all pairs of groups are large
            own, prior = binary[..., kind, :], self.concentration * self.shares[kind]
            likely = torch.lgamma(prior + own) - torch.lgamma(prior) - own * self.shares[kind].log()
            scale = torch.lgamma(own.sum(dim=-1) + self.concentration) - math.lgamma(self.concentration)
            total = total + likely.sum(dim=-1) - scale
        return total

    def fitted(self, groups: Int[NDArray[np.int64], " item"]) -> GroupCells:
        """The same with the concentration that makes the cells of some groups most likely."""
        of_groups = self.joined(groups)
        tried = [replace(self, concentration=value) for value in _CONCENTRATIONS]
        values = [float(one.log_likelihood(of_groups.binary, of_groups.crossing).sum()) for one in tried]
        return tried[int(np.argmax(values))]


def crossing_candidates(graph: LabelGraph) -> tuple[str, ...]:
    """The kinds that may cross groups: those of three labels and more, one for each fine label."""
    kinds = (graph.kind(name) for name in graph.kinds)
    return tuple(kind.name for kind in kinds if not kind.binary and len(kind.labels) > 2 and kind.one_parent)


def crossing_gain(
    graph: LabelGraph, kind: str, rows: Int[NDArray[np.int64], " row"], groups: Int[NDArray[np.int64], " row"]
) -> float:
    """How much more likely the labels of a kind are if they do not repeat in groups than if groups do not matter.

    Args:
        graph: the label graph.
        kind: the kind.
        rows: fine labels.
        groups: their groups.
    """
    own = graph.kind(kind).parents[rows]
    shares = np.bincount(own[own >= 0], minlength=len(graph.labels(kind))) / max(int((own >= 0).sum()), 1)
    total = 0.0
    for group in range(int(groups.max()) + 1):
        used: set[int] = set()
        for label in own[(groups == group) & (own >= 0)].tolist():
            if label not in used:  # repetitions have their factor
                total -= math.log(max(1.0 - float(shares[list(used)].sum()), 1e-3))
            used.add(label)
    return total
