"""The graph that training learns along: empty cells, suggested kinds, and a tree of fine labels.

All of it follows from what a fit in closed form sees, whatever fits the head in the end. It is learnt once for frozen
features, and once more whenever the head of a network in training is fitted again: cells and tree then start from what
they were, and only links change, so that weights keep their place. Suggested kinds stay as they were found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from finegraph.data.dataset import training_targets
from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.model.features import Features
from finegraph.model.fitting.alike_folds import alike_folds
from finegraph.model.fitting.fit_samples import NOT_OBSERVED
from finegraph.model.fitting.prototype_strengths import PrototypeStrengths
from finegraph.model.fitting.prototypes import PrototypeFit, PrototypeSettings, fit_prototypes
from finegraph.model.structure.cell_learning import LearntGraph, learn_cells
from finegraph.model.structure.graph_statistics import held_out_probs, statistics_for
from finegraph.model.structure.label_tree import LabelTree, learn_tree
from finegraph.model.structure.suggested_kinds import (
    SuggestedKind,
    kind_by_confusions,
    kinds_by_looks,
    kinds_by_names,
    news,
    with_suggested,
)
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.nn import Network
from finegraph.training.settings import TrainSettings

_FOLDS = 5
_MAX_NOTED = 20
"""How many moves of a turn are named in the log."""


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphLearnt:
    """What was learnt about a graph.

    Attributes:
        first: the graph as it was given.
        suggested: the kinds that were added.
        cells: what was learnt of cells; None if that was not asked for, or none is empty.
        tree: the tree; None if it was not asked for.
        statistics: what photos show of the fine labels, by which it was learnt.
        notes: what is worth a line in the log.
    """

    first: LabelGraph
    suggested: tuple[SuggestedKind, ...] = ()
    cells: LearntGraph | None = None
    tree: LabelTree | None = None
    statistics: ClassStatistics | None = None
    notes: tuple[str, ...] = ()

    def graph(self, *, room: bool) -> LabelGraph:
        """The graph to fit a head with.

        Args:
            room: whether the tree has room for more groups, so that weights keep their place when it is learnt again.
        """
        graph = self.first if self.cells is None else self.cells.filled()
        graph = with_suggested(graph, self.suggested)
        if self.tree is None or not self.tree.levels:
            return graph
        return self.tree.on(graph) if room else self.tree.named_on(graph)

    def moved_to(self, graph: LabelGraph, notes: Sequence[str] = ()) -> GraphLearnt:
        """The same with the weights that cells have in another graph, and with further notes."""
        cells = None if self.cells is None else self.cells.moved_to(graph)
        return replace(self, cells=cells, notes=(*self.notes, *notes))


def wants_graph(settings: TrainSettings) -> bool:
    """Whether settings ask for a graph that learns."""
    return settings.suggest or bool(settings.learn)


def learn_training_graph(
    network: Network,
    train: Features,
    graph: LabelGraph,
    settings: TrainSettings,
    *,
    before: GraphLearnt | None = None,
    strengths: PrototypeStrengths | None = None,
) -> GraphLearnt:
    """Learn a graph from the features of training photos.

    Args:
        network: whose features they are.
        train: the features.
        graph: the graph as it was given.
        settings: what is to be learnt.
        before: what was learnt before, which it continues from; by default it starts afresh.
        strengths: those of the fit of the head with what was learnt before; by default they are chosen.
    """
    known = graph if before is None else before.graph(room=True)
    fine, _ = training_targets(train.samples, known)
    fit = _fit(network, train, known, strengths)
    statistics = statistics_for(graph, known, ClassStatistics.of_fit(fit, train.fine, fine))
    found = GraphLearnt(first=graph, statistics=statistics, suggested=() if before is None else before.suggested)
    wanted, notes = settings.learn or (), []
    if "cells" in wanted:
        cells = _cells(found.first, statistics)
        notes.append(_cell_words(cells) if cells is not None else _no_cells(found.first))
        found = replace(found, cells=cells)
    if settings.suggest and before is None:
        suggested, more = _suggested(found, fit, train, looks="tree" not in wanted)
        notes += more
        found = replace(found, suggested=suggested)
    if "tree" in wanted:
        own = found.graph(room=False)
        try:
            tree = learn_tree(
                own, statistics_for(own, graph, statistics), start=None if before is None else before.tree
            )
        except InputError as error:
            notes.append(f"no tree: {error}")
        else:
            notes += _tree_words(tree, first=before is None)
            found = replace(found, tree=tree)
    return replace(found, notes=tuple(notes))


def _fit(network: Network, train: Features, graph: LabelGraph, strengths: PrototypeStrengths | None) -> PrototypeFit:
    fine, _ = training_targets(train.samples, graph)
    sizes = network.backbone.block_sizes
    return fit_prototypes(
        train.fine, fine, graph, PrototypeSettings(), block_sizes=sizes, strengths=strengths, views=train.views
    )


def _cells(graph: LabelGraph, statistics: ClassStatistics) -> LearntGraph | None:
    """What photos say of the cells of a graph; None if none is empty or doubtful."""
    if not graph.kinds:
        return None
    learnt = learn_cells(graph, statistics.counts, statistics.means, statistics.variances)
    return learnt if any(bool(places.any()) for places in learnt.latent_places.values()) else None


def _no_cells(graph: LabelGraph) -> str:
    if not graph.kinds:
        return "the graph has no kinds, so there are no cells to learn; --suggest would make some"
    return "no cell of the graph is empty, and none is probably wrong: none was learnt"


def _cell_words(learnt: LearntGraph) -> str:
    empty = [cell for cell in learnt.cells() if cell.table is None]
    sure = sum(cell.probability >= 0.9 for cell in empty)
    doubtful = sum(int(learnt.doubtful(kind).sum()) for kind in learnt.kinds)
    parts = []
    if empty:
        parts.append(f"{len(empty):,} empty cells became weights, {sure:,} of them with 90 % and more on one label")
    if doubtful:
        parts.append(
            f"{doubtful:,} filled cells that are probably wrong became weights, too"
            if empty
            else f"{doubtful:,} filled cells that are probably wrong became weights"
        )
    return "; ".join(parts)


def _suggested(
    found: GraphLearnt, fit: PrototypeFit, train: Features, *, looks: bool
) -> tuple[tuple[SuggestedKind, ...], list[str]]:
    """The kinds that names, looks and confusions suggest, and what to say of them."""
    graph = found.graph(room=False)
    assert found.statistics is not None
    statistics = statistics_for(graph, found.first, found.statistics)
    # Which of many words a name has makes for odd answers ("word: milk: no"); people may still accept them.
    suggested, notes = [one for one in kinds_by_names(graph) if len(one.kinds) < 2], []
    if looks:
        try:
            groups = kinds_by_looks(graph, statistics)
        except InputError as error:
            groups = []
            notes.append(f"no groups by looks: {error}")
        suggested += [one for one in groups if one.stable]
        if unstable := [one.name for one in groups if one not in suggested]:
            notes.append(f"left out, since other photos would give other groups: {', '.join(unstable)}")
    fine, _ = training_targets(train.samples, graph)
    rows = (fine != NOT_OBSERVED).nonzero()[:, 0]
    features, targets = fit.scaling(train.fine[rows]), fine[rows]
    folds = alike_folds(features, targets, _FOLDS)
    if folds:
        probs, held = held_out_probs(graph, statistics, features, targets, folds)
        suggested += kind_by_confusions(graph, probs, targets[held])
    suggested = news(suggested)
    notes.append(_suggested_words(suggested))
    return tuple(suggested), notes


def _suggested_words(suggested: Sequence[SuggestedKind]) -> str:
    if not suggested:
        return "nothing was suggested: names share nothing, and no fine labels look alike or are confused"
    listed = ", ".join(f"{one.name} (from {one.source})" for one in suggested)
    return f"added to the graph: {listed}"


def _tree_words(tree: LabelTree, *, first: bool) -> list[str]:
    """What to say of a tree that was learnt, or learnt again."""
    if not tree.levels:
        return ["no tree: no fine labels look alike"]
    sizes = " and ".join(f"{int(level.max()) + 1:,}" for level in reversed(tree.levels))
    title = [f"the tree has {sizes} groups, from the root on"] if first else []
    if not tree.moves:
        return title
    listed = [f"tree: {move.words}" for move in tree.moves[:_MAX_NOTED]]
    more = len(tree.moves) - len(listed)
    return [*title, *listed, *([f"tree: {more:,} more fine labels moved"] if more > 0 else [])]
