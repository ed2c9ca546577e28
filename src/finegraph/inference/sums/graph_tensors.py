"""A label graph as tensors, and the choice of how to sum over it.

All coarse scores of a batch are one matrix, kind after kind; `columns[kind]` is the slice of a kind. The tensors of a
graph are made once per device and kept as long as the graph, so that several heads share them.

The sums of a batch are chosen here in two steps. Kinds in which most fine labels have their own weights are summed by
weights, unless scores are too far apart or a program is being compiled. All other kinds are summed by rows or by
columns, whichever is cheaper for the sizes of the graph.

The log probabilities of the labels of all kinds are computed here at once. A graph may have dozens of kinds with two
labels each; summing them one by one would spend more time in Python than in the sums. So the groups of all kinds are
sorted by size, and groups of one size are summed together, as `Segments` does within a kind. There is no gradient;
`Posterior.kind_log_probs` has one. Cost: linear in the edges. Large batches are processed in parts.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.inference.numbers.number_tensors import NumberTable
from finegraph.inference.numerics import (
    CPU,
    MAX_TOGETHER,
    Constants,
    at_least_float32,
    refuse_second_derivatives,
    shared_constants,
    without_autocast,
)
from finegraph.inference.sums.by_columns import ColumnSums, ColumnTables
from finegraph.inference.sums.by_rows import RowSums, RowTables
from finegraph.inference.sums.by_weights import WeightSums, WeightTables, stack_width
from finegraph.inference.sums.groups import GroupLayout, KindTensors
from finegraph.inference.sums.interface import GraphSums, GroupedSums, gathered_sum
from finegraph.inference.sums.strategy import Strategy, rows_are_used, weights_are_used
from finegraph.inference.sums.targets import KindColumns, TargetTable

MAX_COPIED = 1 << 16
"""Tables with more entries are not put together with those of other kinds, but shared with their kind."""
_MANY_KINDS = 64
"""With more kinds, the gradient is a difference of sums too large for float32, so float64 is used."""
_WEIGHT_PASSES = 8
"""Sums by weights are float64 and read several times, so the chunks of a batch are smaller by this factor."""

_keys = itertools.count()
_by_key: weakref.WeakValueDictionary[int, GraphTensors] = weakref.WeakValueDictionary()


class SumTables(Constants):
    """The tables of all kinds of a graph: some are summed by weights, the others by rows or by columns.

    Attributes:
        layout: the groups of the kinds that are summed by rows or by columns.
        weights: the kinds that are summed by weights; None if there are none.
        targets: the targets of the loss.
    """

    def __init__(self, graph: LabelGraph, kinds: list[KindTensors], by_weights: set[str], strategy: Strategy) -> None:
        self.device, self.strategy, self.kind_count = CPU, strategy, len(kinds)
        grouped = [kind for kind in kinds if kind.name not in by_weights]
        weighted = [kind for kind in kinds if kind.name in by_weights]
        self.layout = GroupLayout(grouped, len(graph), kinds[-1].columns.stop if kinds else 0)
        by_label = [KindColumns(graph.kind(kind.name), kind.number, kind.columns.start) for kind in weighted]
        by_label.sort(key=lambda entry: stack_width(len(entry.kind.labels)))
        self.weights = WeightTables(by_label) if by_label else None
        self.targets = TargetTable(
            len(graph),
            [KindColumns(graph.kind(kind.name), kind.number, kind.columns.start) for kind in grouped],
            [(entry, stack_width(len(entry.kind.labels))) for entry in by_label],
        )
        self._rows_are_used = [
            rows_are_used(strategy, self.layout.kinds, len(graph), coarse_scores) for coarse_scores in (False, True)
        ]

    @cached_property
    def rows(self) -> RowTables:
        """The tables of sums by rows."""
        with torch.inference_mode(False), CPU:
            return RowTables(self.layout, self.strategy).on(self.device)

    @cached_property
    def columns(self) -> ColumnTables:
        """The tables of sums by columns."""
        with torch.inference_mode(False), CPU:
            return ColumnTables(self.layout, self.strategy).on(self.device)

    def on(self, device: torch.device) -> SumTables:
        """A copy on a device."""
        copy = super().on(device)
        copy.device = device
        return copy

    def dtype_of(self, fine: Float[Tensor, "batch fine"], coarse: Float[Tensor, "batch coarse"] | None) -> torch.dtype:
        """The dtype in which these scores are summed."""
        double = fine.dtype == torch.float64 or (coarse is not None and coarse.dtype == torch.float64)
        return torch.float64 if double or self.kind_count > _MANY_KINDS else torch.float32

    def sums_of(self, coarse: Float[Tensor, "batch coarse"] | None, batch: int, dtype: torch.dtype) -> GraphSums:
        """The sums of one batch.

        Args:
            coarse: the coarse scores; None if all are 0, as in softmax.
            batch: the number of samples.
            dtype: float32 or float64.
        """
        groups = mixing = None
        if coarse is not None and self.layout.kinds:
            groups, mixing = self.layout.group_scores(coarse)
        elif coarse is None and len(self.layout.edge_row):
            mixing = self.layout.edge_log_weight.expand(batch, -1)
        inner: GroupedSums
        if self.uses_rows(coarse is not None, dtype):
            inner = RowSums(self.layout, self.rows, self.columns, self.strategy, groups, mixing, dtype)
        else:
            inner = ColumnSums(self.layout, self.columns, groups, mixing, dtype)
        return inner if self.weights is None else WeightSums(self.weights, inner, coarse, batch)

    def uses_rows(self, coarse_scores: bool, dtype: torch.dtype) -> bool:
        """Whether kinds that are not summed by weights are summed by rows rather than by columns."""
        return self._rows_are_used[coarse_scores] and (dtype == torch.float32 or self.strategy.by == "rows")

    def max_samples(self, coarse_scores: bool, dtype: torch.dtype) -> int | None:
        """The number of samples whose values fit in the processor's caches; None for no limit."""
        if self.device.type != "cpu":
            return None
        size = self.layout.fine_count
        if self.weights is not None:
            size *= _WEIGHT_PASSES * (1 + self.weights.kind_count)
        elif self.uses_rows(coarse_scores, dtype):
            return None
        return max(1, self.strategy.chunk // size) * torch.get_num_threads()


class GraphTensors(Constants):
    """All kinds of a graph as tensors on one device.

    Attributes:
        by_groups: tables without sums by weights, valid for all scores and inside compiled programs.
        by_weights: tables for scores that are not too far apart; None if no kind is summed by weights.
        numbers: the numbers of the graph.
    """

    def __init__(self, graph: LabelGraph, strategy: Strategy | None = None) -> None:
        strategy = Strategy() if strategy is None else strategy
        self.graph, self.device = graph, CPU
        self.columns: dict[str, slice] = {}
        start = 0
        for name in graph.kinds:
            self.columns[name] = slice(start, start + len(graph.labels(name)))
            start = self.columns[name].stop
        self.coarse_count = start
        self.kinds = [
            KindTensors(graph.kind(name), number, self.columns[name]) for number, name in enumerate(graph.kinds)
        ]
        self.position = {name: number for number, name in enumerate(graph.kinds)}
        self.numbers = NumberTable(graph)
        self.by_groups = SumTables(graph, self.kinds, set(), strategy)
        weighted = {
            kind.name
            for kind in self.kinds
            if weights_are_used(strategy, len(graph), kind.label_count, len(kind.edge_label))
        }
        self.by_weights = SumTables(graph, self.kinds, weighted, strategy) if weighted else None
        self._register()

    def _register(self) -> None:
        """Take a key under which `by_key` finds these tensors."""
        self.key = next(_keys)
        _by_key[self.key] = self

    def on(self, device: torch.device) -> GraphTensors:
        """A copy on a device, with a key of its own."""
        copy = super().on(device)
        copy.device = device
        copy._register()
        return copy

    @staticmethod
    def by_key(key: int) -> GraphTensors:
        """The tensors with a key. An operator inside a compiled program can be passed a number but not an object."""
        return _by_key[key]

    def tables_for(self, coarse: Float[Tensor, "batch coarse"] | None) -> SumTables:
        """The tables to use for coarse scores."""
        if self.by_weights is None or self.by_weights.weights is None or torch.compiler.is_compiling():
            return self.by_groups
        if coarse is None:
            return self.by_weights
        exact = not coarse.is_meta and self.by_weights.weights.are_exact_for(coarse)
        return self.by_weights if exact else self.by_groups

    def joint_scores(
        self, fine: Float[Tensor, "batch fine"], coarse: Float[Tensor, "batch coarse"] | None
    ) -> Float[Tensor, "batch fine"]:
        """The joint scores (2) of docs/idea.md, up to a constant per sample; differentiable.

        They share memory with the fine scores if there is nothing to add.

        Args:
            fine: the fine scores.
            coarse: the coarse scores; None if all are 0, as in softmax.
        """
        fine = at_least_float32(fine)
        if coarse is None:
            return fine.to(self.by_groups.dtype_of(fine, None))
        coarse = at_least_float32(coarse)
        tables = self.tables_for(coarse)
        if torch.compiler.is_compiling() or fine.is_meta:
            groups, _ = tables.layout.group_scores(coarse)
            return gathered_sum(tables.layout, fine, groups).to(tables.dtype_of(fine, coarse))
        scores: Tensor = _JointScores.apply(fine, coarse, tables)  # type: ignore[no-untyped-call]
        return scores

    def kind(self, name: str) -> KindTensors:
        """The tensors of one kind."""
        self.graph.kind(name)  # raises if the name is unknown
        return self.kinds[self.position[name]]

    def __reduce__(self) -> tuple[Any, ...]:
        # A key is only valid within one process; everything else follows from the graph.
        return graph_tensors, (self.graph, self.device)


def graph_tensors(graph: LabelGraph, device: torch.device = CPU) -> GraphTensors:
    """The tensors of a graph on a device, made once and kept as long as the graph."""
    return shared_constants(GraphTensors, graph, device)


class _JointScores(torch.autograd.Function):
    """The joint scores (2) and their closed-form gradient (7)."""

    @staticmethod
    def forward(
        ctx: Any, fine: Float[Tensor, "batch fine"], coarse: Float[Tensor, "batch coarse"], tables: SumTables
    ) -> Float[Tensor, "batch fine"]:
        with without_autocast(fine.device):
            sums = tables.sums_of(coarse, len(fine), tables.dtype_of(fine, coarse))
            scores = sums.joint_scores(fine).to(sums.dtype)
        ctx.tables, ctx.dtypes = tables, (fine.dtype, coarse.dtype)
        # Sums by weights hold a matrix per kind, so they are recomputed rather than kept.
        ctx.sums = sums.without_scores() if isinstance(sums, GroupedSums) else None
        ctx.save_for_backward(None if ctx.sums is not None else coarse)
        return scores.clone() if scores is fine else scores

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None]:
        refuse_second_derivatives()
        (coarse,), (grad,), (fine_dtype, coarse_dtype) = ctx.saved_tensors, grads, ctx.dtypes
        if not ctx.needs_input_grad[1]:
            return grad.to(fine_dtype), None, None
        with without_autocast(grad.device):
            sums = ctx.tables.sums_of(coarse, len(grad), grad.dtype) if ctx.sums is None else ctx.sums
            return grad.to(fine_dtype), sums.coarse_gradient(grad).to(coarse_dtype), None


class Marginals(NamedTuple):
    """The log probabilities of the fine labels, and of the labels of all kinds side by side."""

    fine: Float[Tensor, "batch fine"]
    coarse: Float[Tensor, "batch coarse"]


class GroupMembers(Constants):
    """The fine labels of each group of each kind.

    Attributes:
        tables: for each width, the fine labels (group, width) of the groups of this size or a little less.
        restore: for each group, kind after kind, its row in the concatenated tables.
        size: the number of entries in all tables.
    """

    def __init__(self, graph: LabelGraph) -> None:
        super().__init__()
        kinds = graph_tensors(graph).kinds
        by_width: dict[int, list[Tensor]] = {}
        places: dict[int, list[Tensor]] = {}
        start = 0
        for kind in kinds:
            tables = kind.members.tables
            # `restore` holds the row of each group in the tables; its inverse is the group of each row.
            groups = torch.split(torch.argsort(kind.members.restore) + start, [len(table) for table in tables])
            for table, own in zip(tables, groups, strict=True):
                by_width.setdefault(table.shape[1], []).append(table)
                places.setdefault(table.shape[1], []).append(own)
            start += kind.group_count
        self.tables: list[Tensor] = []
        order: list[Tensor] = []
        for width in sorted(by_width):
            pairs = list(zip(by_width[width], places[width], strict=True))
            small = [pair for pair in pairs if pair[0].numel() <= MAX_COPIED]
            if small:
                self.tables.append(torch.cat([table for table, _ in small]))
                order += [own for _, own in small]
            for table, own in pairs:
                if table.numel() > MAX_COPIED:
                    self.tables.append(table)
                    order.append(own)
        self.restore = torch.argsort(torch.cat(order)) if order else torch.zeros(0, dtype=torch.int64)
        self.size = max(1, sum(table.numel() for table in self.tables))

    def logsumexp(self, values: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch group"]:
        """The logsumexp of each group, kind after kind; minus infinity for an empty group."""
        return self._over_members(values, torch.logsumexp)

    def amax(self, values: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch group"]:
        """The largest value of each group, kind after kind; minus infinity for an empty group."""
        return self._over_members(values, torch.amax)

    def _over_members(
        self, values: Float[Tensor, "batch fine"], reduce: Callable[[Tensor, int], Tensor]
    ) -> Float[Tensor, "batch group"]:
        if not self.tables:
            return values[:, :0]
        # Tables are padded with an index one past the last fine label, which holds minus infinity.
        empty = values.new_full((len(values), 1), -torch.inf)
        padded = torch.cat([values, empty], dim=1)
        parts = []
        for table in self.tables:
            groups, width = table.shape
            if width == 0:
                parts.append(empty.expand(-1, groups))
                continue
            gathered = padded.index_select(1, table.reshape(-1))
            parts.append(gathered if width == 1 else reduce(gathered.reshape(-1, groups, width), 2))
        return torch.cat(parts, dim=1).index_select(1, self.restore)


def coarse_log_probs(
    graph: LabelGraph, fine: Float[Tensor, "batch fine"], scores: Float[Tensor, "batch coarse"] | None
) -> Float[Tensor, "batch coarse"]:
    """The log probabilities of the labels of all kinds side by side.

    Args:
        graph: the label graph.
        fine: the log probabilities of the fine labels.
        scores: the coarse scores with the evidence, at least as precise as `fine`; None if all are 0.
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


class LabelTerms(NamedTuple):
    """What the effects of knowing a label follow from: quantities of the labels of some kinds, side by side.

    Attributes:
        log_probs: the log probability of each label.
        best: the log probability of each label together with its most probable fine label.
        spread: per kind, the entropy of the label given the fine label, in nats.
    """

    log_probs: Float[Tensor, "batch coarse"]
    best: Float[Tensor, "batch coarse"]
    spread: Float[Tensor, "batch kind"]


def label_terms(
    kinds: list[KindTensors],
    groups: Float[Tensor, "batch group"],
    best: Float[Tensor, "batch group"],
    scores: Float[Tensor, "batch coarse"] | None,
) -> LabelTerms:
    """From groups, all kinds side by side, to labels.

    Args:
        kinds: the tensors of the kinds.
        groups: the log probability of each group.
        best: the log probability of each group together with its most probable fine label.
        scores: the coarse scores with the evidence; None if all are 0.
    """
    if all(kind.plain for kind in kinds):
        return LabelTerms(groups, best, groups.new_zeros(len(groups), len(kinds)))
    sizes = [kind.group_count for kind in kinds]
    parts = []
    for kind, own_groups, own_best in zip(
        kinds, torch.split(groups, sizes, dim=1), torch.split(best, sizes, dim=1), strict=True
    ):
        own = groups.new_zeros(1, kind.label_count) if scores is None else scores[:, kind.columns].double()
        parts.append(_label_terms_of(kind, own_groups, own_best, own))
    return LabelTerms(*(torch.cat(column, dim=1) for column in zip(*parts, strict=True)))


def _label_terms_of(
    kind: KindTensors,
    groups: Float[Tensor, "batch group"],
    best: Float[Tensor, "batch group"],
    scores: Float[Tensor, "_ label"],
) -> LabelTerms:
    """The same for one kind."""
    if kind.plain:
        return LabelTerms(groups, best, groups.new_zeros(len(groups), 1))
    edges = kind.edge_log_probs(scores)
    row = kind.label_count + kind.edge_group
    mixed = groups.index_select(1, row) + edges
    spread = -(mixed.exp() * edges.masked_fill(edges.isneginf(), 0.0)).sum(dim=1, keepdim=True)
    best_mixed = best.index_select(1, row) + edges
    own = best[:, : kind.label_count].scatter_reduce(
        1, kind.edge_label.expand(len(best), -1), best_mixed, reduce="amax"
    )
    return LabelTerms(kind.label_log_probs(groups, scores), own, spread)
