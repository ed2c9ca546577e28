"""SGD with momentum, and its state as named tensors for a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Shaped
from torch import Tensor

from finegraph.nn import Network
from finegraph.training.recipes import Recipe

_MOMENTUM = "optimizer.momentum."


def make_optimizer(network: Network, recipe: Recipe) -> torch.optim.SGD:
    """The optimizer of a network; each group keeps its full rate as `base`, which the schedule scales.

    Biases and the scales of normalisation layers, which are vectors, decay only where the recipe says so.
    """
    groups = []
    for group in network.parameter_groups(recipe.lr, recipe.new_rate, scaled=recipe.scale_rates):
        for vectors in (False, True):
            weights = [weight for weight in group["params"] if (weight.ndim < 2) == vectors]
            decay = 0.0 if vectors and not recipe.decay_vectors else recipe.weight_decay
            if weights:
                groups.append({"params": weights, "lr": group["lr"], "base": group["lr"], "weight_decay": decay})
    return torch.optim.SGD(groups, momentum=recipe.momentum, nesterov=recipe.nesterov and recipe.momentum > 0)


def set_rates(optimizer: torch.optim.Optimizer, factor: float) -> float:
    """Give every group its rate for a step; returns the largest."""
    for group in optimizer.param_groups:
        group["lr"] = group["base"] * factor
    return max(float(group["lr"]) for group in optimizer.param_groups)


def optimizer_tensors(network: Network, optimizer: torch.optim.Optimizer) -> dict[str, Shaped[Tensor, " ..."]]:
    """The state of the optimizer by the names of the parameters."""
    found = {}
    for name, parameter in network.named_parameters():
        momentum = optimizer.state.get(parameter, {}).get("momentum_buffer")
        if momentum is not None:
            found[_MOMENTUM + name] = momentum
    return found


def load_optimizer(
    network: Network, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Shaped[Tensor, " ..."]]
) -> None:
    """Take back what `optimizer_tensors` gave."""
    for name, parameter in network.named_parameters():
        if _MOMENTUM + name in tensors:
            # Cast and laid out as the parameter is, or steps would differ in rounding from those of an unbroken run.
            momentum = torch.empty_like(parameter).copy_(tensors[_MOMENTUM + name])
            optimizer.state[parameter]["momentum_buffer"] = momentum
