"""Folds in which samples that look alike are held out together.

Photos of a class are often taken in a row. Were one of them held out while its neighbours stay, every setting would
look good. So each class is cut into groups, those most alike together, and a group is held out as a whole. Groups grow
with the class, as rows of photos do: of n samples there are about sqrt(2 n) of them, 3 of 5 and 8 of 33.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

TensorFold = tuple[Int[Tensor, " _"], Int[Tensor, " _"]]
"""The samples that stay and those that are held out."""


def alike_folds(
    features: Float[Tensor, "batch feature"], targets: Int[Tensor, " batch"], count: int
) -> list[TensorFold]:
    """Cut samples into folds; empty if no class has two samples.

    No group of a class is more than twice as large as they are on average. The groups go to different folds in turn, so
    that some of each class always stays.

    Args:
        features: one row per sample.
        targets: the fine label of each.
        count: how many folds; fewer come back if there are not enough samples.
    """
    fold = torch.full((len(targets),), -1)
    directions = torch.nn.functional.normalize(features.double() - features.double().mean(dim=0), dim=1)
    first = 0
    order = torch.argsort(targets, stable=True)
    for rows in torch.split(order, torch.bincount(targets).tolist()):
        if len(rows) < 2:
            continue
        groups = _groups(directions[rows], max(2, round(math.sqrt(2 * len(rows)))))
        fold[rows] = (first + groups) % count
        first += int(groups.max()) + 1  # small classes take turns, so that the folds stay even
    return _folds(fold, count)


def class_folds(targets: Int[Tensor, " batch"], count: int) -> list[TensorFold]:
    """Folds of whole classes, dealt in the order in which their first samples come."""
    labels, first, place = np.unique(targets.numpy(), return_index=True, return_inverse=True)
    turn = np.empty(len(labels), dtype=np.int64)
    turn[np.argsort(first)] = np.arange(len(labels))
    return _folds(torch.from_numpy(turn[place] % count), count)


def _folds(fold: Tensor, count: int) -> list[TensorFold]:
    return [
        ((fold != held).nonzero()[:, 0], (fold == held).nonzero()[:, 0])
        for held in range(count)
        if bool((fold == held).any())
    ]


def _groups(directions: Float[Tensor, "batch feature"], count: int) -> Int[Tensor, " batch"]:
    """The group of each sample: the two groups that are most alike on average are joined until so many are left.

    Groups that would be too large together are not joined, so there may be a few more.
    """
    likeness = (directions @ directions.t()).fill_diagonal_(-math.inf)
    sizes = torch.ones(len(directions), dtype=torch.float64)
    group = torch.arange(len(directions))
    largest = 2 * math.ceil(len(directions) / count)
    for _ in range(len(directions) - count):
        allowed = likeness.masked_fill(sizes[:, None] + sizes > largest, -math.inf)
        first, second = divmod(int(allowed.argmax()), len(likeness))
        if allowed[first, second] == -math.inf:
            break
        joined = (sizes[first] * likeness[first] + sizes[second] * likeness[second]) / (sizes[first] + sizes[second])
        likeness[first], likeness[:, first] = joined, joined
        likeness[first, first] = -math.inf
        likeness[second], likeness[:, second] = -math.inf, -math.inf
        sizes[first] += sizes[second]
        group[group == second] = first
    return torch.from_numpy(np.unique(group.numpy(), return_inverse=True)[1])
