"""Batches: what is in them, in which order, and that threads end."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import tiny
import torch
from PIL import Image

from finegraph.data.dataset import PhotoDataset
from finegraph.data.samples import Sample, Samples
from finegraph.data.transforms import ViewSettings
from finegraph.errors import PhotoFileError
from finegraph.graph import LabelGraph
from finegraph.training import batches as batches_module
from finegraph.training.batches import batch_numbers, epoch_order, read_batches, steps_per_epoch
from finegraph.training.distributed import Ranks
from finegraph.workflows.training.training_data import read_training_data

GRAPH = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "y"}})


def photos_in(folder, count, bad=()):
    samples = []
    for number in range(count):
        path = folder / f"{number:02}.png"
        if number in bad:
            path.write_bytes(b"no photo")
        else:
            Image.new("RGB", (40, 40), (number, 0, 0)).save(path)
        samples.append(Sample(path, "ab"[number % 2]))
    return Samples(samples)


def dataset_of(samples, policy="error"):
    return PhotoDataset(samples, GRAPH, ViewSettings(resize=36, size=32), view="train", on_bad_file=policy)


@pytest.mark.parametrize(("count", "size"), [(35, 8), (33, 32), (5, 2), (1, 4), (8, 8), (7, 1)])
def test_each_photo_once_per_epoch_in_batches_of_equal_size(count, size):
    per_epoch = steps_per_epoch(count, size)
    found = list(batch_numbers(3, count, size, 0, 3 * per_epoch))
    assert len(found) == 3 * per_epoch
    for epoch in range(3):
        own = found[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert {one[0] for one in own} == {epoch}
        numbers = [number for _, samples in own for number in samples]
        assert numbers == epoch_order(3, epoch, count)
        assert sorted(numbers) == list(range(count))
        sizes = [len(samples) for _, samples in own]
        assert max(sizes) <= size
        assert max(sizes) - min(sizes) <= 1


def test_any_step_can_be_reached_directly():
    whole = list(batch_numbers(0, 35, 8, 0, 15))
    for start in range(15):
        assert list(batch_numbers(0, 35, 8, start, 15)) == whole[start:]


def test_orders_depend_on_seed_and_epoch():
    orders = {tuple(epoch_order(seed, epoch, 20)) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9


@pytest.mark.parametrize("size", [1, 2, 3])
def test_processes_share_each_batch(tmp_path, size):
    dataset = dataset_of(photos_in(tmp_path, 7))
    numbers = list(batch_numbers(0, 7, 2, 0, 4))
    parts = [list(read_batches(dataset, iter(numbers), Ranks(rank, size), 1)) for rank in range(size)]
    for step, (_, samples) in enumerate(numbers):
        shares = [part[step].sample.tolist() for part in parts]
        assert sorted(number for share in shares for number in share) == sorted(samples)
    assert any(not len(batch.sample) for part in parts for batch in part) == (size > 1)


@pytest.mark.deep
@pytest.mark.parametrize("workers", [2, 5])
def test_threads_change_nothing(manifest, workers):
    data = read_training_data(tiny.settings_for(manifest))
    dataset = PhotoDataset(data.train, data.graph, ViewSettings(resize=36, size=32), view="train")

    def batches(threads):
        return list(read_batches(dataset, batch_numbers(1, 35, 8, 2, 12), Ranks(), threads))

    for one, two in zip(batches(1), batches(workers), strict=True):
        assert one.sample.tolist() == two.sample.tolist()
        assert torch.equal(one.images, two.images)
        assert one.fine.tolist() == two.fine.tolist()
        assert one.kinds.keys() == two.kinds.keys() == {"colour"}


def test_a_bad_photo_is_named(tmp_path):
    batches = read_batches(dataset_of(photos_in(tmp_path, 4, bad=[2])), iter([(0, [0, 1]), (0, [2, 3])]), Ranks(), 2)
    assert next(batches).sample.tolist() == [0, 1]
    with pytest.raises(PhotoFileError, match=r"02\.png: "):
        next(batches)


def test_a_bad_photo_is_left_out_and_never_replaced(tmp_path):
    samples = photos_in(tmp_path, 6, bad=[1, 4, 5])
    numbers = [(0, [0, 1, 2]), (0, [4, 5]), (0, [3])]
    found = list(read_batches(dataset_of(samples, "skip"), iter(numbers), Ranks(), 2))
    assert [batch.sample.tolist() for batch in found] == [[0, 2], [], [3]]
    assert [[error.path for error in batch.bad] for batch in found] == [
        [str(samples[1].path)],
        [str(samples[4].path), str(samples[5].path)],
        [],
    ]
    assert found[0].images[:, 0].amax(dim=(1, 2)).tolist() == [0, 2]  # the red of each photo is its number


def test_photos_that_wait_are_not_decoded_any_more(tmp_path, monkeypatch):
    dataset, started, closing = dataset_of(photos_in(tmp_path, 6)), [], threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait=True, *, cancel_futures=False):
            super().shutdown(False, cancel_futures=cancel_futures)
            closing.set()
            super().shutdown(wait)

    def item(number, epoch):
        started.append(number)
        if len(started) > 1:
            closing.wait()
        return PhotoDataset.item(dataset, number, epoch)

    monkeypatch.setattr(batches_module, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(dataset, "item", item)
    batches = read_batches(dataset, batch_numbers(0, 6, 1, 0, 6), Ranks(), 1)
    next(batches)
    batches.close()
    assert len(started) <= 2


def test_threads_end_with_the_batches(tmp_path):
    def decoding():
        return [thread for thread in threading.enumerate() if thread.name.startswith("decode")]

    batches = read_batches(dataset_of(photos_in(tmp_path, 6)), batch_numbers(0, 6, 1, 0, 600), Ranks(), 3)
    next(batches)
    assert decoding()
    batches.close()
    assert not decoding()
