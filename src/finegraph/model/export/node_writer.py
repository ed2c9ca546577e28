"""Writing the operations of an ONNX model one after the other.

A thin layer over `onnx.helper`: every result gets a name of its own, constants are kept beside the operations, and the
one difference between the two versions of the operations that are used here, how a reduction is told its axes, is known
to one method. Numbers that are used often are kept once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, DTypeLike, NDArray
from onnx import helper, numpy_helper

ALIGNMENT = 4096
"""Constants in a file of their own begin at multiples of this, so that they can be mapped into memory."""
_LARGE = 4096
"""The bytes from which a constant goes there."""
_AXES_ARE_INPUTS = 18
"""From this version of the operations on, reductions take their axes as an input."""


class Writer:
    """The operations and constants of a model that is being written.

    Attributes:
        operations: the version of the operations.
        nodes: the operations so far, in order.
        constants: the constants so far.
        data: what the file beside the model holds, one array after the other, each padded to `ALIGNMENT`.
    """

    def __init__(self, operations: int, data_name: str | None = None) -> None:
        """Begin a model.

        Args:
            operations: the version of the operations.
            data_name: the file beside the model that large constants go to; by default they are in the model.
        """
        self.operations, self._data_name = operations, data_name
        self.data: list[NDArray[Any]] = []
        self._data_size = 0
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._numbers: dict[tuple[str, float], str] = {}

    def node(self, operation: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """A new operation; the name of its result."""
        name = output or f"x{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    def constant(self, values: ArrayLike, dtype: DTypeLike) -> str:
        """A new constant."""
        name = f"k{len(self.constants)}"
        array = np.ascontiguousarray(values, dtype=dtype)
        if self._data_name is not None and array.nbytes >= _LARGE:
            self.constants.append(self._beside(name, array))
        else:
            self.constants.append(numpy_helper.from_array(array, name))
        return name

    def _beside(self, name: str, array: NDArray[Any]) -> onnx.TensorProto:
        """A constant whose numbers are in the file beside the model."""
        found = onnx.TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape)
        found.data_location = onnx.TensorProto.EXTERNAL
        about = {"location": self._data_name, "offset": self._data_size, "length": array.nbytes}
        for key, value in about.items():
            found.external_data.add(key=key, value=str(value))
        self.data.append(array)
        self._data_size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return found

    def number(self, value: float, dtype: DTypeLike) -> str:
        """A constant that is one number."""
        key = (np.dtype(dtype).str, value)
        if key not in self._numbers:
            self._numbers[key] = self.constant(np.array(value), dtype)
        return self._numbers[key]

    def cast(self, value: str, dtype: DTypeLike) -> str:
        """A tensor in another number format."""
        return self.node("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def reduce(self, operation: str, value: str, axis: int) -> str:
        """A reduction, such as `ReduceMax`, over one axis, which stays with length 1."""
        if operation == "ReduceSum" or self.operations >= _AXES_ARE_INPUTS:
            return self.node(operation, value, self.constant([axis], np.int64), keepdims=1)
        return self.node(operation, value, axes=[axis], keepdims=1)

    def gather(self, value: str, rows: ArrayLike) -> str:
        """Rows of a matrix by number; numbers in a table give one more axis."""
        return self.node("Gather", value, self.constant(rows, np.int32), axis=0)

    def turn(self, value: str, output: str | None = None) -> str:
        """A matrix with its rows as columns."""
        return self.node("Transpose", value, output=output, perm=[1, 0])

    def model(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any], file_version: int) -> onnx.ModelProto:
        """The model of all that was written."""
        graph = helper.make_graph(self.nodes, name, list(inputs), list(outputs), self.constants)
        versions = [helper.make_opsetid("", self.operations)]
        return helper.make_model(graph, opset_imports=versions, ir_version=file_version)
