"""The one way from photos to posteriors: photos -> views -> features -> posterior.

Training, evaluation, prediction, indexes, servers and the check of exported files all go this way, and so they agree to
the bit if the same engine computes. On the CPU the answer about a photo does not depend on the photos beside it:
features are those of one photo at a time, and products of matrices run on whole tiles of rows. On a GPU, and among
photos with scores so large that float32 no longer suffices for all of a batch, rounding may differ.

Cost: the network; then one product of features and weights, and a few passes over the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from finegraph.data.transforms import ViewSettings
from finegraph.errors import PhotoFileError
from finegraph.inference import Posterior
from finegraph.inference.numerics import whole_tiles
from finegraph.model.features.engines import EngineName
from finegraph.model.features.extract import Cache, FeatureExtractor, Features
from finegraph.model.features.photos import OnBadFile, PhotoInput, Views
from finegraph.nn import Network
from finegraph.progress_types import ShowProgress

_MAX_ROWS = 256
_MAX_SCORES = 2**22
"""The largest number of scores in a posterior, so that memory suffices for graphs of any size."""


class PhotoPosterior(NamedTuple):
    """Some photos on their way.

    Attributes:
        numbers: which photos these are, counted from 0; those that could be read.
        features: of the backbone of the fine labels.
        posterior: of the single views, as the network gives it: without temperature and evidence.
        bad: the photos among them that could not be read, by number.
        coarse_features: of the backbone of the coarse labels, if there is one.
    """

    numbers: list[int]
    features: Float[Tensor, "batch view feature"]
    posterior: Posterior
    bad: dict[int, PhotoFileError]
    coarse_features: Float[Tensor, "batch view coarse_feature"] | None = None


class PhotoPipeline:
    """A network, how photos are cut for it, and the engine that computes its features.

    It keeps the backbones as they are when it first computes; scaling and head are those of the network at any time.

    Attributes:
        network: backbones and head.
        extractor: photos to features.
    """

    def __init__(
        self,
        network: Network,
        settings: ViewSettings,
        *,
        views: Views = 1,
        engine: EngineName = "auto",
        cache: Cache = False,
        threads: int | None = None,
        batch_size: int = 32,
    ) -> None:
        """Make ready; nothing is computed yet.

        Args:
            network: backbones and head.
            settings: how photos are cut and scaled.
            views: 1 for the centre of each photo, 10 for the centre, the corners and their mirrors.
            engine: what computes features; see `make_engine`.
            cache: where features are stored and looked for.
            threads: how many photos are worked on at the same time; by default as many as torch has threads.
            batch_size: how many photos are in the network at a time at most, on a GPU.
        """
        self.network = network
        self.extractor = FeatureExtractor(
            network, settings, views=views, engine=engine, cache=cache, threads=threads, batch_size=batch_size
        )

    @property
    def views(self) -> Views:
        """How many views each photo has."""
        return self.extractor.views

    def posteriors(
        self,
        photos: Sequence[PhotoInput],
        *,
        size: int | None = None,
        on_bad_file: OnBadFile = "error",
        progress: ShowProgress | None = None,
    ) -> Iterator[PhotoPosterior]:
        """The posteriors of photos in order, batch after batch, while threads work ahead.

        Args:
            photos: the photos.
            size: how many are in a batch; by default as many as memory allows for the graph.
            on_bad_file: "error" raises on the first photo that cannot be read, "skip" puts it into `bad` of its batch.
            progress: called with the number of photos done and the total.

        Raises:
            PhotoFileError: a photo that cannot be read, when that is an error.
        """
        size = max_photos(self.network, self.views) if size is None else size
        for batch in self.extractor.batches(photos, size, on_bad_file=on_bad_file, progress=progress):
            posterior = posterior_of(self.network, batch.fine, batch.coarse)
            yield PhotoPosterior(batch.numbers, batch.fine, posterior, batch.bad, batch.coarse)

    def of_views(self, pixels: UInt8[Tensor, "batch view channel height width"]) -> PhotoPosterior:
        """The posterior of photos that were decoded and cut already, in the calling thread."""
        fine, coarse = self.extractor.of_views(pixels)
        return PhotoPosterior(list(range(len(pixels))), fine, posterior_of(self.network, fine, coarse), {}, coarse)


def max_photos(network: Network, views: int = 1) -> int:
    """The largest number of photos in one posterior."""
    graph = network.graph
    labels = len(graph) + sum(len(graph.labels(kind)) for kind in graph.kinds)
    return max(1, min(_MAX_ROWS, _MAX_SCORES // labels) // views)


def known_posteriors(network: Network, features: Features) -> Iterator[PhotoPosterior]:
    """The posteriors of photos whose features are already computed, batch after batch; no file is read.

    Args:
        network: the network whose features they are.
        features: of one view of each photo or of ten.
    """
    fine = features.fine if features.fine.ndim == 3 else features.fine.unsqueeze(1)
    coarse = None if features.coarse is None else features.coarse.reshape(len(fine), fine.shape[1], -1)
    size = max_photos(network, fine.shape[1])
    for start in range(0, len(fine), size):
        rows = slice(start, start + size)
        some_coarse = None if coarse is None else coarse[rows]
        some = posterior_of(network, fine[rows], some_coarse)
        yield PhotoPosterior(list(features.numbers[rows]), fine[rows], some, {}, some_coarse)


def posterior_of(
    network: Network,
    fine: Float[Tensor, "batch view feature"],
    coarse: Float[Tensor, "batch view coarse_feature"] | None = None,
) -> Posterior:
    """The posterior of each view by its features, without gradients, where the head is."""
    weight = network.head.fine.weight
    rows = [whole_tiles(part.flatten(0, 1).to(weight)) for part in (fine, coarse) if part is not None]
    with torch.no_grad():
        padded = network.of_features(*rows)
    count = fine.shape[0] * fine.shape[1]
    coarse_scores, numbers = (
        None if part is None else part[:count] for part in (padded.coarse_scores, padded.number_scores)
    )
    return Posterior(
        padded.graph, padded.fine_scores[:count], coarse_scores, number_scores=numbers, tensors=padded.tensors
    )
