"""The log probabilities of the labels of all kinds at once, for answers.

A graph may have dozens of kinds of two labels; one by one they would take more time in Python than in sums. Here the
lists of fine labels that belong together are put side by side over all kinds, by their length, and summed together. The
sums are those of `Segments`. There is no gradient; `Posterior.kind_log_probs` has one. Cost: linear in
the edges; samples are taken in parts where there are very many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.inference.numerics import Constants, shared_constants
from finegraph.inference.sums.graph_tensors import graph_tensors

MAX_TOGETHER = 1 << 22
"""How many numbers are gathered at once."""


class Marginals(NamedTuple):
    """The log probabilities of the fine labels, and of the labels of all kinds side by side."""

    fine: Float[Tensor, "batch fine"]
    coarse: Float[Tensor, "batch coarse"]


class GroupMembers(Constants):
    """The fine labels of each group of each kind.

    Attributes:
        tables: for each length, the fine labels (list, length) of the lists of this length or a little less.
        restore: where the lists of a kind are, one kind after the other.
        size: how many numbers all tables hold.
    """

    def __init__(self, graph: LabelGraph) -> None:
        super().__init__()
        kinds = graph_tensors(graph).kinds
        by_width: dict[int, list[Tensor]] = {}
        places: dict[int, list[Tensor]] = {}
        start = 0
        for kind in kinds:
            tables = kind.members.tables
            # `restore` has for each group its place among the rows of the tables; inverted, the group of each row.
            groups = torch.split(torch.argsort(kind.members.restore) + start, [len(table) for table in tables])
            for table, own in zip(tables, groups, strict=True):
                by_width.setdefault(table.shape[1], []).append(table)
                places.setdefault(table.shape[1], []).append(own)
            start += kind.group_count
        self.tables: list[Tensor] = [torch.cat(by_width[width]) for width in sorted(by_width)]
        found = [part for width in sorted(by_width) for part in places[width]]
        self.restore = torch.argsort(torch.cat(found)) if found else torch.zeros(0, dtype=torch.int64)
        self.size = max(1, sum(table.numel() for table in self.tables))

    def logsumexp(self, values: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch group"]:
        """The log of the sum of exponentials of each group, kind after kind; minus infinity for an empty one."""
        return self._over_members(values, torch.logsumexp)

    def amax(self, values: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch group"]:
        """The largest value of each group, kind after kind; minus infinity for an empty one."""
        return self._over_members(values, torch.amax)

    def _over_members(
        self, values: Float[Tensor, "batch fine"], reduce: Callable[[Tensor, int], Tensor]
    ) -> Float[Tensor, "batch group"]:
        if not self.tables:
            return values[:, :0]
        nothing = values.new_full((len(values), 1), -torch.inf)
        padded = torch.cat([values, nothing], dim=1)
        parts = []
        for table in self.tables:
            lists, width = table.shape
            if width == 0:
                parts.append(nothing.expand(-1, lists))
                continue
            gathered = padded.index_select(1, table.reshape(-1))
            parts.append(gathered if width == 1 else reduce(gathered.reshape(-1, lists, width), 2))
        return torch.cat(parts, dim=1).index_select(1, self.restore)


def coarse_log_probs(
    graph: LabelGraph, fine: Float[Tensor, "batch fine"], scores: Float[Tensor, "batch coarse"] | None
) -> Float[Tensor, "batch coarse"]:
    """The log probabilities of the labels of all kinds side by side.

    Args:
        graph: the label graph.
        fine: the log probabilities of the fine labels.
        scores: the coarse scores with the evidence, in the precision of `fine` or in a wider one; None for all 0.
    """
    members, kinds = shared_constants(GroupMembers, graph, fine.device), graph_tensors(graph, fine.device).kinds
    with torch.no_grad():
        step = max(1, MAX_TOGETHER // members.size)
        parts = [members.logsumexp(fine[start : start + step]) for start in range(0, max(1, len(fine)), step)]
        groups = torch.cat(parts) if len(parts) > 1 else parts[0]
        if all(kind.plain for kind in kinds):
            return groups
        own = torch.split(groups, [kind.group_count for kind in kinds], dim=1)
        columns = [
            kind.label_log_probs(part, None if scores is None else scores[:, kind.columns].to(fine.dtype))
            for kind, part in zip(kinds, own, strict=True)
        ]
        return torch.cat(columns, dim=1)
