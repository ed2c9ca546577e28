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
from numpy.typing import ArrayLike, DTypeLike
from onnx import helper, numpy_helper

_AXES_ARE_INPUTS = 18
"""From this version of the operations on, reductions take their axes as an input."""


class Writer:
    """The operations and constants of a model that is being written.

    Attributes:
        operations: the version of the operations.
        nodes: the operations so far, in order.
        constants: the constants so far.
    """

    def __init__(self, operations: int) -> None:
        self.operations = operations
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
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values, dtype=dtype), name))
        return name

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
