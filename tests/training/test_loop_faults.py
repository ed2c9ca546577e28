"""Runs that meet NaN, or photos that cannot be read: what is wrong is named, and nothing wrong is saved."""

import json
import math
from copy import deepcopy

import pytest
import tiny
import torch

from finegraph.data.dataset import PhotoDataset, collate
from finegraph.errors import DataError, NonFiniteError, PhotoFileError, SettingsError
from finegraph.inference import joint_loss
from finegraph.workflows.training.training_data import make_views, read_training_data

PER_EPOCH = 5

# ---- NaN -------------------------------------------------------------------------------------------------------------


def poison(name, value=math.nan):
    def act(network):
        tensor = network.state_dict()[name].data
        tensor[(0,) * tensor.ndim] = value

    return act


def bad_gradient(name):
    def act(network):
        network.get_parameter(name).register_hook(lambda gradient: gradient * math.nan)

    return act


def bad_pixels(network):
    network.backbone.first.register_forward_hook(
        lambda module, inputs, output: output.index_fill(0, torch.tensor([1]), math.inf)
    )


@pytest.mark.deep
@pytest.mark.parametrize(
    ("act", "what"),
    [
        (poison("backbone.second.weight"), "step 8: the loss became NaN or infinite, first in backbone.second"),
        (poison("backbone.first.bias", -math.inf), "step 9: the loss became NaN or infinite, first in backbone.first"),
        (poison("head.coarse.weight"), "step 8: the loss became NaN or infinite, first in head.coarse"),
        (
            bad_gradient("backbone.norm.weight"),
            "step 8: a gradient became NaN or infinite, first in backbone.norm.weight",
        ),
        (bad_pixels, "step 9: the loss became NaN or infinite, first in backbone.first"),
        (
            poison("backbone.norm.running_var"),
            "step 10: the validation metric nll became NaN or infinite, first in backbone.norm",
        ),
    ],
)
def test_nan_is_named_and_never_saved(manifest, unbroken, tmp_path, act, what):
    with pytest.raises(NonFiniteError, match=rf"^{what}\. Nothing .* The photos: \S*\.png, ") as caught:
        tiny.tune(manifest, tmp_path / "run", alter=tiny.in_forward(8, act))
    assert str(caught.value).count(".png") == (7 if "step 10" not in what else 10)
    for kept in (tiny.last(tmp_path / "run"), tiny.best(tmp_path / "run")):
        assert kept.step == PER_EPOCH
        assert all(bool(tensor.isfinite().all()) for tensor in kept.tensors.values())
    tiny.tune(manifest, tmp_path / "run", resume=True)
    tiny.same(tmp_path / "run", unbroken)


def test_weights_that_burst_in_the_last_step_are_not_saved(tmp_path):
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos", val=0)
    network = []

    def on_step(done):
        if done == 2 * PER_EPOCH:
            poison("head.fine.weight", math.inf)(network[0])

    with pytest.raises(NonFiniteError, match=r"^step 10: the weight head.fine.weight became .* The photos: \S*\.png, "):
        tiny.tune(manifest, tmp_path / "run", watcher=tiny.Watcher(on_step), alter=network.append)
    assert tiny.last(tmp_path / "run").step == PER_EPOCH


def test_nan_in_an_auxiliary_head_is_named(manifest, tmp_path):
    alter = tiny.in_forward(3, poison("auxiliary_heads.0.coarse.bias"))
    with pytest.raises(NonFiniteError, match=r"^step 3: .* first in auxiliary_heads\.0\.coarse\."):
        tiny.tune(manifest, tmp_path / "run", alter=alter, network="tiny_auxiliary")
    assert tiny.last(tmp_path / "run") is None


def test_a_rate_that_is_far_too_high(manifest, tmp_path):
    with pytest.raises(
        NonFiniteError, match=r"^step \d+: .* became NaN or infinite, first in \S+\. .*lower learning rate"
    ):
        tiny.tune(manifest, tmp_path / "run", lr=1e25)
    checkpoint = tiny.last(tmp_path / "run")
    assert checkpoint is None or all(bool(tensor.isfinite().all()) for tensor in checkpoint.tensors.values())


def test_weights_that_are_finite_but_answer_nan_are_not_saved(tmp_path):
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos", val=0)
    network = []

    def on_step(done):
        if done == 2 * PER_EPOCH:
            poison("head.fine.weight", 3e38)(network[0])  # finite, but its products are not

    with pytest.raises(NonFiniteError, match=r"^step 10: the answer became NaN or infinite, first in head"):
        tiny.tune(manifest, tmp_path / "run", watcher=tiny.Watcher(on_step), alter=network.append)
    assert tiny.last(tmp_path / "run").step == PER_EPOCH


# ---- photos that cannot be read --------------------------------------------------------------------------------------


@pytest.fixture
def own_photos(tmp_path):
    tiny.register()
    return tiny.make_photos(tmp_path / "photos", per_class=3)


def spoil(manifest, pattern):
    paths = sorted(manifest.parent.glob(pattern))
    for path in paths:
        path.write_bytes(b"no photo")
    return [str(path) for path in paths]


def left_out(notes):
    return sorted(note.removeprefix("left out: ").split(": ")[0] for note in notes if note.startswith("left out"))


def test_a_bad_photo_is_an_error_that_names_it(own_photos, tmp_path):
    (bad,) = spoil(own_photos, "grey-1.png")
    with pytest.raises(PhotoFileError, match=f"^{bad}: "):
        tiny.tune(own_photos, tmp_path / "run")


@pytest.mark.deep
def test_bad_photos_are_left_out_and_named_once(own_photos, tmp_path):
    bad = spoil(own_photos, "*-small-[14].png")  # two to train on, two to validate on
    tuned = tiny.tune(own_photos, tmp_path / "run", on_bad_file="skip", watcher=tiny.asks_at(3))
    more = tiny.tune(own_photos, tmp_path / "run", on_bad_file="skip", resume=True)
    assert left_out(tuned.watcher.notes + more.watcher.notes) == bad
    events = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert left_out(event["text"] for event in events if event["event"] == "note") == bad
    progress = tiny.last(tmp_path / "run").state["progress"]
    assert sorted(progress["bad_files"]) == bad


def test_bad_photos_weigh_nothing_and_are_not_replaced(own_photos, tmp_path):
    (bad,) = spoil(own_photos, "grey-1.png")
    chosen = {"batch_size": 15, "epochs": 1, "dropout": 0.0, "fixed_statistics": True, "label_smoothing": 0.0}
    chosen["view_share"] = 1.0
    networks = []
    tuned = tiny.tune(
        own_photos, tmp_path / "run", on_bad_file="skip", alter=lambda one: networks.append(deepcopy(one)), **chosen
    )
    settings = tiny.settings_for(own_photos)
    data, network = read_training_data(settings), networks[0].eval()
    views = make_views(settings, network)
    photos = PhotoDataset(data.train, data.graph, views, view="train", seed=settings.seed)
    items = [photos.item(number, 0) for number in range(15) if str(data.train[number].path) != bad]
    assert len(items) == 14
    batch = collate(items)
    expected = joint_loss(network(batch.images), batch.fine, batch.kinds, 1.0)
    assert tuned.watcher.losses == [pytest.approx(expected.item(), rel=1e-5)]


@pytest.mark.deep
def test_a_batch_without_a_readable_photo(own_photos, tmp_path):
    bad = spoil(own_photos, "*-[0].png")
    tuned = tiny.tune(own_photos, tmp_path / "run", on_bad_file="skip", batch_size=1)
    assert tuned.watcher.losses.count(0.0) == 3 * len(bad)
    assert left_out(tuned.watcher.notes) == bad
    assert tuned.metrics is not None
    rows = tiny.metrics(tmp_path / "run")
    own = [loss for loss in tuned.watcher.losses[:15] if loss]
    assert rows[0]["train_loss"] == pytest.approx(sum(own) / len(own))


def test_an_epoch_without_a_readable_photo(own_photos, tmp_path):
    spoil(own_photos, "*-[012].png")
    with pytest.raises(DataError, match=r"^epoch 1: none of the 15 photos could be used; they cannot be read, or have"):
        tiny.tune(own_photos, tmp_path / "run", on_bad_file="skip")
    assert tiny.last(tmp_path / "run") is None


def test_no_validation_photo_is_readable(own_photos, tmp_path):
    (first, *_) = spoil(own_photos, "*-[34].png")
    with pytest.raises(DataError, match=f"^none of the 10 validation photos can be read; the first: {first}: "):
        tiny.tune(own_photos, tmp_path / "run", on_bad_file="skip")


def test_photos_without_any_label_are_nothing_to_learn_from(own_photos, tmp_path):
    text = own_photos.read_text()
    own_photos.write_text(
        "".join(
            line.replace(line.split(",", 1)[1], ",train,\n") if ",train," in line else line
            for line in text.splitlines(keepends=True)
        )
    )
    with pytest.raises(
        DataError, match=r"^epoch 1: none of the 15 photos could be used; they cannot be read, or have no"
    ):
        tiny.tune(own_photos, tmp_path / "run")


def test_a_batch_too_small_to_normalise_by_is_said(manifest, tmp_path):
    small = {"network": "efficientnet_lite0", "size": 32, "batch_size": 1, "epochs": 1}
    with pytest.raises(SettingsError, match=r"more than 1 photo of 32 x 32 pixels in each process .* fixed_statistics"):
        tiny.tune(manifest, tmp_path / "run", **small)
