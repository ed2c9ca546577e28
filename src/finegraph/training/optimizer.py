"""SGD with momentum or AdamW, its state as named tensors for a checkpoint, and the schedule of the learning rate.

The learning rate is a function of the step, so that checkpoints need not hold it.

one_cycle   rises in a cosine from 1/25 to 1 over the warm-up, then falls in a cosine to 1/10,000
steps       1, and a tenth of that after every `drop_every` epochs
"""

from __future__ import annotations

import math
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
_START, _END = 1 / 25, 1e-4
"""Where one cycle starts and ends, as shares of the full rate."""


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


def rate_factor(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """The learning rates of a step, as a share of those in the recipe.

    Args:
        recipe: the numbers of fine-tuning.
        step: the number of the step, from 0.
        steps_per_epoch: how many steps an epoch has.
    """
    if recipe.schedule == "steps":
        return float(0.1 ** (step // (recipe.drop_every * steps_per_epoch)))
    total = recipe.epochs * steps_per_epoch
    rising = recipe.warmup * total
    if step < rising:
        return _START + (1 - _START) * _cosine(step / rising)
    return 1 + (_END - 1) * _cosine((step - rising) / max(total - rising, 1))


def _cosine(share: float) -> float:
    """A curve from 0 to 1 that is flat at both ends."""
    return (1 - math.cos(math.pi * min(share, 1.0))) / 2
