"""Backbones and a head together: shapes, parts, and rates."""

import dataclasses

import pytest
import torch

from finegraph.errors import InputError, UnknownNameError
from finegraph.graph import LabelGraph
from finegraph.nn import BipartiteHead, NetworkDesign, SoftmaxHead, build_network

GRAPH = LabelGraph.from_table(
    {"a": {"dish": "x", "egg": True}, "b": {"dish": "x", "egg": False}, "c": {"dish": "y", "egg": True}}
)


@pytest.fixture(scope="module")
def lite():
    torch.manual_seed(0)
    return build_network(GRAPH, weights="default").eval()


@pytest.fixture(scope="module")
def two():
    torch.manual_seed(0)
    design = NetworkDesign(network="googlenet", coarse_network="efficientnet_lite0")
    return build_network(GRAPH, design).eval()


def pixels(size=64, batch=2):
    return torch.randint(0, 256, (batch, 3, size, size), dtype=torch.uint8, generator=torch.manual_seed(1))


def test_it_takes_pixels_and_answers_with_a_posterior(lite):
    posterior = lite(pixels())
    assert posterior.graph is lite.graph is GRAPH
    assert posterior.log_probs("dish").shape == (2, 2)
    features, coarse = lite.features(pixels())
    assert coarse is None
    assert features.shape == (2, 1280)
    torch.testing.assert_close(lite.of_features(features).log_probs(), posterior.log_probs())
    normal = lite.backbone.preprocessing.normalise(pixels())
    torch.testing.assert_close(lite.backbone(normal), features)


def test_pixels_count(lite):
    assert not torch.allclose(lite(pixels()).log_probs(), lite(255 - pixels()).log_probs(), atol=1e-6)


def test_two_networks_of_different_architectures(two):
    features, coarse = two.features(pixels(96))
    assert (features.shape, coarse.shape) == ((2, 1024), (2, 1280))
    posterior = two.of_features(features, coarse)
    torch.testing.assert_close(posterior.log_probs(), two(pixels(96)).log_probs())
    own = two.coarse_backbone.preprocessing.normalise(pixels(96))
    torch.testing.assert_close(two.coarse_backbone(own), coarse)
    with pytest.raises(InputError, match="needs coarse features too"):
        two.of_features(features)


@pytest.mark.deep
def test_auxiliary_heads_exist_for_training_alone(two):
    assert [head.features for head in two.auxiliary_heads] == [1024, 1024]
    assert all(isinstance(head, BipartiteHead) and head.coarse_features is None for head in two.auxiliary_heads)
    assert two.auxiliary_weight == 0.3
    posterior, auxiliary = two.forward_with_auxiliary(pixels(96))
    torch.testing.assert_close(posterior.log_probs(), two(pixels(96)).log_probs())
    assert [one.log_probs().shape for one in auxiliary] == [(2, 3), (2, 3)]
    bare = build_network(GRAPH, NetworkDesign(network="googlenet", head="softmax"), auxiliary=False)
    assert len(bare.auxiliary_heads) == 0
    assert bare.eval().forward_with_auxiliary(pixels(96))[1] == ()


def test_a_softmax_head_has_softmax_branches():
    network = build_network(GRAPH, NetworkDesign(network="googlenet", head="softmax"))
    assert isinstance(network.head, SoftmaxHead)
    assert all(isinstance(head, SoftmaxHead) for head in network.auxiliary_heads)


def test_the_precision_of_the_weights_is_that_of_the_answers():
    network = build_network(GRAPH).eval().double()
    assert network.features(pixels())[0].dtype == torch.float64
    assert network(pixels()).log_probs().dtype == torch.float64


@pytest.mark.parametrize("scaled", [True, False])
def test_rates_of_all_parts(two, scaled):
    groups = two.parameter_groups(0.01, 5.0, scaled=scaled)
    rate = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
    assert len(rate) == sum(len(group["params"]) for group in groups) == len(list(two.parameters()))
    for part in (two.backbone, two.coarse_backbone):
        assert {rate[id(parameter)] for parameter in part.parameters()} == {0.01}
    for head in (two.head, *two.auxiliary_heads):
        for parameter in head.parameters():
            assert rate[id(parameter)] == pytest.approx(0.05 / 3 if scaled else 0.05)


def test_a_frozen_backbone_has_no_rate():
    network = build_network(GRAPH)
    network.backbone.freeze()
    groups = network.parameter_groups(0.01, 5.0)
    assert {id(one) for group in groups for one in group["params"]} == {id(one) for one in network.head.parameters()}


def test_designs():
    design = NetworkDesign(network="alexnet", coarse_network="vgg16")
    assert NetworkDesign.from_dict(dataclasses.asdict(design)) == design
    assert NetworkDesign.from_dict({}) == NetworkDesign()
    with pytest.raises(UnknownNameError, match="unknown head 'softmaks'; did you mean 'softmax'"):
        NetworkDesign(head="softmaks")
    with pytest.raises(UnknownNameError, match="unknown setting 'networks' of the network; did you mean 'network'"):
        NetworkDesign.from_dict({"networks": "alexnet"})
    with pytest.raises(InputError, match="no use for the coarse network 'vgg16'"):
        NetworkDesign(head="softmax", coarse_network="vgg16")


def test_weights_go_from_one_network_to_its_twin(lite):
    torch.manual_seed(7)
    twin = build_network(GRAPH, lite.design).eval()
    assert not torch.equal(twin(pixels()).log_probs(), lite(pixels()).log_probs())
    twin.load_state_dict(lite.state_dict())
    assert torch.equal(twin(pixels()).log_probs(), lite(pixels()).log_probs())
