"""Ranges that are sure enough: of the labels of an ordered kind, and of the values of a number.

    "the heat is medium to hot"      the most specific run of labels of an ordered kind
    "the year is 2010 to 2012"       the shortest interval of a number with a probability of at least 1 - risk

As for single labels, a range is more specific if fewer fine labels are compatible with it. A fine label is compatible
with a range of labels if it can have one of them, and with an interval if its value is inside with a probability of at
least the risk: an exact value is inside or outside, a value with a spread may be both. A range that rules out no fine
label says nothing and is left out.

Cost per sample: the square of the number of labels of an ordered kind, and a search for the shortest interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finegraph.inference.numbers.number_tensors import NumberTensors
from finegraph.inference.numbers.value_distribution import ValueDistribution
from finegraph.inference.sums.kind_tensors import KindTensors

MAX_TOGETHER = 1 << 22
"""The largest number of ranges to compare at once."""
_ROUNDING = 1e-7
"""How far the probability of an interval may be from the requested one."""
_MAX_DIGITS = 4
"""In text, ends with more digits are rounded."""
NONE = torch.iinfo(torch.int64).max
"""Stands for the number of compatible fine labels if there is no sure range; larger than any real number."""


class SureRange(NamedTuple):
    """The most specific sure range of an ordered kind or of a number, for each sample.

    Attributes:
        name: the name of the kind or number.
        probability: the probability of the range.
        compatible: the number of compatible fine labels; `NONE` if no range is sure.
        low: the lower end: a label, or a value in the user's unit.
        high: the upper end.
        text: the range in words.
    """

    name: str
    probability: Float[Tensor, " batch"]
    compatible: Int[Tensor, " batch"]
    low: Sequence[str | float]
    high: Sequence[str | float]
    text: Sequence[str]


def sure_label_range(
    kind: KindTensors,
    labels: Sequence[str],
    probs: Float[Tensor, "batch label"],
    possible: Bool[Tensor, "batch fine"] | None,
    min_probability: float,
) -> SureRange:
    """The most specific sure range of labels of an ordered kind.

    Args:
        kind: the tensors of the kind.
        labels: its labels, in rising order.
        probs: the probabilities of the labels, in float64.
        possible: the fine labels that evidence leaves; None for all.
        min_probability: the smallest probability that counts as sure, with an allowance for rounding.
    """
    step = max(1, MAX_TOGETHER // (len(labels) + 1) ** 2)
    parts = [
        _best_run(
            kind,
            probs[start : start + step],
            None if possible is None else possible[start : start + step],
            min_probability,
        )
        for start in range(0, max(1, len(probs)), step)
    ]
    probability, compatible, place = (torch.cat(column) for column in zip(*parts, strict=True))
    low = [labels[cell // len(labels)] for cell in place.tolist()]
    high = [labels[cell % len(labels)] for cell in place.tolist()]
    text = [f"{first} to {last}" for first, last in zip(low, high, strict=True)]
    return SureRange(kind.name, probability, compatible, low, high, text)


def _best_run(
    kind: KindTensors,
    probs: Float[Tensor, "batch label"],
    possible: Bool[Tensor, "batch fine"] | None,
    min_probability: float,
) -> tuple[Float[Tensor, " batch"], Int[Tensor, " batch"], Int[Tensor, " batch"]]:
    """The best run of labels: its probability, its number of fine labels, and its place in the table of ends."""
    sums = torch.nn.functional.pad(probs.cumsum(dim=1), (1, 0))
    inside = sums[:, None, 1:] - sums[:, :-1, None]
    compatible = _compatible_runs(kind, possible).expand(inside.shape)
    total = kind.group.shape[0] if possible is None else possible.sum(dim=1)[:, None, None]
    # Single labels are statements of their own, so a run starts at two labels.
    several = torch.ones(inside.shape[1:], dtype=torch.bool, device=probs.device).triu(1)
    usable = several & (inside >= min_probability) & (compatible < total)
    compatible = torch.where(usable, compatible, NONE).flatten(start_dim=1)
    fewest = compatible.amin(dim=1, keepdim=True)
    candidates = torch.where(compatible == fewest, inside.flatten(start_dim=1), -1.0)
    # Rounding must not decide between equal runs.
    best = candidates >= candidates.amax(dim=1, keepdim=True) - (1.0 - min_probability) * 1e-9 - 1e-12
    place = best.int().argmax(dim=1, keepdim=True)
    return candidates.gather(1, place).squeeze(1), fewest.squeeze(1), place.squeeze(1)


def _compatible_runs(kind: KindTensors, possible: Bool[Tensor, "batch fine"] | None) -> Int[Tensor, "_ label label"]:
    """For each first and last label of a run, the number of fine labels that can have a label in it.

    Each fine label must be counted once, by the first of its labels in the run. So a label c, with b the previous label
    of the same fine label, counts in runs that start after b and end at c or later.
    """
    labels = kind.label_count
    if possible is None:
        possible = torch.ones(1, len(kind.group), dtype=torch.bool, device=kind.group.device)
    sizes = torch.zeros(len(possible), kind.group_count, dtype=torch.int64, device=possible.device)
    sizes.scatter_add_(1, kind.group.expand_as(possible), possible.long())
    row = torch.arange(labels, device=sizes.device)
    label, before = row, torch.full_like(row, -1)
    if not kind.plain:
        group, own = kind.edge_group.to(sizes.device), kind.edge_label.to(sizes.device)
        order = torch.argsort(group * labels + own)
        group, own = group[order], own[order]
        previous = torch.where(torch.diff(group, prepend=group[:1] - 1) == 0, own.roll(1), -1)
        row = torch.cat([row, labels + group])
        label, before = torch.cat([label, own]), torch.cat([before, previous])
    counted = sizes.index_select(1, row)
    table = sizes.new_zeros(len(sizes), (labels + 1) * labels)
    table.index_add_(1, (before + 1) * labels + label, counted)
    table.index_add_(1, (label + 1) * labels + label, -counted)
    return table.view(-1, labels + 1, labels)[:, :-1].cumsum(dim=1).cumsum(dim=2)


def sure_interval(
    number: NumberTensors, value: ValueDistribution, possible: Bool[Tensor, "batch fine"] | None, risk: float
) -> SureRange:
    """The shortest interval of a number with a probability of at least 1 - risk.

    Args:
        number: the tensors of the number.
        value: its distribution.
        possible: the fine labels that evidence leaves; None for all.
        risk: above 0 and below 1.
    """
    low, high = value.inner_interval(1.0 - risk)
    inside = value.component_probabilities(low, high)
    probability = torch.where(value.weights > 0, value.weights * inside, 0.0).sum(dim=1)
    # The ends come from a search, whose rounding must not decide which of two intervals is more probable.
    probability = torch.where(probability < 1.0 - risk + _ROUNDING, 1.0 - risk, probability)
    if possible is None:
        possible = torch.ones(1, len(number.component), dtype=torch.bool, device=inside.device)
    sizes = number.to_components(possible.double())
    compatible = torch.where(inside >= risk, sizes, 0.0).sum(dim=1).long()
    compatible = torch.where(compatible < possible.sum(dim=1), compatible, NONE)
    lows, highs = (
        [float(_digits(end)) for end in number.number.to_outer(side.squeeze(1).cpu().numpy()).tolist()]
        for side in (low, high)
    )
    texts = [interval_words(*pair, unit=number.number.unit) for pair in zip(lows, highs, strict=True)]
    return SureRange(number.name, probability, compatible, lows, highs, texts)


def interval_words(low: float, high: float, unit: str = "") -> str:
    """An interval in words, `10 to 15 EUR`. Ends with many digits are rounded outwards, so that it stays true."""
    suffix = f" {unit}" if unit else ""
    if low == high:
        return f"{_digits(low)}{suffix}"
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    down, up = _rounded(low, step, math.floor), _rounded(high, step, math.ceil)
    return f"{down} to {up}{suffix}"


def _rounded(end: float, step: float, towards: Callable[[float], int]) -> str:
    """An end unchanged if it has few digits, else rounded to a multiple of `step`."""
    text = _digits(end)
    if len(text.lstrip("-").replace(".", "")) <= _MAX_DIGITS:
        return text
    return _digits(towards(end / step) * step)


def _digits(value: float) -> str:
    """A number without the noise of its last bits."""
    return f"{value:.12g}"
