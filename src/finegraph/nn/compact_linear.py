"""Linear layers that take less memory, for inference only: rows in int8 with one factor each, or in bfloat16.

Rows are converted to float32 in small batches that fit in the caches, and multiplied there. Features and sums keep
their precision; only weights are rounded. In int8, the error of a weight is at most half of the largest weight of its
row / 127; in bfloat16, it is at most 1 / 256 of the weight. Cost: one pass over the rows, which take a quarter or half
of the bytes. If memory is fast, the conversion takes longer than reading the full rows would.
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
_MAX_INT8 = 127
_ROWS_AT_ONCE = 1 << 12


class CompactLinear(nn.Module):
    """A linear layer whose weights are rounded.

    Attributes:
        rows: the rounded weights.
        factor: the factor of each row.
        bias: the bias of the original layer; may be None.
    """

    rows: Tensor
    factor: Tensor
    bias: Tensor | None

    def __init__(self, layer: nn.Linear, form: CompactForm) -> None:
        """Round the weights of a layer, which is not changed.

        Args:
            layer: the layer.
            form: the format of the rounded weights.
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
                factor[start : start + _ROWS_AT_ONCE] = largest / _MAX_INT8
                own = (own * (_MAX_INT8 / largest).unsqueeze(1)).round()
            rows[start : start + _ROWS_AT_ONCE] = own.to(rows.dtype)
        self.register_buffer("rows", rows)
        self.register_buffer("factor", factor)
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach().float().clone())

    @property
    def weight(self) -> Float[Tensor, "0 feature"]:
        """An empty tensor, so that code which asks a layer for its dtype or device works."""
        return self.factor.new_empty(0, self.in_features)

    def forward(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch label"]:
        """The scores, without a gradient for the weights."""
        scores = features.new_empty(len(features), self.out_features)
        for start in range(0, self.out_features, _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            own = self.rows[part].to(features.dtype)
            if len(features) == 1:
                torch.mv(own, features[0], out=scores[0, part])
            else:
                scores[:, part] = features @ own.t()
        scores *= self.factor
        return scores if self.bias is None else scores.add_(self.bias)


def compact_head(head: nn.Module, form: CompactForm) -> nn.Module:
    """A copy of a head with rounded layers, for inference only; it can be neither trained nor saved.

    Args:
        head: a head with at most one layer for all coarse labels; it is not changed.
        form: the format of the rounded weights.

    Raises:
        InputError: the head has a layer for each kind.
    """
    compact = copy.copy(head)
    compact._modules = dict(head._modules)
    for name in ("fine", "coarse"):
        layer = head._modules.get(name)
        if isinstance(layer, nn.ModuleList):
            raise InputError("a head with separate features per kind has no compact form; serve it as it is")
        if isinstance(layer, nn.Linear):
            compact._modules[name] = CompactLinear(layer, form)
    return compact.eval()
