"""Exporting a run: which photos it is compared on, what is written, and what is refused."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import tiny_classifier
from evaluation.tiny_runs import Colours, make_classifier, make_photos, make_run, register
from finegraph import LabelGraph, Number
from finegraph.data.sources import read_samples
from finegraph.data.transforms import ViewSettings
from finegraph.errors import DataError, ExportError, MissingExtraError, ModelFolderError, PhotoFileError
from finegraph.files import durable
from finegraph.model.export import node_writer, onnx_file, runners
from finegraph.model.export.runners import OnnxRunner
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.nn.backbones.build import BACKBONES
from finegraph.nn.network import NetworkDesign, build_network
from finegraph.workflows import export
from finegraph.workflows.export import export_model

EXAMPLE = Path(__file__).parents[2] / "examples/onnx_predict.py"


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    register(monkeypatch)
    return make_photos(tmp_path / "photos")


@pytest.fixture
def run(manifest, tmp_path):
    return make_run(tmp_path / "run", manifest)


def test_a_run_is_compared_on_its_own_photos(run, manifest, tmp_path):
    told = []
    found = export_model(run, tmp_path / "model.onnx", progress=lambda *both: told.append(both))
    assert (found.path, found.form) == (tmp_path / "model.onnx", "onnx")
    assert found.size == found.path.stat().st_size
    assert (found.checked_on, found.photos) == (f"the run's data, {manifest}", 24)
    assert (found.fine, found.kinds, found.coarse, found.image_size, found.temperature) == (4, 3, 6, 32, 1.0)
    assert told[-1] == (24, 24)
    assert max(one.largest for one in found.differences) < 1e-5
    assert found.plain is not None
    assert (found.plain.largest_pixel, found.plain.probability, found.plain.other_answers) == (0, 0.0, 0)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_the_file_answers_as_predict(run, manifest, tmp_path):
    export_model(run, tmp_path / "model.onnx")
    model = PhotoClassifier.load(run, "cpu")
    paths = [str(sample.path) for sample in read_samples(manifest).split("test")]
    pictures = [Image.open(path).resize((36, 36), Image.Resampling.BILINEAR).crop((2, 2, 34, 34)) for path in paths]
    pixels = np.stack([np.asarray(picture) for picture in pictures])
    answers = OnnxRunner((tmp_path / "model.onnx").read_bytes())(pixels)
    for row, prediction in enumerate(model.predict(paths, top=1)):
        best = answers["log_probs"][row].argmax()
        assert model.graph.fine[best] == prediction.top[0].label
        assert np.exp(answers["log_probs"][row, best]) == pytest.approx(prediction.top[0].probability, abs=1e-5)


@pytest.mark.deep
def test_a_calibrated_model_keeps_its_temperature(manifest, tmp_path):
    model = make_classifier(manifest)
    model.temperature = 3.0
    model.save(tmp_path / "model")
    found = export_model(tmp_path / "model", tmp_path / "model.onnx")
    assert found.temperature == 3.0
    images = np.zeros((1, 32, 32, 3), np.uint8)
    answers = OnnxRunner(found.path.read_bytes())(images)
    expected = model.posterior(torch.zeros(1, 3, 32, 32, dtype=torch.uint8)).log_probs()
    assert np.allclose(answers["log_probs"], expected, atol=1e-5)


def test_named_photos(run, manifest, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    for number, sample in enumerate(read_samples(manifest)[:5]):
        shutil.copy(sample.path, folder / f"{number}.png")
    found = export_model(run, tmp_path / "model.onnx", check=[folder])
    assert (found.checked_on, found.photos) == ("the photos named", 5)


def test_a_named_photo_that_cannot_be_read(run, tmp_path):
    (tmp_path / "page.jpg").write_text("<html>")
    with pytest.raises(PhotoFileError, match=r"page.jpg: this is no photo of a known format"):
        export_model(run, tmp_path / "model.onnx", check=[tmp_path / "page.jpg"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: expected a photo or a folder of photos, got a folder without photos"):
        export_model(run, tmp_path / "model.onnx", check=[tmp_path / "empty"])
    assert not (tmp_path / "model.onnx").exists()


def test_photos_of_the_run_that_cannot_be_read_are_left_out(run, manifest, tmp_path):
    read_samples(manifest)[0].path.write_bytes(b"<html>")
    assert export_model(run, tmp_path / "model.onnx").photos == 23


@pytest.mark.deep
def test_photos_that_plain_pillow_cannot_read_are_left_out_of_that_comparison(run, tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    for number in range(3):
        tiny_classifier.picture(number).save(folder / f"{number}.png")
    tiny_classifier.picture(5, width=500, height=400).save(folder / "large.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 90_000)  # Pillow refuses what has twice as many
    found = export_model(run, tmp_path / "model.onnx", check=[folder])
    assert (found.photos, found.plain_left_out, found.plain.other_answers) == (4, 1, 0)
    assert found.to_dict()["plain_left_out"] == 1
    found = export_model(run, tmp_path / "model.onnx", check=[folder / "large.png"])
    assert (found.photos, found.plain_left_out, found.plain) == (1, 1, None)


@pytest.mark.deep
def test_pictures_are_drawn_where_there_are_no_photos(run, manifest, tmp_path):
    shutil.copytree(run / "model", tmp_path / "alone")
    found = export_model(tmp_path / "alone", tmp_path / "model.onnx")
    assert found.checked_on.startswith("drawn pictures, as the model is not in a run folder")
    assert (found.photos, found.plain) == (export.DRAWN, None)
    manifest.unlink()
    found = export_model(run, tmp_path / "model.onnx")
    assert found.checked_on.startswith(f"drawn pictures, as the photos of the run cannot be read ({manifest}: there is")


class Moody(Colours):
    """A network that never answers twice alike."""

    calls = 0

    def forward(self, images):
        self.calls += 1
        return super().forward(images) + 0.1 * self.calls


def test_a_file_that_answers_differently_is_not_written(run, tmp_path, monkeypatch):
    monkeypatch.setitem(BACKBONES, "colours", lambda dropout, auxiliary: Moody())
    target = tmp_path / "model.onnx"
    target.write_bytes(b"earlier")
    with pytest.raises(ExportError, match=r"does not answer as the model: \w+.* differs by .*expected at most 0.0001"):
        export_model(run, target)
    assert target.read_bytes() == b"earlier"


def test_an_earlier_file_is_replaced(run, tmp_path):
    target = tmp_path / "model.onnx"
    target.write_bytes(b"earlier")
    found = export_model(run, target)
    assert target.stat().st_size == found.size > 1000


@pytest.mark.deep
def test_weights_too_large_for_one_file_go_to_another(run, tmp_path, monkeypatch):
    small = export_model(run, tmp_path / "small.onnx")
    monkeypatch.setattr(onnx_file, "LARGEST", 1000)
    monkeypatch.setattr(node_writer, "_LARGE", 48)
    (tmp_path / "model-0123abcd.onnx.data").write_bytes(b"of an earlier export")
    result = export_model(run, tmp_path / "model.onnx")
    assert sorted(path.name for path in tmp_path.glob("model*")) == sorted([result.data.name, "model.onnx"])
    assert result.data.stat().st_size > 0
    assert result.size == result.path.stat().st_size + result.data.stat().st_size
    pixels = np.random.default_rng(0).integers(0, 256, (2, result.image_size, result.image_size, 3)).astype(np.uint8)
    whole, apart = (OnnxRunner(str(one.path))(pixels) for one in (small, result))
    assert all(np.array_equal(whole[name], apart[name]) for name in whole)
    assert not list(tmp_path.glob(".finegraph-*"))


@pytest.mark.deep
def test_a_program_of_torch(run, tmp_path):
    found = export_model(run, tmp_path / "model.pt2")
    assert (found.form, found.size) == ("pt2", (tmp_path / "model.pt2").stat().st_size)
    assert max(one.largest for one in found.differences) < 1e-5


def test_what_cannot_be_a_target(run, tmp_path):
    for target, message in [
        (tmp_path / "model.onx", r"model.onx: expected a file name that ends in .onnx or .pt2"),
        (tmp_path / "no/model.onnx", r"model.onnx: there is no folder '.*no' to write to; make it, or choose"),
    ]:
        with pytest.raises(ExportError, match=message):
            export_model(run, target)
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(ExportError, match=r"folder.onnx: expected a file to write, got a folder; name a file in it"):
        export_model(run, tmp_path / "folder.onnx")


def test_a_folder_that_may_not_be_written(run, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ExportError, match=r"the folder '.*' may not be written to; choose another place"):
        export_model(run, tmp_path / "model.onnx")


def test_a_full_disk_leaves_the_earlier_file(run, tmp_path, monkeypatch):
    def full(handle, data):
        raise OSError(28, "No space left on device")

    target = tmp_path / "model.onnx"
    target.write_bytes(b"earlier")
    monkeypatch.setattr(durable, "write_all", full)
    message = (
        r"model.onnx: the file \(\d\.\d MB, .* MB are free\) cannot be written: No space left on device; make room"
    )
    with pytest.raises(ExportError, match=message):
        export_model(run, target)
    assert target.read_bytes() == b"earlier"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_no_model(tmp_path):
    with pytest.raises(ModelFolderError, match=r"nowhere: there is no such folder"):
        export_model(tmp_path / "nowhere", tmp_path / "model.onnx")
    with pytest.raises(ModelFolderError, match=r"expected a model folder, which has a config.json, or a run folder"):
        export_model(tmp_path, tmp_path / "model.onnx")


def test_without_the_extra(run, tmp_path, monkeypatch):
    monkeypatch.setattr(runners, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'onnx and onnxruntime cannot be found; .*"finegraph\[onnx\]"'):
        export_model(run, tmp_path / "model.onnx")


def run_example(*arguments):
    """The example in a process of its own that has neither finegraph nor torch; its lines, and its errors."""
    hidden = "import runpy, sys; sys.modules['finegraph'] = sys.modules['torch'] = None; del sys.argv[0]; "
    command = [sys.executable, "-W", "error", "-c", hidden + "runpy.run_path(sys.argv[0])", str(EXAMPLE)]
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines(), done.stderr


@pytest.mark.deep
def test_the_example_runs_with_onnxruntime_alone(run, manifest, tmp_path):
    export_model(run, tmp_path / "model.onnx")
    photo = next(str(sample.path) for sample in read_samples(manifest) if sample.label == "large red")
    lines, errors = run_example(tmp_path / "model.onnx", photo, "size=large", "framed=yes", "framed=no")
    assert errors == ""
    expected = PhotoClassifier.load(run, "cpu").predict(photo, given={"size": "large"}, top=4)
    shown = dict(reversed(line.split(maxsplit=1)) for line in lines)
    for answer in expected.top:
        assert shown[f"fine: {answer.label}"] == f"{answer.probability:.2%}"
    for kind, answers in expected.kinds.items():
        assert shown[f"{kind}: {answers[0].label}"] == f"{answers[0].probability:.2%}"
    # First the fine labels, then the best label of each kind.
    assert [line.split()[1] for line in lines] == ["fine:"] * 4 + [f"{kind}:" for kind in expected.kinds]
    wrong = run_example(tmp_path / "model.onnx", photo, "size=enormous", "size=large")
    assert wrong == ([], "the model does not know [('size', 'enormous')]\n")


@pytest.mark.deep
def test_the_example_with_numbers(manifest, tmp_path):
    masses = Number.from_values("net mass", [100.0, 200.0, 400.0], [10.0, 0.0, 40.0], scale="log", unit="g")
    years = Number.from_values("year", [2010, 2012, 2012])
    graph = LabelGraph(["a", "b", "c"], numbers=[masses, years])
    model = PhotoClassifier(
        build_network(graph, NetworkDesign(network="colours")).eval(), ViewSettings(resize=36, size=32)
    )
    model.save(tmp_path / "model")
    export_model(tmp_path / "model", tmp_path / "model.onnx")
    tiny_classifier.picture(3, 36, 36).save(tmp_path / "photo.png")
    for known in ({}, {"net mass": "<=120"}, {"net mass": "150..390", "year": "2012"}, {"net mass": "350+-50"}):
        words = [name + (text if text[0] in "<>" else f"={text}") for name, text in known.items()]
        lines, errors = run_example(tmp_path / "model.onnx", tmp_path / "photo.png", *words)
        assert errors == ""
        expected = model.predict(str(tmp_path / "photo.png"), given=known, top=3)
        shown = dict(reversed(line.split(maxsplit=1)) for line in lines[:3])
        for answer in expected.top:
            assert float(shown[f"fine: {answer.label}"].rstrip("%")) == pytest.approx(
                100 * answer.probability, abs=0.02
            )
        told = expected.numbers["net mass"]
        ends = [f"{told.quantiles[place]:.3g}" for place in (0, 2)]
        assert lines[3] == f"net mass: {told.mean:.3g} g, {ends[0]} to {ends[1]} in 90 %"
    for known, message in {
        "year>2020": "no label agrees with that\n",
        "year=soon": "year=soon: expected one or two numbers, as in price<=12 or price=10..15\n",
    }.items():
        assert run_example(tmp_path / "model.onnx", tmp_path / "photo.png", known)[1] == message


@pytest.mark.deep
def test_the_example_with_a_graph_without_kinds(manifest, tmp_path):
    network = build_network(LabelGraph(["a", "b", "c"]), NetworkDesign(network="colours")).eval()
    PhotoClassifier(network, ViewSettings(resize=36, size=32, keep_shape=True)).save(tmp_path / "model")
    found = export_model(tmp_path / "model", tmp_path / "model.onnx")
    assert (found.kinds, found.coarse) == (0, 0)
    assert {one.output for one in found.differences} == {"log_probs", "embedding"}
    tiny_classifier.picture(3, 90, 61).save(tmp_path / "photo.png")
    lines, errors = run_example(tmp_path / "model.onnx", tmp_path / "photo.png")
    assert errors == ""
    expected = PhotoClassifier.load(tmp_path / "model", "cpu").predict(tmp_path / "photo.png", top=3)
    assert lines == [f"{one.probability:7.2%}  fine: {one.label}" for one in expected.top]


def test_the_example_is_short():
    lines = [line for line in EXAMPLE.read_text().splitlines() if line and not line.startswith('"""')]
    assert len(lines) <= 55
