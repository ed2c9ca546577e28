"""The cells of a study with tune = "all": each trains a whole network, by the code of `finegraph train`.

A cell has a run folder while it is trained, so that a stopped study continues in the middle of a cell. When the
cell is measured, its checkpoints go: a study keeps metrics, not models. Each head has one setting, its recipe, and the
epoch that was best on the validation photos.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Literal, cast

import torch

from finegraph.data.dataset import targets_of
from finegraph.data.measured_values import measured_values
from finegraph.data.samples import Samples
from finegraph.evaluation.photo_settings import PhotoSettings, photo_batches
from finegraph.evaluation.results import BadPhoto
from finegraph.files.durable import remove_folder
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.training.distributed import Ranks
from finegraph.training.loop import Watcher
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.workflows.studies.fitted_head import answer_of
from finegraph.workflows.studies.grid import Cell
from finegraph.workflows.studies.measure import PerPhoto, joined, judged, searched_photos
from finegraph.workflows.studies.photo_sets import Stage, StudyData
from finegraph.workflows.studies.spec import Study
from finegraph.workflows.studies.study_folder import StudyFolder
from finegraph.workflows.train import choose_device
from finegraph.workflows.training.training_data import TrainingData, make_network, make_views
from finegraph.workflows.training.tune_all import tune_all


def train_settings(study: Study, cell: Cell, kinds: tuple[str, ...], source: str) -> TrainSettings:
    """The settings of the run of a cell."""
    softmax = cell.head.startswith("softmax")
    settings: dict[str, object] = {
        "data": source,
        "graph": study.graph,
        "network": study.network,
        "coarse_network": study.second_network if cell.head == "bipartite-two" else None,
        "weights": study.weights,
        "coarse_weights": study.weights,
        "head": "softmax" if softmax else "bipartite",
        "size": study.size,
        "tune": "all",
        "seed": cell.seed,
        "box": cell.box,
        "on_bad_file": study.on_bad_file,
        "val_share": 0.0,  # the study has split the photos itself
    }
    if cell.head == "softmax-marginal" and "kind_weight" not in study.training:
        settings["kind_weight"] = 1.0 / max(len(kinds), 1)
    elif cell.head == "softmax":
        settings["kind_weight"] = 0.0
    return TrainSettings.from_dict({**study.training, **settings}).resolve()


def fine_tune(
    study: Study, data: StudyData, cell: Cell, samples: Samples, folder: StudyFolder, watcher: Watcher, stage: Stage
) -> tuple[dict[tuple[str, int], PerPhoto], float | None, dict[str, str]] | None:
    """Train the network of a cell and measure it.

    Returns:
        The values of each photo by split and views; the seconds of training, None if it was stopped in between; and
        the photos that could not be read, with the reason of each. None if it was asked to stop, and saved.
    """
    kinds = data.sets[cell.kinds] if cell.kinds else data.graph.kinds
    settings = train_settings(study, cell, kinds, data.source)
    settings = replace(settings, workers=settings.workers or torch.get_num_threads())
    photos = TrainingData(train=samples, val=data.val, graph=data.graph.only(kinds))
    path = folder.runs / cell.name
    resume = (path / "config.toml").is_file()
    run = RunFolder.open(path) if resume else RunFolder.create(path)
    if not resume:
        run.write_config(settings.to_dict())
    torch.manual_seed(cell.seed)
    network = make_network(settings, photos.graph)
    views = make_views(settings, network)
    network.to(choose_device(settings.device), torch.float64 if settings.precision == "float64" else torch.float32)
    began = perf_counter()
    with run.lock():
        tuned = tune_all(
            network,
            photos,
            views,
            settings,
            Ranks(),
            run,
            watcher,
            resume=resume,
            progress=lambda name: lambda done, total: stage(name, done, total),
        )
    if tuned is None:
        return None
    seconds = None if resume else perf_counter() - began
    classifier = PhotoClassifier(network.to("cpu", torch.float32), views)
    bad = dict.fromkeys(tuned.bad, "it could not be read")
    measured = {
        (split, count): _measure(classifier, part, data, study, count, split, stage, bad)
        for split, part in data.splits.items()
        for count in study.views
    }
    return measured, seconds, bad


def drop_checkpoints(folder: StudyFolder, cell: Cell) -> None:
    """Remove what a cell no longer needs to continue."""
    checkpoints = RunFolder(folder.runs / cell.name).checkpoints
    if checkpoints.is_dir():
        remove_folder(checkpoints)


def _measure(
    classifier: PhotoClassifier,
    samples: Samples,
    data: StudyData,
    study: Study,
    views: int,
    split: str,
    stage: Stage,
    bad: dict[str, str],
) -> PerPhoto:
    """The metrics of a trained network; photos that cannot be read are added to `bad`."""
    options = PhotoSettings(
        views=cast(Literal[1, 10], views), on_bad_file=cast(Literal["error", "skip"], study.on_bad_file)
    )
    unread: list[BadPhoto] = []
    target, _ = targets_of(samples, data.graph)
    values = measured_values(samples, data.graph)
    searched = searched_photos(data.graph, len(samples))
    measured = []
    for batch in photo_batches(
        classifier, samples, options, unread, lambda done, total: stage(f"photos of {split}", done, total)
    ):
        with torch.inference_mode():
            answer = answer_of(data.graph, batch.posterior, views)
        own_values = {name: of_photos[batch.numbers] for name, of_photos in values.items()}
        wanted = {name: photos[batch.numbers] for name, photos in searched.items()}
        measured.append(judged(answer, target[batch.numbers], data.graph, own_values, wanted))
    bad.update((photo.path, photo.reason) for photo in unread)
    return joined(measured)
