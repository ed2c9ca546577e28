"""The time of a head in a training step, as in the paper: the last layer and the loss, for a batch of 128 photos.

Forward is from features to the loss, backward from the loss to the gradients of the head's weights; the network below,
which is the same for all heads and takes far longer, is left out. Of several repetitions the quickest counts: what is
slower was disturbed. Cost: some dozens of steps on features that are at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from finegraph.inference import joint_loss
from finegraph.nn import BipartiteHead, SoftmaxHead
from finegraph.workflows.studies.photo_sets import Part

BATCH = 128
_WARM, _TIMED = 3, 12

Loss = Callable[[], Float[Tensor, ""]]


def step_milliseconds(heads: Sequence[nn.Module], loss: Loss) -> tuple[float, float]:
    """The times of a forward and of a backward pass.

    Args:
        heads: what is trained; their weights stay as they are.
        loss: the loss of a batch.
    """
    weights = [weight for head in heads for weight in head.parameters()]
    trained = [weight.requires_grad for weight in weights]
    forward, backward = [], []
    try:
        for weight in weights:
            weight.requires_grad_(True)
        for _ in range(_WARM + _TIMED):
            began = perf_counter()
            value = loss()
            middle = perf_counter()
            torch.autograd.grad(value, weights, allow_unused=True)
            forward.append(middle - began)
            backward.append(perf_counter() - middle)
    finally:
        for weight, before in zip(weights, trained, strict=True):
            weight.requires_grad_(before)
    return 1000 * min(forward[_WARM:]), 1000 * min(backward[_WARM:])


def batch_of(part: Part) -> Part:
    """A batch of photos, repeated if there are too few."""
    return part.at([number % len(part) for number in range(BATCH)])


def head_loss(
    head: BipartiteHead | SoftmaxHead,
    features: Float[Tensor, "batch feature"],
    coarse: Float[Tensor, "batch coarse_feature"] | None,
    target: Int[Tensor, " batch"],
) -> Float[Tensor, ""]:
    """The loss of all kinds."""
    posterior = head(features) if coarse is None else head(features, coarse)
    return joint_loss(posterior, target)


def softmax_loss(
    head: SoftmaxHead, features: Float[Tensor, "batch feature"], target: Int[Tensor, " batch"]
) -> Float[Tensor, ""]:
    """The loss of the fine labels alone."""
    return functional.cross_entropy(head.scores(features), target)
