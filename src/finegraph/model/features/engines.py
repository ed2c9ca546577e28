"""The engines that compute features: ONNX Runtime or torch, both with one thread per call.

Threads do not help each other here, they work side by side: each takes a few photos from the file to the features. That
keeps every core busy with no waiting between layers, and on two cores computes a fifth more photos per second than two
threads on one batch. Small batches are as quick as large ones and take less memory.

On one core ONNX Runtime is about 1.6 times as quick as torch with `channels_last`, for EfficientNet-Lite0. It joins
layers by itself, and it does not need the memory settings of the whole process that torch gains so much from.
"""

from __future__ import annotations

import copy
import threading
from importlib import import_module
from importlib.util import find_spec
from typing import Literal, Protocol

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from torch import Tensor

from finegraph.errors import InputError, MissingExtraError
from finegraph.nn.backbones import Backbone

EngineName = Literal["auto", "onnx", "torch"]
ENGINES = ("auto", "onnx", "torch")
_CLOSE = 1e-3
"""How far, as a share of the largest feature, the two engines may differ; in float32 it is a thousandth of that."""


class Engine(Protocol):
    """Pixels in, features out. Any thread may call it."""

    def __call__(
        self, pixels: UInt8[Tensor, "batch channel height width"]
    ) -> Float[NDArray[np.float32], "batch feature"]:
        """The features of some photos."""


class TorchEngine:
    """A copy of the network in evaluation mode, where the network is; the network itself stays as it was."""

    def __init__(self, backbone: Backbone) -> None:
        self._device = device_of(backbone)
        network = copy.deepcopy(backbone).requires_grad_(False).eval().float()
        self._backbone = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._turn = threading.Lock()

    def __call__(
        self, pixels: UInt8[Tensor, "batch channel height width"]
    ) -> Float[NDArray[np.float32], "batch feature"]:
        """The features of some photos; on a GPU, which is quick only when it is not shared, one call at a time."""
        if self._device.type == "cpu":
            return self._compute(pixels)
        with self._turn:
            return self._compute(pixels)

    def _compute(self, pixels: Tensor) -> NDArray[np.float32]:
        with torch.inference_mode():
            images = self._backbone.preprocessing.normalise(pixels.to(self._device))
            features: NDArray[np.float32] = (
                self._backbone(images.contiguous(memory_format=torch.channels_last)).cpu().numpy()
            )
        return features


class OnnxEngine:
    """The network in ONNX Runtime, compared with torch once before it is used."""

    def __init__(self, backbone: Backbone, size: int) -> None:
        """Translate a network.

        Args:
            backbone: the network; it stays as it was.
            size: height and width of the pixels.

        Raises:
            InputError: the network has something in it that cannot be translated.
        """
        from finegraph.model.features.onnx_graph import UnknownOperationError, onnx_model

        network = copy.deepcopy(backbone).requires_grad_(False).eval().float()
        try:
            content = onnx_model(network, size)
        except UnknownOperationError as error:
            raise InputError(f"{_cannot(backbone)} it has {error}; compute with torch") from error
        onnxruntime = import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._compare(network, size)

    def __call__(
        self, pixels: UInt8[Tensor, "batch channel height width"]
    ) -> Float[NDArray[np.float32], "batch feature"]:
        """The features of some photos."""
        features: NDArray[np.float32] = self._session.run(None, {"pixels": pixels.cpu().contiguous().numpy()})[0]
        return features

    def _compare(self, backbone: Backbone, size: int) -> None:
        """Raise if the features differ from those of torch."""
        chance = torch.Generator().manual_seed(1)
        pixels = torch.randint(256, (2, 3, size, size), dtype=torch.uint8, generator=chance)
        with torch.inference_mode():
            expected = backbone(backbone.preprocessing.normalise(pixels)).numpy()
        features = self(pixels)
        # A network that training has broken gives NaN; it has to do so in both.
        close = _CLOSE * float(np.nan_to_num(np.abs(expected), posinf=0.0).max(initial=0.0))
        if features.shape != expected.shape or not np.allclose(features, expected, rtol=0, atol=close, equal_nan=True):
            raise InputError(f"{_cannot(backbone)} its answers there differ from torch's; compute with torch")


def check_engine(name: str, backbone: Backbone) -> None:
    """Raise if an engine requested by name is not available."""
    if name not in ENGINES:
        raise InputError(f"engine: expected 'auto', 'onnx' or 'torch', got {name!r}")
    if name == "onnx":
        if not _has_onnx():
            raise MissingExtraError(
                "the engine 'onnx' needs onnx and onnxruntime, which are not installed; install them with "
                '`pip install "finegraph[onnx]"`, or compute with torch'
            )
        if device_of(backbone).type != "cpu":
            raise InputError(
                f"the engine 'onnx' computes on the CPU, and the network is on {device_of(backbone)}; move the network "
                "to the CPU, or compute with torch"
            )


def make_engine(name: str, backbone: Backbone, size: int) -> tuple[Engine, str | None]:
    """An engine by name, and a note about the choice.

    Args:
        name: `onnx`, `torch`, or `auto` for ONNX Runtime if it is installed and can run the network.
        backbone: the network.
        size: height and width of the pixels.
    """
    if name == "onnx":
        return OnnxEngine(backbone, size), None
    if name == "auto" and _has_onnx() and device_of(backbone).type == "cpu":
        try:
            return OnnxEngine(backbone, size), None
        except InputError as error:
            return TorchEngine(backbone), str(error).replace("compute with torch", "torch computes the features")
    return TorchEngine(backbone), None


def device_of(backbone: Backbone) -> torch.device:
    """Where the weights of a network are."""
    return next((weight.device for weight in backbone.parameters()), torch.device("cpu"))


def _has_onnx() -> bool:
    return all(find_spec(name) is not None for name in ("onnx", "onnxruntime"))


def _cannot(backbone: Backbone) -> str:
    return f"the network {type(backbone).__name__} cannot be run by ONNX Runtime:"
