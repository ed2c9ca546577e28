"""Features that the processes of a job compute together: each those of its share, sent to the first process or kept.

Nothing is exchanged by the disk, so machines need not share one. Features are sent some photos at a time. A photo that
cannot be read ends all processes with the same error, that of the first such photo.

The first process alone may know which photos are wanted, such as those that are not yet in an index. It asks for them
part by part (`FeatureCrew.of`), and the others help (`FeatureCrew.help`) until it has ended.

Cost: the network, split among processes; 4 bytes per feature are sent once and held in the first process. Where sums of
features are all that is wanted, each process keeps its own (`own_features`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType

import torch
from torch import Tensor

from finegraph.data.samples import Sample, Samples
from finegraph.errors import PhotoFileError
from finegraph.model.features import Features
from finegraph.progress_types import ShowProgress
from finegraph.training.distributed import Ranks

_ROWS_AT_ONCE = 4096
"""The largest number of photos whose features a process sends at a time."""

Compute = Callable[[Samples], Features]


def shared_features(ranks: Ranks, samples: Samples, compute: Compute) -> Features | None:
    """The features of photos, each process computing those of its share; None in all processes but the first.

    Args:
        ranks: this process among the others; all have to call this with the same photos.
        samples: the photos.
        compute: gives the features of some photos.

    Raises:
        PhotoFileError: in all processes, if a photo cannot be read and that is an error.
    """
    if ranks.size == 1:
        return compute(samples)
    parts = _gathered(ranks, own_features(ranks, samples, compute))
    return None if parts is None else _in_order(parts, samples, ranks.size)


def own_features(ranks: Ranks, samples: Samples, compute: Compute) -> Features | None:
    """The features of this process's share of the photos; None if it has none of them.

    Args:
        ranks: this process among the others; all have to call this with the same photos.
        samples: the photos of all.
        compute: gives the features of some photos.

    Raises:
        PhotoFileError: in all processes, if a photo cannot be read and that is an error.
    """
    numbers = ranks.share(range(len(samples)))
    own, fault = None, None
    try:
        own = compute(Samples([samples[number] for number in numbers], samples.source)) if numbers else None
    except PhotoFileError as error:
        fault = (next((number for number in numbers if str(samples[number].path) == error.path), 0), error)
    faults = [one for one in ranks.gather(fault) if one is not None]
    if faults:
        raise min(faults, key=lambda one: one[0])[1]
    return own


def all_faults(
    ranks: Ranks, samples: Samples, own: Features | None
) -> tuple[tuple[PhotoFileError, ...], tuple[str, ...]]:
    """The photos that no process could read, in their order, and what was odd in any of them; in all processes.

    Args:
        ranks: this process among the others.
        samples: the photos of all.
        own: the features of this process's share.
    """
    found = ranks.gather(((), ()) if own is None else (own.bad, own.notes))
    return (
        _by_place([error for bad, _ in found for error in bad], samples),
        tuple(dict.fromkeys(note for _, notes in found for note in notes)),
    )


def _by_place(errors: Sequence[PhotoFileError], samples: Samples) -> tuple[PhotoFileError, ...]:
    """Errors in the order of the photos, one for each."""
    places = {str(sample.path): place for place, sample in reversed(list(enumerate(samples)))}
    bad = {error.path: error for error in errors}
    return tuple(sorted(bad.values(), key=lambda error: places.get(error.path, len(samples))))


def _gathered(ranks: Ranks, own: Features | None) -> list[tuple[int, Features]] | None:
    """The features of all processes, each piece with the number of its process; None in all processes but the first."""
    longest = max(ranks.gather(0 if own is None else len(own.numbers)))
    found: list[tuple[int, Features]] = []
    for start in range(0, max(longest, 1), _ROWS_AT_ONCE):
        pieces = ranks.gather_first(None if own is None else _piece(own, start))
        found += [(rank, piece) for rank, piece in enumerate(pieces or ()) if piece is not None]
    return found if ranks.first else None


def _piece(features: Features, start: int) -> Features:
    """Some rows in memory of their own, as a part of a larger tensor would be sent whole."""
    rows = slice(start, start + _ROWS_AT_ONCE)

    def cut(part: Tensor | None) -> Tensor | None:
        return None if part is None else part[rows].clone()

    fine = cut(features.fine)
    assert fine is not None
    piece = replace(
        features,
        fine=fine,
        coarse=cut(features.coarse),
        views=cut(features.views),
        samples=Samples(list(features.samples)[rows]),
        numbers=features.numbers[rows],
        keys=features.keys[rows],
    )
    return piece if start == 0 else replace(piece, bad=(), cached=0, notes=())


def _in_order(parts: Sequence[tuple[int, Features]], samples: Samples, size: int) -> Features:
    """The features of all processes in the order of the photos, of which process r of n had every n-th from r on."""
    numbers = [rank + number * size for rank, part in parts for number in part.numbers]
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    keys = [key for _, part in parts for key in part.keys]

    def joined(tensors: Sequence[Tensor | None]) -> Tensor | None:
        some = [tensor for tensor in tensors if tensor is not None]
        return torch.cat(some)[order] if some else None

    fine = joined([part.fine for _, part in parts])
    assert fine is not None
    return Features(
        fine=fine,
        coarse=joined([part.coarse for _, part in parts]),
        views=joined([part.views for _, part in parts]),
        samples=Samples([samples[numbers[place]] for place in order], samples.source, samples.notes),
        numbers=tuple(numbers[place] for place in order),
        keys=tuple(keys[place] for place in order) if keys else (),
        bad=_by_place([error for _, part in parts for error in part.bad], samples),
        cached=sum(part.cached for _, part in parts),
        notes=tuple(dict.fromkeys(note for _, part in parts for note in part.notes)),
    )


class FeatureCrew:
    """The processes of a job, of which the first asks for features of photos and the others help to compute them.

    Args:
        ranks: this process among the others.
        compute: gives the features of some photos, and calls a function with the number done and the total.
    """

    def __init__(self, ranks: Ranks, compute: Callable[[Samples, ShowProgress | None], Features]) -> None:
        self._ranks, self._compute, self._failed = ranks, compute, False

    def of(self, samples: Sequence[Sample], progress: ShowProgress | None = None) -> Features:
        """The features of photos, for the first process.

        Raises:
            PhotoFileError: a photo that cannot be read, if that is an error; the others then end, too.
        """
        self._ranks.gather(list(samples))
        return self._share(Samples(list(samples)), progress)

    def _share(self, samples: Samples, progress: ShowProgress | None) -> Features:
        count = len(samples)

        def of_all(done: int, _: int) -> None:
            if progress is not None:
                progress(min(done * self._ranks.size, count), count)

        try:
            found = shared_features(self._ranks, samples, lambda own: self._compute(own, of_all))
        except PhotoFileError:
            self._failed = True
            raise
        assert found is not None
        return found

    def help(self) -> None:
        """Compute what the first process asks for, until it has ended; for all other processes.

        Raises:
            PhotoFileError: a photo that cannot be read, in any process, if that is an error.
        """
        while (asked := self._ranks.gather(None)[0]) is not None:
            shared_features(self._ranks, Samples(asked), lambda own: self._compute(own, None))

    def __enter__(self) -> FeatureCrew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # All know of a photo that cannot be read, and have ended with it; an interruption reaches all by itself.
        if self._ranks.first and not self._failed and (error is None or isinstance(error, Exception)):
            self._ranks.gather(None)
