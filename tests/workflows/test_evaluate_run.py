"""Evaluations of a run: what is chosen, what is written, and what is refused."""

import csv
import json
import shutil

import pytest

from evaluation.tiny_runs import make_foreign, make_photos, make_run, register
from finegraph.data.dataset import targets_of
from finegraph.data.sources import read_samples
from finegraph.data.splits import choose_splits
from finegraph.errors import DataError, InputError, ModelFolderError, RunFolderError, UnknownNameError
from finegraph.evaluation import EvaluationResult
from finegraph.evaluation.retrieval import judge_retrieval
from finegraph.model.features import extract_features
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.workflows.evaluate import evaluate_run
from finegraph.workflows.evaluation import evaluation_folder


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    register(monkeypatch)
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path / "cache"))
    return make_photos(tmp_path / "photos")


@pytest.fixture
def run(manifest, tmp_path):
    return make_run(tmp_path / "run", manifest)


@pytest.mark.deep
def test_the_test_photos_of_the_run(run, manifest):
    found = evaluate_run(run)
    assert found.folder == run / "evaluations/test"
    files = [
        "details.json",
        "details.safetensors",
        "graph.json",
        "result.json",
        "samples.csv",
        "thumbnails.safetensors",
    ]
    assert sorted(path.name for path in found.folder.iterdir()) == files
    assert EvaluationResult.read(found.folder / "result.json") == found.result
    result = found.result
    assert (result.model, result.data, result.split) == (str(run), str(manifest), "test")
    assert (result.photos, result.labelled, result.views, result.box) == (12, 12, 1, False)
    assert (result.unknown, result.temperature_fit, found.calibration, found.saved) == (None, None, None, False)
    with (found.folder / "samples.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(row["right"] == "yes" for row in rows) == result.top1 * 12


@pytest.mark.deep
def test_names_are_numbered_and_nothing_is_overwritten(run):
    first = evaluate_run(run)
    before = (first.folder / "result.json").read_bytes()
    names = [evaluate_run(run, **options).folder.name for options in ({}, {"views": 10}, {"box": True, "views": 10})]
    assert names == ["test-2", "test-10views", "test-10views-box"]
    assert evaluate_run(run, box=False, name="plain").folder.name == "plain"
    with pytest.raises(RunFolderError, match=r"evaluations/plain: there is an evaluation of this name already; choose"):
        evaluate_run(run, name="plain")
    assert (first.folder / "result.json").read_bytes() == before
    assert not [path for path in (run / "evaluations").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a b", "x\n"])
def test_names_that_are_no_names(run, name):
    with pytest.raises(InputError, match="expected a name for the evaluation of letters, digits"):
        evaluate_run(run, name=name)


@pytest.mark.deep
def test_a_quicker_process_keeps_its_name(run, monkeypatch):
    """Between the look and the renaming, another process makes an evaluation of that name."""
    rename = evaluation_folder.os.rename

    def late(source, target):
        if target.name in ("test", "mine"):
            target.mkdir()
            (target / "result.json").write_text("theirs")
        rename(source, target)

    monkeypatch.setattr(evaluation_folder.os, "rename", late)
    assert evaluate_run(run).folder.name == "test-2"
    assert (run / "evaluations/test/result.json").read_text() == "theirs"
    with pytest.raises(RunFolderError, match="there is an evaluation of this name already"):
        evaluate_run(run, name="mine")
    assert (run / "evaluations/mine/result.json").read_text() == "theirs"


class TestPhotos:
    @pytest.mark.deep
    def test_all_of_another_source(self, run, manifest, tmp_path):
        other = tmp_path / "other"
        for sample in read_samples(manifest).split("val"):
            (other / sample.label).mkdir(parents=True, exist_ok=True)
            shutil.copy(sample.path, other / sample.label)
        found = evaluate_run(run, data=str(other), split="all")
        assert (found.folder.name, found.result.photos, found.result.data) == ("all", 16, str(other))
        assert evaluate_run(run, data=str(other)).result.split == "all"
        with pytest.raises(DataError, match="the photos are in no splits, so there is no 'test'; evaluate on 'all'"):
            evaluate_run(run, data=str(other), split="test")

    def test_unknown_split(self, run):
        with pytest.raises(UnknownNameError, match=r"unknown split 'tests' in .*; did you mean 'test'"):
            evaluate_run(run, split="tests")

    def test_unknown_labels_show_before_any_photo_is_read(self, run, tmp_path):
        (tmp_path / "wrong.csv").write_text("path,label,split\nnone.png,small reed,test\n")
        with pytest.raises(UnknownNameError, match="fine label 'small reed'; did you mean 'small red'"):
            evaluate_run(run, data=str(tmp_path / "wrong.csv"))

    @pytest.mark.deep
    def test_what_training_held_out_is_the_split_val(self, manifest, tmp_path):
        manifest.write_text(manifest.read_text().replace(",val,", ",train,"))
        run = make_run(tmp_path / "held", manifest, val_share=0.3, seed=3)
        held = choose_splits(read_samples(manifest), share=0.3, seed=3)[1]
        found = evaluate_run(run, split="val")
        with (found.folder / "samples.csv").open(newline="") as file:
            assert [row["path"] for row in csv.DictReader(file)] == [str(sample.path) for sample in held]
        again = evaluate_run(run, data=f"manifest:{manifest}", split="val")  # the same source, written in another way
        assert (again.result.photos, again.held_out, again.trained_on) == (len(held), True, 0)

    @pytest.mark.deep
    def test_bad_photos(self, run, manifest):
        bad = read_samples(manifest).split("test")[3].path
        bad.write_bytes(b"")
        with pytest.raises(DataError, match="the file is empty"):
            evaluate_run(run)
        assert not (run / "evaluations").exists()
        found = evaluate_run(run, on_bad_file="skip")
        assert [(one.path, one.reason) for one in found.result.bad_photos] == [(str(bad), "the file is empty")]
        with (found.folder / "samples.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["error"] for row in rows] == ["", "", "", "the file is empty", *[""] * 8]


class TestCalibration:
    @pytest.mark.deep
    def test_is_fitted_on_one_split_and_judged_on_another(self, run):
        plain = evaluate_run(run)
        told = []
        found = evaluate_run(run, calibrate="val", kept=0.8, progress=lambda *now: told.append(now))
        assert found.folder.name == "test-calibrated"
        content = json.loads((found.folder / "calibration.json").read_text())
        assert content["split"] == found.result.calibrated_on == "val"
        assert content["temperature"]["temperature"] == found.result.temperature != plain.result.temperature
        assert content["unknown"] == found.calibration.unknown.to_dict()
        assert (content["unknown"]["score"], content["unknown"]["kept"]) == ("kinds", 0.8)
        assert found.result.unknown.threshold == content["unknown"]["threshold"]
        assert (28, 28) in told
        assert told[-1] == (60, 60)  # those of the gallery, and those that were trained on, for similar photos
        assert PhotoClassifier.load(run).temperature == 1.0

    @pytest.mark.deep
    def test_can_be_saved_with_the_model(self, run):
        before = (run / "model/model.safetensors").read_bytes()
        first = evaluate_run(run)
        found = evaluate_run(run, calibrate="val", save_calibration=True)
        loaded = PhotoClassifier.load(run)
        assert (loaded.temperature, loaded.unknown) == (found.result.temperature, found.calibration.unknown)
        assert (run / "model/model.safetensors").read_bytes() == before
        again = evaluate_run(run).result
        assert again.nll == found.result.nll != first.result.nll
        assert (again.calibrated_on, again.unknown) == (None, found.result.unknown)

    @pytest.mark.deep
    def test_photos_of_none_of_the_classes(self, run, tmp_path):
        foreign = make_foreign(tmp_path / "foreign")
        found = evaluate_run(run, calibrate="val", unknown=str(foreign), score="energy")
        assert (found.result.unknown.score, found.result.unknown.photos) == ("energy", 5)
        assert found.result.unknown.detected == 1 - found.result.unknown.false_positive_rate
        (foreign / "green/0.png").write_bytes(b"")
        found = evaluate_run(run, calibrate="val", unknown=str(foreign), on_bad_file="skip")
        assert found.result.unknown.photos == 4
        assert [one.path for one in found.result.bad_photos] == [str(foreign / "green/0.png")]

    def test_what_is_refused(self, run):
        with pytest.raises(InputError, match="12 photos would serve both to fit the calibration and to evaluate it"):
            evaluate_run(run, calibrate="test")
        with pytest.raises(InputError, match="16 photos would serve both"):
            evaluate_run(run, split="all", calibrate="val")
        with pytest.raises(InputError, match="there is no calibration to save; say on which split"):
            evaluate_run(run, save_calibration=True)
        assert not (run / "evaluations").exists()


class TestPlaces:
    def test_a_model_folder_in_a_run(self, run):
        assert evaluate_run(run / "model").folder == run / "evaluations/test"

    @pytest.mark.deep
    def test_a_model_folder_of_its_own(self, run, manifest, tmp_path):
        shutil.copytree(run / "model", tmp_path / "mine")
        with pytest.raises(InputError, match=r"mine: this model is not in a run folder.*name a source of photos"):
            evaluate_run(tmp_path / "mine")
        found = evaluate_run(tmp_path / "mine", data=str(manifest), calibrate="val", save_calibration=True)
        assert found.folder == tmp_path / "mine-evaluations/test-calibrated"
        assert (found.folder / "result.json").exists()

    def test_no_model(self, tmp_path):
        with pytest.raises(ModelFolderError, match="there is no such folder"):
            evaluate_run(tmp_path / "nowhere")

    @pytest.mark.deep
    def test_features_are_stored_only_where_the_network_was_not_trained(self, run, manifest, tmp_path):
        evaluate_run(run)
        assert not (tmp_path / "cache").exists()
        evaluate_run(make_run(tmp_path / "head", manifest, tune="head"))
        assert (tmp_path / "cache").exists()
        evaluate_run(make_run(tmp_path / "own", manifest, tune="head", cache=str(tmp_path / "mine")))
        assert (tmp_path / "mine").exists()


@pytest.mark.deep
def test_a_full_disk_leaves_nothing(run, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(evaluation_folder, "write_samples", full)
    with pytest.raises(RunFolderError, match="the evaluation cannot be written: No space left on device"):
        evaluate_run(run)
    assert list((run / "evaluations").iterdir()) == []


@pytest.mark.deep
def test_how_good_features_are_for_search(run):
    found = evaluate_run(run, name="search", retrieval=True)
    result = EvaluationResult.read(found.folder / "result.json").retrieval
    assert result == found.result.retrieval
    samples = read_samples(found.result.data).split("test")
    classifier = PhotoClassifier.load(run)
    features = extract_features(classifier.network, samples, classifier.views, cache=False)
    expected = judge_retrieval(
        classifier.graph, features.fine.numpy(), targets_of(samples, classifier.graph)[0].numpy()
    )
    assert result == expected
    assert (result.photos, result.queries) == (12, 12)
    assert evaluate_run(run).result.retrieval is None
