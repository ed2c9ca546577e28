"""Several views of each training photo that count as one photo.

    view 1      the middle of the photo, which is what a model sees when it is asked
    views 2-5   the middle of its upper left, lower right, upper right and lower left part

A photo shows its object in one place and one size. The mean of the features of several views depends less on both, so
that few photos say more about their class. A part is the photo with a box: it is read, cut and stored like any photo.

Cost: the features of as many photos as there are views, while training; a trained model is as quick as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from finegraph.data.photo_decoding import decode_photo, open_photo
from finegraph.data.samples import Box, Sample, Samples
from finegraph.model.features import Features

CORNERS = ((0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.0, 1.0))
"""Where parts lie, from 0 for left or top to 1 for right or bottom, in the order in which they are taken."""
MAX_VIEWS = 1 + len(CORNERS)
SIDE = 0.75
"""The width of a part as a share of that of the photo; the height alike."""
_SMALL = (8, 8)
"""Pixels that are decoded of a large JPEG to learn its size."""


def parts_of(samples: Samples, views: int, *, box: bool) -> list[dict[Sample, int]]:
    """For each view but the first the photos with a part as their box, and which of the samples each of them is.

    Args:
        samples: photos that can be read.
        views: how many views there are.
        box: whether the first view is of the photos' own boxes; parts are then parts of these.
    """
    if views == 1:
        return []
    frames = [_frame(one, box) for one in samples]
    return [
        {replace(one, box=_part(frames[number], corner)): number for number, one in enumerate(samples)}
        for corner in CORNERS[: views - 1]
    ]


def mean_of_views(first: Features, parts: Sequence[tuple[dict[Sample, int], Features]]) -> Features:
    """The features of photos, averaged over their views.

    Args:
        first: the features of the first view.
        parts: for each other view what `parts_of` gives, and the features of those that could be read.
    """
    fine, coarse = first.fine.clone(), None if first.coarse is None else first.coarse.clone()
    seen = torch.ones(len(fine), 1, dtype=fine.dtype)
    for number_of, found in parts:
        rows = torch.tensor([number_of[sample] for sample in found.samples], dtype=torch.int64)
        fine.index_add_(0, rows, found.fine)
        seen.index_add_(0, rows, torch.ones(len(rows), 1, dtype=seen.dtype))
        if coarse is not None and found.coarse is not None:
            coarse.index_add_(0, rows, found.coarse)
    notes = (note for one in (first, *(found for _, found in parts)) for note in one.notes)
    return replace(
        first,
        fine=fine / seen,
        coarse=None if coarse is None else coarse / seen,
        notes=tuple(dict.fromkeys(notes)),
    )


def _frame(sample: Sample, box: bool) -> Box:
    """The whole photo, or the part of its box inside the photo."""
    with open_photo(sample.path) as file:
        photo = decode_photo(file, sample.path, at_least=_SMALL)
    if not box or sample.box is None:
        return Box(0.0, 0.0, float(photo.width), float(photo.height))
    own = sample.box
    left, top = max(0.0, own.x), max(0.0, own.y)
    right, bottom = min(photo.width, own.x + own.width), min(photo.height, own.y + own.height)
    return Box(left, top, right - left, bottom - top)


def _part(frame: Box, corner: tuple[float, float]) -> Box:
    width, height = SIDE * frame.width, SIDE * frame.height
    left = frame.x + corner[0] * (frame.width - width)
    return Box(left, frame.y + corner[1] * (frame.height - height), width, height)
