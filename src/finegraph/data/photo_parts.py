"""The parts of a photo that are looked at beside its middle, if several views of it count as one photo.

    view 1      the middle of the photo, which is what a model sees when it is asked
    views 2-5   the middle of its upper left, lower right, upper right and lower left part

A part is a box, so a part is read, cut and resized like any photo with a box.
"""

from __future__ import annotations

from finegraph.data.samples import Box

CORNERS = ((0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.0, 1.0))
"""Where parts lie, from 0 for left or top to 1 for right or bottom, in the order in which they are taken."""
MAX_VIEWS = 1 + len(CORNERS)
SIDE = 0.75
"""The width of a part as a share of that of the photo; the height alike."""


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
