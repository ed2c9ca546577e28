"""The input of a network: the size of photos, how they are resized, and how pixels are normalised.

Wrong preprocessing spoils a network's answers, so each network carries its own, and the two are saved together.
Pixels are scaled to 0..1, then `(x - mean) / std` per channel. EfficientNet-Lite's rule, (pixel - 127) / 128, is the
same formula with a mean of 127 / 255 and a std of 128 / 255.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from finegraph.errors import InputError, refuse_unknown, unknown_name

INTERPOLATIONS = ("bilinear", "bicubic")
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """The input of a network. `dataclasses.asdict` gives its JSON form; `from_dict` is the inverse.

    Example:
        >>> Preprocessing(size=224, resize=256).normalise(torch.zeros(1, 3, 224, 224, dtype=torch.uint8)).shape
        torch.Size([1, 3, 224, 224])
    """

    size: int
    """Height and width of the view that goes into the network."""
    resize: int
    """The shorter side that the photo is resized to before the view is cut out; at least `size`."""
    mean: tuple[float, float, float] = IMAGENET_MEAN
    """Per channel (red, green, blue), of pixels from 0 to 1."""
    std: tuple[float, float, float] = IMAGENET_STD
    """Per channel, of pixels from 0 to 1."""
    interpolation: str = "bilinear"
    """How the photo is resized: one of `INTERPOLATIONS`, always smoothing when it shrinks, as Pillow does."""

    def __post_init__(self) -> None:
        if self.size < 1 or self.resize < self.size:
            raise InputError(
                f"preprocessing: expected size >= 1 and resize >= size, got size {self.size} and resize {self.resize}"
            )
        if self.interpolation not in INTERPOLATIONS:
            raise unknown_name("interpolation", self.interpolation, INTERPOLATIONS)
        if len(self.mean) != 3 or len(self.std) != 3 or not all(value > 0 for value in self.std):
            raise InputError(
                "preprocessing: expected a mean and a positive std for each of 3 channels, "
                f"got {self.mean} and {self.std}"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocessing:
        """From the JSON form. All names are required and no others allowed: a default would silently spoil answers."""
        names = [field.name for field in fields(cls)]
        refuse_unknown("setting", values, names, "of the preprocessing")
        missing = [name for name in names if name not in values]
        if missing:
            raise InputError(f"preprocessing: expected the settings {', '.join(names)}; missing: {', '.join(missing)}")
        whole = all(type(values[name]) is int for name in ("size", "resize"))
        if not whole or not all(_is_triple(values[name]) for name in ("mean", "std")):
            raise InputError("preprocessing: expected whole numbers for size and resize, lists of 3 for mean and std")
        triples = {name: tuple(map(float, values[name])) for name in ("mean", "std")}
        return cls(**{**values, **triples})

    def at(self, size: int) -> Preprocessing:
        """The same for views of another size; `resize` keeps its ratio to `size`.

        Example:
            >>> Preprocessing(size=224, resize=256).at(112).resize
            128
        """
        return replace(self, size=size, resize=max(size, round(self.resize * size / self.size)))

    def normalise(
        self, pixels: UInt8[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch channel height width"]:
        """Normalise pixels from 0 to 255 for the network. Keeps device and memory format."""
        if pixels.dtype != torch.uint8:
            raise InputError(f"pixels: expected whole numbers 0..255 of type torch.uint8, got {pixels.dtype}")
        images = pixels.to(torch.float32)
        mean = torch.tensor([255 * value for value in self.mean], device=pixels.device)
        std = torch.tensor([255 * value for value in self.std], device=pixels.device)
        return images.sub_(mean[:, None, None]).div_(std[:, None, None])


def _is_triple(values: object) -> bool:
    return (
        isinstance(values, list | tuple)
        and len(values) == 3
        and all(isinstance(value, int | float) for value in values)
    )
