"""Architectures: parameters, names, shapes, modes."""

import copy

import pytest
import torch
from torch import nn

from finegraph.errors import InputError, ShapeError
from finegraph.nn.backbones import BACKBONES, build_backbone
from finegraph.nn.backbones.efficientnet_lite import SameConvolution

CLASSES = 1000
# With a last layer of 1000 ImageNet classes, as published.
PARAMETERS = {
    "alexnet": 61_100_840,
    "vgg16": 138_357_544,
    "googlenet": 13_004_888,
    "efficientnet_lite0": 4_652_008,
    "efficientnet_lite1": 5_416_680,
    "efficientnet_lite2": 6_092_072,
}
FEATURES = {"alexnet": 4096, "vgg16": 4096, "googlenet": 1024}


def on_meta(name, **options):
    """The network without memory for its parameters."""
    with torch.device("meta"):
        return build_backbone(name, **options)


def apart(features, expected):
    """The largest difference, as a part of the largest feature."""
    return ((features - expected).abs().max() / expected.abs().max()).item()


def with_last_layers(network):
    sizes = [network.feature_size, *network.auxiliary_sizes]
    own = sum(parameter.numel() for parameter in network.parameters())
    return own + sum((size + 1) * CLASSES for size in sizes)


def test_every_network_is_tested():
    assert set(PARAMETERS) == set(BACKBONES)


@pytest.mark.parametrize("name", BACKBONES)
def test_has_the_published_number_of_parameters(name):
    assert with_last_layers(on_meta(name)) == PARAMETERS[name]


def test_googlenet_without_auxiliary_branches():
    network = on_meta("googlenet", auxiliary=False)
    assert with_last_layers(network) == 6_624_904
    assert network.auxiliary_sizes == ()


def vgg_names():
    """Convolutions are at these places of torchvision's list, ReLU and pooling between them."""
    convolutions = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)
    layers = [f"features.{place}" for place in convolutions] + ["classifier.0", "classifier.3"]
    return [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")]


def googlenet_names():
    blocks = [f"inception{block}" for block in ("3a", "3b", "4a", "4b", "4c", "4d", "4e", "5a", "5b")]
    branches = ("branch1", "branch2.0", "branch2.1", "branch3.0", "branch3.1", "branch4.1")
    layers = ["conv1", "conv2", "conv3", *(f"{block}.{branch}" for block in blocks for branch in branches)]
    layers += ["aux1.conv", "aux2.conv"]
    parts = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    names = [name for layer in layers for name in (f"{layer}.conv.weight", *(f"{layer}.bn.{part}" for part in parts))]
    return names + [f"aux{branch}.fc1.{part}" for branch in (1, 2) for part in ("weight", "bias")]


def test_alexnet_has_the_names_of_torchvision():
    layers = [f"features.{place}" for place in (0, 3, 6, 8, 10)] + ["classifier.1", "classifier.4"]
    names = [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")]
    assert list(on_meta("alexnet").state_dict()) == names


def test_vgg16_has_the_names_of_torchvision():
    names = list(on_meta("vgg16").state_dict())
    assert names == vgg_names()
    assert len(names) == 30


def test_googlenet_has_the_names_of_torchvision():
    names = list(on_meta("googlenet").state_dict())
    assert sorted(names) == sorted(googlenet_names())
    assert len(names) == 358


@pytest.mark.deep
@pytest.mark.parametrize("name", BACKBONES)
def test_gives_one_feature_vector_per_image(name):
    network = on_meta(name, auxiliary=False)
    if name == "googlenet":  # keeps its input transform on the CPU until it is moved
        network = network.to("meta")
    features = network(torch.empty(3, 3, 64, 97, device="meta"))
    assert features.shape == (3, network.feature_size)
    assert network.feature_size == FEATURES.get(name, 1280)


@pytest.mark.parametrize(
    ("name", "size", "resize"),
    [
        ("efficientnet_lite0", 224, 256),
        ("efficientnet_lite1", 240, 272),
        ("efficientnet_lite2", 260, 292),
        ("googlenet", 224, 256),
    ],
)
def test_knows_its_preprocessing(name, size, resize):
    preprocessing = on_meta(name).preprocessing
    assert (preprocessing.size, preprocessing.resize) == (size, resize)


@pytest.fixture(scope="module")
def googlenet():
    torch.manual_seed(0)
    return build_backbone("googlenet")


@pytest.fixture
def images():
    return torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))


def test_googlenet_gives_auxiliary_features_in_training(googlenet, images):
    googlenet.train()
    assert googlenet.auxiliary_sizes == (1024, 1024)
    features, auxiliary = googlenet.forward_with_auxiliary(images)
    assert features.shape == (2, 1024)
    assert [tuple(part.shape) for part in auxiliary] == [(2, 1024), (2, 1024)]
    (features.sum() + sum(part.sum() for part in auxiliary)).backward()
    assert all(parameter.grad is not None for parameter in googlenet.parameters())
    googlenet.zero_grad()


def test_auxiliary_features_do_not_change_the_features(googlenet, images):
    googlenet.eval()
    with torch.no_grad():
        features, auxiliary = googlenet.forward_with_auxiliary(images)
        assert torch.equal(features, googlenet(images))
    assert not torch.equal(*auxiliary)


def test_networks_without_auxiliary_branches_give_none(images):
    network = build_backbone("efficientnet_lite0").eval()
    features, auxiliary = network.forward_with_auxiliary(images)
    assert auxiliary == ()
    assert torch.equal(features, network(images))


def test_googlenet_turns_imagenet_normalisation_into_minus_one_to_one(googlenet):
    googlenet.eval()
    pixels = torch.randint(0, 256, (1, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    bare = copy.deepcopy(googlenet)
    bare.scale.fill_(1)
    bare.shift.zero_()
    with torch.no_grad():
        expected = bare(pixels / 127.5 - 1)
        got = googlenet(googlenet.preprocessing.normalise(pixels))
        wrong = bare(googlenet.preprocessing.normalise(pixels))
    assert apart(got, expected) < 1e-5
    assert apart(wrong, expected) > 1e-2


@pytest.mark.parametrize(("side", "kernel"), [(8, 3), (9, 3), (8, 5), (9, 5)])
def test_strided_convolutions_pad_as_tensorflow_does(side, kernel):
    """The last window may reach over the end by one pixel more than the first over the start."""
    layer = SameConvolution(1, 1, kernel, stride=2)
    x = torch.randn(1, 1, side, side + 1)
    with torch.no_grad():
        got = layer(x)
        height, width = -(-side // 2), -(-(side + 1) // 2)
        over = [(count - 1) * 2 + kernel - length for count, length in ((height, side), (width, side + 1))]
        wide = torch.zeros(side + 20, side + 21)
        wide[10 : 10 + side, 10 : 11 + side] = x[0, 0]
        for row in range(height):
            for column in range(width):
                top, left = 10 + 2 * row - over[0] // 2, 10 + 2 * column - over[1] // 2
                window = wide[top : top + kernel, left : left + kernel]
                assert torch.allclose(got[0, 0, row, column], (window * layer.weight[0, 0]).sum(), atol=1e-5)
    assert got.shape == (1, 1, height, width)


@pytest.mark.parametrize("name", ["efficientnet_lite0", "googlenet"])
def test_evaluation_is_deterministic_and_training_is_not(name, images):
    network = build_backbone(name)
    with torch.no_grad():
        assert not torch.equal(network(images), network(images))
        network.eval()
        assert torch.equal(network(images), network(images))
        # In evaluation a photo's features do not depend on the rest of the batch.
        assert apart(network(images)[:1], network(images[:1])) < 1e-5


def test_dropout_is_a_choice(images):
    network = build_backbone("efficientnet_lite0", dropout=0.0).fix_statistics().train()
    with torch.no_grad():
        assert torch.equal(network(images), network(images))
    rates = {module.p for module in on_meta("googlenet", dropout=0.4).modules() if isinstance(module, nn.Dropout)}
    assert rates == {0.4}
    with pytest.raises(InputError, match=r"dropout: expected a rate of at least 0 and below 1, got 1\.5"):
        build_backbone("efficientnet_lite0", dropout=1.5)


def test_fixed_statistics_stay_while_weights_train(images):
    network = build_backbone("efficientnet_lite0").fix_statistics().train()
    before = network._bn0.running_mean.clone()
    network(images).sum().backward()
    assert network.training
    assert network._dropout.training
    assert torch.equal(network._bn0.running_mean, before)
    assert network._bn0.weight.grad is not None


def test_a_frozen_network_stays_in_evaluation(images):
    network = build_backbone("efficientnet_lite0").freeze()
    model = nn.Sequential(network, nn.Linear(1280, 2)).train()
    model(images).sum().backward()
    assert not network.training
    assert all(parameter.grad is None for parameter in network.parameters())
    network.unfreeze().train()
    assert network.training
    assert network(images).requires_grad


@pytest.mark.parametrize("name", ["efficientnet_lite0", "efficientnet_lite0+efficientnet_lite1"])
def test_the_first_layers_can_stay_as_they_are(name, images):
    network = build_backbone(name).train()
    for part in network.parts:
        assert part.layers[0] is part._conv_stem  # the layer that sees the photo
        assert part.layers[-1] is part._bn1
        assert {id(one) for layer in part.layers for one in layer.parameters()} == {
            id(one) for one in part.parameters()
        }
    network.freeze_first(0.3).train()
    before = [layer.running_mean.clone() for part in network.parts for layer in (part._bn0, part._bn1)]
    network(images).sum().backward()
    for part in network.parts:
        count = round(0.3 * len(part.layers))
        for place, layer in enumerate(part.layers):
            assert all((one.grad is None) == (place < count) for one in layer.parameters()), place
    after = [layer.running_mean for part in network.parts for layer in (part._bn0, part._bn1)]
    moved = [not torch.equal(one, two) for one, two in zip(before, after, strict=True)]
    assert moved == [False, True] * len(network.parts)  # the statistics of frozen layers stay too
    whole = build_backbone("efficientnet_lite0").freeze_first(0.0)
    assert all(one.requires_grad for one in whole.parameters())


@pytest.mark.parametrize("name", ["efficientnet_lite0", "googlenet"])
def test_channels_last_gives_the_same_features(name, images):
    network = build_backbone(name).eval()
    with torch.no_grad():
        expected = network(images)
        network = network.to(memory_format=torch.channels_last)
        got = network(images.contiguous(memory_format=torch.channels_last))
    assert apart(got, expected) < 1e-5


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(3, 64, 64), (1, 1, 64, 64), (1, 3, 31, 64), (1, 3, 64, 31)])
def test_wrong_shapes_are_refused(googlenet, shape):
    with pytest.raises(ShapeError, match=r"expected shape \(batch, 3, height, width\) .* at least 32, got \("):
        googlenet(torch.zeros(shape))


@pytest.mark.usefixtures("unchecked")
def test_pixels_must_be_normalised_first(googlenet):
    with pytest.raises(InputError, match=r"expected normalised floating-point numbers, got torch\.uint8"):
        googlenet(torch.zeros(1, 3, 64, 64, dtype=torch.uint8))


def test_alexnet_says_what_it_can_take():
    with pytest.raises(ShapeError, match="at least 63"):
        on_meta("alexnet")(torch.zeros(1, 3, 62, 80, device="meta"))
    assert on_meta("alexnet")(torch.zeros(1, 3, 63, 63, device="meta")).shape == (1, 4096)
