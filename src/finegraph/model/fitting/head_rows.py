"""Conversion between heads and the rows of weights that are fitted.

Rows of numbers use the inner scale of the part of the graph that is fitted; a head uses the scale of the whole graph
(see nn/number_layer.py). The precision of exact values, which fits absorb into the biases, is then that of a
regression whose predictions m / s^2 scatter like the pulls, b = 1 / s^2 - 1, and is subtracted from the biases. This
changes nothing for existing labels, and makes a label of unknown value neither more nor less likely.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import softplus

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.model.fitting.rows import Blocks, Strengths, exact_numbers, number_rows
from finegraph.model.fitting.span import Span
from finegraph.nn import BipartiteHead, SoftmaxHead
from finegraph.nn.number_layer import NumberLayer, inverse_softplus


def with_unseen(rows: Blocks, graph: LabelGraph, seen: Int[Tensor, " label"], strengths: Strengths) -> Blocks:
    """The rows of a whole graph from those of some fine labels: the others get what the priors expect.

    With plain L2 that is 0, so that only the parents count; the Laplacian pulls them towards their parents.
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
    head: BipartiteHead | SoftmaxHead,
    seen: Int[Tensor, " label"] | None,
    spans: tuple[Span, ...],
    part: LabelGraph | None = None,
) -> Blocks:
    """The rows of a head, for all or for some fine labels.

    Args:
        head: the head.
        seen: the fine labels; None for all.
        spans: the spans of its features.
        part: the graph of these labels, if the head has numbers; by default its own graph.
    """
    chosen = slice(None) if seen is None else seen
    weight, bias = head.fine.weight.detach()[chosen], head.fine.bias.detach()[chosen]
    layers = []
    if isinstance(head, BipartiteHead):
        assert isinstance(head.coarse, nn.Linear)
        coarse = [head.coarse.weight.detach()], [head.coarse.bias.detach()]
        if isinstance(head.numbers, NumberLayer):
            numbers, less = _number_layer_rows(head, head.numbers, part or head.graph)
            bias = bias - less.to(bias)
            for into, own in zip(coarse, numbers, strict=True):
                into.append(own.to(weight))
        layers.append((torch.cat(coarse[0]), torch.cat(coarse[1])))
    layers.insert(0, (weight, bias))
    rows = [span.rows(*layer) for span, layer in zip(spans * len(layers), layers, strict=False)]
    return tuple(rows) if len(spans) == 2 else (torch.cat(rows),)


def head_of_rows(
    rows: Blocks,
    graph: LabelGraph,
    spans: tuple[Span, ...],
    *,
    bipartite: bool,
    part: LabelGraph | None = None,
    columns: Float[Tensor, "batch column"] | None = None,
) -> BipartiteHead | SoftmaxHead:
    """The head with these rows.

    Args:
        rows: the rows of the fine labels, the coarse labels and the numbers.
        graph: the graph of the head.
        spans: the spans of its features.
        bipartite: whether it is a bipartite head.
        part: the graph that was fitted, whose scale the rows of numbers use; by default the same.
        columns: the samples that they were fitted to, if there are numbers.
    """
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
            count = len(head.coarse.weight)
            head.coarse.weight.copy_(coarse_weight[:count])
            head.coarse.bias.copy_(coarse_bias[:count])
            bias = bias[:fine]
            if isinstance(head.numbers, NumberLayer):
                own = rows[-1][len(rows[-1]) - (len(coarse_weight) - count) :]
                bias = bias + _put_numbers(
                    head, coarse_weight[count:], coarse_bias[count:], own, part or graph, columns
                ).to(bias)
        else:
            head = SoftmaxHead(weight.shape[1], graph).to(weight)
        head.fine.weight.copy_(weight[:fine])
        head.fine.bias.copy_(bias[:fine])
    return head


def move_numbers(
    head: BipartiteHead, rows: Blocks, by: BipartiteHead, part: LabelGraph, spans: tuple[Span, ...]
) -> None:
    """Update the numbers of a head after a fit that started from it.

    Args:
        head: the head before the fit.
        rows: all rows after the fit.
        by: a head of the part whose pulls are the changes of the pulls.
        part: the graph that was fitted.
        spans: the spans of the features.
    """
    layer, moved = head.numbers, by.numbers
    assert isinstance(layer, NumberLayer)
    assert isinstance(moved, NumberLayer)
    exact, graph = exact_numbers(head.graph), head.graph
    count = sum(len(places) for places in number_rows(exact).values())
    _, biases = spans[-1].weights(rows[-1][len(rows[-1]) - count :])
    for name, places in number_rows(exact).items():
        place = graph.numbers.index(name)
        factor, shift = layer.scale_to(place, graph.number(name), part.number(name))
        pull = layer.bias.detach()[2 * place].double()
        before = float(softplus(layer.bias.detach()[2 * place + 1].double()))
        after = before if exact[name] else float(softplus(biases[places[1]].double())) / factor**2
        with torch.no_grad():
            # On the scale of the layer: a = a_part / factor + b shift.
            layer.weight[2 * place] += moved.weight[2 * place] / factor
            layer.bias[2 * place] = pull + moved.bias[2 * place] / factor + (after - before) * shift
            layer.bias[2 * place + 1] = inverse_softplus(after)


def _put_numbers(
    head: BipartiteHead,
    weight: Float[Tensor, "row feature"],
    bias: Float[Tensor, " row"],
    rows: Float[Tensor, "row column"],
    part: LabelGraph,
    columns: Float[Tensor, "batch column"] | None,
) -> Float[Tensor, " fine"]:
    """Put the rows of numbers into a head; returns what its precisions of exact values subtract from the biases.

    Args:
        head: the head.
        weight: the weights of the rows on features.
        bias: their biases.
        rows: the rows themselves.
        part: the graph that was fitted.
        columns: the samples that it was fitted to; None to leave precisions of exact values at 0.
    """
    graph = head.graph
    assert isinstance(head.numbers, NumberLayer)
    fitted = NumberLayer(weight.shape[1], len(graph.numbers)).to(weight)
    fitted.silence()
    taken_off = torch.zeros(len(graph), dtype=torch.float64)
    exact = exact_numbers(graph)
    for name, places in number_rows(exact).items():
        pull = 2 * graph.numbers.index(name)
        fitted.weight[pull], fitted.bias[pull] = weight[places[0]], bias[places[0]]
        if not exact[name]:
            fitted.bias[pull + 1] = bias[places[1]]
        elif columns is not None:
            square = float((columns @ rows[places[0]]).double().square().mean())
            precision = 0.5 * (math.sqrt(1.0 + 4.0 * square) - 1.0)
            fitted.bias[pull + 1] = inverse_softplus(precision)
            one, own = graph.number(name), part.number(name)
            inner = (one.standardised[0] * one.width + one.centre - own.centre) / own.width
            taken_off += 0.5 * precision * torch.from_numpy(inner**2)
    head.numbers.take(fitted, *([one.number(name) for name in graph.numbers] for one in (part, graph)))
    return taken_off


def _number_layer_rows(
    head: BipartiteHead, layer: NumberLayer, part: LabelGraph
) -> tuple[tuple[Float[Tensor, "row feature"], Float[Tensor, " row"]], Float[Tensor, " fine"]]:
    """The rows of the numbers of a head on the scale of a part of its graph, and what precisions take off the biases.

    Raises:
        InputError: its precisions depend on the features, which fits do not support.
    """
    if not all(layer.constant_precisions()):
        raise InputError(
            "the precisions of numbers of this head depend on the features; expected a head that was fitted, whose "
            "precisions are the same for all samples"
        )
    exact = exact_numbers(head.graph)
    weights, biases = [], []
    less = torch.zeros(len(part), dtype=torch.float64)
    for name in number_rows(exact):
        pull, pull_bias, precision = layer.on_scale(head.graph.numbers.index(name), head.graph.number(name),
                                                    part.number(name))  # fmt: skip
        weights.append(pull)
        biases.append(pull_bias)
        if exact[name]:
            less += 0.5 * precision * torch.from_numpy(part.number(name).standardised[0] ** 2)
        else:
            weights.append(torch.zeros_like(pull))
            biases.append(inverse_softplus(precision))
    return (torch.stack(weights), torch.tensor(biases, dtype=torch.float64)), less
