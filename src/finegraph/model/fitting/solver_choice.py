"""The choice between closed form and descent, made on held-out samples.

Both are fitted to the same folds, in which similar samples are held out together, and the one under which the
held-out fine labels are more likely wins. Descent tries the strengths of its prior from strong to weak, with the
label graph and without it. Without, it is plain softmax, so if the graph does not help, nothing is lost.

To be quick, the contest uses at most 64 fine labels in whole families, and it ends after the first fold
if the closed form is ahead by more than chance, which is usual with few photos per class. Descent has to be
ahead by more than chance over all folds: the closed form is calibrated, quicker, and can be taught.

What chance does is told by groups of similar samples of a class, which are held out together: samples of a group are
much alike, and groups differ as future samples of these classes will. Few groups tell it badly, so with them the lead
has to be larger, by Student's t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.model.fitting.alike_folds import TensorFold, alike_folds
from finegraph.model.fitting.compression import compressed, compressions_of
from finegraph.model.fitting.descent import SOFTMAX_RATIO, FitSettings, fit_head
from finegraph.model.fitting.feature_scales import FeatureScales
from finegraph.model.fitting.labelled_samples import LabelledSamples, usable_samples
from finegraph.model.fitting.prototype_strengths import (
    FOLDS,
    PrototypeStrengths,
    held_out_log_probs,
)
from finegraph.model.fitting.shared_samples import SharedSamples

Solver = Literal["prototypes", "descent"]
MAX_CONTEST_LABELS = 64
MAX_CONTEST_SAMPLES = 1024
L2_PATH = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
_TOLERANCE = 1e-2
_MIN_ERRORS_AHEAD = 2.0
"""A lead of more standard errors is more than chance, if many groups of samples tell the standard error."""


@dataclass(frozen=True, kw_only=True)
class SolverChoice:
    """The chosen solver.

    Attributes:
        solver: the solver.
        reason: the reason in a sentence.
        settings: the settings of descent that did best; None if it was not tried.
        log_likelihoods: by solver the mean log probability of held-out fine labels; empty if none were held out.
    """

    solver: Solver
    reason: str
    settings: FitSettings | None = None
    log_likelihoods: dict[str, float]


def choose_solver(
    features: Float[Tensor, "batch feature"],
    targets: Int[Tensor, " batch"],
    graph: LabelGraph,
    strengths: PrototypeStrengths,
    base: FitSettings,
    *,
    sample_weight: Float[Tensor, " batch"] | None = None,
    block_sizes: Sequence[int] | None = None,
    views: Float[Tensor, "batch view feature"] | None = None,
) -> SolverChoice:
    """Compare the closed form and descent on held-out samples.

    Args:
        features: one row per sample.
        targets: the fine label of each sample, -100 if not observed.
        graph: the label graph.
        strengths: the strengths of the closed form.
        base: the settings of descent except its strengths.
        sample_weight: how much each sample counts.
        block_sizes: as for `fit_prototypes`.
        views: as for `fit_prototypes`.
    """
    sizes = (features.shape[1],) if block_sizes is None else tuple(block_sizes)
    usable = usable_samples(features, targets, graph, sample_weight, sizes, views)
    shared = SharedSamples(usable, graph)
    samples, _, graph = shared.selected(MAX_CONTEST_LABELS, MAX_CONTEST_SAMPLES)
    if len(graph) == 1:
        return SolverChoice(
            solver="prototypes", reason="all samples have one class, so there is nothing to compare", log_likelihoods={}
        )
    folds = alike_folds(samples.features, samples.targets, FOLDS)
    if not folds:
        return SolverChoice(
            solver="prototypes", reason="every class has one sample, so nothing can be held out", log_likelihoods={}
        )
    given = shared.given(samples)
    fitted = compressed(given, compressions_of(given, strengths.compression)) if strengths.compression else samples
    ours = held_out_log_probs(fitted, graph, strengths, folds)
    scale = FeatureScales.of(samples.features, None).fine
    asked = None if samples.views is None else (samples.views[:, :1] / scale).float()
    scaled = replace(samples, features=(samples.features / scale).float(), views=asked)
    tried = _settings(base, graph)
    # The first fold shows which settings are worth another look, and usually who wins.
    first = [_log_probs(fit, scaled, folds[0]) for fit in _along_path(scaled, folds[0], graph, tried)]
    means = [_mean(scaled, folds[:1], [one]) for one in first]
    best = max(range(len(tried)), key=means.__getitem__)
    own, lead, error, groups = _compare(scaled, folds[:1], ours[:1], [first[best]])
    if lead <= errors_of_chance(groups) * error and len(folds) > 1:
        rest = [
            _log_probs(fit_head(*_kept(scaled, fold), graph, tried[best], sample_weight=_weight(scaled, fold)).head,
                       scaled, fold)
            for fold in folds[1:]
        ]  # fmt: skip
        own, lead, error, groups = _compare(scaled, folds, ours, [first[best], *rest])
    likelihoods = {"prototypes": own, "descent": own - lead}
    enough = errors_of_chance(groups)
    held = f"held-out samples are less likely under descent, by {lead:.3f} (standard error {error:.3f})"
    if lead < -enough * error:
        held = f"held-out samples are more likely under descent, by {-lead:.3f} (standard error {error:.3f})"
        return SolverChoice(solver="descent", reason=held, settings=tried[best], log_likelihoods=likelihoods)
    if lead <= 0.0:
        held = f"descent was ahead by {-lead:.3f} on held-out samples, which are too few to tell that from chance"
    if lead <= 0.0 and math.isfinite(enough):
        held = (
            f"descent was ahead by {-lead:.3f} on held-out samples, less than {enough:.1f} standard errors "
            f"(of {error:.3f} each), so it may be chance"
        )
    return SolverChoice(solver="prototypes", reason=held, settings=tried[best], log_likelihoods=likelihoods)


def _settings(base: FitSettings, graph: LabelGraph) -> list[FitSettings]:
    """The candidate settings of descent: paths from strong to weak priors, with the graph and without."""
    base = replace(base, tolerance=max(base.tolerance, _TOLERANCE))
    paths = [base]
    if base.head == "bipartite" and graph.kinds:
        paths.append(replace(base, coarse_ratio=SOFTMAX_RATIO, kind_weight=None))
    return [replace(one, l2=l2) for one in paths for l2 in L2_PATH]


def _along_path(
    samples: LabelledSamples, fold: TensorFold, graph: LabelGraph, settings: Sequence[FitSettings]
) -> list[torch.nn.Module]:
    """The heads fitted to the training samples, each starting from the last one if its prior is weaker."""
    heads: list[torch.nn.Module] = []
    fit = None
    for number, setting in enumerate(settings):
        start = fit.head if fit is not None and setting.l2 < settings[number - 1].l2 else None
        fit = fit_head(*_kept(samples, fold), graph, setting, sample_weight=_weight(samples, fold), start=start)
        heads.append(fit.head)
    return heads


def _kept(samples: LabelledSamples, fold: TensorFold) -> tuple[Tensor, Tensor]:
    return samples.features[fold[0]], samples.targets[fold[0]]


def _weight(samples: LabelledSamples, fold: TensorFold) -> Tensor:
    return samples.weight[fold[0]]


@torch.no_grad()
def _log_probs(head: torch.nn.Module, samples: LabelledSamples, fold: TensorFold) -> Float[Tensor, " sample"]:
    """The log probabilities of the fine labels of held-out samples."""
    log_probs: Tensor = head(samples.asked[fold[1]]).log_probs()
    return log_probs.gather(1, samples.targets[fold[1], None])[:, 0].double()


def _mean(samples: LabelledSamples, folds: Sequence[TensorFold], log_probs: Sequence[Tensor]) -> float:
    weight = torch.cat([samples.weight[held] for _, held in folds])
    return float(weight @ torch.cat(list(log_probs)) / weight.sum())


def _compare(
    samples: LabelledSamples, folds: Sequence[TensorFold], ours: Sequence[Tensor], theirs: Sequence[Tensor]
) -> tuple[float, float, float, int]:
    """The mean log probability of the closed form, its lead over descent, the standard error of that, and the groups.

    A group is what is held out together of a class. Over classes, of which there may be three, the error would mostly
    tell how much the lead differs between them, which is no chance: future samples are of the same classes.
    """
    weight = torch.cat([samples.weight[held] for _, held in folds])
    targets = torch.cat([samples.targets[held] for _, held in folds])
    fold = torch.cat([torch.full((len(held),), number) for number, (_, held) in enumerate(folds)])
    share = weight / weight.sum()
    ahead = torch.cat(list(ours)) - torch.cat(list(theirs))
    lead = float(share @ ahead)
    found, group = torch.unique(targets * len(folds) + fold, return_inverse=True)
    groups = len(found)
    by_group = torch.zeros(groups, dtype=torch.float64).index_add_(0, group, share * (ahead - lead))
    error = float(by_group.norm()) * math.sqrt(groups / max(groups - 1, 1))
    return float(share @ torch.cat(list(ours))), lead, error, groups


def errors_of_chance(groups: int) -> float:
    """How many standard errors a lead has by chance with this number of groups, as rarely as two with very many.

    The quantile of Student's t, by the expansion of Cornish and Fisher for 2; with three groups it is 4 % too small.
    """
    freedom = groups - 1
    if freedom < 2:
        return math.inf
    return _MIN_ERRORS_AHEAD + 2.5 / freedom + 3.0625 / freedom**2 + 2.859 / freedom**3
