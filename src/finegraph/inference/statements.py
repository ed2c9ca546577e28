"""The sure answer: the most specific statement whose probability is at least 1 - risk.

Statements are "it is this fine label" and "it has this label of a kind". The more specific one is that with which fewer
fine labels are compatible, of those that evidence leaves; among equals the more probable one.
"""

from __future__ import annotations

from bisect import bisect_right

import torch

from finegraph.graph import LabelGraph
from finegraph.inference.answers import Statement
from finegraph.inference.marginals import Marginals
from finegraph.inference.sums.graph_tensors import GraphTensors


def sure_statements(
    tensors: GraphTensors, marginals: Marginals, risk: float, *, evidence: bool
) -> list[Statement | None]:
    """One statement per sample, or None where nothing is sure.

    Args:
        tensors: those of the graph.
        marginals: the log probabilities of all labels.
        risk: how often a statement may be wrong.
        evidence: whether there is any; it rules fine labels out, in each sample others.
    """
    graph, (fine, coarse) = tensors.graph, marginals
    probs = torch.cat([fine, coarse], dim=1).double().exp()
    possible = ~fine.isneginf() if evidence else None
    own = torch.ones(1, len(graph), dtype=torch.int64, device=probs.device)
    sizes = [kind.compatible(possible) for kind in tensors.each()]
    rows = 1 if possible is None else len(probs)
    compatible = torch.cat([own.expand(rows, -1), *sizes], dim=1).expand(len(probs), -1)
    rounding = rounding_of(fine.dtype)
    sure = probs >= 1.0 - risk - rounding
    open_labels = torch.where(sure, compatible, torch.iinfo(torch.int64).max)
    fewest = open_labels.amin(dim=1, keepdim=True)
    candidates = torch.where(sure & (open_labels == fewest), probs, -1.0)
    best = (candidates >= candidates.amax(dim=1, keepdim=True) - rounding).int().argmax(dim=1, keepdim=True)
    chosen = (values.gather(1, best).squeeze(1).tolist() for values in (sure, probs, compatible))
    return [
        Statement(*_named(graph, tensors, index), min(probability, 1.0), count) if is_sure else None
        for index, is_sure, probability, count in zip(best.squeeze(1).tolist(), *chosen, strict=True)
    ]


def rounding_of(dtype: torch.dtype) -> float:
    """By how much a probability may miss 1 - risk and still be sure.

    Rounding must decide neither whether a certain statement is certain nor which of two equal ones is taken.
    """
    return 8 * torch.finfo(dtype).eps


def _named(graph: LabelGraph, tensors: GraphTensors, index: int) -> tuple[str | None, str]:
    """The kind and the label of a column: first the fine labels, then those of each kind."""
    if index < len(graph):
        return None, graph.fine[index]
    kinds, column = tensors.each(), index - len(graph)
    kind = kinds[bisect_right(kinds, column, key=lambda one: one.columns.start) - 1]
    return kind.name, graph.labels(kind.name)[column - kind.columns.start]
