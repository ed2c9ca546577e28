"""The report at the end of training: the same metrics as an evaluation, from what training computed already."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from finegraph.data.transforms import make_view
from finegraph.errors import DataError
from finegraph.evaluation.results import EvaluationResult
from finegraph.graph import LabelGraph
from finegraph.labelling import LabelStore
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.reports.run_results import read_run
from finegraph.training.settings import TrainSettings
from finegraph.workflows.evaluate import evaluate_run
from finegraph.workflows.indexing import similar_photos
from finegraph.workflows.train import resume_settings, train_run
from finegraph.workflows.training import calibration, train_report
from finegraph.workflows.training.training_data import read_training_data
from training import tiny


class Quiet:
    """Is told how training goes, and puts something in the way of the report if asked to."""

    def __init__(self, in_the_way=False):
        self.in_the_way, self.stages = in_the_way, set()

    def data(self, data, folder):
        if self.in_the_way:
            from pathlib import Path

            (Path(folder) / "report.html").mkdir()

    def stage(self, name, done, total):
        self.stages.add(name)

    def step(self, *_):
        pass

    def epoch(self, row):
        pass

    def note(self, text):
        pass


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"))


def settings(manifest, **more):
    return TrainSettings(**{"data": str(manifest), "network": "tiny", "weights": "none", **more})


@pytest.mark.deep
def test_the_same_as_an_evaluation_afterwards(manifest, tmp_path):
    result = train_run(settings(manifest), Quiet(), run=tmp_path / "run", report=True)
    assert (result.report, result.report_fault) == (str(tmp_path / "run/report.html"), None)
    again = evaluate_run(tmp_path / "run", split="val")
    first, second = (read_run(tmp_path / "run", "run", name) for name in ("val", again.folder.name))
    assert again.folder.name == "val-2"
    assert first.result == EvaluationResult.read(again.folder / "result.json")
    assert first.result.top1 == pytest.approx(result.metrics["top1"])
    assert first.arrays.keys() == second.arrays.keys()
    for name in first.arrays:
        np.testing.assert_allclose(first.arrays[name], second.arrays[name], atol=1e-5, err_msg=name)
    assert first.about == second.about
    assert (first.thumbnails, first.gallery, first.similar) == (second.thumbnails, second.gallery, second.similar)


@pytest.mark.deep
def test_no_photo_goes_through_the_network_again(manifest, tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "extract_features", None)
    monkeypatch.setattr(PhotoClassifier, "pipeline", None)
    result = train_run(settings(manifest), Quiet(), run=tmp_path / "run", report=True)
    assert result.report is not None


@pytest.mark.deep
def test_of_a_network_that_was_trained_as_a_whole(manifest, tmp_path):
    watcher = Quiet()
    own = settings(manifest, tune="all", epochs=1, batch_size=16)
    result = train_run(own, watcher, run=tmp_path / "run", report=True)
    assert result.report == str(tmp_path / "run/report.html")
    assert "photos of val" in watcher.stages
    assert read_run(tmp_path / "run", "run").result.top1 == pytest.approx(result.metrics["top1"])
    assert "training photos" in watcher.stages
    found = read_run(tmp_path / "run", "run")
    assert found.about["notes"] == [SET]
    assert (found.arrays["similar"] >= 0).all()


@pytest.mark.deep
def test_similar_photos_of_a_network_that_was_trained_as_a_whole(manifest, tmp_path, monkeypatch):
    """Those that are nearest by the features of the trained network itself, computed once for all evaluations."""
    own = settings(manifest, tune="all", epochs=1, batch_size=16)
    train_run(own, Quiet(), run=tmp_path / "run", report=True)
    found = read_run(tmp_path / "run", "run")
    classifier = PhotoClassifier.load(tmp_path / "run/model")
    network = classifier.network.double().eval()

    def features(path):
        pixels = make_view(Image.open(path).convert("RGB"), classifier.views, "centre")
        with torch.no_grad():
            return network.features(pixels.unsqueeze(0))[0][0].numpy()

    train = [sample.path for sample in read_training_data(own).train]
    known = np.stack([features(path) for path in train])
    gallery = [found.photos[number] for number in found.arrays["gallery"]]
    for path, distances in zip(gallery, found.arrays["similar_distances"], strict=True):
        expected = np.sort(np.linalg.norm(known - features(path), axis=1))[:4]
        np.testing.assert_allclose(distances, expected, atol=1e-3)

    asked = []
    extract = similar_photos.extract_features

    def watched(*arguments, **more):
        asked.append(extract(*arguments, **more))
        return asked[-1]

    monkeypatch.setattr(similar_photos, "extract_features", watched)
    done = []
    again = evaluate_run(tmp_path / "run", split="val", progress=lambda *counts: done.append(counts))
    assert [(one.cached, len(one.samples)) for one in asked] == [(10, 10), (35, 35)]
    assert done[-1] == (55, 55)  # the photos to validate on, those of the gallery, those that were trained on
    second = read_run(tmp_path / "run", "run", again.folder.name)
    np.testing.assert_array_equal(second.arrays["similar"], found.arrays["similar"])


@pytest.mark.deep
def test_bad_photos_are_left_out_and_named(tmp_path):
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos")
    for name in ("grey-0.png", "grey-7.png"):  # one to train on, one to validate on
        (manifest.parent / name).write_bytes(b"")
    result = train_run(settings(manifest, on_bad_file="skip"), Quiet(), run=tmp_path / "run", report=True)
    found = read_run(tmp_path / "run", "run")
    assert len(result.bad) == 2
    assert [one.path for one in found.result.bad_photos] == [str(manifest.parent / "grey-7.png")]
    assert (found.result.photos, found.about["training"]["photos"]) == (9, 34)
    unread = [{"path": str(manifest.parent / "grey-0.png"), "reason": "the file is empty"}]
    assert found.about["bad_training_photos"] == unread
    text = (tmp_path / "run/report.html").read_text("utf-8")
    assert "<p>1 photo could not be read and was left out.</p>" in text
    assert "<p>1 training photo could not be read and was left out.</p>" in text
    for name in ("grey-0.png", "grey-7.png"):
        assert f"<bdi>{manifest.parent / name}</bdi>: the file is empty" in text
    again = evaluate_run(tmp_path / "run", split="val", on_bad_file="skip")
    assert read_run(tmp_path / "run", "run", again.folder.name).about == found.about


@pytest.mark.deep
def test_bad_photos_of_a_network_that_was_trained_as_a_whole(tmp_path):
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos")
    (manifest.parent / "grey-0.png").write_bytes(b"")
    own = settings(manifest, tune="all", epochs=2, batch_size=16, on_bad_file="skip")
    train_run(own, Quiet(), run=tmp_path / "run", report=True)
    again = evaluate_run(tmp_path / "run", split="val", on_bad_file="skip")
    for name in ("val", again.folder.name):
        about = read_run(tmp_path / "run", "run", name).about
        assert about["training"]["photos"] == 34
        assert [one["path"] for one in about["bad_training_photos"]] == [str(manifest.parent / "grey-0.png")]
        assert not any("grey-0.png" in one["path"] for one in about["similar"])


@pytest.mark.deep
def test_photos_that_were_added_since(tmp_path):
    """A run knows its photos; without its lists, as before there were any, it cannot be told which were held out."""
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos", val=0)
    train_run(settings(manifest, val_share=0.3), Quiet(), run=tmp_path / "run", report=True)
    again = evaluate_run(tmp_path / "run", split="val")
    assert read_run(tmp_path / "run", "run", again.folder.name).about["notes"] == [SET]
    shutil.copy(manifest.parent / "grey-0.png", manifest.parent / "new.png")
    with manifest.open("a") as file:
        file.write("new.png,grey,train,grey\n")
    assert evaluate_run(tmp_path / "run", split="val").result.photos == again.result.photos
    (tmp_path / "run" / "photos.json").unlink()  # as in a run of an earlier version
    with pytest.raises(DataError, match="not known which of them were held out; bring that list back, or evaluate on"):
        evaluate_run(tmp_path / "run", split="val")
    found = evaluate_run(tmp_path / "run", data=str(manifest), split="all")
    notes = read_run(tmp_path / "run", "run", found.folder.name).about["notes"]
    assert notes[0].startswith("The list of training photos has changed: the model was trained with 25, and 26")


@pytest.mark.deep
def test_similar_photos_that_are_not_waited_for(manifest, tmp_path, monkeypatch):
    own = settings(manifest, tune="all", epochs=1, batch_size=16)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(similar_photos, "extract_features", stopped)
    result = train_run(own, Quiet(), run=tmp_path / "run", report=True)
    assert result.report == str(tmp_path / "run/report.html")
    assert read_run(tmp_path / "run", "run").about["notes"] == [
        SET,
        "Similar training photos are left out: looking for them was stopped.",
    ]
    monkeypatch.setattr(train_report, "evaluate_photos", stopped)
    result = train_run(own, Quiet(), run=tmp_path / "other", report=True)
    assert (result.finished, result.report) == (True, None)
    assert result.report_fault == "it was stopped; evaluate the run to have one"


@pytest.mark.deep
def test_a_label_store_that_is_gone(manifest, tmp_path):
    """The run has its own copy of what the store said, so nothing of its training photos is lost."""
    with LabelStore.create(tmp_path / "menu.db") as store:
        store.import_graph(LabelGraph.read(manifest.parent / "graph.csv"), person="import", edit_id="first")
    train_run(settings(manifest, graph=str(tmp_path / "menu.db")), Quiet(), run=tmp_path / "run", report=True)
    (tmp_path / "menu.db").unlink()
    again = evaluate_run(tmp_path / "run", split="val")
    first, second = (read_run(tmp_path / "run", "run", name) for name in ("val", again.folder.name))
    assert second.about["training"]["photos"] == 35
    assert (second.about["notes"], second.about) == ([SET], first.about)
    np.testing.assert_allclose(second.arrays["similar_distances"], first.arrays["similar_distances"], atol=1e-5)


SET = "These photos also set the temperature, so likelihood and calibration may be a little better than on others."
CHOSE = "These photos also chose {} in training, so the metrics may be better than on photos that had no part in it."


@pytest.mark.deep
@pytest.mark.parametrize(
    ("more", "chosen"),
    [
        ({}, None),
        ({"choose": True}, "the strengths of the priors"),
        ({"tune": "all", "epochs": 1, "batch_size": 16}, None),
        ({"tune": "all", "epochs": 2, "batch_size": 16}, "the best epoch"),
    ],
)
def test_photos_that_had_a_say_in_the_model_are_named(manifest, tmp_path, more, chosen):
    train_run(settings(manifest, **more), Quiet(), run=tmp_path / "run", report=True)
    again = evaluate_run(tmp_path / "run", split="val")
    for name in ("val", again.folder.name):
        notes = [note for note in read_run(tmp_path / "run", "run", name).about["notes"] if "also chose" in note]
        assert notes == ([CHOSE.format(chosen)] if chosen else [])
    notes = read_run(tmp_path / "run", "run", evaluate_run(tmp_path / "run", split="train").folder.name).about["notes"]
    assert not any("also chose" in note for note in notes)
    text = (tmp_path / "run/report.html").read_text("utf-8")
    assert ("also chose" in text) == (chosen is not None)
    assert "test photo" not in text.lower()


@pytest.mark.deep
def test_a_report_that_cannot_be_written_loses_nothing(manifest, tmp_path):
    result = train_run(settings(manifest), Quiet(in_the_way=True), run=tmp_path / "run", report=True)
    assert result.finished
    assert result.report is None
    assert "report.html: the report cannot be written" in result.report_fault
    assert (tmp_path / "run/model/config.json").exists()
    (tmp_path / "run/report.html").rmdir()
    resumed = train_run(resume_settings(tmp_path / "run", {}), Quiet(), run=tmp_path / "run", resume=True, report=True)
    assert resumed.report == str(tmp_path / "run/report.html")


@pytest.mark.deep
def test_a_report_that_is_there_stays_when_nothing_is_trained(manifest, tmp_path):
    train_run(settings(manifest), Quiet(), run=tmp_path / "run", report=True)
    (tmp_path / "run/report.html").write_text("of the test photos")
    resumed = train_run(resume_settings(tmp_path / "run", {}), Quiet(), run=tmp_path / "run", resume=True, report=True)
    assert resumed.report == str(tmp_path / "run/report.html")
    assert (tmp_path / "run/report.html").read_text() == "of the test photos"


@pytest.mark.deep
def test_none_unless_asked_for_or_without_validation_photos(tmp_path):
    tiny.register()
    manifest = tiny.make_photos(tmp_path / "photos", val=0)
    result = train_run(settings(manifest, val_share=0), Quiet(), run=tmp_path / "run", report=True)
    assert (result.validated_on, result.report, result.report_fault) == (None, None, None)
    result = train_run(settings(manifest, val_share=0.3), Quiet(), run=tmp_path / "plain")
    assert (result.validated_on, result.report) == ("val", None)
    assert not (tmp_path / "plain/evaluations").exists()
