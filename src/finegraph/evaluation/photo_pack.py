"""Many small pictures in one file, so that a report can show photos that have moved since.

    thumbnails.safetensors    per set: the numbers of the photos, where each JPEG ends, and all JPEGs one after another

A picture is decoded at a fraction of its size, cut to its box where that was looked at, scaled down and saved as a
JPEG: a few milliseconds, and about 3 kB at 112 pixels. Several threads share the work. What cannot be read is left out.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from finegraph.data.images import read_image
from finegraph.data.samples import Box, Sample
from finegraph.errors import ImageFileError, InputError

SIZE, QUALITY = 112, 60
"""The longer side of a thumbnail in pixels, and its quality."""
LARGE_SIZE, LARGE_QUALITY = 288, 72
"""The same for photos that are looked at closely."""


def pack_photos(
    samples: Mapping[int, Sample],
    *,
    size: int = SIZE,
    quality: int = QUALITY,
    box: bool = False,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, NDArray[Any]]:
    """Small pictures of photos.

    Args:
        samples: the photos by number.
        size: the longer side of the result in pixels.
        quality: of the JPEG.
        box: whether photos are cut to their boxes.
        threads: how many work at a time; by default 2.
        progress: is told how many are done.

    Returns:
        `numbers`, `ends` and `jpeg`; see `unpack_photos`.
    """
    numbers, pictures = [], []

    def make(number: int) -> tuple[int, bytes | None]:
        sample = samples[number]
        return number, _small(sample.path, sample.box if box else None, size, quality)

    with ThreadPoolExecutor(threads or 2, "thumbnails") as pool:
        for done, (number, picture) in enumerate(pool.map(make, samples), start=1):
            if picture is not None:
                numbers.append(number)
                pictures.append(picture)
            if progress is not None:
                progress(done)
    return join_pictures(zip(numbers, pictures, strict=True))


def join_pictures(pictures: Iterable[tuple[int, bytes]]) -> dict[str, NDArray[Any]]:
    """Pictures by number as three arrays."""
    listed = list(pictures)
    return {
        "numbers": np.array([number for number, _ in listed], dtype=np.int32),
        "ends": np.cumsum([len(picture) for _, picture in listed], dtype=np.int64),
        "jpeg": np.frombuffer(b"".join(picture for _, picture in listed), dtype=np.uint8),
    }


def unpack_photos(arrays: Mapping[str, NDArray[Any]]) -> dict[int, bytes]:
    """The JPEG of each photo, by number.

    Raises:
        InputError: the arrays do not fit together.
    """
    numbers, ends, jpeg = (arrays[name] for name in ("numbers", "ends", "jpeg"))
    fits = len(numbers) == len(ends) and (not len(ends) or (ends[0] >= 0 and bool((np.diff(ends) >= 0).all())))
    if not fits or (int(ends[-1]) if len(ends) else 0) != len(jpeg):
        raise InputError("the pictures do not fit together: the file is damaged, evaluate again")
    data = jpeg.tobytes()
    starts = [0, *ends.tolist()]
    return {
        number: data[start:end] for number, start, end in zip(numbers.tolist(), starts, ends.tolist(), strict=False)
    }


def _small(path: os.PathLike[str], box: Box | None, size: int, quality: int) -> bytes | None:
    """A photo as a small JPEG; None where it cannot be read."""
    try:
        picture = read_image(path, box, at_least=(size, size))
    except ImageFileError:
        return None
    picture.thumbnail((size, size), Image.Resampling.BICUBIC, reducing_gap=2.0)
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=quality, optimize=False)
    return out.getvalue()
