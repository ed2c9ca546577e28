"""Many small pictures in one file, so that a report can show photos that have moved since.

    thumbnails.safetensors    per set: the numbers of the photos, where each picture ends, and all one after another

A picture is decoded once, at a fraction of its size, cut to its box if that was used, scaled down and saved as
WebP, which every browser reads and which takes two thirds of a JPEG: a few milliseconds, and about 2 kB at 112 pixels.
Where Pillow was built without WebP it is a JPEG. Several threads share the work. What cannot be read is left out.

Pictures get as many bytes as their sort has on a page: small ones of all photos, close ones of those answered wrongly,
and training photos. A few photos are saved at each look of a ladder, and the largest look is taken at which all of them
are expected to fit (`fitting_look`); where even the smallest does not, as many pictures as fit are kept. So ten photos
are shown large and ten thousand still make a page that opens at once.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped
from numpy.typing import NDArray
from PIL import Image, features

from finegraph.data.photo_decoding import read_picture
from finegraph.data.samples import Sample
from finegraph.errors import InputError, PhotoFileError


class PictureSize(NamedTuple):
    """How small pictures are: the longer side in pixels, and the quality that they are saved with."""

    size: int
    quality: int


SMALL_BYTES, CLOSE_BYTES, TRAINING_BYTES = 1_500_000, 2_500_000, 1_000_000
"""What each sort of pictures has on a page, which holds three bytes in four letters: 6.7 MB together."""
SMALL_LOOKS = (
    PictureSize(160, 60),
    PictureSize(128, 50),
    PictureSize(112, 45),
    PictureSize(96, 40),
    PictureSize(80, 35),
    PictureSize(72, 30),
    PictureSize(64, 30),
)
CLOSE_LOOKS = (
    PictureSize(480, 60),
    PictureSize(384, 55),
    PictureSize(320, 50),
    PictureSize(256, 45),
    PictureSize(224, 40),
    PictureSize(192, 38),
)
TRAINING_LOOKS = (PictureSize(320, 55), PictureSize(256, 50), PictureSize(224, 45), PictureSize(192, 40))
_TRIED = 32
"""How many photos are saved to estimate the bytes of a look."""


SMALL = PictureSize(112, 50)
"""The default look of pictures."""
Pack = dict[str, Shaped[NDArray[Any], " _"]]
_EARLIER = "jpeg"
"""The name of the pictures in files of earlier versions."""


def pack_photos(
    sets: Mapping[str, Mapping[int, Sample]],
    *,
    looks: Mapping[str, PictureSize] | None = None,
    box: bool = False,
    threads: int | None = None,
) -> dict[str, Pack]:
    """Small pictures of photos, in one or more sets.

    A number is the same photo in every set; it is decoded once.

    Args:
        sets: the photos by number, in sets by name.
        looks: how the pictures of a set are, if that is not `SMALL`.
        box: whether photos are cut to their boxes.
        threads: how many work at a time; by default 2.

    Returns:
        Of each set `numbers`, `ends` and `pictures`; see `unpack_photos`.
    """
    look_of_set = {name: (looks or {}).get(name, SMALL) for name in sets}
    order = sorted(look_of_set, key=lambda name: -look_of_set[name].size)
    samples = {number: sample for photos in sets.values() for number, sample in photos.items()}
    pictures_by_set: dict[str, dict[int, bytes]] = {name: {} for name in sets}

    def make(number: int) -> None:
        wanted = [name for name in order if number in sets[name]]
        pictures = small_pictures(samples[number], [look_of_set[name] for name in wanted], box=box)
        for name, picture in zip(wanted, pictures, strict=False):
            pictures_by_set[name][number] = picture

    with ThreadPoolExecutor(threads or 2, "thumbnails") as pool:
        for _ in pool.map(make, samples):
            pass
    return {
        name: join_pictures(
            (number, pictures_by_set[name][number]) for number in photos if number in pictures_by_set[name]
        )
        for name, photos in sets.items()
    }


def join_pictures(pictures: Iterable[tuple[int, bytes]]) -> Pack:
    """Pictures by number as three arrays."""
    listed = list(pictures)
    return {
        "numbers": np.array([number for number, _ in listed], dtype=np.int32),
        "ends": np.cumsum([len(picture) for _, picture in listed], dtype=np.int64),
        "pictures": np.frombuffer(b"".join(picture for _, picture in listed), dtype=np.uint8),
    }


def unpack_photos(arrays: Mapping[str, Shaped[NDArray[Any], " _"]]) -> dict[int, bytes]:
    """The picture of each photo, by number.

    Raises:
        InputError: the arrays do not fit together.
    """
    numbers, ends = arrays["numbers"], arrays["ends"]
    pictures = arrays["pictures" if "pictures" in arrays else _EARLIER]
    fits = len(numbers) == len(ends) and (not len(ends) or (ends[0] >= 0 and bool((np.diff(ends) >= 0).all())))
    if not fits or (int(ends[-1]) if len(ends) else 0) != len(pictures):
        raise InputError("the pictures do not fit together: the file is damaged, evaluate again")
    data = pictures.tobytes()
    starts = [0, *ends.tolist()]
    return {
        number: data[start:end] for number, start, end in zip(numbers.tolist(), starts, ends.tolist(), strict=False)
    }


def small_pictures(photo: Sample, looks: Sequence[PictureSize], *, box: bool = False) -> list[bytes]:
    """A photo as small pictures, the largest first; none if it cannot be read."""
    largest = looks[0].size
    try:
        picture = read_picture(photo.path, photo.box if box else None, at_least=(largest, largest))
    except PhotoFileError:
        return []
    made = []
    file_format = "WEBP" if features.check("webp") else "JPEG"
    for look in looks:
        picture.thumbnail((look.size, look.size), Image.Resampling.BICUBIC, reducing_gap=2.0)
        out = io.BytesIO()
        picture.save(out, file_format, quality=look.quality)
        made.append(out.getvalue())
    return made


class PictureFit(NamedTuple):
    """The look of the pictures of a sort, and how many of them there is room for."""

    look: PictureSize
    room: int


def fitting_look(
    photos: Sequence[Sample], looks: Sequence[PictureSize], max_bytes: int, *, box: bool = False
) -> PictureFit:
    """The largest look at which pictures of photos fit, and how many do.

    Args:
        photos: the photos.
        looks: from large to small.
        max_bytes: how many bytes all pictures may take.
        box: whether photos are cut to their boxes.
    """
    step = max(1, len(photos) // _TRIED)
    tried = [small_pictures(photo, looks, box=box) for photo in photos[::step][:_TRIED]]
    for place, look in enumerate(looks):
        sizes = [len(pictures[place]) for pictures in tried if pictures]
        fit = len(photos) if not sizes else int(max_bytes * len(sizes) / sum(sizes))
        if fit >= len(photos):
            return PictureFit(look, len(photos))
    return PictureFit(looks[-1], fit)
