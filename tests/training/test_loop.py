"""Whole runs: to the last bit the same after any interruption, and never anything wrong that is saved."""

import gc
import os
import random
import signal
import threading

import pytest
import tiny
import torch

from finegraph.errors import SettingsError
from finegraph.training import batches
from finegraph.training.training_run import is_better

STEPS, PER_EPOCH = 15, 5
RANDOM = random.Random(20240229)


class Crash(Exception):
    """Stands for whatever ends a process."""


def crashes_at(step):
    def on_step(done):
        if done == step:
            raise Crash

    return tiny.Watcher(on_step)


def test_the_statistics_and_the_momentum_are_in_the_checkpoint(unbroken):
    tensors = tiny.last(unbroken).tensors
    assert {"network.backbone.norm.running_var", "optimizer.momentum.head.coarse.weight"} <= tensors.keys()
    assert not torch.equal(tensors["network.backbone.norm.running_mean"], torch.zeros(8))


@pytest.mark.deep
def test_another_seed_gives_another_run(manifest, unbroken, tmp_path):
    tiny.tune(manifest, tmp_path / "other", seed=1)
    with pytest.raises(AssertionError, match=r"running_mean|weight"):
        tiny.same(tmp_path / "other", unbroken)


# A request at an epoch's end comes before its validation, which then waits until the run goes on.
@pytest.mark.deep
@pytest.mark.parametrize(
    ("stops", "workers"),
    [
        ([1], 1),
        ([RANDOM.randrange(2, 4)], 2),
        ([5], 1),
        ([5], 2),
        ([RANDOM.randrange(6, 9), RANDOM.randrange(10, 14)], 1),
        ([RANDOM.randrange(6, 9), RANDOM.randrange(10, 14)], 2),
        ([5, 10], 2),
        ([15], 1),
    ],
    ids=str,
)
def test_a_run_that_was_asked_to_stop_goes_on_exactly(manifest, unbroken, tmp_path, stops, workers):
    path = tmp_path / "run"
    for number, step in enumerate(stops):
        tuned = tiny.tune(manifest, path, resume=number > 0, watcher=tiny.asks_at(step), workers=workers)
        assert tuned.metrics is None
        # Asked after a step was counted: one more is taken at the most, and none at the end of an epoch.
        assert tiny.last(path).step == (step if step % PER_EPOCH == 0 else step + 1)
        assert len(tiny.metrics(path)) == (tiny.last(path).step - 1) // PER_EPOCH
    tuned = tiny.tune(manifest, path, resume=True, workers=workers)
    assert tuned.watcher.notes[-1].startswith("going on from step ")
    tiny.same(path, unbroken)
    assert tuned.metrics == tiny.best(unbroken).state["progress"]["best_figures"]


@pytest.mark.deep
@pytest.mark.parametrize(("step", "minutes"), [(3, 0.0), (3, 5.0), (5, 0.0), (12, 5.0), (RANDOM.randrange(6, 15), 0.0)])
def test_a_run_that_died_goes_on_exactly(manifest, unbroken, tmp_path, step, minutes):
    path = tmp_path / "run"
    with pytest.raises(Crash):
        tiny.tune(manifest, path, watcher=crashes_at(step), checkpoint_minutes=minutes)
    tiny.tune(manifest, path, resume=True)
    tiny.same(path, unbroken)


@pytest.mark.deep
def test_a_run_that_died_between_a_row_and_its_checkpoint_goes_on_exactly(manifest, unbroken, tmp_path):
    path = tmp_path / "run"

    def die(row):
        raise Crash

    with pytest.raises(Crash):
        tiny.tune(manifest, path, watcher=tiny.Watcher(on_epoch=die))
    assert len(tiny.metrics(path)) == 1
    tiny.tune(manifest, path, resume=True, watcher=tiny.asks_at(5))
    with pytest.raises(Crash):  # now from a checkpoint at the last step of the epoch, before its validation
        tiny.tune(manifest, path, resume=True, watcher=tiny.Watcher(on_epoch=die))
    assert len(tiny.metrics(path)) == 1
    tiny.tune(manifest, path, resume=True)
    tiny.same(path, unbroken)


@pytest.mark.deep
def test_resuming_a_finished_run_changes_nothing(manifest, unbroken, tmp_path):
    path = tmp_path / "run"
    tiny.tune(manifest, path)
    tuned = tiny.tune(manifest, path, resume=True)
    assert tuned.watcher.losses == []
    assert tuned.metrics is not None
    tiny.same(path, unbroken)


@pytest.mark.deep
def test_resuming_falls_back_over_a_damaged_checkpoint(manifest, unbroken, tmp_path):
    path = tmp_path / "run"
    tiny.tune(manifest, path, watcher=tiny.asks_at(7))
    file = tiny.last(path).path / "tensors.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    tuned = tiny.tune(manifest, path, resume=True)
    assert "going on from step 5 of 15" in tuned.watcher.notes
    assert any("tensors.safetensors" in note for note in tuned.watcher.notes)
    tiny.same(path, unbroken)


def test_the_best_and_the_last_are_kept(manifest, unbroken):
    rows = tiny.metrics(unbroken)
    best = max(rows, key=lambda row: (row["val_top1"], -row["val_nll"]))
    assert tiny.best(unbroken).step == best["step"]
    assert tiny.best(unbroken).state["progress"]["best_figures"]["nll"] == best["val_nll"]
    assert tiny.last(unbroken).step == STEPS


@pytest.mark.parametrize(
    ("metrics", "before", "by_top1", "by_nll"),
    [
        ({"top1": 0.5, "nll": 1.0}, {}, True, True),
        ({"top1": 0.6, "nll": 1.2}, {"top1": 0.5, "nll": 1.0}, True, False),
        ({"top1": 0.4, "nll": 0.9}, {"top1": 0.5, "nll": 1.0}, False, True),
        ({"top1": 0.5, "nll": 0.9}, {"top1": 0.5, "nll": 1.0}, True, True),
        ({"top1": 0.6, "nll": 1.0}, {"top1": 0.5, "nll": 1.0}, True, True),
        ({"top1": 0.5, "nll": 1.0}, {"top1": 0.5, "nll": 1.0}, False, False),
        ({}, {"top1": 0.5, "nll": 1.0}, False, False),
        ({}, {}, True, True),
    ],
)
def test_what_is_better(metrics, before, by_top1, by_nll):
    assert is_better(metrics, before, "top1") == by_top1
    assert is_better(metrics, before, "nll") == by_nll


@pytest.mark.deep
def test_the_best_may_be_that_of_least_surprise(manifest, tmp_path):
    tiny.tune(manifest, tmp_path / "run", best_by="nll")
    rows = tiny.metrics(tmp_path / "run")
    assert tiny.best(tmp_path / "run").step == min(rows, key=lambda row: row["val_nll"])["step"]


def test_without_validation_the_last_epoch_is_the_best(tmp_path):
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos", per_class=2, val=0)
    tuned = tiny.tune(manifest, tmp_path / "run")
    assert tuned.metrics == {}
    assert tiny.best(tmp_path / "run").step == tiny.last(tmp_path / "run").step
    assert set(tiny.metrics(tmp_path / "run")[0]) == {"epoch", "step", "train_loss", "rate"}


# ---- what may not change ---------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_other_photos_are_refused(tmp_path):
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos", per_class=3)
    tiny.tune(manifest, tmp_path / "run", watcher=tiny.asks_at(1))
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
    assert tiny.tune(manifest, tmp_path / "run", resume=True).metrics is not None


# ---- signals ---------------------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_within_a_step_stops_after_that_step(manifest, unbroken, tmp_path, number):
    alter = tiny.in_forward(7, lambda network: os.kill(os.getpid(), number))
    before = signal.getsignal(number)
    tuned = tiny.tune(manifest, tmp_path / "run", alter=alter)
    assert tuned.metrics is None
    assert tiny.last(tmp_path / "run").step == 7
    assert signal.getsignal(number) == before
    tiny.tune(manifest, tmp_path / "run", resume=True)
    tiny.same(tmp_path / "run", unbroken)


@pytest.mark.deep
def test_a_signal_within_validation_does_not_wait_for_its_end(manifest, unbroken, tmp_path):
    def alter(network):
        sent = []

        def hook(module, inputs):
            if not module.training and not sent:
                sent.append(True)
                os.kill(os.getpid(), signal.SIGTERM)

        network.backbone.second.register_forward_pre_hook(hook)

    tiny.tune(manifest, tmp_path / "run", alter=alter)
    assert tiny.last(tmp_path / "run").step == PER_EPOCH
    assert tiny.metrics(tmp_path / "run") == []
    assert tiny.best(tmp_path / "run") is None
    tiny.tune(manifest, tmp_path / "run", resume=True)
    tiny.same(tmp_path / "run", unbroken)


@pytest.mark.deep
def test_the_second_signal_stops_at_once(manifest, unbroken, tmp_path):
    def twice(network):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        tiny.tune(manifest, tmp_path / "run", alter=tiny.in_forward(7, twice))
    assert caught.traceback  # which holds on to all that the run was using
    assert tiny.last(tmp_path / "run").step == PER_EPOCH
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("decode")]
    tiny.tune(manifest, tmp_path / "run", resume=True)
    tiny.same(tmp_path / "run", unbroken)


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.deep
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
