"""Linear layers that take less memory, for answers alone: rows in int8 with one factor each, or in bfloat16.

Rows are turned into float32 some at a time, while they are in the caches, and multiplied there: features and sums keep
their precision, and only weights are rounded. In int8 a weight is off by at most half of the largest of its row / 127,
in bfloat16 by 1 / 256 of itself. Cost: a pass over the rows, which are a quarter or half as many bytes; where memory is
quick, turning them takes longer than reading them would have.
"""

from __future__ import annotations

import copy
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finegraph.errors import InputError

CompactForm = Literal["bfloat16", "int8"]
WeightForm = Literal["float32", "bfloat16", "int8"]
_LARGEST = 127
_ROWS_AT_ONCE = 1 << 12


class CompactLinear(nn.Module):
    """A linear layer whose weights are rounded.

    Attributes:
        rows: the rounded weights.
        factor: what each row is multiplied by.
        bias: as in the layer that it was made of; may be None.
    """

    rows: Tensor
    factor: Tensor
    bias: Tensor | None

    def __init__(self, layer: nn.Linear, form: CompactForm) -> None:
        """Round the weights of a layer, which stays as it is.

        Args:
            layer: the layer.
            form: in which number format.
        """
        super().__init__()
        weight = layer.weight.detach()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        factor = torch.ones(len(weight), dtype=torch.float32, device=weight.device)
        rows = torch.empty(weight.shape, dtype=torch.bfloat16 if form == "bfloat16" else torch.int8)
        for start in range(0, len(weight), _ROWS_AT_ONCE):
            own = weight[start : start + _ROWS_AT_ONCE].float()
            if form == "int8":
                largest = own.abs().amax(dim=1).clamp_min(torch.finfo(torch.float32).tiny)
                factor[start : start + _ROWS_AT_ONCE] = largest / _LARGEST
                own = (own * (_LARGEST / largest).unsqueeze(1)).round()
            rows[start : start + _ROWS_AT_ONCE] = own.to(rows.dtype)
        self.register_buffer("rows", rows)
        self.register_buffer("factor", factor)
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach().float().clone())

    @property
    def weight(self) -> Float[Tensor, "0 feature"]:
        """No rows: whoever asks for the number format or the device of a layer finds both."""
        return self.factor.new_empty(0, self.in_features)

    def forward(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch label"]:
        """The scores, without a gradient for the weights."""
        found = features.new_empty(len(features), self.out_features)
        for start in range(0, self.out_features, _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            own = self.rows[part].to(features.dtype)
            if len(features) == 1:
                torch.mv(own, features[0], out=found[0, part])
            else:
                found[:, part] = features @ own.t()
        found *= self.factor
        return found if self.bias is None else found.add_(self.bias)


def compact_head(head: nn.Module, form: CompactForm) -> nn.Module:
    """A head with the same labels whose layers are rounded; it answers, and is neither trained nor saved.

    Args:
        head: a head with one layer for all coarse labels, if it has any; it stays as it is.
        form: in which number format.

    Raises:
        InputError: the head has a layer for each kind.
    """
    twin = copy.copy(head)
    twin._modules = dict(head._modules)
    for name in ("fine", "coarse"):
        layer = head._modules.get(name)
        if isinstance(layer, nn.ModuleList):
            raise InputError("a head with separate features per kind has no compact form; serve it as it is")
        if isinstance(layer, nn.Linear):
            twin._modules[name] = CompactLinear(layer, form)
    return twin.eval()
