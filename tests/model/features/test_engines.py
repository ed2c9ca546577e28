"""Both engines compute what the network does."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from feature_parts import Tiny
from torch import nn

from finegraph.errors import InputError, MissingExtraError
from finegraph.model.features import engines, onnx_graph
from finegraph.model.features.engines import OnnxEngine, TorchEngine, check_engine, make_engine
from finegraph.nn.backbones import build_backbone


def network(name):
    if name == "tiny":
        return Tiny().eval()
    torch.manual_seed(0)
    return build_backbone(name, auxiliary=False).eval()


def pixels_of(size, count=3, seed=0):
    return torch.randint(256, (count, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def plainly(backbone, pixels):
    with torch.no_grad():
        return backbone(backbone.preprocessing.normalise(pixels)).numpy()


def engine_of(kind, backbone, size):
    return OnnxEngine(backbone, size) if kind == "onnx" else TorchEngine(backbone)


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["onnx", "torch"])
@pytest.mark.parametrize(
    ("name", "size"), [("tiny", 32), ("efficientnet_lite0", 64), ("efficientnet_lite0", 77), ("googlenet", 64)]
)
def test_features_are_those_of_the_network(kind, name, size):
    backbone = network(name)
    pixels = pixels_of(size)
    expected = plainly(backbone, pixels)
    found = engine_of(kind, backbone, size)(pixels)
    assert found.dtype == np.float32
    assert found.std(axis=0).max() > 0  # the photos do differ
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["alexnet", "vgg16"])
def test_large_networks_too(name):
    backbone = network(name)
    pixels = pixels_of(224, count=1)
    expected = plainly(backbone, pixels)
    assert np.abs(OnnxEngine(backbone, 224)(pixels) - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("kind", ["onnx", "torch"])
def test_a_photo_does_not_depend_on_its_batch(kind):
    backbone = network("efficientnet_lite0")
    engine = engine_of(kind, backbone, 64)
    pixels = pixels_of(64, count=5)
    together, alone = engine(pixels), np.concatenate([engine(pixels[i : i + 1]) for i in range(5)])
    assert np.abs(together - alone).max() <= 1e-5 * np.abs(alone).max()


@pytest.mark.parametrize("kind", ["onnx", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_network_stays_as_it_is(kind, dtype):
    backbone = Tiny().to(dtype).train()
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    pixels = pixels_of(32)
    found = engine_of(kind, backbone, 32)(pixels)
    assert backbone.training
    assert all(module.training for module in backbone.modules())
    assert all(weight.requires_grad for weight in backbone.parameters())
    assert all(torch.equal(value, before[name]) for name, value in backbone.state_dict().items())
    assert np.abs(found - plainly(Tiny().eval(), pixels)).max() < 1e-5


def test_weights_that_are_changed_later_are_not_seen():
    backbone = Tiny().eval()
    engine = TorchEngine(backbone)
    expected = engine(pixels_of(32))
    nn.init.zeros_(backbone.fc.weight)
    assert np.array_equal(engine(pixels_of(32)), expected)


# ---- which engine ----------------------------------------------------------------------------------------------------


class Odd(Tiny):
    def forward(self, images):
        return torch.erf(super().forward(images))


def test_auto_is_onnx_where_it_can():
    assert isinstance(make_engine("auto", Tiny(), 32)[0], OnnxEngine)
    assert isinstance(make_engine("torch", Tiny(), 32)[0], TorchEngine)


def test_an_operation_that_is_not_in_the_table():
    why = r"the network Odd cannot be run by ONNX Runtime: it has aten.erf.default"
    with pytest.raises(InputError, match=why + "; compute with torch"):
        make_engine("onnx", Odd(), 32)
    engine, note = make_engine("auto", Odd(), 32)
    assert isinstance(engine, TorchEngine)
    assert note == "the network Odd cannot be run by ONNX Runtime: it has aten.erf.default; torch computes the features"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda x: nn.functional.adaptive_avg_pool2d(x, 3), r"pooling \(8, 8\) pixels into \(3, 3\)"),
        (lambda x: torch.cat([x, x])[: len(x)], "joining photos to a longer batch"),
        (lambda x: torch.add(x, x, alpha=2), "a sum with the factor 2"),
        (lambda x: x.view(-1, 4), "a change of shape across photos"),
        (lambda x: x.double(), "a change of format to torch.float64"),
        (lambda x: nn.functional.batch_norm(x, None, None, training=True), "normalisation by the batch itself"),
        (lambda x: nn.functional.conv_transpose2d(x, torch.ones(3, 1, 2, 2)), "a convolution that is transposed"),
    ],
)
def test_other_things_that_cannot_be_translated(change, what):
    class Changed(Tiny):
        def forward(self, images):
            return change(nn.functional.max_pool2d(images, 4)).flatten(1)

    with pytest.raises(InputError, match=what):
        OnnxEngine(Changed(), 32)


def test_a_translation_that_is_wrong_is_noticed(monkeypatch):
    def relu(to, out, x, low, high):
        return to.node("Relu", [to.name(x)])

    monkeypatch.setitem(onnx_graph._TABLE, torch.ops.aten.hardtanh_.default, relu)
    backbone = Tiny()
    nn.init.constant_(backbone.norm.weight, 100.0)  # so that activations go above 6
    with pytest.raises(InputError, match=r"its answers there differ from torch's; compute with torch"):
        OnnxEngine(backbone, 32)


def test_a_size_of_the_network_is_never_taken_for_the_batch():
    """The batch that is watched has 3 photos; a layer with 3 outputs must not become one of any size."""

    class Three(Tiny):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8 * 4 * 4, 3)

    found = OnnxEngine(Three(), 32)(pixels_of(32, count=5))
    assert found.shape == (5, 3)


def test_names_and_extras(monkeypatch):
    with pytest.raises(InputError, match=r"engine: expected 'auto', 'onnx' or 'torch', got 'tensorrt'"):
        check_engine("tensorrt", Tiny())
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "finegraph\[onnx\]"'):
        check_engine("onnx", Tiny())
    check_engine("auto", Tiny())
    assert isinstance(make_engine("auto", Tiny(), 32)[0], TorchEngine)


def test_onnx_is_for_the_cpu():
    with pytest.raises(InputError, match=r"the engine 'onnx' computes on the CPU, and the network is on meta"):
        check_engine("onnx", Tiny().to("meta"))


@pytest.mark.deep
def test_onnx_is_imported_when_it_is_needed():
    script = "import sys, finegraph.model.features; print(sorted({'onnx', 'onnxruntime'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
