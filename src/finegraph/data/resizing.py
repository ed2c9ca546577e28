"""The size that views are cut from, and the middle of it: the first steps of every transform, on pictures alone.

It stands apart so that a process that only decodes photos, such as a worker of the server, makes the very same picture
without loading torch. Cost: one resampling.
"""

from __future__ import annotations

from PIL import Image

FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
"""How pixels may be blended, by name."""
MAX_STRETCH = 8
"""A picture that is longer than this many times its width is squeezed; a strip of one pixel would fill the memory."""


def resized(picture: Image.Image, resize: int, *, keep_shape: bool, interpolation: str) -> Image.Image:
    """A picture in the size that views are cut from; see `ViewSettings` for the arguments."""
    size = (resize, resize)
    if keep_shape:
        scale = resize / min(picture.size)
        max_side = resize * MAX_STRETCH
        width, height = (min(max(resize, round(side * scale)), max_side) for side in picture.size)
        size = (width, height)
    return picture if picture.size == size else picture.resize(size, FILTERS[interpolation])


def middle(picture: Image.Image, size: int) -> Image.Image:
    """The square in the middle, which is `centre_view` for a picture."""
    left, top = ((side - size) // 2 for side in picture.size)
    return picture.crop((left, top, left + size, top + size))
