"""The loss of one batch and its gradient, in closed form and in one go.

Legend: p = fine probabilities, P = probabilities of groups, r = probability of a label given a mixed row, t = a target
label, w = its weight, L = -log p_y - sum w log p_t.

    p_t      = sum over the groups g that can have label t of  P_g r_gt          (plain kinds: P_t itself)
    dL/ds_i  = (1 + sum w) p_i - [i = y] - p_i sum over targets t of  w r_{g(i) t} / p_t
    dL/dlog r_gt = - w P_g r_gt / p_t

The sums are those of `bags.py` or of `columns.py`; each has its steps in `loss_by_bags.py` and `loss_by_columns.py`. So
a batch costs a few times a plain cross-entropy and needs two matrices of its size. Where p_t is below what the number
format holds, that target alone is done again in log space: nothing is clamped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from finegraph.inference.loss.targets import Targets
from finegraph.inference.loss.underflow import redo
from finegraph.inference.sums.layout import Plan
from finegraph.inference.sums.loss_by_bags import LossByBags
from finegraph.inference.sums.loss_by_columns import LossByColumns

_TINY = {torch.float32: 1e-30, torch.float64: 1e-290}
"""Below this a probability is done again in log space: its terms may have underflowed."""


class Grads(NamedTuple):
    """The gradients of the summed loss.

    Attributes:
        scores: (batch, fine) for the joint scores; None where no gradients were asked for.
        groups: (batch, group) for the scores of groups; None where they were not asked for.
        mixing: (batch, edge) for log r; None without mixed rows.
        weighted: (batch, coarse) for the scores of weighted kinds; None without them.
    """

    scores: Tensor | None = None
    groups: Tensor | None = None
    mixing: Tensor | None = None
    weighted: Tensor | None = None


NO_GRADS = Grads()


class Job(NamedTuple):
    """What to compute.

    Attributes:
        plan: how to sum over the graph.
        mixing: (batch, edge) log r for the edges of all mixed rows, or None where there are none.
        targets: what was observed.
        coarse_scores: whether the joint scores are a sum of fine and coarse scores.
        summed: whether the loss is that of all samples together, rather than of each one.
        scale: a factor for a summed loss and for all gradients: 1 over the number of samples for a mean.
        grads: whether gradients are wanted at all.
        group_grads: whether those for the scores of groups are.
    """

    plan: Plan
    mixing: Tensor | None
    targets: Targets
    coarse_scores: bool = False
    summed: bool = False
    scale: float | Tensor = 1.0
    grads: bool = True
    group_grads: bool = False

    def part(self, samples: slice) -> Job:
        """The same for some of the samples."""
        mixing = None if self.mixing is None else self.mixing[samples]
        return self._replace(mixing=mixing, targets=self.targets.part(samples))


def loss_and_grad(
    job: Job,
    scores: Callable[[], Tensor],
    again: Callable[[Tensor], Tensor],
    memory: Grads = NO_GRADS,
    overwrite: bool = False,
) -> tuple[Tensor, Grads]:
    """The loss and its gradients.

    Args:
        job: what to compute.
        scores: makes the joint scores, (batch, fine); nobody else keeps them, so that their memory is free soon.
        again: gives the scores of some samples again, (sample, fine).
        memory: where to put gradients, as far as it is given.
        overwrite: whether the scores may be overwritten.
    """
    weight = job.targets.weight
    work = _work(job, scores(), memory, overwrite)
    probs = work.target_probs()
    kept, underflow = weight, None
    if weight is not None and not bool((weight > 0).all()):
        probs = torch.where(weight > 0, probs, 1.0)
    tiny = _TINY[probs.dtype]
    if probs.numel() and probs.amin().item() < tiny:
        underflow = probs < tiny
        probs = probs.masked_fill(underflow, 1.0)
        weight = torch.ones_like(probs) if weight is None else weight.expand_as(probs)
        kept = weight.masked_fill(underflow, 0.0)
    logs = probs.log() if kept is None else probs.log().mul_(kept)
    total = job.summed and underflow is None
    loss = logs.sum().mul_(-job.scale) if total else logs.sum(dim=1).neg_()
    del logs
    grad = None
    if job.grads:
        pull = probs.reciprocal_().mul_(-job.scale)
        grad = work.grad(pull if kept is None else pull.mul_(kept), weight)
    if underflow is not None:
        assert weight is not None
        redo(job, work.mixing_grad, weight, underflow, again, loss, grad)
        loss = loss.sum() * job.scale if job.summed else loss
    groups = None
    if grad is not None and job.group_grads:
        groups = work.group_grads(grad, changed=underflow is not None)
    return loss, Grads(grad, groups, work.mixing_grad)


def _work(job: Job, scores: Tensor, memory: Grads, overwrite: bool) -> LossByBags | LossByColumns:
    """The steps of the loss, in the way that is cheaper for this graph."""
    probs = torch.softmax(scores, dim=1, out=scores if overwrite else memory.scores)
    if job.plan.goes_by_bags(scores.dtype, job.coarse_scores):
        return LossByBags(job, probs)
    return LossByColumns(job, probs, memory.groups)
