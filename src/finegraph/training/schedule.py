"""The learning rate as a function of the step, so that checkpoints need not hold it.

one_cycle   rises in a cosine from 1/25 to 1 over the warm-up, then falls in a cosine to 1/10,000
steps       1, and a tenth of that after every `drop_every` epochs
"""

from __future__ import annotations

import math

from finegraph.training.recipes import Recipe

_START, _END = 1 / 25, 1e-4


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
