"""Train the last layer alone: the features of each photo are computed once, and the head is fitted to them exactly.

Minutes become seconds, and there are no learning rates. Strengths of the priors are those of the settings, or chosen by
validation. Stored features make a second run, or one that continues after an interruption, start where the last ended.

Several processes share out the photos. Where the closed form alone is asked for, each keeps the features of its
training photos, and they exchange sums; otherwise the first process gets all features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from finegraph.data.dataset import targets_of, training_targets
from finegraph.data.measured_values import measured_values
from finegraph.data.samples import Samples
from finegraph.data.transforms import ViewSettings
from finegraph.errors import DataError, PhotoFileError, SettingsError
from finegraph.graph import LabelGraph
from finegraph.model.answering.pipeline import known_posteriors
from finegraph.model.features import Features, extract_features
from finegraph.model.features.extract import Cache
from finegraph.model.fitting import FitSettings
from finegraph.model.fitting.head_solver import (
    Chosen,
    SolvedHead,
    SolverSettings,
    closed_form_ignores,
    descend,
    solve_head,
    solve_shared_head,
)
from finegraph.model.fitting.selection import LabelledFeatures, default_grid
from finegraph.model.folder.model_card import CALIBRATED_ON
from finegraph.model.structure.latent_cells import CellDescent, LatentCells
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.nn import Network
from finegraph.progress_types import ShowStage
from finegraph.training.distributed import Ranks
from finegraph.training.settings import TrainSettings
from finegraph.training.shared_features import all_faults, own_features, shared_features
from finegraph.workflows.indexing.similar_photos import TrainingFeatures
from finegraph.workflows.training.learnt_graph import GraphLearnt, learn_training_graph, wants_graph
from finegraph.workflows.training.training_data import TrainingData
from finegraph.workflows.training.training_views import mean_of_views, view_parts
from finegraph.workflows.training.validation import Tally

_TOLERANCE = 1e-3
"""How near to its minimum a fit ends, as a share; ten times nearer takes twice as long and changes no metric."""
_OF_DESCENT = ("l2", "coarse_ratio", "kind_weight")
"""Strengths that the closed form does not have."""
_HELD_OUT = {
    "within": "training photos that were held out while fitting",
    "total": "whole classes that were held out while fitting, as each has one photo, so only roughly",
}
"""What the sharpness of class means was chosen by, by the covariance of the fit."""


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
        judged: the features of the validation photos; None if there are none.
        known: those of all photos; None if there are no validation photos, or if no process has all features.
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
    judged: Features | None = None
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
    progress: ShowStage,
) -> TunedHead | None:
    """Fit the head of a network to photos; it is put into the network.

    In a job of several processes each computes the features of its share; the first fits the head, and the others get
    None.
    """
    cache = None if settings.cache is None else Path(settings.cache)

    def features_of(samples: Samples) -> Features:
        return _features(network, samples, views, settings, cache, progress("features"))

    def features_of_training(samples: Samples) -> Features:
        return training_features(network, samples, views, settings, cache, progress)

    if ranks.size > 1 and _keeps_features_apart(data, settings):
        return _tune_apart(network, data, settings, ranks, features_of_training, features_of)
    train = shared_features(ranks, data.train, features_of_training)
    val = None if data.val is None else shared_features(ranks, data.val, features_of)
    if train is None:
        return None
    if not len(train.samples):
        raise _none_read(data)
    learnt = None
    if wants_graph(settings):
        learnt = learn_training_graph(network, train, data.graph, settings)
        network.take_graph(learnt.graph(room=settings.tune == "all"))
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
        judged=val,
        known=None if val is None else _known(train, val),
        statistics=fitted.statistics,
        chosen=fitted.chosen,
        learnt=learnt,
    )


def _keeps_features_apart(data: TrainingData, settings: TrainSettings) -> bool:
    """Whether sums of the features of training photos are all that is wanted of them."""
    if settings.fit != "prototypes" or wants_graph(settings):
        return False
    # Values measured on photos need these photos' features; what the closed form ignores altogether is refused later.
    return not training_targets(data.train, data.graph)[1]


def _tune_apart(
    network: Network,
    data: TrainingData,
    settings: TrainSettings,
    ranks: Ranks,
    features_of_training: Callable[[Samples], Features],
    features_of: Callable[[Samples], Features],
) -> TunedHead | None:
    """Fit the head in closed form, each process with the features of its own training photos."""
    own = own_features(ranks, data.train, features_of_training)
    bad, notes = all_faults(ranks, data.train, own)
    if len({str(error.path) for error in bad}) == len({str(sample.path) for sample in data.train}):
        raise _none_read(data)
    val = None if data.val is None else shared_features(ranks, data.val, features_of)
    sizes, views = network.backbone.block_sizes, None
    if own is None:
        features, targets = torch.zeros(0, sum(sizes)), torch.zeros(0, dtype=torch.int64)
        views = torch.zeros(0, settings.train_views, sum(sizes)) if settings.train_views > 1 else None
    else:
        features, targets, views = own.fine, training_targets(own.samples, network.graph)[0], own.views
    solved = solve_shared_head(
        LabelledFeatures(features, targets, views=views, block_sizes=sizes),
        network.graph,
        solver_settings(settings, network.graph),
        ranks,
        val=_held_out(network, val),
    )
    if solved is None:
        return None
    fitted = _put(network, solved, settings.train_views)
    return TunedHead(
        strengths=fitted.strengths,
        metrics={} if val is None else metrics_of(network, val),
        iterations=fitted.iterations,
        converged=fitted.converged,
        bad=(*bad, *(() if val is None else val.bad)),
        notes=tuple(dict.fromkeys((*notes, *(() if val is None else val.notes)))),
        judged=val,
        statistics=fitted.statistics,
        chosen=fitted.chosen,
    )


def _none_read(data: TrainingData) -> DataError:
    return DataError(f"{data.train.source}: none of the {len(data.train)} training photos can be read")


def _known(train: Features, val: Features) -> TrainingFeatures:
    """What the report compares photos by: their first view, as an evaluation does later."""
    first = train if train.views is None else replace(train, fine=train.views[:, 0], views=None)
    return TrainingFeatures(first, val)


def training_features(
    network: Network, samples: Samples, views: ViewSettings, settings: TrainSettings, cache: Cache, progress: ShowStage
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
    for number, part in enumerate(view_parts(first.samples, count, box=views.box), start=2):
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
    fine, kinds = training_targets(train.samples, network.graph)
    if chosen is None and settings.fit == "prototypes":
        _check_prototypes(closed_form_ignores(network.graph, kinds), network.graph)
    samples = LabelledFeatures(
        train.fine, fine, train.coarse, kinds, views=train.views, block_sizes=network.backbone.block_sizes
    )
    descent = None if cells is None else CellDescent(cells)
    solved = solve_head(
        samples,
        network.graph,
        solver_settings(settings, network.graph),
        val=_held_out(network, val),
        chosen=chosen,
        descent=descent or descend,
    )
    fitted = _put(network, solved, 1 if train.views is None else train.views.shape[1])
    return fitted._replace(notes=() if descent is None else descent.notes)


def _held_out(network: Network, val: Features | None) -> LabelledFeatures | None:
    """Validation photos as samples."""
    if val is None:
        return None
    return LabelledFeatures(val.fine, targets_of(val.samples, network.graph)[0], val.coarse)


def _put(network: Network, solved: SolvedHead, views: int) -> FittedHead:
    """Put a head into a network."""
    network.put_head(solved.head, solved.scaling)
    strengths, statistics = solved.strengths, None
    if (fit := solved.prototypes) is not None:
        statistics = ClassStatistics.of_sums(fit, views=views)
        if fit.held_out:
            strengths[CALIBRATED_ON] = _HELD_OUT[fit.covariance]
    if solved.reason is not None:
        strengths["reason"] = solved.reason
    return FittedHead(
        strengths=strengths,
        iterations=solved.iterations,
        converged=solved.converged,
        statistics=statistics,
        chosen=solved.chosen,
    )


def _check_prototypes(kinds: list[str], graph: LabelGraph) -> None:
    """Raise if there are photo labels that class means know nothing of."""
    if not kinds:
        return
    exact = [name for name in kinds if name in graph.numbers]
    why = f"; of {', '.join(exact)} all classes have exact values, from which no photo can differ" if exact else ""
    raise SettingsError(
        f"fit: class means know nothing of photo labels, and there are some of {', '.join(kinds)}{why}; use "
        "fit = descent, or photo_labels = ignore"
    )


def solver_settings(settings: TrainSettings, graph: LabelGraph) -> SolverSettings:
    """The part of the settings that is about fitting a head."""
    softmax, given = settings.head == "softmax", [name for name in _OF_DESCENT if getattr(settings, name) is not None]
    if softmax and "kind_weight" in given:
        given.remove("kind_weight")  # a softmax head has none: the settings say 0 by themselves
    grid = default_grid(settings.head, graph) if settings.choose else {}
    return SolverSettings(
        solver=settings.fit,
        descent=FitSettings(
            head=settings.head,
            l2=FitSettings().l2 if settings.l2 is None else settings.l2,
            coarse_ratio=settings.coarse_ratio,
            laplacian=settings.laplacian,
            kind_weight=settings.kind_weight,
            tolerance=_TOLERANCE,
        ),
        # A whole network is trained on features and scores as the layers give them.
        doubt=settings.tune != "all",
        compress=settings.tune != "all",
        descent_only=(*given, *(name for name in ("laplacian", "choose") if getattr(settings, name))),
        grid={name: values for name, values in grid.items() if name not in given} or None,
        scale=True,
        ignore_unused=True,
    )


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
