"""The strengths of the closed form, chosen on held-out samples.

    covariance   `within` classes if any class has two samples; otherwise `total`
    shrinkage    the mean under a prior, which falls with the samples of a class, and the likelihood of held-out
                 samples; a weak preference moves it little, and it never jumps
    noise        how far held-out samples are from the mean of their class
    variances    the most likely ones for the class means (class_means.py); they weight the graph
    sharpness    a factor of the scores that calibrates probabilities: features are far from independent
    doubt        how much less the scores of a sample are believed the larger their lead: with one sharpness for all,
                 answers with a small lead are too careful and those with a large lead too sure
    share        how much of the regressions of values (value_pulls.py) is added to the scores
    unseen share how far the bias of labels without samples moves towards that of the others; some classes lose their
                 samples for it, and held-out samples of these and of the others are judged together
    unseen reach how far from its mean a class keeps samples against such labels: one standard deviation

Future photos differ more from the given ones than these do among each other. So similar samples of a class are
held out together (alike_folds.py). As far as samples are held out alone, as in classes of two, the sharpness is
taken at the lower end of its standard error.

Validation samples, if there are any, are judged beside the held-out ones, by the means of all training samples. So they
take part in all choices but those of noise and variances.

If every class has a single sample and there are no validation samples, whole classes are held out, and judged by their
coarse labels, which the other classes tell. That is a harder task than to know a class again, and how much harder no
sample tells: the sharpness is raised by what it was in data sets with more samples, and the middle between that and
what is usual is taken. The share of noise and the shrinkage are fixed if every class has a single sample.

Strengths are chosen on at most 512 fine labels (`SharedSamples.selected`), so the cost of that does not grow with their
number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.model.fitting.alike_folds import TensorFold, alike_folds, class_folds
from finegraph.model.fitting.class_means import (
    LinkMatrices,
    Variances,
    class_means,
    fit_variances,
    score_factors,
    solve_effects,
)
from finegraph.model.fitting.class_sums import ClassSums
from finegraph.model.fitting.labelled_samples import LabelledSamples
from finegraph.model.fitting.value_pulls import fit_pulls, value_columns, value_names
from finegraph.model.fitting.whitening import BlockAxes, Coordinates, Covariance

FOLDS = 5
CLASS_FOLDS = 10
SHRINKAGE_TIMES_COUNT = 15.0
MAX_SHRINKAGE = 5.0
SHRINKAGE_FACTOR = 1.5
"""The prior on the shrinkage of the covariance within classes: around 15 / (samples of a class), at most 5, and the
factor around it that is one standard deviation. With 5 photos it is 3, which suited birds, cars, groceries and drawn
dishes alike; groceries with 20 and 33 photos and dishes with 15 did best with as much less."""
SHRINKAGE_MULTIPLES = (0.1, 1.0 / 3.0, 1.0, 3.0)
"""The candidates, as multiples of the centre of the prior."""
LIKELIHOOD_DOUBT = 0.1
"""A difference in mean log likelihood between shrinkages that is insignificant, however many samples were held out:
they were drawn like the others, and future photos are not."""
SINGLE_SHRINKAGE = 10.0
SINGLE_NOISE = 0.9
"""If no class has two samples: the shrinkage of the total covariance, and the share of noise in scaled features."""
SINGLE_FACTOR = 1.1
"""How much sharper samples of known classes are than those of held-out classes, judged by their parents. The middle of
what calibrated the answers for groceries and drawn dishes with one and three views: 0.85 to 1.3. The
likelihood favours 1.05 to 1.4 there; with 1.3 answers were too sure by 4 points on average."""
PRIOR_SLOPE, PRIOR_SLOPE_SPREAD, MAX_SLOPE = 0.3, 0.15, 0.48
"""The prior on the doubt, as the slope of the log factor of scores over the log lead at the usual lead, and the largest
that is tried; 0 is no doubt, 0.5 would be the root of the lead. Held-out samples of groceries and drawn dishes ask for
0.15 to 0.48, the former value with all photos of the groceries, and their validation photos for 0.2 to 0.45."""
SINGLE_LEAD = 1.25
"""How much larger the lead of samples is than that of samples whose whole class is held out: 1.2 and 1.3 on the
validation photos of groceries and drawn dishes."""
PRIOR_SHARE, PRIOR_SHARE_SPREAD = 0.15, 0.1
"""The prior on the share of the regressions of values, and the share if no class has two samples. Shares
of 0.05 to 0.3 suited the validation photos of drawn dishes with 1, 2, 3 and all photos of each class."""
PRIOR_UNSEEN_SHARE, PRIOR_UNSEEN_SHARE_SPREAD = 0.4, 0.2
"""The prior on the unseen share. The validation photos of groceries ask for 0.3 to 0.4 with 2 and 5 photos of a class.
With one photo of each class the share is 0: the means of all labels are short alike."""
UNSEEN_REACH = 1.0
"""How far from its mean a class keeps samples against labels without any, in standard deviations of its noise. On
digits without one or two of the ten classes, 1 changed nothing and 2 cost up to 1.5 points; groceries are the same with
0 to 2."""
PRIOR_DIRECTIONS: dict[Covariance, float] = {"within": 30.0, "total": 160.0}
PRIOR_DIRECTIONS_FACTOR = 4.0
"""The number of effectively independent directions of scaled features: centre and standard deviation of its prior."""

_MIN_NOISE = 1e-6
"""Used if all samples of each class are the same; the variance of scaled features is 1."""


@dataclass(frozen=True, kw_only=True)
class PrototypeStrengths:
    """The strengths that class means are fitted with.

    Attributes:
        covariance: which covariance features are whitened by.
        shrinkage: the shrinkage of that covariance.
        variances: the variances of class means: of each kind, of the class itself, and of noise.
        sharpness: the factor of scores with the usual lead; 1 / noise if all directions of the features were
            independent.
        held_out: how many of the samples themselves the sharpness was chosen by; validation samples are not counted.
        log_likelihood: the mean log probability of the fine labels of all samples that judged, or of their coarse
            labels if whole classes were held out; None if nothing could be.
        share: the share of the pulls from features that is added to the scores.
        doubt: that of the head, on its scores.
        gain: what all scores are multiplied by besides, so that under the doubt those of the usual lead stay.
        unseen_share: that of `score_factors`, for fine labels without samples.
        unseen_reach: that of `score_factors`.
        validated: how many validation samples the sharpness was chosen by.
        compression: how strongly features are compressed, relative to their size; see compression.py.
    """

    covariance: Covariance
    shrinkage: float
    variances: Variances
    sharpness: float
    held_out: int = 0
    log_likelihood: float | None = None
    share: float = 0.0
    doubt: float = 0.0
    gain: float = 1.0
    unseen_share: float = 0.0
    unseen_reach: float = 0.0
    validated: int = 0
    compression: float = 0.0

    @property
    def factor(self) -> float:
        """The factor of scores before the doubt."""
        return self.sharpness * self.gain

    def without_doubt(self) -> PrototypeStrengths:
        """The same without a doubt."""
        return replace(self, doubt=0.0, gain=1.0)


def doubted(scores: Float[Tensor, "batch fine"], doubt: float) -> Float[Tensor, "batch fine"]:
    """Joint scores under a doubt; see `Posterior.doubted`."""
    return scores * torch.rsqrt(1.0 + doubt * _leads(scores))[:, None] if doubt else scores


def _leads(scores: Float[Tensor, "batch fine"]) -> Float[Tensor, " batch"]:
    return scores.amax(dim=1) - scores.mean(dim=1)


def choose_prototype_strengths(
    samples: LabelledSamples,
    graph: LabelGraph,
    kinds: Sequence[str],
    shrinkage: float | None,
    *,
    numbers: Sequence[str] = (),
    doubt: bool = True,
    val: LabelledSamples | None = None,
) -> PrototypeStrengths:
    """Choose all strengths.

    Args:
        samples: samples that class means will be fitted to, scaled and without copies; a part of them is enough.
        graph: the label graph of the fine labels of these.
        kinds: the kinds that class means depend on.
        shrinkage: the shrinkage of the covariance; None to choose it.
        numbers: the numbers that class means depend on. With some there is no doubt: the score of a label with an
            extreme value, such as one that is taught later, would change the lead of every photo.
        doubt: whether there may be one.
        val: samples of the same labels to judge by besides, scaled like the others.
    """
    doubt = doubt and not numbers
    val = samples.rows(slice(0)) if val is None else val
    links = LinkMatrices(graph, kinds, numbers)
    names = tuple(name for name in value_names(graph) if name in links.names)
    folds = alike_folds(samples.features, samples.targets, FOLDS)
    if not folds and not len(val):
        found = _by_held_out_classes(samples, links, shrinkage or SINGLE_SHRINKAGE, doubt=doubt)
        return replace(found, share=PRIOR_SHARE) if names else found
    whole = _Whole.of(samples, "within" if folds else "total")
    parts = [_Fold.of(samples, fold, "within") for fold in folds]
    judged = [*parts, whole.judging(val)] if len(val) else parts
    found = _by_held_out_samples(whole, links, parts, judged, shrinkage, doubt=doubt)
    return replace(found, share=_share(judged, graph, names, found)) if names else found


def held_out_log_probs(
    samples: LabelledSamples, graph: LabelGraph, strengths: PrototypeStrengths, folds: Sequence[TensorFold]
) -> list[Float[Tensor, " _"]]:
    """For each fold, the log probabilities of the held-out fine labels under class means of the other samples."""
    links, found = LinkMatrices(graph, tuple(strengths.variances.kinds), tuple(strengths.variances.numbers)), []
    names = tuple(name for name in value_names(graph) if name in links.names and strengths.share)
    columns = value_columns(graph, names)
    for fold in folds:
        part = _Fold.of(samples, fold, strengths.covariance)
        scores = strengths.factor * part.scores(links, strengths.shrinkage, strengths.variances)
        if names:
            scores += strengths.share * part.pulls(names, columns, strengths)
        scores = doubted(scores, strengths.doubt)
        found.append(torch.log_softmax(scores, dim=1).gather(1, part.held_samples.targets[:, None])[:, 0])
    return found


def _share(parts: Sequence[_Fold], graph: LabelGraph, names: tuple[str, ...], strengths: PrototypeStrengths) -> float:
    """The share of the pulls from features under which held-out samples are most likely."""
    links = LinkMatrices(graph, tuple(strengths.variances.kinds), tuple(strengths.variances.numbers))
    columns = value_columns(graph, names)
    scores = torch.cat([part.scores(links, strengths.shrinkage, strengths.variances) for part in parts])
    pulls = torch.cat([part.pulls(names, columns, strengths) for part in parts])
    targets = torch.cat([part.held_samples.targets for part in parts])
    weight = torch.cat([part.held_samples.weight for part in parts])

    def log_posterior(share: float) -> float:
        log_probs = torch.log_softmax(strengths.sharpness * scores + share * pulls, dim=1)
        away = (share - PRIOR_SHARE) / PRIOR_SHARE_SPREAD
        return float(weight @ log_probs.gather(1, targets[:, None])[:, 0]) - 0.5 * away * away

    return golden_maximum(log_posterior, 0.0, 1.0, tolerance=1e-3)


def _by_held_out_samples(
    whole: _Whole,
    links: LinkMatrices,
    parts: Sequence[_Fold],
    judged: Sequence[_Fold],
    shrinkage: float | None,
    *,
    doubt: bool,
) -> PrototypeStrengths:
    """What suits samples whose class has others: those held out in `parts`, which tell the noise, and all `judged`."""
    variances: Variances | None = None
    if shrinkage is None and not parts:
        shrinkage = SINGLE_SHRINKAGE
    if shrinkage is None:
        trials = []
        centre = _prior_shrinkage(whole.samples)
        for multiple in SHRINKAGE_MULTIPLES:
            trials.append(_try_shrinkage(whole, parts, judged, links, multiple * centre, variances))
            variances = trials[-1].variances
        shrinkage = _likely_shrinkage(trials, centre)
    best = _try_shrinkage(whole, parts, judged, links, shrinkage, variances, doubt=doubt)
    sharpness = best.sharpness * math.exp(-_alone(parts, best.judged) * best.sharpness_error)
    found = PrototypeStrengths(
        covariance=whole.covariance,
        shrinkage=shrinkage,
        variances=best.variances,
        sharpness=sharpness,
        doubt=best.doubt.at(sharpness),
        gain=best.doubt.gain,
        held_out=sum(len(part.held_samples) for part in parts),
        log_likelihood=best.log_likelihood,
        validated=sum(len(part.held_samples) for part in judged[len(parts) :]),
    )
    reach = UNSEEN_REACH * math.sqrt(best.variances.noise)
    return replace(found, unseen_share=_unseen_share(judged, links, found), unseen_reach=reach)


def _by_held_out_classes(
    samples: LabelledSamples, links: LinkMatrices, shrinkage: float, *, doubt: bool
) -> PrototypeStrengths:
    """Choose strengths on held-out classes, by the coarse labels they share with others."""
    whole = _Whole.of(samples, "total")
    variances = whole.variances(links, shrinkage, SINGLE_NOISE, None)
    known = {kind: samples.targets[links.unknown[kind][samples.targets] == 0] for kind in links.kinds}
    chosen = PrototypeStrengths(
        covariance="total",
        shrinkage=shrinkage,
        variances=variances,
        sharpness=_prior_sharpness("total", whole.axes.feature_count, SINGLE_NOISE),
    )
    if len(samples) < 3 or not any(len(labels) for labels in known.values()):
        return chosen
    parts = [_Fold.of(samples, fold, "total") for fold in class_folds(samples.targets, min(CLASS_FOLDS, len(samples)))]
    scores = torch.cat([part.scores(links, shrinkage, variances) for part in parts])
    targets = torch.cat([part.held_samples.targets for part in parts])
    matrix = torch.cat([links.matrices[kind].to_dense() for kind in links.kinds], dim=1)
    sizes = [links.matrices[kind].shape[1] for kind in links.kinds]
    wanted = matrix[targets]
    is_known = torch.stack([1.0 - links.unknown[kind][targets] for kind in links.kinds], dim=1)

    def log_likelihood(joint: Tensor) -> Tensor:
        marginals = (torch.softmax(joint, dim=1) @ matrix) * wanted
        right = torch.stack([part.sum(dim=1) for part in torch.split(marginals, sizes, dim=1)], dim=1)
        log_right = right.clamp_min(torch.finfo(right.dtype).tiny).log() * is_known
        return log_right.sum(dim=1) / is_known.sum(dim=1).clamp_min(1.0)

    weight = torch.cat([part.held_samples.weight for part in parts]) * is_known.any(dim=1)
    held = _Held(scores, targets, weight, log_likelihood)
    found = _sharpness(held, _Doubt(), chosen.sharpness, 1.0 / SINGLE_NOISE)
    chosen_doubt = _doubt(held, found.value) if doubt else _Doubt()
    chosen_doubt = replace(chosen_doubt, lead=SINGLE_LEAD * chosen_doubt.lead)
    sharpness = min(math.sqrt(SINGLE_FACTOR * found.value * chosen.sharpness), 1.0 / SINGLE_NOISE)
    return replace(
        chosen,
        sharpness=sharpness,
        held_out=len(targets),
        log_likelihood=found.log_likelihood,
        doubt=chosen_doubt.at(sharpness),
        gain=chosen_doubt.gain,
    )


def _alone(parts: Sequence[_Fold], judged: int) -> float:
    """The share of the held-out samples that have no other sample of their class."""
    targets = [part.held_samples.targets for part in parts]
    return sum(float((torch.bincount(one)[one] == 1).double().sum()) for one in targets) / judged


def _unseen_share(judged: Sequence[_Fold], links: LinkMatrices, strengths: PrototypeStrengths) -> float:
    """The unseen share under which held-out samples are most likely while some classes have lost their samples."""
    # In the order of their samples, so that the order of the labels does not matter.
    classes = torch.tensor(list(dict.fromkeys(torch.cat([part.held_samples.targets for part in judged]).tolist())))
    groups = [classes[first::CLASS_FOLDS] for first in range(min(CLASS_FOLDS, len(classes)))]
    trials = [
        (part.held_samples, scores, more)
        for place, part in enumerate(judged)
        for scores, more in part.unseen_scores(links, strengths, groups[place :: len(judged)])
    ]

    def log_posterior(share: float) -> float:
        away = (share - PRIOR_UNSEEN_SHARE) / PRIOR_UNSEEN_SHARE_SPREAD
        total = -0.5 * away * away
        for samples, scores, more in trials:
            joint = doubted(strengths.factor * (scores + share * more), strengths.doubt)
            right = torch.log_softmax(joint, dim=1).gather(1, samples.targets[:, None])[:, 0]
            total += float(samples.weight @ right)
        return total

    return golden_maximum(log_posterior, 0.0, 1.0, tolerance=1e-2)


# ---- one shrinkage ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Whole:
    """All samples along the axes of their covariance."""

    samples: LabelledSamples
    covariance: Covariance
    axes: BlockAxes
    places: tuple[Coordinates, ...]

    @classmethod
    def of(cls, samples: LabelledSamples, covariance: Covariance) -> _Whole:
        axes = samples.axes(covariance)
        return cls(samples, covariance, axes, axes.coordinates(samples.features))

    def judging(self, others: LabelledSamples) -> _Fold:
        """All samples stay, and others are judged by them."""
        own = self.axes.coordinates(others.features)
        return _Fold(self.axes, self.samples, self.places, others, own, own)

    def variances(self, links: LinkMatrices, shrinkage: float, noise: float, start: Variances | None) -> Variances:
        """The most likely variances of the class means."""
        found = _statistics(self.axes.white(self.places, shrinkage), self.samples, links.fine_count)
        count = self.axes.feature_count
        return fit_variances(links, found.counts, found.means(), noise=noise, features=count, start=start)


@dataclass(frozen=True)
class _Fold:
    """The covariance of the samples that stay, and both sides along its axes."""

    axes: BlockAxes
    kept_samples: LabelledSamples
    kept: tuple[Coordinates, ...]
    held_samples: LabelledSamples
    held: tuple[Coordinates, ...]
    asked: tuple[Coordinates, ...]

    @classmethod
    def of(cls, samples: LabelledSamples, fold: TensorFold, covariance: Covariance) -> _Fold:
        kept, held = samples.rows(fold[0]), samples.rows(fold[1])
        axes = kept.axes(covariance)
        own = axes.coordinates(held.features)
        asked = own if held.views is None else axes.coordinates(held.asked)
        return cls(axes, kept, axes.coordinates(kept.features), held, own, asked)

    def statistics(self, shrinkage: float, fine_count: int) -> ClassSums:
        """The statistics of the samples that stay."""
        return _statistics(self.axes.white(self.kept, shrinkage), self.kept_samples, fine_count)

    def noise(self, shrinkage: float, fine_count: int) -> tuple[float, float]:
        """The summed squared distance of held-out samples to their class means, and its expectation for noise 1.

        The distance to the mean of n others has the variance noise (1 + 1 / n).
        """
        found, own = self.statistics(shrinkage, fine_count), self.held_samples
        held, count = self.axes.white(self.held, shrinkage), self.axes.feature_count
        outside = count - held.square().sum(dim=1)
        distance = (held - found.means()[own.targets]).square().sum(dim=1) + outside
        return float(own.weight @ distance) / count, float(own.weight @ (1.0 + 1.0 / found.counts[own.targets]))

    def scores(self, links: LinkMatrices, shrinkage: float, variances: Variances) -> Float[Tensor, "held fine"]:
        """The scores of held-out samples before they are multiplied by the sharpness."""
        found = self.statistics(shrinkage, links.fine_count)
        means = class_means(links, solve_effects(links, variances, found.counts, found.means()))
        factors, bias = score_factors(means, found.counts)
        return factors * (self.axes.white(self.asked, shrinkage) @ means.t()) + bias

    def unseen_scores(
        self, links: LinkMatrices, strengths: PrototypeStrengths, unseen: Sequence[Int[Tensor, " _"]]
    ) -> Iterator[tuple[Float[Tensor, "held fine"], Float[Tensor, " fine"]]]:
        """The scores of held-out samples if some labels had no samples, and what an unseen share of 1 adds to them.

        Args:
            links: the links of the graph.
            strengths: the other strengths.
            unseen: the labels that lose their samples, one set after the other.
        """
        found, asked = self.statistics(strengths.shrinkage, links.fine_count), None
        for labels in unseen:
            counts = found.counts.index_fill(0, labels, 0.0)
            if not bool((counts > 0).any()):
                continue
            asked = self.axes.white(self.asked, strengths.shrinkage) if asked is None else asked
            means = class_means(links, solve_effects(links, strengths.variances, counts, found.means()))
            factors, bias = score_factors(means, counts)
            yield factors * (asked @ means.t()) + bias, score_factors(means, counts, 1.0)[1] - bias

    def pulls(
        self, names: tuple[str, ...], columns: Float[Tensor, "fine number"], strengths: PrototypeStrengths
    ) -> Float[Tensor, "held fine"]:
        """The scores of the regressions of values, for held-out samples."""
        found, noise = self.statistics(strengths.shrinkage, len(columns)), strengths.variances.noise
        fitted = fit_pulls(names, columns, found.counts, found.means(), noise)
        return fitted.scores(self.axes.white(self.asked, strengths.shrinkage), columns)


@dataclass(frozen=True)
class _Trial:
    """The result of one shrinkage on held-out samples."""

    shrinkage: float
    variances: Variances
    sharpness: float
    sharpness_error: float
    judged: int
    log_likelihood: float
    error: float
    doubt: _Doubt


def _try_shrinkage(
    whole: _Whole,
    parts: Sequence[_Fold],
    judged: Sequence[_Fold],
    links: LinkMatrices,
    shrinkage: float,
    start: Variances | None,
    *,
    doubt: bool = False,
) -> _Trial:
    """Fit and judge with one shrinkage, and with a doubt if asked."""
    noise = SINGLE_NOISE
    if parts:
        apart, expected = (
            sum(one) for one in zip(*(part.noise(shrinkage, links.fine_count) for part in parts), strict=True)
        )
        noise = max(apart / expected, _MIN_NOISE)
    variances = whole.variances(links, shrinkage, noise, start)
    scores = torch.cat([part.scores(links, shrinkage, variances) for part in judged])
    targets = torch.cat([part.held_samples.targets for part in judged])
    weight = torch.cat([part.held_samples.weight for part in judged])

    def log_likelihood(joint: Tensor) -> Tensor:
        return joint.gather(1, targets[:, None])[:, 0] - torch.logsumexp(joint, dim=1)

    centre = _prior_sharpness(whole.covariance, whole.axes.feature_count, noise)
    held, chosen = _Held(scores, targets, weight, log_likelihood), _Doubt()
    found = _sharpness(held, chosen, centre, 1.0 / noise)
    if doubt:  # it changes nothing at the usual lead, so one round is enough
        chosen = _doubt(held, found.value)
        found = _sharpness(held, chosen, centre, 1.0 / noise)
    return _Trial(
        shrinkage, variances, found.value, found.error, len(targets), found.log_likelihood, found.spread, chosen
    )


def _prior_shrinkage(samples: LabelledSamples) -> float:
    """The centre of the prior on shrinkage."""
    per_class = float(samples.weight.sum()) / len(torch.unique(samples.targets))
    return min(SHRINKAGE_TIMES_COUNT / per_class, MAX_SHRINKAGE)


def _likely_shrinkage(trials: Sequence[_Trial], centre: float) -> float:
    """The geometric mean of the shrinkages, weighted by the prior and by how likely they make held-out samples.

    A mean log likelihood one standard error (at least `LIKELIHOOD_DOUBT`) below the best counts as
    one standard deviation away.
    """
    best = max(trials, key=lambda trial: trial.log_likelihood)
    places = torch.tensor([math.log(trial.shrinkage) for trial in trials], dtype=torch.float64)
    behind = torch.tensor([best.log_likelihood - trial.log_likelihood for trial in trials], dtype=torch.float64)
    away = (places - math.log(centre)) / math.log(SHRINKAGE_FACTOR)
    behind /= max(best.error, LIKELIHOOD_DOUBT)
    weight = torch.softmax(-0.5 * (away.square() + behind.square()), dim=0)
    return math.exp(float(weight @ places))


# ---- sharpness and doubt ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Held:
    """Held-out samples: scores before the sharpness, fine labels, weights, and the log likelihood of joint scores.

    Samples of a class are correlated, so standard errors are computed over classes.
    """

    scores: Float[Tensor, "batch fine"]
    targets: Int[Tensor, " batch"]
    weight: Float[Tensor, " batch"]
    log_likelihood: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class _Doubt:
    """A doubt by its strength c: scores of the lead l are multiplied by sqrt((1 + c) / (1 + c l / usual lead)).

    Attributes:
        strength: c; 0 for none.
        lead: the usual lead of scores before the sharpness.
    """

    strength: float = 0.0
    lead: float = 1.0

    @property
    def gain(self) -> float:
        return math.sqrt(1.0 + self.strength)

    def at(self, sharpness: float) -> float:
        """The doubt of a head whose scores are sharpness x gain as large."""
        return self.strength / (self.lead * sharpness * self.gain)

    def joint(self, scores: Tensor, sharpness: float) -> Tensor:
        """Joint scores."""
        if not self.strength:
            return sharpness * scores
        return doubted(sharpness * self.gain * scores, self.at(sharpness))


def _doubt(held: _Held, sharpness: float) -> _Doubt:
    """The doubt that suits held-out samples best at a sharpness, under a prior on the slope at the usual lead."""
    lead = float(held.weight @ _leads(held.scores) / held.weight.sum())
    if not lead > 0.0:
        return _Doubt()

    def of(slope: float) -> _Doubt:
        return _Doubt(2.0 * slope / (1.0 - 2.0 * slope), lead)

    def log_posterior(slope: float) -> float:
        away = (slope - PRIOR_SLOPE) / PRIOR_SLOPE_SPREAD
        likelihood = held.log_likelihood(of(slope).joint(held.scores, sharpness))
        return float(held.weight @ likelihood) - 0.5 * away * away

    slope = golden_maximum(log_posterior, 0.0, MAX_SLOPE, tolerance=1e-3)
    return of(slope) if log_posterior(slope) > log_posterior(0.0) else _Doubt()


@dataclass(frozen=True)
class _Sharpness:
    """A sharpness, the standard error of its logarithm, the mean log likelihood and the standard error of that."""

    value: float
    error: float
    log_likelihood: float
    spread: float


def _prior_sharpness(covariance: Covariance, feature_count: int, noise: float) -> float:
    return min(1.0, PRIOR_DIRECTIONS[covariance] / feature_count) / noise


def _sharpness(held: _Held, doubt: _Doubt, centre: float, highest: float) -> _Sharpness:
    """The sharpness that suits held-out samples, under a wide prior.

    Args:
        held: the samples.
        doubt: the doubt of their scores.
        centre: the centre of the prior.
        highest: the largest sharpness allowed: that of independent directions.
    """
    precision, weight, targets = math.log(PRIOR_DIRECTIONS_FACTOR) ** -2, held.weight, held.targets

    def log_likelihood(sharpness: float) -> Tensor:
        return held.log_likelihood(doubt.joint(held.scores, sharpness))

    def log_posterior(place: float) -> float:
        return float(weight @ log_likelihood(math.exp(place))) - 0.5 * precision * (place - math.log(centre)) ** 2

    low, high = math.log(centre) - 6.0, min(math.log(centre) + 6.0, math.log(highest))
    place = golden_maximum(log_posterior, low, max(low, high))
    step = 1e-3
    below, here, above = (log_likelihood(math.exp(place + move)) for move in (-step, 0.0, step))
    slope = (above - below) / (2.0 * step)
    bend = -float(weight @ (above + below - 2.0 * here)) / step**2
    mean = float(weight @ here / weight.sum())
    return _Sharpness(
        value=math.exp(place),
        error=float(_class_sums(weight * slope, targets).norm()) / (max(bend, 0.0) + precision),
        log_likelihood=mean,
        spread=float(_class_sums(weight * (here - mean), targets).norm() / weight.sum()),
    )


def golden_maximum(function: Callable[[float], float], low: float, high: float, tolerance: float = 1e-4) -> float:
    """Where a function with a single peak is largest, by golden sections."""
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > tolerance:
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = function(right)
    return (low + high) / 2.0


def _class_sums(values: Tensor, targets: Tensor) -> Tensor:
    return torch.zeros(int(targets.max()) + 1, dtype=torch.float64).index_add_(0, targets, values)


def _statistics(white: Tensor, samples: LabelledSamples, fine_count: int) -> ClassSums:
    return ClassSums.of_chunks([(white, samples.targets, samples.weight)], fine_count, white.shape[1])
