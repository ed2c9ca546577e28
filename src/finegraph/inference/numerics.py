"""Number formats and derivatives: what every step of inference agrees on.

Scores may come in half precision and inside autocast. Inference works in float32 or wider whatever the caller uses, and
its gradients are closed forms, which have no gradients of their own.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.errors import InputError


def wide(scores: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The scores in float32, or in float64 if they are."""
    return scores if scores.dtype in (torch.float32, torch.float64) else scores.float()


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context in which matrix products keep their precision, also inside autocast."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


def first_derivatives_only() -> None:
    """Raise if a backward pass is itself being recorded, as `create_graph=True` and Hessians do.

    A closed-form gradient would silently have a gradient of zero.
    """
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise InputError(
            "second derivatives are not available here: the gradient is computed in closed form and cannot be "
            "differentiated again; call backward without create_graph=True"
        )
