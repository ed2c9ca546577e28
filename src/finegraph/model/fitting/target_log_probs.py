"""The log probabilities of the true labels of held-out samples.

Samples are taken some at a time, fewer the more labels there are, so that memory does not grow with samples x labels.
Cost: one product of features and weights and a few passes over the graph; some 16 MB for each matrix of scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.inference.numerics import TILE

_MAX_SCORES = 1 << 22
"""The largest number of scores at a time, unless one tile of samples has more."""


def max_rows(graph: LabelGraph) -> int:
    """How many samples are scored at a time: whole tiles, so that the split does not change how products round."""
    labels = len(graph) + sum(len(graph.labels(kind)) for kind in graph.kinds)
    return TILE * max(1, _MAX_SCORES // (TILE * labels))


def target_log_probs(
    answer: Callable[..., Posterior],
    graph: LabelGraph,
    features: Sequence[Float[Tensor, "batch _"]],
    targets: Int[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """The log probability of the fine label of each sample, in float64.

    Args:
        answer: the posterior of features, such as a head.
        graph: the label graph of the posterior.
        features: what it takes, one matrix or two, with a row per sample.
        targets: the fine labels.
    """
    step = max_rows(graph)
    found = [torch.zeros(0, dtype=torch.float64)]
    with torch.inference_mode():
        for start in range(0, len(targets), step):
            rows = slice(start, start + step)
            log_probs = answer(*(part[rows] for part in features)).log_probs()
            found.append(log_probs.gather(1, targets[rows].unsqueeze(1)).squeeze(1).double())
    return torch.cat(found)
