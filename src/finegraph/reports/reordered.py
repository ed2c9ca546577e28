"""A run with its fine labels in another order, so that runs whose graphs list the same labels otherwise compare.

A baseline that was trained without a graph lists its labels by name, the other run as its graph file does. Numbers of
labels in the arrays, the rows of the graph and the counts of training photos follow. Cost: linear in all of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from finegraph.graph import Kind, LabelGraph
from finegraph.reports.run_results import RunResults


def in_order_of(run: RunResults, fine: Sequence[str]) -> RunResults:
    """The same run with the same fine labels, in an order.

    Args:
        run: the run.
        fine: all its fine labels, in the order that is wanted.
    """
    if run.graph.fine == tuple(fine):
        return run
    order = np.array([run.graph.fine_index(label) for label in fine])  # where each label was
    place = np.argsort(order)  # where each label is now

    def moved(numbers: NDArray[np.integer]) -> NDArray[np.integer]:
        return np.where(numbers < 0, numbers, place[np.maximum(numbers, 0)]).astype(numbers.dtype)

    arrays = {
        **run.arrays,
        **{name: moved(run.arrays[name]) for name in ("fine", "predicted", "top_labels")},
    }
    is_fine, labels = run.arrays["sure_level"] == 0, run.arrays["sure_label"]
    arrays["sure_label"] = np.where(is_fine, moved(np.where(is_fine, labels, -1)), labels).astype(labels.dtype)
    about = dict(run.about)
    if about.get("training") is not None:
        counts = about["training"]["fine"]
        about["training"] = {**about["training"], "fine": [counts[number] for number in order]}
    kinds = [_rows(run.graph.kind(name), order) for name in run.graph.kinds]
    return replace(run, graph=LabelGraph(fine, kinds), arrays=arrays, about=about)


def _rows(kind: Kind, order: NDArray[np.integer]) -> Kind:
    """A kind with its rows in another order."""
    spans = list(pairwise(kind.starts.tolist()))
    chosen = [np.arange(*spans[number]) for number in order]
    edges = np.concatenate(chosen) if chosen else np.zeros(0, np.int64)
    starts = np.concatenate([[0], np.cumsum([len(each) for each in chosen])]).astype(np.int64)
    return Kind(kind.name, kind.labels, starts, kind.coarse[edges], kind.weight[edges], kind.unknown_prior)
