"""Photos through a small network: what comes out is what `predict` says, and bad photos are named."""

import dataclasses

import numpy as np
import pytest
import torch
from tiny_runs import GRAPH, make_foreign

from finegraph.data.samples import Samples
from finegraph.data.sources import read_samples
from finegraph.errors import DataError, InputError, PhotoFileError, UnknownNameError
from finegraph.evaluation import calibrate_photos, calibrated, evaluate_photos
from finegraph.model.answering import pipeline
from finegraph.model.answering.unknown import UNKNOWN_SCORES, UnknownRule
from finegraph.model.photo_classifier import PhotoClassifier


@pytest.fixture
def test_photos(manifest):
    return read_samples(manifest).split("test")


@pytest.mark.parametrize("views", [1, 10])
@pytest.mark.parametrize("box", [None, True])
def test_answers_are_those_of_predict(classifier, test_photos, views, box):
    classifier = PhotoClassifier(
        classifier.network, classifier.views, temperature=1.7, unknown=UnknownRule("energy", -2.0, 0.9)
    )
    found = evaluate_photos(classifier, test_photos, views=views, box=box, risk=0.2, engine="torch")
    boxes = [sample.box for sample in test_photos] if box else None
    paths = [sample.path for sample in test_photos]
    expected = classifier.predict(paths, views=views, box=boxes, risk=0.2, engine="torch")
    rows = found.samples
    assert (found.result.photos, found.result.views, found.result.box) == (12, views, bool(box))
    assert found.result.temperature == 1.7
    for place, one in enumerate(expected):
        assert GRAPH.fine[rows.predicted[place]] == one.top[0].label
        assert rows.probability[place] == np.float32(one.top[0].probability)
        for number, kind in enumerate(GRAPH.kinds):
            assert rows.kinds_probability[place, number] == np.float32(one.kinds[kind][0].probability)
        level = int(rows.statements.level[place])
        assert (level >= 0) == (one.sure is not None)
        if one.sure is not None:
            assert (None, *GRAPH.kinds)[level] == one.sure.kind
        assert rows.unknown["energy"][place] == one.unknown.score
    right = sum(one.top[0].label == sample.label for one, sample in zip(expected, test_photos, strict=True))
    assert found.result.top1 == right / 12
    kept = sum(not one.unknown.is_unknown for one in expected)
    assert found.result.unknown.known_kept == kept / 12


def test_labels_seen_on_photos_come_first(classifier, test_photos):
    """In the test split, the first photo of each class is said to be large."""
    found = evaluate_photos(classifier, test_photos, engine="torch")
    size = GRAPH.kinds.index("size")
    for place, sample in enumerate(test_photos):
        answer = GRAPH.labels("size")[found.samples.kinds_predicted[place, size]]
        truth = sample.kinds.get("size", sample.label.split()[0])
        assert found.samples.kinds_right[place, size] == (answer == truth)
    assert found.result.kind_photos == {"colour": 12, "size": 12, "framed": 6}


def test_memory_is_bounded_by_parts(classifier, test_photos, monkeypatch):
    told = []
    whole = evaluate_photos(classifier, test_photos, engine="torch")
    monkeypatch.setattr(pipeline, "_MAX_ROWS", 2)
    parts = evaluate_photos(classifier, test_photos, engine="torch", progress=lambda *now: told.append(now))
    assert told[-1] == (12, 12)
    assert sorted(told) == told
    assert parts.result.per_class == whole.result.per_class
    assert parts.result.nll == whole.result.nll
    assert parts.samples.sample.tolist() == list(range(12))


class TestBadPhotos:
    @pytest.fixture
    def broken(self, test_photos):
        test_photos[4].path.write_bytes(b"<html>")
        test_photos[7].path.unlink()
        return test_photos

    def test_are_errors_by_default(self, classifier, broken):
        with pytest.raises(PhotoFileError, match="this is no photo of a known format"):
            evaluate_photos(classifier, broken, engine="torch")

    def test_are_left_out_and_named(self, classifier, broken):
        found = evaluate_photos(classifier, broken, on_bad_file="skip", engine="torch")
        assert found.result.photos == 10
        assert [one.path for one in found.result.bad_photos] == [str(broken[4].path), str(broken[7].path)]
        assert found.result.bad_photos[1].reason == "there is no such file"
        assert found.samples.sample.tolist() == [0, 1, 2, 3, 5, 6, 8, 9, 10, 11]
        good = Samples([sample for number, sample in enumerate(broken) if number not in (4, 7)])
        without = evaluate_photos(classifier, good, engine="torch").result
        assert dataclasses.replace(found.result, bad_photos=()) == without

    def test_all_of_them(self, classifier, broken):
        bad = Samples([broken[4], broken[7]])
        with pytest.raises(InputError, match="nothing to evaluate: expected at least one photo that can be read"):
            evaluate_photos(classifier, bad, on_bad_file="skip", engine="torch")


def test_photos_of_none_of_the_classes(classifier, test_photos, tmp_path):
    foreign = read_samples(make_foreign(tmp_path / "foreign"))
    told = []
    found = evaluate_photos(
        classifier, test_photos, foreign=foreign, engine="torch", progress=lambda *now: told.append(now)
    ).result.unknown
    assert (found.threshold, found.detected, found.photos) == (None, None, 5)
    assert list(found.auroc_by_score) == list(UNKNOWN_SCORES)
    assert found.auroc == found.auroc_by_score["kinds"]
    assert told[-1] == (17, 17)
    (tmp_path / "foreign/small red").mkdir()
    (tmp_path / "foreign/green/0.png").rename(tmp_path / "foreign/small red/0.png")
    with pytest.raises(DataError, match="expected photos of none of the known classes, got some of 'small red'"):
        evaluate_photos(classifier, test_photos, foreign=read_samples(tmp_path / "foreign"), engine="torch")


def test_calibration(classifier, manifest, test_photos, monkeypatch):
    """The temperature is fitted to untempered scores, and the threshold keeps what it says."""
    val = read_samples(manifest).split("val")
    spoilt = PhotoClassifier(classifier.network, classifier.views, temperature=9.0)
    fit = calibrate_photos(classifier, val, score="energy", kept=0.75, engine="torch")
    assert calibrate_photos(spoilt, val, score="energy", kept=0.75, engine="torch") == fit
    ready = calibrated(spoilt, fit, "val")
    assert ready.about["calibration"]["split"] == "val"
    assert (ready.temperature, ready.unknown) == (fit.temperature.temperature, fit.unknown)
    on_val = evaluate_photos(ready, val, engine="torch").result
    assert on_val.nll == pytest.approx(fit.temperature.nll_after, rel=1e-3)
    assert on_val.unknown.known_kept == 13 / 16
    assert on_val.nll < evaluate_photos(spoilt, val, engine="torch").result.nll
    assert fit.temperature.photos == 16


def test_the_network_stays_as_it_was(classifier, test_photos):
    classifier.network.train()
    before = {name: value.clone() for name, value in classifier.network.state_dict().items()}
    evaluate_photos(classifier, test_photos, engine="torch")
    assert classifier.network.training
    assert all(torch.equal(value, before[name]) for name, value in classifier.network.state_dict().items())


class TestWrongArguments:
    def test_labels(self, classifier, test_photos):
        wrong = Samples([*test_photos, dataclasses.replace(test_photos[0], label="smal red")])
        with pytest.raises(UnknownNameError, match="fine label 'smal red'; did you mean 'small red'"):
            evaluate_photos(classifier, wrong)

    def test_no_labels(self, classifier, test_photos):
        bare = Samples([dataclasses.replace(sample, label=None, kinds={}) for sample in test_photos])
        with pytest.raises(DataError, match="expected photos with labels to compare answers with, got 12 without any"):
            evaluate_photos(classifier, bare)

    def test_options(self, classifier, test_photos):
        for options, message in [
            ({"views": 5}, "views: expected 1 or 10, got 5"),
            ({"views": True}, "views: expected 1 or 10, got True"),
            ({"on_bad_file": "swap"}, "on_bad_file must be 'error' or 'skip', got 'swap'"),
        ]:
            with pytest.raises(InputError, match=message):
                evaluate_photos(classifier, test_photos, **options)

    def test_calibration(self, classifier, test_photos):
        with pytest.raises(UnknownNameError, match="unknown score of unknown photos 'odin'"):
            calibrate_photos(classifier, test_photos, score="odin")
        with pytest.raises(InputError, match="must be above 0 and at most 1, got 95"):
            calibrate_photos(classifier, test_photos, kept=95)
