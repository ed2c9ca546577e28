"""The camera: where it stands, what it cuts off, and what it does to light.

Photos of the restaurants themselves differ a little in view, zoom, sharpness, noise, exposure and white balance. Wild
photos come from other cameras: far more of all that, cut off anywhere, with filters, and saved with fewer bits.

Cost: about five milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter

from finegraph.data.menu.chance import chance
from finegraph.data.menu.scene import SIDE as SCENE_SIDE

PIXELS = 256
"""Pixels of a photo along a side."""


@dataclass(frozen=True)
class Camera:
    """How much photos of one kind differ; each number is a spread, or a range.

    Attributes:
        zoom: how much of the scene is seen, in pixels of the scene: least and most.
        shift: how far from the middle, in pixels of the scene.
        turn: how far it is turned, in radians.
        lean: how uneven the corners are, in pixels of the scene.
        exposure: how much brightness differs, as a factor.
        warmth: how much white balance differs.
        contrast: how much contrast differs.
        blur: the largest blur, in pixels.
        noise: the strongest noise, in grey levels.
        filters: how often a filter is laid over the photo.
    """

    zoom: tuple[float, float]
    shift: float
    turn: float
    lean: float
    exposure: float
    warmth: float
    contrast: float
    blur: float
    noise: float
    filters: float = 0.0


CONTROLLED = Camera((182, 322), 21, 0.32, 17, 0.18, 0.065, 0.13, 1.8, 9)
WILD = Camera((140, 352), 42, 0.7, 34, 0.26, 0.11, 0.2, 2.4, 11, 0.8)


def take(scene: Image.Image, camera: Camera, exposure: float, random: np.random.Generator) -> Image.Image:
    """Take a photo of a scene; `exposure` is how bright the place's photos usually are."""
    photo = _framed(scene, camera, random)
    if random.random() < camera.filters:
        photo = _filtered(photo, random)
    photo = _developed(photo, camera, exposure, random)
    blur = random.uniform(0, camera.blur)
    if blur > 0.35:
        photo = photo.filter(ImageFilter.BoxBlur(blur * 0.8))
    return _noisy(photo, random.uniform(0.15, 1) * camera.noise, random)


def _framed(scene: Image.Image, camera: Camera, random: np.random.Generator) -> Image.Image:
    """Choose what is seen of the scene: an uneven square, turned and moved."""
    half = random.uniform(*camera.zoom) / 2
    turn = random.normal(0, camera.turn)
    middle = SCENE_SIDE / 2 + np.clip(random.normal(0, camera.shift, 2), -0.5 * half, 0.5 * half)
    corners = []
    for x, y in ((-1, -1), (-1, 1), (1, 1), (1, -1)):
        lean = random.uniform(-camera.lean, camera.lean, 2)
        px = middle[0] + half * (x * np.cos(turn) - y * np.sin(turn)) + lean[0]
        py = middle[1] + half * (x * np.sin(turn) + y * np.cos(turn)) + lean[1]
        corners += [min(max(px, 0), SCENE_SIDE - 1), min(max(py, 0), SCENE_SIDE - 1)]
    return scene.transform((PIXELS, PIXELS), Image.Transform.QUAD, corners, Image.Resampling.BILINEAR)


def _developed(photo: Image.Image, camera: Camera, exposure: float, random: np.random.Generator) -> Image.Image:
    """Exposure, white balance and contrast, as one table per colour."""
    gain = exposure * np.exp(random.normal(0, camera.exposure))
    warm, tint = random.normal(0, camera.warmth, 2)
    contrast = 1.06 + random.normal(0, camera.contrast)
    levels = np.arange(256, dtype=np.float32)
    tables = []
    for factor in (1 + warm, 1 + tint * 0.5, 1 - warm):
        bright = levels * gain * factor
        soft = np.where(bright > 190, 190 + 65 * (1 - np.exp(-(bright - 190) / 65)), bright)
        tables += np.clip((soft - 118) * contrast + 118, 0, 255).astype(int).tolist()
    return photo.point(tables)


def _filtered(photo: Image.Image, random: np.random.Generator) -> Image.Image:
    """One of the filters that people lay over photos."""
    choice = int(random.integers(4))
    if choice == 0:
        return ImageEnhance.Color(photo).enhance(random.uniform(1.4, 2.0))
    if choice == 1:
        return ImageEnhance.Color(photo).enhance(random.uniform(0.25, 0.65))
    if choice == 2:
        wash: tuple[tuple[int, int, int], ...] = ((255, 214, 150), (160, 190, 255), (255, 170, 190))
        return Image.blend(
            photo, Image.new("RGB", photo.size, wash[int(random.integers(3))]), random.uniform(0.1, 0.26)
        )
    return Image.composite(photo, Image.new("RGB", photo.size, (8, 6, 10)), _vignette())


@lru_cache(maxsize=1)
def _vignette() -> Image.Image:
    line = ((np.arange(PIXELS) + 0.5) / PIXELS * 2 - 1).astype(np.float32)
    fall = np.clip(1.45 - np.hypot(line[None, :], line[:, None]) * 0.85, 0, 1)
    return Image.fromarray((fall * 255).astype(np.uint8))


@lru_cache(maxsize=1)
def _grain() -> NDArray[np.int16]:
    """Noise to take parts of: drawing it again for each photo would take longer than all the rest."""
    random = chance("grain")
    side = 2 * PIXELS
    fine = random.normal(0, 64, (side, side, 3))
    grey = random.normal(0, 64, (side, side, 1))
    return (fine * 0.6 + grey * 0.8).astype(np.int16)


def _noisy(photo: Image.Image, strength: float, random: np.random.Generator) -> Image.Image:
    """Add the noise of a sensor."""
    x, y = random.integers(0, PIXELS, 2).tolist()
    part = _grain()[y : y + PIXELS, x : x + PIXELS]
    levels = np.asarray(photo, dtype=np.int16) + ((part * np.int16(round(strength * 4))) >> 8)
    return Image.fromarray(np.clip(levels, 0, 255).astype(np.uint8))
