"""The promises about interruptions and NaN, many times over: 200 random stops, 300 injections."""

import math
import os
import random
import signal
from contextlib import suppress

import pytest
import tiny
import torch

from finegraph.errors import NonFiniteError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked")]

STEPS, PER_EPOCH = 12, 4
SETTINGS = {"batch_size": 4, "epochs": 3, "checkpoint_minutes": 0.0}


class Crash(Exception):
    """Stands for whatever ends a process."""


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"), per_class=3, val=1)


@pytest.fixture(scope="module")
def unbroken(photos, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "unbroken"
    tiny.tune(photos, path, **SETTINGS)
    return tiny.last(path).tensors, tiny.metrics(path)


def interrupting(step, crash):
    def on_step(done):
        if done == step:
            if crash:
                raise Crash
            os.kill(os.getpid(), signal.SIGTERM)

    return tiny.Watcher(on_step)


@pytest.mark.parametrize("part", range(10))
def test_twenty_random_stops_change_nothing(photos, unbroken, tmp_path, part):
    chance = random.Random(part)
    stops = 0
    while stops < 20:
        path, resume = tmp_path / f"run {stops}", False
        for step in sorted(chance.sample(range(1, STEPS + 1), chance.randint(1, 4))):
            watcher, workers = interrupting(step, chance.random() < 0.5), chance.randint(1, 3)
            with suppress(Crash):
                tiny.tune(photos, path, resume=resume, watcher=watcher, workers=workers, **SETTINGS)
            resume, stops = True, stops + 1
        tiny.tune(photos, path, resume=True, **SETTINGS)
        tensors, metrics = unbroken
        found = tiny.last(path).tensors
        assert found.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert torch.equal(found[name], tensor), (name, part, stops)
        assert tiny.metrics(path) == metrics


def injection(chance):
    """Something that puts NaN or infinity into a network in a random step: the step, the layer, the place, the act."""
    step, value = chance.randint(1, STEPS), chance.choice([math.nan, math.inf])
    layer = chance.choice(["backbone.first", "backbone.norm", "backbone.second", "head.fine", "head.coarse"])
    where = chance.choice(["weight", "bias", "output", "gradient"])
    calls = []

    def alter(network):
        module = network.get_submodule(layer)

        def act(*_):
            calls.extend([None] if network.training else [])
            if len(calls) != step:
                return
            if where == "output":
                module.register_forward_hook(lambda module, inputs, output: output + value)
            elif where == "gradient":
                module.weight.register_hook(lambda gradient: gradient * value)
            else:
                tensor = getattr(module, where).data
                tensor[tuple(chance.randrange(size) for size in tensor.shape)] = value

        network.backbone.first.register_forward_pre_hook(act)

    return step, layer, where, alter


@pytest.mark.parametrize("part", range(10))
def test_thirty_injections_are_named_and_never_saved(photos, tmp_path, part):
    chance = random.Random(1000 + part)
    for number in range(30):
        step, layer, where, alter = injection(chance)
        path = tmp_path / f"run {number}"
        what = "a gradient" if where == "gradient" else r"(the loss|a gradient|the weight \S+)"
        with pytest.raises(NonFiniteError, match=rf"^step {step}: {what} became NaN .*{layer}.* The photos: \S*\.png"):
            tiny.tune(photos, path, alter=alter, **SETTINGS)
        kept = tiny.last(path)
        assert (kept is None) == (step == 1)
        if kept is not None:
            assert kept.step == step - 1
            assert all(bool(tensor.isfinite().all()) for tensor in kept.tensors.values())
