r"""The work of a thread: from the files of some photos to their features.

    file -> bytes -> key -> stored row
                       \-> picture -> view -> network -> row

No photo is read twice, and what goes under a key was computed from the very bytes that the key is of. A network is made
ready when the first photo needs it: a list that is stored already costs reading and hashing its files.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from finegraph.data.photo_decoding import read_photo
from finegraph.data.transforms import ViewSettings
from finegraph.errors import PhotoFileError
from finegraph.model.features.cache import FeatureCache, Row
from finegraph.model.features.engines import Engine, EngineName, device_of, make_engine
from finegraph.model.features.keys import features_key, photo_key
from finegraph.model.features.photos import PhotoInput, Views, read_views
from finegraph.nn.backbones import Backbone

_AHEAD = 8
"""How many pieces of work per thread may be under way, so that a slow photo does not hold up the others."""


class Source:
    """A backbone, the features that are stored of it, and its engine, which is made when it is first needed."""

    def __init__(
        self, backbone: Backbone, settings: ViewSettings, views: Views, root: Path | None, engine: EngineName
    ) -> None:
        """Look for stored features.

        Args:
            backbone: the network.
            settings: how photos are cut and scaled.
            views: how many views each photo has.
            root: the cache folder; None for none.
            engine: which engine computes; see `make_engine`.
        """
        self.key = features_key(backbone, settings, "ten" if views == 10 else "centre")
        self.feature_size = backbone.feature_size
        folder = None if root is None else root / "features" / f"{type(backbone).__name__.lower()}-{self.key}"
        self.cache = FeatureCache(folder, views * backbone.feature_size)
        self.notes: list[str] = []
        self._backbone, self._size, self._engine_name = backbone, settings.size, engine
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    def compute(self, pixels: UInt8[Tensor, "batch view channel height width"]) -> Float[Row, "batch column"]:
        """A row for each photo; on the CPU it does not depend on the other photos, which go through one by one."""
        with self._lock:
            if self._engine is None:
                self._engine, note = make_engine(self._engine_name, self._backbone, self._size)
                self.notes += [note] if note else []
        if device_of(self._backbone).type == "cpu":
            return np.stack([self._engine(photo).reshape(-1) for photo in pixels])
        return self._engine(pixels.flatten(0, 1)).reshape(len(pixels), -1)


@dataclass
class Outcome:
    """The outcome for a photo.

    Attributes:
        number: which photo, counted from 0.
        key: see `photo_key`; empty for photos that are not in files.
        rows: its row in each source.
        computed: for each source whether the row was computed now.
        error: why there are no rows.
    """

    number: int
    key: bytes
    rows: list[Float[Row, " column"] | None]
    computed: list[bool]
    error: PhotoFileError | None = None


@dataclass(frozen=True)
class Work:
    """A list of photos, and what is to be done with each."""

    photos: Sequence[PhotoInput]
    settings: ViewSettings
    views: Views
    sources: tuple[Source, ...]

    def __call__(self, numbers: range) -> list[Outcome]:
        """Do some of the photos."""
        opened = [self._open(number) for number in numbers]
        for place, source in enumerate(self.sources):
            missing = [
                (outcome, pixels) for outcome, pixels in opened if pixels is not None and outcome.computed[place]
            ]
            if missing:
                rows = source.compute(torch.stack([pixels for _, pixels in missing]))
                for (outcome, _), row in zip(missing, rows, strict=True):
                    outcome.rows[place] = row
        return [outcome for outcome, _ in opened]

    def _open(self, number: int) -> tuple[Outcome, UInt8[Tensor, "view channel height width"] | None]:
        """The stored rows of a photo, and its views if some are missing."""
        photo, outcome, content = self.photos[number], Outcome(number, b"", [None] * len(self.sources), []), None
        try:
            if isinstance(photo.photo, str | os.PathLike):
                content = read_photo(photo.photo)
                outcome.key = photo_key(content, photo.box)
                outcome.rows = [source.cache.get(outcome.key) for source in self.sources]
            outcome.computed = [row is None for row in outcome.rows]
            if not any(outcome.computed):
                return outcome, None
            return outcome, read_views(photo, self.settings, self.views, content)
        except PhotoFileError as error:
            outcome.error = error
            return outcome, None


def run_work(
    work: Callable[[range], list[Outcome]], count: int, share: int, threads: int
) -> Generator[list[Outcome], None, None]:
    """What became of all photos, in their order.

    Args:
        work: does some photos.
        count: how many there are.
        share: how many a thread takes at a time.
        threads: how many threads there are.
    """
    # The threads are the parallel part: one that started threads of its own would only disturb the others. The setting
    # is that of the thread that makes it.
    pool = ThreadPoolExecutor(threads, "features", initializer=torch.set_num_threads, initargs=(1,))
    waiting: deque[Future[list[Outcome]]] = deque()
    try:
        for start in range(0, count, share):
            waiting.append(pool.submit(work, range(start, min(start + share, count))))
            if len(waiting) >= _AHEAD * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
