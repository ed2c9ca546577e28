"""What a posterior says in words: labels with probabilities, the sure answer, and what to ask next.

The sure answer is the most specific statement whose probability is at least 1 - risk. Statements are "it is this fine
label", "it has this label of a kind", and ranges:

    "the heat is medium to hot"      the most specific run of labels of an ordered kind
    "the year is 2010 to 2012"       the shortest interval of a number with a probability of at least 1 - risk

A statement is more specific if fewer of the fine labels that evidence leaves are compatible with it. Ties go to the
more probable one. A fine label is compatible with a range of labels if it can have one of them, and with an interval if
its value is inside with a probability of at least the risk: an exact value is inside or outside, a value with a spread
may be both. A range that rules out no fine label says nothing and is left out. Cost per sample: a few passes over the
fine labels, runs of the labels of ordered kinds (`label_runs.py`), and a search for the shortest interval.

What to ask next depends on the expected effect of knowing the label of a kind. With F the fine label, C the label of
the kind, p_i and p_c their probabilities, and r_ic = P(C = c | F = i):

    gain     =  I(F; C)  =  H(C) - sum_i p_i H(r_i)          in bits; one parent per row: H(C) alone
    after    =  sum_c max_i p_i r_ic                         how probable the best fine label will be, on average
    settles  =  sum_c p_c [max_i p_i r_ic >= (1 - risk) p_c] how often it will be at least 1 - risk

The gain is the average fall in the entropy of the fine label, so the question with the largest gain leaves the least
to ask. All three are exact, in float64, for all kinds together. For a number the question is whether its value is above
a round one (`numbers/thresholds.py`). Cost: two passes over the edges.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.inference.label_runs import NO_RUN, best_runs
from finegraph.inference.numbers.number_tensors import NumberTensors
from finegraph.inference.numbers.thresholds import ThresholdEffects
from finegraph.inference.numbers.value_distribution import ValueDistribution
from finegraph.inference.numerics import MAX_TOGETHER, shared_constants
from finegraph.inference.sums.graph_tensors import GraphTensors, GroupMembers, Marginals, label_terms
from finegraph.inference.sums.groups import KindTensors

NO_GAIN = 1e-9
"""A gain below this many bits is rounding: the kind is known already, or says nothing about the fine label."""
_ROUNDING = 1e-7
"""How far the probability of an interval may be from the requested one."""
_MAX_DIGITS = 4
"""In text, ends with more digits are rounded."""


class Answer(NamedTuple):
    """A label with its probability."""

    label: str
    probability: float


class Statement(NamedTuple):
    """The most specific thing that is sure enough.

    Attributes:
        kind: the kind or number that the label is of; None for a fine label.
        label: what is stated; for a range, text such as `medium to hot` or `10 to 15 EUR`.
        probability: the probability of the statement.
        compatible: the number of fine labels that are compatible with the statement.
        low: the lower end of a range: a label, or a value in the unit of the number; None if it is not a range.
        high: the upper end of a range.
    """

    kind: str | None
    label: str
    probability: float
    compatible: int
    low: str | float | None = None
    high: str | float | None = None

    def __str__(self) -> str:
        name = self.label if self.kind is None else f"{self.kind}: {self.label}"
        return f"{name} ({self.probability:.1%})"


class Question(NamedTuple):
    """A question and the expected effect of its answer.

    Attributes:
        kind: the kind or number to ask about.
        binary: whether the answer is yes or no.
        gain: the fall in the entropy of the fine label, in bits, averaged over the answers.
        before: the probability of the best fine label now.
        after: the probability of the best fine label after the answer, on average.
        settles: the probability that the best fine label then has a probability of at least 1 - risk.
        above: the value in "Is the price above 12?"; None for a kind.
        unit: the unit of a number; may be empty.
    """

    kind: str
    binary: bool
    gain: float
    before: float
    after: float
    settles: float
    above: float | None = None
    unit: str = ""

    @property
    def text(self) -> str:
        """The question in words."""
        if self.above is not None:
            return f"Is the {self.kind} above {self.above:.12g}{f' {self.unit}' if self.unit else ''}?"
        if not self.binary:
            return f"Which {self.kind}?"
        _, mark, part = self.kind.partition(": ")
        return f"Is there {part}?" if mark else f"{self.kind}: yes or no?"

    def __str__(self) -> str:
        return f"{self.text} (+{self.gain:.2f} bits, best {self.before:.0%} -> {self.after:.0%})"


# ---- the sure answer ------------------------------------------------------------------------------------------------


def sure_statements(
    tensors: GraphTensors,
    marginals: Marginals,
    values: Sequence[ValueDistribution],
    risk: float,
    *,
    evidence: bool,
) -> list[Statement | None]:
    """One statement per sample, or None if nothing is sure.

    Args:
        tensors: the tensors of the graph.
        marginals: the log probabilities of all labels.
        values: the distribution of each number.
        risk: how often a statement may be wrong.
        evidence: whether there is evidence, which may rule out different fine labels in each sample.
    """
    graph, (fine, coarse) = tensors.graph, marginals
    probs = torch.cat([fine, coarse], dim=1).double().exp()
    possible = ~fine.isneginf() if evidence else None
    rounding = rounding_of(fine.dtype)
    min_probability = 1.0 - risk - rounding
    ranges = [
        sure_label_range(
            kind, graph.labels(kind.name), coarse[:, kind.columns].double().exp(), possible, min_probability
        )
        for kind in tensors.kinds
        if graph.kind(kind.name).ordered
    ]
    if risk > 0.0:
        pairs = zip(tensors.numbers.numbers, values, strict=True)
        ranges += [sure_interval(number, value, possible, risk) for number, value in pairs]
    ones = torch.ones(1, len(graph), dtype=torch.int64, device=probs.device)
    sizes = [kind.compatible(possible) for kind in tensors.kinds]
    # Without evidence the counts are the same for all samples, so they are computed once.
    rows = 1 if possible is None else len(probs)
    compatible = torch.cat([ones.expand(rows, -1), *sizes], dim=1).expand(len(probs), -1)
    label_count = probs.shape[1]
    if ranges:
        # Samples without a sure range have `NO_RUN` compatible labels; probability 0 keeps them from being chosen.
        probs = torch.cat(
            [probs, *(torch.where(own.compatible < NO_RUN, own.probability, 0.0)[:, None] for own in ranges)], 1
        )
        compatible = torch.cat([compatible, *(own.compatible.unsqueeze(1) for own in ranges)], dim=1)
    sure = probs >= min_probability
    open_labels = torch.where(sure, compatible, torch.iinfo(torch.int64).max)
    fewest = open_labels.amin(dim=1, keepdim=True)
    candidates = torch.where(sure & (open_labels == fewest), probs, -1.0)
    best = (candidates >= candidates.amax(dim=1, keepdim=True) - rounding).int().argmax(dim=1, keepdim=True)
    chosen = (values.gather(1, best).squeeze(1).tolist() for values in (sure, probs, compatible))
    statements: list[Statement | None] = []
    for row, (index, is_sure, probability, count) in enumerate(zip(best.squeeze(1).tolist(), *chosen, strict=True)):
        if not is_sure:
            statements.append(None)
        elif index < label_count:
            statements.append(Statement(*_kind_and_label(graph, tensors, index), min(probability, 1.0), count))
        else:
            name, _, _, low, high, text = ranges[index - label_count]
            statements.append(Statement(name, text[row], min(probability, 1.0), count, low[row], high[row]))
    return statements


def rounding_of(dtype: torch.dtype) -> float:
    """How far a probability may fall short of 1 - risk and still count as sure.

    Rounding must not decide whether a certain statement counts as sure, nor which of two equal statements is chosen.
    """
    return 8 * torch.finfo(dtype).eps


def _kind_and_label(graph: LabelGraph, tensors: GraphTensors, index: int) -> tuple[str | None, str]:
    """The kind and the label of a column. The fine labels come first, then the labels of each kind."""
    if index < len(graph):
        return None, graph.fine[index]
    kinds, column = tensors.kinds, index - len(graph)
    kind = kinds[bisect_right(kinds, column, key=lambda each: each.columns.start) - 1]
    return kind.name, graph.labels(kind.name)[column - kind.columns.start]


class SureRange(NamedTuple):
    """The most specific sure range of an ordered kind or of a number, for each sample.

    Attributes:
        name: the name of the kind or number.
        probability: the probability of the range.
        compatible: the number of compatible fine labels; `NO_RUN` if no range is sure.
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
    step = max(1, MAX_TOGETHER // (len(labels) * len(labels).bit_length() + len(kind.edge_label)))
    parts = [
        best_runs(
            kind,
            probs[start : start + step],
            None if possible is None else possible[start : start + step],
            min_probability,
        )
        for start in range(0, max(1, len(probs)), step)
    ]
    first, last, probability, compatible = (torch.cat(column) for column in zip(*parts, strict=True))
    low, high = ([labels[place] for place in ends.tolist()] for ends in (first, last))
    text = [f"{one} to {other}" for one, other in zip(low, high, strict=True)]
    return SureRange(kind.name, probability, compatible, low, high, text)


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
    compatible = torch.where(compatible < possible.sum(dim=1), compatible, NO_RUN)
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


# ---- what to ask ----------------------------------------------------------------------------------------------------


class Effects(NamedTuple):
    """The expected effects of the answers to all questions: about each kind, then about each number.

    Attributes:
        gain: the average fall in the entropy of the fine label, in bits.
        before: the probability of the best fine label now.
        after: the probability of the best fine label after the answer, on average.
        settles: the probability that it is then at least 1 - risk.
        above: for each number, the most informative threshold.
    """

    gain: Float[Tensor, "batch item"]
    before: Float[Tensor, " batch"]
    after: Float[Tensor, "batch item"]
    settles: Float[Tensor, "batch item"]
    above: Float[Tensor, "batch number"]

    def with_numbers(self, numbers: Sequence[ThresholdEffects]) -> Effects:
        """Append the effects of questions about numbers."""
        if not numbers:
            return self
        above, *others = (torch.stack(column, dim=1) for column in zip(*numbers, strict=True))
        own = (self.gain, self.after, self.settles)
        gain, after, settles = (torch.cat(pair, dim=1) for pair in zip(own, others, strict=True))
        return Effects(gain, self.before, after, settles, above)


def expected_effects(
    tensors: GraphTensors,
    fine: Float[Tensor, "batch fine"],
    scores: Float[Tensor, "batch coarse"] | None,
    risk: float,
) -> Effects:
    """The expected effects of knowing the label of each kind, in float64.

    Args:
        tensors: the tensors of the graph.
        fine: the log probabilities of the fine labels, in float64.
        scores: the coarse scores with the evidence; None if all are 0.
        risk: how often a settled answer may be wrong, plus an allowance for rounding.
    """
    members = shared_constants(GroupMembers, tensors.graph, fine.device)
    step = max(1, MAX_TOGETHER // members.size)
    parts = [
        _effects(tensors, members, part, None if scores is None else scores[start : start + step], risk)
        for start, part in zip(range(0, max(1, len(fine)), step), torch.split(fine, step), strict=True)
    ]
    return parts[0] if len(parts) == 1 else Effects(*(torch.cat(column) for column in zip(*parts, strict=True)))


def best_questions(tensors: GraphTensors, effects: Effects, count: int) -> list[list[Question]]:
    """For each sample, the kinds and numbers worth asking about, by gain; see `Posterior.questions`.

    Args:
        tensors: the tensors of the graph.
        effects: the expected effects of knowing each kind and number.
        count: the maximum number of questions per sample.

    Raises:
        InputError: the count is below 1.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"questions: expected a count of at least 1, got {count!r}")
    graph = tensors.graph
    kinds = [(name, graph.kind(name).binary, "") for name in graph.kinds]
    names = [*kinds, *((name, True, graph.number(name).unit) for name in graph.numbers)]
    # Gains are rounded before sorting, so that equal ones keep the order of the graph whatever their last bits.
    order = torch.sort(effects.gain.div(NO_GAIN).round(), dim=1, descending=True, stable=True).indices[:, :count]
    chosen = [values.gather(1, order).tolist() for values in (effects.gain, effects.after, effects.settles)]
    questions = []
    for places, before, above, *row in zip(
        order.tolist(), effects.before.tolist(), effects.above.tolist(), *chosen, strict=True
    ):
        worthwhile = []
        for place, gain, after, settles in zip(places, *row, strict=True):
            if gain <= NO_GAIN:
                continue
            name, binary, unit = names[place]
            value = above[place - len(kinds)] if place >= len(kinds) else None
            effect = gain, before, max(before, min(after, 1.0)), min(settles, 1.0)
            worthwhile.append(Question(name, binary, *effect, value, unit))
        questions.append(worthwhile)
    return questions


def _effects(
    tensors: GraphTensors,
    members: GroupMembers,
    fine: Float[Tensor, "batch fine"],
    scores: Float[Tensor, "batch coarse"] | None,
    risk: float,
) -> Effects:
    """The effects for some of the samples."""
    kinds = tensors.kinds
    labels = label_terms(kinds, members.logsumexp(fine), members.amax(fine), scores)
    probs = labels.log_probs.exp()
    possible = ~labels.log_probs.isneginf()
    entropies = -probs * labels.log_probs.masked_fill(~possible, 0.0)
    share = (labels.best - labels.log_probs.masked_fill(~possible, 0.0)).exp()
    settled = torch.where(possible & (share >= 1.0 - risk), probs, 0.0)
    sizes = torch.tensor([kind.label_count for kind in kinds], dtype=torch.int64, device=fine.device)
    kind_of = torch.repeat_interleave(torch.arange(len(kinds), device=fine.device), sizes)

    def per_kind(values: Float[Tensor, "batch coarse"]) -> Float[Tensor, "batch kind"]:
        return values.new_zeros(len(values), len(kinds)).index_add_(1, kind_of, values)

    gain = (per_kind(entropies) - labels.spread).clamp_min_(0.0) / math.log(2.0)
    return Effects(gain, fine.amax(dim=1).exp(), per_kind(labels.best.exp()), per_kind(settled), gain[:, :0])
