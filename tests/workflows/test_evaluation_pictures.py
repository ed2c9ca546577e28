"""Which photos are kept as pictures: one of each confusion first, and training photos of confused classes."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from finegraph.data.samples import Sample, Samples
from finegraph.evaluation.photo_pack import unpack_photos
from finegraph.graph import LabelGraph
from finegraph.workflows.evaluation import report_details
from finegraph.workflows.evaluation.report_details import MAX_PER_LABEL, evaluated_pictures, training_pictures

GRAPH = LabelGraph(["a", "b", "c", "d"])


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    listed = []
    for number in range(32):
        path = folder / f"{number:02d}.png"
        noise = np.random.default_rng(number).integers(0, 256, (240, 240, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path)
        listed.append(Sample(path, "abcd"[number % 4]))
    return Samples(listed, "here")


def results(fine, predicted, log_prob=None):
    """What an evaluation knows of photos, as far as pictures need it."""
    fine, predicted = np.array(fine), np.array(predicted)
    return SimpleNamespace(
        sample=np.arange(len(fine)), fine=fine, predicted=predicted, right=(fine == predicted).astype(np.int8),
        log_prob=np.zeros(len(fine)) if log_prob is None else np.array(log_prob),
    )  # fmt: skip


def test_one_photo_of_each_confusion_comes_first():
    found = results([0, 0, 0, 1, 1, 2], [1, 1, 1, 0, 1, 3], [-1.0, -3.0, -2.0, -5.0, 0.0, -4.0])
    assert report_details._confused_in_turns(found) == [3, 5, 1, 2, 0]


@pytest.mark.deep
def test_close_pictures_are_of_wrong_answers_and_the_gallery(samples):
    found = results([n % 4 for n in range(32)], [(n % 4 + (n < 6)) % 4 for n in range(32)])
    packs = evaluated_pictures(samples, SimpleNamespace(gallery=np.array([30, 31])), found, False, 1, [])
    assert set(unpack_photos(packs["photos"])) == set(range(32))
    assert set(unpack_photos(packs["gallery"])) == {0, 1, 2, 3, 4, 5, 30, 31}


@pytest.mark.deep
def test_as_many_close_pictures_as_fit(samples, monkeypatch):
    found = results([n % 4 for n in range(32)], [(n % 4 + 1) % 4 for n in range(32)])
    monkeypatch.setattr(report_details, "CLOSE_BYTES", 150_000)
    packs = evaluated_pictures(samples, SimpleNamespace(gallery=np.array([], dtype=int)), found, False, 1, [])
    kept = set(unpack_photos(packs["gallery"]))
    assert 4 <= len(kept) < 32
    assert {number % 4 for number in kept} == {0, 1, 2, 3}  # each confusion has one


@pytest.mark.deep
def test_training_photos_are_of_confused_classes(samples):
    found = results([0, 0, 1], [1, 0, 1])  # a is taken for b; c and d have no part in it
    numbers, pack = training_pictures(samples, GRAPH, found, False, 1)
    labels = [samples[number].label for number in numbers]
    assert labels == ["a", "b"] * MAX_PER_LABEL
    assert set(unpack_photos(pack)) == set(range(2 * MAX_PER_LABEL))
    again, _ = training_pictures(samples, GRAPH, found, False, 1)
    assert again == numbers


def test_no_mistakes_no_training_photos(samples):
    numbers, pack = training_pictures(samples, GRAPH, results([0, 1], [0, 1]), False, 1)
    assert numbers == []
    assert unpack_photos(pack) == {}
