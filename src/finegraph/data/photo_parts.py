"""Where views are cut from: the size of the picture, its middle, and its parts beside the middle.

    view 1      the middle of the photo, which is what a model sees when it is asked
    views 2-5   the middle of its upper left, lower right, upper right and lower left part

A part is a box, so a part is read, cut and resized like any photo with a box. Everything here works on pictures alone,
so that a process that only decodes photos, such as a worker of the server, makes the very same picture without loading
torch. Cost: one resampling.
"""

from __future__ import annotations

from PIL import Image

from finegraph.data.samples import Box

CORNERS = ((0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.0, 1.0))
"""Where parts lie, from 0 for left or top to 1 for right or bottom, in the order in which they are taken."""
MAX_VIEWS = 1 + len(CORNERS)
SIDE = 0.75
"""The width of a part as a share of that of the photo; the height alike."""
FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
"""How pixels may be blended, by name."""
MAX_STRETCH = 8
"""A picture that is longer than this many times its width is squeezed; a strip of one pixel would fill the memory."""


def part_of(frame: Box, view: int) -> Box:
    """The part of a frame that a view shows.

    Args:
        frame: the whole photo, or the box that is meant.
        view: from 2 to `MAX_VIEWS`.
    """
    across, down = CORNERS[view - 2]
    width, height = SIDE * frame.width, SIDE * frame.height
    return Box(frame.x + across * (frame.width - width), frame.y + down * (frame.height - height), width, height)


def whole(size: tuple[int, int]) -> Box:
    """The frame of a whole photo of a width and a height."""
    return Box(0.0, 0.0, float(size[0]), float(size[1]))


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
