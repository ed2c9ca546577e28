"""The most specific sure run of labels of an ordered kind: "medium to hot".

Among the runs of at least two labels that are probable enough, it is compatible with the fewest fine labels. A longer
run is compatible with no fewer of them, so for each first label a only the shortest sure run counts, with the last
label b(a), and runs that add probability without a fine label. Neither end ever moves back, so the sum over a run needs
no table of all pairs of ends:

    Each fine label is counted once, by the first of its labels that is in the run. So a label c, with b' the previous
    label of the same fine label, counts for runs with b' < a <= c <= b(a): from the first a with a > b' and b(a) >= c
    on, until a > c.

Cost per sample: linear in the labels and distinct edges, times the logarithm of the number of labels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finegraph.inference.sums.groups import KindTensors

NO_RUN = torch.iinfo(torch.int64).max
"""Stands for the number of compatible fine labels if there is no sure run; larger than any real number."""


class LabelRun(NamedTuple):
    """The best run of each sample.

    Attributes:
        first: its first label.
        last: its last label.
        probability: its probability.
        compatible: the number of fine labels that can have a label in it; `NO_RUN` if no run is sure.
    """

    first: Int[Tensor, " batch"]
    last: Int[Tensor, " batch"]
    probability: Float[Tensor, " batch"]
    compatible: Int[Tensor, " batch"]


class _CountedLabels(NamedTuple):
    """The labels of all fine labels, by which runs count these.

    Attributes:
        label: a label.
        previous: the previous label of the same fine labels; -1 if there is none.
        sizes: the number of these fine labels.
    """

    label: Int[Tensor, " edge"]
    previous: Int[Tensor, " edge"]
    sizes: Int[Tensor, "_ edge"]


def best_runs(
    kind: KindTensors,
    probs: Float[Tensor, "batch label"],
    possible: Bool[Tensor, "batch fine"] | None,
    min_probability: float,
) -> LabelRun:
    """The run of at least two labels that is sure and compatible with the fewest fine labels, but not with all.

    Ties go to the most probable run, then to the first. There must be two labels or more.

    Args:
        kind: the tensors of the kind.
        probs: the probabilities of the labels, in float64.
        possible: the fine labels that evidence leaves; None for all.
        min_probability: the smallest probability that counts as sure, with an allowance for rounding.
    """
    batch, labels = probs.shape
    sums = torch.nn.functional.pad(probs.cumsum(dim=1), (1, 0))
    first = torch.arange(labels, device=probs.device).expand(batch, -1)
    needed = torch.full_like(probs, min_probability)
    last = _first_sure(sums, first, (first + 1).clamp_max(labels), torch.full_like(first, labels), needed)
    counted = _counted_labels(kind, possible)
    compatible = _compatible(counted, last, labels)
    total = len(kind.group) if possible is None else possible.sum(dim=1, keepdim=True)
    compatible = compatible.masked_fill((last >= labels) | (compatible >= total), NO_RUN)
    fewest = compatible.amin(dim=1, keepdim=True)
    farthest = last.clamp_max(labels - 1)
    if not kind.plain:
        farthest = _last_without_more(counted, farthest, labels)
    inside = torch.where(compatible == fewest, sums.gather(1, farthest + 1) - sums[:, :-1], -1.0)
    # Rounding must not decide between equal runs.
    enough = inside.amax(dim=1, keepdim=True) - (1.0 - min_probability) * 1e-9 - 1e-12
    start = (inside >= enough).int().argmax(dim=1, keepdim=True)
    shortest = last.clamp_max(labels - 1).gather(1, start)
    stop = _first_sure(sums, start, shortest, farthest.gather(1, start), enough)
    probability = sums.gather(1, stop + 1) - sums.gather(1, start)
    return LabelRun(*(column.squeeze(1) for column in (start, stop, probability, fewest)))


def _first_sure(
    sums: Float[Tensor, "batch _"],
    first: Int[Tensor, "batch place"],
    low: Int[Tensor, "batch place"],
    high: Int[Tensor, "batch place"],
    needed: Float[Tensor, "batch place"],
) -> Int[Tensor, "batch place"]:
    """For each first label, the smallest last label from `low` on with enough probability; `high` if none is smaller.

    Args:
        sums: the cumulative probabilities of the labels, 0 at first.
        first: the first labels.
        low: where to start.
        high: where to stop.
        needed: the probability that a run must have.
    """
    below, last = sums.gather(1, first), sums.shape[1] - 1
    for _ in range(last.bit_length()):
        middle = (low + high) // 2
        sure = sums.gather(1, (middle + 1).clamp_max(last)) - below >= needed
        low, high = torch.where(sure | (low >= high), low, middle + 1), torch.where(sure, middle, high)
    return high


def _counted_labels(kind: KindTensors, possible: Bool[Tensor, "batch fine"] | None) -> _CountedLabels:
    """The labels of all groups of a kind; there is one row of counts if all fine labels are possible."""
    labels, device = kind.label_count, kind.group.device
    if possible is None:
        sizes = torch.bincount(kind.group, minlength=kind.group_count).unsqueeze(0)
    else:
        sizes = torch.zeros(len(possible), kind.group_count, dtype=torch.int64, device=device)
        sizes.scatter_add_(1, kind.group.expand_as(possible), possible.long())
    row = torch.arange(labels, device=device)
    if kind.plain:
        return _CountedLabels(row, torch.full_like(row, -1), sizes)
    order = torch.argsort(kind.edge_group * labels + kind.edge_label)
    group, own = kind.edge_group[order], kind.edge_label[order]
    same = torch.diff(group, prepend=group[:1] - 1) == 0
    before = torch.cat([torch.full_like(row, -1), torch.where(same, own.roll(1), -1)])
    return _CountedLabels(torch.cat([row, own]), before, sizes.index_select(1, torch.cat([row, labels + group])))


def _compatible(counted: _CountedLabels, last: Int[Tensor, "batch label"], labels: int) -> Int[Tensor, "batch label"]:
    """The number of fine labels that are compatible with the run from each label to its last one, in rising order."""
    label, previous, sizes = counted
    passed = sizes.new_zeros(len(sizes), labels + 1).index_add_(1, label + 1, sizes).cumsum(dim=1)
    reached = torch.searchsorted(last.contiguous(), label.expand(len(last), -1).contiguous())
    entry = torch.maximum(reached, previous + 1)
    entered = sizes.new_zeros(len(last), labels + 1).scatter_add_(1, entry, sizes.expand(len(last), -1))
    return (entered.cumsum(dim=1) - passed)[:, :-1]


def _last_without_more(
    counted: _CountedLabels, last: Int[Tensor, "batch label"], labels: int
) -> Int[Tensor, "batch label"]:
    """The last label up to which each run can be extended without one more compatible fine label.

    A label adds one to a run that starts after the smallest previous label among its fine labels. The first such label
    is found in steps of powers of two, with the smallest previous labels of as many labels from each one on.
    """
    label, previous, sizes = counted
    smallest = torch.full((len(sizes), labels + 1), labels, device=sizes.device)
    own = torch.where(sizes > 0, previous, labels)
    smallest.scatter_reduce_(1, label.expand_as(own), own, reduce="amin")
    smallest[:, labels] = -1  # nothing goes beyond the last label
    steps = [smallest]
    for power in range(labels.bit_length() - 1):
        before = steps[-1]
        moved = torch.nn.functional.pad(before[:, 1 << power :], (0, 1 << power), value=-1)
        steps.append(torch.minimum(before, moved))
    first, place = torch.arange(labels, device=last.device), last + 1
    for power in reversed(range(len(steps))):
        free = steps[power].expand(len(last), -1).gather(1, place) >= first
        place = torch.where(free, place + (1 << power), place)
    return place - 1
