"""A matrix with rows and columns exchanged."""

from __future__ import annotations

import torch
from torch import Tensor


def turned(table: Tensor) -> Tensor:
    """The matrix with rows and columns exchanged, in contiguous memory of its own.

    To shuffle channels is to turn the matrix (group, channel of the group), and where channels lie side by side torch
    has vector code for it: about four times as fast as a copy of `table.t()`, which goes number by number.
    """
    rows, columns = table.shape
    size = rows * columns
    if not size or table.device.type != "cpu" or not table.is_contiguous():
        return table.t().clone(memory_format=torch.contiguous_format)
    channels = table.as_strided((1, size, 1, 1), (size, 1, size, size))
    return torch.native_channel_shuffle(channels, rows).as_strided((columns, rows), (rows, 1))
