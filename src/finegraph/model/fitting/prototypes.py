"""Fit a head in closed form: class means in a whitened space, held together by the label graph.

    z       = scaled features                     compressed (compression.py), whitened by the shrunk covariance, of one
                                                  length (whitening.py)
    z | i   ~ N(mean_i, noise I)                  mean_i = mu_0 + effects of its parents + its own (class_means.py)
    score_i = b (mean_i' z - |mean_i|^2 / 2)      b, the sharpness, calibrates the probabilities; with
                                                  many samples means are rescaled to one length (`score_factors`)
    scores / sqrt(1 + doubt * lead)               the larger the lead of a photo, the less of it is believed; the doubt
                                                  is one number of the head (`Posterior.doubted`)

The scores split into parts of kinds and of fine labels, so they are a `BipartiteHead` on z, and everything that a
posterior offers works as usual. There is no descent and no learning rate. Nothing needs to be set: all
strengths are chosen on held-out samples and by the likelihood of the class means (prototype_strengths.py).

Adding a photo or a label later is an update of counts and sums (model/teaching/).

Samples are read some at a time, and may be those of several processes (`fit_shared_prototypes`): what the fit needs of
all of them are sums (shared_samples.py).

Cost: an eigenvalue problem of the smaller of samples and features per fold, then a few products per shrinkage; beyond
that, linear in samples and fine labels. Memory: the features as they are given, and some seven numbers of 8 bytes for
each fine label and feature.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from finegraph.errors import InputError, ShapeError
from finegraph.graph import LabelGraph
from finegraph.inference.processes import ONE_PROCESS, Processes
from finegraph.model.fitting.class_means import (
    LinkMatrices,
    MeanComponents,
    Variances,
    class_means,
    score_factors,
    solve_effects,
)
from finegraph.model.fitting.class_sums import ClassSums
from finegraph.model.fitting.compression import MAX_LABELS, MAX_SAMPLES, compressions_of, likely_compression
from finegraph.model.fitting.descent import HEADS
from finegraph.model.fitting.fit_samples import NOT_OBSERVED
from finegraph.model.fitting.labelled_samples import LabelledSamples, usable_samples
from finegraph.model.fitting.prototype_strengths import PrototypeStrengths, choose_prototype_strengths
from finegraph.model.fitting.shared_samples import SharedSamples, of_labels, selection_photos
from finegraph.model.fitting.value_pulls import (
    ValuePotentials,
    ValuePulls,
    fit_potentials,
    fit_pulls,
    value_columns,
    value_names,
)
from finegraph.model.fitting.whitening import Covariance
from finegraph.nn import BipartiteHead, SoftmaxHead
from finegraph.nn.scaling import Scaling

_COVARIANCES: tuple[Covariance, ...] = ("within", "total")


@dataclass(frozen=True, kw_only=True)
class PrototypeSettings:
    """What to fit; everything else is chosen by the data."""

    head: Literal["bipartite", "softmax"] = "bipartite"
    """The type of head; the class means of a softmax head do not depend on the graph."""
    graph: bool = True
    """Whether class means depend on the label graph. Uninformative kinds get a variance of about 0."""
    shrinkage: float | None = None
    """The shrinkage of the covariance, as a multiple of its mean eigenvalue; by default chosen on held-out samples."""
    doubt: bool = True
    """Whether the head may have a doubt, which held-out samples choose. Where class means depend on numbers it has
    none."""
    compress: bool = True
    """Whether features may be compressed before they are whitened; see compression.py."""

    def __post_init__(self) -> None:
        if self.head not in ("bipartite", "softmax"):
            raise InputError(f"head: expected 'bipartite' or 'softmax', got {self.head!r}")
        if self.shrinkage is not None and not 0.0 < self.shrinkage < math.inf:
            raise InputError(f"shrinkage: expected a finite number above 0, got {self.shrinkage!r}")

    def kinds(self, graph: LabelGraph) -> tuple[str, ...]:
        """The kinds that class means depend on."""
        return graph.kinds if self.graph and self.head == "bipartite" else ()

    def numbers(self, graph: LabelGraph) -> tuple[str, ...]:
        """The numbers that class means depend on."""
        return graph.numbers if self.graph and self.head == "bipartite" else ()


@dataclass(frozen=True, kw_only=True)
class PrototypeFit:
    """A fitted head, the step in front of it, and what was chosen.

    Attributes:
        scaling: transforms features for the head.
        head: the head on scaled features.
        strengths: the strengths of the fit.
        sums: counts and sums of the scaled features of each fine label, which the head follows from.
        pulls: the regressions of values on features; None if they are not used.
        potentials: how the values of photos differ from those of their classes, from measured values; None if nothing
            is known about that.
    """

    scaling: Scaling
    head: BipartiteHead | SoftmaxHead
    strengths: PrototypeStrengths
    sums: ClassSums
    pulls: ValuePulls | None = None
    potentials: ValuePotentials | None = None

    @property
    def covariance(self) -> Covariance:
        """Which covariance features are whitened by."""
        return self.strengths.covariance

    @property
    def shrinkage(self) -> float:
        """The shrinkage of that covariance."""
        return self.strengths.shrinkage

    @property
    def variances(self) -> Variances:
        """The variances of class means: of each kind, of the class itself, and of noise."""
        return self.strengths.variances

    @property
    def temperature(self) -> float:
        """The temperature relative to fully independent directions."""
        return 1.0 / (self.strengths.sharpness * self.strengths.variances.noise)

    @property
    def held_out(self) -> int:
        """How many samples the choice was made on; 0 if none could be held out."""
        return self.strengths.held_out

    @property
    def log_likelihood(self) -> float | None:
        """Their mean log probability; None if there are none."""
        return self.strengths.log_likelihood


def fit_prototypes(
    features: Float[Tensor, "batch feature"],
    targets: Int[Tensor, " batch"],
    graph: LabelGraph,
    settings: PrototypeSettings | None = None,
    *,
    sample_weight: Float[Tensor, " batch"] | None = None,
    block_sizes: Sequence[int] | None = None,
    strengths: PrototypeStrengths | None = None,
    views: Float[Tensor, "batch view feature"] | None = None,
    measured: Mapping[str, Float[Tensor, " batch"]] | None = None,
    val: tuple[Float[Tensor, "photo feature"], Int[Tensor, " photo"]] | None = None,
) -> PrototypeFit:
    """Fit class means to features.

    Args:
        features: one row per sample.
        targets: the fine label of each sample. Samples whose label was not observed (-100) are ignored: they say
            nothing about class means.
        graph: the label graph. Fine labels without samples get their mean from their parents.
        settings: what to fit; by default `PrototypeSettings()`.
        sample_weight: how many samples each counts as.
        block_sizes: the sizes of the blocks of the features, such as those of several networks; each is
            whitened on its own. By default one block.
        strengths: the strengths of an earlier fit; by default they are chosen.
        views: the features of single views of each sample; `features` are their mean. The first is what a model sees
            when it answers, so held-out samples are judged by it; all views count for the scatter.
        measured: for some numbers the value measured on each sample, in the user's unit, NaN if none. They show
            how samples differ from their class, if any class has two. Values that are all exact leave nothing
            to learn.
        val: the features and fine labels of validation samples, on which strengths are also chosen; features of one
            view, as when a model answers.

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
    fit = fit_shared_prototypes(
        features,
        targets,
        graph,
        settings,
        sample_weight=sample_weight,
        block_sizes=block_sizes,
        strengths=strengths,
        views=views,
        val=val,
    )
    assert fit is not None
    if not measured or fit.covariance != "within" or not settings.numbers(graph):
        return fit
    used = (targets != NOT_OBSERVED).nonzero()[:, 0]
    own = {name: values[used] for name, values in measured.items()}
    potentials = fit_potentials(graph, fit.scaling(features[used]), targets[used], own)
    if potentials is not None and isinstance(fit.head, BipartiteHead):
        weight, bias = potentials.rows(value_columns(graph, potentials.names))
        _add_rows(fit.head, -weight, -bias)
        fit.head.numbers = potentials.layer(graph).to(features.dtype)
    return replace(fit, potentials=potentials)


def fit_shared_prototypes(
    features: Float[Tensor, "batch feature"],
    targets: Int[Tensor, " batch"],
    graph: LabelGraph,
    settings: PrototypeSettings | None = None,
    *,
    sample_weight: Float[Tensor, " batch"] | None = None,
    block_sizes: Sequence[int] | None = None,
    strengths: PrototypeStrengths | None = None,
    views: Float[Tensor, "batch view feature"] | None = None,
    val: tuple[Float[Tensor, "photo feature"], Int[Tensor, " photo"]] | None = None,
    processes: Processes = ONE_PROCESS,
) -> PrototypeFit | None:
    """Fit class means to the samples of several processes; all of them call this, each with its own samples.

    However the samples are divided, the result is that of `fit_prototypes` on all of them, up to the rounding of sums
    in float64. Features stay in their process: sums are exchanged, and the few samples that strengths are chosen on.

    Args:
        features: one row per sample of this process; there may be none.
        targets: as for `fit_prototypes`, and so are the following.
        graph: the label graph, the same in all processes.
        settings: what to fit, the same in all processes.
        sample_weight: how many samples each counts as.
        block_sizes: the sizes of the blocks of the features.
        strengths: the strengths of an earlier fit, in all processes or in none.
        views: the features of single views of each sample, in all processes or in none.
        val: validation samples, in the first process; what others pass is not used.
        processes: this process among those of the fit.

    Returns:
        The fit in the first process; None in the others.
    """
    settings = settings or PrototypeSettings()
    sizes = (features.shape[1],) if block_sizes is None else tuple(block_sizes)
    if sum(sizes) != features.shape[1] or min(sizes, default=0) < 1:
        raise ShapeError(f"block_sizes: expected sizes that add up to {features.shape[1]} features, got {sizes}")
    own = usable_samples(features, targets, graph, sample_weight, sizes, views)
    shared = SharedSamples(own, graph, processes)
    compression, compressions = _compressions(shared, settings, strengths, processes)
    if any(compressions):
        shared = SharedSamples(own, graph, processes, compressions)
    if strengths is None:
        samples, labels, part = shared.selected()
        if processes.first:
            strengths = replace(_chosen(shared, samples, labels, part, settings, val), compression=compression)
    # The others go on with what the first one chose: other processors may round otherwise.
    agreed = torch.zeros(2, dtype=torch.float64)
    if strengths is not None:
        strengths = strengths if settings.doubt else strengths.without_doubt()
        agreed[:] = torch.tensor([_COVARIANCES.index(strengths.covariance), strengths.shrinkage])
    processes.copy_first([agreed])
    covariance, shrinkage = _COVARIANCES[int(agreed[0])], float(agreed[1])
    axes = shared.axes(covariance)
    processes.copy_first([part for one in axes.blocks for part in (one.mean, one.axes, one.values)])
    shown = shared.class_sums(axes, shrinkage)
    if strengths is None or not processes.first:
        return None
    sums = replace(shown, sums=axes.to_features(shown.sums), origin=shown.origin.new_zeros(axes.feature_count))
    del shown
    scaling = axes.scaling(shrinkage).before(shared.shift, shared.size).after(compressions)
    return _solved(graph, settings, sums, strengths, scaling, features.dtype)


def _compressions(
    shared: SharedSamples, settings: PrototypeSettings, strengths: PrototypeStrengths | None, processes: Processes
) -> tuple[float, list[float]]:
    """The compression of the features relative to their size, and of each block of them; all 0 for none."""
    if not settings.compress or (strengths is not None and not strengths.compression):
        return 0.0, [0.0] * len(shared.own.block_sizes)
    samples = shared.given(shared.selected(MAX_LABELS, MAX_SAMPLES)[0])
    relative = likely_compression(samples) if strengths is None else strengths.compression
    agreed = torch.tensor([relative, *compressions_of(samples, relative)], dtype=torch.float64)
    processes.copy_first([agreed])
    relative, *blocks = agreed.tolist()
    return relative if any(blocks) else 0.0, blocks


def _chosen(
    shared: SharedSamples,
    samples: LabelledSamples,
    labels: Int[Tensor, " label"],
    part: LabelGraph,
    settings: PrototypeSettings,
    val: tuple[Tensor, Tensor] | None,
) -> PrototypeStrengths:
    """The strengths that suit a part of the samples.

    Args:
        shared: all samples.
        samples: the part of them.
        labels: the fine labels of the part.
        part: the graph of these.
        settings: what to fit.
        val: validation samples, as they were given.
    """
    return choose_prototype_strengths(
        samples,
        part,
        settings.kinds(part),
        settings.shrinkage,
        numbers=settings.numbers(part),
        doubt=settings.doubt,
        val=None if val is None else _validation_samples(*val, shared, labels),
    )


def _validation_samples(
    features: Float[Tensor, "photo feature"],
    targets: Int[Tensor, " photo"],
    shared: SharedSamples,
    labels: Int[Tensor, " label"],
) -> LabelledSamples:
    """Validation samples of some fine labels, scaled like those that are fitted to."""
    if features.ndim != 2 or features.shape[1] != len(shared.shift) or len(features) != len(targets):
        raise ShapeError(
            f"val: expected one row of {len(shared.shift)} features per target, got {tuple(features.shape)} features "
            f"and {len(targets)} targets"
        )
    samples = usable_samples(features, targets, shared.graph, None, shared.own.block_sizes)
    return shared.scaled(of_labels(samples, labels, selection_photos(len(labels))))


def _solved(
    graph: LabelGraph,
    settings: PrototypeSettings,
    sums: ClassSums,
    strengths: PrototypeStrengths,
    scaling: Scaling,
    dtype: torch.dtype,
) -> PrototypeFit:
    """The fit that follows from the sums of scaled features."""
    links = LinkMatrices(graph, tuple(strengths.variances.kinds), tuple(strengths.variances.numbers))
    means = sums.means()
    effects = solve_effects(links, strengths.variances, sums.counts, means)
    head = _head(graph, settings.head, links, effects, sums.counts, strengths)
    head.doubt = strengths.doubt
    del effects
    pulls = None
    if strengths.share > 0.0:
        names = value_names(graph)
        columns = value_columns(graph, names)
        pulls = fit_pulls(names, columns, sums.counts, means, strengths.variances.noise)
        _add_rows(head, *pulls.rows(columns, strengths.share))
    head, scaling = head.to(dtype), scaling.to(dtype)
    return PrototypeFit(scaling=scaling, head=head, strengths=strengths, sums=sums, pulls=pulls)


def _add_rows(
    head: BipartiteHead | SoftmaxHead, weight: Float[Tensor, "fine feature"], bias: Float[Tensor, " fine"]
) -> None:
    """Add to the weights and biases of the fine labels."""
    with torch.no_grad():
        head.fine.weight.add_(weight)
        head.fine.bias.add_(bias)


def _head(
    graph: LabelGraph,
    name: str,
    links: LinkMatrices,
    effects: MeanComponents,
    counts: Float[Tensor, " fine"],
    strengths: PrototypeStrengths,
) -> BipartiteHead | SoftmaxHead:
    """The head with these effects. Effects of kinds that are not linear in their rows go to the fine labels."""
    means, sharpness = class_means(links, effects), strengths.factor
    factors, bias = score_factors(means, counts, strengths.unseen_share, strengths.unseen_reach)
    with torch.random.fork_rng(devices=[]):  # new layers draw weights; the caller's generator must not advance
        head = HEADS[name](means.shape[1], graph)
    plain = {kind.name for kind in head.tensors.kinds if kind.plain}
    fine = torch.addcmul(effects.fine, (factors - 1.0)[:, None], means)
    for name in links.names:
        if name not in plain:
            fine.addmm_(links.designs[name], effects.coarse[name])
    with torch.no_grad():
        head.fine.weight.copy_(fine.mul_(sharpness))
        head.fine.bias.copy_(sharpness * bias)
        if isinstance(head, BipartiteHead):
            assert isinstance(head.coarse, nn.Linear)
            head.silence_numbers()
            for kind, columns in head.tensors.columns.items():
                if kind in plain and kind in effects.coarse:
                    rows = sharpness * links.of_labels(kind, effects.coarse[kind])
                    head.coarse.weight[columns] = rows.to(head.coarse.weight)
    return head
