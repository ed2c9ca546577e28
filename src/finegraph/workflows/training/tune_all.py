"""Train the whole network, by the recipe of the settings."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from finegraph.data.dataset import PhotoDataset
from finegraph.data.samples import Samples
from finegraph.data.transforms import View, ViewSettings
from finegraph.nn import Network, laplacian_prior
from finegraph.training.checkpoints.checkpoint import CheckpointFolder
from finegraph.training.checkpoints.run_state import load_network
from finegraph.training.distributed import Ranks
from finegraph.training.loop import Run, Validation, Watcher, train
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.workflows.training.training_data import TrainingData
from finegraph.workflows.training.validation import validate


@dataclass(frozen=True)
class TunedAll:
    """What training the whole network gave.

    Attributes:
        metrics: of the best epoch on the validation photos; empty where there are none.
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
) -> TunedAll | None:
    """Train all weights; at the end the network has those of the best epoch.

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
    load_network(network, best.tensors)
    network.eval()
    return TunedAll(best.state["progress"]["best_figures"], tuple(last.state["progress"]["bad_files"]))
