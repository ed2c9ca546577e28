"""How probable evidence was before one was told it.

With r^j_ic the probability of label c of kind j given fine label i, and l the likelihoods that the evidence gives to
labels (1 and 0 for hard evidence):

    P(evidence)  =  sum_i p_i l_i prod_j sum_c r^j_ic l^j_c

Given the fine label the kinds are independent, so this is the sum over all states of the joint, exactly. Likelihoods
are taken relative to the largest of their kind, since a common factor means nothing: an even likelihood of two labels
is the same as "one of the two". Cost: one pass over the edges of the kinds that evidence is on.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.inference.evidence import FINE
from finegraph.inference.sums.graph_tensors import GraphTensors


def evidence_log_prob(
    tensors: GraphTensors,
    fine: Float[Tensor, "batch fine"],
    scores: Float[Tensor, "batch coarse"] | None,
    likelihoods: Mapping[str, Tensor],
) -> Float[Tensor, " batch"]:
    """The log probability of evidence, in float64; minus infinity where it is impossible.

    Args:
        tensors: those of the graph.
        fine: the log probabilities of the fine labels.
        scores: the coarse scores; None for all 0.
        likelihoods: per kind, or for `"fine"`, log likelihoods of shape (1 or batch, label).
    """
    terms = fine.double()
    for name, likelihood in likelihoods.items():
        relative = (likelihood - likelihood.amax(dim=1, keepdim=True)).to(fine.device)
        if name == FINE:
            terms = terms + relative
            continue
        kind = tensors.kind(name)
        own = relative.new_zeros(1, kind.label_count) if scores is None else scores[:, kind.columns].double()
        terms = terms + kind.group_likelihoods(relative, own).index_select(1, kind.group)
    # Sums of probabilities may come out above 1 by rounding.
    return torch.logsumexp(terms, dim=1).clamp_max(0.0)
