"""Models of several networks side by side, from training to every use of a model."""

import json

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.cli.main import run as finegraph
from finegraph.data.menu.sizes import SIZES, Size
from finegraph.errors import InputError, UnknownNameError
from finegraph.model.export.runners import OnnxRunner
from finegraph.nn.backbones.build import BACKBONES
from finegraph.nn.backbones.preprocessing import Preprocessing
from finegraph.nn.scaling import BlockScaling
from finegraph.training.settings import TrainSettings
from finegraph.web.serve.answering import ServedModel
from finegraph.workflows.export import export_model
from finegraph.workflows.index import make_index
from finegraph.workflows.menu import write_menu
from finegraph.workflows.search import search_index
from finegraph.workflows.train import resume_settings, train_run
from training import tiny
from workflows.test_train import Silent

BOTH = "tiny+larger"


class Larger(tiny.Tiny):
    """The same layers for larger views and other numbers."""

    def __init__(self, dropout=None):
        super().__init__(dropout)
        self.preprocessing = Preprocessing(size=40, resize=44, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    tiny.register()
    BACKBONES["larger"] = lambda dropout, auxiliary: Larger(dropout)
    yield tiny.make_photos(tmp_path_factory.mktemp("photos"))
    del BACKBONES["larger"]


def settings(manifest, **more):
    given = {"data": str(manifest), "network": BOTH, "weights": "none", "photo_labels": "ignore", **more}
    return TrainSettings(**given)


@pytest.fixture(scope="module")
def fitted(manifest, tmp_path_factory):
    """A run whose head was fitted in closed form."""
    run = tmp_path_factory.mktemp("runs") / "fitted"
    train_run(settings(manifest, fit="prototypes"), Silent(), run=run)
    return run


def photos_of(manifest):
    return sorted(manifest.parent.glob("*.png"))[:6]


def answers(model, photos):
    return torch.tensor([[answer.probability for answer in one.top] for one in model.predict(photos, top=99)])


@pytest.mark.deep
@pytest.mark.parametrize(
    "more", [{}, {"fit": "prototypes"}, {"tune": "all", "epochs": 1, "batch_size": 16}], ids=["descent", "means", "all"]
)
def test_training_gives_a_model_like_any_other(manifest, tmp_path, more):
    result = train_run(settings(manifest, **more), Silent(), run=tmp_path / "run")
    assert result.finished
    model = fg.load(tmp_path / "run")
    assert model.network.design.network == BOTH
    assert (model.views.size, model.network.backbone.block_sizes) == (40, (12, 12))
    assert torch.allclose(answers(model, photos_of(manifest)).sum(dim=1), torch.ones(6))
    again = resume_settings(tmp_path / "run", {"network": BOTH})
    assert train_run(again, Silent(), run=tmp_path / "run", resume=True).metrics == result.metrics


def test_the_closed_form_whitens_each_network(fitted):
    network = fg.load(fitted).network
    assert isinstance(network.scaling, BlockScaling)
    assert network.scaling.sizes == [12, 12]


@pytest.mark.deep
def test_an_interrupted_run_goes_on_to_the_same_model(manifest, tmp_path):
    whole = settings(manifest, tune="all", epochs=2, batch_size=8, workers=1)
    train_run(whole, Silent(), run=tmp_path / "straight")
    assert not train_run(whole, Silent(stop_at=4), run=tmp_path / "broken").finished
    train_run(resume_settings(tmp_path / "broken", {}), Silent(), run=tmp_path / "broken", resume=True)
    one, two = (fg.load(tmp_path / name).network.state_dict() for name in ("straight", "broken"))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.deep
def test_exported_files_answer_as_the_model(fitted, manifest, tmp_path):
    for name in ("model.onnx", "model.pt2"):
        found = export_model(fitted, tmp_path / name)  # which compares it with the model
        assert max(one.largest for one in found.differences) < 1e-5
    images = np.random.default_rng(0).integers(0, 256, (3, 40, 40, 3), dtype=np.uint8)
    embedding = OnnxRunner((tmp_path / "model.onnx").read_bytes())(images)["embedding"]
    assert embedding.shape == (3, 24)
    assert np.allclose(np.linalg.norm(embedding[:, :12], axis=1), np.sqrt(0.5), atol=1e-5)


@pytest.mark.parametrize("engine", ["torch", "onnx"])
def test_a_server_answers_as_the_model(fitted, engine):
    served = ServedModel.load(fitted, engine)
    picture = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    scores = served.scores([picture])[0]
    with torch.no_grad():
        expected = served.model.network(torch.from_numpy(picture).permute(2, 0, 1)[None])
    assert served.note is None
    assert np.allclose(scores.fine, expected.fine_scores[0], atol=1e-4)


def test_photos_are_found_by_the_features_of_all_networks(fitted, manifest, tmp_path):
    photos = photos_of(manifest)
    made = make_index(fitted, photos, tmp_path / "index")
    assert made.photos == 6
    found = search_index(tmp_path / "index", [photos[2]], count=3).queries[0]
    assert [one.path for one in found.in_index] == [str(photos[2])]
    assert len(found.hits) == 3


@pytest.mark.parametrize(
    ("network", "error", "text"),
    [
        ("tiny+smaller", UnknownNameError, r"unknown network 'smaller' in 'tiny\+smaller'"),
        ("tiny+larger+tiny", InputError, "tiny is listed twice"),
        ("tiny+timm:resnet18", InputError, "networks of timm cannot be joined"),
    ],
)
def test_networks_that_cannot_be_joined_leave_no_run(manifest, tmp_path, network, error, text):
    with pytest.raises(error, match=text):
        train_run(settings(manifest, network=network), Silent(), run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.deep
def test_a_drawn_menu_from_the_command_line(tmp_path, monkeypatch, capsys):
    few = Size(dishes=16, shared={2: 2}, pantry=SIZES["small"].pantry, train=50, val=6, test=6, wild=5, offset=30)
    monkeypatch.setitem(SIZES, "tiny", few)
    menu = write_menu(tmp_path / "menu", "tiny", workers=1)
    names = "efficientnet_lite0+efficientnet_lite1"
    flags = ["--weights", "none", "--size", "32", "--fit", "prototypes", "--no-report", "--json"]
    command = ["train", menu.manifest, "--graph", menu.graph, "--network", names, "--photo-labels", "ignore"]
    assert finegraph([*command, *flags, "--run", str(tmp_path / "run")]) == 0
    assert json.loads(capsys.readouterr().out)["finished"]
    photo = next((tmp_path / "menu").rglob("*.jpg"))
    assert finegraph(["predict", str(tmp_path / "run"), str(photo), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["photos"]) == 1
