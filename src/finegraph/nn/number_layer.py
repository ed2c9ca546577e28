"""The scores of numbers: a pull and a precision for each number of the graph, from features.

    a = w_a' x + c_a,     b = softplus(w_b' x + c_b)          of the potential exp(a u - b u^2 / 2) over its values u

Values are on the inner scale that the layer was trained with: standardised, after a logarithm on a log scale. In a
graph with more fine labels the values have another mean and spread. The layer is then used through a change of scale,
u = factor v + shift: its scores for v are factor (a - b shift) and factor^2 b, and nothing is retrained.

A new layer has a = 0 and b = log 2 for all photos. Cost: two columns of a linear layer per number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from finegraph.errors import InputError
from finegraph.graph import Number
from finegraph.inference.numbers.number_tensors import NumberTable
from finegraph.inference.numbers.potential import number_terms
from finegraph.inference.numerics import CPU, at_least_float32

SILENT = -100.0
"""The input of softplus for a precision that is practically 0 in float32."""


class NumberLayer(nn.Linear):
    """A linear layer whose outputs are the pulls and precisions of some numbers.

    Attributes:
        scale: for each number, the factor and the shift from inner values of the graph to those of the training.

    Example:
        >>> layer = NumberLayer(8, 1)
        >>> layer(torch.randn(2, 8)).shape
        torch.Size([2, 1, 2])
    """

    scale: Tensor

    def __init__(self, features: int, count: int, *, bias: bool = True) -> None:
        """Make an untrained layer.

        Args:
            features: the number of columns of the features.
            count: the number of numbers.
            bias: whether the layer has a bias.
        """
        super().__init__(features, 2 * count, bias=bias)
        self.register_buffer("scale", torch.tensor([[1.0, 0.0]]).repeat(count, 1))

    def reset_parameters(self) -> None:
        """Start with the same scores for all photos."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, features: Float[Tensor, "batch _"]) -> Float[Tensor, "batch number 2"]:
        """The pull and the precision of each number, on the inner scale of the graph; in float32 or wider."""
        scores = at_least_float32(super().forward(features)).reshape(-1, len(self.scale), 2)
        return _rescaled(scores[..., 0], softplus(scores[..., 1]), self.scale)

    def silence(self) -> None:
        """Switch the layer off: pulls of 0, and precisions of practically 0."""
        if self.bias is None:
            raise InputError("a layer of numbers without a bias cannot be silent: its precisions start at log 2")
        with torch.no_grad():
            self.weight.zero_()
            self.bias.copy_(torch.tensor([0.0, SILENT]).repeat(len(self.scale)))

    def constant_precisions(self) -> list[bool]:
        """For each number, whether its precision is the same for all photos."""
        return [not bool(row.any()) for row in self.weight.detach()[1::2]]

    def with_constant_precisions(self) -> tuple[Float[Tensor, "number _"], Float[Tensor, "number 2"]]:
        """The weights of the pulls, and the scores without features; in float64, on the inner scale of the graph.

        If all precisions are constant, these two determine all outputs of the layer.
        """
        scale = self.scale.double()
        pull, precision = self._without_features()
        return scale[:, :1] * self.weight.detach()[0::2].double(), _rescaled(pull, precision, scale)

    def precision_terms(self, table: NumberTable) -> Float[Tensor, " fine"]:
        """The terms of the precisions in the joint score of each fine label, without features and pulls, in float64.

        In a graph with more fine labels, the terms of known values are the same, whatever its inner scale.
        """
        _, precision = self._without_features()
        scores = _rescaled(torch.zeros_like(precision), precision, self.scale.double())
        constant = 0.5 * (precision * self.scale[:, 1].double().square()).sum()
        return number_terms(table, scores.unsqueeze(0), None)[0] - constant

    def _without_features(self) -> tuple[Tensor, Tensor]:
        """The pulls and precisions that the biases give, on the scale of the layer, in float64."""
        outputs = self.weight.new_zeros(len(self.weight)) if self.bias is None else self.bias.detach()
        pull, raw = outputs.double().reshape(-1, 2).unbind(1)
        return pull, softplus(raw)

    def scale_to(self, place: int, before: Number, after: Number) -> tuple[float, float]:
        """The factor and the shift from another inner scale to the one that a number was trained with.

        Args:
            place: the index of the number.
            before: the number in the graph of this layer.
            after: the same number with another inner scale.
        """
        factor, shift = self.scale[place].double().tolist()
        shift += factor * (after.centre - before.centre) / before.width
        return factor * after.width / before.width, shift

    def on_scale(self, place: int, before: Number, after: Number) -> tuple[Float[Tensor, " _"], float, float]:
        """The weights and the bias of the pull of one number, and its precision without features, on another scale.

        Args:
            place: the index of the number.
            before: the number in the graph of this layer.
            after: the same number with another inner scale.
        """
        factor, shift = self.scale_to(place, before, after)
        pulls, precisions = self._without_features()
        pull, precision = float(pulls[place]), float(precisions[place])
        weight = factor * self.weight.detach()[2 * place].double()
        return weight, factor * (pull - precision * shift), factor * factor * precision

    def take(self, other: NumberLayer, before: Sequence[Number], after: Sequence[Number]) -> None:
        """Copy the weights of another layer, for numbers whose inner scale has changed.

        Args:
            other: the other layer.
            before: the numbers of the graph of the other layer.
            after: the same numbers in the graph of this layer.
        """
        factors = [new.width / old.width for old, new in zip(before, after, strict=True)]
        shifts = [(new.centre - old.centre) / old.width for old, new in zip(before, after, strict=True)]
        change = torch.tensor([factors, shifts], dtype=torch.float64, device=other.scale.device)
        factor, shift = other.scale.double().unbind(1)
        with torch.no_grad():
            self.weight.copy_(other.weight)
            if self.bias is not None and other.bias is not None:
                self.bias.copy_(other.bias)
            self.scale.copy_(torch.stack([factor * change[0], factor * change[1] + shift], dim=1))


def starting_terms(table: NumberTable) -> Float[Tensor, " fine"]:
    """The terms of a new layer in the joint score of each fine label, in float64 on the CPU."""
    scores = torch.tensor([0.0, math.log(2.0)], dtype=torch.float64, device=CPU)
    return number_terms(table, scores.expand(1, len(table), 2), None)[0]


def _rescaled(
    pull: Float[Tensor, "*batch number"], precision: Float[Tensor, "*batch number"], scale: Float[Tensor, "number 2"]
) -> Float[Tensor, "*batch number 2"]:
    """Convert scores for the values of the layer to scores for the values of the graph."""
    factor, shift = scale[:, 0], scale[:, 1]
    return torch.stack([factor * (pull - precision * shift), factor * factor * precision], dim=-1)


def inverse_softplus(precision: float) -> float:
    """The inverse of softplus; a precision of 0 becomes that of a silent layer."""
    return SILENT if precision <= 0.0 else max(precision + math.log(-math.expm1(-precision)), SILENT)
