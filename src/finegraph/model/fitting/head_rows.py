"""Between heads and the rows that are fitted: to rows to start from, and back when they are found."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor, nn

from finegraph.graph import LabelGraph
from finegraph.model.fitting.rows import Blocks, Strengths
from finegraph.model.fitting.span import Span
from finegraph.nn import BipartiteHead, SoftmaxHead


def with_unseen(rows: Blocks, graph: LabelGraph, seen: Int[Tensor, " label"], strengths: Strengths) -> Blocks:
    """The rows of a whole graph from those fitted to a part of its fine labels: the others get what the priors expect.

    With plain L2 that is 0, so that the parents alone speak; the Laplacian draws them towards their parents.
    """
    known, coarse = rows[0][: len(seen)], rows[1] if len(rows) == 2 else rows[0][len(seen) :]
    fine = known.new_zeros(len(graph), known.shape[1])
    if strengths.laplacian > 0:
        degree = known.new_full((len(graph), 1), strengths.fine)
        start = 0
        for kind in graph.kinds:
            child, label, weight = (torch.from_numpy(array).to(known.device) for array in graph.edges(kind))
            force = (strengths.laplacian * weight).to(known.dtype).unsqueeze(1)
            fine[:, :-1].index_add_(0, child, force * coarse[start + label, :-1])
            degree.index_add_(0, child, force)
            start += len(graph.labels(kind))
        fine = torch.where(degree > 0, fine / degree, 0.0)
    fine[seen] = known
    return (fine, coarse) if len(rows) == 2 else (torch.cat([fine, coarse]),)


def rows_of_head(
    head: BipartiteHead | SoftmaxHead, seen: Int[Tensor, " label"] | None, spans: tuple[Span, ...]
) -> Blocks:
    """The rows of a head, of some fine labels only where `seen` says so."""
    chosen = slice(None) if seen is None else seen
    layers = [(head.fine.weight.detach()[chosen], head.fine.bias.detach()[chosen])]
    if isinstance(head, BipartiteHead):
        assert isinstance(head.coarse, nn.Linear)
        layers.append((head.coarse.weight.detach(), head.coarse.bias.detach()))
    rows = [span.rows(*layer) for span, layer in zip(spans * len(layers), layers, strict=False)]
    return tuple(rows) if len(spans) == 2 else (torch.cat(rows),)


def head_of_rows(
    rows: Blocks, graph: LabelGraph, spans: tuple[Span, ...], *, bipartite: bool
) -> BipartiteHead | SoftmaxHead:
    """The head with these rows."""
    layers = [span.weights(block) for span, block in zip(spans, rows, strict=True)]
    weight, bias = layers[0]
    fine = len(graph)
    with torch.no_grad():
        if bipartite:
            size = spans[1].feature_count if len(spans) == 2 else None
            head: BipartiteHead | SoftmaxHead = BipartiteHead(weight.shape[1], graph, coarse_features=size).to(weight)
            assert isinstance(head, BipartiteHead)
            assert isinstance(head.coarse, nn.Linear)
            coarse_weight, coarse_bias = layers[1] if len(layers) == 2 else (weight[fine:], bias[fine:])
            head.coarse.weight.copy_(coarse_weight)
            head.coarse.bias.copy_(coarse_bias)
            head.silence_numbers()
        else:
            head = SoftmaxHead(weight.shape[1], graph).to(weight)
        head.fine.weight.copy_(weight[:fine])
        head.fine.bias.copy_(bias[:fine])
    return head
