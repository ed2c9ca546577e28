"""From a picture to the views of a network, as in the paper, with the sizes as settings.

    resize    to 256 x 256 whatever the shape was, so that nothing is cut away
    train     a random part of 224 x 224, mirrored half of the time; or, beyond the paper, a part of random size and
              shape, brought to 224 x 224
    centre    the middle 224 x 224
    ten       the middle and the four corners, then the mirrors of these five

Views are uint8 tensors (channel, height, width), which are quick to copy and to send to a GPU; the network
makes its floats of a whole batch, where it runs. Chance is drawn from (seed, epoch, index), never from global state, so
a sample is cut alike in any order, in any number of workers, and after resuming.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from finegraph.data.photo_parts import FILTERS, resized
from finegraph.errors import InputError, unknown_name

View = Literal["train", "centre", "ten"]


@dataclass(frozen=True, kw_only=True)
class ViewSettings:
    """How pictures are cut and scaled for a network."""

    resize: int = 256
    """Width and height to which a picture is squeezed; with `keep_shape`, the shorter of the two."""
    size: int = 224
    """Width and height of a view, cut from that."""
    keep_shape: bool = False
    """Whether a picture keeps its shape when it is resized; then the middle and the corners may miss its ends."""
    box: bool = False
    """Whether the picture is first cut to the box of its sample, if it has one."""
    interpolation: str = "bilinear"
    """How pixels are blended when resizing: bilinear or bicubic."""

    def __post_init__(self) -> None:
        for name in ("resize", "size"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise InputError(f"{name} must be a number of pixels, 1 or more, got {getattr(self, name)!r}")
        if self.size > self.resize:
            raise InputError(f"size must be at most resize, {self.resize} pixels, got {self.size}")
        if self.interpolation not in FILTERS:
            raise unknown_name("interpolation", self.interpolation, tuple(FILTERS))


def sample_random(seed: int, epoch: int, index: int) -> np.random.Generator:
    """The chance of one sample in one epoch."""
    return np.random.default_rng((seed, epoch, index))


def resize_picture(picture: Image.Image, settings: ViewSettings) -> UInt8[Tensor, "channel height width"]:
    """A picture in the size that views are cut from."""
    picture = resized(picture, settings.resize, keep_shape=settings.keep_shape, interpolation=settings.interpolation)
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()


def random_view(
    pixels: UInt8[Tensor, "channel height width"], size: int, random: np.random.Generator
) -> UInt8[Tensor, "channel size size"]:
    """A part of the picture at a random place, mirrored half of the time."""
    top, left = (int(random.integers(0, side - size + 1)) for side in pixels.shape[1:])
    view = pixels[:, top : top + size, left : left + size]
    return view.flip(2) if random.integers(2) else view.contiguous()


def random_part(
    picture: Image.Image, settings: ViewSettings, least: float, random: np.random.Generator
) -> UInt8[Tensor, "channel size size"]:
    """A part of the picture of random place, size and shape, mirrored half of the time.

    Args:
        picture: RGB.
        settings: the size of the view, and how pixels are blended.
        least: the smallest share of the picture's area that the part may have.
        random: the seed of random choices.
    """
    share = random.uniform(least, 1.0)
    stretch = np.exp(random.uniform(-1.0, 1.0) * np.log(4 / 3) / 2)
    width, height = (min(np.sqrt(share) * factor, 1.0) for factor in (stretch, 1 / stretch))
    left, top = random.uniform(0, 1 - width), random.uniform(0, 1 - height)
    box = (left * picture.width, top * picture.height, (left + width) * picture.width, (top + height) * picture.height)
    part = picture.resize((settings.size, settings.size), FILTERS[settings.interpolation], box=box)
    view = torch.from_numpy(np.array(part)).permute(2, 0, 1)
    return (view.flip(2) if random.integers(2) else view).contiguous()


def centre_view(pixels: UInt8[Tensor, "channel height width"], size: int) -> UInt8[Tensor, "channel size size"]:
    """The middle of the picture."""
    top, left = ((side - size) // 2 for side in pixels.shape[1:])
    return pixels[:, top : top + size, left : left + size].contiguous()


def ten_views(pixels: UInt8[Tensor, "channel height width"], size: int) -> UInt8[Tensor, "10 channel size size"]:
    """The middle, the corners (upper left, upper right, lower left, lower right), and the mirrors of these five."""
    height, width = pixels.shape[1:]
    corners = [(0, 0), (0, width - size), (height - size, 0), (height - size, width - size)]
    views = [pixels[:, top : top + size, left : left + size] for top, left in corners]
    five = torch.stack([centre_view(pixels, size), *views])
    return torch.cat([five, five.flip(3)])


def make_view(
    picture: Image.Image, settings: ViewSettings, view: View, random: np.random.Generator | None = None
) -> UInt8[Tensor, "*view channel size size"]:
    """The view or views of a picture by name.

    Args:
        picture: RGB, already cut to its box if it is to be.
        settings: the sizes.
        view: "train" for a random view, "centre" for one, "ten" for ten.
        random: where the chance of "train" comes from; see `sample_random`.
    """
    pixels = resize_picture(picture, settings)
    if view == "train":
        if random is None:
            raise InputError("a random view needs a generator of random numbers; make one with sample_random")
        return random_view(pixels, settings.size, random)
    if view == "centre":
        return centre_view(pixels, settings.size)
    if view == "ten":
        return ten_views(pixels, settings.size)
    raise InputError(f"view must be 'train', 'centre' or 'ten', got {view!r}")
