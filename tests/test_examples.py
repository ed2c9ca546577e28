"""Every example runs as its first lines say, on a small model and small photos."""

import io
import runpy
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from PIL import Image

import taught_classifier
import tiny_classifier as tiny
from finegraph.cli.main import whole_command
from finegraph.model.photo_classifier import PhotoClassifier
from serving import running

FOLDER = Path(__file__).parents[1] / "examples"
pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture
def model(tmp_path, monkeypatch):
    """The folder of a model that can be taught."""
    tiny.register(monkeypatch)
    taught_classifier.fitted().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def photo(tmp_path):
    """A photo of the first label."""
    path = tmp_path / "photo.png"
    Image.fromarray(taught_classifier.photo_of(0, 99)).save(path)
    return path


@pytest.fixture
def run(monkeypatch, capsys):
    """Run an example with the words of a command line; gives what it prints."""

    def run(name, *words):
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        runpy.run_path(str(FOLDER / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_every_example_is_tested():
    tested = Path(__file__).read_text(encoding="utf-8") + (
        Path(__file__).parent / "workflows/test_export_model.py"
    ).read_text(encoding="utf-8")
    for path in FOLDER.iterdir():
        if path.suffix in (".py", ".mjs"):
            assert path.name in tested, path.name


def test_torch_loop(run):
    said = run("torch_loop.py", 1)
    assert "epoch 1: loss" in said
    assert "sure:" in said


def test_timm_network(run, monkeypatch):
    def create_model(name, pretrained, num_classes):
        assert (name, pretrained, num_classes) == ("some_network", False, 0)
        made = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten())
        made.num_features = 12
        return made

    stand_in = types.ModuleType("timm")
    stand_in.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", stand_in)
    assert run("timm_network.py", "some_network", "--random").startswith("some_network: 12 features, loss ")


def test_sklearn_pipeline(run):
    lines = run("sklearn_pipeline.py").splitlines()
    alone, given = (float(line.rsplit(" ", 1)[1].rstrip("%")) for line in lines[1:])
    assert 60 < alone < given


def test_http_client(run, model, photo):
    with running(PhotoClassifier.load(model, "cpu")) as server:
        said = run("http_client.py", server.address, photo, "restaurant=A")
    assert "mapo tofu @ A" in said
    assert "mapo tofu @ B" not in said


def test_http_client_in_javascript(model, photo):
    node = shutil.which("node")
    assert node, "install nodejs"
    with running(PhotoClassifier.load(model, "cpu")) as server:
        words = [node, FOLDER / "http_client.mjs", server.address, photo, "restaurant=A"]
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "mapo tofu @ A" in said
    assert "mapo tofu @ B" not in said


def test_evidence_from_position(run, model, photo, tmp_path):
    (tmp_path / "places.csv").write_text(
        "restaurant,latitude,longitude\nA,48.2100,16.3700\nB,48.2200,16.3900\n", encoding="utf-8"
    )
    alone, near = run("evidence_from_position.py", model, photo, 48.2201, 16.3901, tmp_path / "places.csv").splitlines()
    assert alone.startswith("by the photo alone: ")
    assert "@ B" in near


def test_ask_questions(run, model, photo, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("A\n" + "\n" * 20))
    said = run("ask_questions.py", model, photo)
    assert "sure:" in said


def test_nightly_teaching(run, model, photo, tmp_path):
    for label in ("kung pao @ A", "unheard of"):
        (tmp_path / "inbox" / label).mkdir(parents=True)
        shutil.copy(photo, tmp_path / "inbox" / label / "1.png")
    (tmp_path / "inbox" / "kung pao @ A" / "broken.jpg").write_bytes(b"no photo")
    said = run("nightly_teaching.py", model, tmp_path / "inbox")
    assert "taught kung pao @ A: 1.png" in said
    assert "broken.jpg" in said
    assert "left alone: unheard of" in said
    assert "taught" not in run("nightly_teaching.py", model, tmp_path / "inbox")
    assert len(PhotoClassifier.load(model, "cpu").lessons) == 1


def test_sharded_labels(run, tmp_path):
    # In several processes: tests/training/test_sharded_ranks.py.
    words = ("--folder", tmp_path / "shards", "--labels", 100, "--steps", 20)
    first = run("sharded_labels.py", *words)
    assert "step 20: loss" in first
    assert "of new photos by dish" in first
    torch.set_default_dtype(torch.float32)
    assert "step" not in run("sharded_labels.py", *words)  # there is nothing left to do


def test_compose_names_services_and_flags_that_exist():
    yaml = pytest.importorskip("yaml")
    whole = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    services = whole["services"]
    commands = [one["command"] for one in services.values() if "finegraph" in one.get("command", "")]
    assert len(commands) == 3
    for text in commands:
        words = text.split("exec finegraph ")[1].strip().strip('"').split()
        command = whole_command()
        while hasattr(command, "commands") and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        flags = {word for word in words if word.startswith("--")}
        assert flags
        assert flags <= known
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        assert {one["source"] for one in service.get("configs", [])} <= set(whole["configs"])
        named = {one.partition(":")[0] for one in service.get("volumes", []) if one[0].isalpha()}
        assert named <= set(whole["volumes"])
