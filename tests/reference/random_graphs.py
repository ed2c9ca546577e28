"""Random small label graphs, as the package's value and as plain matrices for the enumeration.

Each form of graph stresses one thing: several parents, unknown cells, unused labels, no kinds at all, and so on. The
matrices are made first and handed to both sides; how unknown rows are filled is worked out here without the package.
Everything is fixed by the seed, and the joint distribution never has more than `max_joint` states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from finegraph import Kind, LabelGraph

from .enumeration import fill_unknown

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Case:
    """One random graph.

    Attributes:
        form: which of `FORMS` it is.
        graph: the package's value.
        raw: per kind the weights (fine x coarse), rows that sum to 1, or zeros where the parent is unknown.
        matrices: the same with unknown rows filled by the prior of the kind.
    """

    form: str
    graph: LabelGraph
    raw: list[Array]
    matrices: list[Array]

    @property
    def states(self) -> int:
        """How many states the joint distribution has."""
        return int(np.prod([len(self.graph.fine)] + [matrix.shape[1] for matrix in self.matrices]))


class Scores(NamedTuple):
    """The scores of one sample: of the fine labels, and of each kind in the order of the graph."""

    fine: Array
    kinds: list[Array]


# ---- one kind: weights of any scale, rows of zeros where unknown -----------------------------------------------------


def _one_parent(rng: np.random.Generator, fine: int, coarse: int) -> Array:
    return np.eye(coarse)[rng.integers(coarse, size=fine)]


def _several_parents(rng: np.random.Generator, fine: int, coarse: int) -> Array:
    """Each row links to 1 to `coarse` labels, with equal weights."""
    matrix = np.zeros((fine, coarse))
    for row in matrix:
        row[rng.choice(coarse, size=rng.integers(1, coarse + 1), replace=False)] = 1.0
    return matrix


def _weighted(rng: np.random.Generator, fine: int, coarse: int) -> Array:
    return _several_parents(rng, fine, coarse) * rng.uniform(0.05, 3.0, size=(fine, coarse))


def _unknown_cells(rng: np.random.Generator, fine: int, coarse: int) -> Array:
    """Any of the others with some rows taken out, now and then all of them."""
    make = [_one_parent, _several_parents, _weighted][rng.integers(3)]
    share = 1.0 if rng.random() < 0.1 else rng.uniform(0.1, 0.7)
    return make(rng, fine, coarse) * (rng.random(fine) >= share)[:, None]


def _without_children(rng: np.random.Generator, fine: int, coarse: int) -> Array:
    """The links use only some of the labels; at least one has no child."""
    used = rng.permutation(coarse)[: rng.integers(1, coarse)]
    matrix = np.zeros((fine, coarse))
    matrix[np.arange(fine), rng.choice(used, size=fine)] = 1.0
    return matrix


@dataclass(frozen=True)
class _Plan:
    """What a form draws: how its kinds are made, and how many of what (ranges with both ends)."""

    makers: tuple[Callable[[np.random.Generator, int, int], Array], ...]
    fine: tuple[int, int] = (2, 8)
    kinds: tuple[int, int] = (1, 4)
    coarse: tuple[int, int] = (2, 5)
    uniform_share: float = 0.0


_ANY = (_one_parent, _several_parents, _weighted, _unknown_cells, _without_children)
_PLANS = {
    "one parent": _Plan((_one_parent,)),
    "binary": _Plan((_one_parent,), kinds=(1, 6), coarse=(2, 2)),
    "several parents": _Plan((_several_parents,)),
    "weighted": _Plan((_weighted,)),
    "unknown cells": _Plan((_unknown_cells,)),
    "uniform unknown prior": _Plan((_unknown_cells,), uniform_share=1.0),
    "mixed": _Plan(_ANY, kinds=(2, 5), uniform_share=0.3),
    "no kinds": _Plan((_one_parent,), kinds=(0, 0)),
    "single fine label": _Plan(_ANY, fine=(1, 1)),
    "single coarse label": _Plan((_one_parent, _unknown_cells), kinds=(1, 3), coarse=(1, 1)),
    "labels without children": _Plan((_without_children,), kinds=(1, 3)),
    "many kinds": _Plan((_one_parent, _one_parent, _several_parents, _unknown_cells), kinds=(6, 9), coarse=(2, 2)),
}
FORMS = tuple(_PLANS)


# ---- graphs and scores -----------------------------------------------------------------------------------------------


def random_graph(rng: np.random.Generator, form: str, max_joint: int = 20_000) -> Case:
    """A random graph of one of the `FORMS`; kinds that would take the joint above `max_joint` states are left out."""
    plan = _PLANS[form]
    fine = min(_between(rng, plan.fine), max_joint)
    states = fine
    names = [f"fine {i}" for i in range(fine)]
    kinds, raw, matrices = [], [], []
    for j in range(_between(rng, plan.kinds)):
        coarse = _between(rng, plan.coarse)
        if states * coarse > max_joint:
            break
        states *= coarse
        weights = plan.makers[rng.integers(len(plan.makers))](rng, fine, coarse)
        uniform = rng.random() < plan.uniform_share
        binary = coarse == 2 and (form == "binary" or rng.random() < 0.5)
        labels = ("no", "yes") if binary else tuple(f"label {j}.{c}" for c in range(coarse))
        kinds.append((Kind.from_matrix(f"kind {j}", labels, weights), uniform))
        raw.append(weights / np.where(weights.any(axis=1), weights.sum(axis=1), 1.0)[:, None])
        matrices.append(fill_unknown(weights, "uniform" if uniform else "frequency"))
    graph = LabelGraph(names, [kind for kind, _ in kinds])
    graph = graph.with_unknown_prior("uniform", [kind.name for kind, uniform in kinds if uniform])
    return Case(form, graph, raw, matrices)


def random_graphs(count: int, seed: int, max_joint: int = 20_000, start: int = 0) -> Iterator[Case]:
    """`count` random graphs from number `start` on, which go round the `FORMS`; the same ones for the same seed."""
    for number in range(start, start + count):
        # A generator per graph: the graph of a given number does not depend on how much the ones before it drew.
        yield random_graph(np.random.default_rng([seed, number]), FORMS[number % len(FORMS)], max_joint)


def random_scores(rng: np.random.Generator, case: Case, scale: float = 1.0) -> Scores:
    """Normally distributed scores for one sample."""
    fine = scale * rng.standard_normal(len(case.graph.fine))
    return Scores(fine, [scale * rng.standard_normal(len(matrix.T)) for matrix in case.matrices])


def _between(rng: np.random.Generator, ends: tuple[int, int]) -> int:
    return int(rng.integers(ends[0], ends[1] + 1))
