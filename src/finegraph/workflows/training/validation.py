"""The metrics that training watches: few, quick, and exact over several processes.

They are sums and counts, so that processes can each look at their share of the photos and add up. Everything else that
can be measured belongs to evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from finegraph.data.dataset import MISSING, targets_of
from finegraph.data.samples import Samples
from finegraph.data.transforms import ViewSettings
from finegraph.errors import DataError, PhotoFileError
from finegraph.evaluation.judgements import judge_kind
from finegraph.inference import Posterior
from finegraph.model.answering.pipeline import PhotoPipeline
from finegraph.model.features.photos import OnBadFile, PhotoInput, read_views, sample_inputs
from finegraph.nn import Network
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
        fine = fine.to(log_probs.device)
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
    network: Network,
    samples: Samples,
    views: ViewSettings,
    ranks: Ranks,
    *,
    threads: int = 1,
    on_bad_file: OnBadFile = "error",
    stop: Callable[[], bool] = lambda: False,
) -> Judgement | None:
    """Judge a network on photos as it will answer them; each is read once, by one of the processes.

    Args:
        network: the network; it is left in evaluation mode.
        samples: the photos.
        views: how they are cut.
        ranks: this process among the others.
        threads: how many photos are worked on at the same time.
        on_bad_file: "error" raises on a photo that cannot be read, "skip" continues without it.
        stop: asked after each batch; all processes get the same answer. With a yes nothing is judged.

    Raises:
        DataError: none of the photos can be read.
        PhotoFileError: one of them cannot be read, where that is an error.
    """
    network.eval()
    pipeline = PhotoPipeline(network, views, cache=False, threads=threads)
    fine, kinds = targets_of(samples, network.graph)
    inputs = sample_inputs(samples, box=views.box)
    tally = Tally(network.graph.kinds)
    bad: list[PhotoFileError] = []
    odd: tuple[str | None, list[str]] | None = None
    for start in range(0, len(samples), _BATCH):  # as many turns in all processes, or some would wait for ever
        numbers = ranks.share(range(start, min(start + _BATCH, len(samples))))
        for batch in pipeline.posteriors([inputs[number] for number in numbers], on_bad_file=on_bad_file):
            bad.extend(batch.bad.values())
            read = [numbers[number] for number in batch.numbers]
            tally.add(batch.posterior, fine[read], {name: labels[read] for name, labels in kinds.items()})
            if odd is None and not bool(tally.numbers.isfinite().all()):
                odd = _odd_layer(network, views, [inputs[number] for number in read])
        if stop():
            return None
    gathered = ranks.gather((bad, odd))
    errors = tuple(error for part, _ in gathered for error in part)
    if len(errors) == len(samples):
        raise DataError(f"none of the {len(samples):,} validation photos can be read; the first: {errors[0]}")
    layer, photos = next((one for _, one in gathered if one is not None), (None, []))
    return Judgement(tally.metrics(ranks), errors, layer, tuple(photos))


def _odd_layer(network: Network, views: ViewSettings, photos: Sequence[PhotoInput]) -> tuple[str | None, list[str]]:
    """The first layer that makes numbers of these photos that are not finite, and their files."""
    weight = network.head.fine.weight
    pixels = torch.cat([read_views(photo, views) for photo in photos]).to(weight.device)
    with torch.no_grad():
        return first_bad_layer(network, pixels), [photo.name for photo in photos]
