"""The comparison of a file with its model: what it finds, what it refuses, and what it is asked with."""

import numpy as np
import pytest
from PIL import Image

import tiny_classifier
from finegraph.data.photo_decoding import read_picture
from finegraph.data.transforms import ViewSettings, make_view
from finegraph.errors import ExportError
from finegraph.model.export.export_check import (
    LIMIT,
    TINY,
    compare_outputs,
    draw_evidence,
    drawn_pictures,
    plain_difference,
    plain_view,
    refuse_differences,
)
from finegraph.model.export.runners import ModelRunner
from reference.random_graphs import random_graphs


@pytest.fixture
def model(monkeypatch):
    tiny_classifier.register(monkeypatch)
    return tiny_classifier.classifier()


def differences(model, change):
    """What is found where a file answers as the model does, but for a change of its answers."""
    images = np.random.default_rng(0).integers(0, 256, (6, 24, 24, 3), dtype=np.uint8)
    asked = []

    def file(images, given=None):
        asked.append((len(images), given is not None))
        answers = {name: value.copy() for name, value in ModelRunner(model)(images, given).items()}
        change(answers, given)
        return answers

    told = []
    names = [f"photo {number}" for number in range(6)]
    found = compare_outputs(file, ModelRunner(model), model.graph, images, names, lambda *both: told.append(both))
    assert asked == [(1, False), (1, True), (3, False), (3, True), (2, False), (2, True)]
    assert told == [(1, 6), (4, 6), (6, 6)]
    return {(one.output, one.given_evidence): one for one in found}


def test_no_difference(model):
    found = differences(model, lambda answers, given: None)
    assert list(found) == [
        ("log_probs", False), ("log_probs", True), ("kind_log_probs", False), ("kind_log_probs", True),
        ("embedding", False),
    ]  # fmt: skip
    assert all(one.largest == 0 for one in found.values())
    refuse_differences(list(found.values()))


def test_a_difference_is_found_and_named(model):
    def change(answers, given):
        if given is None and len(answers["log_probs"]) == 3:
            answers["kind_log_probs"][1, 0] += 0.01

    found = differences(model, change)
    worst = found["kind_log_probs", False]
    assert (worst.log, worst.photo) == (pytest.approx(0.01, rel=1e-3), "photo 2")
    assert 0 < worst.value < 0.011
    assert sum(one.largest > 0 for one in found.values()) == 1
    message = r"kind_log_probs differs by 0.01 for photo 2, expected at most 0.0001; nothing was written"
    with pytest.raises(ExportError, match=message):
        refuse_differences(list(found.values()))


def test_logarithms_of_tiny_probabilities_are_not_compared(model):
    def change(answers, given):
        log = answers["log_probs"]
        log[(log < np.log(TINY / 10)) & ~np.isneginf(log)] -= 0.5

    found = differences(model, change)
    assert found["log_probs", False].log == 0
    assert found["log_probs", False].value <= TINY / 10
    refuse_differences(list(found.values()))


def nan(answers):
    answers["log_probs"][0, 0] = np.nan


def ruled_out(answers):
    answers["log_probs"][0, 0] = -np.inf


def not_possible(answers):
    answers["possible"][0] = False


def other_shape(answers):
    answers["log_probs"] = answers["log_probs"][:, 1:]


def other_embedding(answers):
    answers["embedding"][0, 0] += 2 * LIMIT


@pytest.mark.parametrize("fault", [nan, ruled_out, not_possible, other_shape, other_embedding])
def test_what_is_refused(model, fault):
    found = differences(model, lambda answers, given: fault(answers) if given is None else None)
    with pytest.raises(ExportError, match=r"the exported file does not answer as the model: (log_|emb|poss)"):
        refuse_differences(list(found.values()))


def test_what_is_improbable_may_not_become_impossible(model):
    lowest = []

    def change(answers, given):
        row, column = np.unravel_index(answers["log_probs"].argmin(), answers["log_probs"].shape)
        if given is None:
            lowest.append(np.exp(answers["log_probs"][row, column]))
            answers["log_probs"][row, column] = -np.inf

    found = differences(model, change)
    assert 0 < min(lowest) < LIMIT
    assert found["log_probs", False].largest == np.inf


def test_a_difference_given_evidence_is_refused(model):
    def change(answers, given):
        if given is not None:
            answers["log_probs"] += 1.0

    with pytest.raises(ExportError, match=r"log_probs given evidence differs by 1[.]?[0-9]* for"):
        refuse_differences(list(differences(model, change).values()))


def test_evidence_is_always_possible_and_of_every_form():
    for number, case in enumerate(random_graphs(36, seed=2)):
        graph = case.graph
        given = draw_evidence(graph, 6, np.random.default_rng(number))
        ends = np.cumsum([len(graph.labels(kind)) for kind in graph.kinds])[:-1]
        parts = np.split(given.coarse, ends, axis=1) if graph.kinds else []
        possible = given.fine.copy()
        for part, matrix in zip(parts, case.matrices, strict=True):
            possible *= part @ (matrix.T > 0)
        assert (possible.max(axis=1) > 0).all()
        assert np.isin(given.coarse[[0, 1, 3, 4]], [0, 1]).all()
        assert (given.coarse[[2, 5]] > 0).all()
        again = draw_evidence(graph, 6, np.random.default_rng(number))
        assert np.array_equal(given.coarse, again.coarse)


def test_plain_preparation_of_ordinary_photos_is_the_same(tmp_path):
    for views in (ViewSettings(size=24, resize=33), ViewSettings(size=24, resize=31, keep_shape=True)):
        path = tmp_path / "photo.png"
        tiny_classifier.picture(3, 90, 61).save(path)
        ours = make_view(read_picture(path, at_least=(views.resize,) * 2), views, "centre").permute(1, 2, 0).numpy()
        assert np.array_equal(plain_view(path, views), ours)


def test_plain_preparation_of_a_large_jpeg_differs_a_little(model, tmp_path):
    path = tmp_path / "photo.jpg"
    noise = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((800, 640), Image.Resampling.BICUBIC).save(path)
    ours = make_view(read_picture(path, at_least=(32, 32)), model.views, "centre").permute(1, 2, 0).numpy()[None]
    plain = plain_view(path, model.views)[None]
    run = ModelRunner(model)
    found = plain_difference(ours, plain, run(ours), run(plain))
    assert 0 < found.mean_pixel < 10
    assert found.mean_pixel < found.largest_pixel
    expected = np.abs(np.exp(run(ours)["log_probs"]) - np.exp(run(plain)["log_probs"])).max()
    assert found.probability == pytest.approx(expected)
    assert found.other_answers in (0, 1)


def test_drawn_pictures_are_pictures():
    pictures = drawn_pictures(4)
    assert [one.tobytes() for one in pictures] == [one.tobytes() for one in drawn_pictures(4)]
    assert len({one.size for one in pictures}) == 4
    assert all(np.array(one).std() > 20 and one.mode == "RGB" for one in pictures)
