"""Whole classifiers as ONNX and as torch.export files: their inputs, outputs and texts, and that they answer alike."""

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch

import tiny_classifier
from finegraph import LabelGraph, __version__
from finegraph.data.transforms import ViewSettings
from finegraph.errors import ExportError, MissingExtraError
from finegraph.graph.graph_files import graph_from_json
from finegraph.model.export import export_names as names
from finegraph.model.export import onnx_file, runners
from finegraph.model.export.export_check import LIMIT, compare_outputs
from finegraph.model.export.export_names import suffix_of
from finegraph.model.export.metadata import metadata_of
from finegraph.model.export.onnx_file import onnx_bytes
from finegraph.model.export.runners import Likelihoods, ModelRunner, OnnxRunner, TorchRunner, check_onnx
from finegraph.model.export.torch_file import METADATA, torch_bytes
from finegraph.nn.backbones import build
from reference.random_graphs import FORMS, random_graph

pytestmark = pytest.mark.usefixtures("unchecked")

MENU = {
    "mapo @ A": {"dish": "mapo", "served": {"bowl": 0.7, "plate": 0.3}, "spicy": True},
    "mapo @ B": {"dish": "mapo", "served": None, "spicy": True},
    "kung pao @ B": {"dish": "kung pao", "served": {"plate", "bowl"}, "spicy": False},
    "udon @ B": {"dish": "udon", "served": "bowl", "spicy": None},
}
OF_KINDS = tuple(name for name in names.OUTPUTS if "number" not in name)
PRICES = LabelGraph.from_table(
    {
        "mapo @ A": {"dish": "mapo", "price": 12.5, "mass": "300 +- 30", "year": 2012},
        "mapo @ B": {"dish": "mapo", "price": 9.0, "mass": None, "year": 2010},
        "udon @ B": {"dish": "udon", "price": 15.0, "mass": 250.0, "year": 2012},
    },
    types={"price": "number, EUR", "mass": "log number, g", "year": "number"},
)
PARTS = {
    "numbers": {"table": PRICES, "coarse_network": "tiny", "temperature": 1.7},
    "numbers, softmax": {"table": PRICES, "head": "softmax"},
    "one network": {},
    "two networks": {"coarse_network": "tiny"},
    "softmax": {"head": "softmax"},
    "calibrated": {"temperature": 2.5},
    "scaled features": {"scaling": "whitened"},
    "compressed features": {"scaling": "compressed"},
    "joined networks": {"network": "tiny+other"},
    "joined networks, scaled by block": {"network": "other+tiny", "scaling": "whitened_blocks"},
    "joined networks, compressed by block": {"network": "other+tiny", "scaling": "compressed_blocks"},
    "branch for training": {"network": "branched"},
    "no kinds": {"table": LabelGraph(["a", "b", "c"])},
    "groups": {"table": tiny_classifier.TABLE, "coarse_network": "tiny", "temperature": 0.4},
}


class Gelu(tiny_classifier.TinyBackbone):
    """A network with an operation that only torch's exporter knows."""

    def forward(self, images):
        return torch.nn.functional.gelu(super().forward(images))


@pytest.fixture(autouse=True)
def _networks(monkeypatch):
    tiny_classifier.register(monkeypatch)
    monkeypatch.setitem(build.BACKBONES, "gelu", lambda dropout, auxiliary: Gelu())


def classifier(table=MENU, **parts):
    return tiny_classifier.classifier(table, **parts)


def images(count, seed=0, size=24):
    return np.random.default_rng(seed).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def largest_difference(file, model, count=13):
    found = compare_outputs(
        file, ModelRunner(model), model.graph, images(count), [str(number) for number in range(count)]
    )
    return max(one.largest for one in found)


def coarse_count(graph):
    return sum(len(graph.labels(kind)) for kind in graph.kinds)


@pytest.fixture(scope="module")
def traced():
    """A classifier with two networks and a temperature, and its file of torch.export, which takes a while."""
    with pytest.MonkeyPatch.context() as patch:
        tiny_classifier.register(patch)
        model = classifier(coarse_network="tiny", temperature=1.7)
        before = {name: weight.clone() for name, weight in model.network.state_dict().items()}
        content = torch_bytes(model)
        assert all(torch.equal(weight, before[name]) for name, weight in model.network.state_dict().items())
    return model, content


def torch_runner(model, content):
    return TorchRunner(content, len(model.graph), coarse_count(model.graph), len(model.graph.numbers))


@pytest.mark.deep
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_onnx_answers_as_the_model(parts):
    model = classifier(**parts)
    assert largest_difference(OnnxRunner(onnx_bytes(model)), model) < LIMIT / 10


@pytest.mark.parametrize("form", FORMS)
def test_onnx_of_every_form_of_graph(form):
    model = classifier(random_graph(np.random.default_rng(1), form).graph)
    assert largest_difference(OnnxRunner(onnx_bytes(model)), model) < LIMIT / 10


@pytest.mark.deep
def test_the_files_tell_numbers():
    model = classifier(PRICES)
    answers = OnnxRunner(onnx_bytes(model))(images(2))
    assert (answers["number_means"].shape, answers["number_quantiles"].shape) == ((2, 3), (2, 3, 3))
    layout = json.loads(metadata_of(model)["labels"])
    mass, year = layout["numbers"][1:]
    assert (mass["name"], mass["unit"], mass["scale"]) == ("mass", "g", "log")
    assert (mass["resolution"], year["resolution"]) == (pytest.approx((300 / 250) ** 0.5), pytest.approx(1.0))
    assert layout["quantiles"] == [0.05, 0.5, 0.95]


@pytest.mark.deep
def test_torch_answers_as_the_model(traced):
    model, content = traced
    assert largest_difference(torch_runner(model, content), model) < LIMIT / 10


def mostly_slow(names, *quick):
    """All of them, most only in the long run: tracing takes seconds."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


@pytest.mark.deep
@pytest.mark.parametrize("part", mostly_slow(PARTS, "numbers", "no kinds", "joined networks, scaled by block"))
def test_torch_answers_for_every_part(part):
    model = classifier(**PARTS[part])
    assert largest_difference(torch_runner(model, torch_bytes(model)), model) < LIMIT / 10


@pytest.mark.deep
@pytest.mark.parametrize("form", mostly_slow(FORMS, "mixed"))
def test_torch_of_every_form_of_graph(form):
    model = classifier(random_graph(np.random.default_rng(1), form).graph)
    assert largest_difference(torch_runner(model, torch_bytes(model)), model) < LIMIT / 10


@pytest.mark.deep
def test_both_forms_agree_on_evidence_of_probability_0_and_on_what_is_none(traced):
    model, content = traced
    fine, coarse = np.ones((4, 4), np.float32), np.ones((4, coarse_count(model.graph)), np.float32)
    fine[0] = 0.0
    coarse[1, :3] = 0.0
    coarse[2, 0] = np.nan
    given = Likelihoods(fine, coarse)
    one, two = OnnxRunner(onnx_bytes(model))(images(4), given), torch_runner(model, content)(images(4), given)
    assert one.keys() == two.keys() == set(OF_KINDS)
    assert one["possible"].tolist() == two["possible"].tolist() == [False, False, False, True]
    for name in ("log_probs", "kind_log_probs"):
        assert np.isneginf(one[name][:3]).all()
        assert np.isneginf(two[name][:3]).all()
        assert np.allclose(one[name][3], two[name][3], atol=1e-5)


def test_any_batch():
    model = classifier()
    run, pixels = OnnxRunner(onnx_bytes(model)), images(64)
    whole = run(pixels)
    assert {name: value.shape[0] for name, value in whole.items()} == dict.fromkeys(OF_KINDS, 64)
    for size in (1, 3):
        for name, value in run(pixels[:size]).items():
            assert np.allclose(value, whole[name][:size], atol=1e-5), name
    expected = ModelRunner(model)(pixels)
    assert np.allclose(whole["log_probs"], expected["log_probs"], atol=1e-5)
    assert np.allclose(np.linalg.norm(whole["embedding"], axis=1), 1)
    assert np.allclose(whole["embedding"], expected["embedding"], atol=1e-6)


def test_large_scores_stay_finite():
    model = classifier()
    with torch.no_grad():
        model.network.head.fine.bias.copy_(torch.tensor([1e4, -1e4, 9999.0, 0.0]))
        model.network.head.coarse.bias.normal_(0, 5e3, generator=torch.Generator().manual_seed(0))
    found, expected = OnnxRunner(onnx_bytes(model))(images(3)), ModelRunner(model)(images(3))
    for name in ("log_probs", "kind_log_probs"):
        assert np.isfinite(found[name]).all()
        assert np.allclose(found[name], expected[name], rtol=1e-5, atol=1e-2)


def test_what_the_file_says_about_itself():
    model = classifier(coarse_network="tiny", temperature=1.5, views=ViewSettings(size=24, resize=30, keep_shape=True))
    content = onnx.load_model_from_string(onnx_bytes(model))
    texts = {entry.key: entry.value for entry in content.metadata_props}
    assert texts == metadata_of(model)
    assert (texts["format"], texts["format_version"]) == ("finegraph.export", "1")
    assert texts["finegraph_version"] == content.producer_version == __version__
    assert (texts["network"], texts["head"], texts["temperature"]) == ("tiny and tiny", "bipartite", "1.5")
    assert graph_from_json(texts["graph"]) == model.graph
    labels, how = json.loads(texts["labels"]), json.loads(texts["preprocessing"])
    assert labels["fine"] == list(model.graph.fine)
    assert [kind["name"] for kind in labels["kinds"]] == list(model.graph.kinds)
    assert labels["kinds"][1] == {"name": "served", "start": 3, "stop": 5, "labels": list(model.graph.labels("served"))}
    assert (how["size"], how["resize"], how["keep_shape"], how["interpolation"]) == (24, 30, True, "bilinear")
    assert "its shorter side has 30 pixels (bilinear" in how["words"]
    inputs = {one.name: [size.dim_param or size.dim_value for size in one.type.tensor_type.shape.dim]
              for one in content.graph.input}  # fmt: skip
    assert inputs == {
        "images": ["batch", 24, 24, 3], "evidence": ["evidence_batch", 7], "fine_evidence": ["fine_evidence_batch", 4]
    }  # fmt: skip
    assert [one.name for one in content.graph.output] == list(OF_KINDS)


@pytest.mark.deep
def test_only_the_images_must_be_given():
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(onnx_bytes(classifier()), options, providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["images"]
    assert {one.name for one in session.get_overridable_initializers()} == {"evidence", "fine_evidence"}
    session = onnxruntime.InferenceSession(onnx_bytes(classifier(PRICES)), options, providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["images"]
    given = {one.name: (one.type, one.shape) for one in session.get_overridable_initializers()}
    assert given["number_ranges"] == ("tensor(double)", ["number_ranges_batch", 3, 2])
    assert given["number_estimates"] == ("tensor(double)", ["number_estimates_batch", 3, 2])
    found = dict(zip(names.OUTPUTS, session.run(None, {"images": images(4)}), strict=True))
    ranges = np.array([[[-np.inf, 12.5], [0, np.inf], [2011, 2012]]])  # one row for the whole batch
    limited = dict(zip(names.OUTPUTS, session.run(None, {"images": images(4), "number_ranges": ranges}), strict=True))
    assert np.isneginf(limited["log_probs"][:, 1:]).all()
    assert np.allclose(limited["log_probs"][:, 0], 0, atol=1e-6)
    assert np.allclose(limited["number_means"][:, [0, 2]], [12.5, 2012])
    assert np.isfinite(found["log_probs"]).all()
    each = {"images": images(4), "number_ranges": ranges.repeat(4, axis=0)}
    assert np.array_equal(session.run(None, each)[0], limited["log_probs"])
    estimates = np.array([[[0, np.inf], [250, 20], [0, np.inf]]]).repeat(4, axis=0)
    assert np.isfinite(session.run(None, {"images": images(4), "number_estimates": estimates})[0]).all()


@pytest.mark.slow
def test_a_torch_file_needs_no_finegraph(traced, tmp_path):
    model, content = traced
    path = tmp_path / "model.pt2"
    path.write_bytes(content)
    script = (
        "import json, sys, torch\n"
        f"texts = {{{METADATA!r}: ''}}\n"
        f"program = torch.export.load({str(path)!r}, extra_files=texts).module()\n"
        "images = torch.zeros(5, 24, 24, 3, dtype=torch.uint8)\n"
        "found = program(images, fine_evidence=torch.ones(5, 4), evidence=torch.ones(5, 7))\n"
        "print(sorted(found), found['log_probs'].shape[0], any(name.startswith('finegraph') for name in sys.modules))\n"
        f"print(texts[{METADATA!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    first, second = done.stdout.splitlines()
    assert first == "['embedding', 'kind_log_probs', 'log_probs', 'possible'] 5 False"
    assert json.loads(second) == metadata_of(model)


@pytest.mark.deep
def test_a_network_that_only_torch_can_translate():
    model = classifier(network="gelu", coarse_network="tiny")
    content = onnx_bytes(model)
    assert onnx.load_model_from_string(content).opset_import[0].version == onnx_file.EXPORTED_OPERATIONS
    assert largest_difference(OnnxRunner(content), model) < LIMIT / 10


@pytest.mark.deep
def test_a_network_that_cannot_be_translated(monkeypatch):
    model = classifier(network="gelu")
    monkeypatch.setattr(onnx_file, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'gelu.*needs onnxscript.*pip install "finegraph\[onnx\]"'):
        onnx_bytes(model)
    monkeypatch.undo()
    model.network.backbone.forward = lambda images: images.mean(dim=(2, 3)) if images.sum() > 0 else images[0]
    with pytest.raises(ExportError, match=r"the network Gelu cannot be translated to ONNX: .*\(.pt2\)"):
        onnx_bytes(model)
    with pytest.raises(ExportError, match=r"the network gelu cannot be traced by torch: "):
        torch_bytes(model)


def test_the_model_stays_as_it_was():
    model = classifier()
    before = {name: weight.clone() for name, weight in model.network.state_dict().items()}
    onnx_bytes(model)
    for name, weight in model.network.state_dict().items():
        assert torch.equal(weight, before[name])


def test_too_large_for_one_file(monkeypatch):
    monkeypatch.setattr(onnx_file, "LARGEST", 1000)
    with pytest.raises(ExportError, match=r"GB of weights and links, and one ONNX file holds at most .* \(.pt2\)"):
        onnx_bytes(classifier())


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(runners, "find_spec", lambda name: None if name == "onnx" else object())
    message = r'compared with the model; onnx cannot be found; install them with `pip install "finegraph\[onnx\]"`'
    with pytest.raises(MissingExtraError, match=message):
        check_onnx()


def test_the_name_says_the_form():
    assert (suffix_of("a.onnx"), suffix_of("A.PT2")) == (".onnx", ".pt2")
    with pytest.raises(ExportError, match=r"model.onx: expected a file name that ends in .onnx or .pt2"):
        suffix_of("model.onx")


@pytest.mark.deep
def test_nothing_of_onnx_is_imported_before_it_is_needed():
    modules = "finegraph.workflows.export, finegraph.model.export.torch_file"
    script = f"import sys, {modules}; print(sorted({{'onnx', 'onnxruntime'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
