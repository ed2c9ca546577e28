"""Suggestions for the cells of a store, from names, and from a model and the photos of the classes.

The photos go through the network once: their features give the mean of each class, for similar classes and for what
all classes together say of each cell (model/structure/cell_learning.py). That needs a head that was fitted in closed
form; of others, the mean marginals of the photos of a class say what the model sees. Features of photos that were seen
before are not computed again. Cost: the network for each photo, then linear in the cells, what learning cells takes,
and the comparison of the classes with photos (see `finegraph.labelling.suggestions.neighbours`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from finegraph.data.samples import Samples
from finegraph.errors import InputError, PhotoFileError
from finegraph.graph.kind import BINARY_LABELS
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.labelling import LabelStore
from finegraph.labelling.store.graph_columns import StoreColumn, stored_graph
from finegraph.labelling.suggestions.proposals import from_model, from_names, from_similar
from finegraph.progress_types import ShowProgress

if TYPE_CHECKING:  # loaded only with a model, since torch takes seconds to load
    from finegraph.model import PhotoClassifier
    from finegraph.model.features import Features

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_YES = BINARY_LABELS.index("yes")


@dataclass(frozen=True, kw_only=True)
class SuggestionCounts:
    """How many suggestions there are from each source, the photos that could not be read, and photos as reasons.

    Attributes:
        name: from names.
        model: from a model.
        similar: from similar classes.
        bad: the photos that could not be read.
        alike: by class and kind, classes that have what the model suggests and look most like it; their photos are the
            reason.
    """

    name: int = 0
    model: int = 0
    similar: int = 0
    bad: tuple[PhotoFileError, ...] = ()
    alike: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)


def suggest_from_names(store: LabelStore) -> int:
    """Make the suggestions from names; returns their number."""
    fine, columns = store.columns()
    return store.put_suggestions("name", from_names(fine, columns))


def make_suggestions(
    store: LabelStore,
    *,
    model: str | os.PathLike[str] | None = None,
    samples: Samples | None = None,
    progress: ShowProgress | None = None,
) -> SuggestionCounts:
    """Make all suggestions that can be made.

    Args:
        store: where they are kept.
        model: a run folder or a model folder; its labels are matched with those of the store by name.
        samples: the photos of the classes.
        progress: called with the number of photos done and the total.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
    """
    names = suggest_from_names(store)
    if model is None or samples is None:
        return SuggestionCounts(name=names)
    fine, columns = store.columns()
    place = {name: row for row, name in enumerate(fine)}
    known = samples.only(lambda sample: sample.label in place)
    if not len(known):
        return SuggestionCounts(name=names)
    from finegraph.model import PhotoClassifier
    from finegraph.model.features import extract_features

    classifier = PhotoClassifier.load(model)
    features = extract_features(classifier.network, known, classifier.views, on_bad_file="skip", progress=progress)
    rows = np.array([place[sample.label or ""] for sample in features.samples], dtype=np.int64)
    photos = np.bincount(rows, minlength=len(fine))
    similar = store.put_suggestions("similar", from_similar(fine, columns, _means(features.fine.numpy(), rows, photos)))
    learnt = _learnt(classifier, fine, columns, features, rows)
    if learnt is not None:
        beliefs, alike = learnt
    else:
        marginals, alike = _marginals(classifier, features), None
        beliefs = {
            column.name: table
            for column in columns
            if (table := _beliefs(classifier, column, marginals, rows, photos)) is not None
        }
    seen = np.flatnonzero(photos).tolist()
    store.put_beliefs(
        {
            column.name: {
                fine[row]: dict(zip(column.labels, beliefs[column.name][row].tolist(), strict=True)) for row in seen
            }
            for column in columns
            if column.name in beliefs
        }
    )
    seeing = store.put_suggestions("model", from_model(fine, columns, beliefs, photos.tolist(), alike))
    return SuggestionCounts(name=names, model=seeing, similar=similar, bad=features.bad, alike=alike or {})


def _learnt(
    classifier: PhotoClassifier, fine: Sequence[str], columns: Sequence[StoreColumn], found: Features, rows: Ints
) -> tuple[dict[str, Floats], dict[tuple[str, str], tuple[str, ...]]] | None:
    """What all classes together say of each cell, and which classes are the reason; None if that cannot be learnt."""
    import torch

    from finegraph.model.structure.cell_learning import alike_with_label, learn_cells
    from finegraph.model.structure.graph_statistics import statistics_for

    scaling = classifier.network.scaling
    if classifier.statistics is None or scaling is None or not columns:
        return None
    graph = stored_graph(fine, columns)
    with torch.no_grad():
        scaled = scaling(found.fine.to(classifier.network.head.fine.weight)).double().cpu()
    counts = torch.from_numpy(np.bincount(rows, minlength=len(fine)).astype(np.float64))
    sums = torch.zeros(len(fine), scaled.shape[1], dtype=torch.float64).index_add_(0, torch.from_numpy(rows), scaled)
    try:
        statistics = statistics_for(graph, graph, replace(classifier.statistics, counts=counts, sums=sums))
        learnt = learn_cells(graph, counts, statistics.means, statistics.variances)
    except InputError:  # more labels than can be learnt, or no kind with labels
        return None
    beliefs: dict[str, Floats] = {}
    column_of: dict[str, str] = {}
    for column in columns:
        if column.name in learnt.beliefs:
            beliefs[column.name] = learnt.beliefs[column.name].numpy()
        elif column.mode == "all":
            names = [column.name + GROUP_SEPARATOR + label for label in column.labels]
            beliefs[column.name] = np.stack([learnt.beliefs[name][:, _YES].numpy() for name in names], axis=1)
            column_of |= dict.fromkeys(names, column.name)
    learnt_cells = [cell for cell in learnt.cells() if cell.photos and (cell.table is None or cell.contradicts)]
    learnt_cells = [cell for cell in learnt_cells if cell.kind not in column_of or cell.label == BINARY_LABELS[_YES]]
    alike: dict[tuple[str, str], tuple[str, ...]] = {}
    for cell, near in zip(learnt_cells, alike_with_label(graph, statistics, learnt_cells), strict=True):
        if near:  # of a group the label with the most evidence
            alike.setdefault((cell.fine, column_of.get(cell.kind, cell.kind)), near)
    return beliefs, alike


def _means(values: NDArray[np.floating], rows: NDArray[np.int64], photos: NDArray[np.int64]) -> Floats:
    """The mean over the photos of each class; NaN if there are none."""
    sums: Floats = np.zeros((len(photos), values.shape[1]))
    np.add.at(sums, rows, values)
    with np.errstate(invalid="ignore"):  # 0 / 0 is NaN, as intended
        sums /= photos[:, None]
    return sums


def _marginals(classifier: PhotoClassifier, features: Features) -> dict[str, NDArray[np.floating]]:
    """The probability of each label of each kind on each photo."""
    from finegraph.model.answering.pipeline import known_posteriors

    parts: dict[str, list[NDArray[np.floating]]] = {kind: [] for kind in classifier.graph.kinds}
    for batch in known_posteriors(classifier.network, features):
        posterior = classifier.of_photos(batch.posterior)
        for kind, batches in parts.items():
            batches.append(posterior.probs(kind).float().cpu().numpy())
    return {kind: np.concatenate(batches) for kind, batches in parts.items()}


def _beliefs(
    classifier: PhotoClassifier,
    column: StoreColumn,
    marginals: dict[str, NDArray[np.floating]],
    rows: NDArray[np.int64],
    photos: NDArray[np.int64],
) -> Floats | None:
    """The mean probability of each label of a kind of the store (fine x label); None if the model lacks the kind."""
    if column.mode == "all":
        names = [column.name + GROUP_SEPARATOR + label for label in column.labels]
        if not all(name in marginals and classifier.graph.kind(name).binary for name in names):
            return None
        return _means(np.stack([marginals[name][:, _YES] for name in names], axis=1), rows, photos)
    if column.name not in marginals:
        return None
    labels: Sequence[str] = classifier.graph.labels(column.name)
    place = {label: index for index, label in enumerate(labels)}
    table = np.zeros((len(rows), len(column.labels)))
    for index, label in enumerate(column.labels):
        if label in place:  # a label that the model was not taught has no probability
            table[:, index] = marginals[column.name][:, place[label]]
    return _means(table, rows, photos)
