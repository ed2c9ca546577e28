"""The layers of coarse labels in one process of a sharded head: their rows, products and gradients.

Of the largest kind a process may hold the rows of some labels alone; all other rows are copies, which all processes
hold. Gradients of scores of copies are the same in all processes, and so are those of the copies: they stay equal to
the bit without being sent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finegraph.graph import LabelGraph
from finegraph.graph.label_shards import LabelShard
from finegraph.inference.processes import Processes


class CoarseBlock(NamedTuple):
    """The coarse labels of one process whose scores come from one layer.

    Attributes:
        columns: their place among all coarse labels of the process.
        first: the first label of the whole layer, among all coarse labels of the graph.
        labels: the number of labels of the whole layer.
        local: the rows of the layer that only this process holds.
        shared: those that all processes hold.
    """

    columns: slice
    first: int
    labels: int
    local: tuple[slice, ...]
    shared: tuple[slice, ...]

    @property
    def held(self) -> int:
        """The number of rows that the process holds."""
        return int(self.columns.stop - self.columns.start)

    def of_process(self, rows: tuple[slice, ...]) -> list[slice]:
        """Rows of the layer as columns among all coarse labels of the process."""
        return [slice(self.columns.start + one.start, self.columns.start + one.stop) for one in rows]


def coarse_blocks(graph: LabelGraph, shard: LabelShard, *, by_kind: bool) -> tuple[CoarseBlock, ...]:
    """The blocks of the coarse labels of a process.

    Args:
        graph: the label graph.
        shard: the labels of the process.
        by_kind: whether each kind has a layer of its own.
    """
    kinds, column, first = [], 0, 0
    for name in graph.kinds:
        count, local = len(graph.labels(name)), name == shard.kind
        held = len(shard.labels) if local else count
        rows = (slice(0, held),)
        place = slice(column, column + held)
        kinds.append(CoarseBlock(place, first, count, rows if local else (), () if local else rows))
        column, first = place.stop, first + count
    if by_kind:
        return tuple(kinds)
    local_rows = tuple(part for kind in kinds for part in kind.of_process(kind.local))
    shared_rows: tuple[slice, ...] = (slice(0, column),)
    if local_rows:
        around = (slice(0, local_rows[0].start), slice(local_rows[0].stop, column))
        shared_rows = tuple(part for part in around if part.stop > part.start)
    return (CoarseBlock(slice(0, column), 0, first, local_rows, shared_rows),)


def coarse_rows(
    features: Float[Tensor, "batch _"], layer: nn.Linear, block: CoarseBlock, exchange: Processes
) -> Float[Tensor, "batch coarse"]:
    """The scores of the coarse labels of a layer.

    Args:
        features: the input of the layer, the same in all processes.
        layer: the rows of this process.
        block: which rows these are.
        exchange: the communication between the processes that share the labels.
    """
    weight = layer.weight
    rows: Tensor = _CoarseRows.apply(features.to(weight.dtype), weight, layer.bias, block, exchange)  # type: ignore[no-untyped-call]
    return rows.t()


class _CoarseRows(torch.autograd.Function):
    """Coarse scores with labels as rows.

    The gradient of the features through rows of one process is summed over processes. The gradient through copies is
    already the same in all processes, since the gradients of their scores are. Rows of copies are multiplied apart from
    the others, whose number differs between processes: so copies stay alike to the bit.
    """

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, block: CoarseBlock, exchange: Processes
    ) -> Tensor:
        ctx.block, ctx.exchange = block, exchange
        ctx.save_for_backward(features, weight)
        rows = weight @ features.t()
        return rows if bias is None else rows.add_(bias.unsqueeze(1))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        (features, weight), block, feature_grad = ctx.saved_tensors, ctx.block, None
        weight_grad = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        bias_grad = weight.new_empty(len(weight)) if ctx.needs_input_grad[2] else None
        for rows in (*block.local, *block.shared):
            own = grads[0][rows].clone(memory_format=torch.contiguous_format)  # laid out alike in all processes
            if weight_grad is not None:
                weight_grad[rows] = own @ features
            if bias_grad is not None:
                bias_grad[rows] = own.sum(dim=1)
        if ctx.needs_input_grad[0]:
            feature_grad = torch.zeros_like(features)
            for rows in block.local:
                feature_grad.addmm_(grads[0][rows].t(), weight[rows])
            if block.local:
                ctx.exchange.sum([feature_grad])
            for rows in block.shared:
                feature_grad.addmm_(grads[0][rows].t(), weight[rows])
        return feature_grad, weight_grad, bias_grad, None, None


class _SumValues(torch.autograd.Function):
    """Numbers summed over all processes; the gradient of the sum is that of each part."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, exchange: Processes) -> Tensor:
        total = values.clone()
        exchange.sum([total])
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


def sum_values(values: Float[Tensor, " batch"], exchange: Processes) -> Float[Tensor, " batch"]:
    """The sum over all processes; its gradient is that of the part of each."""
    result: Tensor = _SumValues.apply(values, exchange)  # type: ignore[no-untyped-call]
    return result


class _SumGradients(torch.autograd.Function):
    """A matrix that all processes have, and the sum of its gradients."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, exchange: Processes, columns: tuple[slice, ...]) -> Tensor:
        ctx.exchange, ctx.columns = exchange, columns
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        grad = grads[0].clone()
        ctx.exchange.sum([grad[:, columns] for columns in ctx.columns])
        return grad, None, None


def sum_gradients(
    values: Float[Tensor, "batch _"], exchange: Processes, columns: tuple[slice, ...] = (slice(None),)
) -> Float[Tensor, "batch _"]:
    """The same values; their gradient, to which each process adds a part, is summed in some columns."""
    result: Tensor = _SumGradients.apply(values, exchange, columns)  # type: ignore[no-untyped-call]
    return result
