"""The loss of one batch and its gradient, in closed form and in one go.

Legend: p = fine probabilities, P = probabilities of groups, r = probability of a label given a mixed row (docs/idea.md),
t = a target label, w = its weight, L = -log p_y - sum w log p_t.

    p_t      = sum over the groups g that can have label t of  P_g r_gt          (plain kinds: P_t itself)
    dL/ds_i  = (1 + sum w) p_i - [i = y] - p_i sum over targets t of  w r_{g(i) t} / p_t
    dL/dlog r_gt = - w P_g r_gt / p_t

Dense kinds cost two matrix products, plain listed kinds only the children of the true label, so a batch costs a few
times a plain cross-entropy and needs two matrices of its size. Where p_t is below what the number format holds, that
target alone is done again in log space: nothing is clamped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from finegraph.inference.plan import ListedKind, Plan
from finegraph.inference.tensors import GraphTensors

_TINY = {torch.float32: 1e-30, torch.float64: 1e-290}
"""Below this a probability is done again in log space: its terms may have underflowed."""
_CHUNK = 1 << 22
"""How many numbers the log-space path holds at a time."""


class Targets(NamedTuple):
    """What was observed of each sample.

    Attributes:
        fine: (batch) the fine label; anything where it was not observed.
        fine_weight: (batch, 1) 1 where the fine label was observed, else 0; None where all were.
        column: (batch, slot) the coarse column of each target.
        weight: (batch or 1, slot) its weight, 0 where it was not observed.
        full: whether no weight is 0.
        kind: (slot) the number of the kind of each slot.
        listed: how many slots, at the end, belong to plain listed kinds.
    """

    fine: Tensor
    fine_weight: Tensor | None
    column: Tensor
    weight: Tensor
    full: bool
    kind: Tensor
    listed: int


class LossAndGrad(NamedTuple):
    """The loss of each sample (batch), and its gradients for the joint scores and for log r (None without mixed rows)."""

    loss: Tensor
    scores: Tensor
    mixing: Tensor | None


def loss_and_grad(plan: Plan, scores: Tensor, mixing: Tensor | None, targets: Targets) -> LossAndGrad:
    """The loss of each sample and its gradients.

    Args:
        plan: how to sum over the graph.
        scores: (batch, fine) joint scores.
        mixing: (batch, edge) log r for the edges of all mixed rows, or None where there are none.
        targets: what was observed.
    """
    log_probs = torch.log_softmax(scores, dim=1)
    loss = log_probs.gather(1, targets.fine.unsqueeze(1)).neg_()
    if targets.fine_weight is not None:
        loss = torch.where(targets.fine_weight > 0, loss, 0.0)
    probs = log_probs.exp_()
    work = _Work(plan, scores, mixing, targets, probs, loss.squeeze(1))
    work.listed_kinds()
    work.matrix_kinds()
    return work.finish()


class _Work:
    """One call of `loss_and_grad`: what has been added up so far."""

    def __init__(
        self, plan: Plan, scores: Tensor, mixing: Tensor | None, targets: Targets, probs: Tensor, loss: Tensor
    ) -> None:
        self.plan, self.scores, self.mixing, self.targets, self.probs, self.loss = plan, scores, mixing, targets, probs, loss
        self.matrix_slots = targets.column.shape[1] - targets.listed
        self.listed_terms: list[tuple[Tensor, Tensor]] = []
        self.underflowed: list[tuple[Tensor, Tensor]] = []
        self.pull: Tensor | None = None
        self.mixing_grad = None if mixing is None else torch.zeros_like(mixing)

    def slots(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Columns and weights of some slots."""
        return self.targets.column[:, start:stop], self.targets.weight[:, start:stop]

    def add_terms(self, marginal: Tensor, weight: Tensor, first_slot: int) -> Tensor:
        """Add -w log p_t to the loss, note underflows, and return w / p_t; 0 where it underflowed or was not observed."""
        if not self.targets.full:
            marginal = torch.where(weight > 0, marginal, 1.0)
        if marginal.numel() and marginal.amin().item() < _TINY[marginal.dtype]:
            tiny = marginal < _TINY[marginal.dtype]
            sample, slot = tiny.nonzero(as_tuple=True)
            self.underflowed.append((sample, slot + first_slot))
            marginal = marginal.masked_fill(tiny, 1.0)
            weight = weight.expand_as(tiny).masked_fill(tiny, 0.0)
        self.loss.sub_((marginal.log() * weight).sum(dim=1))
        return weight / marginal

    def listed_kinds(self) -> None:
        """The plain listed kinds: only the children of the true label."""
        for number, listed in enumerate(self.plan.listed_part(plain=True)):
            slot = self.matrix_slots + number
            column, weight = self.slots(slot, slot + 1)
            child, valid = _children(listed, column.squeeze(1) - listed.columns.start)
            share = self.probs.gather(1, child).mul_(valid)
            factor = self.add_terms(share.sum(dim=1, keepdim=True), weight, slot)
            self.listed_terms.append((child, share.mul_(factor)))

    def matrix_kinds(self) -> None:
        """The dense kinds and the listed kinds with mixed rows: all their group probabilities."""
        if not self.matrix_slots:
            return
        plan, probs = self.plan, self.probs
        column, weight = self.slots(0, self.matrix_slots)
        scattered = plan.listed_part(plain=False)
        place = column if plan.places_match else plan.marginal_place.index_select(0, column.reshape(-1)).view_as(column)
        matrix = plan.child_matrix.to(probs.dtype)
        groups = probs @ matrix
        if scattered:
            sums = [probs.new_zeros(len(probs), listed.group_count) for listed in scattered]
            for total, listed in zip(sums, scattered, strict=True):
                total.scatter_add_(1, listed.local_group.expand(len(probs), -1), probs)
            groups = torch.cat([groups, *sums], dim=1)
        edges = None
        labels = groups
        if self.mixing is not None:
            edges = groups.index_select(1, plan.edge_row_place) * self.mixing.exp()
            labels = groups.index_add(1, plan.edge_column_place, edges)
        factor = self.add_terms(labels.gather(1, place), weight, 0)
        back = torch.zeros_like(groups).scatter_add_(1, place, factor.expand_as(place))
        if self.mixing is not None and edges is not None and self.mixing_grad is not None:
            at_edges = back.index_select(1, plan.edge_column_place)
            self.mixing_grad.sub_(edges * at_edges)
            back.index_add_(1, plan.edge_row_place, self.mixing.exp() * at_edges)
        self.pull = back[:, : matrix.shape[1]] @ matrix.t()
        start = matrix.shape[1]
        for listed in scattered:
            self.pull += back[:, start : start + listed.group_count].index_select(1, listed.local_group)
            start += listed.group_count

    def finish(self) -> LossAndGrad:
        """Put the gradient together."""
        targets = self.targets
        observed = 1.0 if targets.fine_weight is None else targets.fine_weight.to(self.probs.dtype)
        total = targets.weight.sum(dim=1, keepdim=True) + observed
        grad = self.probs.mul_(total) if self.pull is None else torch.sub(total, self.pull, out=self.pull).mul_(self.probs)
        one = -torch.ones_like(self.loss).unsqueeze(1) * observed
        grad.scatter_add_(1, targets.fine.unsqueeze(1), one)
        for child, share in self.listed_terms:
            grad.scatter_add_(1, child, share.neg_())
        for sample, slot in self.underflowed:
            self.redo(grad, sample, slot)
        return LossAndGrad(self.loss, grad, self.mixing_grad)

    def redo(self, grad: Tensor, sample: Tensor, slot: Tensor) -> None:
        """Do some targets again in log space, kind by kind and a chunk at a time."""
        step = max(1, _CHUNK // max(self.plan.fine_count, self.plan.group_count))
        kinds = self.targets.kind[slot]
        for kind in kinds.unique().tolist():
            chosen = (kinds == kind).nonzero().squeeze(1)
            for part in chosen.split(step):
                self.redo_chunk(grad, kind, sample[part], slot[part])

    def redo_chunk(self, grad: Tensor, kind: int, sample: Tensor, slot: Tensor) -> None:
        """The same for a few targets of one kind."""
        plan = self.plan
        column = self.targets.column[sample, slot]
        weight = self.targets.weight.expand_as(self.targets.column)[sample, slot].double()
        log_probs = torch.log_softmax(self.scores[sample].double(), dim=1)
        group = plan.fine_groups()[kind].expand(len(sample), -1)
        log_r = log_probs.new_full((len(sample), plan.group_count), -torch.inf).scatter_(1, column.unsqueeze(1), 0.0)
        at_edge = None
        if self.mixing is not None:
            at_edge = plan.edge_column == column.unsqueeze(1)
            mixing = self.mixing.expand(len(self.scores), -1)[sample].double().masked_fill(~at_edge, -torch.inf)
            row = plan.edge_row.expand(len(sample), -1)
            log_r = log_r.scatter_reduce(1, row, mixing, reduce="amax")
        terms = log_probs + log_r.gather(1, group)
        marginal = torch.logsumexp(terms, dim=1, keepdim=True)
        share = (terms - marginal).exp_().nan_to_num_(nan=0.0).mul_(weight.unsqueeze(1))
        self.loss.index_add_(0, sample, (-weight * marginal.squeeze(1)).to(self.loss.dtype))
        grad.index_add_(0, sample, -share.to(grad.dtype))
        if self.mixing_grad is not None and at_edge is not None:
            by_group = torch.zeros_like(log_r).scatter_add_(1, group, share)
            edge = by_group.index_select(1, plan.edge_row).masked_fill_(~at_edge, 0.0)
            self.mixing_grad.index_add_(0, sample, -edge.to(grad.dtype))


def _children(listed: ListedKind, label: Tensor) -> tuple[Tensor, Tensor]:
    """The children of one label per sample (batch, width), and which of them are real rather than padding."""
    size = listed.sizes.index_select(0, label).unsqueeze(1)
    step = torch.arange(int(size.amax()), device=label.device)
    position = listed.starts.index_select(0, label).unsqueeze(1) + step
    valid = step < size
    child = listed.order.index_select(0, position.clamp_max_(len(listed.order) - 1).reshape(-1)).view_as(position)
    return child, valid


def marginal_loss(tensors: GraphTensors, scores: Tensor, mixing: Tensor | None, targets: Targets) -> Tensor:
    """The loss of each sample from the joint scores (batch, fine), differentiable in closed form."""
    if torch.compiler.is_compiling():
        mixed = scores.new_zeros(len(scores), 0) if mixing is None else mixing.expand(len(scores), -1).contiguous()
        fine_weight = scores.new_ones(len(scores), 1) if targets.fine_weight is None else targets.fine_weight
        weight = targets.weight.expand_as(targets.column).contiguous()
        arguments = (scores, mixed, targets.fine, fine_weight, targets.column, weight, tensors.key)
        return _compiled_loss(*arguments)[0]  # type: ignore[no-any-return]
    if mixing is not None:
        mixing = mixing.expand(len(scores), -1)
    result: Tensor = MarginalLoss.apply(scores, mixing, tensors.plan, targets)  # type: ignore[no-untyped-call]
    return result


class MarginalLoss(torch.autograd.Function):
    """`loss_and_grad` as a function whose backward only scales the gradient that forward has found."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mixing: Tensor | None, plan: Plan, targets: Targets) -> Tensor:
        with torch.autocast(scores.device.type, enabled=False):
            loss, grad, mixing_grad = loss_and_grad(plan, scores, mixing, targets)
        ctx.save_for_backward(grad, mixing_grad)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        grad, mixing_grad = ctx.saved_tensors
        factor = grads[0].unsqueeze(1)
        return grad * factor, None if mixing_grad is None else mixing_grad * factor, None, None


@torch.library.custom_op("finegraph::marginal_loss", mutates_args=())
def _compiled_loss(
    scores: Tensor, mixing: Tensor, fine: Tensor, fine_weight: Tensor, column: Tensor, weight: Tensor, key: int
) -> tuple[Tensor, Tensor, Tensor]:
    """`loss_and_grad` as one opaque operator, since it branches on values; `key` names the graph's tensors."""
    tensors = GraphTensors.by_key(key)
    mixed = mixing if mixing.shape[1] else None
    targets = Targets(fine, fine_weight, column, weight, False, tensors.slots.kind, tensors.slots.listed)
    loss, grad, mixing_grad = loss_and_grad(tensors.plan, scores, mixed, targets)
    return loss, grad, torch.zeros_like(mixing) if mixing_grad is None else mixing_grad


@_compiled_loss.register_fake
def _(
    scores: Tensor, mixing: Tensor, fine: Tensor, fine_weight: Tensor, column: Tensor, weight: Tensor, key: int
) -> tuple[Tensor, Tensor, Tensor]:
    return scores.new_empty(scores.shape[0]), torch.empty_like(scores), torch.empty_like(mixing)


def _keep_grad(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1], output[2])


def _scale_grad(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    grad, mixing_grad = ctx.saved_tensors
    factor = grads[0].unsqueeze(1)
    return grad * factor, mixing_grad * factor, None, None, None, None, None


_compiled_loss.register_autograd(_scale_grad, setup_context=_keep_grad)
