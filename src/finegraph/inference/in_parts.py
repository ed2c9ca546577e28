"""The loss from the summands of the joint scores, a part of the batch at a time.

Where a batch is far larger than the caches, all steps are carried out for some samples before the next ones. The joint
scores, the probabilities and the gradient take turns in the same memory.
"""

from __future__ import annotations

import torch
from torch import Tensor

from finegraph.inference.marginal_loss import Grads, Job, loss_and_grad
from finegraph.inference.scores import full_precision, sum_scores

_PART = 1 << 21
"""A part has at most about so many joint scores per thread."""


def find_loss(job: Job, fine: Tensor, groups: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Grads]:
    """The loss and its gradients.

    Args:
        job: what to compute.
        fine: (batch, fine) fine scores.
        groups: (batch, group) scores of groups, None where all are 0.
        dtype: the number format of the joint scores.
    """
    plan, batch = job.tensors.plan, len(fine)
    most = max(1, _PART // plan.fine_count) * torch.get_num_threads() if fine.device.type == "cpu" else batch
    with full_precision(fine.device):
        if batch <= most or plan.goes_by_bags(dtype, groups is not None):
            return _find(job, fine, groups, dtype, Grads())
        memory = Grads(
            scores=fine.new_empty(fine.shape, dtype=dtype) if job.grads else None,
            groups=fine.new_empty((batch, plan.group_count), dtype=dtype) if job.group_grads else None,
        )
        rows = -(-batch // -(-batch // most))
        losses, mixing = [], []
        for start in range(0, batch, rows):
            part = slice(start, start + rows)
            own = Grads(*(None if value is None else value[part] for value in memory))
            own_groups = None if groups is None else groups[part]
            loss, found = _find(job.part(part), fine[part], own_groups, dtype, own)
            losses.append(loss)
            mixing += [] if found.mixing is None else [found.mixing]
        loss = torch.stack(losses).sum() if job.summed else torch.cat(losses)
        return loss, memory._replace(mixing=torch.cat(mixing) if mixing else None)


def _find(job: Job, fine: Tensor, groups: Tensor | None, dtype: torch.dtype, memory: Grads) -> tuple[Tensor, Grads]:
    """The same for a part of the batch, with memory for what is found or without."""
    plan = job.tensors.plan
    if groups is None:
        return loss_and_grad(job, fine, memory, again=lambda sample: fine[sample])
    scores = sum_scores(plan, fine, groups, dtype, memory.scores)
    return loss_and_grad(
        job,
        scores,
        memory._replace(scores=scores),
        again=lambda sample: sum_scores(plan, fine[sample], groups[sample], dtype),
    )
