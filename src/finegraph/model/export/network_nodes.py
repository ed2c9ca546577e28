"""Backbones as ONNX operations: pixels in, features out.

A network is translated by watching it work (`features/onnx_graph.py`), which takes a fraction of a second and knows the
networks of finegraph. If that meets an operation it does not know, as in networks of timm, torch's own exporter
takes over; it knows nearly everything and takes ten seconds or more. Either way the result is compared with torch.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NamedTuple

import onnx
import torch
from onnx import compose, inliner
from torch import Tensor, nn

from finegraph.errors import ExportError, MissingExtraError
from finegraph.model.export.node_writer import Writer
from finegraph.model.export.quiet import quiet
from finegraph.model.features.onnx_graph import UnknownOperationError, onnx_model
from finegraph.nn.backbones import Backbone

WATCHED_OPERATIONS, EXPORTED_OPERATIONS = 17, 18
"""The versions of the operations that the two ways of translating write."""


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


def add_network(to: Writer, model: onnx.ModelProto, pixels: str, prefix: str) -> str:
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
