"""Training the whole network: the photos it takes, how it is judged, and what one gets in the end."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from finegraph.data.dataset import MISSING, PhotoDataset
from finegraph.data.photo_decoding import read_photo
from finegraph.errors import DataError, SettingsError, ShapeError, UnknownNameError
from finegraph.graph import LabelGraph, Number
from finegraph.inference import Posterior
from finegraph.model.features import extract_features
from finegraph.model.features import work as photos_to_features
from finegraph.training.checkpoints.checkpoint import CheckpointFolder
from finegraph.training.distributed import Ranks
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.workflows.train import resume_settings
from finegraph.workflows.training.training_data import make_network, make_views, read_training_data
from finegraph.workflows.training.tune_head import metrics_of
from finegraph.workflows.training.validation import Tally, validate
from training import tiny

GRAPH = LabelGraph.from_table(
    {"a": {"dish": "x", "bowl": {"p", "q"}}, "b": {"dish": "x", "bowl": "q"}, "c": {"dish": "y", "bowl": None}}
)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"))


def held_out(manifest, network):
    """The validation photos, and how they are cut."""
    settings = tiny.settings_for(manifest)
    return read_training_data(settings).val, make_views(settings, network)


# ---- metrics ---------------------------------------------------------------------------------------------------------


def test_metrics_are_means_over_what_is_known():
    random = torch.Generator().manual_seed(2)
    fine = torch.tensor([0, 1, 2, MISSING, 0, 2, MISSING, 1])
    dish = torch.tensor([MISSING, 0, 1, 1, MISSING, MISSING, MISSING, 1])
    posterior = Posterior(GRAPH, 2 * torch.randn(8, 3, generator=random, dtype=torch.float64))
    tally = Tally(GRAPH.kinds)
    for rows in (slice(0, 5), slice(5, 8)):
        tally.add(Posterior(GRAPH, posterior.fine_scores[rows]), fine[rows], {"dish": dish[rows]})
    probs, seen = posterior.probs(), [n for n in range(8) if fine[n] != MISSING]
    right = [int(probs[n].argmax()) == int(fine[n]) for n in seen]
    surprise = [-math.log(probs[n, fine[n]]) for n in seen]
    parents = {0: 0, 1: 0, 2: 1}
    truth = [int(dish[n]) if dish[n] != MISSING else parents.get(int(fine[n])) for n in range(8)]
    dishes = posterior.probs("dish").argmax(dim=1).tolist()
    bowls = [GRAPH.labels("bowl")[one] for one in posterior.probs("bowl").argmax(dim=1).tolist()]
    known_bowl = {0: {"p", "q"}, 1: {"q"}}  # the parent of c is not known
    assert tally.metrics(Ranks()) == pytest.approx(
        {
            "top1": sum(right) / 6,
            "nll": sum(surprise) / 6,
            "kinds.dish": sum(a == b for a, b in zip(dishes, truth, strict=True) if b is not None) / 7,
            "kinds.bowl": sum(bowls[n] in known_bowl[int(fine[n])] for n in (0, 1, 4, 7)) / 4,
        }
    )


def test_errors_of_numbers_are_means_over_what_is_known():
    graph = GRAPH.with_number(Number.from_values("price", [9.0, 12.0, None]))
    scores = torch.randn(4, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    tally = Tally(graph.kinds, graph.numbers)
    measured = {"price": np.array([20.0, np.nan, np.nan, np.nan])}
    tally.add(Posterior(graph, scores), torch.tensor([0, 1, 2, MISSING]), {}, measured)
    told = Posterior(graph, scores).value("price").mean
    expected = (abs(told[0].item() - 20) + abs(told[1].item() - 12)) / 2
    assert tally.metrics(Ranks())["numbers.price"] == pytest.approx(expected)


def test_metrics_of_nothing_are_left_out():
    tally = Tally(("dish", "bowl"))
    tally.add(Posterior(GRAPH, torch.zeros(2, 3)), torch.tensor([MISSING, MISSING]), {"dish": torch.tensor([0, 1])})
    assert tally.metrics(Ranks()) == {"kinds.dish": 0.5}


def test_validation_looks_at_each_photo_once(manifest, monkeypatch):
    settings = tiny.settings_for(manifest)
    network = make_network(settings, read_training_data(settings).graph)
    samples, views = held_out(manifest, network)
    photos = PhotoDataset(samples, network.graph, views)
    opened = []
    with monkeypatch.context() as patch:
        patch.setattr(photos_to_features, "read_photo", lambda path: opened.append(path) or read_photo(path))
        judged = validate(network, samples, views, Ranks(), threads=2)
    assert sorted(opened) == sorted(sample.path for sample in samples)
    assert set(judged.metrics) == {"top1", "nll", "kinds.colour"}
    assert (judged.bad, judged.layer, judged.photos) == ((), None, ())
    assert not network.training
    pixels = torch.stack([photos[number].image for number in range(10)])
    expected = -network(pixels).log_probs()[torch.arange(10), photos.fine].mean()
    assert judged.metrics["nll"] == pytest.approx(expected.item(), rel=1e-5)
    shares = [validate(network, samples, views, _Alone(rank, 3)).metrics["nll"] for rank in range(3)]
    weighted = sum(share * count for share, count in zip(shares, (4, 3, 3), strict=True)) / 10
    assert weighted == pytest.approx(expected.item(), rel=1e-5)


def test_validation_judges_kinds_of_photos_with_and_without_labels_of_their_own(tmp_path):
    tiny.register()
    settings = tiny.settings_for(tiny.make_photos(tmp_path, per_class=2, val=4, gaps=True))
    data = read_training_data(settings)
    assert {len(sample.kinds) for sample in data.val} == {0, 1}
    network = make_network(settings, data.graph).eval()
    views = make_views(settings, network)
    judged = validate(network, data.val, views, Ranks()).metrics
    expected = metrics_of(network, extract_features(network, data.val, views, cache=False))
    assert judged == pytest.approx(expected, rel=1e-6)


class _Alone(Ranks):
    """One of several processes, of which the others say nothing."""

    def sum(self, tensors):
        pass

    def gather(self, value):
        return [value]


def test_validation_can_be_stopped(manifest):
    settings = tiny.settings_for(manifest)
    network = make_network(settings, read_training_data(settings).graph)
    assert validate(network, *held_out(manifest, network), Ranks(), stop=lambda: True) is None


def test_validation_leaves_nothing_that_training_cannot_use(manifest):
    settings = tiny.settings_for(manifest)
    network = make_network(settings, read_training_data(settings).graph)
    validate(network, *held_out(manifest, network), Ranks())
    network.train()
    network(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).log_probs().sum().backward()


# ---- photos ----------------------------------------------------------------------------------------------------------


def test_what_to_learn_from(manifest):
    data = read_training_data(tiny.settings_for(manifest))
    assert (len(data.train), len(data.val), data.graph.kinds) == (35, 10, ("colour",))
    few = read_training_data(tiny.settings_for(manifest, photos_per_label=2))
    assert (len(few.train), len(few.val)) == (10, 10)
    assert read_training_data(tiny.settings_for(manifest, kinds=[])).graph.kinds == ()
    with pytest.raises(UnknownNameError, match=r"'color'.*did you mean 'colour'"):
        read_training_data(tiny.settings_for(manifest, kinds=["color"]))
    swapped = read_training_data(tiny.settings_for(manifest, train_split="val", val_split="train"))
    assert (len(swapped.train), len(swapped.val)) == (10, 35)
    implied = read_training_data(TrainSettings(data=str(manifest)))
    assert sorted(implied.graph.fine) == sorted(data.graph.fine)


def test_a_run_goes_on_with_the_settings_it_began_with(manifest, tmp_path):
    settings = tiny.settings_for(manifest).resolve()
    RunFolder.create(tmp_path / "run").write_config(settings.to_dict())
    assert resume_settings(tmp_path / "run", {"lr": settings.lr, "workers": 3}) == replace(settings, workers=3)
    with pytest.raises(SettingsError, match=r"seed was 0, now 1; epochs was 3, now 4$"):
        resume_settings(tmp_path / "run", {"epochs": 4, "seed": 1, "threads": 2})


def test_a_share_is_held_out_where_there_is_no_split(tmp_path):
    manifest = tiny.make_photos(tmp_path, per_class=5, val=0)
    assert read_training_data(tiny.settings_for(manifest)).val is None
    data = read_training_data(tiny.settings_for(manifest, val_share=0.2))
    assert (len(data.train), len(data.val)) == (20, 5)


def test_nothing_to_learn_from(tmp_path):
    with pytest.raises(SettingsError, match=r"^data: expected the photos to train on"):
        read_training_data(TrainSettings())
    manifest = tiny.make_photos(tmp_path, per_class=2, val=0, gaps=True)
    manifest.write_text("path,label,split\n" + "".join(f"grey-{number}.png,,train\n" for number in range(2)))
    with pytest.raises(DataError, match="expected photos to train on, found none with a label in "):
        read_training_data(tiny.settings_for(manifest, photos_per_label=2))


def test_views_are_those_of_the_network_or_the_settings(manifest):
    settings = tiny.settings_for(manifest, keep_shape=True)
    network = make_network(settings, read_training_data(settings).graph)
    views = make_views(settings, network)
    assert (views.size, views.resize, views.keep_shape, views.box) == (32, 36, True, False)
    views = make_views(tiny.settings_for(manifest, size=64, box=True), network)
    assert (views.size, views.resize, views.box) == (64, 72, True)


# ---- training --------------------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize(("recipe", "head"), [("short", "bipartite"), ("short", "softmax"), ("paper", "bipartite")])
def test_it_learns_and_ends_with_the_best_weights(manifest, tmp_path, recipe, head):
    tuned = tiny.tune(manifest, tmp_path / "run", recipe=recipe, head=head, epochs=6, best_by="nll", dropout=0.0)
    losses = [row["train_loss"] for row in tuned.watcher.rows]
    assert min(losses) < 0.9 * losses[0]
    best = CheckpointFolder(tuned.folder.checkpoints).best()
    for name, tensor in tuned.network.state_dict().items():
        assert torch.equal(tensor, best.tensors[f"network.{name}"]), name
    assert not tuned.network.training
    judged = validate(tuned.network, *held_out(manifest, tuned.network), Ranks())
    assert judged.metrics == pytest.approx(tuned.metrics, rel=1e-6)
    assert tuned.metrics["nll"] == min(row["val_nll"] for row in tuned.watcher.rows)


def test_fixed_statistics_stay(manifest, tmp_path):
    fixed = tiny.tune(manifest, tmp_path / "fixed", epochs=1, fixed_statistics=True).network.backbone.norm
    assert fixed.running_mean.tolist() == [0.0] * 8
    moved = tiny.tune(manifest, tmp_path / "moved", epochs=1).network.backbone.norm
    assert moved.running_mean.abs().min() > 0


def test_two_networks(manifest, tmp_path):
    tuned = tiny.tune(
        manifest, tmp_path / "run", coarse_network="tiny", coarse_weights="none", epochs=1, laplacian=0.01
    )
    assert tuned.metrics is not None
    assert tuned.network.coarse_backbone is not None


def test_a_prior_that_cannot_be_is_refused_before_anything_is_trained(manifest, tmp_path):
    settings = {"coarse_network": "efficientnet_lite0", "coarse_weights": "none", "laplacian": 0.1}
    with pytest.raises(ShapeError, match="both need the same features; got 12 and 1280"):
        tiny.tune(manifest, tmp_path / "run", **settings)
    assert not (tmp_path / "run" / "log.jsonl").exists()


@pytest.mark.deep
def test_other_heads_and_graphs(manifest, tmp_path):
    for number, changes in enumerate(({"kinds": []}, {"precision": "bfloat16"}, {"precision": "float64"})):
        tuned = tiny.tune(manifest, tmp_path / f"run {number}", epochs=1, **changes)
        assert math.isfinite(tuned.metrics["nll"]), changes
