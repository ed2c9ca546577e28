"""The loss of one batch and its gradient, in closed form and in one go.

Legend: p = fine probabilities, P = probabilities of groups, r = probability of a label given a mixed row, t = a target
label, w = its weight, L = -log p_y - sum w log p_t.

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
from torch.nn.functional import embedding_bag

from finegraph.inference.derivatives import first_derivatives_only
from finegraph.inference.plan import ListedKind
from finegraph.inference.scores import full_precision
from finegraph.inference.tensors import GraphTensors

_TINY = {torch.float32: 1e-30, torch.float64: 1e-290}
"""Below this a probability is done again in log space: its terms may have underflowed."""
_CHUNK = 1 << 22
"""How many numbers the log-space path holds at a time."""


class Targets(NamedTuple):
    """What was observed of each sample. Slots are those of `slots.py`.

    Attributes:
        fine: (batch) the fine label; anything where it was not observed.
        place: (batch, slot) where the label of each slot stands, as in `Slots.place`.
        weight: (batch, 1 + slot) the weight of the fine label, then of each slot; 0 where it was not observed. None
            where all weights are 1.
    """

    fine: Tensor
    place: Tensor
    weight: Tensor | None


class LossAndGrad(NamedTuple):
    """The loss of each sample (batch), and its gradients for the joint scores and, with mixed rows, for log r."""

    loss: Tensor
    scores: Tensor
    mixing: Tensor | None


def loss_and_grad(tensors: GraphTensors, scores: Tensor, mixing: Tensor | None, targets: Targets) -> LossAndGrad:
    """The loss of each sample and its gradients.

    Args:
        tensors: the graph.
        scores: (batch, fine) joint scores.
        mixing: (batch, edge) log r for the edges of all mixed rows, or None where there are none.
        targets: what was observed.
    """
    work = _Work(tensors, torch.softmax(scores, dim=1), mixing, targets)
    target_probs = work.target_probs()
    weight: Tensor | None = targets.weight
    kept, underflow = weight, None
    if weight is not None:
        target_probs = torch.where(weight > 0, target_probs, 1.0)
    if target_probs.numel() and target_probs.amin().item() < _TINY[scores.dtype]:
        underflow = target_probs < _TINY[scores.dtype]
        target_probs = target_probs.masked_fill_(underflow, 1.0)
        weight = torch.ones_like(target_probs) if weight is None else weight
        kept = weight.masked_fill(underflow, 0.0)
    if kept is None:
        loss, factor = target_probs.log().sum(dim=1).neg_(), target_probs.reciprocal()
    else:
        loss, factor = (target_probs.log() * kept).sum(dim=1).neg_(), kept / target_probs
    grad = work.grad(factor, weight)
    if underflow is not None:
        for slot_samples in _by_slot(underflow):
            _redo(work, scores, weight, slot_samples, loss, grad)
    return LossAndGrad(loss, grad, work.mixing_grad)


class _Work:
    """The probabilities of one batch and the two sums that the loss needs of them."""

    def __init__(self, tensors: GraphTensors, probs: Tensor, mixing: Tensor | None, targets: Targets) -> None:
        self.plan, self.slots, self.probs, self.mixing, self.targets = (
            tensors.plan,
            tensors.slots,
            probs,
            mixing,
            targets,
        )
        self.scattered = self.plan.listed_part(plain=False)
        self.listed = self.plan.listed_part(plain=True)
        self.shares: list[tuple[Tensor, Tensor]] = []
        self.mixing_grad = None if mixing is None else torch.zeros_like(mixing)

    def target_probs(self) -> Tensor:
        """(batch, 1 + slot) the probability of the true fine label and of the label of each slot."""
        place, matrix_slots = self.targets.place, self.slots.matrix_count
        parts = [self.probs.gather(1, self.targets.fine.unsqueeze(1))]
        if matrix_slots:
            parts.append(self.label_probs().gather(1, place[:, :matrix_slots]))
        for slot, listed in enumerate(self.listed, start=matrix_slots):
            child, valid = _children(listed, place[:, slot])
            share = self.probs.gather(1, child).mul_(valid)
            self.shares.append((child, share))
            parts.append(share.sum(dim=1, keepdim=True))
        return torch.cat(parts, dim=1)

    def label_probs(self) -> Tensor:
        """(batch, place) the probabilities of all labels and mixed rows of the dense and the mixed listed kinds."""
        probs = self.probs
        groups = probs @ self.plan.child_matrix.to(probs.dtype).t()
        if self.scattered:
            sums = [probs.new_zeros(len(probs), listed.group_count) for listed in self.scattered]
            for total, listed in zip(sums, self.scattered, strict=True):
                total.scatter_add_(1, listed.local_group.expand(len(probs), -1), probs)
            groups = torch.cat([groups, *sums], dim=1)
        if self.mixing is None:
            return groups
        self.edge_share = self.mixing.exp()
        self.edge_probs = groups.index_select(1, self.plan.edge_row_place) * self.edge_share
        return groups.index_add(1, self.plan.edge_column_place, self.edge_probs)

    def grad(self, factor: Tensor, weight: Tensor | None) -> Tensor:
        """dL/ds from w / p_t of the fine label and of each slot."""
        matrix_slots = self.slots.matrix_count
        total = factor.new_full((1, 1), float(factor.shape[1])) if weight is None else weight.sum(dim=1, keepdim=True)
        if matrix_slots:
            pull = self.pull_of_matrix_slots(factor[:, 1 : 1 + matrix_slots], total)
            grad = pull.mul_(self.probs)
        else:
            grad = self.probs.mul_(total)
        fine = self.targets.fine.unsqueeze(1)
        observed = torch.ones_like(factor[:, :1]) if weight is None else weight[:, :1]
        grad.scatter_add_(1, fine, -observed)
        for slot, (child, share) in enumerate(self.shares, start=1 + matrix_slots):
            grad.scatter_add_(1, child, share.mul_(factor[:, slot : slot + 1]).neg_())
        return grad

    def pull_of_matrix_slots(self, factor: Tensor, total: Tensor) -> Tensor:
        """Total - sum over targets of w r / p_t, for each fine label."""
        place = self.targets.place[:, : self.slots.matrix_count]
        matrix = self.plan.child_matrix.to(factor.dtype)
        if self.plan.bags and self.mixing is None:
            pull = embedding_bag(place, matrix, mode="sum", per_sample_weights=factor.contiguous())
            return torch.sub(total, pull, out=pull)
        back = factor.new_zeros(len(factor), self.plan.place_count).scatter_add_(1, place, factor)
        if self.mixing_grad is not None:
            at_edges = back.index_select(1, self.plan.edge_column_place)
            self.mixing_grad.sub_(self.edge_probs * at_edges)
            back.index_add_(1, self.plan.edge_row_place, self.edge_share * at_edges)
        start = len(matrix)
        pull = torch.addmm(total, back[:, :start], matrix, alpha=-1)
        for listed in self.scattered:
            pull -= back[:, start : start + listed.group_count].index_select(1, listed.local_group)
            start += listed.group_count
        return pull


def _by_slot(underflow: Tensor) -> list[tuple[int, Tensor]]:
    """The slots with underflows, 0 for the fine label, each with its samples."""
    slots = underflow.any(dim=0).nonzero().squeeze(1).tolist()
    return [(slot, underflow[:, slot].nonzero().squeeze(1)) for slot in slots]


def _redo(
    work: _Work, scores: Tensor, weight: Tensor | None, slot_samples: tuple[int, Tensor], loss: Tensor, grad: Tensor
) -> None:
    """Do some targets of one slot again in log space, a chunk of samples at a time."""
    slot, samples = slot_samples
    assert weight is not None
    step = max(1, _CHUNK // max(work.plan.fine_count, work.plan.group_count))
    for sample in torch.split(samples, step):
        log_probs = torch.log_softmax(scores[sample].double(), dim=1)
        own_weight = weight[sample, slot].double()
        if slot == 0:
            fine = work.targets.fine[sample].unsqueeze(1)
            loss.index_add_(0, sample, -(own_weight * log_probs.gather(1, fine).squeeze(1)).to(loss.dtype))
        else:
            _redo_kind(work, log_probs, own_weight, sample, slot - 1, loss, grad)


def _redo_kind(
    work: _Work, log_probs: Tensor, weight: Tensor, sample: Tensor, slot: int, loss: Tensor, grad: Tensor
) -> None:
    """The same for the label of a kind: its log probability, and the share of each fine label in it."""
    plan, count = work.plan, len(sample)
    column = work.slots.columns_at(slot, work.targets.place[sample, slot], plan)
    group = plan.fine_groups()[int(work.slots.kind[slot])].expand(count, -1)
    log_r = log_probs.new_full((count, plan.group_count), -torch.inf).scatter_(1, column.unsqueeze(1), 0.0)
    at_edge = plan.edge_column == column.unsqueeze(1)
    if work.mixing is not None:
        mixing = work.mixing[sample].double().masked_fill(~at_edge, -torch.inf)
        log_r = log_r.scatter_reduce(1, plan.edge_row.expand(count, -1), mixing, reduce="amax")
    terms = log_probs + log_r.gather(1, group)
    marginal = torch.logsumexp(terms, dim=1, keepdim=True)
    # A target that is truly impossible has no share to pull on: the loss is infinite, the gradient of this term 0.
    share = (terms - marginal).exp_().nan_to_num_(nan=0.0).mul_(weight.unsqueeze(1))
    loss.index_add_(0, sample, -(weight * marginal.squeeze(1)).to(loss.dtype))
    grad.index_add_(0, sample, -share.to(grad.dtype))
    if work.mixing_grad is not None:
        by_group = torch.zeros_like(log_r).scatter_add_(1, group, share)
        edges = by_group.index_select(1, plan.edge_row).masked_fill_(~at_edge, 0.0)
        work.mixing_grad.index_add_(0, sample, -edges.to(grad.dtype))


def _children(listed: ListedKind, label: Tensor) -> tuple[Tensor, Tensor]:
    """The children of one label per sample (batch, width), and which of them are real rather than padding."""
    if listed.padded:
        return listed.padded_children.index_select(0, label), listed.padded_valid.index_select(0, label)
    size = listed.sizes.index_select(0, label).unsqueeze(1)
    step = torch.arange(int(size.amax()) if len(label) else 0, device=label.device)
    position = listed.starts.index_select(0, label).unsqueeze(1) + step
    valid = step < size
    child = listed.order.index_select(0, position.clamp_max_(len(listed.order) - 1).reshape(-1)).view_as(position)
    return child, valid


def marginal_loss(tensors: GraphTensors, scores: Tensor, mixing: Tensor | None, targets: Targets) -> Tensor:
    """The loss of each sample from the joint scores (batch, fine), differentiable in closed form."""
    if torch.compiler.is_compiling():
        mixed = scores.new_zeros(len(scores), 0) if mixing is None else mixing.expand(len(scores), -1).contiguous()
        weight = targets.weight
        if weight is None:
            weight = scores.new_ones(len(scores), 1 + targets.place.shape[1])
        compiled: Tensor = _compiled_loss(scores, mixed, targets.fine, targets.place, weight, tensors.key)[0]
        return compiled
    if mixing is not None:
        mixing = mixing.expand(len(scores), -1)
    result: Tensor = _MarginalLoss.apply(scores, mixing, tensors, targets)  # type: ignore[no-untyped-call]
    return result


class _MarginalLoss(torch.autograd.Function):
    """`loss_and_grad` as a function whose backward only scales the gradient that forward has found."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mixing: Tensor | None, tensors: GraphTensors, targets: Targets) -> Tensor:
        with full_precision(scores.device):
            loss, grad, mixing_grad = loss_and_grad(tensors, scores, mixing, targets)
        ctx.save_for_backward(grad, mixing_grad)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        first_derivatives_only()
        grad, mixing_grad = ctx.saved_tensors
        factor = grads[0].unsqueeze(1)
        return grad * factor, None if mixing_grad is None else mixing_grad * factor, None, None


@torch.library.custom_op(
    "finegraph::marginal_loss",
    mutates_args=(),
    schema="(Tensor scores, Tensor mixing, Tensor fine, Tensor place, Tensor weight, int key) "
    "-> (Tensor, Tensor, Tensor)",
)
def _compiled_loss(
    scores: Tensor, mixing: Tensor, fine: Tensor, place: Tensor, weight: Tensor, key: int
) -> tuple[Tensor, Tensor, Tensor]:
    """`loss_and_grad` as one opaque operator, since it branches on values; `key` names the graph's tensors."""
    mixed = mixing if mixing.shape[1] else None
    with full_precision(scores.device):
        loss, grad, mixing_grad = loss_and_grad(GraphTensors.by_key(key), scores, mixed, Targets(fine, place, weight))
    return loss, grad, torch.zeros_like(mixing) if mixing_grad is None else mixing_grad


@_compiled_loss.register_fake
def _(
    scores: Tensor, mixing: Tensor, fine: Tensor, place: Tensor, weight: Tensor, key: int
) -> tuple[Tensor, Tensor, Tensor]:
    return scores.new_empty(scores.shape[0]), torch.empty_like(scores), torch.empty_like(mixing)


def _keep_grad(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1], output[2])


def _scale_grad(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    grad, mixing_grad = ctx.saved_tensors
    factor = grads[0].unsqueeze(1)
    return grad * factor, mixing_grad * factor, None, None, None, None


_compiled_loss.register_autograd(_scale_grad, setup_context=_keep_grad)
