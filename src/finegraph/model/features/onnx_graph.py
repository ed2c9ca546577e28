"""A network as an ONNX model, by recording its operations.

The network runs once on a few pixels, and every operation between the pixels and the features is written down with the
weights it used: convolutions, normalisation, pooling and a dozen more, which is all that the networks here consist of.
That takes a fraction of a second, where the general exporter of torch takes ten. The batch may have any size; height
and width are those of the pixels. Operations that are not in the table raise `UnknownOperationError`.

The translation is only as good as its table, so callers compare its output with the network's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from finegraph.nn.backbones import Backbone

PIXELS, FEATURES = "pixels", "features"
_OPERATIONS, _FORMAT = 17, 8
"""Versions of the operations and of the file; all releases of ONNX Runtime of recent years read them."""
_BATCH = 3
"""How many photos the network sees; a number that no layer here has for a size of its own."""

aten = torch.ops.aten


class UnknownOperationError(Exception):
    """An operation of the network that has no counterpart in the table."""


def onnx_model(backbone: Backbone, size: int) -> bytes:
    """The ONNX model of a network: pixels from 0 to 255 (batch, 3, size, size) in, features out.

    Args:
        backbone: in evaluation mode, with float32 weights on the CPU.
        size: height and width of the pixels.
    """
    pixels = torch.randint(256, (_BATCH, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    recorder = _Recorder(pixels)
    with torch.no_grad(), recorder:
        features = backbone(backbone.preprocessing.normalise(pixels))
    name = recorder.name(features)
    recorder.node("Identity", [name], output=FEATURES)
    graph = helper.make_graph(
        recorder.nodes,
        type(backbone).__name__,
        [helper.make_tensor_value_info(PIXELS, onnx.TensorProto.UINT8, ["batch", 3, size, size])],
        [helper.make_tensor_value_info(FEATURES, onnx.TensorProto.FLOAT, ["batch", features.shape[1]])],
        recorder.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPERATIONS)], ir_version=_FORMAT)
    content: bytes = model.SerializeToString()
    return content


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the operations on the pixels while it is active; operations on weights alone are not recorded."""

    def __init__(self, pixels: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._names = {id(pixels): PIXELS}
        self._constant_names: dict[int, str] = {}
        self._kept: list[Any] = [pixels]  # a tensor that is gone might hand its id to another one

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Says torch that this may be compiled; else it imports the compiler, a second, to say that it may not."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Carry out an operation, and write it down if it is about the pixels."""
        result = func(*args, **(kwargs or {}))
        tensors = [one for arg in args for one in (arg if isinstance(arg, list | tuple) else [arg])]
        if any(id(one) in self._names for one in tensors):
            if func not in _TABLE:
                raise UnknownOperationError(str(func))
            self._kept += [args, result]
            output = result[0] if isinstance(result, tuple | list) else result
            try:
                name = _TABLE[func](self, output, *args, **(kwargs or {}))
            except TypeError as error:
                raise UnknownOperationError(f"{func} with other settings") from error
            self._names[id(output)] = name  # an operation in place gives its tensor a new name
        return result

    def name(self, tensor: Tensor) -> str:
        """What the model calls a tensor; those that do not depend on the pixels become constants."""
        if id(tensor) in self._names:
            return self._names[id(tensor)]
        if id(tensor) not in self._constant_names:
            self._kept.append(tensor)
            self._constant_names[id(tensor)] = self.constant(tensor.detach().numpy())
        return self._constant_names[id(tensor)]

    def constant(self, array: Any) -> str:
        """A new constant."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, operation: str, inputs: Sequence[str], *, output: str | None = None, **attributes: Any) -> str:
        """A new operation; the name of its result."""
        output = output or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(inputs), [output], **attributes))
        return output


Write = Callable[..., str]


def _convolution(
    to: _Recorder,
    out: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    _: list[int],
    groups: int,
) -> str:
    if transposed or len(stride) != 2:
        raise UnknownOperationError("a convolution that is transposed or not of two dimensions")
    inputs = [to.name(tensor) for tensor in (x, weight, bias) if tensor is not None]
    return to.node("Conv", inputs, strides=stride, pads=padding * 2, dilations=dilation, group=groups)


def _batch_norm(
    to: _Recorder,
    out: Tensor,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    training: bool,
    momentum: float,
    epsilon: float,
) -> str:
    if training or weight is None or bias is None:
        raise UnknownOperationError("normalisation by the batch itself, or without weights")
    inputs = [to.name(tensor) for tensor in (x, weight, bias, mean, variance)]
    return to.node("BatchNormalization", inputs, epsilon=epsilon)


def _max_pool(
    to: _Recorder,
    out: Tensor,
    x: Tensor,
    kernel: list[int],
    stride: list[int] | None = None,
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> str:
    strides = list(stride or kernel)
    return to.node(
        "MaxPool",
        [to.name(x)],
        kernel_shape=list(kernel),
        strides=strides,
        pads=list(padding) * 2,
        dilations=list(dilation),
        ceil_mode=int(ceil_mode),
    )


def _adaptive_average(to: _Recorder, out: Tensor, x: Tensor, size: list[int]) -> str:
    """The mean over a grid of tiles, if the tiles are all alike."""
    if any(side % tiles for side, tiles in zip(x.shape[2:], size, strict=True)):
        raise UnknownOperationError(f"pooling {tuple(x.shape[2:])} pixels into {tuple(size)}")
    tile = [side // tiles for side, tiles in zip(x.shape[2:], size, strict=True)]
    if tile == [1, 1]:
        return to.name(x)
    return to.node("AveragePool", [to.name(x)], kernel_shape=tile, strides=tile)


def _mean(to: _Recorder, out: Tensor, x: Tensor, axes: list[int], keepdim: bool = False, *, dtype: Any = None) -> str:
    return to.node("ReduceMean", [to.name(x)], axes=[axis % x.ndim for axis in axes], keepdims=int(keepdim))


def _pad(to: _Recorder, out: Tensor, x: Tensor, pad: list[int], value: float = 0.0) -> str:
    starts, ends = [0] * x.ndim, [0] * x.ndim
    for axis in range(len(pad) // 2):  # the last axis comes first
        starts[-1 - axis], ends[-1 - axis] = pad[2 * axis], pad[2 * axis + 1]
    amounts, filling = np.array(starts + ends, np.int64), np.array(value, np.float32)
    return to.node("Pad", [to.name(x), to.constant(amounts), to.constant(filling)])


def _clip(to: _Recorder, out: Tensor, x: Tensor, low: float = -1.0, high: float = 1.0) -> str:
    limits = [to.constant(np.array(limit, np.float32)) for limit in (low, high)]
    return to.node("Clip", [to.name(x), *limits])


def _length(
    to: _Recorder, out: Tensor, x: Tensor, order: float = 2, axes: Sequence[int] | None = None, keepdim: bool = False
) -> str:
    if order != 2 or axes is None or any(axis % x.ndim == 0 for axis in axes):
        raise UnknownOperationError("a length other than the Euclidean one, or across photos")
    return to.node("ReduceL2", [to.name(x)], axes=[axis % x.ndim for axis in axes], keepdims=int(keepdim))


def _at_least(to: _Recorder, out: Tensor, x: Tensor, low: float) -> str:
    return to.node("Clip", [to.name(x), to.constant(np.array(low, np.float32))])


def _linear(to: _Recorder, out: Tensor, bias: Tensor, x: Tensor, weight: Tensor) -> str:
    return to.node("Gemm", [to.name(x), to.name(weight), to.name(bias)])


def _reshape(to: _Recorder, out: Tensor, x: Tensor, size: list[int]) -> str:
    if out.ndim == 0 or out.shape[0] != _BATCH or x.shape[0] != _BATCH:
        raise UnknownOperationError("a change of shape across photos")
    return to.node("Reshape", [to.name(x), to.constant(np.array([-1, *out.shape[1:]], np.int64))])


def _concatenate(to: _Recorder, out: Tensor, tensors: list[Tensor], axis: int = 0) -> str:
    if axis % out.ndim == 0:
        raise UnknownOperationError("joining photos to a longer batch")
    return to.node("Concat", [to.name(tensor) for tensor in tensors], axis=axis % out.ndim)


def _cast(to: _Recorder, out: Tensor, x: Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> str:
    if dtype != torch.float32:
        raise UnknownOperationError(f"a change of format to {dtype}")
    return to.node("Cast", [to.name(x)], to=onnx.TensorProto.FLOAT)


def _same(to: _Recorder, out: Tensor, x: Tensor, *_: Any, **__: Any) -> str:
    return to.name(x)


def _plain(operation: str) -> Write:
    """An operation on one tensor and nothing else."""
    return lambda to, out, x: to.node(operation, [to.name(x)])


def _pair(operation: str) -> Write:
    """An operation on two tensors, or a tensor and a number, place by place."""

    def write(to: _Recorder, out: Tensor, x: Tensor, y: Tensor | float, *, alpha: float = 1) -> str:
        if alpha != 1:
            raise UnknownOperationError(f"a sum with the factor {alpha}")
        other = to.name(y) if isinstance(y, Tensor) else to.constant(np.array(y, np.float32))
        return to.node(operation, [to.name(x), other])

    return write


_TABLE: dict[Any, Write] = {
    aten.convolution.default: _convolution,
    aten.native_batch_norm.default: _batch_norm,
    aten.max_pool2d_with_indices.default: _max_pool,
    aten._adaptive_avg_pool2d.default: _adaptive_average,
    aten.mean.dim: _mean,
    aten.constant_pad_nd.default: _pad,
    aten.hardtanh.default: _clip,
    aten.hardtanh_.default: _clip,
    aten.linalg_vector_norm.default: _length,
    aten.clamp_min.default: _at_least,
    aten.relu.default: _plain("Relu"),
    aten.relu_.default: _plain("Relu"),
    aten.sigmoid.default: _plain("Sigmoid"),
    aten.add.Tensor: _pair("Add"),
    aten.add_.Tensor: _pair("Add"),
    aten.sub_.Tensor: _pair("Sub"),
    aten.mul.Tensor: _pair("Mul"),
    aten.div.Tensor: _pair("Div"),
    aten.div_.Tensor: _pair("Div"),
    aten.addmm.default: _linear,
    aten.view.default: _reshape,
    aten._unsafe_view.default: _reshape,
    aten.cat.default: _concatenate,
    aten._to_copy.default: _cast,
    aten.clone.default: _same,
    aten.detach.default: _same,
}
