"""One step: the loss of a batch, its gradient over all processes, and the move.

The loss of a step is a sum over samples, divided by the number of samples of all processes that have any label. Chance
within the network, such as dropout, is seeded by the step, so nothing of it has to be saved.

Where processes shard the labels of the head, each computes the features of its own photos and gets those of its whole
group, which are all processes unless there are several groups. The loss is then that of the photos of the group in each
of its processes, and its gradient for the rows of a process is there already; it is summed over groups, and the
gradients of the network in front over all processes. A process without photos takes part with no rows: every exchange
within the loss needs the whole group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Tensor
from torch.nn.modules.batchnorm import _NormBase

from finegraph.data.dataset import MISSING, Batch
from finegraph.errors import PhotoFileError, SettingsError
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior, joint_loss, ranking_loss
from finegraph.inference.processes import Processes
from finegraph.inference.sums.targets import FROM_FINE
from finegraph.nn import Network, laplacian_prior
from finegraph.nn.sharded_head import ShardedHead
from finegraph.training.batches import PhotoPairs
from finegraph.training.distributed import Ranks
from finegraph.training.guard import StopRequest, first_bad_gradient, first_bad_layer, non_finite
from finegraph.training.recipes import Recipe
from finegraph.training.settings import TrainSettings

_SEEDS = 2**31
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class StepResult:
    """What a step did, over all processes.

    Attributes:
        loss: the sum of the loss over the samples.
        count: how many samples had any label.
        stop: whether any process was asked to stop.
        bad: the photos that could not be read.
    """

    loss: float
    count: int
    stop: bool
    bad: tuple[PhotoFileError, ...]


@dataclass(frozen=True, kw_only=True)
class Stepper:
    """Takes the steps of a run.

    Attributes:
        network: what is trained.
        optimizer: moves its weights.
        settings: for the seed, the prior and the precision.
        recipe: the numbers of fine-tuning.
        ranks: this process among the others.
        names: the file name of each sample, for messages.
        pairs: the photos that were compared; None if there are none.
    """

    network: Network
    optimizer: torch.optim.Optimizer
    settings: TrainSettings
    recipe: Recipe
    ranks: Ranks
    names: list[str]
    pairs: PhotoPairs | None = None

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self.network.head.fine.weight.device

    def __call__(self, step: int, batch: Batch, request: StopRequest) -> StepResult:
        """Take one step.

        Args:
            step: how many steps were taken before.
            batch: this process's share; it may have no photos.
            request: whether this process is asked to stop.

        Raises:
            NonFiniteError: the loss or a gradient is NaN or infinite; the step was not taken.
        """
        self._seed(step)
        self.optimizer.zero_grad(set_to_none=True)
        pixels, loss, shared = None, torch.zeros(()), self.network.shared_head
        if len(batch.sample):
            pixels = batch.images.to(self.device, memory_format=torch.channels_last)
        if shared is not None:
            loss = self._common_loss(pixels, batch, shared)
        elif pixels is not None:
            loss = self._loss(pixels, batch)
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        # A loss that the processes of a group have in common counts once.
        own = float(loss.detach()) if shared is None or shared.exchange.rank == 0 else 0.0
        local_sums = [own, float(observed(batch).sum()), float(len(batch.bad)), float(request.asked)]
        numbers = torch.tensor(local_sums, dtype=torch.float64)
        self.ranks.sum([numbers])
        total, count, bad, stopping = numbers.tolist()
        if not math.isfinite(total):
            self._fail(step, "the loss", batch, pixels)
        self._share_gradients(max(count, 1.0))
        if self.settings.laplacian:
            prior = laplacian_prior(self.network.head) if shared is None else shared.prior()
            (self.settings.laplacian * prior).backward()  # type: ignore[no-untyped-call]
        finite = self._gradients_are_finite()
        if not finite if shared is None else self.ranks.any(not finite):
            self._fail(step, "a gradient", batch, pixels)
        self.optimizer.step()
        bad_photos = [error for part in self.ranks.gather(batch.bad) for error in part] if bad else []
        # One process alone can still listen; several must all have heard the same.
        stop = bool(stopping) or (self.ranks.size == 1 and request.asked)
        return StepResult(total, int(count), stop, tuple(bad_photos))

    def _seed(self, step: int) -> None:
        torch.manual_seed((self.settings.seed * 1_000_003 + step * self.ranks.size + self.ranks.rank) % _SEEDS)

    def _loss(self, pixels: UInt8[Tensor, "batch channel height width"], batch: Batch) -> Float[Tensor, ""]:
        """The sum of the loss over a batch, auxiliary heads included."""
        fine = batch.fine.to(self.device)
        kinds = {name: labels.to(self.device) for name, labels in batch.kinds.items()}
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
            posterior, auxiliary = self._forward(pixels)
            loss = summed_loss(posterior, fine, kinds, self.recipe)
            if self.pairs is not None:
                loss = loss + pair_loss(posterior, self.pairs, batch.sample.tolist(), self.recipe)
            for one in auxiliary:
                loss = loss + self.network.auxiliary_weight * summed_loss(one, fine, kinds, self.recipe)
        return loss

    def _common_loss(
        self, pixels: UInt8[Tensor, "batch channel height width"] | None, batch: Batch, head: ShardedHead
    ) -> Float[Tensor, ""]:
        """The sum of the loss over the photos of all processes of the group, the same in each."""
        weight = head.fine.weight
        own = [weight.new_zeros(0, size) for size in self.network.feature_sizes]
        if pixels is not None:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
                found = self._explained(self.network.head_features, pixels)
            own = [one.to(weight.dtype) for one in found if one is not None]
        # All processes must exchange the gradient of the features, also those that have no use for it.
        features, *others = [head.exchange.all_rows(one if one.requires_grad else one.requires_grad_()) for one in own]
        coarse = others[0] if others else None
        targets, photo_labels = all_targets(batch, head.graph, head.exchange)
        fine, kinds = targets.to(self.device), {name: one.to(self.device) for name, one in photo_labels.items()}
        if not len(features):
            return features.sum()
        kind_weight, share = kind_weight_of(head.graph, self.recipe), self.recipe.label_smoothing
        loss = head.loss(features, fine, kinds or None, kind_weight, "sum", MISSING, coarse_features=coarse)
        if not share:
            return loss
        return loss + share * head.smoothing(features, fine, MISSING, coarse_features=coarse).sum()

    def _forward(self, pixels: UInt8[Tensor, "batch channel height width"]) -> tuple[Posterior, tuple[Posterior, ...]]:
        """What the network and its auxiliary heads say."""
        return self._explained(self.network.forward_with_auxiliary, pixels)

    def _explained(
        self, forward: Callable[[Tensor], _Found], pixels: UInt8[Tensor, "batch channel height width"]
    ) -> _Found:
        """What a part of the network makes of photos; a batch that it cannot normalise is explained."""
        try:
            return forward(pixels)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            count, side = len(pixels), pixels.shape[-1]
            raise SettingsError(
                f"batch_size and size: expected more than {count} photo of {side} x {side} pixels in each process and "
                "step, as the network normalises by what its last layers see in them, which is one number; raise "
                "either of the two, or set fixed_statistics"
            ) from error

    def _share_gradients(self, count: float) -> None:
        """Sum gradients and average statistics over all processes; then gradients are of the mean loss.

        Those of rows that are sharded are those of all photos of the group already.
        """
        gradients, shared = [], self.network.shared_head
        rows = set() if shared is None else set(shared.parameters())
        summed = []
        for weight in self.network.parameters():
            if weight.requires_grad:
                if weight.grad is None:
                    weight.grad = torch.zeros_like(weight)
                gradients.append(weight.grad)
                if weight not in rows:
                    summed.append(weight.grad)
        statistics = moving_statistics(self.network) if self.ranks.size > 1 else []
        self.ranks.sum([*summed, *statistics])
        if shared is not None:
            shared.sum_gradients()
        torch._foreach_div_(gradients, count)
        if statistics:
            torch._foreach_div_(statistics, float(self.ranks.size))

    def _gradients_are_finite(self) -> bool:
        gradients = [weight.grad for weight in self.network.parameters() if weight.grad is not None]
        largest = torch._foreach_norm([gradient for gradient in gradients if gradient.numel()], float("inf"))
        return bool(torch.stack(list(largest)).isfinite().all())

    def _fail(self, step: int, what: str, batch: Batch, pixels: Tensor | None) -> NoReturn:
        """Raise the error for NaN or infinity, with the reports of all processes."""
        self._seed(step)
        layer = None if pixels is None else first_bad_layer(self.network, pixels)
        gradient = None if pixels is None else first_bad_gradient(self.network)
        reports = self.ranks.gather((layer, gradient, self.photos(batch)))
        # The process that has the bad layer also has the photos to blame; a bad gradient may come from others.
        blamed = [one for one in reports if one[0]] or [one for one in reports if one[1]] or reports
        raise non_finite(step + 1, what, blamed[0][0] or blamed[0][1], [name for *_, names in blamed for name in names])

    def photos(self, batch: Batch) -> list[str]:
        """The files of a batch."""
        return [self.names[int(number)] for number in batch.sample]


def moving_statistics(network: Network) -> list[Shaped[Tensor, " ..."]]:
    """The running statistics of the normalisation layers that update them."""
    layers = [layer for layer in network.modules() if isinstance(layer, _NormBase) and layer.training]
    both = [(layer.running_mean, layer.running_var) for layer in layers]
    return [one for pair in both for one in pair if one is not None]


def observed(batch: Batch) -> Bool[Tensor, " batch"]:
    """Which samples of a batch have any label."""
    known = batch.fine != MISSING
    for labels in batch.kinds.values():
        known = known | (~labels.isnan() if labels.is_floating_point() else labels != MISSING)
    return known


def all_targets(
    batch: Batch, graph: LabelGraph, exchange: Processes
) -> tuple[Int[Tensor, " _"], dict[str, Int[Tensor, " _"] | Float[Tensor, " _"]]]:
    """The targets of the photos of all processes, in the order of `Processes.all_rows`.

    A process without photos does not know which kinds and numbers there are labels and values of, so all are sent, and
    those without any of their own are left out again.
    """
    from_fine = torch.full_like(batch.fine, FROM_FINE)
    columns = [batch.fine, *(batch.kinds.get(name, from_fine) for name in graph.kinds)]
    table = exchange.all_rows(torch.stack(columns, dim=1))
    named = zip(graph.kinds, table[:, 1:].unbind(dim=1), strict=True)
    found = {name: labels for name, labels in named if bool((labels != FROM_FINE).any())}
    if graph.numbers:
        unknown = torch.full(batch.fine.shape, math.nan, dtype=torch.float64)
        own = torch.stack([batch.kinds.get(name, unknown).double() for name in graph.numbers], dim=1)
        values = zip(graph.numbers, exchange.all_rows(own).unbind(dim=1), strict=True)
        found |= {name: one for name, one in values if not bool(one.isnan().all())}
    return table[:, 0], found


def summed_loss(
    posterior: Posterior,
    fine: Int[Tensor, " batch"],
    kinds: dict[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]],
    recipe: Recipe,
) -> Float[Tensor, ""]:
    """The joint loss of a batch, summed; label smoothing spreads a share of the fine target evenly over all labels."""
    loss = joint_loss(posterior, fine, kinds or None, kind_weight_of(posterior.graph, recipe), "sum", MISSING)
    share = recipe.label_smoothing
    if share:
        log_probs = posterior.log_probs()
        known = fine != MISSING
        target_log_probs = log_probs.gather(1, fine.masked_fill(~known, 0).unsqueeze(1)).squeeze(1)
        loss = loss + share * torch.where(known, target_log_probs - log_probs.mean(dim=1), 0.0).sum()
    return loss


def pair_loss(posterior: Posterior, pairs: PhotoPairs, samples: Sequence[int], recipe: Recipe) -> Float[Tensor, ""]:
    """The ranking loss of the compared photos of a batch, summed, with the weight of a kind.

    Args:
        posterior: what the network says of the batch.
        pairs: the photos that were compared.
        samples: the number of each photo of the batch.
        recipe: the numbers of fine-tuning.
    """
    loss = posterior.fine_scores.new_zeros(())
    for name, found in pairs.among(samples).items():
        mean = posterior.value(name).mean
        values = mean.log() if posterior.graph.number(name).scale == "log" else mean
        more, less, same = (torch.tensor(column, device=values.device) for column in zip(*found, strict=True))
        one = ranking_loss(values[more], values[less], same, pairs.scales[name], "sum")
        loss = loss + kind_weight_of(posterior.graph, recipe) * one.to(loss.dtype)
    return loss


def kind_weight_of(graph: LabelGraph, recipe: Recipe) -> float:
    """The weight of each kind and number in the loss."""
    count = len(graph.kinds) + len(graph.numbers)
    return 1.0 / max(count, 1) if recipe.kind_weight is None else recipe.kind_weight
