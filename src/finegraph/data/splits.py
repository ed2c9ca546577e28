"""Which photos to train on and which to validate on, and smaller draws of them.

Draws depend on the seed and on the names of the photos alone, not on their number: adding a class changes nothing for
the others, and a larger draw contains the smaller ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from finegraph.data.samples import Sample, Samples
from finegraph.errors import DataError

DEFAULT_VAL = "val"


def choose_splits(
    samples: Samples, train: str = "train", val: str | None = None, share: float = 0.0, seed: int = 0
) -> tuple[Samples, Samples | None]:
    """The photos to train on, and those to validate on if there are any.

    Args:
        samples: all photos of a source.
        train: the split to train on. A source without splits is used whole.
        val: the split to validate on; None for `val` where there is one.
        share: the part of each class to hold out of the training photos where there is no such split.
        seed: where the chance of holding out comes from.

    Raises:
        UnknownNameError: there is no such split.
        DataError: both splits are the same, or the share is less than a photo of each class.
    """
    training = samples.split(train) if samples.splits else samples
    if val is not None:
        if val == train:
            raise DataError(f"val_split: {val!r} is the split to train on too; choose another, or hold out a share")
        return training, samples.split(val)
    if DEFAULT_VAL in samples.splits and train != DEFAULT_VAL:
        return training, samples.split(DEFAULT_VAL)
    return hold_out(training, share, seed) if share else (training, None)


def hold_out(samples: Samples, share: float, seed: int) -> tuple[Samples, Samples]:
    """Cut a share of each class off, rounded to the nearest number of photos, but never all of a class.

    A photo with several boxes is several samples. They stay together, so that no photo is on both sides.

    Raises:
        DataError: there is no class of which that is a photo.
    """
    held: set[Path] = set()
    for places in _by_class(samples, seed).values():
        photos = list(dict.fromkeys(samples[place].path for place in places))
        held.update(photos[: min(int(share * len(photos) + 0.5), len(photos) - 1)])
    if not held:
        most = max(samples.counts().values(), default=0)
        raise DataError(
            f"val_share: expected a share that is at least a photo of some class, got {share:g}; the largest class has "
            f"{most:,}, and one must stay to train on. Hold out more, or name a split to validate on"
        )
    return (
        _keep(samples, lambda place: samples[place].path not in held),
        _keep(samples, lambda place: samples[place].path in held),
    )


def draw_per_class(samples: Samples, count: int, seed: int) -> Samples:
    """At most so many photos of each fine label; photos without a fine label stay out."""
    drawn = {place for places in _by_class(samples, seed).values() for place in places[:count]}
    return _keep(samples, lambda place: place in drawn)


def _by_class(samples: Samples, seed: int) -> dict[str, list[int]]:
    """The places of the samples of each fine label, in the order of chance."""
    found: dict[str, list[int]] = {}
    for place, sample in enumerate(samples):
        if sample.label is not None:
            found.setdefault(sample.label, []).append(place)
    for places in found.values():
        places.sort(key=lambda place: _chance(samples[place], seed))
    return found


def _chance(sample: Sample, seed: int) -> bytes:
    """A number of chance that goes with a sample; where its folder lies does not matter."""
    name = f"{seed}/{'/'.join(sample.path.parts[-2:])}/{sample.box}"
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()


def _keep(samples: Samples, wanted: Callable[[int], bool]) -> Samples:
    kept = (sample for place, sample in enumerate(samples) if wanted(place))
    return Samples(kept, samples.source, samples.notes)
