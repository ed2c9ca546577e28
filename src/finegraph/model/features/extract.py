"""The features of photos: threads take them from files to rows (work.py), rows are stored (cache.py).

A `FeatureExtractor` holds the backbones of a network as they are now, with their engines; it gives features batch after
batch, while threads work ahead. The calling thread gathers rows in the order of the photos, stores them and reports.
When it is interrupted, or a photo is bad, it stores what is there before it stops.

On the CPU the features of a photo do not depend on the other photos: each goes through the network alone, in one
thread. That is as quick as several at once, since threads work side by side. On a GPU photos go together, and rounding
depends on how many there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from finegraph.data.samples import Samples
from finegraph.data.transforms import ViewSettings
from finegraph.errors import InputError, PhotoFileError
from finegraph.model.features.cache import Row, default_cache_folder
from finegraph.model.features.engines import EngineName, check_engine, device_of
from finegraph.model.features.photos import OnBadFile, PhotoInput, Views, sample_inputs
from finegraph.model.features.work import Outcome, Source, Work, run_work
from finegraph.nn import Network
from finegraph.progress_types import ShowProgress

Cache = str | os.PathLike[str] | Literal[False] | None
"""Where features are stored and looked for; None for the folder of the user, False for nowhere."""
_BATCH = 256


@dataclass(frozen=True, kw_only=True)
class Features:
    """The features of photos.

    Attributes:
        fine: one row per photo, of the backbone of the fine labels; with ten views (photo, view, feature).
        coarse: the same of the backbone of the coarse labels, if there is one (BGL_m).
        samples: the photos that could be read, in the order of the rows.
        numbers: their numbers among all photos, counted from 0.
        keys: the fingerprint of the content of each of them; see `photo_key`.
        bad: what was wrong with the others.
        cached: how many of the photos needed no network.
        notes: what was odd on the way, such as stored features that were damaged.
        views: where `fine` is the mean of several views, the features of each, that of the photo as it is asked about
            first.
    """

    fine: Float[Tensor, "batch *view feature"]
    coarse: Float[Tensor, "batch *view coarse_feature"] | None
    samples: Samples
    numbers: tuple[int, ...]
    keys: tuple[bytes, ...] = ()
    bad: tuple[PhotoFileError, ...] = ()
    cached: int = 0
    notes: tuple[str, ...] = ()
    views: Float[Tensor, "batch view feature"] | None = None


class FeatureBatch(NamedTuple):
    """The features of some photos.

    Attributes:
        numbers: which photos these are, counted from 0; those that could be read.
        fine: (photo, view, feature) of the backbone of the fine labels.
        coarse: the same of the backbone of the coarse labels, if there is one.
        keys: the fingerprint of the content of each photo.
        bad: the photos among them that could not be read, by number.
        cached: how many of the photos needed no network.
    """

    numbers: list[int]
    fine: Float[Tensor, "batch view feature"]
    coarse: Float[Tensor, "batch view coarse_feature"] | None
    keys: list[bytes]
    bad: dict[int, PhotoFileError]
    cached: int


class FeatureExtractor:
    """Computes the features of photos with the backbones of a network, in evaluation mode.

    It keeps the weights as they are when it first computes; a network that continues training needs another extractor.
    """

    def __init__(
        self,
        network: Network,
        settings: ViewSettings,
        *,
        views: Views = 1,
        coarse: bool = True,
        cache: Cache = False,
        threads: int | None = None,
        batch_size: int = 32,
        engine: EngineName = "auto",
    ) -> None:
        """Look for stored features; engines are made when the first photo needs them.

        Args:
            network: its backbones are used, and stay as they are.
            settings: how photos are cut and scaled.
            views: 1 for the centre of each photo, 10 for the centre, the corners and their mirrors.
            coarse: whether the backbone of the coarse labels is asked too, if there is one.
            cache: the folder where features are stored and looked for.
            threads: how many photos are worked on at the same time; by default as many as torch has threads.
            batch_size: how many photos are in the network at a time at most, on a GPU.
            engine: "onnx", "torch", or "auto"; see `make_engine`.
        """
        self.settings, self.views = settings, views
        self.threads = torch.get_num_threads() if threads is None else threads
        if self.threads < 1 or batch_size < 1:
            raise InputError(f"threads and batch_size: expected at least 1, got {self.threads} and {batch_size}")
        second = network.coarse_backbone if coarse else None
        self._backbones = [part for part in (network.backbone, second) if part is not None]
        for backbone in self._backbones:
            check_engine(engine, backbone)
        root = None if cache is False else Path(default_cache_folder() if cache is None else cache)
        made = [
            [Source(part, settings, views, root, engine) for part in backbone.parts] for backbone in self._backbones
        ]
        unique = {source.key: source for backbone in made for source in backbone}
        self.sources = tuple(unique.values())
        places = {key: place for place, key in enumerate(unique)}
        self._places = [[places[source.key] for source in backbone] for backbone in made]
        on_cpu = all(device_of(backbone).type == "cpu" for backbone in self._backbones)
        self._share = 1 if on_cpu else batch_size

    @property
    def key(self) -> tuple[str, ...]:
        """The fingerprints of its backbones, weights and all, and where they are."""
        return (str(device_of(self._backbones[0])), *(source.key for source in self.sources))

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings, such as stored features that were damaged."""
        return tuple(note for source in self.sources for note in (*source.notes, *source.cache.notes))

    def batches(
        self,
        photos: Sequence[PhotoInput],
        size: int,
        *,
        on_bad_file: OnBadFile = "error",
        progress: ShowProgress | None = None,
    ) -> Iterator[FeatureBatch]:
        """The features of photos in order, batch after batch, while threads work ahead.

        Args:
            photos: the photos.
            size: how many are in a batch.
            on_bad_file: "error" raises on the first photo that cannot be read, "skip" puts it into `bad` of its batch.
            progress: called with the number of photos done and the total.

        Raises:
            PhotoFileError: a photo that cannot be read, when that is an error.
        """
        if on_bad_file not in ("error", "skip"):
            raise InputError(f"on_bad_file: expected 'error' or 'skip', got {on_bad_file!r}")
        work = Work(photos, self.settings, self.views, self.sources)
        waiting: list[Outcome] = []
        done = 0
        try:
            with closing(run_work(work, len(photos), self._share, self.threads)) as outcomes:
                for some in outcomes:
                    for outcome in some:
                        if outcome.error is not None and on_bad_file == "error":
                            raise outcome.error
                        self._store(outcome)
                    waiting += some
                    done += len(some)
                    if progress is not None:
                        progress(done, len(photos))
                    while len(waiting) >= size:
                        yield self._batch(waiting[:size])
                        waiting = waiting[size:]
            if waiting:
                yield self._batch(waiting)
        finally:
            for source in self.sources:
                source.cache.flush()

    def features(
        self, samples: Samples, *, on_bad_file: OnBadFile = "error", progress: ShowProgress | None = None
    ) -> Features:
        """The features of all photos of a data set; see `batches`."""
        photos = sample_inputs(samples, box=self.settings.box)
        matrices = [torch.empty(len(photos), self.views, backbone.feature_size) for backbone in self._backbones]
        numbers: list[int] = []
        keys: list[bytes] = []
        bad: dict[str, PhotoFileError] = {}
        cached = 0
        for batch in self.batches(photos, _BATCH, on_bad_file=on_bad_file, progress=progress):
            start, end = len(numbers), len(numbers) + len(batch.numbers)
            for matrix, backbone in zip(matrices, (batch.fine, batch.coarse), strict=False):
                assert backbone is not None
                matrix[start:end] = backbone
            numbers += batch.numbers
            keys += batch.keys
            bad |= {error.path: error for error in batch.bad.values() if error.path not in bad}
            cached += batch.cached
        view = 0 if self.views == 1 else slice(None)
        rows = [matrix[: len(numbers), view] for matrix in matrices]
        return Features(
            fine=rows[0],
            coarse=rows[1] if len(rows) == 2 else None,
            samples=Samples([samples[number] for number in numbers], samples.source, samples.notes),
            numbers=tuple(numbers),
            keys=tuple(keys),
            bad=tuple(bad.values()),
            cached=cached,
            notes=self.notes,
        )

    def of_views(
        self, pixels: UInt8[Tensor, "batch view channel height width"]
    ) -> tuple[Float[Tensor, "batch view feature"], Float[Tensor, "batch view coarse_feature"] | None]:
        """The features of photos that were decoded and cut already, in the calling thread."""
        return self._joined([source.compute(pixels) for source in self.sources])

    def _store(self, outcome: Outcome) -> None:
        """Keep the rows of a photo that are new."""
        for source, row, new in zip(self.sources, outcome.rows, outcome.computed, strict=False):
            if new and row is not None and outcome.key:
                source.cache.put(outcome.key, row)

    def _batch(self, outcomes: Sequence[Outcome]) -> FeatureBatch:
        """Photos as matrices."""
        good = [outcome for outcome in outcomes if outcome.error is None]
        rows = [np.empty((len(good), source.cache.size), np.float32) for source in self.sources]
        for place, outcome in enumerate(good):
            for matrix, row in zip(rows, outcome.rows, strict=True):
                assert row is not None
                matrix[place] = row
        fine, coarse = self._joined(rows)
        return FeatureBatch(
            [outcome.number for outcome in good],
            fine,
            coarse,
            [outcome.key for outcome in good],
            {outcome.number: outcome.error for outcome in outcomes if outcome.error is not None},
            sum(not any(outcome.computed) for outcome in good),
        )

    def _joined(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor | None]:
        """The rows of the sources as features of the backbones."""
        tensors = [
            torch.from_numpy(matrix).reshape(len(matrix), self.views, source.feature_size)
            for matrix, source in zip(rows, self.sources, strict=True)
        ]
        joined = [
            backbone.join([tensors[place] for place in places])
            for backbone, places in zip(self._backbones, self._places, strict=True)
        ]
        return joined[0], joined[1] if len(joined) == 2 else None


def extract_features(
    network: Network,
    samples: Samples,
    views: ViewSettings,
    *,
    view: Literal["centre", "ten"] = "centre",
    coarse: bool = True,
    cache: Cache = None,
    threads: int | None = None,
    batch_size: int = 32,
    on_bad_file: OnBadFile = "error",
    engine: EngineName = "auto",
    progress: ShowProgress | None = None,
) -> Features:
    """What the backbones of a network, in evaluation mode, make of photos.

    Args:
        network: its backbones are used, and stay as they are.
        samples: the photos.
        views: how photos are cut and scaled.
        view: "centre" for one view of each photo, "ten" for the centre, the corners and their mirrors.
        coarse: whether the backbone of the coarse labels is asked too, if there is one.
        cache: the folder where features are stored and looked for; by default that of the user, see
            `default_cache_folder`. False for none.
        threads: how many photos are worked on at the same time; by default as many as torch has threads.
        batch_size: how many photos are in the network at a time at most, on a GPU. On the CPU each thread takes
            one at a time.
        on_bad_file: "error" raises on the first photo that cannot be read, "skip" continues without it.
        engine: "onnx", "torch", or "auto" for ONNX Runtime if it is installed and can run the network. Their
            features differ by rounding only, so what one of them stored serves the other.
        progress: called with the number of photos done and the total.

    Raises:
        PhotoFileError: a photo that cannot be read, when that is an error.
    """
    if view not in ("centre", "ten"):
        raise InputError(f"view: expected 'centre' or 'ten', got {view!r}")
    extractor = FeatureExtractor(
        network,
        views,
        views=10 if view == "ten" else 1,
        coarse=coarse,
        cache=cache,
        threads=threads,
        batch_size=batch_size,
        engine=engine,
    )
    return extractor.features(samples, on_bad_file=on_bad_file, progress=progress)
