"""Weights for fine labels that a head was not trained with.

Fine and coarse weights together give each fine label its joint weight, W_i + sum_j W^j[parent_j(i)]. Only these are
identifiable, so the minimum-norm split of `inference/explanations.py` reads what a kind's label contributes off them: a
constant, a part per fine label, and a part per coarse label. A new fine label gets the constant and the parts of its
parents, and no part of its own: the best linear guess from its relatives. Labels known by name keep their weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.errors import GraphMismatchError
from finegraph.graph import LabelGraph
from finegraph.inference.explanations import Links, links_of, minimum_norm_split


class ExtendedWeights(NamedTuple):
    """The weights of a larger graph: of its fine labels, and of its coarse labels kind after kind."""

    fine: Float[Tensor, "fine feature"]
    coarse: Float[Tensor, "coarse feature"]


def extended_weights(
    old: LabelGraph,
    new: LabelGraph,
    fine: Float[Tensor, "fine _"],
    coarse: Float[Tensor, "coarse _"] | None,
    *,
    shared: bool = True,
) -> ExtendedWeights:
    """Weights for the graph `new` from those of `old`.

    Args:
        old: the graph that the weights were made for.
        new: a graph with the same kinds and at least the same fine labels.
        fine: (fine, feature) weights of the old fine labels.
        coarse: (coarse, feature) weights of the old coarse labels; None for a softmax head.
        shared: whether fine and coarse weights act on the same features.
    """
    _check(old, new)
    known = torch.tensor([new.fine_index(label) for label in old.fine])
    is_new = torch.ones(len(new), dtype=torch.bool)
    is_new[known] = False
    start = fine.detach().double().cpu()
    new_coarse = (
        torch.zeros(0, fine.shape[1]) if coarse is None else _grown_coarse(old, new, coarse.detach().double().cpu())
    )
    joint = start
    new_links = [links_of(new, kind) for kind in new.kinds]
    coarse_sum = torch.zeros(len(new), fine.shape[1], dtype=torch.float64)
    if coarse is not None and shared:
        coarse_sum = _sum_of_parents(new, new_links, new_coarse)
        old_links = [links_of(old, kind) for kind in old.kinds]
        joint = start + _sum_of_parents(old, old_links, coarse.detach().double().cpu())
    guess = _guess(old, new, new_links, joint) - coarse_sum
    weights = torch.zeros(len(new), fine.shape[1], dtype=torch.float64)
    weights[known] = start
    weights[is_new] = guess[is_new]
    return ExtendedWeights(weights.to(fine), new_coarse.to(fine))


def _check(old: LabelGraph, new: LabelGraph) -> None:
    """Raise if a graph does not extend another."""
    if old.kinds != new.kinds:
        raise GraphMismatchError(f"extend needs the same kinds in the same order, {old.kinds}, got {new.kinds}")
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


def _grown_coarse(old: LabelGraph, new: LabelGraph, coarse: Tensor) -> Tensor:
    """The coarse weights for the new graph; a new coarse label starts at the mean of its kind."""
    blocks, start = [], 0
    for kind in old.kinds:
        block = coarse[start : start + len(old.labels(kind))]
        start += len(block)
        grown = block.mean(dim=0, keepdim=True).repeat(len(new.labels(kind)), 1)
        grown[[new.label_index(kind, label) for label in old.labels(kind)]] = block
        blocks.append(grown)
    return torch.cat([coarse[:0], *blocks])


def _sum_of_parents(graph: LabelGraph, links: list[Links], coarse: Tensor) -> Tensor:
    """For each fine label the sum of its parents' rows."""
    total, start = torch.zeros(len(graph), coarse.shape[1], dtype=coarse.dtype), 0
    for link in links:
        total += link.to_fine(coarse[start : start + link.count].t(), len(graph)).t()
        start += link.count
    return total


def _guess(old: LabelGraph, new: LabelGraph, new_links: list[Links], joint: Tensor) -> Tensor:
    """The joint weights of all fine labels of the new graph as their parents tell them."""
    split = minimum_norm_split([links_of(old, kind) for kind in old.kinds], joint.t().contiguous())
    guess = split.constant.repeat(1, len(new))
    for kind, link, part in zip(old.kinds, new_links, split.coarse, strict=True):
        grown = torch.zeros(joint.shape[1], link.count, dtype=torch.float64)
        grown[:, np.array([new.label_index(kind, label) for label in old.labels(kind)], dtype=np.int64)] = part
        guess += link.to_fine(grown, len(new))
    return guess.t()
