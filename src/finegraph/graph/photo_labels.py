"""Photo labels, and how they change the links of fine labels.

The graph says what holds for a class ("mapo tofu @ A" has pork: no); a photo may show something else. Training on such
a photo would fight an impossible joint, so the links first become weights. With n_ic photos of fine label i showing
label c, and the row g_i of the class:

    new row i = n_i + smoothing * g_i, normalised          (an unknown g_i adds nothing; without photos the row stays)

`contradictions` lists what photos show and the graph excludes. Cost: one pass over the counts (fine x coarse per kind).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike, NDArray

from finegraph.errors import InputError, ShapeError
from finegraph.graph.graph_like import GraphLike
from finegraph.graph.kind import FloatArray, IntArray, Kind


@dataclass(frozen=True)
class Contradiction:
    """A label that photos of a fine label show although the graph excludes it.

    Attributes:
        fine: the fine label.
        kind: the kind.
        label: the label that was seen.
        count: on how many photos of the fine label it was seen.
        total: on how many photos of the fine label any label of the kind was seen.
    """

    fine: str
    kind: str
    label: str
    count: float
    total: float


def count_photo_labels(
    graph: GraphLike,
    fine_labels: Sequence[str | None],
    kind_labels: Mapping[str, Sequence[str | bool | None]],
) -> dict[str, Int[IntArray, "fine _"]]:
    """Count, per kind, how many photos of each fine label show each coarse label (fine x coarse).

    Args:
        graph: the graph whose names are used.
        fine_labels: the fine label of each photo, None if unknown; such photos are not counted.
        kind_labels: per kind, the label seen on each photo, None if none was; True and False for a binary kind.

    Example:
        >>> from finegraph.graph import LabelGraph
        >>> graph = LabelGraph.from_table({"ramen @ A": {"egg": True}, "udon @ A": {"egg": False}})
        >>> count_photo_labels(graph, ["ramen @ A", "ramen @ A"], {"egg": ["yes", "no"]})["egg"].tolist()
        [[1, 1], [0, 0]]
    """
    fine = np.array([-1 if name is None else graph.fine_index(name) for name in fine_labels], dtype=np.int64)
    counts = {}
    for name, labels in kind_labels.items():
        kind = graph.kind(name)
        if len(labels) != len(fine):
            raise ShapeError(f"kind {name!r}: expected one label per photo, {len(fine)}, got {len(labels)}")
        coarse = np.array([-1 if x is None else graph.label_index(name, x) for x in labels], dtype=np.int64)
        both = (fine >= 0) & (coarse >= 0)
        flat = fine[both] * len(kind.labels) + coarse[both]
        size = len(graph) * len(kind.labels)
        counts[name] = np.bincount(flat, minlength=size).reshape(len(graph), -1).astype(np.int64, copy=False)
    return counts


def blended_kinds(graph: GraphLike, counts: Mapping[str, ArrayLike], smoothing: float = 1.0) -> list[Kind]:
    """All kinds of a graph; those with counts have their links weighted by what photos show.

    Args:
        graph: the graph of the classes.
        counts: per kind, how many photos of each fine label showed each coarse label (fine x coarse).
        smoothing: how many photos the original link counts as; with 0 the photos alone decide.
    """
    if not isinstance(smoothing, Real) or not math.isfinite(smoothing) or smoothing < 0:
        raise InputError(f"smoothing must be a finite number of photos, 0 or more, got {smoothing!r}")
    checked = {name: _checked(graph, name, given) for name, given in counts.items()}
    blended = {name: _blend(graph.kind(name), seen, float(smoothing)) for name, seen in checked.items()}
    return [blended.get(name) or graph.kind(name) for name in graph.kinds]


def contradictions(graph: GraphLike, counts: Mapping[str, ArrayLike]) -> list[Contradiction]:
    """What photos show although the graph gives it weight 0, the most frequent first.

    An unknown parent contradicts nothing.

    Args:
        graph: the graph of the classes.
        counts: per kind, how many photos of each fine label showed each coarse label (fine x coarse).
    """
    found = []
    for name, given in counts.items():
        seen = _checked(graph, name, given)
        kind = graph.kind(name)
        fine, coarse = np.nonzero(seen)
        linked, parents, _ = kind.edges
        excluded = ~np.isin(fine * len(kind.labels) + coarse, linked * len(kind.labels) + parents) & ~kind.unknown[fine]
        fine, coarse = fine[excluded], coarse[excluded]
        listed = (fine.tolist(), coarse.tolist(), seen[fine, coarse].tolist(), seen.sum(axis=1)[fine].tolist())
        for i, c, count, total in zip(*listed, strict=True):
            found.append(Contradiction(graph.fine[i], name, kind.labels[c], count, total))
    return sorted(found, key=lambda one: -one.count)


def _blend(kind: Kind, seen: NDArray[Any], smoothing: float) -> Kind:
    """The kind with rows of counts plus `smoothing` times its own; rows without counts stay as they are."""
    fine, coarse = np.nonzero(seen)
    count = seen[fine, coarse].astype(np.float64)
    own_fine, own_coarse, own_weight = kind.edges
    has_counts = np.zeros(kind.fine_count, dtype=bool)
    has_counts[fine] = True
    own_weight = np.where(has_counts[own_fine], smoothing * own_weight, own_weight)
    flat = np.concatenate([fine, own_fine]) * len(kind.labels) + np.concatenate([coarse, own_coarse])
    edge, inverse = np.unique(flat, return_inverse=True)
    weight: FloatArray = np.bincount(inverse, np.concatenate([count, own_weight]), len(edge)).astype(np.float64)
    row, column = np.divmod(edge, len(kind.labels))
    # Normalise here, so that an edge whose weight rounds to 0 is left out rather than kept with weight 0.
    sums = np.bincount(row, weights=weight, minlength=kind.fine_count)
    if not np.isfinite(sums).all():
        raise InputError(f"kind {kind.name!r}: the counts are too large to be added up; scale them down")
    weight = np.where(has_counts[row], weight / sums[row], weight)
    kept = weight > 0
    starts = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=kind.fine_count))])
    return replace(kind, starts=starts, coarse=column[kept], weight=weight[kept])


def _checked(graph: GraphLike, name: str, given: ArrayLike) -> NDArray[Any]:
    """The counts of a kind as an array, with shape and values checked."""
    kind = graph.kind(name)
    try:
        seen = np.asarray(given)
    except ValueError:
        seen = np.empty(0, dtype=object)
    if seen.dtype.kind not in "biuf":
        raise InputError(f"kind {name!r}: counts must be an array of numbers (fine x coarse)")
    expected = (len(graph), len(kind.labels))
    if seen.shape != expected:
        raise ShapeError(f"kind {name!r}: expected counts of shape {expected} (fine x coarse), got {seen.shape}")
    wrong = ~np.isfinite(seen) | (seen < 0)
    if wrong.any():
        i, c = (int(index[0]) for index in np.nonzero(wrong))
        raise InputError(
            f"kind {name!r}, fine label {graph.fine[i]!r}, label {kind.labels[c]!r}: "
            f"a count must be finite and not negative, got {seen[i, c].item()}"
        )
    return seen.astype(np.float64 if seen.dtype.kind == "f" else np.int64, copy=False)
