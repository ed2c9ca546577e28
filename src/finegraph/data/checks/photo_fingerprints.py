"""Fingerprints of photos: of their bytes and of their looks.

    digest      SHA-256 of the file: equal for copies
    look        64 bits: whether each of 8 x 8 spots is clearly darker than the one to its right (a difference hash);
                nearly equal for the same picture in another size, format or quality
    thumbnail   16 x 16 pixels, to make sure

Cost: the file is read once and decoded once, JPEGs at a fraction of their size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray
from PIL import Image

from finegraph.data.photo_decoding import MAX_PIXELS, decode_photo, read_photo
from finegraph.errors import PhotoFileError

_SIDE = 16
_DECODED = 64
"""The least size at which a photo is decoded to be recognised."""
_CLEARLY = 4
"""Levels of grey by which a spot must be darker than the next; so noise in even areas, such as skies, flips no bit."""


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
        look_of(small),
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


def look_of(picture: Image.Image) -> int:
    """The 64 bits of how a picture looks."""
    grey = np.asarray(picture.convert("L").resize((9, 8), Image.Resampling.BILINEAR), dtype=np.int16)
    bits = grey[:, 1:] - grey[:, :-1] > _CLEARLY
    return int.from_bytes(np.packbits(bits).tobytes(), "big")
