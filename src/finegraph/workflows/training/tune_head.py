"""Train the last layer alone: the features of each photo are computed once, and the head is fitted to them exactly.

Minutes become seconds, and there are no learning rates. Strengths of the priors are those of the settings, or chosen by
validation. Stored features make a second run, or one that continues after an interruption, start where the last ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from finegraph.data.dataset import targets_of, training_targets
from finegraph.data.measured_values import measured_values
from finegraph.data.samples import Samples
from finegraph.data.transforms import ViewSettings
from finegraph.errors import DataError, PhotoFileError, SettingsError
from finegraph.graph import LabelGraph
from finegraph.model.answering.pipeline import known_posteriors
from finegraph.model.features import Features, extract_features
from finegraph.model.features.extract import Cache
from finegraph.model.fitting import FitSettings, fit_head
from finegraph.model.fitting.feature_scales import FeatureScales
from finegraph.model.fitting.prototype_strengths import PrototypeStrengths
from finegraph.model.fitting.prototypes import PrototypeFit, PrototypeSettings, fit_prototypes
from finegraph.model.fitting.rows import exact_numbers
from finegraph.model.fitting.selection import LabelledFeatures, choose_settings, default_grid, grid_settings
from finegraph.model.fitting.solver_choice import choose_solver
from finegraph.model.folder.model_card import CALIBRATED_ON
from finegraph.model.structure.latent_cells import LatentCells, fit_with_cells
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.nn import BipartiteHead, Network, SoftmaxHead
from finegraph.training.distributed import Ranks
from finegraph.training.settings import TrainSettings
from finegraph.training.shared_features import shared_features
from finegraph.workflows.indexing.similar_photos import TrainingFeatures
from finegraph.workflows.training.learnt_graph import GraphLearnt, learn_training_graph, wants_graph
from finegraph.workflows.training.training_data import TrainingData
from finegraph.workflows.training.training_views import mean_of_views, parts_of
from finegraph.workflows.training.validation import Tally

Chosen = FitSettings | PrototypeStrengths
"""What a head was fitted with: by descent, or in closed form."""
Stage = Callable[[str], Callable[[int, int], None]]
"""Given the name of a stage, such as "features", its progress callback."""
_TOLERANCE = 1e-3
"""How near to its minimum a fit ends, as a share; ten times nearer takes twice as long and changes no metric."""


@dataclass(frozen=True, kw_only=True)
class TunedHead:
    """What tuning the head gave.

    Attributes:
        strengths: what the head was fitted with, by name.
        metrics: on the validation photos; empty if there are none.
        iterations: how many steps the fit took.
        converged: whether it came to a minimum.
        bad: the photos that could not be read.
        notes: what was unusual, such as damaged features.
        known: the features of all photos; None if there are no validation photos.
        statistics: of a fit in closed form, which lessons can be added to.
        chosen: what the head was fitted with, so that another one can be fitted alike.
        learnt: what was learnt about the graph, which the head has then; None if nothing was asked for.
    """

    strengths: dict[str, Any]
    metrics: dict[str, float]
    iterations: int
    converged: bool
    bad: tuple[PhotoFileError, ...]
    notes: tuple[str, ...]
    known: TrainingFeatures | None = None
    statistics: ClassStatistics | None = None
    chosen: Chosen | None = None
    learnt: GraphLearnt | None = None


def tune_head(
    network: Network,
    data: TrainingData,
    views: ViewSettings,
    settings: TrainSettings,
    ranks: Ranks,
    progress: Stage,
) -> TunedHead | None:
    """Fit the head of a network to photos; it is put into the network.

    In a job of several processes each computes the features of its share and sends them to the first, which fits the
    head; the others get None.
    """
    cache = None if settings.cache is None else Path(settings.cache)

    def features_of(samples: Samples) -> Features:
        return _features(network, samples, views, settings, cache, progress("features"))

    def features_of_training(samples: Samples) -> Features:
        return training_features(network, samples, views, settings, cache, progress)

    train = shared_features(ranks, data.train, features_of_training)
    val = None if data.val is None else shared_features(ranks, data.val, features_of)
    if train is None:
        return None
    if not len(train.samples):
        raise DataError(f"{data.train.source}: none of the {len(data.train)} training photos can be read")
    learnt = None
    if wants_graph(settings):
        learnt = learn_training_graph(network, train, data.graph, settings)
        take_graph(network, learnt.graph(room=settings.tune == "all"))
    cells = None if learnt is None or learnt.cells is None else learnt.cells.latent()
    fitted = fit_to(network, train, val, settings, cells=cells)
    if learnt is not None:
        learnt = learnt.moved_to(network.graph, fitted.notes)
    return TunedHead(
        strengths=fitted.strengths,
        metrics={} if val is None else metrics_of(network, val),
        iterations=fitted.iterations,
        converged=fitted.converged,
        bad=(*train.bad, *(() if val is None else val.bad)),
        notes=tuple(
            dict.fromkeys(
                (*train.notes, *(() if val is None else val.notes), *(() if learnt is None else learnt.notes))
            )
        ),
        known=None if val is None else _known(train, val),
        statistics=fitted.statistics,
        chosen=fitted.chosen,
        learnt=learnt,
    )


def take_graph(network: Network, graph: LabelGraph) -> None:
    """Give a network a new head of another graph with the same fine labels."""
    head = network.head
    if isinstance(head, BipartiteHead):
        new: BipartiteHead | SoftmaxHead = BipartiteHead(head.features, graph, coarse_features=head.coarse_features)
    else:
        new = SoftmaxHead(head.features, graph)
    network.put_head(new.to(head.fine.weight), network.scaling)


def _known(train: Features, val: Features) -> TrainingFeatures:
    """What the report compares photos by: their first view, as an evaluation does later."""
    first = train if train.views is None else replace(train, fine=train.views[:, 0], views=None)
    return TrainingFeatures(first, val)


def training_features(
    network: Network, samples: Samples, views: ViewSettings, settings: TrainSettings, cache: Cache, progress: Stage
) -> Features:
    """The features that a head is fitted to: of each photo the mean over the views that the settings ask for.

    Args:
        network: its backbones are used.
        samples: the photos.
        views: how photos are cut.
        settings: how many views, and how they are computed.
        cache: where features are stored; False for nowhere.
        progress: called after each view.
    """
    first, of_parts, parts = (
        _features(network, samples, views, settings, cache, progress("features")),
        replace(views, box=True),
        [],
    )
    count = settings.train_views
    for number, part in enumerate(parts_of(first.samples, count, box=views.box), start=2):
        stage = progress(f"features of view {number} of {count}")
        part_samples = Samples(part, samples.source)
        parts.append((part, _features(network, part_samples, of_parts, settings, cache, stage)))
    return mean_of_views(first, parts)


def _features(
    network: Network,
    samples: Samples,
    views: ViewSettings,
    settings: TrainSettings,
    cache: Cache,
    progress: Callable[[int, int], None],
) -> Features:
    """The features of one view of each photo."""
    return extract_features(
        network,
        samples,
        views,
        cache=cache,
        threads=settings.workers,
        on_bad_file=settings.on_bad_file,
        progress=progress,
    )


class FittedHead(NamedTuple):
    """How fitting went; the head is in the network."""

    strengths: dict[str, Any]
    iterations: int
    converged: bool
    statistics: ClassStatistics | None = None
    chosen: Chosen | None = None
    notes: tuple[str, ...] = ()

    def because(self, reason: str) -> FittedHead:
        """The same with the reason why it was fitted so."""
        return self._replace(strengths={**self.strengths, "reason": reason})


def fit_to(
    network: Network,
    train: Features,
    val: Features | None,
    settings: TrainSettings,
    chosen: Chosen | None = None,
    cells: LatentCells | None = None,
) -> FittedHead:
    """Fit the head of a network to features; it is put into the network.

    Args:
        network: gets the head.
        train: what it is fitted to.
        val: what strengths are chosen on: those of the closed form beside held-out training photos, those of descent
            where the settings ask for that.
        settings: how it is fitted.
        chosen: what an earlier head was fitted with, so that this one is fitted alike; by default the settings say.
        cells: cells that are learnt on along with a head that is fitted by descent; by default none.
    """
    if isinstance(chosen, PrototypeStrengths):
        return _put_prototypes(network, train, _prototypes(network, train, None, settings, chosen))
    if chosen is not None:
        return _fit_by_descent(network, train, val, settings, chosen, cells)
    if settings.fit == "auto":
        return _fit_automatically(network, train, val, settings, cells)
    if settings.fit == "prototypes":
        return _fit_prototypes(network, train, val, settings)
    return _fit_by_descent(network, train, val, settings, cells=cells)


def _fit_automatically(
    network: Network, train: Features, val: Features | None, settings: TrainSettings, cells: LatentCells | None
) -> FittedHead:
    """Fit in closed form, or by descent where settings ask for it or held-out photos say so."""
    reason = _needs_descent(network, train, settings)
    if reason is not None:
        return _fit_by_descent(network, train, val, settings, cells=cells).because(reason)
    prototypes = _prototypes(network, train, val, settings)
    fine, _ = training_targets(train.samples, network.graph)
    sizes = network.backbone.block_sizes
    choice = choose_solver(
        train.fine,
        fine,
        network.graph,
        prototypes.strengths,
        fit_settings(settings),
        block_sizes=sizes,
        views=train.views,
    )
    if choice.solver == "descent":
        return _fit_by_descent(network, train, val, settings, choice.settings, cells).because(choice.reason)
    return _put_prototypes(network, train, prototypes).because(choice.reason)


def _needs_descent(network: Network, train: Features, settings: TrainSettings) -> str | None:
    """Why the closed form cannot be used with these settings; None if it can."""
    given = [name for name in ("l2", "coarse_ratio", "kind_weight") if getattr(settings, name) is not None]
    given += [name for name in ("laplacian", "choose") if getattr(settings, name)]
    if settings.head == "softmax" and "kind_weight" in given:
        given.remove("kind_weight")  # a softmax head has none: the settings say 0 by themselves
    if given:
        return f"the closed form has no {', '.join(given)}"
    if train.coarse is not None:
        return "the closed form has one feature for fine and coarse labels"
    kinds = _unknown_to_prototypes(train, network.graph)
    return f"the closed form knows nothing of photo labels, and there are some of {', '.join(kinds)}" if kinds else None


def _unknown_to_prototypes(train: Features, graph: LabelGraph) -> list[str]:
    """What was seen on photos and the closed form has no use for: labels, and values of which all classes are sure."""
    _, targets = training_targets(train.samples, graph)
    exact = exact_numbers(graph)
    return [name for name in targets if exact.get(name, True)]


def _measured(train: Features, graph: LabelGraph) -> dict[str, Tensor]:
    """The values that were measured on photos."""
    _, targets = training_targets(train.samples, graph)
    return {name: values for name, values in targets.items() if name in graph.numbers}


def _fit_by_descent(
    network: Network,
    train: Features,
    val: Features | None,
    settings: TrainSettings,
    chosen: FitSettings | None = None,
    cells: LatentCells | None = None,
) -> FittedHead:
    """Minimise the joint loss, with settings that were chosen before or are chosen now."""
    scales = FeatureScales.of(train.fine, train.coarse)
    train, val = scaled(train, scales), None if val is None else scaled(val, scales)
    if chosen is None:
        chosen = choose_strengths(network, train, val, settings) if settings.choose else fit_settings(settings)
    chosen = replace(chosen, tolerance=_TOLERANCE)
    fine, kinds = _targets(train.samples, chosen, network.graph)
    notes: tuple[str, ...] = ()
    if cells is not None and chosen.head == "bipartite" and not chosen.is_softmax:
        both = fit_with_cells(
            train.fine, fine, network.graph, chosen, cells, coarse_features=train.coarse, kind_targets=kinds
        )
        fit, notes = both.fit, (both.words,)
    else:
        fit = fit_head(
            train.fine, fine, network.graph, chosen, kind_targets=kinds or None, coarse_features=train.coarse
        )
    scales.undo(fit.head)
    network.put_head(fit.head)
    strengths = {**asdict(chosen), "kind_weight": chosen.kind_weights(network.graph)}
    if chosen.is_softmax:
        strengths["coarse_ratio"] = None  # JSON has no infinity, and that no kind has a weight says it
    return FittedHead(strengths, fit.iterations, fit.converged, chosen=chosen, notes=notes)


def _fit_prototypes(network: Network, train: Features, val: Features | None, settings: TrainSettings) -> FittedHead:
    """Fit class means in closed form. Photo labels take no part; values measured on photos do."""
    kinds = _unknown_to_prototypes(train, network.graph)
    if kinds:
        exact = [name for name in kinds if name in network.graph.numbers]
        why = f"; of {', '.join(exact)} all classes have exact values, from which no photo can differ" if exact else ""
        raise SettingsError(
            f"fit: class means know nothing of photo labels, and there are some of {', '.join(kinds)}{why}; use "
            "fit = descent, or photo_labels = ignore"
        )
    return _put_prototypes(network, train, _prototypes(network, train, val, settings))


def _prototypes(
    network: Network,
    train: Features,
    val: Features | None,
    settings: TrainSettings,
    strengths: PrototypeStrengths | None = None,
) -> PrototypeFit:
    fine, _ = training_targets(train.samples, network.graph)
    # A whole network is trained on scores as the layers give them.
    chosen = PrototypeSettings(head=settings.head, doubt=settings.tune != "all")
    sizes = network.backbone.block_sizes
    measured = _measured(train, network.graph) if settings.head == "bipartite" else {}
    return fit_prototypes(
        train.fine,
        fine,
        network.graph,
        chosen,
        block_sizes=sizes,
        strengths=strengths,
        views=train.views,
        measured=measured,
        val=None if val is None else (val.fine, targets_of(val.samples, network.graph)[0]),
    )


_HELD_OUT = {
    "within": "training photos that were held out while fitting",
    "total": "whole classes that were held out while fitting, as each has one photo, so only roughly",
}
"""What the sharpness of class means was chosen by, by the covariance of the fit."""


def _put_prototypes(network: Network, train: Features, fit: PrototypeFit) -> FittedHead:
    """Put class means and their scaling into the network."""
    network.put_head(fit.head, fit.scaling)
    strengths = {
        "covariance": fit.covariance,
        "shrinkage": fit.shrinkage,
        "variances": asdict(fit.variances),
        "temperature": fit.temperature,
        # Whole classes that were held out, where each has one photo, say less than photos do.
        "held_out": fit.held_out if fit.covariance == "within" else 0,
        "validated": fit.strengths.validated,
        **({CALIBRATED_ON: _HELD_OUT[fit.covariance]} if fit.held_out else {}),
    }
    fine, _ = training_targets(train.samples, network.graph)
    views = 1 if train.views is None else train.views.shape[1]
    statistics = ClassStatistics.of_fit(fit, train.fine, fine, views=views)
    return FittedHead(strengths, 1, True, statistics, fit.strengths)


def scaled(features: Features, scales: FeatureScales) -> Features:
    """Features divided by their scales."""
    coarse = None if features.coarse is None else features.coarse / scales.coarse
    return replace(features, fine=features.fine / scales.fine, coarse=coarse)


def fit_settings(settings: TrainSettings) -> FitSettings:
    """The part of the settings that is about fitting a head."""
    default = FitSettings()
    return FitSettings(
        head=settings.head,
        l2=default.l2 if settings.l2 is None else settings.l2,
        coarse_ratio=settings.coarse_ratio,
        laplacian=settings.laplacian,
        kind_weight=settings.kind_weight,
        tolerance=_TOLERANCE,
    )


def choose_strengths(network: Network, train: Features, val: Features | None, settings: TrainSettings) -> FitSettings:
    """The strengths under which validation photos are most likely; without such photos, by cross-validation.

    Strengths that the settings name are kept.
    """
    graph, base = network.graph, fit_settings(settings)
    grid = {
        name: values
        for name, values in default_grid(settings.head, graph).items()
        if getattr(settings, name) is None or (settings.head == "softmax" and name == "kind_weight")
    }
    if not grid:
        return base
    fine, kinds = _targets(train.samples, base, graph)
    features = LabelledFeatures(train.fine, fine, train.coarse, kinds)
    held_out = None
    if val is not None and len(val.samples):
        held_out = LabelledFeatures(val.fine, targets_of(val.samples, graph)[0], val.coarse)
    return choose_settings(grid_settings(base, grid), graph, features, held_out) or base


def _targets(samples: Samples, fit: FitSettings, graph: LabelGraph) -> tuple[Tensor, dict[str, Tensor]]:
    """The targets of samples; without those of kinds that do not count, as under a softmax head."""
    fine, kinds = training_targets(samples, graph)
    weights = fit.kind_weights(graph)
    return fine, {name: labels for name, labels in kinds.items() if weights[name] > 0}


def metrics_of(network: Network, features: Features) -> dict[str, float]:
    """The validation metrics of a network whose features are known."""
    tally = Tally(network.graph.kinds, network.graph.numbers)
    fine, kinds = targets_of(features.samples, network.graph)
    measured = measured_values(features.samples, network.graph)
    start = 0
    for batch in known_posteriors(network, features):
        rows = slice(start, start + len(batch.numbers))
        own = {name: labels[rows] for name, labels in kinds.items()}
        tally.add(batch.posterior, fine[rows], own, {name: values[rows] for name, values in measured.items()})
        start = rows.stop
    return tally.metrics(Ranks())
