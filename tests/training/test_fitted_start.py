"""Training that starts from a fitted head, validates it as epoch 0, and fits the head anew after each epoch."""

from dataclasses import replace

import pytest
import tiny
import torch

import finegraph as fg
from finegraph.data.transforms import ViewSettings
from finegraph.training.recipes import RECIPES
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.workflows.train import train_run
from finegraph.workflows.training.training_data import make_network, read_training_data
from finegraph.workflows.training.tune_all import training_views

FITTED = {"recipe": "fitted", "photo_labels": "ignore", "epochs": 2, "judge_every": 1, "best_by": "nll"}
FITS = ("prototypes", "descent")


class Silent:
    """Takes what it is told."""

    def __getattr__(self, name):
        return lambda *told: False


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def unbroken(manifest, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "unbroken"
    return tiny.tune(manifest, path, fit="prototypes", **FITTED)


def weights_of(checkpoint, part):
    return {name: tensor for name, tensor in checkpoint.tensors.items() if name.startswith(f"network.{part}.")}


@pytest.mark.deep
def test_epoch_0_is_the_fitted_head_before_any_step(manifest, unbroken):
    first = unbroken.watcher.rows[0]
    assert (first["epoch"], first["step"], first["train_loss"]) == (0, 0, None)
    assert [row["epoch"] for row in unbroken.watcher.rows] == [0, 1, 2]
    assert tiny.best(unbroken.folder.path).step in (
        0,
        unbroken.watcher.rows[1]["step"],
        unbroken.watcher.rows[2]["step"],
    )


@pytest.mark.deep
@pytest.mark.parametrize("fit", FITS)
def test_steps_that_harm_leave_the_fitted_head(manifest, tmp_path, fit):
    tuned = tiny.tune(manifest, tmp_path / "run", fit=fit, **FITTED | {"lr": 3.0, "refit": False})
    start, *later = (row["val_nll"] for row in tuned.watcher.rows)
    assert min(later) > start
    assert tuned.metrics["nll"] == pytest.approx(start)
    assert tiny.best(tuned.folder.path).step == 0


@pytest.mark.deep
def test_the_head_is_fitted_to_the_network_of_each_epoch(manifest, tmp_path):
    tuned = tiny.tune(manifest, tmp_path / "run", fit="prototypes", **FITTED | {"epochs": 1, "lr": 0.01})
    held = tiny.tune(
        manifest, tmp_path / "held", fit="prototypes", **FITTED | {"epochs": 1, "lr": 0.01, "refit": False}
    )
    after, without = tiny.last(tuned.folder.path), tiny.last(held.folder.path)
    for name, tensor in weights_of(after, "backbone").items():
        assert torch.equal(tensor, without.tensors[name]), name  # the last steps are the same
    for part in ("head", "scaling"):
        assert any(not torch.equal(one, without.tensors[name]) for name, one in weights_of(after, part).items())


@pytest.mark.deep
@pytest.mark.parametrize("stop", [1, 3, 4])
def test_a_stopped_run_goes_on_exactly(manifest, unbroken, tmp_path, stop):
    path = tmp_path / "run"
    tiny.tune(manifest, path, watcher=tiny.asks_at(stop), fit="prototypes", **FITTED)
    assert stop <= tiny.last(path).step < tiny.last(unbroken.folder.path).step
    tiny.tune(manifest, path, resume=True, fit="prototypes", **FITTED)
    tiny.same(path, unbroken.folder.path)


@pytest.mark.deep
def test_a_run_without_a_checkpoint_begins_again(manifest, unbroken, tmp_path):
    path = tmp_path / "run"
    RunFolder.create(path).write_config(tiny.settings_for(manifest, fit="prototypes", **FITTED).resolve().to_dict())
    tiny.tune(manifest, path, resume=True, fit="prototypes", **FITTED)
    tiny.same(path, unbroken.folder.path)


@pytest.mark.deep
def test_two_networks_start_from_a_fitted_head(manifest, tmp_path):
    second = {"coarse_network": "tiny", "coarse_weights": "none", "fit": "descent"}
    tuned = tiny.tune(manifest, tmp_path / "run", **second, **FITTED)
    assert [row["epoch"] for row in tuned.watcher.rows] == [0, 1, 2]


@pytest.mark.deep
@pytest.mark.parametrize("start", ["fitted", "new"])
def test_epochs_between_validations(manifest, tmp_path, start):
    changes = FITTED | {"epochs": 5, "judge_every": 2, "start": start, "refit": start == "fitted", "fit": "prototypes"}
    if start == "new":
        changes.pop("fit")
    tuned = tiny.tune(manifest, tmp_path / "run", **changes)
    judged = [row["epoch"] for row in tuned.watcher.rows if row.get("val_nll") is not None]
    assert judged == ([0, 2, 4, 5] if start == "fitted" else [1, 2, 4, 5])
    assert [row["epoch"] for row in tuned.watcher.rows][-5:] == [1, 2, 3, 4, 5]
    best = min((row for row in tuned.watcher.rows if row.get("val_nll") is not None), key=lambda row: row["val_nll"])
    assert tiny.best(tuned.folder.path).step == best["step"]
    assert tuned.metrics["nll"] == best["val_nll"]


@pytest.mark.deep
@pytest.mark.parametrize("views", [1, 3])
def test_heads_are_fitted_to_as_many_views_after_an_epoch_as_before(manifest, tmp_path, views):
    changes = FITTED | {"epochs": 1, "lr": 0.0, "train_views": views}
    start, after = tiny.tune(manifest, tmp_path / "run", fit="prototypes", **changes).watcher.rows
    assert after["val_nll"] == pytest.approx(start["val_nll"], rel=1e-5)


@pytest.mark.deep
def test_frozen_layers_stay_and_the_others_move(manifest, tmp_path):
    changes = FITTED | {"epochs": 1, "lr": 0.01, "frozen_share": 0.34}
    tuned = tiny.tune(manifest, tmp_path / "run", fit="prototypes", **changes)
    again = tiny.tune(manifest, tmp_path / "still", fit="prototypes", **changes | {"lr": 0.0})
    after, before = tiny.last(tuned.folder.path).tensors, tiny.last(again.folder.path).tensors
    moved = {name for name, one in after.items() if name in before and not torch.equal(one, before[name])}
    assert "network.backbone.first.weight" not in moved
    assert {"network.backbone.norm.weight", "network.backbone.second.weight"} <= moved


@pytest.mark.deep
def test_without_validation_photos_the_last_epoch_is_the_result_and_the_run_says_so(tmp_path):
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos", per_class=5, val=0)
    tuned = tiny.tune(manifest, tmp_path / "run", fit="prototypes", **FITTED)
    assert [row["epoch"] for row in tuned.watcher.rows] == [1, 2]
    assert tiny.best(tuned.folder.path).step == tiny.last(tuned.folder.path).step
    assert any("no validation photos" in note and "--val-share" in note for note in tuned.watcher.notes)


def test_auxiliary_heads_that_would_never_be_trained_take_no_part(manifest):
    chosen = tiny.settings_for(manifest, network="tiny_auxiliary", recipe="fitted")
    graph = read_training_data(chosen).graph
    assert not len(make_network(chosen, graph).auxiliary_heads)
    short = tiny.settings_for(manifest, network="tiny_auxiliary", recipe="short")
    assert len(make_network(short, graph).auxiliary_heads) == 1


def test_training_views_are_smaller_parts():
    views = ViewSettings(resize=256, size=224)
    recipe = RECIPES["fitted"]
    found = training_views(views, replace(recipe, train_scale=0.7, view_share=0.3))
    assert (found.size, found.resize) == (160, 256)  # parts are cut from the whole picture
    found = training_views(views, replace(recipe, train_scale=0.7, view_share=1.0))
    assert (found.size, found.resize) == (160, 183)
    assert training_views(views, replace(recipe, train_scale=1.0)) == views
    assert training_views(ViewSettings(resize=36, size=32), replace(recipe, train_scale=0.5)).size == 32


@pytest.mark.deep
def test_a_whole_network_with_class_means_can_be_taught(manifest, tmp_path):
    settings = TrainSettings(data=str(manifest), graph=str(manifest.parent / "graph.csv"), network="tiny", tune="all",
                             weights="none", recipe="fitted", fit="prototypes", photo_labels="ignore", epochs=1,
                             train_views=2)  # fmt: skip
    result = train_run(settings, Silent(), run=tmp_path / "run")
    assert "variances" in result.strengths
    model = fg.load(tmp_path / "run")
    assert model.statistics.views == 2
    kept = weights_of(tiny.best(tmp_path / "run"), "head")
    for name, value in model.network.head.state_dict().items():
        torch.testing.assert_close(value, kept[f"network.head.{name}"], atol=1e-4, rtol=1e-3)
    solved = model.statistics.solve(model.graph)
    for name, value in model.network.head.state_dict().items():
        torch.testing.assert_close(solved.state_dict()[name], value, atol=1e-4, rtol=1e-3)
    photo = next(path for path in manifest.parent.rglob("*.png"))
    label = model.graph.fine[-1]
    before = model.predict(photo, top=len(model.graph))
    model.teach(label, photo)
    after = model.predict(photo, top=len(model.graph))
    chance = [{one.label: one.probability for one in answer.top}[label] for answer in (before, after)]
    assert chance[1] > chance[0]


@pytest.mark.deep
def test_a_run_that_stops_between_validations_goes_on_exactly(manifest, tmp_path):
    changes = FITTED | {"epochs": 3, "judge_every": 2, "layer_decay": 0.8, "fit": "prototypes", "train_views": 2}
    whole, path = tmp_path / "whole", tmp_path / "run"
    tiny.tune(manifest, whole, **changes)
    tiny.tune(manifest, path, watcher=tiny.asks_at(5), **changes)  # the first epoch has five steps
    assert tiny.last(path).step < tiny.last(whole).step
    tiny.tune(manifest, path, resume=True, **changes)
    tiny.same(path, whole)
