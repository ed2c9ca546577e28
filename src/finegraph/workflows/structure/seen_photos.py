"""What a model has seen: statistics of its fine labels and, where its photos are still there, their scaled features.

A head that was fitted in closed form keeps statistics, lessons included. For any other the closed form is fitted to the
photos now; its answers are not those of the model, but what looks alike looks alike to both. Features that are stored
are not computed again. Cost: at most the network on all photos, once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.data.dataset import MISSING
from finegraph.data.samples import Samples
from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.model import PhotoClassifier
from finegraph.model.features import Features, extract_features
from finegraph.model.fitting.prototypes import PrototypeSettings, fit_prototypes
from finegraph.model.structure.graph_statistics import statistics_for
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.progress_types import ShowStage
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.workflows.evaluation.report_details import run_photos
from finegraph.workflows.indexing.similar_photos import place_of_features
from finegraph.workflows.training.training_data import TrainingData
from finegraph.workflows.training.tune_head import training_features


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledPhotos:
    """Photos with scaled features and fine labels.

    Attributes:
        samples: the photos.
        features: their scaled features.
        targets: their fine labels.
    """

    samples: Samples
    features: Float[Tensor, "photo feature"]
    targets: Int[Tensor, " photo"]

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True, eq=False, kw_only=True)
class SeenPhotos:
    """What a model has seen.

    Attributes:
        graph: the label graph.
        statistics: what photos show of its fine labels.
        temperature: what scores are divided by.
        train: the photos that the statistics are of; None if they are gone.
        judged: photos that took no part; None if there are none.
        data: where the photos are, as settings name it; None if that is not known.
        run: the run folder; None if the model is in none.
        listed: the training photos, whether or not their features were needed; None if they are not known.
        given: the graph as it was before training filled its empty cells; None if it did not, or that is not known.
        notes: what is missing, and why.
    """

    graph: LabelGraph
    statistics: ClassStatistics
    temperature: float = 1.0
    train: LabelledPhotos | None = None
    judged: LabelledPhotos | None = None
    data: str | None = None
    run: Path | None = None
    listed: Samples | None = None
    given: LabelGraph | None = None
    notes: tuple[str, ...] = ()


def see_photos(
    model: str | os.PathLike[str],
    graph: LabelGraph | None = None,
    *,
    photos: bool = True,
    progress: ShowStage | None = None,
) -> SeenPhotos:
    """What the model of a run has seen.

    Args:
        model: a run folder or a model folder; photos are known of a run alone.
        graph: another graph than that of the model; fine labels that the model does not know have no photos.
        photos: whether photos are needed; statistics alone need none.
        progress: given the name of a stage, its progress callback.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        InputError: there are neither statistics nor photos, or the graph is of other fine labels.
    """
    classifier = PhotoClassifier.load(model, "cpu")
    run = _run_of(Path(model))
    notes: list[str] = []
    data, settings = None, None
    if run is not None:
        folder = RunFolder.open(run)
        settings = TrainSettings.from_dict(folder.read_config(), str(folder.config_file)).resolve()
        data = run_photos(settings, run, notes)
    elif photos:
        notes.append("The model is in no run folder, so it is not known which photos it was trained with.")
    wanted = data if photos or classifier.statistics is None else None
    own = _seen(
        classifier, settings, wanted, run, progress or (lambda name: lambda done, total: None), os.fspath(model)
    )
    filled = settings is not None and "cells" in (settings.learn or ())
    own = replace(
        own,
        run=run,
        listed=None if data is None else data.train,
        given=data.graph if filled and data is not None else None,
        notes=(*notes, *own.notes),
    )
    if graph is None:
        if set(classifier.graph.kinds) == set(own.statistics.variances.kinds):
            return own
        graph = classifier.graph
    moved = statistics_for(graph, classifier.graph, own.statistics)
    train, judged = (_moved(part, classifier.graph, graph) for part in (own.train, own.judged))
    return replace(own, graph=graph, statistics=moved, train=train, judged=judged)


def _seen(
    classifier: PhotoClassifier,
    settings: TrainSettings | None,
    data: TrainingData | None,
    run: Path | None,
    progress: ShowStage,
    place: str,
) -> SeenPhotos:
    graph, network = classifier.graph, classifier.network
    statistics = None if classifier.statistics is None else classifier.teaching.current_statistics()
    if data is None or settings is None or run is None:
        if statistics is None:
            raise InputError(
                f"{place}: its head was fitted by descent, which keeps nothing to learn from, and its photos are not "
                "known; train it with fit = prototypes, or name the run folder"
            )
        return SeenPhotos(graph=graph, statistics=statistics, temperature=classifier.temperature)
    quick = replace(settings, on_bad_file="skip")
    cache = place_of_features(settings, run)
    train = training_features(network, data.train, classifier.views, quick, _path(cache), progress)
    fine = _targets(train.samples, graph)
    temperature = classifier.temperature
    scaling = network.scaling
    if statistics is None:
        fit = fit_prototypes(
            train.fine,
            fine,
            graph,
            PrototypeSettings(),
            block_sizes=network.backbone.block_sizes,
            views=train.views,
        )
        views = 1 if train.views is None else train.views.shape[1]
        statistics = ClassStatistics.of_fit(fit, train.fine, fine, views=views)
        scaling, temperature = fit.scaling, 1.0
    judged = None
    if data.val is not None and len(data.val):
        found = extract_features(
            network,
            data.val,
            classifier.views,
            cache=_path(cache),
            threads=settings.workers,
            on_bad_file="skip",
            progress=progress("features"),
        )
        judged = _labelled(found, scaling, graph)
    return SeenPhotos(
        graph=graph,
        statistics=statistics,
        temperature=temperature,
        train=_labelled(train, scaling, graph),
        judged=judged,
        data=settings.data,
    )


def _path(cache: str | None) -> Path | None:
    return None if cache is None else Path(cache)


def _run_of(path: Path) -> Path | None:
    """The run that a folder is, or that a model folder is in."""
    for place in (path, path.absolute().parent):
        if (place / "config.toml").is_file():
            return place
    return None


def _targets(samples: Samples, graph: LabelGraph) -> Int[Tensor, " photo"]:
    place = {label: number for number, label in enumerate(graph.fine)}
    return torch.tensor([place.get(sample.label or "", MISSING) for sample in samples], dtype=torch.long)


def _labelled(features: Features, scaling: torch.nn.Module | None, graph: LabelGraph) -> LabelledPhotos:
    """Photos that have a fine label of the graph, with scaled features."""
    targets = _targets(features.samples, graph)
    known = (targets != MISSING).nonzero()[:, 0]
    with torch.no_grad():
        rows = features.fine[known]
        scaled = rows if scaling is None else scaling(rows)
    return LabelledPhotos(
        samples=Samples([features.samples[number] for number in known.tolist()], features.samples.source),
        features=scaled.float(),
        targets=targets[known],
    )


def _moved(photos: LabelledPhotos | None, known: LabelGraph, graph: LabelGraph) -> LabelledPhotos | None:
    """The photos with the fine labels of another graph; those that it does not have are left out."""
    if photos is None or known.fine == graph.fine:
        return photos
    targets = _targets(photos.samples, graph)
    rows = (targets != MISSING).nonzero()[:, 0]
    samples = Samples([photos.samples[number] for number in rows.tolist()], photos.samples.source)
    return LabelledPhotos(samples=samples, features=photos.features[rows], targets=targets[rows])
