"""The features of a list of photos: threads take them from files to rows (work.py), rows are stored (cache.py).

The calling thread gathers rows in the order of the photos, stores them and reports. When it is interrupted, or a photo
is bad, it stores what is there before it stops.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.data.photo_decoding import BadFiles
from finegraph.data.samples import Sample, Samples
from finegraph.data.transforms import ViewSettings
from finegraph.errors import InputError, PhotoFileError
from finegraph.model.features.cache import default_cache_folder
from finegraph.model.features.engines import EngineName, check_engine, device_of
from finegraph.model.features.work import OneOrTen, Outcome, Source, Work, run
from finegraph.nn import Network

_FEW = 4
"""How many photos a thread takes at a time on the CPU; see engines.py."""


@dataclass(frozen=True, kw_only=True)
class Features:
    """The features of photos.

    Attributes:
        fine: one row per photo, of the backbone of the fine labels; with ten views (photo, view, feature).
        coarse: the same of the backbone of the coarse labels, if there is one (BGL_m).
        samples: the photos that could be read, in the order of the rows.
        keys: the fingerprint of the content of each of them; see `photo_key`.
        bad: what was wrong with the others.
        cached: how many of the photos needed no network.
        notes: what was odd on the way, such as stored features that were damaged.
    """

    fine: Float[Tensor, "batch *view feature"]
    coarse: Float[Tensor, "batch *view coarse_feature"] | None
    samples: Samples
    keys: tuple[bytes, ...] = ()
    bad: tuple[PhotoFileError, ...] = ()
    cached: int = 0
    notes: tuple[str, ...] = ()


def extract_features(
    network: Network,
    samples: Samples,
    views: ViewSettings,
    *,
    view: OneOrTen = "centre",
    coarse: bool = True,
    cache: str | os.PathLike[str] | Literal[False] | None = None,
    threads: int | None = None,
    batch_size: int = 32,
    on_bad_file: Literal["error", "skip"] = "error",
    engine: EngineName = "auto",
    progress: Callable[[int, int], None] | None = None,
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
        batch_size: how many photos are in the network at a time at most, in all threads together. On the CPU each
            thread takes a few at a time whatever this is.
        on_bad_file: "error" raises on the first photo that cannot be read, "skip" goes on without it.
        engine: "onnx", "torch", or "auto" for ONNX Runtime where it is installed and can run the network. Their
            features differ by rounding only, so what one of them stored serves the other.
        progress: called with the number of photos done and the total.

    Raises:
        PhotoFileError: a photo that cannot be read, when that is an error.
    """
    if view not in ("centre", "ten"):
        raise InputError(f"view: expected 'centre' or 'ten', got {view!r}")
    threads = torch.get_num_threads() if threads is None else threads
    if threads < 1 or batch_size < 1:
        raise InputError(f"threads and batch_size: expected at least 1, got {threads} and {batch_size}")
    second = network.coarse_backbone if coarse else None
    backbones = [part for part in (network.backbone, second) if part is not None]
    for backbone in backbones:
        check_engine(engine, backbone)
    bad = BadFiles(on_bad_file)
    root = None if cache is False else Path(default_cache_folder() if cache is None else cache)
    made = [[Source(part, views, view, root, engine) for part in backbone.parts] for backbone in backbones]
    sources = {source.key: source for own in made for source in own}
    on_cpu = all(device_of(backbone).type == "cpu" for backbone in backbones)
    share = min(_FEW, max(1, batch_size // threads)) if on_cpu else batch_size
    gathered = _Gathered(len(samples), tuple(sources.values()), bad)
    work = Work(samples, views, view, gathered.sources)
    try:
        with closing(run(work, len(samples), share, threads)) as outcomes:
            for some in outcomes:
                for outcome in some:
                    gathered.add(outcome)
                if progress is not None:
                    progress(gathered.done, len(samples))
    finally:
        for source in gathered.sources:
            source.cache.flush()
    rows = [
        backbone.join([gathered.rows(source) for source in own]) for backbone, own in zip(backbones, made, strict=True)
    ]
    return gathered.features(samples, rows[0], rows[1] if len(rows) == 2 else None)


class _Gathered:
    """The rows so far."""

    def __init__(self, count: int, sources: tuple[Source, ...], bad: BadFiles) -> None:
        self.sources, self.bad = sources, bad
        self.done = self.cached = 0
        self._good: list[Sample] = []
        self._keys: list[bytes] = []
        self._rows = [np.empty((count, source.cache.size), np.float32) for source in sources]

    def add(self, outcome: Outcome) -> None:
        """Take what became of a photo; raises its error where that is the policy."""
        self.done += 1
        if outcome.error is not None:
            self.bad.note(outcome.error)
            return
        self.cached += not any(outcome.computed)
        for source, rows, row, new in zip(self.sources, self._rows, outcome.rows, outcome.computed, strict=True):
            assert row is not None
            rows[len(self._good)] = row
            if new:
                source.cache.put(outcome.key, row)
        self._good.append(outcome.sample)
        self._keys.append(outcome.key)

    def rows(self, source: Source) -> Tensor:
        """The rows of a source; two backbones that are the same have the same rows."""
        place = [own.key for own in self.sources].index(source.key)
        good = len(self._good)
        return torch.from_numpy(self._rows[place][:good].reshape(good, *source.shape))

    def features(self, samples: Samples, fine: Tensor, coarse: Tensor | None) -> Features:
        """All of it."""
        return Features(
            fine=fine,
            coarse=coarse,
            samples=Samples(self._good, samples.source, samples.notes),
            keys=tuple(self._keys),
            bad=self.bad.found,
            cached=self.cached,
            notes=tuple(note for source in self.sources for note in (*source.notes, *source.cache.notes)),
        )
