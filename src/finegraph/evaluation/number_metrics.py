"""How well numbers and ordered kinds are predicted: errors, intervals, and whether the order is right.

The truth of a photo is the value that was measured on it, else the value of its fine label. The prediction is the mean
of the posterior; beside it stand the median, which has the smallest expected absolute error, and the value of the best
fine label, which a plain classifier would predict. Errors of ordered kinds are counted in steps from the true label to
the median of the posterior.

A `NumberCollector` keeps some numbers per photo. Cost: a search for the shortest interval for each photo and number;
rank correlations take n log n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.data.dataset import MISSING
from finegraph.evaluation.judgements import Indices, judge_interval
from finegraph.evaluation.sure import true_values
from finegraph.graph import Kind, LabelGraph, Number
from finegraph.inference import Posterior, ValueDistribution

Floats = NDArray[np.float64]

LEVELS = (0.5, 0.8, 0.9, 0.95)
"""The probabilities of the intervals whose coverage is reported."""
VALUE_COLUMNS = ("true", "mean", "median", "low", "high")
"""The stored columns of a number for each photo: the ends are those of the shortest interval that holds 90 %."""
SHOWN_LEVEL = 0.9
"""The probability of the intervals that stand beside each photo, and of those that studies judge."""
_MAX_PAIRS = 200
_SMALL = 32
"""The length up to which lists are compared pair by pair."""


@dataclass(frozen=True, kw_only=True)
class NumberMetrics:
    """How well one number is predicted.

    Attributes:
        photos: how many photos have a true value.
        unit: what the number is counted in; may be empty.
        error: the mean absolute error of the expected value.
        median_error: the same of the median.
        best_label_error: the same of the value of the best fine label.
        relative_error: the mean of |predicted - true| / |true|; None where a true value is 0.
        coverage: by probability, the share of photos whose true value is in the shortest interval with that
            probability; calibrated intervals have both alike.
        width: the mean width of the shortest interval that holds 90 %.
        spearman: the correlation of the ranks of predicted and true values, from -1 to 1; None if either is constant.
        kendall: Kendall's tau-b of the same.
        pairs: the true and the predicted value of some photos, taken evenly, at most 200.
    """

    photos: int
    unit: str
    error: float | None
    median_error: float | None = None
    best_label_error: float | None
    relative_error: float | None
    coverage: dict[str, float]
    width: float | None
    spearman: float | None
    kendall: float | None
    pairs: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class OrderMetrics:
    """How well the label of an ordered kind is predicted.

    Attributes:
        photos: how many photos have a true label.
        steps: the mean number of steps between the median of the posterior and the true label.
        best_label_steps: the same for the parent of the best fine label.
        within_one: the share of photos that are at most one step off.
        spearman: the correlation of the ranks of predicted and true labels; None if either is constant.
        kendall: Kendall's tau-b of the same.
    """

    photos: int
    steps: float | None
    best_label_steps: float | None
    within_one: float | None
    spearman: float | None
    kendall: float | None = None


@dataclass
class _Column:
    """The stored values of all photos for one number or ordered kind."""

    true: list[Floats] = field(default_factory=list)
    predicted: list[Floats] = field(default_factory=list)
    median: list[Floats] = field(default_factory=list)
    best: list[Floats] = field(default_factory=list)
    low: list[Floats] = field(default_factory=list)
    high: list[Floats] = field(default_factory=list)


class NumberCollector:
    """Takes in posteriors and the truth batch by batch, and gives the metrics of numbers and ordered kinds.

    Args:
        graph: the label graph.
    """

    def __init__(self, graph: LabelGraph) -> None:
        self.graph = graph
        self.ordered = ordered_kinds(graph)
        self._columns = {name: _Column() for name in (*graph.numbers, *self.ordered)}

    def add(
        self,
        posterior: Posterior,
        log_probs: Float[Tensor, "batch fine"],
        values: Mapping[str, ValueDistribution],
        fine: Int[Indices, " batch"],
        seen: Mapping[str, Int[Indices, " batch"]],
        measured: Mapping[str, Float[Floats, " batch"]],
    ) -> Float[Floats, "batch number 5"]:
        """Take in a batch; returns what `VALUE_COLUMNS` names for each photo and number.

        Args:
            posterior: the posterior of each photo.
            log_probs: the log probabilities of its fine labels.
            values: what it knows of each number.
            fine: the true fine label of each photo, `MISSING` where it is not known.
            seen: per kind the photo label, `MISSING` where there is none.
            measured: per number the value measured on each photo, NaN where there is none.
        """
        best = log_probs.argmax(dim=1).cpu().numpy()
        rows = np.zeros((len(fine), len(self.graph.numbers), len(VALUE_COLUMNS)))
        for place, name in enumerate(self.graph.numbers):
            number = self.graph.number(name)
            true = true_values(number, fine, measured.get(name))
            rows[:, place] = self._add_number(self._columns[name], number, values[name], true, best)
        for name in self.ordered:
            kind = self.graph.kind(name)
            parents = np.append(kind.parents, -1)
            labels = parents[np.where(fine == MISSING, -1, fine)]
            if name in seen:
                labels = np.where(seen[name] == MISSING, labels, seen[name])
            probs = posterior.kind_log_probs(name, log_probs).double().exp().cpu().numpy()
            self._add_order(self._columns[name], kind, probs, labels, best)
        return rows

    def _add_number(
        self, column: _Column, number: Number, value: ValueDistribution, true: Floats, best: Indices
    ) -> Float[Floats, "batch 5"]:
        known = ~np.isnan(true)
        mean, median = value.mean.cpu().numpy(), value.quantile(0.5).cpu().numpy()
        ends = [value.interval(level) for level in LEVELS]
        low, high = (np.stack([part.cpu().numpy() for part in side], axis=1) for side in zip(*ends, strict=True))
        if known.any():
            column.true.append(true[known])
            column.predicted.append(mean[known])
            column.median.append(median[known])
            column.best.append(number.values[best][known])
            column.low.append(low[known])
            column.high.append(high[known])
        widest = LEVELS.index(SHOWN_LEVEL)
        return np.stack([true, mean, median, low[:, widest], high[:, widest]], axis=1)

    def _add_order(self, column: _Column, kind: Kind, probs: Floats, labels: Indices, best: Indices) -> None:
        known = labels >= 0
        if not known.any():
            return
        median = median_labels(probs)
        parents = kind.parents[best].astype(np.float64)
        column.true.append(labels[known].astype(np.float64))
        column.predicted.append(median[known].astype(np.float64))
        column.best.append(np.where(parents < 0, np.nan, parents)[known])

    def numbers(self) -> dict[str, NumberMetrics]:
        """The metrics of every number."""
        return {name: self._number(self.graph.number(name), self._columns[name]) for name in self.graph.numbers}

    def orders(self) -> dict[str, OrderMetrics]:
        """The metrics of every ordered kind with one parent per fine label."""
        return {name: self._order(self._columns[name]) for name in self.ordered}

    def _number(self, number: Number, column: _Column) -> NumberMetrics:
        true, predicted, best = (_joined(parts) for parts in (column.true, column.predicted, column.best))
        if not len(true):
            return NumberMetrics(
                photos=0,
                unit=number.unit,
                error=None,
                best_label_error=None,
                relative_error=None,
                coverage={},
                width=None,
                spearman=None,
                kendall=None,
            )
        low, high = np.concatenate(column.low), np.concatenate(column.high)
        inside = judge_interval(true[:, None], low, high).mean(axis=0)
        return NumberMetrics(
            photos=len(true),
            unit=number.unit,
            error=float(np.abs(predicted - true).mean()),
            median_error=float(np.abs(_joined(column.median) - true).mean()),
            best_label_error=_mean_of_known(np.abs(best - true)),
            relative_error=float((np.abs(predicted - true) / np.abs(true)).mean()) if (true != 0).all() else None,
            coverage={f"{level:g}": float(share) for level, share in zip(LEVELS, inside, strict=True)},
            width=float((high - low)[:, LEVELS.index(SHOWN_LEVEL)].mean()),
            spearman=spearman(predicted, true),
            kendall=kendall(predicted, true),
            pairs=np.stack([true, predicted], axis=1)[:: -(-len(true) // _MAX_PAIRS)].tolist(),
        )

    def _order(self, column: _Column) -> OrderMetrics:
        true, predicted, best = (_joined(parts) for parts in (column.true, column.predicted, column.best))
        if not len(true):
            return OrderMetrics(photos=0, steps=None, best_label_steps=None, within_one=None, spearman=None)
        steps = np.abs(predicted - true)
        return OrderMetrics(
            photos=len(true),
            steps=float(steps.mean()),
            best_label_steps=_mean_of_known(np.abs(best - true)),
            within_one=float((steps <= 1).mean()),
            spearman=spearman(predicted, true),
            kendall=kendall(predicted, true),
        )


def ordered_kinds(graph: LabelGraph) -> tuple[str, ...]:
    """The kinds whose errors are counted in steps: the ordered ones with one parent per fine label."""
    return tuple(name for name in graph.kinds if graph.kind(name).ordered and graph.kind(name).one_parent)


def median_labels(probs: Float[NDArray[np.floating], "batch label"]) -> Int[Indices, " batch"]:
    """The median of each row: the first label at which half of the probability is reached; rounding must not move it.

    Args:
        probs: the probabilities of the labels of an ordered kind, in their order.
    """
    return np.asarray((probs.cumsum(axis=1) < 0.5 - 1e-9).sum(axis=1).clip(max=probs.shape[1] - 1))


def spearman(one: Float[Floats, " photo"], two: Float[Floats, " photo"]) -> float | None:
    """Spearman's rank correlation, ties at their mean rank; None if either list is constant."""
    ranks = [_ranks(values) for values in (one, two)]
    centred = [values - values.mean() for values in ranks]
    sizes = [float(np.sqrt((values * values).sum())) for values in centred]
    if not all(sizes):
        return None
    return float((centred[0] * centred[1]).sum() / (sizes[0] * sizes[1]))


def kendall(one: Float[Floats, " photo"], two: Float[Floats, " photo"]) -> float | None:
    """Kendall's tau-b, which allows ties; None if either list is constant. By sorting: n log n."""
    count = len(one)
    pairs = count * (count - 1) // 2
    tied = [_tied_pairs(values) for values in (one, two)]
    if pairs in tied:
        return None
    order = np.lexsort((two, one))
    both = _tied_pairs(np.unique(np.stack([one, two], axis=1), axis=0, return_inverse=True)[1].reshape(-1))
    swapped = _inversions(np.asarray(two)[order])[0]
    agreeing = pairs - tied[0] - tied[1] + both - 2 * swapped
    return float(agreeing / np.sqrt(float(pairs - tied[0]) * float(pairs - tied[1])))


def _ranks(values: Floats) -> Floats:
    """The rank of each value, counted from 1; the same values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2)[inverse.reshape(-1)]
    return ranks


def _tied_pairs(values: NDArray[np.generic]) -> int:
    """How many pairs of entries are equal."""
    counts = np.unique(values, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def _inversions(values: Floats) -> tuple[int, Floats]:
    """How many pairs stand in the wrong order, by merging sorted halves; and the values sorted."""
    if len(values) <= _SMALL:
        return int(np.triu(values[:, None] > values[None, :], 1).sum()), np.sort(values)
    middle = len(values) // 2
    before, left = _inversions(values[:middle])
    after, right = _inversions(values[middle:])
    across = int((len(left) - np.searchsorted(left, right, side="right")).sum())
    return before + after + across, np.sort(values)


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.zeros(0)


def _mean_of_known(values: Floats) -> float | None:
    """The mean without what is not known; None if nothing is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None
