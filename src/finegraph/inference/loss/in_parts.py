"""The loss from the summands of the joint scores, a part of the batch at a time.

Where a batch is far larger than the caches, all steps are carried out for some samples before the next ones. The joint
scores, the probabilities and the gradient take turns in the same memory.
"""

from __future__ import annotations

import torch
from torch import Tensor

from finegraph.inference.loss.formulas import NO_GRADS, Grads, Job, loss_and_grad
from finegraph.inference.sums.by_weights import WeightedBatch
from finegraph.inference.sums.joint_scores import Summands, full_precision, sum_scores, sum_to_groups
from finegraph.inference.sums.weighted_loss import WeightedLoss

_PART = 1 << 21
"""A part has at most about so many joint scores per thread."""
_PASSES = 8
"""With weighted kinds, whose numbers are wide and used again and again, a part is smaller by this."""


def find_loss(job: Job, parts: Summands) -> tuple[Tensor, Grads]:
    """The loss and its gradients, from the summands of the joint scores without their history."""
    batch, most = len(parts.fine), _most_samples(job, parts)
    with full_precision(parts.fine.device):
        if batch <= most:
            return _find(job, parts)
        memory = Grads(
            scores=parts.fine.new_empty(parts.fine.shape, dtype=parts.dtype) if job.grads else None,
            groups=parts.fine.new_empty((batch, job.plan.group_count), dtype=parts.dtype) if job.group_grads else None,
        )
        losses: list[Tensor] = []
        mixing: list[Tensor] = []
        weighted: list[Tensor] = []
        rows = -(-batch // -(-batch // most))
        for start in range(0, batch, rows):
            part = slice(start, start + rows)
            own = Grads(*(None if value is None else value[part] for value in memory))
            loss, found = _find(job.part(part), parts.part(part), own)
            losses.append(loss)
            mixing += [] if found.mixing is None else [found.mixing]
            weighted += [] if found.weighted is None else [found.weighted]
        loss = torch.stack(losses).sum() if job.summed else torch.cat(losses)
        return loss, Grads(
            memory.scores,
            memory.groups,
            torch.cat(mixing) if mixing else None,
            torch.cat(weighted) if weighted else None,
        )


def _most_samples(job: Job, parts: Summands) -> int:
    """How many samples to do at a time."""
    if parts.fine.device.type != "cpu":
        return len(parts.fine)
    size = job.plan.fine_count
    if parts.way.weighted is not None:
        size *= _PASSES * (1 + parts.way.weighted.kind_count)
    elif job.plan.goes_by_bags(parts.dtype, parts.groups is not None):
        return len(parts.fine)
    return max(1, _PART // size) * torch.get_num_threads()


def _find(job: Job, parts: Summands, memory: Grads = NO_GRADS) -> tuple[Tensor, Grads]:
    """The same for a part of the batch, with memory for what is found or without."""
    if parts.way.weighted is not None:
        return _find_weighted(job, parts, memory)
    fine, groups, dtype = parts.fine, parts.groups, parts.dtype
    if groups is None:
        return loss_and_grad(job, lambda: fine, lambda sample: fine[sample], memory)
    return loss_and_grad(
        job,
        lambda: sum_scores(job.plan, fine, groups, dtype, memory.scores),
        lambda sample: sum_scores(job.plan, fine[sample], groups[sample], dtype),
        memory,
        overwrite=True,
    )


def _find_weighted(job: Job, parts: Summands, memory: Grads) -> tuple[Tensor, Grads]:
    """The same with weighted kinds, which add terms to the loss and to the gradients of the other kinds."""
    assert parts.way.weighted is not None
    sums = WeightedBatch(parts.way.weighted, parts.weighted, len(parts.fine))
    fine = parts.fine.double() + sums.log_sums
    scores = fine if parts.groups is None else sum_scores(job.plan, fine, parts.groups, torch.float64)
    own = WeightedLoss(sums, job.targets.weighted, torch.softmax(scores, dim=1))
    scores = scores.to(parts.dtype)
    loss, found = loss_and_grad(job, lambda: scores, lambda sample: scores[sample], memory)
    loss = loss + (own.loss.sum() * job.scale if job.summed else own.loss).to(loss.dtype)
    if found.scores is None:
        return loss, found
    more = (own.grad * job.scale).to(parts.dtype)
    grad, groups = found.scores.add_(more), found.groups
    if groups is not None:
        groups = groups.add_(sum_to_groups(job.plan, more))
    weighted = None
    if parts.weighted is not None:
        weighted = own.coarse_grads(grad.double(), job.scale, parts.weighted.shape[1]).to(parts.weighted.dtype)
    return loss, Grads(grad, groups, found.mixing, weighted)
