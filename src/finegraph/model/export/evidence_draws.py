"""Evidence of every form for checking a file: hard, set-valued and soft, always possible, fixed by the seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from finegraph.graph import Kind, LabelGraph
from finegraph.model.export.runners import Likelihoods

FORMS = ("hard", "set", "soft")
"""One label of one kind; several labels of half of the kinds; a likelihood for every label."""


def draw_evidence(graph: LabelGraph, count: int, random: np.random.Generator) -> Likelihoods:
    """Evidence on some samples, of the forms in turn.

    Each agrees with a fine label that is drawn first, so it is never of probability 0.
    """
    rows = [_one(graph, FORMS[number % len(FORMS)], random) for number in range(count)]
    coarse = sum(len(graph.labels(kind)) for kind in graph.kinds)
    fine = np.array([row.fine for row in rows], np.float32).reshape(count, len(graph))
    return Likelihoods(fine, np.array([row.coarse for row in rows], np.float32).reshape(count, coarse))


def _one(graph: LabelGraph, form: str, random: np.random.Generator) -> Likelihoods:
    """The evidence on one sample."""
    fine = int(random.integers(len(graph)))
    of_fine = np.ones(len(graph), np.float32)
    parts = [np.ones(len(graph.labels(kind)), np.float32) for kind in graph.kinds]
    if form == "soft":
        of_fine = random.uniform(0.1, 1.0, len(graph)).astype(np.float32)
        parts = [random.uniform(0.1, 1.0, len(part)).astype(np.float32) for part in parts]
    else:
        share = 1 / max(len(parts), 1) if form == "hard" else 0.5
        for number, name in enumerate(graph.kinds):
            if random.random() < share:
                parts[number] = _allowed(graph.kind(name), fine, form, random)
    return Likelihoods(of_fine, np.concatenate([np.zeros(0, np.float32), *parts]))


def _allowed(kind: Kind, fine: int, form: str, random: np.random.Generator) -> NDArray[np.float32]:
    """Zeros, and ones for a label that a fine label can have; in a set also for a few others."""
    edges = kind.coarse[kind.starts[fine] : kind.starts[fine + 1]]
    possible = edges if len(edges) else np.flatnonzero(kind.prior)
    allowed = np.zeros(len(kind.labels), np.float32)
    allowed[random.choice(possible)] = 1.0
    if form == "set":
        allowed[random.random(len(allowed)) < 0.3] = 1.0
    return allowed
