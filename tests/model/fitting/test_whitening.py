"""Axes of features against the covariance written out."""

from __future__ import annotations

import pytest
import torch

from finegraph.model.fitting.whitening import axes_of, block_axes_of
from finegraph.nn.scaling import FeatureScaling


def _draw(samples: int, features: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(features, features, generator=generator, dtype=torch.float64)
    x = torch.randn(samples, features, generator=generator, dtype=torch.float64) @ mixing + 3.0
    return x, torch.arange(samples) % 4, torch.ones(samples, dtype=torch.float64)


@pytest.mark.parametrize("samples", [9, 60], ids=["fewer samples than features", "more"])
@pytest.mark.parametrize("covariance", ["within", "total"])
def test_white_features_are_those_of_the_shrunk_covariance(samples, covariance):
    x, targets, weight = _draw(samples, 12)
    axes = axes_of(x, targets, weight, covariance)
    rest = x - x.mean(dim=0)
    if covariance == "within":
        for label in range(4):
            rest[targets == label] = x[targets == label] - x[targets == label].mean(dim=0)
    scatter = rest.t() @ rest / (samples - 4 if covariance == "within" else samples)
    shrunk = scatter + 0.3 * scatter.diagonal().mean() * torch.eye(12, dtype=torch.float64)
    others = _draw(5, 12, seed=1)[0]
    centred = others - x.mean(dim=0)
    products = centred @ torch.linalg.inv(shrunk) @ centred.t()
    lengths = products.diagonal().sqrt()
    expected = 12 * products / lengths[:, None] / lengths
    scaled = axes.scaling(0.3)(others)
    torch.testing.assert_close(scaled @ scaled.t(), expected)
    white = axes.white(axes.coordinates(others), 0.3)
    torch.testing.assert_close(scaled @ axes.axes, white)


def test_weights_count_as_copies():
    x, targets, _ = _draw(30, 6)
    weight = 1.0 + torch.arange(30, dtype=torch.float64) % 3
    copies = torch.repeat_interleave(torch.arange(30), weight.long())
    one = axes_of(x, targets, weight, "within")
    other = axes_of(x[copies], targets[copies], torch.ones(len(copies), dtype=torch.float64), "within")
    torch.testing.assert_close(one.values, other.values)
    torch.testing.assert_close(one.mean, other.mean)


def test_features_that_never_change_stay_finite():
    x, targets, weight = torch.full((8, 5), 2.0), torch.arange(8) % 4, torch.ones(8, dtype=torch.float64)
    axes = axes_of(x, targets, weight, "within")
    assert not axes.scaling(1.0)(x.double()).any()
    assert not axes.white(axes.coordinates(x), 1.0).any()


@pytest.mark.parametrize("samples", [9, 60], ids=["fewer samples than features", "more"])
def test_blocks_are_whitened_each_on_its_own_and_count_alike(samples):
    x, targets, weight = _draw(samples, 16)
    axes = block_axes_of(x, targets, weight, "within", [12, 4])
    others = _draw(5, 16, seed=1)[0]
    scaled = axes.scaling(0.3)(others)
    for own, block, found in zip(others.split([12, 4], 1), x.split([12, 4], 1), scaled.split([12, 4], 1), strict=True):
        alone = axes_of(block, targets, weight, "within").scaling(0.3)(own)
        torch.testing.assert_close(found, alone * (8.0 / block.shape[1]) ** 0.5)
    white = axes.white(axes.coordinates(others), 0.3)
    torch.testing.assert_close(scaled @ axes.to_features(white).t(), white @ white.t())


def test_one_block_is_no_block():
    x, targets, weight = _draw(30, 6)
    one, other = block_axes_of(x, targets, weight, "total", [6]), axes_of(x, targets, weight, "total")
    torch.testing.assert_close(one.white(one.coordinates(x), 1.0), other.white(other.coordinates(x), 1.0))
    assert isinstance(one.scaling(1.0), FeatureScaling)
