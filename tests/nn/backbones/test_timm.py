"""The door to timm, with a small module in its place: timm itself needs a torchvision that may not import here."""

import sys
import textwrap

import pytest
import torch

from finegraph.errors import InputError, MissingExtraError, UnknownNameError, WeightsError
from finegraph.nn.backbones import Preprocessing, build_backbone

TIMM = """
    from types import SimpleNamespace
    import torch

    class Small(torch.nn.Module):
        default_cfg = {"classifier": "head.fc"}
        num_features = 5

        def __init__(self, rate):
            super().__init__()
            self.body = torch.nn.Linear(3, 5)
            self.rate = rate

        def forward(self, images):
            return self.body(images.mean(dim=(2, 3)))

    def create_model(name, pretrained, num_classes, drop_rate=0.25):
        assert num_classes == 0
        if pretrained and name == "offline":
            raise ConnectionError("no route")
        network = Small(drop_rate)
        if pretrained:
            torch.nn.init.ones_(network.body.weight)
        if name == "wide":
            network.head_hidden_size = 9
        network.name = name
        return network

    def is_model(name):
        return name in list_models()

    def list_models():
        return ["small", "wide", "offline", "oblong"]

    def resolve_model_data_config(network):
        size = (3, 32, 48) if network.name == "oblong" else (3, 32, 32)
        return {"input_size": size, "crop_pct": 0.9, "mean": (0.5, 0.5, 0.5), "std": (0.2, 0.2, 0.2),
                "interpolation": "bicubic"}

    data = SimpleNamespace(resolve_model_data_config=resolve_model_data_config)
"""


def put_in_place(tmp_path, monkeypatch, text):
    (tmp_path / "timm.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)


@pytest.fixture
def timm(tmp_path, monkeypatch):
    put_in_place(tmp_path, monkeypatch, TIMM)
    yield
    sys.modules.pop("timm", None)


@pytest.mark.usefixtures("timm")
def test_takes_size_and_preprocessing_from_timm():
    network = build_backbone("timm:small")
    assert network.feature_size == 5
    assert network.preprocessing == Preprocessing(
        size=32, resize=35, mean=(0.5,) * 3, std=(0.2,) * 3, interpolation="bicubic"
    )
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 5)
    assert network.auxiliary_sizes == ()
    assert build_backbone("timm:wide").feature_size == 9
    assert (network.network.rate, build_backbone("timm:small", dropout=0.5).network.rate) == (0.25, 0.5)


@pytest.mark.usefixtures("timm")
def test_loads_files_with_the_names_of_timm(tmp_path):
    tensors = {"body.weight": torch.rand(5, 3), "body.bias": torch.rand(5), "head.fc.weight": torch.rand(7, 5)}
    torch.save(tensors, tmp_path / "weights.pth")
    network = build_backbone("timm:small", tmp_path / "weights.pth")
    assert torch.equal(network.network.body.weight, tensors["body.weight"])
    torch.save({"body.wait": torch.rand(5, 3), "body.bias": torch.rand(5)}, tmp_path / "weights.pth")
    with pytest.raises(WeightsError, match=r"1 of 2 parameters are missing \(body\.weight\).*'body\.wait' is perhaps"):
        build_backbone("timm:small", tmp_path / "weights.pth")


@pytest.mark.usefixtures("timm")
def test_default_weights_are_those_of_timm():
    assert (build_backbone("timm:small", "default").network.body.weight == 1).all()
    with pytest.raises(WeightsError, match=r"could not get the weights of 'offline' \(ConnectionError\); give a file"):
        build_backbone("timm:offline", "default")


@pytest.mark.usefixtures("timm")
def test_unknown_names_and_odd_inputs():
    with pytest.raises(UnknownNameError, match="unknown timm network 'smal'; did you mean 'small'"):
        build_backbone("timm:smal")
    with pytest.raises(InputError, match=r"timm:oblong: expected a network for square photos .* got \(3, 32, 48\)"):
        build_backbone("timm:oblong")


def test_without_timm(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(
        MissingExtraError, match=r"'timm:small' needs timm and torchvision.*pip install 'finegraph\[timm"
    ):
        build_backbone("timm:small")


@pytest.mark.parametrize("error", ["RuntimeError('operator torchvision::nms does not exist')", "RuntimeError()"])
def test_with_a_torchvision_for_another_torch(tmp_path, monkeypatch, error):
    put_in_place(tmp_path, monkeypatch, f"raise {error}")
    with pytest.raises(MissingExtraError, match=r"do not import here \(RuntimeError: (operator torchvision|no reason)"):
        build_backbone("timm:small")
