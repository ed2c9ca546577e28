"""From photos, in any form that a caller has, to views for a network.

A photo is a file, an open picture or an array of pixels. Each becomes one view or ten, as the classifier was trained.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeGuard

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from finegraph.data.photo_decoding import convert_picture, decode_photo, read_photo
from finegraph.data.samples import Box, Samples
from finegraph.data.transforms import ViewSettings, make_view
from finegraph.errors import InputError

Photo = str | os.PathLike[str] | Image.Image | UInt8[NDArray[np.uint8], "height width channel"]
"""A file, an open picture, or pixels (height, width, 3) from 0 to 255."""
OnBadFile = Literal["error", "skip"]
Views = Literal[1, 10]
"""1 for the centre, 10 for the centre, the corners and their mirrors."""


class PhotoInput(NamedTuple):
    """A photo to look at: its name, its place, and the part of it that counts."""

    name: str
    photo: Photo
    box: Box | None


def is_one_photo(photos: Photo | Iterable[Photo]) -> TypeGuard[Photo]:
    """Whether this is one photo rather than several."""
    if isinstance(photos, np.ndarray):
        return photos.ndim != 4
    return isinstance(photos, str | os.PathLike | Image.Image)


def photo_inputs(photos: Sequence[Photo], box: Sequence[float] | Sequence[Box | None] | None) -> list[PhotoInput]:
    """The photos with their names and boxes.

    Args:
        photos: files, pictures or arrays.
        box: one box (x, y, width, height) for all photos, or a list with one or None for each.
    """
    boxes = _boxes(box, len(photos))
    return [PhotoInput(_name(photo, number), photo, boxes[number]) for number, photo in enumerate(photos)]


def sample_inputs(samples: Samples, *, box: bool) -> list[PhotoInput]:
    """The photos of a data set.

    Args:
        samples: the photos.
        box: whether they are cut to their boxes.
    """
    return [PhotoInput(str(sample.path), sample.path, sample.box if box else None) for sample in samples]


def read_views(
    photo: PhotoInput, settings: ViewSettings, views: Views = 1, content: bytes | None = None
) -> UInt8[Tensor, "view channel height width"]:
    """The views of one photo.

    Args:
        photo: the photo.
        settings: the sizes.
        views: how many.
        content: what is in its file, if already read.

    Raises:
        PhotoFileError: the photo cannot be read.
        InputError: it is no photo at all.
    """
    if isinstance(photo.photo, str | os.PathLike):
        source = read_photo(photo.photo) if content is None else content
        picture = decode_photo(source, photo.photo, photo.box, at_least=(settings.resize, settings.resize)).picture
    elif isinstance(photo.photo, Image.Image):
        picture = convert_picture(photo.photo, photo.name, photo.box)
    else:
        picture = convert_picture(_picture(photo), photo.name, photo.box)
    return make_view(picture, settings, "ten") if views == 10 else make_view(picture, settings, "centre").unsqueeze(0)


def _picture(photo: PhotoInput) -> Image.Image:
    """An array as a picture."""
    array = photo.photo
    if not isinstance(array, np.ndarray):
        raise InputError(
            f"{photo.name}: expected a path, a PIL image or a numpy array of pixels, got {type(array).__name__}"
        )
    if array.ndim != 3 or array.shape[2] != 3 or not array.size or array.dtype != np.uint8:
        raise InputError(
            f"{photo.name}: expected pixels of shape (height, width, 3) and type uint8, red, green, blue from 0 to "
            f"255, got shape {array.shape} and type {array.dtype}"
        )
    return Image.fromarray(np.ascontiguousarray(array))


def _name(photo: Photo, number: int) -> str:
    """What a photo is called in answers and messages."""
    if isinstance(photo, str | os.PathLike):
        return os.fspath(photo)
    file = getattr(photo, "filename", "")
    return os.fspath(file) if isinstance(file, str | os.PathLike) and file else f"photo {number + 1}"


def _boxes(box: Sequence[float] | Sequence[Box | None] | None, count: int) -> list[Box | None]:
    """A box or None for each photo."""
    if box is None:
        return [None] * count
    if len(box) == 4 and all(_is_number(side) for side in box):
        return [_box(box)] * count
    if len(box) != count:
        raise InputError(
            f"box: expected x, y, width and height, or a list with one box or None for each of {count} photos, "
            f"got {len(box)} entries"
        )
    return [None if one is None else _box(one) for one in box]


def _box(value: object) -> Box:
    """A box from four numbers."""
    if not isinstance(value, Sequence) or len(value) != 4 or not all(_is_number(side) for side in value):
        raise InputError(f"box: expected the four numbers x, y, width and height, got {value!r}")
    box = Box(*map(float, value))
    if not all(map(np.isfinite, box)) or box.width <= 0 or box.height <= 0:
        raise InputError(f"box: expected finite numbers and a width and height above 0, got {tuple(value)}")
    return box


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
