"""Converting labels as people write them to the indices that fitting needs.

With a graph, labels are names of the graph, and None, or NaN as in tables, marks what was not observed. Without
one, any values that scikit-learn accepts are classes, and they form a graph without kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped
from numpy.typing import ArrayLike, NDArray

from finegraph.errors import GraphError, InputError, ShapeError, unknown_name
from finegraph.graph import LabelGraph, Number
from finegraph.graph.number_cells import number_cell
from finegraph.model.fitting.fit_samples import NOT_OBSERVED


class EstimatorClasses(NamedTuple):
    """The classes of an estimator.

    Attributes:
        names: the classes in sorted order, as scikit-learn wants them.
        graph: the label graph.
        order: the index of the fine label of each class.
        targets: the fine label of each sample, -100 if not observed.
    """

    names: Shaped[NDArray[np.generic], " fine"]
    graph: LabelGraph
    order: Int[NDArray[np.int64], " fine"]
    targets: Int[NDArray[np.int64], " batch"]


def classes_of_graph(graph: LabelGraph, labels: Shaped[NDArray[np.object_], " batch"]) -> EstimatorClasses:
    """The fine labels of a graph as classes, and labels as indices of it."""
    names = np.array(graph.fine)
    order = np.argsort(names, kind="stable")
    return EstimatorClasses(names[order], graph, order, _indices(labels, graph.fine_index))


def classes_of_values(labels: Shaped[NDArray[np.generic], " batch"]) -> EstimatorClasses:
    """The distinct values as classes, and a graph of them without kinds.

    The fine labels have the values as names, or their numbers if not all values are valid names.
    """
    names, targets = np.unique(labels, return_inverse=True)
    try:
        graph = LabelGraph([str(name) for name in names])
    except GraphError:
        graph = LabelGraph([str(number) for number in range(len(names))])
    return EstimatorClasses(names, graph, np.arange(len(names)), targets.reshape(-1).astype(np.int64))


def kind_target_indices(
    graph: LabelGraph, kind_targets: Mapping[str, ArrayLike], samples: int
) -> dict[str, Int[NDArray[np.int64], " batch"] | Float[NDArray[np.float64], " batch"]]:
    """Per kind the photo labels as indices, -100 if there is none; per number the measured values, or NaN."""
    if not isinstance(kind_targets, Mapping):
        raise InputError(f"kind_targets: expected a mapping from kinds to labels, got {type(kind_targets).__name__}")
    found: dict[str, NDArray[np.int64] | NDArray[np.float64]] = {}
    for kind, values in kind_targets.items():
        if kind not in graph.numbers and kind not in graph.kinds:
            raise unknown_name("kind", kind, (*graph.kinds, *graph.numbers))
        labels = np.asarray(values, dtype=object)
        if labels.shape != (samples,):
            raise ShapeError(
                f"kind_targets[{kind!r}]: expected one label per sample, {samples}, got shape {labels.shape}"
            )
        if kind in graph.numbers:
            found[kind] = _measured(graph.number(kind), labels)
            continue
        found[kind] = _indices(labels, lambda label, kind=kind: graph.label_index(kind, label))  # type: ignore[misc]
    return found


def _measured(number: Number, values: NDArray[np.object_]) -> NDArray[np.float64]:
    """Measured values as floats, NaN if there is none. Raises if one is not a valid value of the number."""
    found = np.full(len(values), np.nan)
    for place, value in enumerate(values):
        cell = number_cell(value, number.scale, f"kind_targets[{number.name!r}], sample {place}", number.unit)
        found[place] = np.nan if cell is None else cell[0]
    return found


def _indices(labels: NDArray[np.object_], index: Callable[[str], int]) -> NDArray[np.int64]:
    """The index of each label; every distinct one is looked up once."""
    known: dict[object, int] = {}
    found = np.empty(len(labels), dtype=np.int64)
    for place, label in enumerate(labels):
        if label is None or label != label:
            found[place] = NOT_OBSERVED
            continue
        if label not in known:
            known[label] = index(bool(label) if isinstance(label, np.bool_) else label)  # type: ignore[arg-type]
        found[place] = known[label]
    return found
