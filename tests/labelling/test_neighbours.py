"""The nearest classes: all of them compared, or those of the groups near by."""

import numpy as np
import pytest

from finegraph.labelling.suggestions.neighbours import nearest


def clusters(groups, each, seed=0):
    """Rows of length 1 in clear groups."""
    random = np.random.default_rng(seed)
    rows = np.repeat(random.normal(size=(groups, 24)), each, axis=0) + 0.3 * random.normal(size=(groups * each, 24))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def by_sorting(unit, row, count):
    alike = unit @ unit[row]
    alike[row] = -np.inf
    return np.argsort(-alike, kind="stable")[:count]


def test_all_are_compared_where_there_are_few():
    unit = clusters(8, 5)
    wanted = np.array([3, 0, 17])
    found = list(nearest(unit, wanted, 5))
    assert [row for row, _, _ in found] == [3, 0, 17]
    for row, others, alike in found:
        assert others.tolist() == by_sorting(unit, row, 5).tolist()
        np.testing.assert_allclose(alike, unit[others] @ unit[row], rtol=1e-5)


def test_among_many_most_neighbours_are_found():
    unit = clusters(60, 20)
    wanted = np.arange(0, len(unit), 3)
    found = {row: others for row, others, _ in nearest(unit, wanted, 5, exact=100)}
    assert sorted(found) == wanted.tolist()
    assert all(row not in others for row, others in found.items())
    right = [len(set(others.tolist()) & set(by_sorting(unit, row, 5).tolist())) for row, others in found.items()]
    assert np.mean(right) > 4.25


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_fewer_than_asked_for(rows):
    unit = clusters(rows, 1)
    assert [len(others) for _, others, _ in nearest(unit, np.arange(rows), 5)] == [rows - 1] * rows * (rows > 1)
