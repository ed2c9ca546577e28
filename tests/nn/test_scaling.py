"""The step between backbone and head."""

import pytest
import torch

from finegraph.errors import InputError
from finegraph.nn.scaling import BlockScaling, FeatureScaling, compress


def scaling(size, seed):
    chance = torch.Generator().manual_seed(seed)
    mean = torch.randn(size, dtype=torch.float64, generator=chance)
    return FeatureScaling.of(mean, torch.randn(size, size, dtype=torch.float64, generator=chance))


@pytest.fixture
def features():
    return torch.randn(6, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(9))


def test_blocks_of_one_size_are_scaled_each_on_its_own(features):
    blocks = [scaling(6, 1), scaling(6, 2)]
    expected = torch.cat([one(part) for one, part in zip(blocks, features.split(6, dim=1), strict=True)], dim=1)
    assert torch.allclose(BlockScaling(blocks)(features), expected)


def test_blocks_of_any_size_get_one_length(features):
    scaled = BlockScaling([scaling(2, 1), scaling(7, 2), scaling(3, 3)])(features)
    lengths = torch.stack([part.norm(dim=1) for part in scaled.split([2, 7, 3], dim=1)])
    assert torch.allclose(lengths, torch.full_like(lengths, 2.0))  # together the root of 12


def test_blocks_take_features_as_they_were_before_a_shift(features):
    blocks = BlockScaling([scaling(5, 1), scaling(7, 2)])
    shift = torch.linspace(-1, 1, 12, dtype=torch.float64)
    assert torch.allclose(blocks.before(shift, 3.0)(3.0 * features + shift), blocks(features))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [3, 1280])
def test_features_equal_to_the_mean_become_0(size, dtype):
    mean = torch.linspace(-1.0, 1.0, size, dtype=dtype)
    matrix = torch.eye(size, dtype=dtype)
    scaled = FeatureScaling.of(mean, matrix)(torch.stack([mean, mean + 1.0]))
    assert torch.equal(scaled[0], torch.zeros(size, dtype=dtype))
    torch.testing.assert_close(scaled[1], torch.ones(size, dtype=dtype))


def test_there_is_at_least_one_block():
    with pytest.raises(InputError, match="at least one block of features"):
        BlockScaling([])


def test_compression_is_a_logarithm_on_both_sides_of_0():
    x = torch.tensor([-3.0, -1e-6, 0.0, 1e-6, 1.0, 3.0], dtype=torch.float64, requires_grad=True)
    y = compress(x, 2.0)
    assert torch.allclose(y.detach()[3:], torch.log(1.0 + 2.0 * x.detach()[3:]) / 2.0)
    assert torch.equal(y.detach(), -compress(-x.detach(), 2.0))
    y.sum().backward()
    assert torch.allclose(x.grad[[0, 5]], torch.full((2,), 1.0 / 7.0, dtype=torch.float64))
    assert bool(torch.isfinite(x.grad).all())


def test_features_are_compressed_before_all_else(features):
    plain = [scaling(5, 1), scaling(7, 2)]
    both = BlockScaling(plain).after([0.5, 2.0])
    parts = zip(plain, features.split([5, 7], dim=1), (0.5, 2.0), strict=True)
    expected = torch.cat([one(compress(part, strength)) for one, part, strength in parts], dim=1)
    lengths = torch.tensor(both.factors, dtype=torch.float64).repeat_interleave(torch.tensor([5, 7]))
    assert torch.allclose(both(features), expected * lengths)
    assert both.compressed
    assert not BlockScaling(plain).after([0.0, 0.0]).compressed
