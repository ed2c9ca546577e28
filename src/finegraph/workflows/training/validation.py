"""The metrics that training watches: few, quick, and exact over several processes.

They are sums and counts, so that processes can each look at their share of the photos and add up. Everything else that
can be measured belongs to evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

import torch
from jaxtyping import Int
from torch import Tensor

from finegraph.data.dataset import MISSING, PhotoDataset
from finegraph.errors import DataError, PhotoFileError
from finegraph.evaluation.judgements import judge_kind
from finegraph.inference import Posterior
from finegraph.nn import Network
from finegraph.training.batches import read_batches
from finegraph.training.distributed import Ranks
from finegraph.training.guard import first_bad_layer
from finegraph.training.loop import Judgement

_BATCH = 64


class Tally:
    """Sums and counts of what was right."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self.names = ("top1", "nll", *(f"kinds.{kind}" for kind in kinds))
        self.numbers = torch.zeros(len(self.names), 2, dtype=torch.float64)

    def add(
        self, posterior: Posterior, fine: Int[Tensor, " batch"], kinds: Mapping[str, Int[Tensor, " batch"]]
    ) -> None:
        """Count the answers to a batch; labels that are not known are left out."""
        log_probs = posterior.log_probs()
        known = fine != MISSING
        self._count(0, (log_probs.argmax(dim=1) == fine)[known])
        self._count(1, -log_probs[known].gather(1, fine[known].unsqueeze(1)).squeeze(1))
        for place, kind in enumerate(posterior.graph.kinds):
            answer = posterior.kind_log_probs(kind, log_probs).argmax(dim=1).cpu().numpy()
            seen = kinds[kind].cpu().numpy() if kind in kinds else None
            right = torch.from_numpy(judge_kind(posterior.graph.kind(kind), answer, fine.cpu().numpy(), seen))
            self._count(2 + place, right[right >= 0])

    def _count(self, place: int, values: Tensor) -> None:
        self.numbers[place] += torch.tensor([float(values.double().sum()), float(len(values))], dtype=torch.float64)

    def metrics(self, ranks: Ranks) -> dict[str, float]:
        """The means over all processes: accuracies as shares, and the negative log-likelihood in nats."""
        ranks.sum([self.numbers])
        return {
            name: total / count for name, (total, count) in zip(self.names, self.numbers.tolist(), strict=True) if count
        }


def validate(
    network: Network, dataset: PhotoDataset, ranks: Ranks, workers: int, stop: Callable[[], bool] = lambda: False
) -> Judgement | None:
    """Judge a network on photos; each is looked at once, by one of the processes.

    Args:
        network: the network; it is left in evaluation mode.
        dataset: the photos, with one view each.
        ranks: this process among the others.
        workers: how many threads decode.
        stop: asked after each batch; all processes get the same answer. With a yes nothing is judged.

    Raises:
        DataError: none of the photos can be read.
    """
    network.eval()
    tally = Tally(network.graph.kinds)
    device = network.head.fine.weight.device
    places = range(0, len(dataset), _BATCH)
    numbers = ((0, list(range(start, min(start + _BATCH, len(dataset))))) for start in places)
    bad: list[PhotoFileError] = []
    odd: tuple[str | None, list[str]] | None = None
    with torch.no_grad(), closing(read_batches(dataset, numbers, ranks, workers)) as batches:
        for batch in batches:
            bad.extend(batch.bad)
            if len(batch.sample):
                pixels = batch.images.to(device, memory_format=torch.channels_last)
                kinds = {name: labels.to(device) for name, labels in batch.kinds.items()}
                tally.add(network(pixels), batch.fine.to(device), kinds)
                if odd is None and not bool(tally.numbers.isfinite().all()):
                    photos = [str(dataset.samples[int(number)].path) for number in batch.sample]
                    odd = first_bad_layer(network, pixels), photos
            if stop():
                return None
    found = ranks.gather((bad, odd))
    errors = tuple(error for part, _ in found for error in part)
    if len(errors) == len(dataset):
        raise DataError(f"none of the {len(dataset):,} validation photos can be read; the first: {errors[0]}")
    layer, photos = next((one for _, one in found if one is not None), (None, []))
    return Judgement(tally.metrics(ranks), errors, layer, tuple(photos))
