"""Likelihoods of other parents against the plain conditional normal distribution, one matrix for each."""

import pytest
import torch

from finegraph.errors import InputError
from finegraph.model.fitting.class_means import Variances
from finegraph.model.structure import left_out_means
from finegraph.model.structure.left_out_means import LeftOutMeans

SIZES, VARIANCES = [3, 2], Variances(own=0.3, kinds={"a": 0.5, "b": 0.2}, noise=0.7)


def random_problem(fine=7, features=5):
    generator = torch.Generator().manual_seed(0)
    counts = torch.tensor([1.0, 2, 0, 3, 1, 5, 2], dtype=torch.float64)[:fine]
    means = torch.randn(fine, features, generator=generator, dtype=torch.float64)
    weights = torch.softmax(2 * torch.randn(fine, 3, generator=generator, dtype=torch.float64), dim=1)
    told = torch.eye(2, dtype=torch.float64)[torch.randint(2, (fine,), generator=generator)]
    return counts, means, torch.cat([weights, told], dim=1)


def by_conditioning(counts, means, rows):
    """log N(x_i | x of the others) for every other parent, from the joint covariance of all class means."""
    seen, features = counts > 0, means.shape[1]
    shown = means - means[seen].mean(dim=0)
    free = 10 * float(shown[seen].square().sum(dim=1).mean()) / features
    prior = torch.tensor([free, 0.5, 0.5, 0.5, 0.2, 0.2], dtype=torch.float64)
    found = torch.zeros_like(rows)
    for fine in seen.nonzero()[:, 0].tolist():
        others = [other for other in seen.nonzero()[:, 0].tolist() if other != fine]
        for label in range(5):
            own = rows.clone()
            part, place = (slice(0, 3), label) if label < 3 else (slice(3, 5), label - 3)
            own[fine, part] = torch.eye(part.stop - part.start, dtype=torch.float64)[place]
            loose = 0.5 * (1 - own[:, :3].square().sum(dim=1)) + 0.2 * (1 - own[:, 3:].square().sum(dim=1))
            links = torch.cat([torch.ones(len(own), 1, dtype=torch.float64), own], dim=1)
            noise = torch.where(seen, 0.7 / counts.clamp_min(0.1), 0.0)
            covariance = (links * prior) @ links.t() + torch.diag(0.3 + loose + noise)
            inverse = torch.linalg.inv(covariance[others][:, others])
            mean = covariance[fine, others] @ inverse @ shown[others]
            variance = covariance[fine, fine] - covariance[fine, others] @ inverse @ covariance[others, fine]
            squares = (shown[fine] - mean).square().sum()
            found[fine, label] = -0.5 * (features * variance.log() + squares / variance)
    return found


def test_likelihoods_are_those_of_the_joint_distribution():
    counts, means, rows = random_problem()
    found = LeftOutMeans(counts, means, VARIANCES, SIZES).log_likelihoods(rows)
    torch.testing.assert_close(found, by_conditioning(counts, means, rows), rtol=1e-7, atol=1e-7)


def test_a_fine_label_without_photos_says_nothing():
    counts, means, rows = random_problem()
    found = LeftOutMeans(counts, means, VARIANCES, SIZES).log_likelihoods(rows)
    assert found[2].tolist() == [0.0] * 5
    changed = means.clone()
    changed[2] = 1e6
    torch.testing.assert_close(LeftOutMeans(counts, changed, VARIANCES, SIZES).log_likelihoods(rows), found)


def test_a_kind_that_tells_nothing_prefers_no_label():
    counts, means, rows = random_problem()
    found = LeftOutMeans(counts, means, Variances(own=0.3, kinds={"a": 0.0, "b": 0.2}, noise=0.7), SIZES)
    likelihoods = found.log_likelihoods(rows)[:, :3]
    torch.testing.assert_close(likelihoods, likelihoods[:, :1].expand(-1, 3), rtol=1e-9, atol=1e-9)


def test_too_large_graphs_are_refused_in_words(monkeypatch):
    monkeypatch.setattr(left_out_means, "MAX_NUMBERS", 20)
    counts, means, _ = random_problem()
    with pytest.raises(InputError, match="too large to learn from photos: expected at most 4 fine labels"):
        LeftOutMeans(counts, means, VARIANCES, SIZES)
