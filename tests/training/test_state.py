"""What a checkpoint of a run holds, and what may not have changed when it goes on."""

from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch

from finegraph.data.samples import Box, Sample, Samples
from finegraph.errors import CheckpointError, SettingsError
from finegraph.graph import LabelGraph
from finegraph.nn import NetworkDesign, build_network
from finegraph.training.checkpoints.run_state import RunProgress, capture, data_digest, load_network, restore
from finegraph.training.optimizer import make_optimizer, optimizer_tensors
from finegraph.training.recipes import RECIPES

GRAPH = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "y"}})
TRAIN = Samples([Sample(Path("one/two/a/1.jpg"), "a", kinds={"dish": "x"}), Sample(Path("one/two/b/1.jpg"), "b")])
VAL = Samples([Sample(Path("one/two/a/2.jpg"), "a")])


@pytest.fixture
def network():
    tiny.register()
    torch.manual_seed(0)
    return build_network(GRAPH, NetworkDesign(network="tiny"))


def changed_sample(**change):
    return Samples([replace(TRAIN[0], **change), TRAIN[1]])


def test_photos_may_move_but_not_change():
    digest = data_digest(TRAIN, VAL, GRAPH)
    moved = Samples([replace(sample, path=Path("/elsewhere") / sample.path.relative_to("one")) for sample in TRAIN])
    assert data_digest(moved, VAL, GRAPH) == digest
    for other in (
        changed_sample(path=Path("one/two/a/3.jpg")),
        changed_sample(label="b"),
        changed_sample(label=None),
        changed_sample(box=Box(0, 0, 5, 5)),
        changed_sample(kinds={"dish": "y"}),
        TRAIN[:1],
    ):
        found = data_digest(other, VAL, GRAPH)
        assert [name for name in digest if found[name] != digest[name]] == ["the list of photos to train on"]
    assert (
        data_digest(TRAIN, None, GRAPH)["the list of photos to validate on"]
        != digest["the list of photos to validate on"]
    )


def take_a_step(network):
    optimizer = make_optimizer(network, RECIPES["short"])
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return optimizer


def test_all_comes_back(network):
    optimizer = take_a_step(network)
    network.backbone.norm.running_mean.fill_(0.5)
    progress = RunProgress(step=7, epochs=2, loss_sum=1.25, best_epoch=1, best_figures={"top1": 0.5}, bad_files=["x"])
    tensors, state = capture(network, optimizer, progress, data_digest(TRAIN, VAL, GRAPH))
    torch.manual_seed(5)
    other = build_network(GRAPH, NetworkDesign(network="tiny"))
    fresh = make_optimizer(other, RECIPES["short"])
    assert restore(other, fresh, tensors, state, data_digest(TRAIN, VAL, GRAPH)) == progress
    for name, tensor in network.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor), name
    before, after = optimizer_tensors(network, optimizer), optimizer_tensors(other, fresh)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_what_changed_is_named(network):
    optimizer = take_a_step(network)
    tensors, state = capture(network, optimizer, RunProgress(), data_digest(TRAIN, VAL, GRAPH))
    other_graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}})
    with pytest.raises(SettingsError, match="data: the graph changed since this run began"):
        restore(network, optimizer, tensors, state, data_digest(TRAIN, VAL, other_graph))
    with pytest.raises(
        SettingsError, match="the list of photos to train on and the list of photos to validate on changed"
    ):
        restore(network, optimizer, tensors, state, data_digest(VAL, TRAIN, GRAPH))


def test_checkpoints_of_something_else(network):
    optimizer, data = make_optimizer(network, RECIPES["short"]), data_digest(TRAIN, VAL, GRAPH)
    tensors, state = capture(network, optimizer, RunProgress(), data)
    with pytest.raises(CheckpointError, match=r"not one of this version of training: .*'wind'"):
        restore(network, optimizer, tensors, {**state, "progress": {"wind": 3}}, data)
    with pytest.raises(CheckpointError, match="not one of this version"):
        restore(network, optimizer, tensors, {}, data)
    less = {name: tensor for name, tensor in tensors.items() if "norm.weight" not in name}
    with pytest.raises(CheckpointError, match=r"another network: backbone.norm.weight has no weights .* \(8,\) here$"):
        load_network(network, less, state)
    more = {**tensors, "network.head.fine.bias": torch.zeros(5), "network.odd": torch.zeros(2)}
    with pytest.raises(CheckpointError, match=r"head.fine.bias has shape \(5,\) there .* here, and 1 more differ$"):
        load_network(network, more, state)
