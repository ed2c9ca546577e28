"""Fit a head in closed form: class means in a whitened space, held together by the label graph.

    z       = scaled features                     whitened by the shrunk covariance, of one length (whitening.py)
    z | i   ~ N(mean_i, noise I)                  mean_i = mu_0 + effects of its parents + its own (class_means.py)
    score_i = b (mean_i' z - |mean_i|^2 / 2)      b: one number that makes the probabilities true

The scores split into parts of kinds and of fine labels: they are a `BipartiteHead` on z, and everything that a
posterior answers works as ever. There is no descent and there are no learning rates.

Nothing has to be set. Variances come from the likelihood of the class means. The covariance, its shrinkage and whether
the graph takes part are chosen by the likelihood of held-out samples, and so is b. Photos of a class that look alike
are held out together: otherwise copies of a photo make every setting look good. Where every class has a single sample
there is nothing to hold out; then fixed values are taken, which are stated below.

Cost: an eigenvalue problem of the smaller of samples and features per fold, then a few products per setting. Strengths
are chosen on at most 512 fine labels, so the cost of that does not grow with their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from finegraph.errors import InputError, ShapeError
from finegraph.graph import LabelGraph
from finegraph.model.fitting.class_means import Effects, Links, Variances, class_means, fit_variances, solve_effects
from finegraph.model.fitting.descent import HEADS
from finegraph.model.fitting.fit_samples import NOT_OBSERVED, check_fine
from finegraph.model.fitting.whitening import BlockAxes, Covariance, Seen, block_axes_of
from finegraph.nn import BipartiteHead, SoftmaxHead
from finegraph.nn.scaling import Scaling

FOLDS = 5
SHRINKAGES: dict[Covariance, tuple[float, ...]] = {"within": (0.1, 0.3, 1.0, 3.0), "total": (1.0, 3.0, 10.0)}
"""What is tried of each covariance."""
MAX_SELECTION_LABELS = 512
MAX_SELECTION_SAMPLES = 4096
MAX_SELECTION_PHOTOS = 64
"""How many fine labels, samples in all, and samples of a fine label strengths are chosen by at the most."""

SINGLE_SHRINKAGE = 10.0
SINGLE_NOISE = 0.5
SINGLE_DIRECTIONS = 18.0
"""Where no class has two samples: the shrinkage of the total covariance, the share of noise in the variance of z, and
how many directions of z are as good as independent."""


_MIN_NOISE = 1e-6
"""Where all samples of each class are the same; the variance of z is 1."""


@dataclass(frozen=True, kw_only=True)
class PrototypeSettings:
    """What is to be fitted; everything else is chosen by the data."""

    head: Literal["bipartite", "softmax"] = "bipartite"
    """Which head; the class means of a softmax head do not depend on the graph."""
    graph: bool | None = None
    """Whether class means depend on the label graph; by default where that makes held-out samples more likely."""
    shrinkages: dict[Covariance, tuple[float, ...]] = field(default_factory=lambda: dict(SHRINKAGES))
    """The covariances and shrinkages to choose from."""

    def __post_init__(self) -> None:
        if self.head not in ("bipartite", "softmax"):
            raise InputError(f"head: expected 'bipartite' or 'softmax', got {self.head!r}")
        if self.head == "softmax" and self.graph:
            raise InputError("graph: the class means of a softmax head do not depend on it; use the bipartite head")
        tried = [value for values in self.shrinkages.values() for value in values]
        if not tried or not all(0.0 < value < math.inf for value in tried):
            raise InputError(f"shrinkages: expected finite numbers above 0, got {self.shrinkages!r}")


@dataclass(frozen=True, kw_only=True)
class PrototypeFit:
    """A fitted head, the step in front of it, and what was chosen.

    Attributes:
        scaling: brings features to the form that the head takes.
        head: the head on scaled features.
        covariance: around which means features were whitened.
        shrinkage: of that covariance.
        variances: how far class means are spread by each kind, by their own, and by noise.
        temperature: what scores of fully independent directions were divided by, 1 / (b noise).
        held_out: how many samples the choice was made by; 0 where none could be held out.
        log_likelihood: their mean log probability; None where there are none.
    """

    scaling: Scaling
    head: BipartiteHead | SoftmaxHead
    covariance: Covariance
    shrinkage: float
    variances: Variances
    temperature: float
    held_out: int
    log_likelihood: float | None


@dataclass(frozen=True)
class _Data:
    """Samples with a fine label and a weight; features may consist of blocks."""

    features: Float[Tensor, "batch feature"]
    targets: Int[Tensor, " batch"]
    weight: Float[Tensor, " batch"]
    block_sizes: tuple[int, ...]

    def rows(self, rows: Tensor) -> _Data:
        return replace(self, features=self.features[rows], targets=self.targets[rows], weight=self.weight[rows])

    def axes(self, covariance: Covariance) -> BlockAxes:
        return block_axes_of(self.features, self.targets, self.weight, covariance, self.block_sizes)


@dataclass(frozen=True)
class _Fold:
    """One covariance of the samples that stay, and both sides seen along its axes."""

    axes: BlockAxes
    kept: tuple[Seen, ...]
    kept_data: _Data
    held: tuple[Seen, ...]
    held_data: _Data


@dataclass(frozen=True)
class _Choice:
    """A setting and how it did."""

    covariance: Covariance
    shrinkage: float
    variances: Variances
    strength: float
    held_out: int = 0
    likelihood: float = -math.inf
    error: float = 0.0


def fit_prototypes(
    features: Float[Tensor, "batch feature"],
    targets: Int[Tensor, " batch"],
    graph: LabelGraph,
    settings: PrototypeSettings | None = None,
    *,
    sample_weight: Float[Tensor, " batch"] | None = None,
    block_sizes: Sequence[int] | None = None,
) -> PrototypeFit:
    """Fit class means to features.

    Args:
        features: one row per sample.
        targets: the fine label of each sample. Samples whose label was not observed (-100) take no part: they say
            nothing about class means.
        graph: the label graph. Fine labels without a sample get the mean that their parents give.
        settings: what to choose from; the defaults of `PrototypeSettings` where nothing is given.
        sample_weight: how many samples each counts as.
        block_sizes: the sizes of the blocks that features consist of, such as those of several networks; each is
            whitened on its own. By default one block.

    Raises:
        InputError: there is no sample with a fine label, or features are not finite.
        ShapeError: the sizes of blocks do not add up to the number of features.

    Example:
        >>> graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
        >>> features = torch.eye(3).repeat(2, 1)
        >>> fit = fit_prototypes(features, torch.tensor([0, 1, 2, 0, 1, 2]), graph)
        >>> fit.head(fit.scaling(features)).log_probs().argmax(dim=1).tolist()
        [0, 1, 2, 0, 1, 2]
    """
    settings = settings or PrototypeSettings()
    sizes = (features.shape[1],) if block_sizes is None else tuple(block_sizes)
    if sum(sizes) != features.shape[1] or min(sizes, default=0) < 1:
        raise ShapeError(f"block_sizes: expected sizes that add up to {features.shape[1]} features, got {sizes}")
    data, shift, size = _standardised(_merged(_usable(features, targets, graph, sample_weight, sizes)))
    choice = _choose(data, graph, settings)
    axes = data.axes(choice.covariance)
    links = Links(graph, tuple(choice.variances.kinds))
    counts, means = _class_sums(axes.white(axes.seen(data.features), choice.shrinkage), data, len(graph))
    effects = solve_effects(links, choice.variances, counts, means)
    return PrototypeFit(
        scaling=axes.scaling(choice.shrinkage).before(shift, size).to(features.dtype),
        head=_head(graph, settings, links, effects, axes, choice.strength).to(features.dtype),
        covariance=choice.covariance,
        shrinkage=choice.shrinkage,
        variances=choice.variances,
        temperature=1.0 / (choice.strength * choice.variances.noise),
        held_out=choice.held_out,
        log_likelihood=choice.likelihood if choice.held_out else None,
    )


def _usable(
    features: Tensor, targets: Tensor, graph: LabelGraph, sample_weight: Tensor | None, block_sizes: tuple[int, ...]
) -> _Data:
    """The samples that say something about class means."""
    weight = torch.ones(len(features)) if sample_weight is None else sample_weight
    data = _Data(features, targets, weight.double(), block_sizes)
    data = data.rows((targets != NOT_OBSERVED) & (weight > 0))
    if not len(data.targets):
        raise InputError("targets: expected at least one sample with a fine label and a weight above 0, got none")
    check_fine(torch.unique(data.targets), graph)
    if not bool(torch.isfinite(data.features).all()):
        row = int((~torch.isfinite(data.features)).any(dim=1).nonzero()[0])
        raise InputError(f"features: expected finite numbers, got {data.features[row].tolist()[:3]}... in row {row}")
    return data


def _merged(data: _Data) -> _Data:
    """Each sample once: copies are one sample of more weight, so that none can be held out while another stays."""
    rows = np.ascontiguousarray(np.concatenate([data.features.numpy(), data.targets.numpy()[:, None]], axis=1))
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    weight = torch.zeros(len(first), dtype=torch.float64).index_add_(0, torch.from_numpy(place), data.weight)
    once = data.rows(torch.from_numpy(first))
    return replace(once, weight=weight)


def _standardised(data: _Data) -> tuple[_Data, Tensor, float]:
    """Features around 0 and of about size 1, so that no square of them is too large or too small; mean and size.

    Samples are put into an order of their own, so that the one they came in changes nothing.
    """
    share = data.weight / data.weight.sum()
    shift = share @ data.features.double()
    centred = data.features.double() - shift
    size = float(centred.abs().max()) or 1.0
    centred /= size
    order = torch.argsort(centred @ torch.arange(1.0, centred.shape[1] + 1.0, dtype=torch.float64).cos())
    return replace(data, features=centred).rows(order), shift, size


# ---- choosing -------------------------------------------------------------------------------------------------------


def _choose(data: _Data, graph: LabelGraph, settings: PrototypeSettings) -> _Choice:
    """The setting under which held-out samples are most likely."""
    data, graph = _selection(data, graph)
    folds = alike_folds(data.features, data.targets, FOLDS)
    wanted = settings.graph if graph.kinds and settings.head == "bipartite" else False
    kinds: list[tuple[str, ...]] = [()] if wanted is False else [graph.kinds] if wanted else [graph.kinds, ()]
    if not folds:
        return _fixed(data, graph, kinds[0])
    choices = []
    for covariance, shrinkages in settings.shrinkages.items():
        whole = data.axes(covariance)
        seen = whole.seen(data.features)
        parts = [_fold(data, kept, held, covariance) for kept, held in folds]
        start: dict[tuple[str, ...], Variances] = {}
        for shrinkage, used in product(shrinkages, kinds):
            links = Links(graph, used)
            noise = _held_out_noise(parts, shrinkage, len(graph))
            counts, means = _class_sums(whole.white(seen, shrinkage), data, len(graph))
            size = whole.feature_count
            start[used] = fit_variances(links, counts, means, noise=noise, features=size, start=start.get(used))
            choices.append(_judge(parts, links, covariance, shrinkage, start[used]))
    return _safest(choices)


def _safest(choices: Sequence[_Choice]) -> _Choice:
    """Of the settings like the most likely one, that with the strongest shrinkage which is as likely but for chance.

    That is the rule of one standard error. Held-out samples were drawn like the others; photos to come may differ more.
    """
    best = max(choices, key=lambda choice: choice.likelihood)
    alike = [
        one
        for one in choices
        if one.covariance == best.covariance and one.variances.kinds.keys() == best.variances.kinds.keys()
    ]
    return max((one for one in alike if one.likelihood >= best.likelihood - best.error), key=lambda one: one.shrinkage)


def _selection(data: _Data, graph: LabelGraph) -> tuple[_Data, LabelGraph]:
    """A part of the data that is large enough to choose strengths by: whole families of fine labels."""
    seen = torch.unique(data.targets)
    if len(seen) > MAX_SELECTION_LABELS:
        seen = _families(graph, seen)
    places = seen.sort().values
    found = torch.searchsorted(places, data.targets).clamp_max(len(places) - 1)
    inside = places[found] == data.targets
    part = replace(data, targets=found).rows(inside)
    part = part.rows(_evenly(part.targets, min(MAX_SELECTION_PHOTOS, MAX_SELECTION_SAMPLES // len(places))))
    index = places.numpy()
    small = LabelGraph([graph.fine[i] for i in index], [graph.kind(name).rows(index) for name in graph.kinds])
    return part, small


def _families(graph: LabelGraph, seen: Tensor) -> Tensor:
    """Some hundred fine labels, siblings together: without siblings nothing tells what a kind is worth."""
    order = torch.randperm(len(graph), generator=torch.Generator().manual_seed(0))
    rank = order.double()
    if graph.kinds:
        kind = max(graph.kinds, key=lambda name: len(graph.labels(name)))
        fine, coarse, _ = graph.edges(kind)
        shuffled = torch.randperm(len(graph.labels(kind)), generator=torch.Generator().manual_seed(0))
        rank[torch.from_numpy(fine)] = shuffled[torch.from_numpy(coarse)].double() / len(shuffled) * len(graph)
    return seen[torch.argsort(rank[seen], stable=True)[:MAX_SELECTION_LABELS]]


def _evenly(targets: Tensor, count: int) -> Tensor:
    """At most so many samples of each label, in order."""
    order = torch.argsort(targets, stable=True)
    ordered = targets[order]
    first = torch.searchsorted(ordered, ordered)
    return order[torch.arange(len(order)) - first < max(count, 2)].sort().values


def alike_folds(
    features: Float[Tensor, "batch feature"], targets: Int[Tensor, " batch"], count: int
) -> list[tuple[Tensor, Tensor]]:
    """Folds in which samples of a class that look alike are held out together; empty where no class has two samples.

    Each class is cut into groups around samples that are far from each other, half as many as there are samples and at
    most `count`; a class of two has two. Groups go to different folds, so some of each class always stays.
    """
    fold = torch.full((len(targets),), -1)
    directions = torch.nn.functional.normalize(features.double() - features.double().mean(dim=0), dim=1)
    first = 0
    order = torch.argsort(targets, stable=True)
    for rows in torch.split(order, torch.bincount(targets).tolist()):
        if len(rows) < 2:
            continue
        groups = _groups(directions[rows], min(count, max(2, (len(rows) + 1) // 2)))
        fold[rows] = (first + groups) % count
        first += int(groups.max()) + 1  # small classes take turns, so that the folds stay even
    return [
        ((fold != held).nonzero()[:, 0], (fold == held).nonzero()[:, 0])
        for held in range(count)
        if (fold == held).any()
    ]


def _groups(directions: Float[Tensor, "batch feature"], count: int) -> Int[Tensor, " batch"]:
    """The group of each sample: the two groups that are most alike on average are joined until so many are left."""
    alike = (directions @ directions.t()).fill_diagonal_(-math.inf)
    sizes = torch.ones(len(directions), dtype=torch.float64)
    group = torch.arange(len(directions))
    for _ in range(len(directions) - count):
        first, second = divmod(int(alike.argmax()), len(alike))
        joined = (sizes[first] * alike[first] + sizes[second] * alike[second]) / (sizes[first] + sizes[second])
        alike[first], alike[:, first] = joined, joined
        alike[first, first] = -math.inf
        alike[second], alike[:, second] = -math.inf, -math.inf
        sizes[first] += sizes[second]
        group[group == second] = first
    return torch.from_numpy(np.unique(group.numpy(), return_inverse=True)[1])


def _fold(data: _Data, kept: Tensor, held: Tensor, covariance: Covariance) -> _Fold:
    stay, out = data.rows(kept), data.rows(held)
    axes = stay.axes(covariance)
    return _Fold(axes, axes.seen(stay.features), stay, axes.seen(out.features), out)


def _held_out_noise(parts: Sequence[_Fold], shrinkage: float, fine_count: int) -> float:
    """The variance of a sample around the mean of its class, per direction, by samples that had no part in either.

    The distance to the mean of n others has the variance noise (1 + 1 / n). Samples that took part in whitening would
    make it look small.
    """
    apart, expected = 0.0, 0.0
    for part in parts:
        counts, means = _class_sums(part.axes.white(part.kept, shrinkage), part.kept_data, fine_count)
        held, own = part.axes.white(part.held, shrinkage), part.held_data
        size = part.axes.feature_count
        outside = size - held.square().sum(dim=1)
        distance = (held - means[own.targets]).square().sum(dim=1) + outside
        apart += float(own.weight @ distance) / size
        expected += float(own.weight @ (1.0 + 1.0 / counts[own.targets]))
    return max(apart / expected, _MIN_NOISE)


def _judge(
    parts: Sequence[_Fold], links: Links, covariance: Covariance, shrinkage: float, variances: Variances
) -> _Choice:
    """How likely held-out samples are, with the strength that suits them best."""
    scores, targets, weight = [], [], []
    for part in parts:
        counts, means = _class_sums(part.axes.white(part.kept, shrinkage), part.kept_data, links.fine_count)
        centres = class_means(links, solve_effects(links, variances, counts, means))
        held = part.axes.white(part.held, shrinkage)
        scores.append(held @ centres.t() - 0.5 * centres.square().sum(dim=1))
        targets.append(part.held_data.targets)
        weight.append(part.held_data.weight)
    chosen, share = torch.cat(targets), torch.cat(weight) / torch.cat(weight).sum()
    apart = torch.cat(scores) - torch.cat(scores).gather(1, chosen[:, None])
    strength = _strength(apart, share, 1.0 / variances.noise)
    log_probs = -torch.logsumexp(strength * apart, dim=1)
    likelihood = float(share @ log_probs)
    # Samples of a class are much alike: the chance is in the classes, not in the samples.
    by_class = torch.zeros(links.fine_count, dtype=torch.float64).index_add_(
        0, chosen, share * (log_probs - likelihood)
    )
    error = float(by_class.square().sum().sqrt())
    return _Choice(covariance, shrinkage, variances, strength, len(chosen), likelihood, error)


def _strength(apart: Tensor, share: Tensor, highest: float) -> float:
    """The number b, at most `highest`, under which the right labels are most likely.

    The log probability is concave in b. No b above 1 / noise is believed: that is what independent directions say.

    Args:
        apart: each score less that of the right label.
        share: how much each sample counts; they sum to 1.
        highest: the largest b.
    """

    def slope(strength: float) -> float:
        return -float(share @ (torch.softmax(strength * apart, dim=1) * apart).sum(dim=1))

    low, high = 1e-6 * highest, highest
    if slope(high) < 0.0:
        for _ in range(40):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if slope(middle) > 0.0 else (low, middle)
    return high


def _fixed(data: _Data, graph: LabelGraph, kinds: tuple[str, ...]) -> _Choice:
    """What is taken where every class has a single sample."""
    axes = data.axes("total")
    counts, means = _class_sums(axes.white(axes.seen(data.features), SINGLE_SHRINKAGE), data, len(graph))
    size = axes.feature_count
    variances = fit_variances(Links(graph, kinds), counts, means, noise=SINGLE_NOISE, features=size)
    strength = min(1.0, SINGLE_DIRECTIONS / size) / SINGLE_NOISE
    return _Choice("total", SINGLE_SHRINKAGE, variances, strength)


# ---- sums and the head ----------------------------------------------------------------------------------------------


def _class_sums(white: Tensor, data: _Data, fine_count: int) -> tuple[Tensor, Tensor]:
    """How many samples each fine label has, and their mean."""
    counts = torch.zeros(fine_count, dtype=torch.float64).index_add_(0, data.targets, data.weight)
    sums = torch.zeros(fine_count, white.shape[1], dtype=torch.float64)
    sums.index_add_(0, data.targets, white * data.weight[:, None])
    return counts, sums / counts.clamp_min(torch.finfo(torch.float64).tiny)[:, None]


def _head(
    graph: LabelGraph,
    settings: PrototypeSettings,
    links: Links,
    effects: Effects,
    axes: BlockAxes,
    strength: float,
) -> BipartiteHead | SoftmaxHead:
    """The head with these class means. Effects of kinds whose rows do not add up linearly go to the fine labels."""
    means = class_means(links, effects)
    bias = -0.5 * strength * means.square().sum(dim=1)
    bias -= bias.max()
    with torch.random.fork_rng(devices=[]):  # a new layer draws random weights; the caller's generator stays as it is
        head = HEADS[settings.head](axes.feature_count, graph)
    plain = {kind.name for kind in head.tensors.kinds if kind.plain}
    fine = effects.fine.clone()
    for kind in links.kinds:
        if kind not in plain:
            fine += torch.sparse.mm(links.matrices[kind], effects.coarse[kind])
    with torch.no_grad():
        head.fine.weight.copy_(axes.to_features(strength * fine))
        head.fine.bias.copy_(bias)
        if isinstance(head, BipartiteHead):
            assert isinstance(head.coarse, nn.Linear)
            for kind, columns in head.tensors.columns.items():
                if kind in plain and kind in effects.coarse:
                    rows = axes.to_features(strength * effects.coarse[kind])
                    head.coarse.weight[columns] = rows.to(head.coarse.weight)
    return head
