"""Train the whole network, by the recipe of the settings.

A recipe may start from the head that `tune_head` fits, and fit it again after each epoch. The head and its scaling are
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
from finegraph.graph import LabelGraph
from finegraph.model.fitting.head_solver import Chosen
from finegraph.model.fitting.prototype_strengths import PrototypeStrengths
from finegraph.model.structure.label_tree import LabelTree, moves_between
from finegraph.nn import BipartiteHead, Network, laplacian_prior
from finegraph.progress_types import ShowStage
from finegraph.training.checkpoints.checkpoint import CheckpointFolder
from finegraph.training.checkpoints.run_state import load_network
from finegraph.training.distributed import Ranks
from finegraph.training.loop import Judgement, Run, Validation, Watcher, shard_folder, train
from finegraph.training.recipes import Recipe
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.training.shared_features import shared_features
from finegraph.workflows.training.learnt_graph import GraphLearnt, learn_training_graph
from finegraph.workflows.training.shared_labels import collect_head, share_fitted
from finegraph.workflows.training.training_data import TrainingData
from finegraph.workflows.training.tune_head import FittedHead, fit_to, training_features, tune_head
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
        fitted: how the head was fitted to the network of the best epoch, where a recipe fits it again; it can be taught
            then if that is in closed form. None in all processes but the first.
        learnt: what was learnt about the graph, which the head of the best epoch has; None if nothing was asked for.
    """

    metrics: dict[str, float]
    bad: tuple[str, ...]
    fitted: FittedHead | None = None
    learnt: GraphLearnt | None = None


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
    progress: ShowStage,
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
        resume: whether the run continues from its last checkpoint.
        progress: receives the stages before the first step.

    Returns:
        How it went; None if it was asked to stop before the end, and saved.
    """
    if settings.laplacian:
        _require_comparable(network)
    validation = None if data.val is None else _validation(data.val, views, settings, ranks)
    recipe, refit, learning = settings.numbers(), None, _Learning(data.graph)
    if recipe.start == "fitted":
        # Also in a run that is resumed: what was chosen here is what each later head is fitted with.
        chosen = _fit_first(network, data, views, settings, ranks, progress, learning)
        data = replace(data, graph=network.graph)
        if ranks.first:
            _note_start(watcher, learning, validation)
        if recipe.refit:
            refit = _Refit(partial(_fit_again, network, data, views, settings, ranks, chosen, learning))
    _prepare(network, recipe)
    run = Run(
        network=network,
        dataset=_training_photos(data, views, settings),
        settings=settings,
        validation=validation,
        folder=folder,
        ranks=ranks,
        watcher=watcher,
        refit=None if refit is None else refit.notes,
        pairs=data.pairs,
    )
    if not train(run, resume=resume):
        return None
    ranks.wait()  # until the first process has saved
    return _best_epoch(network, folder, ranks, watcher, refit, learning)


def _require_comparable(network: Network) -> None:
    """Raise if the weight prior cannot compare weights: before anything is trained."""
    if network.shared_head is None:
        laplacian_prior(network.head)
    else:
        network.shared_head.prior()


def _note_start(watcher: Watcher, learning: _Learning, validation: Validation | None) -> None:
    """Note what was learnt about the graph before the first step, and that nothing will judge the epochs."""
    for note in () if learning.learnt is None else learning.learnt.notes:
        watcher.note(note)
    if validation is None:
        watcher.note(
            "there are no validation photos: the result is the last epoch, and nothing tells whether it is better "
            "than the fitted head; --val-share 0.1 would hold some out"
        )


def _prepare(network: Network, recipe: Recipe) -> None:
    """Order the memory of a network for training, and fix the parts that the recipe leaves as they are."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for part in (network.backbone, network.coarse_backbone):
        if part is not None and recipe.fixed_statistics:
            part.fix_statistics()
        if part is not None:
            part.freeze_first(recipe.frozen_share)


def _best_epoch(
    network: Network, folder: RunFolder, ranks: Ranks, watcher: Watcher, refit: _Refit | None, learning: _Learning
) -> TunedAll:
    """Give a trained network the weights of its best epoch, with what was fitted and learnt for it."""
    checkpoints = shard_folder(network, folder.checkpoints, ranks) or CheckpointFolder(folder.checkpoints)
    best, last = checkpoints.best(), checkpoints.last()
    assert best is not None
    assert last is not None
    if ranks.first:
        for note in best.notes:
            watcher.note(note)
    load_network(network, best.tensors, best.state)
    network.eval()
    fitted = None
    learning.moves = False  # the graph is that of the best epoch
    if refit is not None and network.scaling is not None:
        # Checkpoints have the weights of a head alone; for its statistics an earlier one is fitted once more.
        fitted = refit.latest if refit.called and best.step == last.step else refit()
    collect_head(network)
    learnt = learning.of(network.graph)
    if learnt is not None:
        fitted = _with_names(network, learnt, fitted)
    figures, bad = best.state["progress"]["best_figures"], tuple(last.state["progress"]["bad_files"])
    return TunedAll(figures, bad, fitted, learnt)


class _Learning:
    """What is learnt about the graph while a network is trained.

    Attributes:
        first: the graph as it was given.
        learnt: what was learnt last; None if nothing was asked for.
        started: the tree before the first step; None if there is none.
        moves: whether it is learnt again when the head is fitted again.
    """

    def __init__(self, first: LabelGraph) -> None:
        self.first, self.moves = first, True
        self.learnt: GraphLearnt | None = None
        self.started: LabelTree | None = None

    def of(self, graph: LabelGraph) -> GraphLearnt | None:
        """What was learnt, with the tree and the cells that a graph has: those of a checkpoint may be earlier ones."""
        if self.learnt is None:
            return None
        learnt = self.learnt.moved_to(graph)
        if learnt.tree is None:
            return learnt
        tree = replace(learnt.tree, levels=tuple(graph.parents(kind) for kind in learnt.tree.kinds))
        # The moves of the last refit may be later than this tree, and those of a run that continues are not known here.
        moves = () if self.started is None else moves_between(graph, self.started, tree)
        return replace(learnt, tree=replace(tree, moves=moves))


def _with_names(network: Network, learnt: GraphLearnt, fitted: FittedHead | None) -> FittedHead | None:
    """Give the groups of a tree their names, and leave the room for more groups out of the head."""
    head, graph = network.head, learnt.graph(room=False)
    if learnt.tree is None or not learnt.tree.levels:
        return fitted
    network.take_graph(graph)
    new = network.head
    with torch.no_grad():
        new.fine.load_state_dict(head.fine.state_dict())
        if isinstance(new, BipartiteHead) and isinstance(head, BipartiteHead):
            assert isinstance(new.coarse, torch.nn.Linear)
            assert isinstance(head.coarse, torch.nn.Linear)
            for kind, columns in new.tensors.columns.items():
                before = head.tensors.columns[kind]
                kept = slice(before.start, before.start + (columns.stop - columns.start))
                new.coarse.weight[columns] = head.coarse.weight[kept]
                new.coarse.bias[columns] = head.coarse.bias[kept]
            if head.numbers is not None and new.numbers is not None:
                new.numbers.load_state_dict(head.numbers.state_dict())
    return fitted


class _Refit:
    """Fits the head again, and remembers how that went.

    Attributes:
        called: whether it was called in this process.
        latest: what the last call gave.
    """

    def __init__(self, fit: Callable[[], tuple[FittedHead | None, Sequence[str]]]) -> None:
        self._fit, self.called = fit, False
        self.latest: FittedHead | None = None
        self._notes: Sequence[str] = ()

    def __call__(self) -> FittedHead | None:
        """Fit the head to the network as it is now."""
        self.called, (self.latest, self._notes) = True, self._fit()
        return self.latest

    def notes(self) -> Sequence[str]:
        """Fit the head; returns what is worth a line in the log."""
        self()
        return self._notes


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
    network: Network,
    data: TrainingData,
    views: ViewSettings,
    settings: TrainSettings,
    ranks: Ranks,
    progress: ShowStage,
    learning: _Learning,
) -> Chosen | None:
    """Give the network a fitted head; returns what it was fitted with.

    Other processes get its form here, and its numbers when training begins.
    """
    weight, shared = network.head.fine.weight, network.shared_head
    network.eval()
    tuned = tune_head(network, data, views, settings, ranks, progress)
    learning.learnt = ranks.gather(None if tuned is None else tuned.learnt)[0]
    learning.started = None if learning.learnt is None else learning.learnt.tree
    if not ranks.first and learning.learnt is not None:
        network.take_graph(learning.learnt.graph(room=True))
    scaling = ranks.gather(network.design.scaling)[0]
    if scaling != network.design.scaling:
        network.expect_scaling(scaling)
    if shared is not None:
        share_fitted(network, shared, ranks)
    network.to(weight.device, weight.dtype)
    return None if tuned is None else tuned.chosen


def _fit_again(
    network: Network,
    data: TrainingData,
    views: ViewSettings,
    settings: TrainSettings,
    ranks: Ranks,
    chosen: Chosen | None,
    learning: _Learning,
) -> tuple[FittedHead | None, Sequence[str]]:
    """Fit the head to the features of the network as it is now; each process sends those of its share to the first.

    It is fitted with what was chosen at the start: photos that a network was trained on no longer tell how sure it
    may be of others. So its tensors keep their form, too.
    """
    network.eval()
    found = shared_features(
        ranks, data.train, lambda own: training_features(network, own, views, settings, False, _silent)
    )
    head, scaling, shared = network.head, network.scaling, network.shared_head
    fitted: FittedHead | None = None
    notes: Sequence[str] = ()
    moves = bool(settings.learn) and learning.moves and learning.learnt is not None
    cells = None
    if moves and found is not None:
        strengths = chosen if isinstance(chosen, PrototypeStrengths) else None
        before = learning.of(network.graph)
        learnt = learn_training_graph(network, found, learning.first, settings, before=before, strengths=strengths)
        head.relink(learnt.graph(room=True))
        learning.learnt, cells = learnt, None if learnt.cells is None else learnt.cells.latent()
    if found is not None:
        fitted = fit_to(network, found, None, settings, chosen, cells)
        if moves and learning.learnt is not None:
            learning.learnt = learning.learnt.moved_to(network.graph, fitted.notes)
            notes = learning.learnt.notes
            head.relink(network.graph)
        if scaling is not None and network.scaling is not None:
            scaling.load_state_dict(network.scaling.state_dict())
        if shared is None:
            head.load_state_dict(network.head.state_dict())
            network.put_head(head, scaling)
        else:
            network.put_head(network.head, scaling)
    if moves:
        learning.learnt, linked = ranks.gather((learning.learnt, network.graph))[0]
        head.relink(linked)
    if shared is not None:
        share_fitted(network, shared, ranks)
    copied = {} if shared is not None else head.state_dict()
    ranks.copy_first([*copied.values(), *([] if scaling is None else scaling.state_dict().values())])
    return fitted, notes


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
    """The features after an epoch are reported to nobody."""
    return lambda done, total: None
