"""Whole runs: to the last bit the same after any interruption, and never anything wrong that is saved."""

import gc
import json
import math
import os
import random
import signal
import threading
from copy import deepcopy

import pytest
import tiny
import torch

from finegraph.data.dataset import PhotoDataset, collate
from finegraph.errors import DataError, ImageFileError, NonFiniteError, SettingsError
from finegraph.inference import joint_loss
from finegraph.training import batches
from finegraph.workflows.training_data import make_views, read_training_data

STEPS, PER_EPOCH = 15, 5
RANDOM = random.Random(20240229)


class Crash(Exception):
    """Stands for whatever ends a process."""


@pytest.fixture(scope="module")
def unbroken(manifest, tmp_path_factory):
    """A run without interruption; with dropout, and statistics that move."""
    path = tmp_path_factory.mktemp("runs") / "unbroken"
    tiny.tune(manifest, path)
    return path


def same(path, other, whole=True):
    """Assert that two runs came to the same, to the last bit."""
    one, two = tiny.last(path), tiny.last(other)
    assert one.step == two.step
    assert one.tensors.keys() == two.tensors.keys()
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, two.tensors[name]), name
    states = [{**each.state["progress"], "seconds": 0.0} for each in (one, two)]
    assert states[0] == states[1]
    if whole:
        assert tiny.metrics(path) == tiny.metrics(other)
        assert len(tiny.metrics(path)) == STEPS // PER_EPOCH
        assert steps_logged(path) == steps_logged(other) == list(range(1, STEPS + 1))
        assert tiny.best(path).step == tiny.best(other).step


def steps_logged(path):
    events = [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
    return [event["step"] for event in events if event["event"] == "step"]


def asks_at(step, number=signal.SIGTERM):
    return tiny.Watcher(lambda done: os.kill(os.getpid(), number) if done == step else None)


def crashes_at(step):
    def on_step(done):
        if done == step:
            raise Crash

    return tiny.Watcher(on_step)


def test_the_statistics_and_the_momentum_are_in_the_checkpoint(unbroken):
    tensors = tiny.last(unbroken).tensors
    assert {"network.backbone.norm.running_var", "optimizer.momentum.head.coarse.weight"} <= tensors.keys()
    assert not torch.equal(tensors["network.backbone.norm.running_mean"], torch.zeros(8))


def test_another_seed_gives_another_run(manifest, unbroken, tmp_path):
    tiny.tune(manifest, tmp_path / "other", seed=1)
    with pytest.raises(AssertionError, match=r"running_mean|weight"):
        same(tmp_path / "other", unbroken)


# A request at an epoch's end comes before its validation, which then waits until the run goes on.
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "stops",
    [[1], [RANDOM.randrange(2, 4)], [5], [9], [RANDOM.randrange(6, 9), RANDOM.randrange(10, 14)], [5, 10], [15]],
    ids=str,
)
def test_a_run_that_was_asked_to_stop_goes_on_exactly(manifest, unbroken, tmp_path, stops, workers):
    path = tmp_path / "run"
    for number, step in enumerate(stops):
        tuned = tiny.tune(manifest, path, resume=number > 0, watcher=asks_at(step), workers=workers)
        assert tuned.figures is None
        # Asked after a step was counted: one more is taken at the most, and none at the end of an epoch.
        assert tiny.last(path).step == (step if step % PER_EPOCH == 0 else step + 1)
        assert len(tiny.metrics(path)) == (tiny.last(path).step - 1) // PER_EPOCH
    tuned = tiny.tune(manifest, path, resume=True, workers=workers)
    assert tuned.watcher.notes[-1].startswith("going on from step ")
    same(path, unbroken)
    assert tuned.figures == tiny.best(unbroken).state["progress"]["best_figures"]


@pytest.mark.parametrize(("step", "minutes"), [(3, 0.0), (3, 5.0), (5, 0.0), (12, 5.0), (RANDOM.randrange(6, 15), 0.0)])
def test_a_run_that_died_goes_on_exactly(manifest, unbroken, tmp_path, step, minutes):
    path = tmp_path / "run"
    with pytest.raises(Crash):
        tiny.tune(manifest, path, watcher=crashes_at(step), checkpoint_minutes=minutes)
    tiny.tune(manifest, path, resume=True)
    same(path, unbroken)


def test_a_run_that_died_between_a_row_and_its_checkpoint_goes_on_exactly(manifest, unbroken, tmp_path):
    path = tmp_path / "run"

    def die(row):
        raise Crash

    with pytest.raises(Crash):
        tiny.tune(manifest, path, watcher=tiny.Watcher(on_epoch=die))
    assert len(tiny.metrics(path)) == 1
    tiny.tune(manifest, path, resume=True, watcher=asks_at(5))
    with pytest.raises(Crash):  # now from a checkpoint at the last step of the epoch, before its validation
        tiny.tune(manifest, path, resume=True, watcher=tiny.Watcher(on_epoch=die))
    assert len(tiny.metrics(path)) == 1
    tiny.tune(manifest, path, resume=True)
    same(path, unbroken)


def test_resuming_a_finished_run_changes_nothing(manifest, unbroken, tmp_path):
    path = tmp_path / "run"
    tiny.tune(manifest, path)
    tuned = tiny.tune(manifest, path, resume=True)
    assert tuned.watcher.losses == []
    assert tuned.figures is not None
    same(path, unbroken)


def test_resuming_falls_back_over_a_damaged_checkpoint(manifest, unbroken, tmp_path):
    path = tmp_path / "run"
    tiny.tune(manifest, path, watcher=asks_at(7))
    file = tiny.last(path).path / "tensors.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    tuned = tiny.tune(manifest, path, resume=True)
    assert "going on from step 5 of 15" in tuned.watcher.notes
    assert any("tensors.safetensors" in note for note in tuned.watcher.notes)
    same(path, unbroken)


def test_the_best_and_the_last_are_kept(manifest, unbroken):
    rows = tiny.metrics(unbroken)
    best = max(rows, key=lambda row: (row["val_top1"], -row["epoch"]))
    assert tiny.best(unbroken).step == best["step"]
    assert tiny.best(unbroken).state["progress"]["best_figures"]["nll"] == best["val_nll"]
    assert tiny.last(unbroken).step == STEPS


def test_the_best_may_be_that_of_least_surprise(manifest, tmp_path):
    tiny.tune(manifest, tmp_path / "run", best_by="nll")
    rows = tiny.metrics(tmp_path / "run")
    assert tiny.best(tmp_path / "run").step == min(rows, key=lambda row: row["val_nll"])["step"]


def test_without_validation_the_last_epoch_is_the_best(tmp_path):
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos", per_class=2, val=0)
    tuned = tiny.tune(manifest, tmp_path / "run")
    assert tuned.figures == {}
    assert tiny.best(tmp_path / "run").step == tiny.last(tmp_path / "run").step
    assert set(tiny.metrics(tmp_path / "run")[0]) == {"epoch", "step", "train_loss", "rate"}


# ---- what may not change ---------------------------------------------------------------------------------------------


def test_other_photos_are_refused(tmp_path):
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos", per_class=3)
    tiny.tune(manifest, tmp_path / "run", watcher=asks_at(1))
    text = manifest.read_text()
    lines = text.splitlines(keepends=True)
    for line, what in ((lines[1], "to train on"), (lines[4], "to validate on")):
        manifest.write_text(text.replace(line, ""))
        with pytest.raises(SettingsError, match=f"^data: the list of photos {what} changed since this run began"):
            tiny.tune(manifest, tmp_path / "run", resume=True)
    manifest.write_text(text)
    graph = manifest.parent / "graph.csv"
    text = graph.read_text()
    graph.write_text(text.replace("red small,red", "red small,blue"))
    with pytest.raises(SettingsError, match=r"^data: the graph changed since this run began"):
        tiny.tune(manifest, tmp_path / "run", resume=True)
    graph.write_text(text)
    assert tiny.tune(manifest, tmp_path / "run", resume=True).figures is not None


# ---- signals ---------------------------------------------------------------------------------------------------------


def in_forward(step, act):
    """Something that happens in the middle of a step."""

    def alter(network):
        calls = []

        def hook(module, inputs):
            if module.training:
                calls.append(None)
                if len(calls) == step:
                    act(network)

        network.backbone.second.register_forward_pre_hook(hook)

    return alter


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_within_a_step_stops_after_that_step(manifest, unbroken, tmp_path, number):
    alter = in_forward(7, lambda network: os.kill(os.getpid(), number))
    before = signal.getsignal(number)
    tuned = tiny.tune(manifest, tmp_path / "run", alter=alter)
    assert tuned.figures is None
    assert tiny.last(tmp_path / "run").step == 7
    assert signal.getsignal(number) == before
    tiny.tune(manifest, tmp_path / "run", resume=True)
    same(tmp_path / "run", unbroken)


def test_a_signal_within_validation_does_not_wait_for_its_end(manifest, unbroken, tmp_path):
    def alter(network):
        def hook(module, inputs):
            if not module.training:
                os.kill(os.getpid(), signal.SIGTERM)

        network.backbone.second.register_forward_pre_hook(hook)

    tiny.tune(manifest, tmp_path / "run", alter=alter)
    assert tiny.last(tmp_path / "run").step == PER_EPOCH
    assert tiny.metrics(tmp_path / "run") == []
    assert tiny.best(tmp_path / "run") is None
    tiny.tune(manifest, tmp_path / "run", resume=True)
    same(tmp_path / "run", unbroken)


def test_the_second_signal_stops_at_once(manifest, unbroken, tmp_path):
    def twice(network):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        tiny.tune(manifest, tmp_path / "run", alter=in_forward(7, twice))
    assert tiny.last(tmp_path / "run").step == PER_EPOCH
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("decode")]
    tiny.tune(manifest, tmp_path / "run", resume=True)
    same(tmp_path / "run", unbroken)


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
            "step 10: the validation figure nll became NaN or infinite, first in backbone.norm",
        ),
    ],
)
def test_nan_is_named_and_never_saved(manifest, unbroken, tmp_path, act, what):
    with pytest.raises(NonFiniteError, match=rf"^{what}\. Nothing .* The photos: \S*\.png, ") as caught:
        tiny.tune(manifest, tmp_path / "run", alter=in_forward(8, act))
    assert str(caught.value).count(".png") == (7 if "step 10" not in what else 10)
    for kept in (tiny.last(tmp_path / "run"), tiny.best(tmp_path / "run")):
        assert kept.step == PER_EPOCH
        assert all(bool(tensor.isfinite().all()) for tensor in kept.tensors.values())
    tiny.tune(manifest, tmp_path / "run", resume=True)
    same(tmp_path / "run", unbroken)


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
    alter = in_forward(3, poison("auxiliary_heads.0.coarse.bias"))
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
    with pytest.raises(ImageFileError, match=f"^{bad}: "):
        tiny.tune(own_photos, tmp_path / "run")


def test_bad_photos_are_left_out_and_named_once(own_photos, tmp_path):
    bad = spoil(own_photos, "*-small-[14].png")  # two to train on, two to validate on
    tuned = tiny.tune(own_photos, tmp_path / "run", on_bad_file="skip", watcher=asks_at(3))
    more = tiny.tune(own_photos, tmp_path / "run", on_bad_file="skip", resume=True)
    assert left_out(tuned.watcher.notes + more.watcher.notes) == bad
    events = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert left_out(event["text"] for event in events if event["event"] == "note") == bad
    progress = tiny.last(tmp_path / "run").state["progress"]
    assert sorted(progress["bad_files"]) == bad


def test_bad_photos_weigh_nothing_and_are_not_replaced(own_photos, tmp_path):
    (bad,) = spoil(own_photos, "grey-1.png")
    chosen = {"batch_size": 15, "epochs": 1, "dropout": 0.0, "fixed_statistics": True, "label_smoothing": 0.0}
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


def test_a_batch_without_a_readable_photo(own_photos, tmp_path):
    bad = spoil(own_photos, "*-[0].png")
    tuned = tiny.tune(own_photos, tmp_path / "run", on_bad_file="skip", batch_size=1)
    assert tuned.watcher.losses.count(0.0) == 3 * len(bad)
    assert left_out(tuned.watcher.notes) == bad
    assert tuned.figures is not None
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


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_no_tensors_pile_up(manifest, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_AHEAD", 0)  # or those that are being decoded would count, some more, some less
    counts = []

    def count(row):
        gc.collect()
        counts.append(sum(type(one) in (torch.Tensor, torch.nn.Parameter) for one in gc.get_objects()))

    gc.collect()
    gc.freeze()  # whatever there was before is not looked at
    try:
        tiny.tune(manifest, tmp_path / "run", watcher=tiny.Watcher(on_epoch=count), epochs=5)
    finally:
        gc.unfreeze()
    assert len(counts) == 5
    assert counts[1] == counts[2] == counts[3] > 0
