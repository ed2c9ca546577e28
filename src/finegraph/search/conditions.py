"""Ranking by the posterior: "the same dish, another restaurant".

For a query photo q and a stored photo r, the question is how probable it is that their labels are related as asked:

    factor(q, r)  =  sum_i p(i | q) sum_j h(j | r)  prod_{k same} s_k(i, j)  prod_{k other} (1 - s_k(i, j))
    s_k(i, j)     =  sum_c g_k[i, c] g_k[j, c]

p is the posterior of the query over the fine labels, with its evidence; h says what is assumed of the stored photo: its
label if it is known, else the model's guess; g are the weights of the graph. It is the joint posterior that is
summed, not a product of marginals: if the query is "mapo tofu @ A" or "kung pao @ B", no photo of "mapo tofu @ A" fits.
If the parent of i or j in a kind is not known, nothing can be said, and that pair counts 0.

Cost: the edges of the kinds, times the fine labels that are probable at all (at most 256), per query.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from finegraph.errors import InputError
from finegraph.graph import Kind, LabelGraph
from finegraph.inference import Posterior

_MIN_PROBABILITY = 1e-6
_MAX_LABELS = 256
Factors = NDArray[np.float32]


def condition_factors(
    posterior: Posterior, *, same: Sequence[str] = (), other: Sequence[str] = ()
) -> Float[Factors, "batch fine"]:
    """For each query and each fine label of a stored photo, the probability that the two are related as asked.

    Args:
        posterior: of the queries.
        same: the kinds in which the labels are to be the same.
        other: the kinds in which they are to differ.

    Returns:
        (batch, fine)

    Raises:
        UnknownNameError: a kind that the graph does not have.
        InputError: no kind at all, or one that is asked to be the same and another.
    """
    graph = posterior.graph
    check_kinds(graph, same, other)
    probs = posterior.probs().detach().double().cpu().numpy()
    factors = np.zeros(probs.shape, np.float64)
    rows: dict[int, NDArray[np.float64]] = {}
    for query, row in enumerate(probs):
        likely = np.argsort(-row)[:_MAX_LABELS]
        for fine in likely[row[likely] > _MIN_PROBABILITY].tolist():
            if fine not in rows:
                rows[fine] = _related(graph, fine, same, other)
            factors[query] += row[fine] * rows[fine]
    return factors.astype(np.float32)


def label_factors(
    graph: LabelGraph, label: str, *, same: Sequence[str] = (), other: Sequence[str] = ()
) -> Float[Factors, " fine"]:
    """The same for a query of which the fine label is known; (fine)."""
    check_kinds(graph, same, other)
    return _related(graph, graph.fine_index(label), same, other).astype(np.float32)


def check_kinds(graph: LabelGraph, same: Sequence[str], other: Sequence[str]) -> None:
    """Raise if a condition cannot be asked for; see `condition_factors`."""
    for name in (*same, *other):
        graph.kind(name)
    if both := set(same) & set(other):
        raise InputError(f"the {min(both)} cannot be the same and another at once; ask for one of the two")
    if not same and not other:
        raise InputError("expected at least one kind that is to be the same or another, got none")


def _related(graph: LabelGraph, fine: int, same: Sequence[str], other: Sequence[str]) -> NDArray[np.float64]:
    """How probable it is that a fine label is related to each of the others as asked."""
    factors = np.ones(len(graph))
    for name in (*same, *other):
        kind = graph.kind(name)
        equal, known = _equal(kind, fine)
        factors *= np.where(known, equal if name in same else 1.0 - equal, 0.0)
    return factors


def _equal(kind: Kind, fine: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The probability that each fine label has the parent of one of them, and where both parents are known."""
    parents = slice(int(kind.starts[fine]), int(kind.starts[fine + 1]))
    weights = np.zeros(len(kind.labels))
    weights[kind.coarse[parents]] = kind.weight[parents]
    owners = np.repeat(np.arange(kind.fine_count), np.diff(kind.starts))
    equal = np.bincount(owners, kind.weight * weights[kind.coarse], minlength=kind.fine_count)
    return np.clip(equal, 0.0, 1.0), (np.diff(kind.starts) > 0) & (parents.stop > parents.start)
