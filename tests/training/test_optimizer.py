"""The optimizer: its groups, its rates as functions of the step, and its state as named tensors."""

from dataclasses import replace

import pytest
import tiny
import torch

from finegraph.graph import LabelGraph
from finegraph.nn import NetworkDesign, build_network
from finegraph.training.optimizer import load_optimizer, make_optimizer, optimizer_tensors, rate_factor, set_rates
from finegraph.training.recipes import RECIPES

GRAPH = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
SHORT = RECIPES["short"]
SHORT, PAPER = RECIPES["short"], RECIPES["paper"]


@pytest.fixture
def network():
    tiny.register()
    torch.manual_seed(0)
    return build_network(GRAPH, NetworkDesign(network="tiny_auxiliary")).to(memory_format=torch.channels_last)


def group_of(optimizer, parameter):
    (found,) = [group for group in optimizer.param_groups if any(one is parameter for one in group["params"])]
    return found


def take_steps(network, optimizer, count):
    for number in range(count):
        for place, parameter in enumerate(network.parameters()):
            generator = torch.Generator().manual_seed(100 * number + place)
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()


def test_rates_of_backbone_and_heads(network):
    optimizer = make_optimizer(network, replace(SHORT, lr=0.01, new_rate=6.0, scale_rates=True))
    assert group_of(optimizer, network.backbone.first.weight)["lr"] == 0.01
    for head in (network.head, network.auxiliary_heads[0]):
        for parameter in head.parameters():
            assert group_of(optimizer, parameter)["lr"] == pytest.approx(0.03)  # one kind: divided by 2
    optimizer = make_optimizer(network, replace(SHORT, lr=0.01, new_rate=6.0, scale_rates=False))
    assert group_of(optimizer, network.head.coarse.weight)["lr"] == pytest.approx(0.06)


def test_rates_fall_from_layer_to_layer(network):
    optimizer = make_optimizer(network, replace(SHORT, lr=0.01, new_rate=6.0, layer_decay=0.5))
    layers = (network.backbone.second, network.backbone.norm, network.backbone.first)
    for place, layer in enumerate(layers):
        for parameter in layer.parameters():
            assert group_of(optimizer, parameter)["lr"] == pytest.approx(0.01 * 0.5**place)
    assert group_of(optimizer, network.head.fine.weight)["lr"] == pytest.approx(0.03)
    network.backbone.freeze_first(0.4)  # one of three
    optimizer = make_optimizer(network, replace(SHORT, lr=0.01, layer_decay=0.5))
    listed = [one for group in optimizer.param_groups for one in group["params"]]
    assert not any(one is network.backbone.first.weight for one in listed)


def test_every_parameter_is_in_one_group(network):
    optimizer = make_optimizer(network, SHORT)
    listed = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(listed) == sorted(id(parameter) for parameter in network.parameters())


def test_vectors_decay_only_where_asked(network):
    vectors = [network.backbone.norm.weight, network.backbone.first.bias, network.head.fine.bias]
    optimizer = make_optimizer(network, replace(SHORT, weight_decay=0.1, decay_vectors=False))
    assert [group_of(optimizer, one)["weight_decay"] for one in vectors] == [0.0, 0.0, 0.0]
    assert group_of(optimizer, network.head.coarse.weight)["weight_decay"] == 0.1
    optimizer = make_optimizer(network, replace(SHORT, weight_decay=0.1, decay_vectors=True))
    assert [group_of(optimizer, one)["weight_decay"] for one in vectors] == [0.1, 0.1, 0.1]


def test_the_schedule_scales_all_rates(network):
    optimizer = make_optimizer(network, replace(SHORT, lr=0.01, new_rate=6.0))
    assert set_rates(optimizer, 0.5) == pytest.approx(0.015)
    assert set_rates(optimizer, 0.1) == pytest.approx(0.003)  # of the full rate, not of the last one
    assert group_of(optimizer, network.backbone.first.weight)["lr"] == pytest.approx(0.001)


def test_no_momentum_is_no_look_ahead(network):
    optimizer = make_optimizer(network, replace(SHORT, momentum=0.0, nesterov=True))
    take_steps(network, optimizer, 1)
    assert optimizer_tensors(network, optimizer) == {}


@pytest.mark.parametrize(("recipe", "kept"), [("short", ("momentum",)), ("fitted", ("exp_avg", "exp_avg_sq", "step"))])
def test_the_state_goes_into_another_optimizer(network, recipe, kept):
    torch.manual_seed(0)
    twin = build_network(GRAPH, NetworkDesign(network="tiny_auxiliary")).to(memory_format=torch.channels_last)
    numbers = replace(RECIPES[recipe], new_rate=1.0)
    optimizer, other = make_optimizer(network, numbers), make_optimizer(twin, numbers)
    take_steps(network, optimizer, 2)
    saved = {name: tensor.clone() for name, tensor in optimizer_tensors(network, optimizer).items()}
    assert saved.keys() == {f"optimizer.{key}.{name}" for name, _ in network.named_parameters() for key in kept}
    twin.load_state_dict(network.state_dict())
    load_optimizer(twin, other, saved)
    for one, of in ((network, optimizer), (twin, other)):
        take_steps(one, of, 2)
    for (name, one), two in zip(network.named_parameters(), twin.parameters(), strict=True):
        assert torch.equal(one, two), name


def test_a_loaded_state_is_a_copy_in_the_layout_of_the_weights(network):
    optimizer = make_optimizer(network, SHORT)
    saved = {f"optimizer.momentum.{name}": torch.ones_like(one) for name, one in network.named_parameters()}
    saved["optimizer.momentum.backbone.first.weight"] = torch.ones(8, 3, 5, 5)
    load_optimizer(network, optimizer, saved)
    momentum = optimizer.state[network.backbone.first.weight]["momentum_buffer"]
    assert momentum.stride() == network.backbone.first.weight.stride()
    momentum.zero_()
    assert bool(saved["optimizer.momentum.backbone.first.weight"].all())


def factors(recipe, per_epoch):
    return [rate_factor(recipe, step, per_epoch) for step in range(recipe.epochs * per_epoch)]


def test_one_cycle_rises_then_falls():
    rates = factors(replace(SHORT, epochs=10, warmup=0.2), 10)
    assert rates[0] == pytest.approx(1 / 25)
    assert rates[20] == 1.0
    assert rates[10] == pytest.approx((1 + 1 / 25) / 2)
    assert rates[60] == pytest.approx((1 + 1e-4) / 2)
    assert rates[:21] == sorted(rates[:21])
    assert rates[20:] == sorted(rates[20:], reverse=True)
    assert 1e-4 < rates[-1] < 1e-3


def test_one_cycle_without_warmup_starts_at_the_full_rate():
    rates = factors(replace(SHORT, epochs=3, warmup=0.0), 4)
    assert rates[0] == 1.0
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("warmup", [0.0, 0.2, 0.999])
def test_one_cycle_of_a_single_step(warmup):
    (rate,) = factors(replace(SHORT, epochs=1, warmup=warmup), 1)
    assert 0 < rate <= 1


def test_steps_fall_to_a_tenth():
    rates = factors(replace(PAPER, epochs=5, drop_every=2), 3)
    assert rates == pytest.approx([1.0] * 6 + [0.1] * 6 + [0.01] * 3)
