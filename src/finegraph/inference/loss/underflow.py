"""The loss of single targets again in log space, where their probabilities are below what the number format holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from finegraph.inference.loss.formulas import Job

_CHUNK = 1 << 22
"""How many numbers are held at a time."""


def redo(
    job: Job,
    mixing_grad: Tensor | None,
    weight: Tensor,
    underflow: Tensor,
    again: Callable[[Tensor], Tensor],
    loss: Tensor,
    grad: Tensor | None,
) -> None:
    """Do the targets that underflowed again, slot by slot and a chunk of samples at a time.

    Args:
        job: what to compute.
        mixing_grad: (batch, edge) the gradient for log r, to add to.
        weight: (batch, 1 + slot) the weights of the fine label and of each slot.
        underflow: (batch, 1 + slot) which targets to do again.
        again: gives the joint scores of some samples.
        loss: (batch) the loss, to add to.
        grad: (batch, fine) the gradient for the joint scores, to add to.
    """
    plan = job.plan
    step = max(1, _CHUNK // max(plan.fine_count, plan.group_count))
    for slot in underflow.any(dim=0).nonzero().squeeze(1).tolist():
        for sample in torch.split(underflow[:, slot].nonzero().squeeze(1), step):
            log_probs = torch.log_softmax(again(sample).double(), dim=1)
            own_weight = weight[sample, slot].double()
            if slot == 0:
                fine = job.targets.fine[sample]
                log_prob = log_probs.gather(1, fine.unsqueeze(1)).squeeze(1)
                loss.index_add_(0, sample, -(own_weight * log_prob).to(loss.dtype))
                if grad is not None:
                    grad[sample, fine] -= (own_weight * job.scale).to(grad.dtype)
            else:
                _redo_kind(job, mixing_grad, log_probs, own_weight, sample, slot - 1, loss, grad)


def _redo_kind(
    job: Job,
    mixing_grad: Tensor | None,
    log_probs: Tensor,
    weight: Tensor,
    sample: Tensor,
    slot: int,
    loss: Tensor,
    grad: Tensor | None,
) -> None:
    """The same for the label of a kind: its log probability, and the share of each fine label in it."""
    plan, count = job.plan, len(sample)
    column = job.targets.column[sample, slot]
    group = plan.fine_groups[job.targets.kind[slot]].expand(count, -1)
    log_r = log_probs.new_full((count, plan.group_count), -torch.inf).scatter_(1, column.unsqueeze(1), 0.0)
    at_edge = plan.edge_column == column.unsqueeze(1)
    if job.mixing is not None:
        mixing = job.mixing[sample].double().masked_fill(~at_edge, -torch.inf)
        log_r = log_r.scatter_reduce(1, plan.edge_row.expand(count, -1), mixing, reduce="amax")
    terms = log_probs + log_r.gather(1, group)
    marginal = torch.logsumexp(terms, dim=1, keepdim=True)
    loss.index_add_(0, sample, -(weight * marginal.squeeze(1)).to(loss.dtype))
    if grad is None:
        return
    # A target that is truly impossible has no share to pull on: the loss is infinite, the gradient of this term 0.
    share = (terms - marginal).exp_().nan_to_num_(nan=0.0).mul_((weight * job.scale).unsqueeze(1))
    grad.index_add_(0, sample, -share.to(grad.dtype))
    if mixing_grad is not None:
        by_group = torch.zeros_like(log_r).scatter_add_(1, group, share)
        edges = by_group.index_select(1, plan.edge_row).masked_fill_(~at_edge, 0.0)
        mixing_grad.index_add_(0, sample, -edges.to(grad.dtype))
