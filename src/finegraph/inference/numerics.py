"""Conventions of all tensors in inference: constants of a graph, precision, derivatives, NaN, and sums in log space.

Tensors made from a graph are constants: they are never trained, changed in place or saved. They are made once per graph
and device and are shared, so they are not buffers of a module. A module that is moved, narrowed or emptied (`to`,
`half`, `to_empty`) leaves them alone, since rounding the weight of a link would change the graph.

Scores may arrive in half precision and inside autocast. Inference always computes in float32 or wider. Its gradients
are closed forms and cannot be differentiated again. Probabilities may contain NaN, so that compiled programs need no
branch; functions that answer in words call `refuse_nan` first.

Lists of different lengths, such as the fine labels of each group, are `Segments`. They are padded to powers of two and
summed size by size, so the work is at most twice the number of items. Only gathers and reductions are used: they are
exact, have no branch on values, and are easy to export.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.errors import InputError
from finegraph.graph import LabelGraph

CPU = torch.device("cpu")
SAMPLE: Callable[[int], str] = "sample {}".format
"""How messages name a sample by default."""

MAX_TOGETHER = 1 << 22
"""The largest number of values to hold at once in a temporary tensor; larger batches are processed in parts."""

AnyConstants = TypeVar("AnyConstants", bound="Constants")


class Constants:
    """An immutable holder of tensors and of other such holders."""

    def store_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Store each array as a tensor in the attribute of its name."""
        for name, array in arrays.items():
            setattr(self, name, torch.from_numpy(np.array(array, order="C")))

    def on(self: AnyConstants, device: torch.device) -> AnyConstants:
        """A copy on a device."""
        copy = object.__new__(type(self))
        for name, value in vars(self).items():
            setattr(copy, name, _on_device(value, device))
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Constants:
        return self


def _on_device(value: Any, device: torch.device) -> Any:
    """Move a tensor, a holder or a list of them to a device; return anything else unchanged."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Constants):
        return value.on(device)
    return [_on_device(part, device) for part in value] if isinstance(value, list) else value


_MANY_INDICES = 1 << 16
"""Tables of more indices are kept in 32 bits; those of smaller ones would gain nothing, and converting takes time."""


def compact_indices(indices: Int[NDArray[np.int64], "*shape"]) -> Int[NDArray[Any], "*shape"]:
    """Indices in 32 bits if there are enough that their memory counts, and none is too large.

    `index_select` takes both; `gather` and `scatter` need the few that a batch selects in 64 bits.
    """
    if indices.size <= _MANY_INDICES or indices.max() > np.iinfo(np.int32).max:
        return indices
    return indices.astype(np.int32)


def shared_constants(
    make: Callable[[LabelGraph], AnyConstants], graph: LabelGraph, device: torch.device
) -> AnyConstants:
    """The result of `make(graph)` on a device, made once and kept as long as the graph."""
    key = (make, device)
    if key not in graph.derived:
        # The caller may be in inference mode or have another default device, but training uses these tensors too.
        with torch.inference_mode(False), CPU:
            graph.derived[key] = make(graph) if device == CPU else shared_constants(make, graph, CPU).on(device)
    constants: Any = graph.derived[key]
    return constants  # type: ignore[no-any-return]


def at_least_float32(scores: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The scores in float32; float64 stays."""
    return scores if scores.dtype in (torch.float32, torch.float64) else scores.float()


TILE = 16
"""Matrix products work on tiles of rows. An incomplete last tile may use another kernel, which rounds differently. With
a multiple of this many rows there is no incomplete tile."""


def whole_tiles(rows: Float[Tensor, "*kind batch column"]) -> Float[Tensor, "*kind row column"]:
    """Pad with rows of zeros to fill the last tile, so that the product of a row does not depend on the batch size.

    This holds in one thread. Several threads may split the rows depending on their number; on processors without AVX2
    results then differ in the last digit. Nothing is padded in compiled and exported programs, whose number of rows is
    dynamic.
    """
    missing = 0 if torch.compiler.is_compiling() else -rows.shape[-2] % TILE
    return torch.nn.functional.pad(rows, (0, 0, 0, missing)) if missing else rows


_CACHED = 1 << 16
"""The number of values of a temporary tensor that fit in the processor's caches."""


def cached_parts(rows: int, size: int) -> list[slice]:
    """Split rows into parts whose temporary tensors fit in the caches; a single part if compiled.

    Args:
        rows: the number of rows.
        size: the number of values per row.
    """
    step = rows if torch.compiler.is_compiling() else max(1, _CACHED // max(size, 1))
    return [slice(start, start + step) for start in range(0, rows, max(step, 1))]


def largest_size(values: Float[Tensor, "*shape"]) -> float:
    """The largest absolute value; infinite if a value is NaN."""
    if not values.numel():
        return 0.0
    low, high = torch.aminmax(values)
    largest = max(-low.item(), high.item())
    return largest if largest == largest else math.inf  # NaN differs from itself


def likelihoods_of(log_likelihoods: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The exponentials, in place; none is below the smallest normal number.

    Processors take several times as long for smaller ones, and these change no sum that is not computed in log space.
    """
    smallest = math.log(torch.finfo(log_likelihoods.dtype).tiny) + 0.25
    return log_likelihoods.clamp_min_(smallest).exp_()


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """A context in which matrix products keep their precision, even inside autocast."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


def refuse_second_derivatives() -> None:
    """Raise if the backward pass is itself being recorded, as for `create_graph=True` and Hessians.

    Otherwise the gradient of a closed-form gradient would silently be zero.
    """
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise InputError(
            "second derivatives are not available here: the gradient is computed in closed form and cannot be "
            "differentiated again; call backward without create_graph=True"
        )


def refuse_nan(log_probs: Float[Tensor, "batch label"], name_of: Callable[[int], str] = SAMPLE) -> None:
    """Raise if a probability is NaN.

    Args:
        log_probs: the log probabilities of some labels.
        name_of: the name of a sample in the message.

    Raises:
        InputError: a probability is NaN; the message names the first such sample.
    """
    invalid = log_probs.detach().isnan().any(dim=1)
    if not bool(invalid.any()):
        return
    sample = int(invalid.nonzero()[0])
    raise InputError(
        f"{name_of(sample)}: there is no answer, since its scores are NaN or infinite; look for NaN or infinity in its "
        "features and in the weights; in float16, scores above 65,504 become infinite: use float32 or bfloat16 there"
    )


class Segments(Constants):
    """A partition of `items` positions into `count` lists; a list may be empty, a position may be in none (-1)."""

    owner: Tensor
    restore: Tensor

    def __init__(self, owner: Int[NDArray[np.int64], " item"], count: int) -> None:
        """Partition the positions.

        Args:
            owner: the list of each position, -1 for none.
            count: the number of lists.
        """
        super().__init__()
        self.count = count
        sizes = np.bincount(owner[owner >= 0], minlength=count)
        order = np.argsort(owner, kind="stable")[(owner < 0).sum() :]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        widths = np.where(sizes > 0, 2 ** np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64), 0)
        chosen: list[NDArray[np.int64]] = []
        self.tables: list[Tensor] = []
        for width in np.unique(widths):
            lists = np.flatnonzero(widths == width)
            chosen.append(lists)
            position = np.arange(width)
            # Padding points one past the last item, where `reduce` appends a column of minus infinity.
            table = np.where(
                position < sizes[lists, None],
                order[np.minimum(starts[lists, None] + position, max(len(order) - 1, 0))] if len(order) else len(owner),
                len(owner),
            ).astype(np.int64)
            self.tables.append(torch.from_numpy(compact_indices(table)))
        restore = np.argsort(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)
        self.store_arrays({"owner": compact_indices(owner), "restore": compact_indices(restore)})

    def logsumexp(self, values: Float[Tensor, "batch item"]) -> Float[Tensor, "batch list"]:
        """The logsumexp of each list; minus infinity for an empty list."""
        result: Tensor = _SegmentLogSumExp.apply(values, self)  # type: ignore[no-untyped-call]
        return result

    def reduce(self, values: Float[Tensor, "batch item"]) -> Float[Tensor, "batch list"]:
        """`logsumexp` without its closed-form gradient."""
        batch = values.shape[0]
        empty = values.new_full((batch, 1), -torch.inf)
        padded = torch.cat([values, empty], dim=1)
        parts = []
        for table in self.tables:
            lists, width = table.shape
            if width == 0:
                parts.append(empty.expand(batch, lists))
            elif width == 1:
                parts.append(padded.index_select(1, table.reshape(-1)))
            else:
                gathered = padded.index_select(1, table.reshape(-1)).reshape(batch, lists, width)
                parts.append(torch.logsumexp(gathered, dim=2))
        return torch.cat(parts, dim=1).index_select(1, self.restore)


class _SegmentLogSumExp(torch.autograd.Function):
    """d out[list] / d value[item] = exp(value - out) for the list that owns the item: one gather, no scatter."""

    @staticmethod
    def forward(ctx: Any, values: Float[Tensor, "batch item"], segments: Segments) -> Float[Tensor, "batch list"]:
        out = segments.reduce(values)
        ctx.save_for_backward(values, out)
        ctx.segments = segments
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        refuse_second_derivatives()
        values, out = ctx.saved_tensors
        owner: Int[Tensor, " item"] = ctx.segments.owner
        place = owner.clamp_min(0)
        share = (values - out.index_select(1, place)).exp_()
        # Minus infinity minus itself is NaN, but such an item has no share; nor has an item without an owner.
        share = share.masked_fill_(values.isneginf() | (owner < 0), 0.0)
        return grads[0].index_select(1, place) * share, None


class LogSums:
    """Logs of sums of exponentials, one for each list and sample, filled little by little.

    Each sum is kept as its largest term and the sum of all terms relative to it. Sums of several processes are added in
    the same way.

    Attributes:
        largest: the largest exponent of each list; minus infinity for an empty one.
        total: the sum of the exponentials relative to it.
    """

    def __init__(self, count: int, batch: int, device: torch.device = CPU) -> None:
        self.largest = torch.full((count, batch), -torch.inf, dtype=torch.float64, device=device)
        self.total = torch.zeros(count, batch, dtype=torch.float64, device=device)

    def see(self, owner: Int[Tensor, " item"], exponents: Float[Tensor, "item batch"]) -> None:
        """Look at terms that will be added, before any is.

        Scaling all sums whenever some terms are larger would take longer than computing the terms twice.

        Args:
            owner: the list of each term.
            exponents: their logs.
        """
        self.largest.scatter_reduce_(0, owner.unsqueeze(1).expand_as(exponents), exponents, "amax")

    def add_seen(self, owner: Int[Tensor, " item"], exponents: Float[Tensor, "item batch"]) -> None:
        """Add terms; none is above the largest one of its list."""
        reference = self.largest.index_select(0, owner)
        reference.masked_fill_(reference.isneginf(), 0.0)
        self.total.index_add_(0, owner, (exponents - reference).exp_())

    def add(self, owner: Int[Tensor, " item"], exponents: Float[Tensor, "item batch"]) -> None:
        """Add terms that were not seen before."""
        places = owner.unsqueeze(1).expand_as(exponents)
        self.raise_to(self.largest.scatter_reduce(0, places, exponents, "amax"))
        self.add_seen(owner, exponents)

    def take(self, place: Int[Tensor, " _"], other: LogSums, rows: Int[Tensor, " _"]) -> None:
        """Copy some lists of another object to these places."""
        self.largest[place], self.total[place] = other.largest[rows], other.total[rows]

    def raise_to(self, largest: Float[Tensor, "list batch"]) -> None:
        """Make the sums relative to other exponents, none of which is below the largest one of its list."""
        before, self.largest = self.largest, largest
        self.total *= (before - self._reference()).exp()

    def log(self) -> Float[Tensor, "list batch"]:
        """The logs of the sums."""
        return self._reference() + self.total.log()

    def _reference(self) -> Tensor:
        """What the sums are relative to; 0 for an empty list, whose largest exponent would give NaN."""
        return self.largest.masked_fill(self.largest.isneginf(), 0.0)
