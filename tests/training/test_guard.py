"""Signals, and where NaN comes from."""

import math
import os
import signal
import threading

import pytest
import tiny
import torch

from finegraph.errors import NonFiniteError
from finegraph.graph import LabelGraph
from finegraph.nn import NetworkDesign, build_network
from finegraph.training import guard
from finegraph.training.guard import check_weights, first_bad_gradient, first_bad_layer, non_finite, stop_request

GRAPH = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})


@pytest.fixture
def network():
    tiny.register()
    torch.manual_seed(0)
    return build_network(GRAPH, NetworkDesign(network="tiny_auxiliary"))


@pytest.fixture
def pixels():
    return torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8, generator=torch.manual_seed(1))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_a_request_and_the_second_stops_at_once(number):
    before = signal.getsignal(number)
    with stop_request() as request:
        assert not request.asked
        os.kill(os.getpid(), number)
        assert request.asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


def test_a_signal_that_is_passed_on_is_still_the_first(monkeypatch):
    now = 100.0
    monkeypatch.setattr(guard, "monotonic", lambda: now)
    with stop_request(patience=2.0) as request:
        os.kill(os.getpid(), signal.SIGINT)
        now = 101.9
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.asked
        now = 102.1
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stop_request() as request:
            os.kill(os.getpid(), signal.SIGINT)
            assert not request.asked
            os.kill(os.getpid(), signal.SIGTERM)
            assert request.asked
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_signals_are_left_alone():
    found = []

    def work():
        with stop_request() as request:
            found.append((request.asked, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, signal.getsignal(signal.SIGINT))]


def test_handlers_come_back_after_an_error():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ZeroDivisionError), stop_request():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("layer", ["backbone.first", "backbone.norm", "backbone.second", "head.fine", "head.coarse"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_first_bad_layer_is_found(network, pixels, layer, value):
    assert first_bad_layer(network, pixels) is None
    network.get_submodule(layer).weight.data.view(-1)[0] = value
    assert first_bad_layer(network, pixels) == layer


def test_a_bad_layer_of_a_branch_for_training_is_found(network, pixels):
    network.auxiliary_heads[0].coarse.bias.data[0] = math.nan
    assert first_bad_layer(network, pixels) == "auxiliary_heads.0.coarse"


def test_looking_for_it_leaves_no_trace(network, pixels):
    network.train()
    network.backbone.second.weight.data.fill_(math.nan)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    first_bad_layer(network, pixels)
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor.nan_to_num(3.0), before[name].nan_to_num(3.0)), name
    assert not any(module._forward_hooks for module in network.modules())


def test_the_bad_gradient_nearest_to_the_loss_is_found(network):
    assert first_bad_gradient(network) is None
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    assert first_bad_gradient(network) is None
    network.backbone.first.weight.grad[0] = math.nan
    assert first_bad_gradient(network) == "backbone.first.weight"
    network.head.fine.weight.grad[0] = math.inf
    assert first_bad_gradient(network) == "head.fine.weight"


def test_the_message_names_every_photo_of_the_step():
    text = str(non_finite(7, "the loss", "head.fine", [f"{number}.jpg" for number in range(12)]))
    assert text.startswith(
        "step 7: the loss became NaN or infinite, first in head.fine. Nothing of this step was saved"
    )
    assert text.endswith("The photos: " + ", ".join(f"{number}.jpg" for number in range(12)))
    assert "photos" not in str(non_finite(7, "the loss", None, []))


@pytest.mark.parametrize("name", ["backbone.norm.running_var", "head.coarse.weight"])
def test_weights_and_statistics_are_checked(network, name):
    check_weights(network, 3, [])
    network.state_dict()[name].view(-1)[0] = math.inf
    with pytest.raises(NonFiniteError, match=rf"step 3: the weight {name} became NaN or infinite.*The photos: a\.jpg"):
        check_weights(network, 3, ["a.jpg"])
