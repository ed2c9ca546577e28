"""What every tensor of inference agrees on: constants of a graph, number formats, derivatives, and no NaN in answers.

Tensors made from a graph are constants: nobody trains, moves in place or saves them. They are made once per graph and
device and shared by all that use them, so they are not buffers of a module. A module that moves, narrows or loses its
own memory (`to`, `half`, `to_empty`) leaves them alone: half a weight of a link is not the same link.

Scores may come in half precision and inside autocast. Inference works in float32 or wider whatever the caller uses. Its
gradients are closed forms, which have no gradients of their own. Probabilities stay plain tensors, NaN where they are,
so that compiled programs have no branch; what answers in words calls `refuse_nan` first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.errors import InputError
from finegraph.graph import LabelGraph

CPU = torch.device("cpu")
SAMPLE: Callable[[int], str] = "sample {}".format
"""What samples are called in messages, unless the caller knows better."""

AnyConstants = TypeVar("AnyConstants", bound="Constants")


class Constants:
    """A holder of tensors, and of other holders, that is never changed once it is made."""

    def store_arrays(self, arrays: Mapping[str, Any]) -> None:
        """Store arrays as tensors, in attributes of their names."""
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
    """A tensor, a holder, or a list of them on a device; anything else as it is."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Constants):
        return value.on(device)
    return [_on_device(part, device) for part in value] if isinstance(value, list) else value


def shared_constants(
    make: Callable[[LabelGraph], AnyConstants], graph: LabelGraph, device: torch.device
) -> AnyConstants:
    """What `make` makes of a graph, on a device; made once and kept as long as the graph."""
    key = (make, device)
    if key not in graph.derived:
        # The caller may be in inference mode, or have another default device; these tensors also take part in training.
        with torch.inference_mode(False), CPU:
            graph.derived[key] = make(graph) if device == CPU else shared_constants(make, graph, CPU).on(device)
    made: Any = graph.derived[key]
    return made  # type: ignore[no-any-return]


def at_least_float32(scores: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The scores in float32, or in float64 if they are."""
    return scores if scores.dtype in (torch.float32, torch.float64) else scores.float()


TILE = 16
"""Matrix products work on tiles of rows. The last, incomplete tile may go through another kernel, which rounds
differently; with a multiple of so many rows there is none."""


def whole_tiles(rows: Float[Tensor, "*kind batch column"]) -> Float[Tensor, "*kind row column"]:
    """The rows and as many of zeros as fill the last tile: in products, no row then depends on how many there are.

    That holds in one thread. Several threads may part the rows by their number; on processors without AVX2 results then
    differ in the last digit. Programs that are compiled or exported for any number of rows are left alone.
    """
    missing = 0 if torch.compiler.is_compiling() else -rows.shape[-2] % TILE
    return torch.nn.functional.pad(rows, (0, 0, 0, missing)) if missing else rows


_CACHED = 1 << 16
"""How many numbers of a temporary tensor stay in the caches."""


def cached_parts(rows: int, size: int) -> list[slice]:
    """Rows of so many numbers each, in parts whose temporary tensors stay in the caches; all at once if compiled."""
    step = rows if torch.compiler.is_compiling() else max(1, _CACHED // max(size, 1))
    return [slice(start, start + step) for start in range(0, rows, max(step, 1))]


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """A context in which matrix products keep their precision, also inside autocast."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


def refuse_second_derivatives() -> None:
    """Raise if a backward pass is itself being recorded, as `create_graph=True` and Hessians do.

    A closed-form gradient would silently have a gradient of zero.
    """
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise InputError(
            "second derivatives are not available here: the gradient is computed in closed form and cannot be "
            "differentiated again; call backward without create_graph=True"
        )


def refuse_nan(log_probs: Float[Tensor, "batch label"], name_of: Callable[[int], str] = SAMPLE) -> None:
    """Raise if a sample has no probabilities.

    Args:
        log_probs: the log probabilities of some labels.
        name_of: what to call a sample.

    Raises:
        InputError: names the first such sample.
    """
    amiss = log_probs.detach().isnan().any(dim=1)
    if not bool(amiss.any()):
        return
    number = int(amiss.nonzero()[0])
    raise InputError(
        f"{name_of(number)}: there is no answer, since its scores are NaN or infinite; look for NaN or infinity in its "
        "features and in the weights; in float16, scores above 65,504 become infinite: use float32 or bfloat16 there"
    )
