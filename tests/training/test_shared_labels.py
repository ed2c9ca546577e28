"""Training with the labels of the head sharded, in one process; `test_typed_shards.py` has several."""

import math

import numpy as np
import pytest
import tiny
import torch

import finegraph as fg
from finegraph.errors import DataError, InputError, NonFiniteError, SettingsError, ShapeError
from finegraph.graph.label_shards import label_shard
from finegraph.nn import BipartiteHead, Network, NetworkDesign
from finegraph.nn.sharded_head import ShardedHead
from finegraph.training.checkpoints.shard_files import ShardFolder
from finegraph.training.distributed import Ranks
from finegraph.training.settings import TrainSettings, check_settings_used
from finegraph.workflows.training.shared_labels import check_shared
from finegraph.workflows.training.training_data import make_network
from finegraph.workflows.training.validation import Tally

ALIKE = {"precision": "float64", "laplacian": 0.02, "label_smoothing": 0.1, "epochs": 2}
"""The loss is computed otherwise than that of a whole head: in float64 metrics agree to 1e-9, weights to 1e-7."""


def shards(path, manifest):
    """The checkpoints of a run, with all rows."""
    graph = fg.LabelGraph.read(manifest.parent / "graph.csv")
    return ShardFolder(path / "checkpoints", graph, label_shard(graph, 0, 1), Ranks())


@pytest.fixture(scope="module")
def gaps(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("gaps"), gaps=True)


FITTED = {"recipe": "fitted", "precision": "float64", "lr": 0.001, "epochs": 2}
TWO = {"coarse_network": "tiny_narrow", "coarse_weights": "none", "laplacian": 0.0}


@pytest.mark.deep
@pytest.mark.parametrize(
    "changes",
    [ALIKE, FITTED, ALIKE | TWO, ALIKE | TWO | {"coarse_network": "tiny", "laplacian": 0.02}, FITTED | TWO],
    ids=["short", "fitted", "two networks", "two alike", "fitted two networks"],
)
def test_it_learns_what_a_whole_head_does(gaps, tmp_path, changes, monkeypatch):
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path / "cache"))
    one = tiny.tune(gaps, tmp_path / "one", **changes)
    two = tiny.tune(gaps, tmp_path / "two", shard_labels=True, **changes)
    assert isinstance(two.network.head, BipartiteHead)
    assert two.metrics == pytest.approx(one.metrics, rel=1e-9)
    assert two.watcher.losses == pytest.approx(one.watcher.losses, rel=1e-9)
    assert tiny.metrics(tmp_path / "two") == [pytest.approx(row, rel=1e-9) for row in tiny.metrics(tmp_path / "one")]
    for name, tensor in one.network.state_dict().items():
        torch.testing.assert_close(two.network.state_dict()[name], tensor, rtol=1e-7, atol=1e-9, msg=name)


@pytest.mark.deep
def test_two_networks_go_on_exactly(manifest, tmp_path):
    tiny.tune(manifest, tmp_path / "unbroken", shard_labels=True, **TWO)
    assert tiny.tune(manifest, tmp_path / "run", watcher=tiny.asks_at(7), shard_labels=True, **TWO).metrics is None
    assert tiny.tune(manifest, tmp_path / "run", resume=True, shard_labels=True, **TWO).metrics is not None
    found, expected = (shards(tmp_path / name, manifest).last() for name in ("run", "unbroken"))
    assert found.tensors.keys() == expected.tensors.keys()
    assert all(torch.equal(values, expected.tensors[name]) for name, values in found.tensors.items())
    assert tiny.metrics(tmp_path / "run") == tiny.metrics(tmp_path / "unbroken") != []


def test_the_prior_of_features_of_two_sizes_is_refused_before_training(manifest, tmp_path):
    with pytest.raises(ShapeError, match="so both need the same features; got 12 and 7"):
        tiny.tune(manifest, tmp_path / "run", shard_labels=True, **{**TWO, "laplacian": 0.1})
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("stop", "optimizer"), [(1, "adamw"), (4, "sgd"), (7, "sgd")]
)  # 5 steps in an epoch; a signal after one is heard in the next
def test_a_run_that_was_stopped_goes_on_exactly(manifest, tmp_path, stop, optimizer):
    settings = {"shard_labels": True, "optimizer": optimizer}
    tiny.tune(manifest, tmp_path / "unbroken", **settings)
    tuned = tiny.tune(manifest, tmp_path / "run", watcher=tiny.asks_at(stop), **settings)
    assert tuned.metrics is None
    assert shards(tmp_path / "run", manifest).last().step == stop + 1
    assert tiny.tune(manifest, tmp_path / "run", resume=True, **settings).metrics is not None
    found, expected = (shards(tmp_path / name, manifest) for name in ("run", "unbroken"))
    for one, two in ((found.last(), expected.last()), (found.best(), expected.best())):
        assert one.step == two.step
        assert one.tensors.keys() == two.tensors.keys()
        assert all(torch.equal(values, two.tensors[name]) for name, values in one.tensors.items())
    assert tiny.metrics(tmp_path / "run") == tiny.metrics(tmp_path / "unbroken") != []


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("backbone.second.weight", "the loss became NaN or infinite, first in backbone.second"),
        ("head.coarse.bias", "the loss became NaN or infinite, first in head.coarse"),
    ],
)
def test_nan_is_named_and_never_saved(manifest, tmp_path, name, what):
    def poison(network):
        with torch.no_grad():
            network.get_parameter(name).fill_(math.nan)

    with pytest.raises(NonFiniteError, match=what):
        tiny.tune(
            manifest, tmp_path / "run", alter=tiny.in_forward(7, poison), shard_labels=True, checkpoint_minutes=0.0
        )
    found = shards(tmp_path / "run", manifest).last()
    assert found.step <= 7
    assert all(values.isfinite().all() for values in found.tensors.values())


def test_weights_that_answer_nan_are_not_saved(manifest, tmp_path):
    network = []

    def spoil(done):
        if done == 3:
            with torch.no_grad():
                network[0].head.fine.weight.fill_(3e38)  # finite, but its products are not

    with pytest.raises(NonFiniteError, match=r"step 3: the answer became NaN or infinite, first in head\.fine"):
        tiny.tune(
            manifest,
            tmp_path / "run",
            alter=network.append,
            watcher=tiny.Watcher(spoil),
            shard_labels=True,
            checkpoint_minutes=0.0,
        )
    assert shards(tmp_path / "run", manifest).last().step == 2


@pytest.mark.deep
def test_bad_photos_are_left_out(tmp_path):
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos", per_class=2, val=1)
    for path in (*manifest.parent.glob("*-0.png"), manifest.parent / "grey-2.png"):
        path.write_bytes(b"no photo")
    tuned = tiny.tune(
        manifest, tmp_path / "run", shard_labels=True, on_bad_file="skip", batch_size=1, fixed_statistics=True
    )
    assert len([note for note in tuned.watcher.notes if note.startswith("left out: ")]) == 6
    for path in manifest.parent.glob("*-2.png"):
        path.write_bytes(b"no photo")
    with pytest.raises(DataError, match="none of the 5 validation photos can be read"):
        tiny.tune(manifest, tmp_path / "none", shard_labels=True, on_bad_file="skip", fixed_statistics=True)


def test_answers_are_counted_as_those_of_a_whole_head():
    table = {"a": {"dish": "x", "price": 1.5}, "b": {"dish": "x", "price": 4.0}, "c": {"dish": "y", "price": None}}
    graph = fg.LabelGraph.from_table(table, types={"price": "number"})
    torch.manual_seed(0)
    head, features = BipartiteHead(3, graph), torch.randn(6, 3)
    part = ShardedHead(3, graph, Ranks())
    part.take(head)
    fine, kinds = torch.tensor([0, 1, 2, -100, 0, 2]), {"dish": torch.tensor([0, 0, 1, 1, 0, -100])}
    measured = {"price": np.array([2.0, *[np.nan] * 4, 3.0])}
    one, two = (Tally(graph.kinds, graph.numbers) for _ in range(2))
    with torch.no_grad():
        one.add(head(features), fine, kinds, measured)
    two.add_shared(part, features, None, fine, kinds, measured)
    assert one.numbers[-1, 1] == 4  # four values are known
    torch.testing.assert_close(two.numbers, one.numbers, rtol=1e-6, atol=0)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"head": "softmax"}, "a softmax head cannot be sharded"),
        ({"comparisons": "hotter.csv"}, "photos that were compared are ranked by a whole head"),
        ({"learn": ("tree",)}, "a graph that is learnt changes"),
        ({"suggest": True, "learn": ("cells",)}, "suggest: .*; learn: "),
    ],
)
def test_settings_that_do_not_go_with_it(given, what):
    with pytest.raises(SettingsError, match=f"shard_labels does not go with other settings; .*{what}"):
        TrainSettings(tune="all", shard_labels=True, **given)


def test_it_needs_a_whole_network_to_train():
    with pytest.raises(SettingsError, match="shard_labels: no effect with tune = head"):
        check_settings_used({"shard_labels": True})


def test_graphs_and_grids_that_do_not_go_with_it():
    settings = TrainSettings(tune="all", shard_labels=True)
    graph = fg.LabelGraph(["a", "b"])
    check_shared(settings, graph, Ranks(0, 2))
    for rank in range(3):
        with pytest.raises(SettingsError, match="shard_labels: process 1 of 3 would hold none of the 2 fine labels"):
            check_shared(settings, graph, Ranks(rank, 3))
    grid = TrainSettings(tune="all", shard_labels=True, shard_groups=2)
    check_shared(grid, graph, Ranks(0, 4))  # three processes without groups would be one too many
    with pytest.raises(SettingsError, match="shard_groups: 3 processes cannot form 2 groups of the same size"):
        check_shared(grid, graph, Ranks(0, 3))
    with pytest.raises(SettingsError, match="shard_groups: no effect without shard_labels"):
        TrainSettings(tune="all", shard_groups=2)


def test_auxiliary_branches_do_not_go_with_it(manifest):
    graph = fg.LabelGraph.read(manifest.parent / "graph.csv")
    settings = tiny.settings_for(manifest, network="tiny_auxiliary", shard_labels=True)
    with pytest.raises(SettingsError, match=r"auxiliary branches have heads of their own.*set auxiliary to false"):
        make_network(settings, graph)
    with pytest.raises(InputError, match="goes with a backbone without auxiliary branches"):
        Network(NetworkDesign(network="tiny"), tiny.Tiny(auxiliary=True), ShardedHead(12, graph, Ranks()))
