"""Sets of fine labels that a model confuses: a sure answer may name the set where no label of it is sure.

From photos that were held out, the confusion of a with b is the mean probability of b on photos of a. The two sets with
the most of it between their labels are joined until little is left between any two, or sets would grow too large to be
an answer. Cost: fine^2 per join.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

MAX_SIZE = 6
"""How many fine labels a set may have."""
LEAST = 0.02
"""Below this mean probability between the labels of two sets they are left apart."""


def confused_sets(
    probs: Float[Tensor, "batch fine"],
    targets: Int[Tensor, " batch"],
    *,
    max_size: int = MAX_SIZE,
    least: float = LEAST,
) -> Int[NDArray[np.int64], " fine"]:
    """The set of each fine label, numbered in the order of their first members.

    Args:
        probs: how probable each fine label is on photos that were held out.
        targets: the fine labels of these photos.
        max_size: how many fine labels a set may have.
        least: how much confusion between the labels of two sets joins them.

    Example:
        >>> probs = torch.tensor([[0.6, 0.4, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
        >>> confused_sets(probs, torch.tensor([0, 1, 2])).tolist()
        [0, 0, 1]
    """
    count = probs.shape[1]
    sums = torch.zeros(count, count, dtype=torch.float64).index_add_(0, targets, probs.double())
    seen = torch.bincount(targets, minlength=count).clamp_min(1)[:, None]
    mixed = sums / seen
    between = (0.5 * (mixed + mixed.t())).fill_diagonal_(-math.inf)
    sizes = torch.ones(count, dtype=torch.float64)
    member = np.arange(count)
    while count > 1:
        allowed = between.masked_fill(sizes[:, None] + sizes > max_size, -math.inf)
        first, second = divmod(int(allowed.argmax()), count)
        if not float(allowed[first, second]) >= least:
            break
        joined = (sizes[first] * between[first] + sizes[second] * between[second]) / (sizes[first] + sizes[second])
        between[first], between[:, first] = joined, joined
        between[first, first] = -math.inf
        between[second], between[:, second] = -math.inf, -math.inf
        sizes[first] += sizes[second]
        member[member == second] = first
    _, place = np.unique(member, return_inverse=True)
    return place.reshape(-1)
