"""Stored features: found again when they are the same, and only then; safe from kills, damage and other processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from feature_parts import VIEWS, Tiny, photo, samples_in, save_photos, tiny_network

from finegraph.data.samples import Box, Sample, Samples
from finegraph.model.features import cache as cache_module
from finegraph.model.features import default_cache_folder, extract_features
from finegraph.model.features import work as work_module
from finegraph.model.features.cache import FeatureCache


@pytest.fixture
def photos(tmp_path):
    return save_photos(tmp_path / "photos")


@pytest.fixture
def extract(tmp_path):
    """Extract with the cache of the test."""

    def run(samples, network=None, views=VIEWS, **settings):
        return extract_features(network or tiny_network(), samples, views, cache=tmp_path / "cache", **settings)

    return run


def shards(tmp_path):
    return sorted((tmp_path / "cache").rglob("*.safetensors"))


# ---- what is found again ---------------------------------------------------------------------------------------------


def test_the_second_time_no_network_is_opened(photos, extract, monkeypatch):
    first = extract(photos)
    assert first.cached == 0

    def no_engine(*_):
        raise AssertionError("an engine was made")

    monkeypatch.setattr(work_module, "make_engine", no_engine)
    monkeypatch.setattr(work_module, "read_views", no_engine)
    second = extract(photos)
    assert second.cached == len(photos)
    assert torch.equal(second.fine, first.fine)
    assert second.samples == first.samples


@pytest.mark.parametrize("engines", [("onnx", "torch"), ("torch", "onnx")])
def test_what_one_engine_stored_serves_the_other(photos, extract, engines):
    one, two = (extract(photos, engine=engine) for engine in engines)
    assert two.cached == len(photos)
    assert torch.equal(one.fine, two.fine)


def test_only_new_photos_are_computed(tmp_path, photos, extract):
    extract(photos[:4])
    photo(100).save(tmp_path / "photos" / "new.png")
    found = extract(samples_in(tmp_path / "photos"))
    assert (found.cached, len(found.samples)) == (4, 7)
    alone = extract_features(tiny_network(), found.samples, VIEWS, cache=False)
    assert torch.allclose(found.fine, alone.fine, atol=1e-5)


def test_a_changed_photo_is_computed_again_even_if_its_size_and_time_stay(tmp_path, photos, extract):
    path = tmp_path / "photos" / "002.bmp"
    photo(50).save(path)
    samples = samples_in(tmp_path / "photos")
    before = extract(samples)
    about = path.stat()
    photo(51).save(path)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (about.st_size, about.st_mtime_ns)
    after = extract(samples)
    assert after.cached == len(samples) - 1
    changed = [not torch.equal(one, two) for one, two in zip(before.fine, after.fine, strict=True)]
    assert [sample.path for sample, other in zip(samples, changed, strict=True) if other] == [path]


def test_names_and_folders_do_not_matter(tmp_path, photos, extract):
    first = extract(photos)
    shutil.copytree(tmp_path / "photos", tmp_path / "moved")
    moved = extract(samples_in(tmp_path / "moved"))
    assert moved.cached == len(photos)
    assert torch.equal(moved.fine, first.fine)


def test_copies_share_a_row(tmp_path, photos, extract):
    for number in range(3):
        shutil.copy(tmp_path / "photos" / "000.png", tmp_path / "photos" / f"copy{number}.png")
    samples = samples_in(tmp_path / "photos")
    found = extract(samples, threads=1)
    assert torch.equal(found.fine[0], found.fine[-1])
    assert sum(len(FeatureCache(path.parent, 6)._place) for path in shards(tmp_path)) == 6
    assert extract(samples).cached == 9


def test_rows_are_found_in_the_run_that_stores_them(tmp_path):
    store = FeatureCache(tmp_path, 2)
    rows = {bytes([number]) * 16: np.full(2, number, np.float32) for number in range(3)}
    assert store.get(bytes(16)) is None
    for key, row in rows.items():
        store.put(key, row)
    for _ in range(2):
        assert all(np.array_equal(store.get(key), row) for key, row in rows.items())
        store.flush()
    assert len(list(tmp_path.iterdir())) == 1


def test_boxes_have_rows_of_their_own(tmp_path, photos, extract):
    def boxed(box):
        return Samples(replace(sample, box=box) for sample in photos)

    views = replace(VIEWS, box=True)
    extract(photos, views=views)
    assert extract(boxed(Box(1, 2, 30, 40)), views=views).cached == 0
    assert extract(boxed(Box(1, 2, 30, 40)), views=views).cached == 6
    assert extract(boxed(Box(1, 2, 30, 41)), views=views).cached == 0
    assert extract(boxed(Box(1, 2, 30, 40))).cached == 6  # boxes that are not used do not matter
    assert extract(photos).cached == 6


@pytest.mark.parametrize(
    "change",
    [{"size": 31}, {"resize": 41}, {"keep_shape": True}, {"interpolation": "bicubic"}],
    ids=lambda change: next(iter(change)),
)
def test_another_way_to_cut_photos_is_computed_again(photos, extract, change):
    first = extract(photos)
    other = extract(photos, views=replace(VIEWS, **change))
    assert other.cached == 0
    assert not torch.allclose(other.fine, first.fine, atol=1e-4)
    assert extract(photos).cached == 6


def test_ten_views_have_rows_of_their_own(photos, extract):
    one = extract(photos)
    ten = extract(photos, view="ten")
    assert ten.cached == 0
    assert torch.allclose(ten.fine[:, 0], one.fine, atol=1e-5)
    again = extract(photos, view="ten")
    assert torch.equal(again.fine, ten.fine)
    assert (again.cached, again.notes) == (6, ())
    assert extract(photos).cached == 6


def test_other_weights_and_layers_are_computed_again(photos, extract):
    extract(photos)
    slightly = Tiny()
    with torch.no_grad():
        slightly.norm.running_var[0] += 1e-6
    assert extract(photos, tiny_network(slightly)).cached == 0

    scaled = Tiny()
    scaled.preprocessing = replace(scaled.preprocessing, mean=(0.5, 0.5, 0.5))
    assert extract(photos, tiny_network(scaled)).cached == 0
    wider = Tiny()
    wider.norm.eps = 1e-2
    assert extract(photos, tiny_network(wider)).cached == 0


def test_what_does_nothing_in_evaluation_does_not_matter(photos, extract):
    extract(photos, tiny_network(Tiny(dropout=0.2)))
    assert extract(photos, tiny_network(Tiny(dropout=0.5)).eval()).cached == 6
    assert extract(photos, tiny_network(Tiny().freeze())).cached == 6


# ---- kills and other processes ---------------------------------------------------------------------------------------

_RUN = """
import os, signal, sys, torch
torch.set_num_threads(1)
sys.path.insert(0, {here!r})
from pathlib import Path
from feature_parts import VIEWS, samples_in, tiny_network
from finegraph.model.features import cache, extract_features
cache._SECONDS = cache._SHARE = 0.0
def progress(done, total):
    print(done, flush=True)
    if done >= int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
samples = samples_in(Path(sys.argv[1]))
extract_features(tiny_network(), samples, VIEWS, cache=sys.argv[2], engine="torch", progress=progress)
"""


def start(tmp_path, until):
    script = _RUN.format(here=str(Path(__file__).parent))
    command = [sys.executable, "-c", script, str(tmp_path / "photos"), str(tmp_path / "cache"), str(until)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.deep
def test_rows_of_a_killed_process_are_not_lost(tmp_path, extract):
    samples = save_photos(tmp_path / "photos", 40)
    process = start(tmp_path, 24)
    process.communicate(timeout=60)
    assert process.returncode == -9
    found = extract(samples)
    assert found.cached == 24
    assert found.notes == ()
    assert extract(samples).cached == 40


@pytest.mark.deep
def test_processes_may_share_a_cache(tmp_path, extract):
    samples = save_photos(tmp_path / "photos", 40)
    processes = [start(tmp_path, 1000) for _ in range(2)]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    found = extract(samples)
    assert (found.cached, found.notes) == (40, ())
    alone = extract_features(tiny_network(), samples, VIEWS, cache=False)
    assert torch.allclose(found.fine, alone.fine, atol=1e-5)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_keeps_what_is_there(tmp_path, extract, stop):
    samples = save_photos(tmp_path / "photos", 30)

    def progress(done, total):
        if done >= 12:
            raise stop

    with pytest.raises(stop):
        extract(samples, progress=progress)
    assert extract(samples).cached == 12


def test_a_bad_photo_keeps_what_is_there(tmp_path, extract):
    samples = save_photos(tmp_path / "photos", 30)
    (tmp_path / "photos" / "009.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"009.png: the file is empty"):
        extract(samples)
    assert extract(samples, on_bad_file="skip").cached == 9


def test_long_runs_leave_few_files(tmp_path, monkeypatch):
    clock = iter(range(100_000))
    monkeypatch.setattr(cache_module.time, "monotonic", lambda: next(clock) * 0.1)
    store = FeatureCache(tmp_path, 2)
    written = []
    monkeypatch.setattr(cache_module, "write_shard", lambda folder, keys, rows: written.append(len(keys)) or folder)
    for number in range(50_000):
        store.put(number.to_bytes(16, "big"), np.zeros(2, np.float32))
    assert 100 < len(written) < 300
    assert written[0] <= 60
    store.flush()
    assert sum(written) == 50_000


# ---- damage ----------------------------------------------------------------------------------------------------------


def test_a_damaged_shard_is_noted_removed_and_computed_again(tmp_path, photos, extract):
    first = extract(photos)
    (path,) = shards(tmp_path)
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    found = extract(photos)
    assert found.cached == 0
    assert found.notes == (
        f"{path}: stored features are damaged (its checksum is wrong); they are removed and computed again",
    )
    assert torch.allclose(found.fine, first.fine, atol=1e-5)
    again = extract(photos)
    assert (again.cached, again.notes) == (6, ())


def test_every_flip_and_cut_is_noticed(tmp_path, photos, extract):
    extract(photos)
    (path,) = shards(tmp_path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    keys = sorted(FeatureCache(path.parent, 6)._place)
    for trial in range(300):
        damaged = bytearray(content)
        if trial % 3:
            damaged[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        else:
            damaged = damaged[: rng.integers(len(content))]
        path.write_bytes(damaged)
        store = FeatureCache(path.parent, 6)
        rows = [store.get(key) for key in keys]
        assert rows == [None] * 6, trial
        assert len(store.notes) == 1, trial
        assert not path.exists(), trial


def test_something_else_in_the_folder(tmp_path, photos, extract):
    extract(photos)
    folder = shards(tmp_path)[0].parent
    (folder / "other.safetensors").write_bytes(b"no tensors here")
    (folder / "notes.txt").write_text("mine")
    found = extract(photos)
    assert found.cached == 6
    assert len(found.notes) == 1
    assert "other.safetensors: stored features are damaged" in found.notes[0]
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_shard_that_cannot_be_read_is_left_alone(tmp_path, photos, extract):
    extract(photos)
    folder = shards(tmp_path)[0].parent
    (folder / "folder.safetensors").mkdir()
    found = extract(photos)
    assert found.cached == 6
    assert len(found.notes) == 1
    assert "folder.safetensors: stored features cannot be read" in found.notes[0]
    assert (folder / "folder.safetensors").is_dir()


def test_rows_of_another_size_are_not_used(tmp_path, photos, extract):
    extract(photos)
    folder = shards(tmp_path)[0].parent
    store = FeatureCache(folder, 7)
    assert [store.get(key) for key in list(store._place)] == [None] * 6
    assert "it does not hold features of this network" in store.notes[0]


def test_a_shard_that_another_process_removes(tmp_path, photos, extract):
    extract(photos)
    (path,) = shards(tmp_path)
    store = FeatureCache(path.parent, 6)
    path.unlink()
    assert [store.get(key) for key in list(store._place)] == [None] * 6
    assert store.notes == []


def test_a_folder_that_cannot_be_written(tmp_path, photos):
    (tmp_path / "file").write_text("a file is in the way")
    found = extract_features(tiny_network(), photos, VIEWS, cache=tmp_path / "file")
    assert len(found.samples) == 6
    assert len(found.notes) == 1
    assert "features cannot be stored (Not a directory)" in found.notes[0]
    assert "they will have to be computed again next time" in found.notes[0]


def test_a_full_disk(tmp_path, photos, extract, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module, "write_shard", full)
    monkeypatch.setattr(cache_module, "_SECONDS", 0.0)
    found = extract(photos, batch_size=1)
    assert [note.split(": ")[1] for note in found.notes] == [
        "features cannot be stored (No space left on device); they will have to be computed again next time"
    ]


def test_temporary_files_of_killed_processes_go_away(tmp_path, photos, extract):
    extract(photos)
    folder = shards(tmp_path)[0].parent
    old, new = folder / ".finegraph-0123456789abcdef.tmp", folder / ".finegraph-fedcba9876543210.tmp"
    for path in (old, new):
        path.write_bytes(b"half a shard")
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (long_ago, long_ago))
    assert extract(photos).notes == ()
    assert (old.exists(), new.exists()) == (False, True)


# ---- where -----------------------------------------------------------------------------------------------------------


def test_where_features_are_stored(monkeypatch, tmp_path, photos):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FINEGRAPH_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_cache_folder() == tmp_path / "home" / ".cache" / "finegraph"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_cache_folder() == tmp_path / "home" / ".cache" / "finegraph"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache_folder() == tmp_path / "xdg" / "finegraph"
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path / "own"))
    assert default_cache_folder() == tmp_path / "own"
    extract_features(tiny_network(), photos, VIEWS)
    assert len(list((tmp_path / "own" / "features").glob("tiny-*/*.safetensors"))) == 1


def test_nothing_is_stored_when_that_is_asked(monkeypatch, tmp_path, photos):
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path / "own"))
    extract_features(tiny_network(), photos, VIEWS, cache=False)
    assert not (tmp_path / "own").exists()


def test_samples_without_a_split_or_label(tmp_path, photos, extract):
    assert extract(Samples(Sample(sample.path) for sample in photos)).cached == 0
    assert extract(photos).cached == 6
