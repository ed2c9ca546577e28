"""Writing the operations of an ONNX model one after the other, and sums over ragged lists in log space made of them.

A thin layer over `onnx.helper`: every result gets a name of its own, constants are kept beside the operations, and the
one difference between the two versions of the operations that are used here, how a reduction gets its axes, is known to
one method. Numbers that are used often are kept once.

Sums are gathers and reductions alone. Each list, such as the children of a coarse label, becomes a line of a table of
numbers of items. Lines are padded to those of about their length (the next power of two at most) with the number of an
item that is minus infinity, so a table has at most twice as many places as there are items, whatever their
distribution. A log-sum-exp is then one gather and one reduction per table. Long tables are cut, so that the memory of a
step stays small.

Items are the rows of matrices and samples their columns: a gather then copies whole rows, and costs a large batch
hardly more than a single sample. Long lists are summed in float64, since a runtime may add one item after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from jaxtyping import Int
from numpy.typing import ArrayLike, DTypeLike, NDArray
from onnx import TensorProto, helper, numpy_helper

ALIGNMENT = 4096
"""Constants in a file of their own begin at multiples of this, so that they can be mapped into memory."""
_LARGE = 4096
"""The bytes from which a constant goes there."""
_AXES_ARE_INPUTS = 18
"""From this version of the operations on, reductions take their axes as an input."""
Indices = NDArray[np.int64]
LONG_LIST = 32
"""Lists with more places than this are summed in float64."""
MAX_PLACES = 2**17
"""Places of a table at most, unless a single list is longer: 128 MB of float32 for 256 photos."""


Results = Callable[[], Sequence[str]]
Step = Callable[[Sequence[str]], Sequence[str]]


class NodeWriter:
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
        self._named = 0
        self.constants: list[Any] = []
        self._numbers: dict[tuple[str, float], str] = {}

    def node(self, operation: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """A new operation; the name of its result."""
        name = output or self._new_name()
        self.nodes.append(helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    def _new_name(self) -> str:
        """A name that nothing has yet, also outside of the part of the model that is being written."""
        self._named += 1
        return f"x{self._named - 1}"

    def choose(self, condition: str, then: Results, otherwise: Results, dtype: DTypeLike) -> list[str]:
        """The results of one of two parts of the model; the other one is not computed.

        Args:
            condition: one bool.
            then: writes what is computed where it is true; the names of its results.
            otherwise: the same where it is false.
            dtype: the number format of all results.
        """
        parts = {"then_branch": self._part(then, dtype), "else_branch": self._part(otherwise, dtype)}
        names = [self._new_name() for _ in parts["then_branch"].output]
        self.nodes.append(helper.make_node("If", [condition], names, **parts))
        return names

    def repeat(self, times: int, state: Sequence[str], step: Step, dtype: DTypeLike) -> list[str]:
        """Tensors after a step has been done some times.

        Args:
            times: how often.
            state: the tensors at the beginning.
            step: writes one step; from the names of the tensors before it to those after it.
            dtype: their number format.
        """
        turn, going_on = self._new_name(), self._new_name()
        before = [self._new_name() for _ in state]
        part = self._part(lambda: [self.node("Identity", going_on), *step(before)], dtype)
        part.output[0].type.tensor_type.elem_type = TensorProto.BOOL
        inputs = [
            helper.make_tensor_value_info(turn, TensorProto.INT64, []),
            helper.make_tensor_value_info(going_on, TensorProto.BOOL, []),
        ]
        part.input.extend([*inputs, *(_any_shape(name, dtype) for name in before)])
        names = [self._new_name() for _ in state]
        self.nodes.append(helper.make_node("Loop", [self.constant(times, np.int64), "", *state], names, body=part))
        return names

    def _part(self, write: Results, dtype: DTypeLike) -> onnx.GraphProto:
        """A part of the model with operations of its own; it may use whatever was written before it."""
        outer, self.nodes = self.nodes, []
        # A result may come from outside; of a part it must be the result of an operation inside.
        results = [self.node("Identity", name) for name in write()]
        part = helper.make_graph(self.nodes, self._new_name(), [], [_any_shape(name, dtype) for name in results])
        self.nodes = outer
        return part

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


def _any_shape(name: str, dtype: DTypeLike) -> onnx.ValueInfoProto:
    """A tensor of any shape."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)


class Tables(NamedTuple):
    """Lists as tables.

    Attributes:
        tables: each (lists, places) of numbers of items.
        restore: for each list, where it stands in the tables put after each other.
    """

    tables: list[Int[Indices, "_ _"]]
    restore: Int[Indices, " list"]


def list_tables(item: Int[Indices, " item"], owner: Int[Indices, " item"], count: int, padding: int) -> Tables:
    """Lists of items as tables.

    Args:
        item: the items of all lists.
        owner: the list of each.
        count: how many lists there are; one without items stands for a sum of nothing.
        padding: the item that is minus infinity.
    """
    sizes = np.bincount(owner, minlength=count)
    order = np.argsort(owner, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    padded = np.append(item[order], padding)
    classes = np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    chosen: list[Indices] = []
    tables: list[Indices] = []
    for number in np.unique(classes):
        lists = np.flatnonzero(classes == number)
        width = max(int(sizes[lists].max()), 1)
        for part in np.array_split(lists, -(-len(lists) * width // MAX_PLACES)):
            if len(part):
                place = np.arange(width)
                inside = place < sizes[part, None]
                tables.append(padded[np.where(inside, starts[part, None] + place, len(padded) - 1)])
                chosen.append(part)
    restore = np.argsort(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)
    return Tables(tables, restore)


def log_sum_exp(to: NodeWriter, value: str, axis: int, dtype: DTypeLike, sum_dtype: DTypeLike | None = None) -> str:
    """The log of the sum of exponentials over an axis, which stays with length 1; minus infinity for nothing else.

    Args:
        to: what is written to.
        value: the exponents.
        axis: what is summed over.
        dtype: their number format, and that of the result.
        sum_dtype: the number format of the sum, if it is another one.
    """
    shift = floored(to, to.reduce("ReduceMax", value, axis), dtype)
    terms = to.node("Exp", to.node("Sub", value, shift))
    if sum_dtype is None or np.dtype(sum_dtype) == np.dtype(dtype):
        log = to.node("Log", to.reduce("ReduceSum", terms, axis))
    else:
        log = to.cast(to.node("Log", to.reduce("ReduceSum", to.cast(terms, sum_dtype), axis)), dtype)
    return to.node("Add", log, shift)


def floored(to: NodeWriter, value: str, dtype: DTypeLike) -> str:
    """The value, or the lowest finite number for minus infinity.

    To be subtracted: minus infinity less the lowest finite number is minus infinity, less itself it would be NaN.
    """
    return to.node("Max", value, to.number(float(np.finfo(dtype).min), dtype))


def list_log_sum_exp(to: NodeWriter, value: str, lists: Tables, dtype: DTypeLike) -> str:
    """(items, batch) to (lists, batch): the log-sum-exp of each list; the item after the last one is minus infinity."""
    amounts = to.constant([0, 0, 1, 0], np.int64)
    padded = to.node("Pad", value, amounts, to.number(-np.inf, dtype))
    parts = []
    for table in lists.tables:
        if table.shape[1] == 1:
            parts.append(to.gather(padded, table[:, 0]))
        else:
            sum_dtype = np.float64 if table.shape[1] > LONG_LIST else dtype
            totals = log_sum_exp(to, to.gather(padded, table), 1, dtype, sum_dtype)
            parts.append(to.node("Squeeze", totals, to.constant([1], np.int64)))
    together = parts[0] if len(parts) == 1 else to.node("Concat", *parts, axis=0)
    if np.array_equal(lists.restore, np.arange(len(lists.restore))):
        return together
    return to.gather(together, lists.restore)
