"""Metrics of retrieval equal slow obvious versions of them."""

import numpy as np
import pytest

from finegraph.data.dataset import MISSING
from finegraph.errors import ShapeError
from finegraph.evaluation import retrieval
from finegraph.evaluation.retrieval import average_precision, judge_retrieval
from reference.random_graphs import random_graphs

CASES = [case.graph for case in random_graphs(12, seed=5)]


def slow_average_precision(relevant):
    """For each relevant one, the share of relevant ones up to it."""
    found = [sum(relevant[: place + 1]) / (place + 1) for place, one in enumerate(relevant) if one]
    return sum(found) / len(found) if found else None


def parents(graph, kind, fine):
    return {int(label) for label in np.flatnonzero(graph.matrix(kind)[fine])}


def slow(graph, features, fine, depths):
    """All metrics, photo by photo and pair by pair."""
    photos = [number for number in range(len(fine)) if fine[number] != MISSING]
    unit = [features[number] / np.linalg.norm(features[number]) for number in range(len(fine))]
    by_fine, by_kind, by_depth = [], {kind: [] for kind in graph.kinds}, {str(depth): [] for depth in depths}
    for query in photos:
        others = sorted((one for one in photos if one != query), key=lambda one: -float(unit[one] @ unit[query]))
        by_fine.append(slow_average_precision([fine[one] == fine[query] for one in others]))
        agreement = []
        for one in others:
            votes = [fine[one] == fine[query]]
            for kind in graph.kinds:
                mine, yours = parents(graph, kind, fine[query]), parents(graph, kind, fine[one])
                if mine and yours:
                    votes.append(bool(mine & yours))
            agreement.append(sum(votes) / len(votes))
        for kind in graph.kinds:
            mine = parents(graph, kind, fine[query])
            known = [one for one in others if mine and parents(graph, kind, fine[one])]
            by_kind[kind].append(
                slow_average_precision([bool(mine & parents(graph, kind, fine[one])) for one in known])
            )
        for depth in depths:
            best = sum(sorted(agreement, reverse=True)[:depth])
            by_depth[str(depth)].append(sum(agreement[:depth]) / best if best else None)

    def mean(values):
        known = [value for value in values if value is not None]
        return pytest.approx(sum(known) / len(known), abs=1e-6) if known else None

    kinds = {kind: mean(values) for kind, values in by_kind.items()}
    return mean(by_fine), kinds, {depth: mean(values) for depth, values in by_depth.items()}


@pytest.mark.parametrize("seed", range(12))
def test_equals_the_slow_version(seed):
    random, graph = np.random.default_rng(seed), CASES[seed]
    count = int(random.integers(2, 40))
    fine = random.integers(0, len(graph), count)
    fine[random.random(count) < 0.2] = MISSING
    features = random.standard_normal((count, 4))
    found = judge_retrieval(graph, features, fine)
    if (fine != MISSING).sum() > 1:
        mean, kinds, depths = slow(graph, features, fine, retrieval.DEPTHS)
        assert (found.mean_average_precision, found.kinds, found.hierarchical_precision) == (mean, kinds, depths)
    assert (found.photos, found.queries) == ((fine != MISSING).sum(),) * 2 or found.queries == 0


def test_known_values():
    assert average_precision(np.array([True, False, True, False])) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(np.zeros(3, bool)) is None
    assert average_precision(np.zeros(0, bool)) is None


def test_perfect_features_get_full_marks():
    graph = CASES[3]
    fine = np.repeat(np.arange(len(graph)), 3)
    found = judge_retrieval(graph, np.eye(len(graph))[fine], fine)
    assert found.mean_average_precision == 1.0
    assert found.hierarchical_precision["1"] == 1.0


def test_without_labels_there_is_nothing_to_judge():
    graph = CASES[0]
    for fine in ([], [MISSING, MISSING], [0]):
        found = judge_retrieval(graph, np.ones((len(fine), 2)), np.array(fine, dtype=np.int64))
        assert (found.mean_average_precision, found.queries) == (None, 0)
        assert set(found.hierarchical_precision.values()) == {None}


def test_many_photos_ask_by_a_spread_sample(monkeypatch):
    monkeypatch.setattr(retrieval, "MAX_QUERIES", 7)
    graph = CASES[1]
    random = np.random.default_rng(2)
    found = judge_retrieval(graph, random.standard_normal((50, 3)), random.integers(0, len(graph), 50))
    assert (found.photos, found.queries) == (50, 7)


@pytest.mark.usefixtures("unchecked")
def test_wrong_shapes():
    graph = CASES[0]
    with pytest.raises(ShapeError, match=r"expected one fine label for each of 3 photos, got shape \(2,\)"):
        judge_retrieval(graph, np.ones((3, 2)), np.zeros(2, dtype=np.int64))
