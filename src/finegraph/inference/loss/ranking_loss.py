"""The loss of comparisons: "photo A is hotter than photo B", on the values that a model predicts for the two.

    L = log(1 + exp(-(more - less) / scale))           "the same": the mean of both directions

This is the Bradley-Terry model on predicted values; `fit_comparisons` uses it on the values of fine labels. Adding a
constant to all values changes nothing. The cost is linear in the pairs. The loss is finite for differences of any size.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import softplus

from finegraph.errors import InputError, ShapeError


def ranking_loss(
    values_more: Float[Tensor, " pair"],
    values_less: Float[Tensor, " pair"],
    same: Bool[Tensor, " pair"] | None = None,
    scale: float = 1.0,
    reduction: Literal["mean", "sum", "none"] = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " pair"]:
    """The negative log-likelihood of comparisons, given the two values of each pair.

    Args:
        values_more: the prediction for the item with more, such as `posterior.value("heat").mean[more]`.
        values_less: the prediction for the item with less.
        same: pairs without a difference; none by default.
        scale: the difference that people recognise in 73 of 100 cases, in the unit of the values; a good start is
            `graph.number("heat").width`, or 1 for values that come from comparisons.
        reduction: "mean" over the observed pairs, "sum", or "none" for one loss per pair. A pair with a missing value
            (NaN) is not observed: it contributes 0 and no gradient. Without any observed pair the mean is 0.

    Example:
        >>> values = torch.tensor([2.0, 0.5, float("nan")], requires_grad=True)
        >>> more, less = torch.tensor([0, 0]), torch.tensor([1, 2])
        >>> loss = ranking_loss(values[more], values[less])
        >>> loss.backward()
        >>> round(loss.item(), 4), [round(slope, 4) for slope in values.grad.tolist()]
        (0.2014, [-0.1824, 0.1824, 0.0])
    """
    if values_more.ndim != 1 or values_more.shape != values_less.shape:
        raise ShapeError(
            f"expected two lists of values, one per pair, got shapes {tuple(values_more.shape)} and "
            f"{tuple(values_less.shape)}"
        )
    if same is not None and (same.shape != values_more.shape or same.dtype != torch.bool):
        raise ShapeError(f"same: expected a mask of {len(values_more)} pairs, got {same.dtype} of {tuple(same.shape)}")
    if not 0 < scale < math.inf:
        raise InputError(f"scale: expected a finite number above 0, got {scale!r}")
    if reduction not in ("mean", "sum", "none"):
        raise InputError(f"reduction: expected 'mean', 'sum' or 'none', got {reduction!r}")
    observed = ~(values_more.isnan() | values_less.isnan())
    # Replaced before the difference, so that a missing value gets no gradient instead of NaN.
    difference = (torch.where(observed, values_more, 0.0) - torch.where(observed, values_less, 0.0)) / scale
    losses = softplus(-difference)
    if same is not None:
        losses = torch.where(same, (losses + softplus(difference)) / 2, losses)
    losses = torch.where(observed, losses, 0.0)
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / observed.sum().clamp(min=1)
