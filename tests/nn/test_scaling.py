"""The step between backbone and head."""

import pytest
import torch

from finegraph.errors import InputError
from finegraph.nn.scaling import BlockScaling, FeatureScaling


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


def test_there_is_at_least_one_block():
    with pytest.raises(InputError, match="at least one block of features"):
        BlockScaling([])
