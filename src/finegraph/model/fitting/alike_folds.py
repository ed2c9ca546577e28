"""Folds in which similar samples are held out together.

Photos of a class are often taken in a row. If one of them were held out while its neighbours stay, every setting would
look good. So each class is divided into groups of similar photos, and a group is held out as a whole. Groups grow
with the class: n samples form about sqrt(2 n) groups, 5 samples 3 groups and 33 samples 8.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

_MAX_TOGETHER = 1 << 22
"""About how many numbers are processed together."""
TensorFold = tuple[Int[Tensor, " _"], Int[Tensor, " _"]]
"""The indices of the training samples and of the held-out samples."""


def alike_folds(
    features: Float[Tensor, "batch feature"], targets: Int[Tensor, " batch"], count: int
) -> list[TensorFold]:
    """Cut samples into folds; empty if no class has two samples.

    No group of a class is more than twice the average size. Groups are dealt to the folds in turn, so
    that some samples of each class always stay.

    Args:
        features: one row per sample.
        targets: the fine label of each.
        count: the number of folds; fewer are returned if there are not enough samples.
    """
    fold = torch.full((len(targets),), -1)
    directions = torch.nn.functional.normalize(features.double() - features.double().mean(dim=0), dim=1)
    order, sizes = torch.argsort(targets, stable=True), torch.bincount(targets)
    starts = sizes.cumsum(0) - sizes
    group, counts = torch.zeros(len(targets), dtype=torch.int64), torch.zeros_like(sizes)
    # Classes of one size are cut together: there may be a hundred thousand of two photos each.
    for size in sorted(set(sizes[sizes > 1].tolist())):
        classes = (sizes == size).nonzero()[:, 0]
        for some in torch.split(classes, max(1, _MAX_TOGETHER // (size * (size + directions.shape[1])))):
            rows = order[starts[some].unsqueeze(1) + torch.arange(size)]
            group[rows] = _groups(directions[rows], max(2, round(math.sqrt(2 * size))))
            counts[some] = group[rows].amax(dim=1) + 1
    # Small classes take turns, so that the folds stay even.
    first = counts.cumsum(0) - counts
    several = (sizes > 1)[targets]
    fold[several] = ((first[targets] + group) % count)[several]
    return _folds(fold, count)


def class_folds(targets: Int[Tensor, " batch"], count: int) -> list[TensorFold]:
    """Folds of whole classes, dealt in the order of their first samples."""
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


def _groups(directions: Float[Tensor, "label batch feature"], count: int) -> Int[Tensor, "label batch"]:
    """The group of each sample of some classes, by average linkage.

    Groups are merged until `count` are left. Groups that would become too large are not merged, so there may be more.

    Args:
        directions: unit features of classes with the same number of samples.
        count: the number of groups per class.
    """
    classes, size = directions.shape[:2]
    group = torch.arange(size).repeat(classes, 1)
    if size <= count:
        return group
    likeness = directions @ directions.transpose(1, 2)
    likeness.diagonal(dim1=1, dim2=2).fill_(-math.inf)
    sizes = torch.ones(classes, size, dtype=torch.float64)
    largest = 2 * math.ceil(size / count)
    for _ in range(size - count):
        too_large = sizes.unsqueeze(1) + sizes.unsqueeze(2) > largest
        best = likeness.masked_fill(too_large, -math.inf).reshape(classes, -1).max(dim=1)
        own = (best.values > -math.inf).nonzero()[:, 0]
        if not len(own):
            break
        # Of the pair and its mirror image, rounding decides which is larger; it must not decide which group remains.
        pair = torch.stack([best.indices[own] // size, best.indices[own] % size])
        one, two = pair.amin(dim=0), pair.amax(dim=0)
        weights = sizes[own, one].unsqueeze(1), sizes[own, two].unsqueeze(1)
        joined = (weights[0] * likeness[own, one] + weights[1] * likeness[own, two]) / (weights[0] + weights[1])
        likeness[own, one], likeness[own, :, one] = joined, joined
        likeness[own, one, one] = -math.inf
        likeness[own, two], likeness[own, :, two] = -math.inf, -math.inf
        sizes[own, one] += sizes[own, two]
        group[own] = torch.where(group[own] == two.unsqueeze(1), one.unsqueeze(1), group[own])
    # Counted from 0 in each class.
    left = torch.zeros(classes, size, dtype=torch.int64).scatter_(1, group, 1)
    return (left.cumsum(dim=1) - 1).gather(1, group)
