"""The parts of a training run, and the watcher of its progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from finegraph.data.dataset import PhotoDataset
from finegraph.data.samples import Samples
from finegraph.errors import PhotoFileError
from finegraph.nn import Network
from finegraph.training.batches import PhotoPairs
from finegraph.training.distributed import Ranks
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings

Metrics = Mapping[str, float]
Row = Mapping[str, float | None]
"""The metrics of an epoch; those that it does not have are None."""


class Watcher(Protocol):
    """Receives the progress of training, in the process that prints."""

    def step(self, done: int, total: int, loss: float, rate: float) -> None:
        """A step was taken."""

    def epoch(self, row: Row) -> None:
        """An epoch ended with these metrics."""

    def note(self, text: str) -> None:
        """Something worth a line happened."""


@dataclass(frozen=True)
class Judgement:
    """How good a network is on validation photos, over all processes.

    Attributes:
        metrics: by name, with that of `best_by`.
        bad: the photos that could not be read.
        layer: where metrics are NaN or infinite, the first layer that is so.
        photos: and the files that it happened with.
    """

    metrics: Metrics
    bad: tuple[PhotoFileError, ...] = ()
    layer: str | None = None
    photos: tuple[str, ...] = ()


@dataclass(frozen=True)
class Validation:
    """How a network is judged between epochs.

    Attributes:
        photos: on which photos.
        judge: judges a network. It asks now and then whether to stop, and then gives None. In a job of several
            processes all call it at once.
    """

    photos: Samples
    judge: Callable[[Network, Callable[[], bool]], Judgement | None]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run consists of.

    Attributes:
        network: what is trained, on its device and in its precision.
        dataset: the photos, with random views.
        settings: the settings.
        validation: how the network is judged between epochs; None to do without, then the last epoch is the best.
        folder: where to save and to log.
        ranks: this process among the others.
        watcher: receives the progress.
        refit: fits the head to the present network, in place, and returns lines for the log; None where
            training alone moves it. In a job of several processes all call it at once.
        pairs: the photos that were compared; None if there are none.
    """

    network: Network
    dataset: PhotoDataset
    settings: TrainSettings
    validation: Validation | None
    folder: RunFolder
    ranks: Ranks
    watcher: Watcher
    refit: Callable[[], Sequence[str]] | None = None
    pairs: PhotoPairs | None = None


def is_better(metrics: Metrics, before: Metrics, best_by: Literal["top1", "nll"]) -> bool:
    """Whether an epoch is better than the best one before; the other metric decides between equals.

    Small validation sets often give equal accuracies, and the first epoch to reach one should not win by being first.
    """
    if best_by not in before:
        return True
    if best_by not in metrics:
        return False
    one, two = ((each["top1"], -each["nll"]) for each in (metrics, before))
    return one > two if best_by == "top1" else one[::-1] > two[::-1]
