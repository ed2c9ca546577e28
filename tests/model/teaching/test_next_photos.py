"""Which photo to label next: against the covariance written out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from finegraph.graph import LabelGraph
from finegraph.model.fitting.class_means import Variances
from finegraph.model.teaching import next_photos as chooser
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.model.teaching.next_photos import _posterior_covariance, next_photos

FEATURES = 6


def _statistics(graph, counts, variances):
    counts = torch.tensor(counts, dtype=torch.float64)
    return ClassStatistics(
        counts=counts, sums=torch.randn(len(graph), FEATURES).double(), variances=variances, strength=1.0
    )


@pytest.fixture
def graph():
    return LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}, "d": {"dish": "y"}})


VARIANCES = Variances(own=0.5, kinds={"dish": 0.8}, noise=0.7)


def test_the_covariance_is_that_of_the_joint_gaussian(graph):
    found = _posterior_covariance(graph, _statistics(graph, [3.0, 0.0, 1.0, 0.0], VARIANCES)).numpy()
    matrix = graph.matrix("dish")
    prior = 0.5 * np.eye(4) + 0.8 * matrix @ matrix.T
    information = np.linalg.inv(prior) + np.diag([3.0, 0.0, 1.0, 0.0]) / 0.7
    np.testing.assert_allclose(found, np.linalg.inv(information), atol=1e-12)


def test_the_gain_of_the_first_is_the_expected_fall_of_the_variances(graph):
    statistics = _statistics(graph, [3.0, 1.0, 2.0, 0.0], VARIANCES)
    probs = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.1, 0.2, 0.2, 0.5], [0.25, 0.25, 0.25, 0.25]]).double()
    before = _posterior_covariance(graph, statistics).diagonal()
    doubt = (probs * (1 - probs)).sum(dim=0)
    expected = []
    for row in probs:
        gain = 0.0
        for label, chance in enumerate(row):
            counts = statistics.counts.clone()
            counts[label] += 1
            after = _posterior_covariance(graph, replace(statistics, counts=counts)).diagonal()
            gain += float(chance) * float(doubt @ (before - after))
        expected.append(gain / float(doubt @ before))
    (first,) = next_photos(graph, statistics, torch.eye(3, FEATURES), probs, 1)
    assert first.number == int(np.argmax(expected))
    assert first.gain == pytest.approx(max(expected), abs=1e-12)


def test_labels_without_photos_come_first_and_copies_last(graph):
    statistics = _statistics(graph, [9.0, 9.0, 9.0, 0.0], VARIANCES)
    probs = torch.full((6, 4), 0.02).double()
    for row, label in enumerate([0, 3, 3, 3, 1, 2]):
        probs[row, label] = 0.94
    features = torch.eye(6)
    features[2] = features[1] + 0.01  # nearly the same photo
    found = next_photos(graph, statistics, features, probs, 6)
    assert {found[0].number, found[1].number} <= {1, 2, 3}
    assert found[-1].alike in (1, 2)
    assert sorted(one.number for one in found) == list(range(6))


@pytest.mark.parametrize("dense", [True, False])
def test_the_covariance_of_some_labels_is_that_part_of_the_whole(dense, monkeypatch):
    table = {
        f"{dish} {town}": {"dish": f"dish {dish}", "town": f"town {town}"} for dish in range(8) for town in range(5)
    }
    graph = LabelGraph.from_table(table)
    counts = [float(number % 4) for number in range(len(graph))]
    statistics = _statistics(graph, counts, Variances(own=0.5, kinds={"dish": 0.8, "town": 0.3}, noise=0.7))
    prior = 0.5 * np.eye(len(graph)) + sum(
        strength * graph.matrix(kind) @ graph.matrix(kind).T for kind, strength in (("dish", 0.8), ("town", 0.3))
    )
    whole = np.linalg.inv(np.linalg.inv(prior) + np.diag(counts) / 0.7)
    if not dense:
        monkeypatch.setattr(chooser, "MAX_DENSE_LABELS", 5)
    labels = torch.tensor([0, 3, 4, 17, 39])
    found = _posterior_covariance(graph, statistics, labels).numpy()
    np.testing.assert_allclose(found, whole[np.ix_(labels, labels)], atol=1e-5)


def test_of_very_many_labels_the_most_doubtful_count_and_no_matrix_of_all_is_made(monkeypatch):
    count = 30_000
    graph = LabelGraph.from_table({f"label {one}": {"dish": f"dish {one // 10}"} for one in range(count)})
    counts = torch.ones(count, dtype=torch.float64)
    counts[7] = 0.0
    statistics = ClassStatistics(
        counts=counts, sums=torch.zeros(count, FEATURES).double(), variances=VARIANCES, strength=1.0
    )
    doubt = torch.zeros(count, dtype=torch.float64)
    doubt[[3, 7, 29_999]] = torch.tensor([0.1, 0.5, 0.2], dtype=torch.float64)
    monkeypatch.setattr(chooser, "MAX_DOUBTFUL", 3)
    labels = chooser.doubtful_labels(doubt)
    assert labels.tolist() == [3, 7, 29_999]
    probs = torch.tensor([[0.9, 0.05, 0.0], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]])
    found = next_photos(graph, statistics, torch.eye(3, FEATURES), probs, 3, labels)  # 7 GB, if it were of all labels
    assert found[0].number == 1  # of the label without a photo
    assert chooser.doubtful_labels(torch.ones(1500)) is None
