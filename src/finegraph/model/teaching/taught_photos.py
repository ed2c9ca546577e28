"""Photos to what a lesson keeps of them: a name, a digest, and scaled features of the centre of the photo."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from finegraph.errors import PhotoFileError
from finegraph.files.durable import reason_of
from finegraph.inference.numerics import whole_tiles
from finegraph.model.answering.pipeline import PhotoPipeline
from finegraph.model.features.photos import Photo, photo_inputs
from finegraph.model.teaching.lesson import MAX_NAME, TaughtPhoto
from finegraph.nn.network import Network

_AT_ONCE = 32


def taught_photos(pipeline: PhotoPipeline, photos: Sequence[Photo]) -> list[TaughtPhoto]:
    """What lessons keep of photos.

    Args:
        pipeline: of a network with a scaling.
        photos: paths, pictures or arrays.

    Raises:
        PhotoFileError: a photo that cannot be read.
    """
    items = photo_inputs(photos, None)
    rows: list[np.ndarray] = []
    for batch in pipeline.extractor.batches(items, _AT_ONCE):
        rows.extend(scaled_features(pipeline.network, batch.fine[:, 0]))
    return [TaughtPhoto(photo_name(item.name), _digest(item.photo), row) for item, row in zip(items, rows, strict=True)]


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


def _digest(photo: Photo) -> str:
    """The SHA-256 of a file, or of the pixels of a picture."""
    if isinstance(photo, str | os.PathLike):
        try:
            return hashlib.sha256(Path(photo).read_bytes()).hexdigest()
        except OSError as error:
            raise PhotoFileError(photo, reason_of(error)) from error
    pixels = np.ascontiguousarray(photo)
    return hashlib.sha256(f"{pixels.shape} {pixels.dtype}\n".encode() + pixels.tobytes()).hexdigest()
