"""What tracing a model by torch needs: quantiles in a fixed number of steps, and exporters that keep quiet.

`ValueDistribution.quantile` searches until nothing changes; a traced program has no such loop. Here an interval that
holds all of the probability is divided by eight 15 times, in float64: as narrow as after 45 halvings, with a third of
the operations to trace. Exact values are found in sums of probabilities. Torch's exporters warn of their own insides
whatever is exported; `quiet` silences them.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.inference import ValueDistribution
from finegraph.inference.numbers.number_tensors import NumberTensors
from finegraph.model.export.cut_normal import CutNormals, Ends

REACH = 8.0
"""This many standard deviations from the mean of a component nothing counts."""
ROUNDING = 1e-7
"""By how much, relative to it, a sum of probabilities may miss a quantile."""
_PARTS, _STEPS = 8, 15


def traced_quantiles(
    number: NumberTensors, value: ValueDistribution, quantiles: Sequence[float]
) -> Float[Tensor, "batch place"]:
    """The smallest values that are not exceeded with these probabilities, in the user's unit.

    Args:
        number: the tensors of the number.
        value: what is known of it.
        quantiles: the probabilities.
    """
    weights = value.weights
    goal = weights.new_tensor(quantiles) * (1.0 - ROUNDING)
    if number.points:
        before = (weights.cumsum(dim=1).unsqueeze(2) < goal).sum(dim=1).clamp_max(number.count - 1)
        return value.to_outer(number.value[before])
    normals, possible, places = _cut(value), weights > 0, goal.reshape(-1, 1, 1)
    reach = torch.where(normals.exact, 0.0, REACH * normals.deviation)
    low = torch.where(possible, normals.top - reach, torch.inf).amin(dim=1, keepdim=True)
    high = torch.where(possible, normals.top + reach, -torch.inf).amax(dim=1, keepdim=True)
    low, high = (torch.minimum(torch.maximum(end, normals.ends.low), normals.ends.high) for end in (low, high))
    # Where nothing is possible, any value does.
    low, high = (torch.where(end.isfinite(), end, 0.0) + 0.0 * places for end in (low, high))
    shares = (torch.arange(1, _PARTS, dtype=low.dtype) / _PARTS).reshape(-1, 1, 1, 1)
    for _ in range(_STEPS):
        inner = low + (high - low) * shares
        below = torch.where(possible, weights * normals.probability_below(inner), 0.0)
        enough = below.sum(dim=3, keepdim=True) >= places
        low, high = torch.where(enough, low, inner).amax(dim=0), torch.where(enough, inner, high).amin(dim=0)
    return value.to_outer(high.squeeze(2).t())


def traced_mean(number: NumberTensors, value: ValueDistribution) -> Float[Tensor, " batch"]:
    """The expected value, in the user's unit.

    Args:
        number: the tensors of the number.
        value: what is known of it.
    """
    if number.points:
        return value.weights @ value.to_outer(number.value)
    normals = _cut(value)
    if number.number.scale == "log":
        means = torch.exp(number.number.centre + normals.log_mean_of_exp(number.number.width))
        low, high = (value.to_outer(end) for end in normals.ends)
        means = torch.minimum(torch.maximum(means, low), high)
    else:
        means = value.to_outer(normals.mean_of())
    return torch.where(value.weights > 0, value.weights * means, 0.0).sum(dim=1)


def _cut(value: ValueDistribution) -> CutNormals:
    """The components of a value, cut to the interval of each sample."""
    _, mean, variance, low, high = value.components
    if low is None or high is None:
        nothing = 0.0 * value.weights[:, :1]
        low, high = nothing - torch.inf, nothing + torch.inf
    return CutNormals(mean, variance, Ends(low, high))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what torch's exporters have to say about themselves."""
    levels = {name: logging.getLogger(name).level for name in ("torch.onnx", "onnxscript", "torch.export")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
