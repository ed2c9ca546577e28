"""Which photos to label next: those that are expected to improve the model most.

Class means are known up to a posterior covariance C over the fine labels (fitting/class_means.py). A photo of label i
makes it smaller, also for the relatives of i:

    C' = C - c c' / (noise + C_ii)              c: column i of C

The label of a photo is not known, but its posterior p is. What labelling it is expected to gain is the fall of the
variances of all class means, weighted by how often the photos to come are in doubt about each of them:

    gain = sum_i p_i sum_k doubt_k C_ki^2 / (noise + C_ii)          doubt_k = sum over photos of p_k (1 - p_k)

Photos are chosen one after the other; each lets C fall as it is expected to, so that the next one is of something else.
A photo that looks nearly like one that was chosen comes after all others. Cost: fine^2 and photos x fine per choice.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.model.teaching.class_statistics import ClassStatistics

ALIKE = 0.9
"""The cosine of two scaled feature vectors from which photos count as nearly the same."""


class NextPhoto(NamedTuple):
    """A photo to label.

    Attributes:
        number: which of the photos it is.
        gain: what labelling it is expected to gain, as a share of all doubt; after those before it.
        alike: the number of the chosen photo that it looks nearly like; None for the first of its like.
    """

    number: int
    gain: float
    alike: int | None


def next_photos(
    graph: LabelGraph,
    statistics: ClassStatistics,
    features: Float[Tensor, "batch feature"],
    probs: Float[Tensor, "batch fine"],
    count: int,
) -> list[NextPhoto]:
    """The photos to label next, the most telling first.

    Args:
        graph: the label graph.
        statistics: of the fit with all lessons.
        features: the scaled features of unlabelled photos.
        probs: how probable each fine label is for each of them.
        count: how many to choose.
    """
    probs = probs.double()
    noise, covariance = statistics.variances.noise, _posterior_covariance(graph, statistics)
    doubt = (probs * (1.0 - probs)).sum(dim=0)
    total = float(doubt @ covariance.diagonal()) or 1.0
    directions = torch.nn.functional.normalize(features.float(), dim=1)
    left = torch.ones(len(features), dtype=torch.bool)
    alike = torch.full((len(features),), -1)
    chosen_photos: list[NextPhoto] = []
    for _ in range(min(count, len(features))):
        falls = (doubt @ covariance.square()) / (noise + covariance.diagonal())
        gains = probs @ falls
        first = left & (alike < 0)
        gains[~(first if bool(first.any()) else left)] = -1.0
        chosen = int(gains.argmax())
        like = int(alike[chosen])
        chosen_photos.append(NextPhoto(chosen, float(gains[chosen]) / total, None if like < 0 else like))
        left[chosen] = False
        near = (directions @ directions[chosen] >= ALIKE) & left & (alike < 0)
        alike[near] = chosen
        share = probs[chosen] / (noise + covariance.diagonal())
        strong = share.topk(min(8, len(share))).indices  # the labels that it may be; the rest tells nothing
        for label in strong.tolist():
            weight = float(probs[chosen, label])
            column = covariance[:, label].clone()
            covariance -= weight / (noise + weight * float(column[label])) * torch.outer(column, column)
    return chosen_photos


def _posterior_covariance(graph: LabelGraph, statistics: ClassStatistics) -> Float[Tensor, "fine fine"]:
    """The covariance of the class means, per direction of the features, after all photos that there are."""
    variances, links = statistics.variances, statistics.links(graph)
    prior = torch.diag(links.own_variance(variances))
    for name in links.names:
        dense = links.designs[name].to_dense()
        prior += variances.of(name) * (dense @ dense.t())
    seen = statistics.counts.nonzero()[:, 0]
    shown = prior[seen][:, seen] + torch.diag(variances.noise / statistics.counts[seen])
    known: Tensor = prior[:, seen] @ torch.linalg.solve(shown, prior[seen])
    return prior - known
