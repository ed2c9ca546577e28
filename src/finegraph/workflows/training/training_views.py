"""Several views of each training photo that count as one photo: its middle, and parts of it (data/photo_parts.py).

A photo shows its object in one place and one size. The mean of the features of several views depends less on both, so
that few photos say more about their class. A part is the photo with a box: it is read, cut and stored like any photo.

Cost: the features of as many photos as there are views, while training; a trained model is as quick as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from finegraph.data.photo_decoding import decode_photo, open_photo
from finegraph.data.photo_parts import part_of, whole
from finegraph.data.samples import Box, Sample, Samples
from finegraph.model.features import Features

_SMALL = (8, 8)
"""Pixels that are decoded of a large JPEG to learn its size."""


def view_parts(samples: Samples, views: int, *, box: bool) -> list[dict[Sample, int]]:
    """For each view but the first the photos with a part as their box, and which of the samples each of them is.

    Args:
        samples: photos that can be read.
        views: how many views there are.
        box: whether the first view is of the photos' own boxes; parts are then parts of these.
    """
    if views == 1:
        return []
    frames = [_frame(sample, box) for sample in samples]
    return [
        {replace(sample, box=part_of(frames[number], view)): number for number, sample in enumerate(samples)}
        for view in range(2, views + 1)
    ]


def mean_of_views(first: Features, parts: Sequence[tuple[dict[Sample, int], Features]]) -> Features:
    """The features of photos, averaged over their views, and those of each view.

    Args:
        first: the features of the first view.
        parts: for each other view what `view_parts` gives, and the features of those that could be read.
    """
    if not parts:
        return first
    fine, coarse = first.fine.clone(), None if first.coarse is None else first.coarse.clone()
    views = fine[:, None].repeat(1, len(parts) + 1, 1)  # the photo itself stands for a part that could not be read
    seen = torch.ones(len(fine), 1, dtype=fine.dtype)
    for number, (number_of, part_features) in enumerate(parts, start=1):
        rows = torch.tensor([number_of[sample] for sample in part_features.samples], dtype=torch.int64)
        views[rows, number] = part_features.fine
        fine.index_add_(0, rows, part_features.fine)
        seen.index_add_(0, rows, torch.ones(len(rows), 1, dtype=seen.dtype))
        if coarse is not None and part_features.coarse is not None:
            coarse.index_add_(0, rows, part_features.coarse)
    notes = (note for one in (first, *(part_features for _, part_features in parts)) for note in one.notes)
    return replace(
        first,
        fine=fine / seen,
        coarse=None if coarse is None else coarse / seen,
        notes=tuple(dict.fromkeys(notes)),
        views=views,
    )


def _frame(sample: Sample, box: bool) -> Box:
    """The whole photo, or the part of its box inside the photo."""
    with open_photo(sample.path) as file:
        photo = decode_photo(file, sample.path, at_least=_SMALL)
    if not box or sample.box is None:
        return whole((photo.width, photo.height))
    sample_box = sample.box
    left, top = max(0.0, sample_box.x), max(0.0, sample_box.y)
    right, bottom = (
        min(photo.width, sample_box.x + sample_box.width),
        min(photo.height, sample_box.y + sample_box.height),
    )
    return Box(left, top, right - left, bottom - top)
