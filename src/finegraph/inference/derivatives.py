"""Closed-form gradients have no gradients of their own; asking for them must fail rather than give zeros."""

from __future__ import annotations

import torch

from finegraph.errors import InputError


def first_derivatives_only() -> None:
    """Raise where a backward pass is itself being recorded, as `create_graph=True` and Hessians do."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise InputError(
            "second derivatives are not available here: the gradient is computed in closed form and cannot be "
            "differentiated again; call backward without create_graph=True"
        )
