"""From photos to what a lesson keeps: a name, a digest, and scaled features.

These are of the middle of the photo, or of the mean over several views of it if the model was fitted to such.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from finegraph.data.photo_decoding import convert_picture, decode_photo, open_photo
from finegraph.data.photo_parts import part_of, whole
from finegraph.data.samples import Box
from finegraph.errors import PhotoFileError
from finegraph.files.durable import reason_of
from finegraph.inference.numerics import whole_tiles
from finegraph.model.answering.pipeline import PhotoPipeline
from finegraph.model.features.photos import Photo, PhotoInput, photo_inputs
from finegraph.model.teaching.lesson import MAX_NAME, TaughtPhoto
from finegraph.nn.network import Network

_BATCH_SIZE = 32
_SMALL = (8, 8)
"""Pixels that are decoded of a large JPEG to learn its size."""


def taught_photos(pipeline: PhotoPipeline, photos: Sequence[Photo], views: int = 1) -> list[TaughtPhoto]:
    """The photos as lessons keep them.

    Args:
        pipeline: of a network with a scaling.
        photos: paths, pictures or arrays.
        views: how many views of a photo count as one.

    Raises:
        PhotoFileError: a photo that cannot be read.
    """
    items = photo_inputs(photos, None)
    if not items:
        return []
    seen = [_features(pipeline, items)]
    if views > 1:
        frames = [_frame(item) for item in items]
        for view in range(2, views + 1):
            parts = [item._replace(box=part_of(frame, view)) for item, frame in zip(items, frames, strict=True)]
            seen.append(_features(pipeline, parts))
    names = [(photo_name(item.name), photo_digest(item.photo)) for item in items]
    return [TaughtPhoto(*name, *rows) for name, rows in zip(names, kept_features(pipeline.network, seen), strict=True)]


def kept_features(
    network: Network, views: Sequence[Float[torch.Tensor, "batch feature"]]
) -> list[tuple[Float[np.ndarray, " feature"], Float[np.ndarray, " feature"] | None]]:
    """The stored parts of each photo: the features that class means learn from, and those that answers are given by.

    Args:
        network: with a scaling.
        views: the features of the views of photos, first those of the view that answers are given by.
    """
    learnt = scaled_features(network, _mean_view(views))
    answered = scaled_features(network, views[0]) if len(views) > 1 else [None] * len(learnt)
    return list(zip(learnt, answered, strict=True))


def _features(pipeline: PhotoPipeline, items: Sequence[PhotoInput]) -> Float[torch.Tensor, "batch feature"]:
    """The features of photos, or of the boxes in them."""
    batches = [batch.fine[:, 0] for batch in pipeline.extractor.batches(items, _BATCH_SIZE)]
    return torch.cat(batches) if batches else torch.zeros(0, pipeline.network.head.features)


def _mean_view(views: Sequence[Float[torch.Tensor, "batch feature"]]) -> Float[torch.Tensor, "batch feature"]:
    """The features of photos from those of their views."""
    total = views[0]
    for view in views[1:]:
        total = total + view
    return total / len(views) if len(views) > 1 else total


def _frame(item: PhotoInput) -> Box:
    """The whole of a photo, in pixels of the upright picture."""
    if isinstance(item.photo, str | os.PathLike):
        with open_photo(item.photo) as file:
            photo = decode_photo(file, item.photo, at_least=_SMALL)
        return whole((photo.width, photo.height))
    if isinstance(item.photo, np.ndarray):
        return whole((item.photo.shape[1], item.photo.shape[0]))
    return whole(convert_picture(item.photo, item.name).size)


def scaled_features(
    network: Network, features: Float[torch.Tensor, "batch feature"]
) -> Float[np.ndarray, "batch feature"]:
    """Features as the head takes them."""
    assert network.scaling is not None
    with torch.no_grad():
        rows = whole_tiles(features.to(network.head.fine.weight))
        scaled: np.ndarray = network.scaling(rows)[: len(features)].float().cpu().numpy()
    return scaled


def photo_name(path: str) -> str:
    """The name of a file, without its folder, as text that fits into a lesson."""
    name = os.path.basename(path).encode("utf-8", "backslashreplace").decode()
    return name[:MAX_NAME] or "photo"


def photo_digest(photo: Photo) -> str:
    """The SHA-256 of a file, or of the pixels of a picture."""
    if isinstance(photo, str | os.PathLike):
        try:
            return hashlib.sha256(Path(photo).read_bytes()).hexdigest()
        except OSError as error:
            raise PhotoFileError(photo, reason_of(error)) from error
    pixels = np.ascontiguousarray(photo)
    return hashlib.sha256(f"{pixels.shape} {pixels.dtype}\n".encode() + pixels.tobytes()).hexdigest()
