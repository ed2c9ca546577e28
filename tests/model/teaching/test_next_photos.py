"""Which photo to label next: against the covariance written out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from finegraph.graph import LabelGraph
from finegraph.model.fitting.class_means import Variances
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
