"""How small pictures must be so that a page with all of them stays small.

Pictures get as many bytes as their sort has on a page: small ones of all photos, close ones of those answered wrongly,
and training photos. A few photos are saved at each look of a ladder, and the largest look is taken at which all of them
are expected to fit; where even the smallest does not, as many pictures as fit are kept. So ten photos are shown large
and ten thousand still make a page that opens at once. Cost: a few dozen photos are decoded once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from finegraph.data.samples import Sample
from finegraph.evaluation.photo_pack import Look, small_pictures

SMALL_BYTES, CLOSE_BYTES, TRAINING_BYTES = 1_500_000, 2_500_000, 1_000_000
"""What each sort of pictures has on a page, which holds three bytes in four letters: 6.7 MB together."""
SMALL_LOOKS = (Look(160, 60), Look(128, 50), Look(112, 45), Look(96, 40), Look(80, 35), Look(72, 30), Look(64, 30))
CLOSE_LOOKS = (Look(480, 60), Look(384, 55), Look(320, 50), Look(256, 45), Look(224, 40), Look(192, 38))
TRAINING_LOOKS = (Look(320, 55), Look(256, 50), Look(224, 45), Look(192, 40))
_TRIED = 32
"""How many photos are saved to see how many bytes a look takes."""


class Fit(NamedTuple):
    """The look of the pictures of a sort, and how many of them there is room for."""

    look: Look
    room: int


def fitting_look(photos: Sequence[Sample], looks: Sequence[Look], max_bytes: int, *, box: bool = False) -> Fit:
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
            return Fit(look, len(photos))
    return Fit(looks[-1], fit)
