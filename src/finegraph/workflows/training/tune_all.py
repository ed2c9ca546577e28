"""Train the whole network, by the recipe of the settings.

A recipe may start from the head that `tune_head` fits, and fit it anew after each epoch. The head and its scaling are
then changed in place, because the optimizer and the checkpoints know their tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from finegraph.data.dataset import PhotoDataset
from finegraph.data.samples import Samples
from finegraph.data.transforms import View, ViewSettings
from finegraph.model.features import Features, extract_features
from finegraph.nn import Network, laplacian_prior
from finegraph.training.checkpoints.checkpoint import CheckpointFolder
from finegraph.training.checkpoints.run_state import load_network
from finegraph.training.distributed import Ranks
from finegraph.training.loop import Run, Validation, Watcher, train
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.workflows.training.training_data import TrainingData
from finegraph.workflows.training.tune_head import Stage, fit_to, tune_head
from finegraph.workflows.training.validation import validate


@dataclass(frozen=True)
class TunedAll:
    """What training the whole network gave.

    Attributes:
        metrics: of the best epoch on the validation photos; empty if there are none.
        bad: the photos that could not be read.
    """

    metrics: dict[str, float]
    bad: tuple[str, ...]


def tune_all(
    network: Network,
    data: TrainingData,
    views: ViewSettings,
    settings: TrainSettings,
    ranks: Ranks,
    folder: RunFolder,
    watcher: Watcher,
    *,
    resume: bool,
    progress: Stage,
) -> TunedAll | None:
    """Train all weights; at the end the network has those of the best epoch.

    Args:
        network: what is trained.
        data: the photos and the graph.
        views: how photos are cut.
        settings: the settings, resolved.
        ranks: this process among the others.
        folder: the folder of the run.
        watcher: is told of steps and epochs.
        resume: whether the run goes on from its last checkpoint.
        progress: is told of the stages before the first step.

    Returns:
        How it went; None if it was asked to stop before the end, and saved.
    """
    if settings.laplacian:
        laplacian_prior(network.head)  # refused before anything is trained where the weights do not compare
    workers = settings.workers or 1

    def photos(samples: Samples, view: View) -> PhotoDataset:
        bad, share = settings.on_bad_file, settings.numbers().view_share
        return PhotoDataset(
            samples, data.graph, views, view=view, seed=settings.seed, view_share=share, on_bad_file=bad
        )

    validation = None
    if data.val is not None:
        held_out = photos(data.val, "centre")
        validation = Validation(data.val, lambda network, stop: validate(network, held_out, ranks, workers, stop))
    refit = None
    if settings.numbers().start == "fitted":
        if not (resume and CheckpointFolder(folder.checkpoints).last() is not None):
            _fit_first(network, data, views, settings, ranks, progress)
        if settings.numbers().refit:
            refit = partial(_fit_again, network, data, views, settings, ranks)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if settings.numbers().fixed_statistics:
        for part in (network.backbone, network.coarse_backbone):
            if part is not None:
                part.fix_statistics()
    run = Run(
        network=network,
        dataset=photos(data.train, "train"),
        settings=settings,
        validation=validation,
        folder=folder,
        ranks=ranks,
        watcher=watcher,
        refit=refit,
    )
    if not train(run, resume=resume):
        return None
    ranks.wait()  # until the first process has saved
    checkpoints = CheckpointFolder(folder.checkpoints)
    best, last = checkpoints.best(), checkpoints.last()
    assert best is not None
    assert last is not None
    if ranks.first:
        for note in best.notes:
            watcher.note(note)
    load_network(network, best.tensors, best.state)
    network.eval()
    return TunedAll(best.state["progress"]["best_figures"], tuple(last.state["progress"]["bad_files"]))


def _fit_first(
    network: Network, data: TrainingData, views: ViewSettings, settings: TrainSettings, ranks: Ranks, progress: Stage
) -> None:
    """Give the network a fitted head. Other processes get its form here, and its numbers when training begins."""
    weight = network.head.fine.weight
    network.eval()
    tune_head(network, data, views, settings, ranks, progress)
    scaling = ranks.gather(network.design.scaling)[0]
    if scaling != network.design.scaling:
        network.expect_scaling(scaling)
    network.to(weight.device, weight.dtype)


def _fit_again(
    network: Network, data: TrainingData, views: ViewSettings, settings: TrainSettings, ranks: Ranks
) -> None:
    """Fit the head to the features of the network as it is now; each process computes those of its share.

    It is fitted as it was at the start, so that its tensors keep their form.
    """
    settings = replace(settings, fit="descent" if network.scaling is None else "prototypes")
    network.eval()
    own = Samples([data.train[number] for number in ranks.share(range(len(data.train)))])
    features = extract_features(
        network, own, views, cache=False, threads=settings.workers, on_bad_file=settings.on_bad_file
    )
    parts = ranks.gather(features)
    head, scaling = network.head, network.scaling
    if ranks.first:
        fit_to(network, _joined(parts), None, settings)
        head.load_state_dict(network.head.state_dict())
        if scaling is not None and network.scaling is not None:
            scaling.load_state_dict(network.scaling.state_dict())
        network.put_head(head, scaling)
    ranks.copy_first([*head.state_dict().values(), *([] if scaling is None else scaling.state_dict().values())])


def _joined(parts: Sequence[Features]) -> Features:
    """The features of all processes in the order of the photos, of which each process had every so-manyth."""
    numbers = torch.tensor([rank + number * len(parts) for rank, part in enumerate(parts) for number in part.numbers])
    order = torch.argsort(numbers)
    coarse = [part.coarse for part in parts if part.coarse is not None]
    return Features(
        fine=torch.cat([part.fine for part in parts])[order],
        coarse=torch.cat(coarse)[order] if coarse else None,
        samples=Samples([sample for part in parts for sample in part.samples]),
        numbers=tuple(numbers[order].tolist()),
    )
