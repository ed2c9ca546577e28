"""Sums over ragged lists in log space, as ONNX operations: gathers and reductions alone.

Each list, such as the children of a coarse label, becomes a line of a table of numbers of items. Lines are padded to
those of about their length (the next power of two at most) with the number of an item that is minus infinity, so a
table has at most twice as many places as there are items, whatever their distribution. A log-sum-exp is then one gather
and one reduction per table. Long tables are cut, so that the memory of a step stays small.

Items are the rows of matrices and samples their columns: a gather then copies whole rows, and costs a large batch
hardly more than a single sample. Long lists are summed in float64, since a runtime may add one item after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy.typing import DTypeLike, NDArray

from finegraph.model.export.node_writer import Writer

Indices = NDArray[np.int64]
LONG_LIST = 32
"""Lists with more places than this are summed in float64."""
MAX_PLACES = 2**17
"""Places of a table at most, unless a single list is longer: 128 MB of float32 for 256 photos."""


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


def log_sum_exp(to: Writer, value: str, axis: int, dtype: DTypeLike, sum_dtype: DTypeLike | None = None) -> str:
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


def floored(to: Writer, value: str, dtype: DTypeLike) -> str:
    """The value, or the lowest finite number for minus infinity.

    To be subtracted: minus infinity less the lowest finite number is minus infinity, less itself it would be NaN.
    """
    return to.node("Max", value, to.number(float(np.finfo(dtype).min), dtype))


def list_log_sum_exp(to: Writer, value: str, lists: Tables, dtype: DTypeLike) -> str:
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
