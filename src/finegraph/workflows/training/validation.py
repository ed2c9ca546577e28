"""The metrics that training watches: few, quick, and exact over several processes.

They are sums and counts, so that processes can each look at their share of the photos and add up. Everything else that
can be measured belongs to evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.data.dataset import MISSING, targets_of
from finegraph.data.measured_values import measured_values
from finegraph.data.samples import Samples
from finegraph.data.transforms import ViewSettings
from finegraph.errors import DataError, PhotoFileError
from finegraph.evaluation.judgements import judge_kind
from finegraph.evaluation.sure import true_values
from finegraph.graph import LabelGraph
from finegraph.graph.kind import FloatArray
from finegraph.inference import Posterior
from finegraph.model.answering.pipeline import PhotoPipeline
from finegraph.model.features.photos import OnBadFile, PhotoInput, read_views, sample_inputs
from finegraph.nn import Network
from finegraph.nn.sharded_head import ShardedHead
from finegraph.training.distributed import Ranks
from finegraph.training.guard import first_bad_layer
from finegraph.training.loop import Judgement

_BATCH = 64


class Tally:
    """Sums and counts of what was right, and of the errors of predicted values."""

    def __init__(self, kinds: tuple[str, ...], numbers: tuple[str, ...] = ()) -> None:
        self.names = ("top1", "nll", *(f"kinds.{kind}" for kind in kinds), *(f"numbers.{name}" for name in numbers))
        self.numbers = torch.zeros(len(self.names), 2, dtype=torch.float64)

    def add(
        self,
        posterior: Posterior,
        fine: Int[Tensor, " batch"],
        kinds: Mapping[str, Int[Tensor, " batch"]],
        measured: Mapping[str, Float[FloatArray, " batch"]] | None = None,
    ) -> None:
        """Count the answers to a batch; labels and values that are not known are left out."""
        log_probs = posterior.log_probs()
        fine = fine.to(log_probs.device)
        target_log_probs = log_probs.gather(1, fine.masked_fill(fine == MISSING, 0).unsqueeze(1)).squeeze(1)
        answers = {kind: posterior.kind_log_probs(kind, log_probs).argmax(dim=1) for kind in posterior.graph.kinds}
        graph = posterior.graph
        self._add_answers(graph, log_probs.argmax(dim=1), -target_log_probs, answers, fine, kinds)
        for name in graph.numbers:
            self._add_value(graph, name, posterior.value(name, log_probs).mean, fine, measured)

    def add_shared(
        self,
        head: ShardedHead,
        features: Float[Tensor, "batch feature"],
        coarse_features: Float[Tensor, "batch coarse_feature"] | None,
        fine: Int[Tensor, " batch"],
        kinds: Mapping[str, Int[Tensor, " batch"]],
        measured: Mapping[str, Float[FloatArray, " batch"]] | None = None,
    ) -> None:
        """The same for a head whose labels are sharded; all processes call it with the same photos."""
        coarse = coarse_features
        fine, best = fine.to(features.device), head.top(features, 1, coarse_features=coarse).label[:, 0]
        with torch.no_grad():
            surprise = head.loss(
                features, fine, kind_weights=0.0, reduction="none", ignore_index=MISSING, coarse_features=coarse
            )
        log_probs = head.all_kind_log_probs(features, head.graph.kinds, coarse_features=coarse)
        answers = {kind: own.argmax(dim=1) for kind, own in log_probs.items()}
        self._add_answers(head.graph, best, surprise, answers, fine, kinds)
        for name in head.graph.numbers:
            value = head.value(features, name, coarse_features=coarse)
            self._add_value(head.graph, name, value.mean, fine, measured)

    def _add_answers(
        self,
        graph: LabelGraph,
        best: Int[Tensor, " batch"],
        surprise: Float[Tensor, " batch"],
        answers: Mapping[str, Int[Tensor, " batch"]],
        fine: Int[Tensor, " batch"],
        kinds: Mapping[str, Int[Tensor, " batch"]],
    ) -> None:
        """Count the best fine labels, - log p of the true ones, and the best labels of all kinds."""
        known = fine != MISSING
        self._count(0, (best == fine)[known])
        self._count(1, surprise[known])
        for place, kind in enumerate(graph.kinds):
            answer = answers[kind].cpu().numpy()
            seen = kinds[kind].cpu().numpy() if kind in kinds else None
            right = torch.from_numpy(judge_kind(graph.kind(kind), answer, fine.cpu().numpy(), seen))
            self._count(2 + place, right[right >= 0])

    def _add_value(
        self,
        graph: LabelGraph,
        name: str,
        mean: Float[Tensor, " batch"],
        fine: Int[Tensor, " batch"],
        measured: Mapping[str, Float[FloatArray, " batch"]] | None,
    ) -> None:
        """Count the absolute errors of the expected values of a number."""
        true = torch.from_numpy(true_values(graph.number(name), fine.cpu().numpy(), (measured or {}).get(name)))
        error = (mean.detach().double().cpu() - true).abs()
        self._count(2 + len(graph.kinds) + graph.numbers.index(name), error[~true.isnan()])

    def _count(self, place: int, values: Tensor) -> None:
        self.numbers[place] += torch.tensor([float(values.double().sum()), float(len(values))], dtype=torch.float64)

    def metrics(self, ranks: Ranks) -> dict[str, float]:
        """The means over all processes.

        Accuracies are shares, the negative log-likelihood is in nats, and mean absolute errors are in the units of the
        numbers.
        """
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
    work = _Work(network, samples, views, threads, on_bad_file)
    for start in range(0, len(samples), _BATCH):  # as many turns in all processes, or some would wait for ever
        numbers = ranks.share(range(start, min(start + _BATCH, len(samples))))
        if network.shared_head is None:
            work.look(numbers)
        else:
            work.look_together(numbers, network.shared_head)
        if stop():
            return None
    gathered = ranks.gather((work.bad, work.odd))
    errors = tuple(error for part, _ in gathered for error in part)
    if len(errors) == len(samples):
        raise DataError(f"none of the {len(samples):,} validation photos can be read; the first: {errors[0]}")
    layer, photos = next((one for _, one in gathered if one is not None), (None, []))
    return Judgement(work.tally.metrics(ranks), errors, layer, tuple(photos))


class _Work:
    """A validation under way, in one process.

    Attributes:
        tally: sums and counts so far.
        bad: the photos that could not be read.
        odd: the first layer with numbers that are not finite, and the photos; None if all are.
    """

    def __init__(
        self, network: Network, samples: Samples, views: ViewSettings, threads: int, on_bad_file: OnBadFile
    ) -> None:
        self.network, self.views, self.on_bad_file = network, views, on_bad_file
        self.pipeline = PhotoPipeline(network, views, cache=False, threads=threads)
        self.fine, self.kinds = targets_of(samples, network.graph)
        self.measured = measured_values(samples, network.graph)
        self.inputs = sample_inputs(samples, box=views.box)
        self.tally = Tally(network.graph.kinds, network.graph.numbers)
        self.bad: list[PhotoFileError] = []
        self.odd: tuple[str | None, list[str]] | None = None

    def look(self, numbers: Sequence[int]) -> None:
        """Judge the answers to some photos."""
        photos = [self.inputs[number] for number in numbers]
        for batch in self.pipeline.posteriors(photos, on_bad_file=self.on_bad_file):
            self.bad.extend(batch.bad.values())
            read = [numbers[number] for number in batch.numbers]
            measured = {name: values[read] for name, values in self.measured.items()}
            self.tally.add(batch.posterior, self.fine[read], self._kinds_of(read), measured)
            self._note_odd(bool(self.tally.numbers.isfinite().all()), read)

    def look_together(self, numbers: Sequence[int], head: ShardedHead) -> None:
        """Judge the answers to the photos of a group of processes, which answer together; its first one counts."""
        weight = head.fine.weight
        found, read = [[weight.new_zeros(0, size)] for size in self.network.feature_sizes], list[int]()
        photos = [self.inputs[number] for number in numbers]
        for batch in self.pipeline.extractor.batches(photos, _BATCH, on_bad_file=self.on_bad_file):
            self.bad.extend(batch.bad.values())
            both = [one for one in (batch.fine, batch.coarse) if one is not None]
            for parts, own in zip(found, both, strict=True):
                parts.append(own.flatten(0, 1).to(weight))
            read += [numbers[number] for number in batch.numbers]
        with torch.no_grad():
            fine, *coarse = [torch.cat(parts) for parts in found]
            features = [self.network.scaled(fine), *coarse]
        self._note_odd(all(bool(one.isfinite().all()) for one in features), read)
        rows, *coarse_rows = [head.exchange.all_rows(one) for one in features]
        place = head.exchange.all_rows(torch.tensor(read, dtype=torch.int64))
        graph = self.network.graph
        tally = self.tally if head.exchange.rank == 0 else Tally(graph.kinds, graph.numbers)
        if len(rows):
            measured = {name: values[place.numpy()] for name, values in self.measured.items()}
            coarse_features = coarse_rows[0] if coarse_rows else None
            tally.add_shared(head, rows, coarse_features, self.fine[place], self._kinds_of(place), measured)

    def _kinds_of(self, numbers: list[int] | Int[Tensor, " batch"]) -> dict[str, Int[Tensor, " batch"]]:
        return {name: labels[numbers] for name, labels in self.kinds.items()}

    def _note_odd(self, finite: bool, read: Sequence[int]) -> None:
        if not finite and self.odd is None:
            self.odd = _odd_layer(self.network, self.views, [self.inputs[number] for number in read])


def _odd_layer(network: Network, views: ViewSettings, photos: Sequence[PhotoInput]) -> tuple[str | None, list[str]]:
    """The first layer that makes numbers of these photos that are not finite, and their files."""
    weight = network.head.fine.weight
    pixels = torch.cat([read_views(photo, views) for photo in photos]).to(weight.device)
    with torch.no_grad():
        return first_bad_layer(network, pixels), [photo.name for photo in photos]
