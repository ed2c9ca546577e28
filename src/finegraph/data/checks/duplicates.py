"""Photos that occur more than once: copies of a file, and the same picture saved in another way.

Each photo has a fingerprint:

    digest      SHA-256 of the file: equal for copies
    look        64 bits: whether each of 8 x 8 spots is clearly darker than the one to its right (a difference hash);
                nearly equal for the same picture in another size, format or quality
    thumbnail   16 x 16 pixels, to make sure

Copies have equal digests. Candidates for the rest are pairs whose looks differ in at most 3 of 64 bits: cut the 64 bits
into 4 bands, and one band at least is equal, so only photos that share a band are compared. A pair counts when the
thumbnails are nearly equal too. Photos without any structure (a blank page) look like each other and are compared as
files only. A picture that was cut, mirrored or coloured again is another picture.

Cost: each file is read and decoded once, JPEGs at a fraction of their size; then one sort per band and a comparison per
pair that shares one. In a very full band each photo is compared with its next neighbours only, so that the time stays
about linear.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray
from PIL import Image

from finegraph.data.photo_decoding import MAX_PIXELS, decode_photo, read_photo
from finegraph.errors import PhotoFileError

MAX_BITS = 3
"""In how many bits of the look two versions of one picture may differ."""
MAX_DIFFERENCE = 2.5
"""By how many levels of 255 their thumbnails may differ, on average."""
_BANDS = 4
_BAND_BITS = 64 // _BANDS
_MIN_SPREAD = 4.0
"""Standard deviation of the thumbnail below which a photo has no structure."""
_MAX_NEIGHBOURS = 200
_SIDE = 16
_DECODED = 64
"""The least size at which a photo is decoded to be recognised."""
_CLEARLY = 4
"""Levels of grey by which a spot must be darker than the next; so noise in even areas, such as skies, flips no bit."""


@dataclass(frozen=True)
class Duplicates:
    """Photos that are the same.

    Attributes:
        form: "exact" for copies of a file, "re-encoded" for a picture that was saved again.
        members: their numbers in the list that was searched, rising.
    """

    form: Literal["exact", "re-encoded"]
    members: tuple[int, ...]


def find_duplicates(prints: Sequence[Fingerprint]) -> list[Duplicates]:
    """The groups of photos that are the same, in the order of their first members.

    A group of re-encoded photos contains their copies too; groups of copies are listed by themselves as well.
    """
    copies: dict[bytes, list[int]] = {}
    for number, one in enumerate(prints):
        copies.setdefault(one.digest, []).append(number)
    duplicates = [Duplicates("exact", tuple(group)) for group in copies.values() if len(group) > 1]
    groups = list(copies.values())
    firsts = [prints[group[0]] for group in groups]
    for alike in _alike(firsts):
        members = sorted(number for first in alike for number in groups[first])
        duplicates.append(Duplicates("re-encoded", tuple(members)))
    return sorted(duplicates, key=lambda one: (one.members[0], one.form))


def same_photos(
    paths: Iterable[Path], workers: int = 1, progress: Callable[[int, int], None] | None = None
) -> list[list[Path]]:
    """Open photos and find the groups of those that are the same; photos that cannot be read are in none.

    Args:
        paths: the files.
        workers: how many threads decode.
        progress: called with the number of photos done and the total.
    """
    files = list(dict.fromkeys(paths))
    read: list[Path] = []
    prints: list[Fingerprint] = []
    for done, (path, fingerprint) in enumerate(fingerprints(files, workers), start=1):
        if isinstance(fingerprint, Fingerprint):
            read.append(path)
            prints.append(fingerprint)
        if progress is not None:
            progress(done, len(files))
    return [[read[number] for number in group.members] for group in find_duplicates(prints)]


def _alike(prints: list[Fingerprint]) -> list[list[int]]:
    """The groups of different files that show the same picture; likeness is passed on within a group."""
    if not prints:
        return []
    looks = np.array([fingerprint.look for fingerprint in prints], dtype=np.uint64)
    thumbnails = np.stack([fingerprint.thumbnail for fingerprint in prints])
    structured = np.flatnonzero(thumbnails.reshape(len(prints), -1).std(axis=1) >= _MIN_SPREAD)
    leader = list(range(len(prints)))
    for ones, others in _candidates(looks[structured]):
        left, right = structured[ones], structured[others]
        near = np.bitwise_count(looks[left] ^ looks[right]) <= MAX_BITS
        left, right = left[near], right[near]
        difference = np.abs(thumbnails[left].astype(np.int16) - thumbnails[right]).mean(axis=(1, 2, 3))
        same = difference <= MAX_DIFFERENCE
        for first, second in zip(left[same].tolist(), right[same].tolist(), strict=True):
            leader[_lead(leader, second)] = _lead(leader, first)
    groups: dict[int, list[int]] = {}
    for number in range(len(prints)):
        groups.setdefault(_lead(leader, number), []).append(number)
    return [group for group in groups.values() if len(group) > 1]


def _candidates(looks: NDArray[np.uint64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Pairs of photos that share a band of their looks, many at a time."""
    mask = np.uint64(2**_BAND_BITS - 1)
    for band in range(_BANDS):
        key = (looks >> np.uint64(band * _BAND_BITS)) & mask
        order = np.lexsort((looks, key))
        sorted_key = key[order]
        for step in range(1, min(_MAX_NEIGHBOURS, len(looks) - 1) + 1):
            same = np.flatnonzero(sorted_key[step:] == sorted_key[:-step])
            if not len(same):
                break
            yield order[same], order[same + step]


def _lead(leader: list[int], number: int) -> int:
    """The photo that represents the group of a photo."""
    while leader[number] != number:
        leader[number] = leader[leader[number]]
        number = leader[number]
    return number


@dataclass(frozen=True, slots=True, eq=False)
class Fingerprint:
    """A photo that was opened.

    Attributes:
        digest: the SHA-256 of the file.
        look: the bits of its look, as one number.
        thumbnail: 16 x 16 x 3 values.
        width: pixels of the upright photo across.
        height: pixels down.
        format: the format of the file, such as `JPEG`.
        mode: how it holds colours, such as `CMYK`.
    """

    digest: bytes
    look: int
    thumbnail: UInt8[NDArray[np.uint8], "16 16 channel"]
    width: int
    height: int
    format: str
    mode: str


def fingerprint(path: Path, max_pixels: int = MAX_PIXELS) -> Fingerprint:
    """Read and decode a photo.

    Raises:
        PhotoFileError: it cannot be read.
    """
    data = read_photo(path)
    decoded = decode_photo(data, path, at_least=(_DECODED, _DECODED), max_pixels=max_pixels)
    small = decoded.picture.resize((_DECODED, _DECODED), Image.Resampling.BILINEAR)
    return Fingerprint(
        hashlib.sha256(data).digest(),
        picture_bits(small),
        np.asarray(small.resize((_SIDE, _SIDE), Image.Resampling.BOX)),
        decoded.width,
        decoded.height,
        decoded.format,
        decoded.mode,
    )


def fingerprints(
    paths: Sequence[Path], workers: int = 1, max_pixels: int = MAX_PIXELS
) -> Iterator[tuple[Path, Fingerprint | PhotoFileError]]:
    """Each file with what it is recognised by, or why it cannot be read, in the order of the files."""

    def open_one(path: Path) -> Fingerprint | PhotoFileError:
        try:
            return fingerprint(path, max_pixels)
        except PhotoFileError as error:
            return error

    if workers <= 1:
        yield from ((path, open_one(path)) for path in paths)
        return
    pool = ThreadPoolExecutor(workers)
    try:
        yield from zip(paths, pool.map(open_one, paths), strict=True)
    finally:  # do not wait for the others after an early stop
        pool.shutdown(cancel_futures=True)


def picture_bits(picture: Image.Image) -> int:
    """The 64 bits of how a picture looks."""
    grey = np.asarray(picture.convert("L").resize((9, 8), Image.Resampling.BILINEAR), dtype=np.int16)
    bits = grey[:, 1:] - grey[:, :-1] > _CLEARLY
    return int.from_bytes(np.packbits(bits).tobytes(), "big")
