"""A bipartite head whose labels are shared out among processes.

Each process holds the rows of its own fine labels, those of its labels of the largest kind, and a copy of the rows of
all other kinds (`graph/label_shards.py`). The loss is that of `loss/rows_loss.py`: features of the whole batch go in,
the same in all processes, and gradients of copies come out the same in all of them, so that copies stay alike without
being sent. A step tells the others one number per sample, batch x (targets + 2) sums, the gradient of the features, and
batch x (labels of all kinds but the largest) gradients of coarse scores; nothing that grows with the fine labels.

Answers are found alike: the best labels and the probabilities of a kind, from sums over all processes. Heads that fit
in one process are `BipartiteHead`, with every other question; `take` and `whole` go from one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from finegraph.errors import InputError, ShapeError
from finegraph.graph import LabelGraph
from finegraph.graph.label_shards import LabelShard, label_shard
from finegraph.inference.loss.joint_loss import KindWeights, Reduction
from finegraph.inference.loss.rows_loss import Exchange, RowsTask, rows_loss, rows_task
from finegraph.inference.sums.graph_tensors import graph_tensors
from finegraph.inference.sums.label_rows import LabelRows, LabelSums
from finegraph.inference.sums.targets import Targets
from finegraph.nn.heads import BipartiteHead
from finegraph.nn.prior import LaplacianEdges, laplacian

_ROWS_AT_ONCE = 1 << 14


class BestLabels(NamedTuple):
    """The most probable fine labels of each sample, best first, by their numbers in the graph."""

    label: Int[Tensor, "batch _"]
    log_prob: Float[Tensor, "batch _"]


class ShardedHead(nn.Module):
    """The part of a bipartite head that one process holds.

    Graphs with numbers, and features of their own for coarse labels, have no such head.

    Attributes:
        shard: which labels this process holds.
        fine: the layer of its fine labels.
        coarse: the layer of its coarse labels, kind after kind.
    """

    def __init__(
        self, features: int, graph: LabelGraph, exchange: Exchange, *, rank: int = 0, size: int = 1, bias: bool = True
    ) -> None:
        """Make the part of an untrained head.

        Its rows are those that `BipartiteHead` would draw by the same seed, whatever the number of processes.

        Args:
            features: the number of columns of the features.
            graph: the label graph.
            exchange: how the processes tell each other what they found.
            rank: the number of this process, from 0.
            size: how many there are.
            bias: whether the layers have a bias.

        Raises:
            InputError: there are too few labels for so many processes, or the graph has numbers.
        """
        super().__init__()
        if graph.numbers:
            raise InputError("a head whose labels are shared out knows no numbers; leave them out with graph.only")
        self.features, self.graph, self.exchange = features, graph, exchange
        self.shard = label_shard(graph, rank, size)
        own = self.shard.coarse(graph)
        layout = graph_tensors(graph).by_groups.layout
        part, column = layout.part(self.shard.fine, own)
        self.rows = LabelRows(part)
        self._column = torch.from_numpy(column)
        place = np.full(len(graph), -1)
        place[self.shard.fine] = np.arange(len(self.shard.fine))
        self._place = torch.from_numpy(place)
        self._own_fine, self._own_coarse = torch.from_numpy(self.shard.fine), torch.from_numpy(own)
        self._shared, self._local = _shared_columns(graph, self.shard), _local_columns(graph, self.shard)
        self._edges = LaplacianEdges(graph, self.shard)
        self.fine = _Undrawn(features, len(self.shard.fine), bias=bias)
        self.coarse = _Undrawn(features, len(own), bias=bias)
        self._draw(bias)

    def _draw(self, bias: bool) -> None:
        """Draw the rows of the fine labels as one whole layer would, some rows at a time; coarse ones start at 0."""
        bound = self.features**-0.5
        with torch.no_grad():
            for values in (self.fine.weight, self.fine.bias) if bias else (self.fine.weight,):
                done = 0
                for start in range(0, len(self.graph), _ROWS_AT_ONCE):
                    count = min(_ROWS_AT_ONCE, len(self.graph) - start)
                    drawn = torch.empty(count, *values.shape[1:]).uniform_(-bound, bound)
                    own = self._own_fine[(self._own_fine >= start) & (self._own_fine < start + count)] - start
                    values[done : done + len(own)] = drawn[own]
                    done += len(own)
            for parameter in self.coarse.parameters():
                parameter.zero_()

    def take(self, head: BipartiteHead) -> None:
        """Take over the rows of a whole head.

        Raises:
            ShapeError: it has other sizes.
        """
        if head.graph.digest != self.graph.digest or head.features != self.features or head.coarse_features is not None:
            raise ShapeError("expected a head of the same graph and features, without features for coarse labels")
        with torch.no_grad():
            for own, layer, rows in (
                (self.fine, head.fine, self._own_fine),
                (self.coarse, head.coarse, self._own_coarse),
            ):
                for name, values in own.named_parameters():
                    values.copy_(layer.get_parameter(name)[rows])

    def whole(self) -> BipartiteHead:
        """The whole head, in every process; it must fit there."""
        bias = self.fine.bias is not None
        head = BipartiteHead(self.features, self.graph, bias=bias).to(self.fine.weight)
        mine = torch.zeros(len(self._own_coarse), dtype=torch.bool)
        mine[slice(None)] = self.shard.rank == 0
        for columns in self._local:
            mine[columns] = True
        with torch.no_grad():
            for name, values in self.fine.named_parameters():
                found = torch.zeros_like(head.fine.get_parameter(name))
                found[self._own_fine] = values
                self.exchange.sum([found])
                head.fine.get_parameter(name).copy_(found)
            for name, values in self.coarse.named_parameters():
                found = torch.zeros_like(head.coarse.get_parameter(name))
                found[self._own_coarse[mine]] = values[mine]
                self.exchange.sum([found])
                head.coarse.get_parameter(name).copy_(found)
        return head

    # ---- training ---------------------------------------------------------------------------------------------------

    def loss(
        self,
        features: Float[Tensor, "batch feature"],
        target: Int[Tensor, " batch"] | None,
        kind_targets: Mapping[str, Int[Tensor, " batch"]] | None = None,
        kind_weights: KindWeights = None,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
    ) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
        """The joint loss of a whole batch, the same in all processes.

        Args:
            features: those of all samples, the same in all processes.
            target: the fine label of each sample; see `joint_loss` for this and the following.
            kind_targets: for some kinds the label seen on each photo.
            kind_weights: the weight of the term of each kind.
            reduction: "mean", "sum" or "none".
            ignore_index: marks what was not observed.
        """
        self._check(features)
        whole = rows_task(
            graph_tensors(self.graph),
            len(features),
            target,
            kind_targets,
            kind_weights,
            reduction,
            ignore_index,
            self.rows,
        )
        task = RowsTask(
            self.rows,
            self._own_targets(whole.targets),
            whole.weight,
            whole.factor,
            whole.total,
            self._shared,
            self.exchange,
        )
        return rows_loss(task, features, self.fine.weight, self.fine.bias, self._coarse_scores(features))

    def prior(self) -> Float[Tensor, ""]:
        """The weight prior, as `laplacian_prior`; its gradient for rows that all processes hold is that of all."""
        result: Tensor = _SharedPrior.apply(self.fine.weight, self.coarse.weight, self)  # type: ignore[no-untyped-call]
        return result

    # ---- answers ----------------------------------------------------------------------------------------------------

    def top(self, features: Float[Tensor, "batch feature"], count: int = 5) -> BestLabels:
        """The most probable fine labels of all processes, the same in each.

        Args:
            features: those of some samples.
            count: how many labels.
        """
        sums, log_total = self._exponentials(features)
        own = min(count, len(sums.values))
        best = sums.values.topk(own, dim=0)
        shape = (self.shard.size, count, len(features))
        log_prob = torch.zeros(shape, dtype=torch.float64)
        label = torch.zeros(shape, dtype=torch.int64)
        log_prob[self.shard.rank] = -torch.inf
        log_prob[self.shard.rank, :own] = best.values.double().log() + sums.reference.double() - log_total
        label[self.shard.rank, :own] = self._own_fine[best.indices]
        self.exchange.sum([log_prob])
        self.exchange.sum([label])
        found = log_prob.flatten(0, 1).t().topk(min(count, len(self.graph)), dim=1)
        return BestLabels(label.flatten(0, 1).t().gather(1, found.indices), found.values)

    def kind_log_probs(self, features: Float[Tensor, "batch feature"], kind: str) -> Float[Tensor, "batch label"]:
        """The log probabilities of the labels of a kind, the same in all processes, in float64.

        Args:
            features: those of some samples.
            kind: the kind.
        """
        tensors = graph_tensors(self.graph).kind(kind)
        sums, log_total = self._exponentials(features)
        groups = self.rows.to_groups(sums.values).double()
        layout, mixing = self.rows.layout, sums.mixing
        if mixing is not None:
            groups.index_add_(0, layout.edge_column, groups[layout.edge_row] * mixing.t().exp())
        shift = (sums.reference.double() - log_total).exp()
        columns = self._column[tensors.columns]
        found = torch.zeros(tensors.label_count, len(features), dtype=torch.float64)
        own = columns >= 0
        found[own] = groups[columns[own]] * shift
        self.exchange.sum([found])
        return found.log().t()

    def _exponentials(self, features: Float[Tensor, "batch feature"]) -> tuple[LabelSums, Float[Tensor, " batch"]]:
        """The exponentials of the joint scores of own labels, and the log of the sum of all."""
        self._check(features)
        batch, layout = len(features), self.rows.layout
        targets = Targets(torch.zeros(batch, dtype=torch.int64), torch.zeros(batch, 0, dtype=torch.int64), None, [])
        with torch.no_grad():
            groups, mixing = layout.group_scores(self._coarse_scores(features)) if layout.kinds else (None, None)
            sums = LabelSums(self.rows, groups, mixing, targets, features.dtype)
            sums.find_exponentials(features, self.fine.weight, self.fine.bias)
            reference = sums.reference.clone()
            self.exchange.largest(reference)
            total = sums.total * (sums.reference - reference).exp().double()
            self.exchange.sum([total])
        return sums, reference.double() + total.log()

    def _coarse_scores(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch coarse"]:
        rows: Tensor = _CoarseRows.apply(features.to(self.coarse.weight.dtype), self.coarse.weight, self)  # type: ignore[no-untyped-call]
        return (rows if self.coarse.bias is None else rows + self.coarse.bias.unsqueeze(1)).t()

    def _own_targets(self, targets: Targets) -> Targets:
        """The targets as this process counts labels; -1 for those that it does not hold."""
        return targets._replace(fine=self._place[targets.fine], column=self._column[targets.column])

    def _check(self, features: Tensor) -> None:
        if features.ndim != 2 or features.shape[1] != self.features:
            raise ShapeError(f"features: expected shape (batch, {self.features}), got {tuple(features.shape)}")


class _Undrawn(nn.Linear):
    """A layer whose values are set by others."""

    def reset_parameters(self) -> None:
        """Do nothing."""


class _CoarseRows(torch.autograd.Function):
    """Coarse scores with labels as rows. The gradient of the features through rows that one process holds is summed.

    That of copies is the same in all processes already, since the gradients of their scores are.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, head: ShardedHead) -> Tensor:
        ctx.head = head
        ctx.save_for_backward(features, weight)
        return weight @ features.t()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (features, weight), head, feature_grad = ctx.saved_tensors, ctx.head, None
        if ctx.needs_input_grad[0]:
            feature_grad = torch.zeros_like(features)
            for columns in head._local:
                feature_grad.addmm_(grads[0][columns].t(), weight[columns])
            head.exchange.sum([feature_grad])
            for columns in head._shared:
                feature_grad.addmm_(grads[0][columns].t(), weight[columns])
        return feature_grad, grads[0] @ features if ctx.needs_input_grad[1] else None, None


class _SharedPrior(torch.autograd.Function):
    """The prior over the edges of one process, summed over all."""

    @staticmethod
    def forward(ctx: Any, fine: Tensor, coarse: Tensor, head: ShardedHead) -> Tensor:
        with torch.enable_grad():
            rows = fine.detach().requires_grad_(), coarse.detach().requires_grad_()
            value = laplacian(head._edges, *rows)
            grads = torch.autograd.grad(value, rows)
        total = value.detach().clone()
        head.exchange.sum([total])
        head.exchange.sum([grads[1][columns] for columns in head._shared])
        ctx.save_for_backward(*grads)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        fine, coarse = ctx.saved_tensors
        return grads[0] * fine, grads[0] * coarse, None


def _local_columns(graph: LabelGraph, shard: LabelShard) -> tuple[slice, ...]:
    """The coarse columns of a process that no other one holds."""
    start = 0
    for name in graph.kinds:
        count = len(shard.labels) if name == shard.kind else len(graph.labels(name))
        if name == shard.kind:
            return (slice(start, start + count),)
        start += count
    return ()


def _shared_columns(graph: LabelGraph, shard: LabelShard) -> tuple[slice, ...]:
    """The coarse columns of a process that all hold."""
    count = len(shard.coarse(graph))
    local = _local_columns(graph, shard)
    if not local:
        return (slice(0, count),)
    return tuple(part for part in (slice(0, local[0].start), slice(local[0].stop, count)) if part.stop > part.start)
