"""Which photos to label next: those that are expected to improve the model most.

Class means are known up to a posterior covariance C over the fine labels (fitting/class_means.py). A photo of label i
makes it smaller, also for the relatives of i:

    C' = C - c c' / (noise + C_ii)              c: column i of C

The label of a photo is not known, but its posterior p is. What labelling it is expected to gain is the fall of the
variances of all class means, weighted by how often the photos to come are in doubt about each of them:

    gain = sum_i p_i sum_k doubt_k C_ki^2 / (noise + C_ii)          doubt_k = sum over photos of p_k (1 - p_k)

Photos are chosen one after the other; each reduces C as expected, so that the next one shows something else.
A photo that looks nearly like one that was chosen comes after all others.

Of very many fine labels only those count that the photos are most in doubt about (`doubtful_labels`): for them C is the
same, as all photos of all labels are conditioned on. Cost: labels^2 and photos x labels per choice; before the first,
one system of the fine labels that have photos, by conjugate gradients over the edges if they are many.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.model.fitting.class_means import MAX_DENSE_LABELS, LinkMatrices, conjugate_gradients
from finegraph.model.teaching.class_statistics import ClassStatistics

ALIKE = 0.9
"""The cosine of two scaled feature vectors from which photos count as nearly the same."""


MAX_DOUBTFUL = 256
"""How many fine labels count if there are too many for a matrix of all."""
_COLUMNS = 64
"""How many columns of the covariance are solved for at a time."""
_TOLERANCE = 1e-5
"""How exact conjugate gradients are: gains are compared, and these differ by more."""


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
    probs: Float[Tensor, "batch label"],
    count: int,
    labels: Int[Tensor, " label"] | None = None,
) -> list[NextPhoto]:
    """The photos to label next, the most telling first.

    Args:
        graph: the label graph.
        statistics: of the fit with all lessons.
        features: the scaled features of unlabelled photos.
        probs: how probable each of the labels is for each of them.
        count: how many to choose.
        labels: the fine labels that count, see `doubtful_labels`; by default all.
    """
    probs = probs.double()
    noise, covariance = statistics.variances.noise, _posterior_covariance(graph, statistics, labels)
    doubt = doubt_of(probs)
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


def doubt_of(probs: Float[Tensor, "batch label"]) -> Float[Tensor, " label"]:
    """How often photos are in doubt about each label."""
    return (probs * (1.0 - probs)).sum(dim=0)


def doubtful_labels(doubt: Float[Tensor, " fine"]) -> Int[Tensor, " label"] | None:
    """The fine labels that count, in their order; None if there are so few that all do.

    Args:
        doubt: how often photos are in doubt about each fine label.
    """
    if len(doubt) <= MAX_DENSE_LABELS:
        return None
    return doubt.topk(MAX_DOUBTFUL).indices.sort().values


def _posterior_covariance(
    graph: LabelGraph, statistics: ClassStatistics, labels: Int[Tensor, " label"] | None = None
) -> Float[Tensor, "label label"]:
    """The covariance of the means of some classes, per direction of the features, after all photos that there are."""
    links = statistics.links(graph)
    labels = torch.arange(len(graph)) if labels is None else labels
    prior = _Prior(links, statistics, labels)
    parts = torch.split(labels, _COLUMNS)
    covariance = torch.cat([prior.between(labels, part) for part in parts], dim=1)
    if len(prior.seen):
        covariance -= torch.cat([prior.known(part) for part in parts], dim=1)
    return covariance


class _Prior:
    """The covariance of class means before all photos, and how much of it photos have removed."""

    def __init__(self, links: LinkMatrices, statistics: ClassStatistics, labels: Int[Tensor, " label"]) -> None:
        self.seen = statistics.counts.nonzero()[:, 0]
        self._links, self._labels = links, labels
        self._strengths = {name: statistics.variances.of(name) for name in links.names}
        self._own = links.own_variance(statistics.variances)
        self._diagonal = self._own[self.seen] + statistics.variances.noise / statistics.counts[self.seen]
        self._rows = {name: links.designs[name].index_select(0, self.seen).coalesce() for name in links.names}
        self._factor = None
        if 0 < len(self.seen) <= MAX_DENSE_LABELS:
            shown = torch.diag(self._diagonal - self._own[self.seen]) + self.between(self.seen, self.seen)
            self._factor = torch.linalg.cholesky(shown)

    def between(self, one: Int[Tensor, " row"], two: Int[Tensor, " column"]) -> Float[Tensor, "row column"]:
        """The covariance of some class means with others."""
        found = self._own[one, None] * (one[:, None] == two)
        for name, strength in self._strengths.items():
            design = self._links.designs[name]
            other = design.index_select(0, two).to_dense().t()
            found += strength * torch.sparse.mm(design.index_select(0, one), other)
        return found

    def known(self, part: Int[Tensor, " column"]) -> Float[Tensor, "label column"]:
        """How much of the covariance of all labels with some of them photos have removed."""
        right = self.between(self.seen, part)
        if self._factor is not None:
            force = torch.cholesky_solve(right, self._factor)
        else:
            force = conjugate_gradients(self._rows, self._strengths, self._diagonal, right, _TOLERANCE)
        found: Float[Tensor, "label column"] = torch.zeros(len(self._labels), len(part), dtype=torch.float64)
        place = torch.searchsorted(self.seen, self._labels).clamp_max(len(self.seen) - 1)
        own = self._own[self._labels] * (self.seen[place] == self._labels)
        found += own[:, None] * force[place]
        for name, strength in self._strengths.items():
            design = self._links.designs[name].index_select(0, self._labels)
            found += strength * torch.sparse.mm(design, torch.sparse.mm(self._rows[name].t(), force))
        return found
