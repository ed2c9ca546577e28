"""SGD with momentum or AdamW, and its state as named tensors for a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Shaped
from torch import Tensor

from finegraph.nn import Network
from finegraph.training.recipes import Recipe

_STATE = {
    "momentum_buffer": "optimizer.momentum.",
    "exp_avg": "optimizer.exp_avg.",
    "exp_avg_sq": "optimizer.exp_avg_sq.",
    "step": "optimizer.step.",
}
"""What torch's optimizers keep of a parameter, and how the names of these tensors begin in a checkpoint."""
_SECOND_BETA = 0.999


def make_optimizer(network: Network, recipe: Recipe) -> torch.optim.Optimizer:
    """The optimizer of a network; each group keeps its full rate as `base`, which the schedule scales.

    Biases and the scales of normalisation layers, which are vectors, decay only if the recipe says so.
    """
    groups = []
    by_layer = recipe.layer_decay
    for group in network.parameter_groups(recipe.lr, recipe.new_rate, scaled=recipe.scale_rates, layer_decay=by_layer):
        for vectors in (False, True):
            weights = [weight for weight in group["params"] if (weight.ndim < 2) == vectors]
            decay = 0.0 if vectors and not recipe.decay_vectors else recipe.weight_decay
            if weights:
                groups.append({"params": weights, "lr": group["lr"], "base": group["lr"], "weight_decay": decay})
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(groups, betas=(recipe.momentum, _SECOND_BETA))
    return torch.optim.SGD(groups, momentum=recipe.momentum, nesterov=recipe.nesterov and recipe.momentum > 0)


def set_rates(optimizer: torch.optim.Optimizer, factor: float) -> float:
    """Give every group its rate for a step; returns the largest."""
    for group in optimizer.param_groups:
        group["lr"] = group["base"] * factor
    return max(float(group["lr"]) for group in optimizer.param_groups)


def optimizer_tensors(network: Network, optimizer: torch.optim.Optimizer) -> dict[str, Shaped[Tensor, " ..."]]:
    """The state of the optimizer by the names of the parameters."""
    tensors = {}
    for name, parameter in network.named_parameters():
        for key, prefix in _STATE.items():
            kept = optimizer.state.get(parameter, {}).get(key)
            if kept is not None:
                tensors[prefix + name] = kept
    return tensors


def load_optimizer(
    network: Network, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Shaped[Tensor, " ..."]]
) -> None:
    """Take back what `optimizer_tensors` gave."""
    for name, parameter in network.named_parameters():
        for key, prefix in _STATE.items():
            if prefix + name in tensors:
                saved = tensors[prefix + name]
                # Laid out as the parameter is, or steps would differ in rounding from those of an unbroken run. The
                # count of steps is a single number.
                kept = saved.clone() if key == "step" else torch.empty_like(parameter).copy_(saved)
                optimizer.state[parameter][key] = kept
