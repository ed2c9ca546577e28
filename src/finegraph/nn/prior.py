"""The paper's hierarchical prior on the weights, which is a graph Laplacian.

    -log p_w / lambda  =  1/2 sum_i sum_j sum_c g^j[i, c] |w_i - w^j_c|^2  =  1/2 trace(V' Lap V)

The labels of an ordered kind are linked too, each to the next one with weight 1: mild to medium, medium to hot. V holds
all weight rows, fine and coarse. The gradient is Lap V, so value and gradient come from one gather-sum (coarse rows to
fine) and one segment-sum (fine rows to coarse): O(edges x features). An unknown parent has no edge. Biases are left
out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from finegraph.errors import ShapeError
from finegraph.graph import LabelGraph
from finegraph.graph.kind import FloatArray
from finegraph.graph.label_shards import LabelShard
from finegraph.inference.numerics import CPU, Constants, refuse_second_derivatives, shared_constants, without_autocast

_MAX_TOGETHER = 1 << 22
"""About how many values are summed at a time."""


class LaplacianEdges(Constants):
    """The edges of all kinds of a graph, sorted both ways, for sums of weight rows.

    The weights of edges are None if all are 1, as in graphs with one known parent per kind.
    """

    fine_item: Tensor
    fine_start: Tensor
    fine_weight: Tensor | None
    coarse_item: Tensor
    coarse_start: Tensor
    coarse_weight: Tensor | None
    fine_degree: Tensor
    coarse_degree: Tensor
    lower: Tensor
    higher: Tensor

    def __init__(self, graph: LabelGraph, shard: LabelShard | None = None) -> None:
        """Sort the edges.

        Args:
            graph: the label graph.
            shard: the labels of one process; None for all. Links between ordered labels, which all processes hold,
                count in the first process only.
        """
        super().__init__()
        edges = [graph.edges(name) for name in graph.kinds]
        starts = np.concatenate([[0], np.cumsum([len(graph.labels(name)) for name in graph.kinds])]).astype(np.int64)
        empty = np.zeros(0, np.int32)
        fine = np.concatenate([empty, *(edge[0].astype(np.int32) for edge in edges)])
        own = [(edge[1] + start).astype(np.int32) for edge, start in zip(edges, starts, strict=False)]
        coarse = np.concatenate([empty, *own])
        weight = None
        if any((edge[2] != 1.0).any() for edge in edges):
            weight = np.concatenate([edge[2] for edge in edges])
        del edges, own
        counts, column = (len(graph), int(starts[-1])), np.arange(starts[-1])
        if shard is not None:
            held = shard.coarse(graph)
            place, column = np.full(len(graph), -1, np.int32), np.full(starts[-1], -1, np.int32)
            place[shard.fine], column[held] = np.arange(len(shard.fine)), np.arange(len(held))
            kept = place[fine] >= 0
            fine, coarse = place[fine[kept]], column[coarse[kept]]
            weight, counts = None if weight is None else weight[kept], (len(shard.fine), len(held))
        self._store_sorted("fine", fine, coarse, weight, counts[0])
        self._store_sorted("coarse", coarse, fine, weight, counts[1])
        for name, owner, count in (("fine_degree", fine, counts[0]), ("coarse_degree", coarse, counts[1])):
            self.store_arrays({name: np.bincount(owner, weights=weight, minlength=count)[:, None].astype(np.float64)})
        ordered = [place for place, name in enumerate(graph.kinds) if graph.kind(name).ordered]
        lower = [column[starts[place] : starts[place + 1] - 1] for place in ordered]
        chain = np.concatenate([np.zeros(0, np.int64), *lower]).astype(np.int64)
        chain = chain if shard is None or shard.rank == 0 else chain[:0]
        self.store_arrays({"lower": chain, "higher": chain + 1})

    def _store_sorted(
        self, name: str, owner: NDArray[np.int32], item: NDArray[np.int32], weight: FloatArray | None, count: int
    ) -> None:
        order = np.argsort(owner, kind="stable")
        sizes = np.bincount(owner, minlength=count)
        self.store_arrays({f"{name}_item": item[order], f"{name}_start": (np.cumsum(sizes) - sizes).astype(np.int32)})
        setattr(self, f"{name}_weight", None if weight is None else torch.from_numpy(weight[order]))

    def to_fine(self, coarse: Float[Tensor, "coarse feature"]) -> Float[Tensor, "fine feature"]:
        """The weighted sum of the parents' rows of each fine label, over all kinds."""
        return _bag_sums(coarse, self.fine_item, self.fine_start, self.fine_weight)

    def to_coarse(self, fine: Float[Tensor, "fine feature"]) -> Float[Tensor, "coarse feature"]:
        """The weighted sum of the children's rows of each coarse label."""
        return _bag_sums(fine, self.coarse_item, self.coarse_start, self.coarse_weight)


def laplacian_edges(graph: LabelGraph, device: torch.device = CPU) -> LaplacianEdges:
    """The edges of a graph on a device, made once and kept as long as the graph."""
    return shared_constants(LaplacianEdges, graph, device)


def _bag_sums(
    rows: Float[Tensor, "_ feature"],
    item: Int[Tensor, " edge"],
    start: Int[Tensor, " bag"],
    weight: Float[Tensor, " edge"] | None,
) -> Float[Tensor, "bag feature"]:
    """Weighted sums of rows, one per bag."""
    own = None if weight is None else weight.to(rows.dtype)
    return embedding_bag(item, rows, start, mode="sum", per_sample_weights=own)


def _chunked_bag_sums(
    rows: Float[Tensor, "_ feature"],
    item: Int[Tensor, " edge"],
    start: Int[Tensor, " bag"],
    weight: Float[Tensor, " edge"] | None,
) -> Iterator[tuple[slice, Float[Tensor, "bag feature"]]]:
    """The same in parts, to limit memory."""
    count, step = len(start), max(1, _MAX_TOGETHER // max(rows.shape[1], 1))
    for first in range(0, count, step):
        part = slice(first, min(first + step, count))
        low, high = int(start[first]), int(start[part.stop]) if part.stop < count else len(item)
        own = None if weight is None else weight[low:high]
        yield part, _bag_sums(rows, item[low:high], start[part] - start[first], own)


def laplacian(
    edges: LaplacianEdges, fine: Float[Tensor, "fine _"], coarse: Float[Tensor, "coarse _"]
) -> Float[Tensor, ""]:
    """The prior of the fine and the coarse weights, one row per label."""
    if fine.shape[1] != coarse.shape[1]:
        raise ShapeError(
            f"the weight prior compares fine and coarse weights, so both need the same features; got {fine.shape[1]} "
            f"and {coarse.shape[1]}. Leave the prior out, or give both heads features of one size"
        )
    form = _Laplacian if torch.compiler.is_compiling() else _ChunkedLaplacian
    result: Tensor = form.apply(fine, coarse, edges)  # type: ignore[no-untyped-call]
    return result


class _ChunkedLaplacian(torch.autograd.Function):
    """The same as `_Laplacian` with less memory: it holds the gradients only. `_Laplacian` can be compiled."""

    @staticmethod
    def forward(
        ctx: Any, fine: Float[Tensor, "fine feature"], coarse: Float[Tensor, "coarse feature"], edges: LaplacianEdges
    ) -> Float[Tensor, ""]:
        ctx.save_for_backward(fine, coarse)
        ctx.edges, ctx.gradients = edges, None
        value, gradients = _value_and_gradients(fine, coarse, edges)
        if any(ctx.needs_input_grad):
            ctx.gradients = gradients
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        refuse_second_derivatives()
        gradients = ctx.gradients
        if gradients is None:
            fine, coarse = ctx.saved_tensors
            gradients = _value_and_gradients(fine, coarse, ctx.edges)[1]
        # The gradients are scaled in place and handed to torch, so a second backward pass must recompute them.
        ctx.gradients = None
        fine_grad, coarse_grad = gradients
        return fine_grad.mul_(grads[0]), coarse_grad.mul_(grads[0]), None


def _value_and_gradients(
    fine: Float[Tensor, "fine feature"], coarse: Float[Tensor, "coarse feature"], edges: LaplacianEdges
) -> tuple[Float[Tensor, ""], tuple[Float[Tensor, "fine feature"], Float[Tensor, "coarse feature"]]]:
    """The prior and Lap V, with little extra memory."""
    with torch.no_grad(), without_autocast(fine.device):
        # A common shift of all rows changes nothing; rows around 0 avoid cancellation.
        centre = fine.mean(dim=0, keepdim=True)
        fine_grad, coarse = fine - centre, coarse - centre
        coarse_grad = edges.coarse_degree.to(coarse.dtype) * coarse
        for part, sums in _chunked_bag_sums(fine_grad, edges.coarse_item, edges.coarse_start, edges.coarse_weight):
            coarse_grad[part] -= sums
        if len(edges.lower):
            step = coarse.index_select(0, edges.higher) - coarse.index_select(0, edges.lower)
            coarse_grad.index_add_(0, edges.higher, step).index_add_(0, edges.lower, step, alpha=-1.0)
        total = torch.zeros((), dtype=torch.float64, device=fine.device)
        for part, sums in _chunked_bag_sums(coarse, edges.fine_item, edges.fine_start, edges.fine_weight):
            # The centred rows are stored where their gradients will be.
            rows = fine_grad[part].clone()
            fine_grad[part] = edges.fine_degree[part].to(rows.dtype) * rows - sums
            total += (rows * fine_grad[part]).sum()
        count = max(1, _MAX_TOGETHER // max(coarse.shape[1], 1))
        for rows, grad in zip(torch.split(coarse, count), torch.split(coarse_grad, count), strict=True):
            total += (rows * grad).sum()
        return 0.5 * total.to(fine.dtype), (fine_grad, coarse_grad)


class _Laplacian(torch.autograd.Function):
    """1/2 trace(V' Lap V); the gradient Lap V is computed in the forward pass."""

    @staticmethod
    def forward(
        ctx: Any, fine: Float[Tensor, "fine feature"], coarse: Float[Tensor, "coarse feature"], edges: LaplacianEdges
    ) -> Float[Tensor, ""]:
        with without_autocast(fine.device):
            # A common shift of all rows changes nothing; rows around 0 avoid cancellation.
            centre = fine.mean(dim=0, keepdim=True)
            fine, coarse = fine - centre, coarse - centre
            fine_grad = edges.fine_degree.to(fine.dtype) * fine - edges.to_fine(coarse)
            coarse_grad = edges.coarse_degree.to(coarse.dtype) * coarse - edges.to_coarse(fine)
            if len(edges.lower):
                step = coarse.index_select(0, edges.higher) - coarse.index_select(0, edges.lower)
                coarse_grad = coarse_grad.index_add(0, edges.higher, step).index_add(0, edges.lower, step, alpha=-1.0)
            ctx.save_for_backward(fine_grad, coarse_grad)
            return 0.5 * ((fine * fine_grad).sum() + (coarse * coarse_grad).sum())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        refuse_second_derivatives()
        fine_grad, coarse_grad = ctx.saved_tensors
        return grads[0] * fine_grad, grads[0] * coarse_grad, None
