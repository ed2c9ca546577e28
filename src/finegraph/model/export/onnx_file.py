"""A classifier as one ONNX file: uint8 images in, exact log probabilities of all labels and the embedding out.

    images ──> pixels ──> network(s) ──> scaling, if any ──> scores / temperature ──┐
                                                            (less by the doubt)     │
    evidence, fine_evidence, number_ranges, number_estimates ───────────────────────┴──> `posterior_nodes.py`

Evidence is optional: its inputs have neutral default values, which ONNX represents as constants of the same names. The
size is that of the weights and a few numbers per link of the graph. One file of ONNX holds 2 GB; the weights and links
of a larger model are in a second file beside it, as ONNX external data.

A network is translated by recording its operations (`features/onnx_graph.py`), which takes a fraction of a second and
supports the networks of finegraph. For other operations, as in networks of timm, torch's own exporter is used; it
supports nearly everything and takes ten seconds or more. Either way the result is compared with torch.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from jaxtyping import Shaped
from numpy.typing import NDArray
from onnx import TensorProto, compose, helper, inliner, numpy_helper
from torch import Tensor, nn

from finegraph._version import __version__
from finegraph.errors import ExportError, MissingExtraError
from finegraph.model.export import export_names as names
from finegraph.model.export.metadata import metadata_of
from finegraph.model.export.node_writer import NodeWriter
from finegraph.model.export.number_nodes import NumberInputs, NumberScores
from finegraph.model.export.posterior_nodes import add_posterior, doubt_factor
from finegraph.model.export.tracing import quiet
from finegraph.model.features.onnx_graph import UnknownOperationError, onnx_model
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.nn.backbones import Backbone
from finegraph.nn.heads import BipartiteHead
from finegraph.nn.number_layer import NumberLayer
from finegraph.nn.scaling import BlockScaling, Scaling

_FILE_VERSION = 8
"""All releases of ONNX Runtime of recent years read it."""
LARGEST = 2**31 - 2**20
"""Bytes of one ONNX file at most, with a little room for names."""
WATCHED_OPERATIONS, EXPORTED_OPERATIONS = 17, 18
"""The versions of the operations that the two ways of translating write."""


class OnnxContent(NamedTuple):
    """A model and, beside it, the numbers of its large constants; what `Writer.data` says."""

    model: bytes
    data: list[Shaped[NDArray[Any], " ..."]]


def onnx_bytes(classifier: PhotoClassifier) -> bytes:
    """The content of the ONNX file of a classifier.

    Raises:
        ExportError: the model is too large for one file, or has a part that ONNX has no operation for.
        MissingExtraError: a package that the network needs to be translated is not installed.
    """
    _check_size(size_of(classifier))
    return _serialised(_model(classifier, None)[0])


def onnx_with_data(classifier: PhotoClassifier, data_name: str) -> OnnxContent:
    """The same for a model of any size, whose large constants are in another file.

    Args:
        classifier: what to export.
        data_name: the name of that file, which must lie beside the model.
    """
    model, data = _model(classifier, data_name)
    return OnnxContent(model.SerializeToString(), data)


def size_of(classifier: PhotoClassifier) -> int:
    """About how many bytes the weights and the links have."""
    graph = classifier.graph
    return sum(weight.numel() * 4 for weight in classifier.network.parameters()) + 12 * len(graph) * len(graph.kinds)


def _model(
    classifier: PhotoClassifier, data_name: str | None
) -> tuple[onnx.ModelProto, list[Shaped[NDArray[Any], " ..."]]]:
    """The model, and the arrays for a file beside it if that has a name."""
    network, graph = classifier.network, classifier.graph
    backbones = [one for one in (network.backbone, network.coarse_backbone) if one is not None]
    translated = translate(backbones, classifier.views.size)
    to = NodeWriter(translated.operations, data_name)
    pixels = to.node("Transpose", names.IMAGES, perm=[0, 3, 1, 2])
    features = [add_network(to, model, pixels, f"network{n}_") for n, model in enumerate(translated.models)]
    _add_embedding(to, features[0])
    head = network.head
    if network.scaling is not None:
        features = [_scaled(to, features[0], network.scaling)]
    # A doubt looks at the scores before the temperature, which then is part of its factor.
    temperature = 1.0 if head.doubt else classifier.temperature
    fine = _scores(to, features[0], head.fine, temperature)
    coarse = None
    if isinstance(head, BipartiteHead) and graph.kinds:
        assert isinstance(head.coarse, nn.Linear)  # a network has one feature for all coarse labels
        coarse = _scores(to, features[-1], head.coarse, temperature)
    inputs, outputs = _interface(to, classifier, head.features)
    numbers = None
    if isinstance(head, BipartiteHead) and head.numbers is not None:
        assert isinstance(head.numbers, NumberLayer)  # the same
        numbers = _number_scores(to, features[-1], head.numbers, temperature)
    if head.doubt:
        factor = doubt_factor(to, graph, fine, coarse, numbers, head.doubt)
        if classifier.temperature != 1.0:
            factor = to.node("Div", factor, to.number(classifier.temperature, np.float32))
        fine = to.node("Mul", fine, factor)
        coarse = None if coarse is None else to.node("Mul", coarse, factor)
        if numbers is not None:
            numbers = NumberScores(*(to.node("Mul", part, factor) for part in numbers))
    evidence = names.EVIDENCE if graph.kinds else None
    on_numbers = NumberInputs(names.NUMBER_RANGES, names.NUMBER_ESTIMATES) if graph.numbers else None
    add_posterior(to, graph, fine, coarse, names.FINE_EVIDENCE, evidence, numbers, on_numbers)
    model = to.model("finegraph", inputs, outputs, _FILE_VERSION)
    model.producer_name, model.producer_version = "finegraph", __version__
    helper.set_model_props(model, metadata_of(classifier))
    return model, to.data


def _add_embedding(to: NodeWriter, features: str) -> None:
    """The feature with length 1."""
    length = to.node("Max", to.reduce("ReduceL2", features, 1), to.number(names.SMALLEST_NORM, np.float32))
    to.node("Div", features, length, output=names.EMBEDDING)


def _scaled(to: NodeWriter, features: str, scaling: Scaling) -> str:
    """Features compressed, centred, whitened and of one length, block by block if there are several."""
    if isinstance(scaling, BlockScaling):
        blocks, start = [], 0
        for part, factor in zip(scaling.parts, scaling.factors, strict=True):
            ends = [to.constant(np.array([number]), np.int64) for number in (start, start + part.size, 1)]
            start += part.size
            own = _scaled(to, to.node("Slice", features, *ends), part)
            blocks.append(to.node("Mul", own, to.number(factor, np.float32)))
        return to.node("Concat", *blocks, axis=1)
    if scaling.compression is not None:
        compression = to.number(float(scaling.compression), np.float32)
        grown = to.node("Mul", to.node("Abs", features), compression)
        slow = to.node("Log", to.node("Add", grown, to.number(1.0, np.float32)))
        features = to.node("Div", to.node("Mul", to.node("Sign", features), slow), compression)
    centred = to.node("Sub", features, to.constant(_array(scaling.mean), np.float32))
    white = to.node("Gemm", centred, to.constant(_array(scaling.matrix), np.float32), transB=1)
    smallest = to.number(float(np.finfo(np.float32).tiny), np.float32)
    length = to.node("Max", to.reduce("ReduceL2", white, 1), smallest)
    return to.node("Div", to.node("Mul", white, to.number(scaling.size**0.5, np.float32)), length)


def _scores(to: NodeWriter, features: str, layer: nn.Linear, temperature: float) -> str:
    """The scores of a linear layer, divided by the temperature."""
    parts = [to.constant(_array(layer.weight), np.float32)]
    if layer.bias is not None:
        parts.append(to.constant(_array(layer.bias), np.float32))
    scores = to.node("Gemm", features, *parts, transB=1)
    return scores if temperature == 1.0 else to.node("Div", scores, to.number(temperature, np.float32))


def _number_scores(to: NodeWriter, features: str, layer: NumberLayer, temperature: float) -> NumberScores:
    """The pulls and precisions of numbers on the inner scales of the graph, divided by the temperature."""
    found = []
    for part in (0, 1):
        parts = [to.constant(_array(layer.weight[part::2]), np.float32)]
        if layer.bias is not None:
            parts.append(to.constant(_array(layer.bias[part::2]), np.float32))
        found.append(to.node("Gemm", features, *parts, transB=1))
    factor, shift = _array(layer.scale).T
    pulls, precisions = found[0], to.node("Softplus", found[1])
    pulls = to.node("Sub", pulls, to.node("Mul", precisions, to.constant(shift, np.float32)))
    pulls = to.node("Mul", pulls, to.constant(factor / temperature, np.float32))
    return NumberScores(pulls, to.node("Mul", precisions, to.constant(factor * factor / temperature, np.float32)))


def _array(weight: Tensor) -> Any:
    return weight.detach().float().cpu().numpy()


def _interface(to: NodeWriter, classifier: PhotoClassifier, features: int) -> tuple[list[Any], list[Any]]:
    """The inputs and outputs; evidence gets default values that say nothing."""
    graph, size = classifier.graph, classifier.views.size
    fine, coarse = len(graph), sum(len(graph.labels(kind)) for kind in graph.kinds)
    value = helper.make_tensor_value_info
    inputs = [value(names.IMAGES, TensorProto.UINT8, ["batch", size, size, 3])]
    outputs = [value(names.LOG_PROBS, TensorProto.FLOAT, ["batch", fine])]
    given = {names.EVIDENCE: coarse, names.FINE_EVIDENCE: fine}
    for name, count in given.items():
        if count:
            inputs.append(value(name, TensorProto.FLOAT, [f"{name}_batch", count]))
            to.constants.append(numpy_helper.from_array(np.ones((1, count), np.float32), name))
    if coarse:
        outputs.append(value(names.KIND_LOG_PROBS, TensorProto.FLOAT, ["batch", coarse]))
    if count := len(graph.numbers):
        for name, nothing in ((names.NUMBER_RANGES, names.NO_RANGE), (names.NUMBER_ESTIMATES, names.NO_ESTIMATE)):
            inputs.append(value(name, TensorProto.DOUBLE, [f"{name}_batch", count, 2]))
            to.constants.append(numpy_helper.from_array(np.tile(np.array(nothing), (1, count, 1)), name))
        outputs.append(value(names.NUMBER_MEANS, TensorProto.FLOAT, ["batch", count]))
        outputs.append(value(names.NUMBER_QUANTILES, TensorProto.FLOAT, ["batch", count, len(names.QUANTILES)]))
    outputs.append(value(names.EMBEDDING, TensorProto.FLOAT, ["batch", features]))
    outputs.append(value(names.POSSIBLE, TensorProto.BOOL, ["batch"]))
    return inputs, outputs


def _serialised(model: onnx.ModelProto) -> bytes:
    """The bytes of a model that ONNX itself finds nothing wrong with."""
    try:
        content: bytes = model.SerializeToString()
    except Exception as error:  # the encoder has errors of its own for what is too large
        raise ExportError(f"the model cannot be written as one ONNX file: {error}") from error
    _check_size(len(content))
    onnx.checker.check_model(content, full_check=True)
    return content


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise ExportError(
            f"the model has {size / 1e9:.1f} GB of weights and links, and one ONNX file holds at most "
            f"{LARGEST / 1e9:.1f} GB; export it with torch (.pt2)"
        )


class TranslatedNetworks(NamedTuple):
    """Backbones as ONNX models, and the version of the operations that they are written in."""

    models: list[onnx.ModelProto]
    operations: int


def translate(backbones: Sequence[Backbone], size: int) -> TranslatedNetworks:
    """Backbones as ONNX models.

    Args:
        backbones: the networks; they stay as they were.
        size: height and width of the pixels.

    Raises:
        ExportError: a network that cannot be translated.
        MissingExtraError: one that only torch's exporter can translate, which needs a package that is not installed.
    """
    own = [copy.deepcopy(one).requires_grad_(False).eval().float().to("cpu") for one in backbones]
    try:
        watched = [onnx.load_model_from_string(onnx_model(one, size)) for one in own]
        return TranslatedNetworks(watched, WATCHED_OPERATIONS)
    except UnknownOperationError as error:
        if find_spec("onnxscript") is None:
            raise MissingExtraError(
                f"this network has {error}, which only torch's exporter can translate; it needs onnxscript, which is "
                'not installed; install it with `pip install "finegraph[onnx]"`'
            ) from error
        return TranslatedNetworks([_exported(one, size) for one in own], EXPORTED_OPERATIONS)


def add_network(to: NodeWriter, model: onnx.ModelProto, pixels: str, prefix: str) -> str:
    """Write a translated network; the name of its features.

    Args:
        to: what is written to.
        model: the network.
        pixels: (batch, channel, height, width) the pixels.
        prefix: what its names begin with from now on.
    """
    named = compose.add_prefix(model, prefix)
    to.node("Identity", pixels, output=named.graph.input[0].name)
    to.nodes.extend(named.graph.node)
    to.constants.extend(named.graph.initializer)
    name: str = named.graph.output[0].name
    return name


class _Pixels(nn.Module):
    """A backbone with its normalisation."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, pixels: Tensor) -> Tensor:
        """The features of pixels."""
        features: Tensor = self.backbone(self.backbone.preprocessing.normalise(pixels))
        return features


def _exported(backbone: Backbone, size: int) -> onnx.ModelProto:
    """The model that torch's exporter makes."""
    pixels = torch.randint(256, (3, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    try:
        with quiet():
            program = torch.onnx.export(
                _Pixels(backbone),
                (pixels,),
                dynamo=True,
                dynamic_shapes={"pixels": {0: torch.export.Dim("batch")}},
                opset_version=EXPORTED_OPERATIONS,
                external_data=False,
                verbose=False,
            )
    except Exception as error:  # it fails in any way where it fails
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ExportError(
            f"the network {type(backbone).__name__} cannot be translated to ONNX: {first}; export it with torch (.pt2)"
        ) from error
    assert program is not None
    model: onnx.ModelProto = program.model_proto
    if model.functions:
        model = inliner.inline_local_functions(model)
    return model
