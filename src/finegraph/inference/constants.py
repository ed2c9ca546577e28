"""What holds tensors made from the graph: constants that no one trains, moves in place or saves.

They are made once per graph and device and shared by all that use them, so they are no buffers of a module. A module
that moves, narrows or loses its own memory (`to`, `half`, `to_empty`) therefore leaves them alone: half a weight of a
link is not the same link.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from finegraph.graph import LabelGraph

CPU = torch.device("cpu")
Made = TypeVar("Made", bound="Constants")


class Constants:
    """A holder of tensors, and of other holders, that is never changed once it is made."""

    def keep(self, constants: Mapping[str, Any]) -> None:
        """Hold arrays as tensors under their names."""
        for name, array in constants.items():
            setattr(self, name, torch.from_numpy(np.array(array, order="C")))

    def on(self: Made, device: torch.device) -> Made:
        """The same on a device."""
        twin = object.__new__(type(self))
        for name, value in vars(self).items():
            setattr(twin, name, _on(value, device))
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Constants:
        return self


def _on(value: Any, device: torch.device) -> Any:
    """A tensor, a holder, or a list of them on a device; anything else as it is."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Constants):
        return value.on(device)
    return [_on(part, device) for part in value] if isinstance(value, list) else value


def shared(make: Callable[[LabelGraph], Made], graph: LabelGraph, device: torch.device) -> Made:
    """What `make` makes of a graph, on a device; made once and kept as long as the graph."""
    key = (make, device)
    if key not in graph.derived:
        # Whatever the caller is about, the tensors are real, and fit to take part in training.
        with torch.inference_mode(False), CPU:
            graph.derived[key] = make(graph) if device == CPU else shared(make, graph, CPU).on(device)
    made: Any = graph.derived[key]
    return made  # type: ignore[no-any-return]
