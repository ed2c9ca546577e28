"""Class statistics for another graph than the one that was fitted, and predictions on held-out photos from them.

Counts and sums of scaled features do not depend on the graph. With another graph, or after adding or removing a kind,
only the variances and the effects change, and both have a closed form. So whether a kind helps can be found
without a new fit. A photo is held out by subtracting it from the sums of its class. Cost: fine labels squared per
step of the variances; for held-out photos, one solve per fold and photos x fine labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.model.fitting.alike_folds import TensorFold
from finegraph.model.fitting.class_means import MAX_DENSE_LABELS, LinkMatrices, fit_variances
from finegraph.model.fitting.descent import graph_of
from finegraph.model.fitting.value_pulls import value_names
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.nn import BipartiteHead, SoftmaxHead


def statistics_for(graph: LabelGraph, known: LabelGraph, statistics: ClassStatistics) -> ClassStatistics:
    """The class statistics of another graph, with the variances of its kinds.

    Args:
        graph: the other graph.
        known: the graph of the statistics.
        statistics: the class statistics of that graph.

    Raises:
        InputError: no fine label has photos.
    """
    counts, sums = statistics.counts, statistics.sums
    if graph.fine != known.fine:
        place = {label: number for number, label in enumerate(known.fine)}
        counts, sums = counts.new_zeros(len(graph)), sums.new_zeros(len(graph), sums.shape[1])
        for number, label in enumerate(graph.fine):
            if label in place:
                counts[number], sums[number] = statistics.counts[place[label]], statistics.sums[place[label]]
    seen = (counts > 0).nonzero()[:, 0]
    if not len(seen):
        raise InputError(
            "none of the fine labels of the graph has photos in the model; are they those of another data set?"
        )
    scales = LinkMatrices(graph, (), graph.numbers).scales
    moved = replace(statistics, counts=counts, sums=sums, scales=scales)
    if graph.fine != known.fine:  # the direction of a number was fitted to the values of these labels only
        moved = replace(moved, pulls=None, share=0.0, potentials=None)
    else:
        names = tuple(name for name in value_names(known) if _is_same_scale(name, graph, known))
        pulls, potentials = moved.pulls, moved.potentials
        moved = replace(
            moved,
            pulls=None if pulls is None else pulls.only(names),
            potentials=None if potentials is None else potentials.only(names),
        )
    if len(seen) > MAX_DENSE_LABELS:  # a sample is enough to estimate the variances
        chosen = torch.randperm(len(seen), generator=torch.Generator().manual_seed(0))[:MAX_DENSE_LABELS]
        seen = seen[chosen].sort().values
    variances = fit_variances(
        LinkMatrices(graph_of(graph, seen), graph.kinds, graph.numbers, scales),
        counts[seen],
        moved.means[seen],
        noise=statistics.variances.noise,
        features=sums.shape[1],
    )
    return replace(moved, variances=variances)


def _is_same_scale(name: str, graph: LabelGraph, known: LabelGraph) -> bool:
    """Whether two graphs have a number or ordered kind with the same scale or order."""
    if name in known.numbers:
        return name in graph.numbers and graph.number(name).scale == known.number(name).scale
    return name in graph.kinds and graph.kind(name).ordered and graph.labels(name) == known.labels(name)


def without_photos(
    statistics: ClassStatistics, features: Float[Tensor, "batch feature"], targets: Int[Tensor, " batch"]
) -> ClassStatistics:
    """The statistics with some of their photos removed."""
    counts, sums = statistics.counts.clone(), statistics.sums.clone()
    counts.index_add_(0, targets, torch.full((len(targets),), -1.0, dtype=torch.float64))
    sums.index_add_(0, targets, -features.double())
    gone = counts < 0.5
    return replace(statistics, counts=torch.where(gone, 0.0, counts), sums=torch.where(gone[:, None], 0.0, sums))


def head_posterior(
    head: BipartiteHead | SoftmaxHead, features: Float[Tensor, "batch feature"], temperature: float = 1.0
) -> Posterior:
    """The posterior of a head on scaled features."""
    with torch.no_grad():
        posterior: Posterior = head(features.to(head.fine.weight))
        return posterior.tempered(temperature)


def held_out_probs(
    graph: LabelGraph,
    statistics: ClassStatistics,
    features: Float[Tensor, "batch feature"],
    targets: Int[Tensor, " batch"],
    folds: Sequence[TensorFold],
    temperature: float = 1.0,
) -> tuple[Float[Tensor, "row fine"], Int[Tensor, " row"]]:
    """The probabilities of the fine labels on photos held out fold by fold, and the indices of these photos.

    Args:
        graph: the label graph.
        statistics: the class statistics of all photos.
        features: the scaled features of the photos.
        targets: their fine labels.
        folds: the photos that stay and those that are held out.
        temperature: the divisor of the scores.
    """
    probs, rows = [features.new_zeros(0, len(graph))], [targets[:0]]
    for _, held in folds:
        rest = without_photos(statistics, features[held], targets[held])
        probs.append(head_posterior(rest.solve(graph), features[held], temperature).log_probs().exp())
        rows.append(held)
    return torch.cat(probs), torch.cat(rows)
