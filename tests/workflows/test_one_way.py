"""Evaluation, prediction, indexes, servers and exported files agree to the bit on the photos of one model."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

import finegraph as fg
import serving
from finegraph.data.sources import read_samples
from finegraph.evaluation import evaluate_photos
from finegraph.model.answering.predictions import probabilities
from finegraph.model.export import export_names as names
from finegraph.model.export.runners import ModelRunner
from finegraph.model.features.photos import photo_inputs, read_views
from finegraph.search.index_writer import IndexWriter
from finegraph.training.settings import TrainSettings
from finegraph.web.serve.answering import ServedModel
from finegraph.workflows.evaluate import evaluate_run
from finegraph.workflows.index import make_index
from finegraph.workflows.train import train_run
from training import tiny
from workflows.test_train import Silent

ENGINES = ("onnx", "torch")


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module", params=["descent", "prototypes"])
def run(request, manifest, tmp_path_factory):
    """A trained model, calibrated so that its temperature is not 1."""
    folder = tmp_path_factory.mktemp("runs") / request.param
    settings = TrainSettings(
        data=str(manifest), network="tiny", weights="none", fit=request.param, photo_labels="ignore", cache=str(folder)
    )
    train_run(settings, Silent(), run=folder)
    return folder


@pytest.fixture(scope="module", params=ENGINES)
def predicted(request, run, manifest):
    """What `predict` says of each photo when it is asked about all of them, and the engine that computed."""
    photos = sorted(manifest.parent.glob("*.png"))
    model = fg.load(run)
    assert model.temperature != 1.0
    answers = model.predict(photos, top=99, engine=request.param)
    return request.param, dict(zip(map(str, photos), answers, strict=True))


def told(log_prob):
    """The probability that predictions tell of a log probability."""
    return probabilities(torch.tensor([log_prob])).item()


def test_photos_alone_in_other_batches_and_with_other_threads(run, predicted):
    engine, expected = predicted
    model, photos, before = fg.load(run), list(expected), torch.get_num_threads()
    assert [model.predict(photo, top=99, engine=engine) for photo in photos[:5]] == [
        expected[one] for one in photos[:5]
    ]
    for threads, batch_size in ((1, 3), (2, 7), (3, 100)):
        torch.set_num_threads(threads)
        try:
            again = model.predict(photos[::-1], top=99, engine=engine, batch_size=batch_size)
        finally:
            torch.set_num_threads(before)
        assert again[::-1] == list(expected.values())


def test_evaluate_stores_what_predict_says(run, predicted, manifest, tmp_path, monkeypatch):
    """Of features that this engine computes: those that training has stored may be of another one."""
    engine, expected = predicted
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path / "cache"))
    fg.load(run).save(tmp_path / "model")
    model, samples = fg.load(run), read_samples(str(manifest)).split("val")
    rows = evaluate_photos(model, samples, engine=engine).samples
    assert len(rows.sample) == len(samples) > 3
    for place, sample in enumerate(samples):
        one = expected[str(sample.path)]
        assert model.graph.fine[rows.predicted[place]] == one.top[0].label
        assert rows.probability[place] == np.float32(one.top[0].probability)
        assert told(rows.log_prob[place]) == dict(one.top)[sample.label]
        for number, answers in enumerate(one.kinds.values()):
            assert rows.kinds_probability[place, number] == np.float32(answers[0].probability)
    written = evaluate_run(tmp_path / "model", data=str(manifest), split="val", engine=engine).folder
    with open(written / "samples.csv", newline="") as file:
        stored = {row["path"]: float(row["probability"]) for row in csv.DictReader(file)}
    assert stored == {
        str(sample.path): float(f"{probability:.6g}")
        for sample, probability in zip(samples, rows.probability, strict=True)
    }


def test_an_index_stores_what_predict_says(run, predicted, tmp_path, monkeypatch):
    engine, expected = predicted
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path / "cache"))
    fg.load(run).save(tmp_path / "model")
    make_index(tmp_path / "model", list(expected), tmp_path / "index", engine=engine)
    graph = fg.load(run).graph
    with IndexWriter(tmp_path / "index") as writer:
        stored = [(writer.segment(place), place.row) for place in writer.places().values()]
    assert sorted(segment.path(row) for segment, row in stored) == sorted(expected)
    for segment, row in stored:
        labels, probs = (segment.arrays[name][row] for name in ("guess_labels", "guess_probs"))
        guesses = expected[segment.path(row)].top[: int((labels >= 0).sum())]
        assert [graph.fine[number] for number in labels[: len(guesses)]] == [answer.label for answer in guesses]
        assert probs[: len(guesses)].tolist() == [float(np.float32(answer.probability)) for answer in guesses]


@pytest.mark.deep
def test_the_server_answers_what_predict_says(run, predicted):
    engine, expected = predicted
    model = fg.load(run)
    with serving.running(model, engine=engine) as server:
        server.state.model = ServedModel(model, "menu", engine)
        for path, one in list(expected.items())[:4]:
            content = Path(path).read_bytes()
            answer = server.client.post("/v1/predict", files=serving.files(content), data={"top": "99"}).json()
            found = answer["photos"][0]["top"]
            assert [(each["label"], each["probability"]) for each in found] == [tuple(each) for each in one.top]


def test_files_are_compared_with_what_predict_says(run, predicted):
    engine, expected = predicted
    model = fg.load(run)
    views = [read_views(photo, model.views)[0].permute(1, 2, 0).numpy() for photo in photo_inputs(list(expected), None)]
    found = ModelRunner(model, engine)(np.stack(views))
    for row, one in enumerate(expected.values()):
        probability = dict(one.top)
        for label, log_prob in zip(model.graph.fine, found[names.LOG_PROBS][row], strict=True):
            assert told(log_prob) == probability[label]
