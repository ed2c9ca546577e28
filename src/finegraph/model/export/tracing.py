"""What tracing a model by torch needs: quantiles in a fixed number of steps, and exporters that keep quiet.

`ValueDistribution.quantile` searches until nothing changes; a traced program has no such loop. Here an interval that
holds all of the probability is halved 60 times, in float64. Exact values are found in sums of probabilities. Torch's
exporters warn of their own insides whatever is exported; `quiet` silences them.
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

REACH = 8.0
"""This many standard deviations from the mean of a component nothing counts."""
ROUNDING = 1e-7
"""By how much, relative to it, a sum of probabilities may miss a quantile."""
_HALVINGS = 60


def traced_quantiles(
    number: NumberTensors, value: ValueDistribution, quantiles: Sequence[float]
) -> Float[Tensor, "batch place"]:
    """The smallest values that are not exceeded with these probabilities, in the user's unit.

    Args:
        number: the tensors of the number.
        value: what is known of it; without evidence on it.
        quantiles: the probabilities.
    """
    weights = value.weights
    goal = weights.new_tensor(quantiles) * (1.0 - ROUNDING)
    if number.points:
        before = (weights.cumsum(dim=1).unsqueeze(2) < goal).sum(dim=1).clamp_max(number.count - 1)
        return value.to_outer(number.value[before])
    mean, deviation = value.components.mean.unsqueeze(2), value.components.variance.sqrt().unsqueeze(2)
    exact = deviation == 0
    scale = torch.where(exact, 1.0, deviation)
    nothing = goal * 0.0 + weights.sum(dim=1, keepdim=True) * 0.0
    low = (mean - REACH * deviation).amin(dim=1) + nothing
    high = (mean + REACH * deviation).amax(dim=1) + nothing
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        away = middle.unsqueeze(1) - mean
        under = torch.where(exact, (away >= 0).to(away.dtype), torch.special.ndtr(away / scale))
        enough = (weights.unsqueeze(2) * under).sum(dim=1) >= goal
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return value.to_outer(high)


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
