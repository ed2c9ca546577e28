"""Train the whole network, by the recipe of the settings.

A recipe may start from the head that `tune_head` fits, and fit it anew after each epoch. The head and its scaling are
then changed in place, because the optimizer and the checkpoints know their tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from finegraph.data.dataset import PhotoDataset
from finegraph.data.samples import Samples
from finegraph.data.transforms import ViewSettings
from finegraph.model.features import Features
from finegraph.nn import Network, laplacian_prior
from finegraph.training.checkpoints.checkpoint import CheckpointFolder
from finegraph.training.checkpoints.run_state import load_network
from finegraph.training.distributed import Ranks
from finegraph.training.loop import Judgement, Run, Validation, Watcher, train
from finegraph.training.recipes import Recipe
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.workflows.training.training_data import TrainingData
from finegraph.workflows.training.tune_head import Chosen, FittedHead, Stage, fit_to, training_features, tune_head
from finegraph.workflows.training.validation import validate

_SIDE_STEP = 32
"""Sides of training views are multiples of this: what most networks divide a side by."""


_MAX_PICTURE_BYTES = 1 << 30
"""Decoded photos are kept in memory up to this size; those beyond it are decoded in every epoch."""


@dataclass(frozen=True)
class TunedAll:
    """What training the whole network gave.

    Attributes:
        metrics: of the best epoch on the validation photos; empty if there are none.
        bad: the photos that could not be read.
        fitted: how the head was fitted to the network of the best epoch, where a recipe fits it anew; it can be taught
            then if that is in closed form. None in all processes but the first.
    """

    metrics: dict[str, float]
    bad: tuple[str, ...]
    fitted: FittedHead | None = None


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
        watcher: receives steps and epochs.
        resume: whether the run goes on from its last checkpoint.
        progress: receives the stages before the first step.

    Returns:
        How it went; None if it was asked to stop before the end, and saved.
    """
    if settings.laplacian:
        laplacian_prior(network.head)  # refused before anything is trained if the weights do not compare
    validation = None if data.val is None else _validation(data.val, views, settings, ranks)
    recipe, refit = settings.numbers(), None
    if recipe.start == "fitted":
        # Also in a run that goes on: what was chosen here is what each later head is fitted with.
        chosen = _fit_first(network, data, views, settings, ranks, progress)
        if validation is None and ranks.first:
            watcher.note(
                "there are no validation photos: the result is the last epoch, and nothing tells whether it is better "
                "than the fitted head; --val-share 0.1 would hold some out"
            )
        if recipe.refit:
            refit = _Refit(partial(_fit_again, network, data, views, settings, ranks, chosen))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for part in (network.backbone, network.coarse_backbone):
        if part is not None and recipe.fixed_statistics:
            part.fix_statistics()
        if part is not None:
            part.freeze_first(recipe.frozen_share)
    run = Run(
        network=network,
        dataset=_training_photos(data, views, settings),
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
    fitted = None
    if refit is not None and network.scaling is not None:
        # Checkpoints have the weights of a head alone; for its statistics an earlier one is fitted once more.
        fitted = refit.latest if refit.called and best.step == last.step else refit()
    return TunedAll(best.state["progress"]["best_figures"], tuple(last.state["progress"]["bad_files"]), fitted)


class _Refit:
    """Fits the head anew, and remembers how that went.

    Attributes:
        called: whether it was called in this process.
        latest: what the last call gave.
    """

    def __init__(self, fit: Callable[[], FittedHead | None]) -> None:
        self._fit, self.called = fit, False
        self.latest: FittedHead | None = None

    def __call__(self) -> FittedHead | None:
        """Fit the head to the network as it is now."""
        self.called, self.latest = True, self._fit()
        return self.latest


def _validation(samples: Samples, views: ViewSettings, settings: TrainSettings, ranks: Ranks) -> Validation:
    """How the network is judged between epochs."""
    threads, bad = settings.workers or 1, settings.on_bad_file

    def judge(network: Network, stop: Callable[[], bool]) -> Judgement | None:
        return validate(network, samples, views, ranks, threads=threads, on_bad_file=bad, stop=stop)

    return Validation(samples, judge)


def _training_photos(data: TrainingData, views: ViewSettings, settings: TrainSettings) -> PhotoDataset:
    """Random views of the photos to train on."""
    recipe = settings.numbers()
    return PhotoDataset(
        data.train,
        data.graph,
        training_views(views, recipe),
        view="train",
        seed=settings.seed,
        view_share=recipe.view_share,
        on_bad_file=settings.on_bad_file,
        keep_pictures=_MAX_PICTURE_BYTES,
    )


def _fit_first(
    network: Network, data: TrainingData, views: ViewSettings, settings: TrainSettings, ranks: Ranks, progress: Stage
) -> Chosen | None:
    """Give the network a fitted head; returns what it was fitted with.

    Other processes get its form here, and its numbers when training begins.
    """
    weight = network.head.fine.weight
    network.eval()
    tuned = tune_head(network, data, views, settings, ranks, progress)
    scaling = ranks.gather(network.design.scaling)[0]
    if scaling != network.design.scaling:
        network.expect_scaling(scaling)
    network.to(weight.device, weight.dtype)
    return None if tuned is None else tuned.chosen


def _fit_again(
    network: Network,
    data: TrainingData,
    views: ViewSettings,
    settings: TrainSettings,
    ranks: Ranks,
    chosen: Chosen | None,
) -> FittedHead | None:
    """Fit the head to the features of the network as it is now; each process computes those of its share.

    It is fitted with what was chosen at the start: photos that a network was trained on no longer tell how sure it
    may be of others. So its tensors keep their form, too.
    """
    network.eval()
    own = Samples([data.train[number] for number in ranks.share(range(len(data.train)))])
    parts = ranks.gather(training_features(network, own, views, settings, False, _silent))
    head, scaling = network.head, network.scaling
    fitted = None
    if ranks.first:
        fitted = fit_to(network, _joined(parts), None, settings, chosen)
        head.load_state_dict(network.head.state_dict())
        if scaling is not None and network.scaling is not None:
            scaling.load_state_dict(network.scaling.state_dict())
        network.put_head(head, scaling)
    ranks.copy_first([*head.state_dict().values(), *([] if scaling is None else scaling.state_dict().values())])
    return fitted


def training_views(views: ViewSettings, recipe: Recipe) -> ViewSettings:
    """How photos are cut for the steps of a recipe.

    An object looks larger in a part of a photo than in the whole; smaller views undo that, and cost less.
    """
    if recipe.train_scale == 1.0:
        return views
    side = max(_SIDE_STEP, round(recipe.train_scale * views.size / _SIDE_STEP) * _SIDE_STEP)
    whole = views.resize if recipe.view_share < 1.0 else round(views.resize * side / views.size)
    return replace(views, size=side, resize=max(side, whole))


def _silent(stage: str) -> Callable[[int, int], None]:
    """Nobody is told of the features after an epoch."""
    return lambda done, total: None


def _joined(parts: Sequence[Features]) -> Features:
    """The features of all processes in the order of the photos, of which each process had every so-manyth."""
    numbers = torch.tensor([rank + number * len(parts) for rank, part in enumerate(parts) for number in part.numbers])
    order = torch.argsort(numbers)
    coarse = [part.coarse for part in parts if part.coarse is not None]
    views = [part.views for part in parts if part.views is not None]
    samples = [sample for part in parts for sample in part.samples]
    return Features(
        fine=torch.cat([part.fine for part in parts])[order],
        coarse=torch.cat(coarse)[order] if coarse else None,
        samples=Samples([samples[place] for place in order.tolist()]),
        numbers=tuple(numbers[order].tolist()),
        views=torch.cat(views)[order] if views else None,
    )
