"""Which photos to train on and which to validate on, and smaller draws of them.

Draws depend on the seed and on the names of the photos alone, not on their number: adding a class changes nothing for
the others, and a larger draw contains the smaller ones. Photos that are the same are held out together or not at all.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from finegraph.data.samples import Sample, Samples
from finegraph.errors import DataError

DEFAULT_VAL = "val"
_MIN_PHOTOS = 3
"""Classes with fewer photos keep them all, unless a share is named."""
_SMALL = 100
"""The number of photos of a class of which a fifth is held out by default; of the others a tenth."""


def choose_splits(
    samples: Samples, train: str = "train", val: str | None = None, share: float = 0.0, seed: int = 0
) -> tuple[Samples, Samples | None]:
    """The photos to train on, and those to validate on if there are any.

    Args:
        samples: all photos of a source.
        train: the split to train on. A source without splits is used whole.
        val: the split to validate on; None for `val` if there is one.
        share: the part of each class to hold out of the training photos if there is no such split.
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


def hold_out(
    samples: Samples, share: float | None, seed: int, same: Iterable[Collection[Path]] = ()
) -> tuple[Samples, Samples]:
    """Cut a share of each class off, rounded to the nearest number of photos, but never all of a class.

    A photo with several boxes is several samples. They stay together, so that no photo is on both sides.

    Args:
        samples: the photos; those without a fine label are not held out.
        share: the part of each class. None for a fifth of its first hundred photos and a tenth of the others, at least
            one, but none of a class with fewer than three: the metrics of a small class are worth less than its photos.
        seed: the seed of random choices.
        same: groups of photos that are the same. They stay together too; a group that is more than is held out of a
            class is not held out.

    Raises:
        DataError: the share is less than a photo in every class.
    """
    photos = {
        label: list(dict.fromkeys(samples[place].path for place in places))
        for label, places in _by_class(samples, seed).items()
    }
    labels: dict[Path, list[str]] = {}
    for label, label_photos in photos.items():
        for path in label_photos:
            labels.setdefault(path, []).append(label)
    groups = _groups(same)
    room = {label: _held_count(len(label_photos), share) for label, label_photos in photos.items()}
    held: set[Path] = set()
    seen: set[Path] = set()
    for label_photos in photos.values():
        for path in label_photos:
            if path not in seen:
                group = groups.get(path, {path})
                seen |= group
                needed = Counter(label for member in group for label in labels.get(member, ()))
                if all(room[label] >= number for label, number in needed.items()):
                    held |= group
                    room.update((label, room[label] - number) for label, number in needed.items())
    if not held and share is not None:
        max_count = max(samples.counts().values(), default=0)
        raise DataError(
            f"val_share: expected a share that is at least a photo of some class, got {share:g}; the largest class has "
            f"{max_count:,}, and one must stay to train on. Hold out more, or name a split to validate on"
        )
    return (
        _keep(samples, lambda place: samples[place].path not in held),
        _keep(samples, lambda place: samples[place].path in held),
    )


def _held_count(photos: int, share: float | None) -> int:
    """How many photos of a class are held out."""
    if share is not None:
        return min(int(share * photos + 0.5), photos - 1)
    if photos < _MIN_PHOTOS:
        return 0
    return max(1, int(min(photos, _SMALL) / 5 + max(0, photos - _SMALL) / 10 + 0.5))


def _groups(same: Iterable[Collection[Path]]) -> dict[Path, set[Path]]:
    """The photos that stay with each photo; groups that share a photo are one."""
    groups: dict[Path, set[Path]] = {}
    for group in same:
        whole = set(group).union(*(groups[path] for path in group if path in groups))
        groups.update(dict.fromkeys(whole, whole))
    return groups


def draw_per_label(samples: Samples, count: int, seed: int) -> Samples:
    """At most `count` photos of each fine label; photos without a fine label are left out."""
    drawn = {place for places in _by_class(samples, seed).values() for place in places[:count]}
    return _keep(samples, lambda place: place in drawn)


def _by_class(samples: Samples, seed: int) -> dict[str, list[int]]:
    """The places of the samples of each fine label, in the order of chance."""
    by_class: dict[str, list[int]] = {}
    for place, sample in enumerate(samples):
        if sample.label is not None:
            by_class.setdefault(sample.label, []).append(place)
    for places in by_class.values():
        places.sort(key=lambda place: _chance(samples[place], seed))
    return by_class


def _chance(sample: Sample, seed: int) -> bytes:
    """A number of chance that goes with a sample; where its folder lies does not matter."""
    name = f"{seed}/{'/'.join(sample.path.parts[-2:])}/{sample.box}"
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()


def _keep(samples: Samples, wanted: Callable[[int], bool]) -> Samples:
    kept = (sample for place, sample in enumerate(samples) if wanted(place))
    return Samples(kept, samples.source, samples.notes)
