"""Class means as sums of effects of the label graph: a linear mixed model, solved in closed form.

    mean_i = mu_0 + sum_j sum_c g^j_ic u^j_c + sum_n v^n_i w^n + e_i
    u^j_c ~ N(0, kind_j I),   w^n ~ N(0, number_n I),   e_i ~ N(0, own I)
    M_i    = mean_i + noise of variance (noise / n_i)       the mean of n_i samples

With D_j = G_j, or the column v^n of a number, K = own I + sum_j kind_j D_j D_j' and V = K + noise diag(1 / n), the
posterior means of the effects are

    B = V^-1 (M - mu_0),     e = own B,     u^j = kind_j D_j' B

so a fine label without samples gets its mean from its parents and values. An unknown parent counts as a label
that no other fine label has: its variance is added to that of e_i. So is that of a value with a spread t, which
is t^2 number_n, with t = 1 if the value is unknown. One of several parents, with weights r, is partly known:
r u is its mean, and kind_j (1 - |r|^2), the rest of its variance, is added to that of e_i likewise. The labels of
an ordered kind form a walk: the effect of each is that of the one below plus a step, u = A steps and D = G A, so that
neighbours are more alike than others.

The variances maximise the likelihood of M, with all directions of the features alike (`fit_variances`). They
show how much each kind matters. Cost: one (fine x fine) system, or conjugate gradients over the edges if there are many
fine labels: linear in fine labels, edges and features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.graph import LabelGraph

MAX_DENSE_LABELS = 1500
"""Up to this many fine labels the system is solved as a dense matrix."""
_DIRECTIONS = 32
"""How many directions of the features are solved together if there are many fine labels."""
_MAX_PAIRS = 1 << 22
"""Up to this many pairs of a label without samples and one with some are compared."""
FREE_MEAN = 10.0
"""The prior variance of mu_0, as a multiple of that of the class means: large, so that it is free."""
_LENGTH_COUNT = 5.0
"""From about this many samples on, the length of a class mean reflects their scatter rather than their number."""


@dataclass(frozen=True, kw_only=True)
class Variances:
    """The variances of class means, per direction of the features.

    Attributes:
        own: due to the fine label itself.
        kinds: due to each kind of the graph.
        noise: the variance of a single sample around the mean of its class.
        numbers: due to each number, for values of variance 1.
    """

    own: float
    kinds: dict[str, float]
    noise: float
    numbers: dict[str, float] = field(default_factory=dict)

    def of(self, name: str) -> float:
        """The variance of a kind or a number."""
        return self.kinds[name] if name in self.kinds else self.numbers[name]


@dataclass(frozen=True, kw_only=True)
class MeanComponents:
    """The components of class means.

    Attributes:
        centre: mu_0.
        fine: e, zero for fine labels without samples.
        coarse: u of each kind (for an ordered kind its steps), and w of each number as one row.
    """

    centre: Float[Tensor, " feature"]
    fine: Float[Tensor, "fine feature"]
    coarse: dict[str, Float[Tensor, "_ feature"]]


class LinkMatrices:
    """The links and values of a graph as matrices for sums over parents and over children.

    Attributes:
        kinds: the kinds that class means depend on.
        numbers: the numbers that they depend on.
        names: both.
        matrices: per kind the weights of its links, (fine, label).
        designs: per kind and number the matrix D, with one column per effect.
        unknown: per kind 1 where the parent is unknown, else 0; per number the variance of the value.
        scales: per number the values that are 0 and 1 on its inner scale (after the logarithm, on a log scale).
    """

    def __init__(
        self,
        graph: LabelGraph,
        kinds: Sequence[str],
        numbers: Sequence[str] = (),
        scales: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        """Keep the links of some kinds and the values of some numbers.

        Args:
            graph: the label graph.
            kinds: the kinds that class means depend on.
            numbers: the numbers that they depend on.
            scales: the scales of an earlier graph, to keep its values unchanged; by default those of this graph.
        """
        self.kinds, self.numbers = tuple(kinds), tuple(numbers)
        self.names = (*self.kinds, *self.numbers)
        self.fine_count = len(graph)
        self.matrices: dict[str, Tensor] = {}
        self.designs: dict[str, Tensor] = {}
        self.unknown: dict[str, Float[Tensor, " fine"]] = {}
        self.loose: dict[str, Float[Tensor, " fine"]] = {}
        self.scales: dict[str, tuple[float, float]] = {}
        self._steps: dict[str, Float[Tensor, "label step"]] = {}
        for kind in self.kinds:
            fine, coarse, weight = graph.edges(kind)
            shape = (len(graph), len(graph.labels(kind)))
            places = torch.from_numpy(np.stack([fine, coarse]))
            matrix = torch.sparse_coo_tensor(places, torch.from_numpy(weight), shape, check_invariants=True)
            self.matrices[kind] = self.designs[kind] = matrix.coalesce().double()
            known = torch.zeros(len(graph), dtype=torch.float64)
            known[torch.from_numpy(fine)] = 1.0
            self.unknown[kind] = 1.0 - known
            squares = torch.zeros(len(graph), dtype=torch.float64)
            squares.index_add_(0, torch.from_numpy(fine), torch.from_numpy(weight).double().square())
            self.loose[kind] = (1.0 - squares).clamp_min(0.0)
            if graph.kind(kind).ordered and shape[1] > 2:
                self._steps[kind] = _steps(shape[1])
                self.designs[kind] = torch.sparse.mm(self.matrices[kind], self._steps[kind]).to_sparse()
                self.loose[kind] = self.unknown[kind]  # neighbouring steps differ little, so the open variance is small
        for name in self.numbers:
            number = graph.number(name)
            centre, width = (scales or {}).get(name, (number.centre, number.width))
            values, spreads = number.standardised
            moved = np.where(number.known, (values * number.width + number.centre - centre) / width, 0.0)
            around = np.where(number.known, spreads * number.width / width, 1.0)
            self.scales[name] = (centre, width)
            self.designs[name] = torch.from_numpy(moved)[:, None].to_sparse().coalesce()
            self.unknown[name] = self.loose[name] = torch.from_numpy(around**2)

    def down(self, coarse: Mapping[str, Float[Tensor, "_ feature"]]) -> Float[Tensor, "fine feature"]:
        """For each fine label, the sum of the effects of its parents and values."""
        first, *others = self.names
        found: Tensor = torch.sparse.mm(self.designs[first], coarse[first])
        for name in others:
            found.addmm_(self.designs[name], coarse[name])
        return found

    def of_labels(self, kind: str, effects: Float[Tensor, "_ feature"]) -> Float[Tensor, "label feature"]:
        """The effect of each label of a kind; for an ordered kind, the sum of its steps."""
        return self._steps[kind] @ effects if kind in self._steps else effects

    def own_variance(self, variances: Variances) -> Float[Tensor, " fine"]:
        """The variance of e_i: its own, and that of unknown parents and values."""
        own = torch.full((self.fine_count,), variances.own, dtype=torch.float64)
        for name in self.names:
            own += variances.of(name) * self.loose[name]
        return own


def _steps(count: int) -> Float[Tensor, "label step"]:
    """A: the labels of an ordered kind as a walk around 0, with the same total variance as independent effects."""
    walk = torch.ones(count, count - 1, dtype=torch.float64).tril(-1)
    walk = walk - walk.mean(dim=0)
    return walk * ((count - 1) / walk.square().sum()).sqrt()


def solve_effects(
    links: LinkMatrices,
    variances: Variances,
    counts: Float[Tensor, " fine"],
    means: Float[Tensor, "fine feature"],
) -> MeanComponents:
    """The posterior means of all effects.

    Args:
        links: the links of the graph.
        variances: the variances of class means.
        counts: how many samples each fine label has; may be 0.
        means: their mean; rows of labels without samples are ignored.
    """
    seen = counts > 0
    centre = means[seen].mean(dim=0) if bool(seen.any()) else torch.zeros_like(means[0])
    own = links.own_variance(variances)
    diagonal = own[seen] + variances.noise / counts[seen]
    shown = means[seen].sub_(centre)
    matrices = {name: _rows(links.designs[name], seen) for name in links.names}
    strengths = {name: variances.of(name) for name in links.names}
    if int(seen.sum()) <= MAX_DENSE_LABELS:
        force = torch.linalg.solve(_covariance(matrices, strengths, diagonal), shown)
    else:
        force = conjugate_gradients(matrices, strengths, diagonal, shown)
    coarse = {name: strengths[name] * torch.sparse.mm(matrices[name].t(), force) for name in links.names}
    del shown
    fine = torch.zeros_like(means)
    fine[seen] = force.mul_(own[seen, None])
    return MeanComponents(centre=centre, fine=fine, coarse=coarse)


def class_means(links: LinkMatrices, effects: MeanComponents) -> Float[Tensor, "fine feature"]:
    """mu_0 + e + the sum of the effects of parents and values."""
    means = effects.centre + effects.fine
    return means.add_(links.down(effects.coarse)) if links.names else means


def score_factors(
    means: Float[Tensor, "fine feature"],
    counts: Float[Tensor, " fine"],
    unseen_share: float = 0.0,
    unseen_reach: float = 0.0,
) -> tuple[Float[Tensor, " fine"], Float[Tensor, " fine"]]:
    """The factor of each class mean in the score of its class, and the bias of the score.

    The distance |z - mean_i|^2 gives `mean_i' z - |mean_i|^2 / 2`. But all z have the same length, so the mean of many
    samples is longer the less they scatter, and distances would disadvantage classes with much scatter. Means of many
    samples are therefore rescaled to one length L. Means of few samples, whose length reflects uncertainty, are not:

        score_i = (L / |mean_i|)^w mean_i' z - ((1 - w) |mean_i|^2 + w L^2) / 2          w = n_i / (n_i + 5)

    The mean of a label without samples comes from its parents alone. It is short, so every photo would be near it. Its
    bias therefore moves towards that of means of length L, by a share that held-out classes choose. Where its parents
    have one other child, it may also be long and point to the mean of that child, whose samples it would take. So its
    bias is at most such that each class with samples keeps them around its own mean, as far as `unseen_reach`.

    Args:
        means: the class means.
        counts: how many samples each fine label has.
        unseen_share: w in the bias of labels without samples.
        unseen_reach: how far from its mean a class keeps samples against a label without any; 0 to let them compete
            freely, as with very many pairs of both.
    """
    squares = torch.linalg.vecdot(means, means)
    seen = counts > 0
    typical = squares[seen].mean() if bool(seen.any()) else squares.mean()
    share = torch.where(squares > 0, counts / (counts + _LENGTH_COUNT), 0.0)
    stretch = (typical / torch.where(squares > 0, squares, 1.0)).pow(0.5 * share)
    share = torch.where(seen, share, unseen_share)
    bias = -0.5 * ((1.0 - share) * squares + share * typical)
    if unseen_reach and 0 < int(seen.sum()) * int((~seen).sum()) <= _MAX_PAIRS:
        weights, highest = stretch[seen, None] * means[seen], bias[seen]
        highest = highest + torch.linalg.vecdot(weights, means[seen]) - means[~seen] @ means[seen].t()
        highest -= unseen_reach * torch.cdist(means[~seen], weights)
        bias[~seen] = torch.minimum(bias[~seen], highest.amin(dim=1))
    return stretch, bias - bias.max()


def fit_variances(
    links: LinkMatrices,
    counts: Float[Tensor, " fine"],
    means: Float[Tensor, "fine feature"],
    *,
    noise: float,
    features: int,
    start: Variances | None = None,
    tolerance: float = 0.01,
    max_iter: int = 200,
) -> Variances:
    """The most likely variances of class means, for a known noise.

    Each step multiplies a variance by the root of its observed over its expected contribution; the likelihood
    never falls (an MM algorithm for variance components).

    Args:
        links: the links of the graph.
        counts: how many samples each fine label has; may be 0.
        means: their mean.
        noise: the variance of a single sample around the mean of its class.
        features: the number of directions of the features; may exceed the columns of `means`.
        start: variances to start from.
        tolerance: stop when no variance changes by more than this share.
        max_iter: the maximum number of steps.
    """
    seen = counts > 0
    shown = means[seen] - means[seen].mean(dim=0)
    products = shown @ shown.t() / features
    spread = float(products.diagonal().mean()) or 1.0
    parts = [_used_columns(_rows(links.designs[name], seen)) for name in links.names]
    matrix, sizes = torch.cat(parts or [shown[:, :0]], dim=1), [part.shape[1] for part in parts]
    kind_of_column = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes, dtype=torch.long))
    loose = torch.stack([links.loose[name][seen] for name in links.names] or [shown[:, 0]])[: len(sizes)]
    fixed = torch.diag(noise / counts[seen]) + FREE_MEAN * spread

    def shares(side: Tensor) -> Tensor:
        """The trace of a matrix times the covariance of each variance component: own, then the others."""
        columns = ((side @ matrix) * matrix).sum(dim=0)
        kinds = torch.zeros(len(sizes), dtype=torch.float64).index_add_(0, kind_of_column, columns)
        return torch.cat([side.diagonal().sum()[None], kinds + loose @ side.diagonal()])

    first = spread / (len(links.names) + 1)
    found = (
        torch.full((len(links.names) + 1,), first, dtype=torch.float64)
        if start is None
        else torch.tensor([start.own, *(start.of(name) for name in links.names)], dtype=torch.float64)
    )
    found = found.clamp_min(1e-9 * spread)
    for _ in range(max_iter):
        covariance = fixed + (matrix * found[1:][kind_of_column]) @ matrix.t()
        covariance.diagonal().add_(found[0] + found[1:] @ loose)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
        # What a kind with one label contributes is 0 around the mean; rounding may make it less.
        step = (shares(inverse @ products @ inverse).clamp_min(0.0) / shares(inverse)).sqrt()
        found = (found * step).clamp_min(1e-9 * spread)
        moving = found > 1e-6 * spread
        if float((step - 1.0).abs()[moving].max() if bool(moving.any()) else 0.0) < tolerance:
            break
    own, *values = found.tolist()
    by_name = dict(zip(links.names, values, strict=True))
    return Variances(
        own=own,
        kinds={kind: by_name[kind] for kind in links.kinds},
        noise=noise,
        numbers={name: by_name[name] for name in links.numbers},
    )


def _rows(matrix: Tensor, wanted: Tensor) -> Tensor:
    """Some rows of a sparse matrix."""
    return matrix if bool(wanted.all()) else matrix.index_select(0, wanted.nonzero()[:, 0]).coalesce()


def _covariance(matrices: dict[str, Tensor], kinds: dict[str, float], diagonal: Tensor) -> Tensor:
    """V as a dense matrix."""
    covariance = torch.diag(diagonal)
    for kind, matrix in matrices.items():
        dense = _used_columns(matrix)
        covariance += kinds[kind] * (dense @ dense.t())
    return covariance


def _used_columns(matrix: Tensor) -> Tensor:
    """The nonempty columns of a sparse matrix, as a dense one: a few hundred rows use few of many columns."""
    if not matrix.is_sparse:
        return matrix
    matrix = matrix.coalesce()
    row, column = matrix.indices()
    used, place = torch.unique(column, return_inverse=True)
    dense = matrix.values().new_zeros(len(matrix), len(used))
    return dense.index_put_((row, place), matrix.values())


def conjugate_gradients(
    matrices: Mapping[str, Float[Tensor, "fine _"]],
    kinds: Mapping[str, float],
    diagonal: Float[Tensor, " fine"],
    right: Float[Tensor, "fine feature"],
    tolerance: float = 1e-9,
) -> Float[Tensor, "fine feature"]:
    """V^-1 right, without V: a step costs a pass over the edges. Its diagonal is the preconditioner.

    Directions do not depend on each other; they are solved some at a time, so that what a step needs stays small.
    """
    transposed = {kind: matrix.t().coalesce() for kind, matrix in matrices.items()}

    def times(rows: Tensor) -> Tensor:
        out = diagonal[:, None] * rows
        for kind, matrix in matrices.items():
            out.addmm_(matrix, torch.sparse.mm(transposed[kind], rows), alpha=kinds[kind])
        return out

    scale = diagonal.clone()
    for kind, matrix in matrices.items():
        scale += kinds[kind] * torch.sparse.sum(matrix * matrix, dim=1).to_dense()
    scale = 1.0 / scale[:, None]
    found = torch.empty_like(right)
    for start in range(0, right.shape[1], _DIRECTIONS):
        part = slice(start, start + _DIRECTIONS)
        rest = right[:, part].contiguous() if right.shape[1] > _DIRECTIONS else right.clone()
        enough = tolerance**2 * (rest * rest).sum(dim=0)
        near = scale * rest
        along, size = near.clone(), (rest * near).sum(dim=0)
        own = torch.zeros_like(rest)
        for _ in range(len(right)):
            ahead = times(along)
            step = size / (along * ahead).sum(dim=0).clamp_min(torch.finfo(right.dtype).tiny)
            own.addcmul_(step, along)
            rest.addcmul_(step, ahead, value=-1.0)
            if bool(((rest * rest).sum(dim=0) <= enough).all()):
                break
            torch.mul(scale, rest, out=near)
            size, before = (rest * near).sum(dim=0), size
            along.mul_(size / before.clamp_min(torch.finfo(right.dtype).tiny)).add_(near)
        found[:, part] = own
    return found
