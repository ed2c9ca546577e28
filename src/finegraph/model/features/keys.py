"""The keys of stored features: of the content of the photo, and of everything else that its features depend on.

Names and times of files are not part of it. A copy, a renamed photo, or the same photo in another layout has the same
features; a photo that was changed in place has others, even if its size and time stayed. Trusting size and time would
save reading the file, which takes a tenth of a millisecond for a photo of ordinary size, a hundredth of the time for
its features; but copying tools set times back, and features of another photo would be a silent error.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from finegraph.data.samples import Box
from finegraph.data.transforms import View, ViewSettings
from finegraph.nn.backbones import Backbone

VERSION = 1
"""Raise it when the same settings come to mean other features: another way to decode or resize, or other layers."""
KEY_SIZE = 16


def photo_key(content: bytes, box: Box | None) -> bytes:
    """The key of a photo.

    Args:
        content: the bytes of its file.
        box: the part of it that is used; None for all.
    """
    return _ended(_begun(content, box is not None), box)


class PhotoKeys:
    """The keys of a photo for any box, `photo_key` of each; the content is read once and not kept."""

    def __init__(self, content: bytes) -> None:
        self.whole = photo_key(content, None)
        self._boxed = _begun(content, True)

    def of(self, box: Box) -> bytes:
        """The key of a part of the photo."""
        return _ended(self._boxed.copy(), box)


def _begun(content: bytes, boxed: bool) -> hashlib.blake2b:
    return hashlib.blake2b(content, digest_size=KEY_SIZE, person=b"box" if boxed else b"")


def _ended(key: hashlib.blake2b, box: Box | None) -> bytes:
    if box is not None:
        key.update(struct.pack("<4d", *box))
    return key.digest()


def features_key(backbone: Backbone, views: ViewSettings, view: View) -> str:
    """The key of everything else: the network with its weights, and how photos are cut and scaled for it.

    Dropout is left out, which does nothing here, and so is whether boxes are used, which is part of each photo's key.
    """
    settings = {name: value for name, value in asdict(views).items() if name != "box"}
    means = {name: getattr(backbone.preprocessing, name) for name in ("mean", "std")}
    facts = {"version": VERSION, "view": view, **settings, **means, "layers": _layers(backbone)}
    key = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=KEY_SIZE)
    for name, tensor in backbone.state_dict().items():
        key.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        key.update(_bytes(tensor).data)
    return key.hexdigest()


def _layers(backbone: Backbone) -> list[str]:
    """The structure of the network without its weights: each module's name, type and settings."""
    return [
        f"{name} {type(module).__module__}.{type(module).__qualname__} {module.extra_repr()}"
        for name, module in backbone.named_modules()
        if not isinstance(module, nn.modules.dropout._DropoutNd)
    ]


def _bytes(tensor: Tensor) -> NDArray[np.uint8]:
    """The numbers of a tensor in memory, also of formats that numpy does not know."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    numbers: NDArray[np.uint8] = flat.view(torch.uint8).numpy()
    return numbers
