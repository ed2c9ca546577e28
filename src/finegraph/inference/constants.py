"""A module that only holds constants: tensors made from the graph, which no one trains and no one saves.

They follow the network to its device, but never to another precision: half a weight of a link is not the same link.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class Constants(nn.Module):
    """A holder of non-persistent buffers that keep their number format."""

    def keep(self, constants: Mapping[str, Any]) -> None:
        """Hold arrays as buffers under their names.

        Those without elements become plain attributes: torch cannot save an exported program with empty buffers.
        """
        for name, array in constants.items():
            tensor = torch.from_numpy(np.array(array, order="C"))
            if tensor.numel():
                self.register_buffer(name, tensor, persistent=False)
            else:
                setattr(self, name, tensor)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Constants:
        before = {name: buffer for name, buffer in self._buffers.items() if buffer is not None}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in before.items():
            now = self._buffers[name]
            if now is not None and now.dtype != buffer.dtype:
                self._buffers[name] = buffer.to(now.device)
        for name, empty in vars(self).items():
            if isinstance(empty, Tensor):
                moved = fn(empty)
                setattr(self, name, moved if moved.dtype == empty.dtype else empty.to(moved.device))
        return self
