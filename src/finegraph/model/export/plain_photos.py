"""How far plain Pillow and finegraph differ in preparing photos; and pictures to draw if there are no photos.

Resizing and cutting stay outside of an exported file. Whoever runs it does them with a library of their own, and
finegraph itself decodes large JPEGs at a fraction of their size, which is quicker and gives slightly other pixels. How
much that moves the answers is measured on the same photos and reported beside the check, never mixed with it.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageOps

from finegraph.data.resizing import resized
from finegraph.data.transforms import ViewSettings
from finegraph.model.export import export_names as names
from finegraph.model.export.runners import Answers, Images


@dataclass(frozen=True)
class PlainDifference:
    """How far plain preprocessing is from finegraph's, on the same photos.

    Attributes:
        mean_pixel: the mean difference of a pixel, of 255.
        largest_pixel: the largest one.
        probability: the largest difference of the probability of a fine label.
        other_answers: how many photos get another most probable fine label.
    """

    mean_pixel: float
    largest_pixel: int
    probability: float
    other_answers: int


def plain_view(path: str | os.PathLike[str], views: ViewSettings) -> UInt8[Images, "height width channel"]:
    """The view of a photo as one writes it with Pillow alone, every pixel decoded: (height, width, 3).

    Raises:
        Exception: of any kind, for photos that finegraph reads and Pillow alone does not: very large ones, or such with
            broken EXIF data.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # not a warning for the user of export
        with Image.open(path) as file:
            picture = ImageOps.exif_transpose(file).convert("RGB")
    picture = resized(picture, views.resize, keep_shape=views.keep_shape, interpolation=views.interpolation)
    left, top = ((side - views.size) // 2 for side in picture.size)
    return np.array(picture.crop((left, top, left + views.size, top + views.size)))


def plain_difference(
    ours: UInt8[Images, "batch height width channel"],
    plain: UInt8[Images, "batch height width channel"],
    our_answers: Answers,
    plain_answers: Answers,
) -> PlainDifference:
    """How far two ways to prepare the same photos are apart."""
    pixels = np.abs(ours.astype(np.int16) - plain.astype(np.int16))
    one, two = our_answers[names.LOG_PROBS], plain_answers[names.LOG_PROBS]
    return PlainDifference(
        mean_pixel=float(pixels.mean()),
        largest_pixel=int(pixels.max()),
        probability=float(np.abs(np.exp(one) - np.exp(two)).max()),
        other_answers=int((one.argmax(axis=1) != two.argmax(axis=1)).sum()),
    )


def drawn_pictures(count: int) -> list[Image.Image]:
    """Pictures of coloured shapes on a shaded ground with noise, the same every time."""
    random = np.random.default_rng(0)
    return [_draw(random) for _ in range(count)]


def _draw(random: np.random.Generator) -> Image.Image:
    width, height = (int(side) for side in random.integers(200, 500, 2))
    corners = Image.fromarray(random.integers(0, 256, (3, 3, 3), dtype=np.uint8))
    picture = corners.resize((width, height), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(picture)
    for _ in range(int(random.integers(3, 9))):
        across, down = (np.sort(random.integers(0, side, 2)).tolist() for side in (width, height))
        colour = tuple(int(value) for value in random.integers(0, 256, 3))
        shape = pen.ellipse if random.random() < 0.5 else pen.rectangle
        shape((across[0], down[0], across[1], down[1]), fill=colour)
    noise = random.normal(0, 12, (height, width, 3))
    return Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))
