"""The one way to a fitted head: in closed form or by descent, as settings ask for or held-out samples say.

    auto         descent if the closed form has no use for a setting or for photo labels; the closed form if descent
                 would take hours; else both, on held-out samples (solver_choice.py)
    prototypes   class means in closed form (prototypes.py)
    descent      the minimum of the joint loss (descent.py), with the strengths as given, or with those of a grid under
                 which validation samples, or else held-out ones, are most likely (selection.py)

Training, studies and estimators differ only in the features that they bring and in their `SolverSettings`.

Cost: that of the solver; a choice between both costs a few fits to at most 1,024 samples, and a grid about one fit per
setting and fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.inference.processes import Processes
from finegraph.model.fitting.descent import Fit, FitSettings, fit_head
from finegraph.model.fitting.feature_scales import FeatureScales
from finegraph.model.fitting.fit_samples import NOT_OBSERVED
from finegraph.model.fitting.prototype_strengths import PrototypeStrengths
from finegraph.model.fitting.prototypes import PrototypeFit, PrototypeSettings, fit_prototypes, fit_shared_prototypes
from finegraph.model.fitting.rows import exact_numbers
from finegraph.model.fitting.selection import Fold, Grid, GridSearch, LabelledFeatures, compare_settings, grid_settings
from finegraph.model.fitting.solver_choice import Solver, SolverChoice, choose_solver
from finegraph.nn import BipartiteHead, SoftmaxHead
from finegraph.nn.scaling import Scaling

_MAX_PRODUCTS = 10**12
"""The largest fine labels x samples x features that descent is compared for: a step takes about a minute there."""
Chosen = FitSettings | PrototypeStrengths
"""What a head was fitted with: by descent, or in closed form."""
Descent = Callable[[LabelledFeatures, LabelGraph, FitSettings], Fit]
"""What minimises the loss, such as `descend`."""


@dataclass(frozen=True, kw_only=True)
class SolverSettings:
    """How to fit a head."""

    solver: Literal["auto", "descent", "prototypes"] = "auto"
    """The solver, or `"auto"` for the one under which held-out samples are more likely."""

    descent: FitSettings = field(default_factory=FitSettings)
    """The settings of descent. Its head is that of both solvers."""

    doubt: bool = True
    """Whether a head in closed form may have a doubt; see `PrototypeSettings`."""

    compress: bool = True
    """Whether the closed form may compress features; see `PrototypeSettings`."""

    shrinkage: float | None = None
    """The shrinkage of the closed form; by default chosen on held-out samples."""

    descent_only: tuple[str, ...] = ()
    """The names of settings that were given and mean nothing to the closed form: `"auto"` is then descent."""

    grid: Grid | None = None
    """The strengths of descent to choose from, per name; what is not named stays as `descent` says. By default nothing
    is chosen."""

    grid_tolerance: float | None = None
    """The tolerance of fits that are only compared; by default that of `descent`."""

    scale: bool = False
    """Whether descent gets features of one size (feature_scales.py). The head takes them as they are all the same."""

    ignore_unused: bool = False
    """Whether photo labels of kinds without weight in the loss are ignored; by default they are refused."""

    def __post_init__(self) -> None:
        if self.solver not in ("auto", "descent", "prototypes"):
            raise InputError(f"solver: expected 'auto', 'descent' or 'prototypes', got {self.solver!r}")


@dataclass(frozen=True, kw_only=True)
class SolvedHead:
    """A fitted head, and why it is this one.

    Attributes:
        head: the head, on scaled features if there is a scaling.
        solver: what fitted it.
        reason: why this solver, in a sentence; None if the settings named it.
        chosen: what it was fitted with, so that another one can be fitted alike.
        iterations: the number of steps.
        converged: whether it came to a minimum.
        prototypes: what the closed form found, with its scaling; None after descent.
        search: how the settings of the grid compare; None if there was nothing to choose, or nothing to choose on.
    """

    head: BipartiteHead | SoftmaxHead
    solver: Solver
    reason: str | None = None
    chosen: Chosen
    iterations: int = 1
    converged: bool = True
    prototypes: PrototypeFit | None = None
    search: GridSearch | None = None

    @property
    def scaling(self) -> Scaling | None:
        """What transforms features for the head; None if it takes them as they are."""
        return None if self.prototypes is None else self.prototypes.scaling

    @property
    def strengths(self) -> dict[str, Any]:
        """What the head was fitted with, by name, for a record."""
        if isinstance(self.chosen, FitSettings):
            found = {**asdict(self.chosen), "kind_weight": self.chosen.kind_weights(self.head.graph)}
            if self.chosen.is_softmax:
                found["coarse_ratio"] = None  # JSON has no infinity, and that no kind has a weight says it
            return found
        fit = self.prototypes
        assert fit is not None
        return {
            "covariance": fit.covariance,
            "shrinkage": fit.shrinkage,
            "compression": fit.strengths.compression,
            "variances": asdict(fit.variances),
            "temperature": fit.temperature,
            # Whole classes that were held out, where each has one photo, say less than photos do.
            "held_out": fit.held_out if fit.covariance == "within" else 0,
            "validated": fit.strengths.validated,
        }


def descend(samples: LabelledFeatures, graph: LabelGraph, settings: FitSettings) -> Fit:
    """Minimise the joint loss of samples."""
    return fit_head(
        samples.features,
        samples.targets,
        graph,
        settings,
        coarse_features=samples.coarse_features,
        kind_targets=samples.kind_targets or None,
        sample_weight=samples.sample_weight,
    )


def solve_head(
    samples: LabelledFeatures,
    graph: LabelGraph,
    settings: SolverSettings | None = None,
    *,
    val: LabelledFeatures | None = None,
    folds: Sequence[Fold] | None = None,
    chosen: Chosen | None = None,
    descent: Descent = descend,
) -> SolvedHead:
    """Fit a head to features, by the solver that suits.

    Args:
        samples: what it is fitted to.
        graph: the label graph.
        settings: how it is fitted; by default `SolverSettings()`.
        val: validation samples that strengths are chosen on: those of the closed form beside held-out samples, those of
            descent instead of them.
        folds: the folds in which settings of a grid are compared without validation samples; by default they are dealt.
        chosen: what an earlier head was fitted with, so that this one is fitted alike; by default it is chosen here.
        descent: what minimises the loss.

    Raises:
        InputError: the closed form was asked for, and there are photo labels, of which it knows nothing.

    Example:
        >>> import torch
        >>> graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
        >>> solved = solve_head(LabelledFeatures(torch.eye(3), torch.tensor([0, 1, 2])), graph)
        >>> solved.solver, solved.reason
        ('prototypes', 'every class has one sample, so nothing can be held out')
    """
    settings = settings or SolverSettings()
    if isinstance(chosen, PrototypeStrengths):
        return _closed(_prototypes(samples, graph, settings, None, chosen))
    if chosen is not None:
        return _descended(samples, graph, settings, val, folds, chosen, descent)
    if settings.solver == "descent":
        return _descended(samples, graph, settings, val, folds, None, descent)
    if settings.solver == "prototypes":
        if names := closed_form_ignores(graph, samples.kind_targets or {}):
            raise InputError(
                "kind_targets: labels seen on samples, and values of numbers that are exact for all classes, say "
                f"nothing about class means; leave out {', '.join(names)}, or use solver='descent'"
            )
        return _closed(_prototypes(samples, graph, settings, val))
    reason = _why_descent(samples, graph, settings)
    if reason is not None:
        return replace(_descended(samples, graph, settings, val, folds, None, descent), reason=reason)
    fit = _prototypes(samples, graph, settings, val)
    if (reason := _why_no_descent(samples)) is not None:
        return replace(_closed(fit), reason=reason)
    choice = _contest(samples, graph, settings, fit)
    if choice.solver == "descent":
        solved = _descended(samples, graph, settings, val, folds, choice.settings, descent)
        return replace(solved, reason=choice.reason)
    return replace(_closed(fit), reason=choice.reason)


def solve_shared_head(
    samples: LabelledFeatures,
    graph: LabelGraph,
    settings: SolverSettings,
    processes: Processes,
    *,
    val: LabelledFeatures | None = None,
) -> SolvedHead | None:
    """Fit a head in closed form to the samples of several processes; see `fit_shared_prototypes`.

    Args:
        samples: those of this process. What was seen on them besides their fine labels takes no part.
        graph: the label graph.
        settings: how it is fitted; the solver is the closed form.
        processes: this process among those of the fit, all of which call this.
        val: validation samples, in the first process.

    Returns:
        The head in the first process; None in the others.
    """
    fit = fit_shared_prototypes(
        samples.features,
        samples.targets,
        graph,
        _prototype_settings(settings),
        sample_weight=samples.sample_weight,
        block_sizes=samples.block_sizes,
        views=samples.views,
        val=None if val is None else (val.features, val.targets),
        processes=processes,
    )
    return None if fit is None else _closed(fit)


def closed_form_ignores(
    graph: LabelGraph, kind_targets: Mapping[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]]
) -> list[str]:
    """The observations that the closed form cannot use: labels, and values of which all classes are sure."""
    exact = exact_numbers(graph)
    return [name for name in kind_targets if exact.get(name, True)]


def _why_descent(samples: LabelledFeatures, graph: LabelGraph, settings: SolverSettings) -> str | None:
    """Why the closed form cannot be used; None if it can."""
    if settings.descent_only:
        return f"the closed form has no {', '.join(settings.descent_only)}"
    if samples.coarse_features is not None:
        return "the closed form has one feature for fine and coarse labels"
    kinds = closed_form_ignores(graph, samples.kind_targets or {})
    return f"the closed form knows nothing of photo labels, and there are some of {', '.join(kinds)}" if kinds else None


def _why_no_descent(samples: LabelledFeatures) -> str | None:
    """The reason why descent is not compared, as it would take too long; None if it is."""
    seen = samples.targets[samples.targets != NOT_OBSERVED]
    labels = len(torch.unique(seen))
    if labels * len(seen) * samples.features.shape[1] <= _MAX_PRODUCTS:
        return None
    return f"each step of descent would take minutes with {labels:,} fine labels and {len(seen):,} samples"


def _contest(samples: LabelledFeatures, graph: LabelGraph, settings: SolverSettings, fit: PrototypeFit) -> SolverChoice:
    """Compare the closed form, as it was fitted, with descent."""
    return choose_solver(
        samples.features,
        samples.targets,
        graph,
        fit.strengths,
        settings.descent,
        sample_weight=samples.sample_weight,
        block_sizes=samples.block_sizes,
        views=samples.views,
    )


# ---- in closed form -------------------------------------------------------------------------------------------------


def _prototypes(
    samples: LabelledFeatures,
    graph: LabelGraph,
    settings: SolverSettings,
    val: LabelledFeatures | None,
    strengths: PrototypeStrengths | None = None,
) -> PrototypeFit:
    """Fit class means. Photo labels take no part; values measured on samples do."""
    return fit_prototypes(
        samples.features,
        samples.targets,
        graph,
        _prototype_settings(settings),
        sample_weight=samples.sample_weight,
        block_sizes=samples.block_sizes,
        strengths=strengths,
        views=samples.views,
        measured={name: values for name, values in (samples.kind_targets or {}).items() if name in graph.numbers},
        val=None if val is None else (val.features, val.targets),
    )


def _prototype_settings(settings: SolverSettings) -> PrototypeSettings:
    return PrototypeSettings(
        head=settings.descent.head, shrinkage=settings.shrinkage, doubt=settings.doubt, compress=settings.compress
    )


def _closed(fit: PrototypeFit) -> SolvedHead:
    return SolvedHead(head=fit.head, solver="prototypes", chosen=fit.strengths, prototypes=fit)


# ---- by descent -----------------------------------------------------------------------------------------------------


def _descended(
    samples: LabelledFeatures,
    graph: LabelGraph,
    settings: SolverSettings,
    val: LabelledFeatures | None,
    folds: Sequence[Fold] | None,
    chosen: FitSettings | None,
    descent: Descent,
) -> SolvedHead:
    """Minimise the joint loss, with settings that were chosen before or are chosen now."""
    scales = FeatureScales.of(samples.features, samples.coarse_features) if settings.scale else None
    if scales is not None:
        samples, val = _scaled(samples, scales), None if val is None else _scaled(val, scales)
    found = None
    if chosen is None:
        chosen, found = choose_strengths(samples, graph, settings, val, folds)
    chosen = replace(chosen, tolerance=settings.descent.tolerance)
    fit = descent(_used(samples, graph, settings, chosen), graph, chosen)
    if scales is not None:
        scales.undo(fit.head)
    return SolvedHead(
        head=fit.head,
        solver="descent",
        chosen=chosen,
        iterations=fit.iterations,
        converged=fit.converged,
        search=found,
    )


def _scaled(samples: LabelledFeatures, scales: FeatureScales) -> LabelledFeatures:
    """Samples with features of one size; descent has no use for single views."""
    coarse = None if samples.coarse_features is None else samples.coarse_features / scales.coarse
    return samples._replace(features=samples.features / scales.fine, coarse_features=coarse, views=None)


def choose_strengths(
    samples: LabelledFeatures,
    graph: LabelGraph,
    settings: SolverSettings,
    val: LabelledFeatures | None = None,
    folds: Sequence[Fold] | None = None,
) -> tuple[FitSettings, GridSearch | None]:
    """The strengths of the grid under which validation samples are most likely; without any, by cross-validation.

    Args:
        samples: what is fitted, scaled already.
        graph: the label graph.
        settings: the grid, and what is not in it.
        val: the validation samples.
        folds: the folds of cross-validation; by default they are dealt.

    Returns:
        The settings of descent, and how all of them compare; None if there was nothing to choose, or nothing to choose
        on, and they are as given.
    """
    base = settings.descent
    if settings.grid is None:
        return base, None
    tried = base if settings.grid_tolerance is None else replace(base, tolerance=settings.grid_tolerance)
    held_out = None if val is None or not len(val.targets) else val
    own = _used(samples, graph, settings, base)
    found = compare_settings(grid_settings(tried, settings.grid), graph, own, held_out, folds)
    if found is None:
        return base, None
    return replace(found.settings[found.best], tolerance=base.tolerance), found


def _used(
    samples: LabelledFeatures, graph: LabelGraph, settings: SolverSettings, chosen: FitSettings
) -> LabelledFeatures:
    """Samples without labels of kinds that do not count, as under a softmax head."""
    if not settings.ignore_unused or not samples.kind_targets:
        return samples
    weights = chosen.kind_weights(graph)
    return samples._replace(
        kind_targets={name: labels for name, labels in samples.kind_targets.items() if weights[name] > 0}
    )
