"""The best run of labels equals the best of a table of all runs, with ties, unknown parents and several parents."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.graph.kind import Kind
from finegraph.inference.label_runs import NO_RUN, best_runs
from finegraph.inference.sums.groups import KindTensors

PARTS = [
    range(150),
    pytest.param(range(150, 500), marks=pytest.mark.deep),
    pytest.param(range(500, 2000), marks=pytest.mark.slow),
]


def random_kind(rng):
    """A random ordered kind with up to nine labels, some without children, and some rows mixed or unknown."""
    labels, fine = int(rng.integers(2, 10)), int(rng.integers(1, 12))
    used = rng.permutation(labels)[: rng.integers(1, labels + 1)]
    several, unknown = rng.choice([0.0, 0.3, 0.8]), rng.choice([0.0, 0.2])
    matrix = np.zeros((fine, labels))
    for row in matrix:
        if rng.random() >= unknown:
            count = int(rng.integers(2, 5)) if rng.random() < several else 1
            row[rng.choice(used, size=min(count, len(used)), replace=False)] = rng.uniform(0.1, 1.0)
    return Kind.from_matrix("heat", tuple(f"{i}" for i in range(labels)), matrix)


def table_of_runs(kind, probs, possible, min_probability):
    """The best run by a table of all pairs of ends: its ends, its probability and its number of fine labels."""
    can_have = (np.where(kind.unknown[:, None], kind.prior, kind.matrix()) > 0)[possible]
    sums = np.concatenate([[0.0], np.cumsum(probs)])
    found = []
    for first in range(len(probs)):
        for last in range(first + 1, len(probs)):
            inside = sums[last + 1] - sums[first]
            compatible = int(can_have[:, first : last + 1].any(axis=1).sum())
            if inside >= min_probability and compatible < possible.sum():
                found.append((first, last, inside, compatible))
    if not found:
        return None
    fewest = min(one[3] for one in found)
    best = max(one[2] for one in found if one[3] == fewest)
    return next(one for one in found if one[3] == fewest and one[2] >= best - 1e-12)


def probabilities(rng, kind, possible):
    """The probabilities of the labels, of which many are equal."""
    weights = np.where(kind.unknown[:, None], kind.prior, kind.matrix()) * rng.choice([0.5, 1.0, 8.0], len(kind.labels))
    rows = weights / weights.sum(axis=1, keepdims=True)
    fine = rng.choice([0.0, 1.0, 1.0, 4.0], len(rows)) * possible
    fine = possible * 1.0 if not fine.any() else fine
    return fine @ rows / fine.sum()


@pytest.mark.parametrize("seeds", PARTS, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_the_best_run_is_that_of_a_table_of_all_runs(seeds):
    found_some = set()
    for seed in seeds:
        rng = np.random.default_rng([53, seed])
        kind = random_kind(rng)
        tensors = KindTensors(kind, 0, slice(0, len(kind.labels)))
        possible = rng.random((3, kind.fine_count)) < rng.choice([0.6, 1.0])
        possible[np.arange(3), rng.integers(kind.fine_count, size=3)] = True
        probs = np.stack([probabilities(rng, kind, row) for row in possible])
        risk = rng.choice([0.0, 0.05, 0.3, 0.6])
        given = None if possible.all() else torch.from_numpy(possible)
        runs = best_runs(tensors, torch.from_numpy(probs), given, 1.0 - risk - 1e-14)
        for row, (first, last, probability, compatible) in enumerate(
            zip(*(each.tolist() for each in runs), strict=True)
        ):
            expected = table_of_runs(kind, probs[row], possible[row], 1.0 - risk - 1e-14)
            if expected is None:
                assert compatible == NO_RUN
            else:
                assert (first, last, compatible) == (*expected[:2], expected[3])
                assert probability == pytest.approx(expected[2], abs=1e-12)
            found_some.add((expected is None, tensors.plain))
    assert len(found_some) == 4


def test_a_run_takes_along_what_adds_no_fine_label():
    matrix = np.array([[1, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
    kind = Kind.from_matrix("heat", ("mild", "medium", "hot", "extreme"), matrix)
    graph = fg.LabelGraph(["a", "b", "c", "d"], [replace(kind, ordered=True)])
    posterior = fg.Posterior(graph, torch.tensor([[0.4, 0.3, 0.29, 0.01]]).log())
    # Without "hot", whose only fine label counts already, the run would be as specific, but less probable.
    assert posterior.answer(0.25)[0] == ("heat", "mild to hot", pytest.approx(0.99), 3, "mild", "hot")
    assert posterior.given(heat="medium").answer(0.25)[0].label == "c"


def test_very_many_labels_need_no_table_of_pairs():
    count = 60_000  # a table would take 29 GB
    kind = Kind.from_parents("year", tuple(f"{i}" for i in range(count)), np.arange(count))
    tensors = KindTensors(kind, 0, slice(0, count))
    probs = torch.full((1, count), 1e-9, dtype=torch.float64)
    probs[0, 30_000:30_010] = (1.0 - 1e-9 * (count - 10)) / 10
    first, last, probability, compatible = best_runs(tensors, probs, None, 0.95)
    assert (first.item(), last.item(), compatible.item()) == (30_000, 30_009, 10)
    assert probability.item() == pytest.approx(1.0, abs=1e-4)
