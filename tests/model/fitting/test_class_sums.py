"""Statistics of classes: parts add up to the whole, and samples can be taken out again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from finegraph.errors import InputError, ShapeError
from finegraph.model.fitting.class_sums import ClassSums
from thread_ranks import ThreadRanks

LABELS = 7


def _samples(count: int, offset: float = 0.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    features = torch.randn(count, 5, generator=generator, dtype=torch.float64) + offset
    targets = torch.randint(0, LABELS, (count,), generator=generator)
    return features, targets, torch.rand(count, generator=generator, dtype=torch.float64) + 0.5


def _assert_same(one: ClassSums, other: ClassSums) -> None:
    other = other.around(one.origin)
    torch.testing.assert_close(one.counts, other.counts)
    torch.testing.assert_close(one.sums, other.sums, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(one.scatter, other.scatter, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("cuts", [(0, 50), (0, 0, 20), (1, 30), ()])
def test_statistics_of_several_processes_add_up_to_those_of_all_samples(monkeypatch, cuts):
    monkeypatch.setattr("finegraph.model.fitting.class_sums._MAX_SENT", 12)
    x, y, w = _samples(50, offset=100.0)
    parts = [slice(start, end) for start, end in zip((0, *cuts), (*cuts, 50), strict=True)]

    def work(rank):
        rows = parts[rank.rank]
        own = ClassSums.of(x[rows], y[rows], LABELS, w[rows], scatter=True)
        before = own.sums.clone()
        found = own.of_all(rank)
        assert torch.equal(own.sums, before)
        return found

    whole = ClassSums.of(x, y, LABELS, w, scatter=True)
    for found in ThreadRanks(len(parts)).run(work):
        _assert_same(found, whole)


def test_samples_are_added_in_chunks_and_taken_out_again(monkeypatch):
    x, y, w = _samples(50)
    whole = ClassSums.of(x, y, LABELS, w, scatter=True)
    monkeypatch.setattr("finegraph.model.fitting.class_sums._CHUNK", 7)
    _assert_same(ClassSums.of(x, y, LABELS, w, scatter=True), whole)
    _assert_same(whole.remove(x[:30], y[:30], w[:30]), ClassSums.of(x[30:], y[30:], LABELS, w[30:], scatter=True))


def test_covariances_are_those_of_numpy_also_far_from_0():
    x, y, _ = _samples(60, offset=1e5)
    found = ClassSums.of(x, y, LABELS, scatter=True)
    np.testing.assert_allclose(found.total_covariance().numpy(), np.cov(x.numpy().T, bias=True), atol=1e-8)
    rest = x - torch.stack([x[y == label].mean(dim=0) for label in range(LABELS)])[y]
    np.testing.assert_allclose(found.within_covariance().numpy(), (rest.T @ rest / (60 - LABELS)).numpy(), atol=1e-8)
    torch.testing.assert_close(found.mean(), x.mean(dim=0))


def test_misuse_is_refused_in_words():
    x, y, _ = _samples(5)
    found = ClassSums.of(x, y, LABELS)
    with pytest.raises(InputError, match="cannot remove more"):
        found.remove(torch.cat([x, x]), torch.cat([y, y]))
    with pytest.raises(ShapeError, match="expected rows of 5 features"):
        found.add(x[:, :3], y)
    with pytest.raises(InputError, match="made without a scatter matrix"):
        found.total_covariance()
