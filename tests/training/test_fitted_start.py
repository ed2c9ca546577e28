"""Training that starts from a fitted head, validates it as epoch 0, and fits the head anew after each epoch."""

import pytest
import tiny
import torch

from finegraph.training.records.run_folder import RunFolder

FITTED = {"recipe": "fitted", "photo_labels": "ignore", "epochs": 2, "best_by": "nll"}
FITS = ("prototypes", "descent")


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


def test_epoch_0_is_the_fitted_head_before_any_step(manifest, unbroken):
    first = unbroken.watcher.rows[0]
    assert (first["epoch"], first["step"], first["train_loss"]) == (0, 0, None)
    assert [row["epoch"] for row in unbroken.watcher.rows] == [0, 1, 2]
    assert tiny.best(unbroken.folder.path).step in (
        0,
        unbroken.watcher.rows[1]["step"],
        unbroken.watcher.rows[2]["step"],
    )


@pytest.mark.parametrize("fit", FITS)
def test_steps_that_harm_leave_the_fitted_head(manifest, tmp_path, fit):
    tuned = tiny.tune(manifest, tmp_path / "run", fit=fit, **FITTED | {"lr": 3.0, "refit": False})
    start, *later = (row["val_nll"] for row in tuned.watcher.rows)
    assert min(later) > start
    assert tuned.metrics["nll"] == pytest.approx(start)
    assert tiny.best(tuned.folder.path).step == 0


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


@pytest.mark.parametrize("stop", [1, 3, 4])
def test_a_stopped_run_goes_on_exactly(manifest, unbroken, tmp_path, stop):
    path = tmp_path / "run"
    tiny.tune(manifest, path, watcher=tiny.asks_at(stop), fit="prototypes", **FITTED)
    assert stop <= tiny.last(path).step < tiny.last(unbroken.folder.path).step
    tiny.tune(manifest, path, resume=True, fit="prototypes", **FITTED)
    tiny.same(path, unbroken.folder.path)


def test_a_run_without_a_checkpoint_begins_again(manifest, unbroken, tmp_path):
    path = tmp_path / "run"
    RunFolder.create(path).write_config(tiny.settings_for(manifest, fit="prototypes", **FITTED).resolve().to_dict())
    tiny.tune(manifest, path, resume=True, fit="prototypes", **FITTED)
    tiny.same(path, unbroken.folder.path)


def test_two_networks_start_from_a_fitted_head(manifest, tmp_path):
    second = {"coarse_network": "tiny", "coarse_weights": "none", "fit": "descent"}
    tuned = tiny.tune(manifest, tmp_path / "run", **second, **FITTED)
    assert [row["epoch"] for row in tuned.watcher.rows] == [0, 1, 2]
